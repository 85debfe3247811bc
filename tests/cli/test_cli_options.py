"""Options of the commands: what a user may type, and the sentence for each mistake."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tailmask.cli import main
from tailmask.cli.app import COMMANDS, app
from tailmask.data import DataOptions
from tailmask.runs import Setting


def parse(*words: str) -> dict[str, Any]:
    """The arguments that a command's function would be called with."""
    _, bound, _ = app.parse_args(words)
    return {**bound.arguments}


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The sentence for a command line that must be refused."""
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


def test_every_kind_of_option() -> None:
    words = (
        "compare d.csv --methods bce plm+focal --seeds 2 -o f --set a=1 b=2 --list --tune rate "
        "--rho 10 --no-download --budget=0.5"
    )
    assert parse(*words.split()) == {
        "data": "d.csv",
        "methods": ["bce", "plm+focal"],
        "seeds": 2,
        "out": Path("f"),
        "fields": ["a=1", "b=2"],
        "only_list": True,
        "tune": "rate",
        "budget": 0.5,
        "options": DataOptions(rho=10.0, download=False),
    }


def test_arguments_may_be_left_out_or_many() -> None:
    assert parse("compare") == {}
    assert parse("report", "a", "b") == {"runs": (Path("a"), Path("b"))}
    assert parse("report", "a", "--", "-odd") == {"runs": (Path("a"), Path("-odd"))}


def test_thresholds_are_a_word_or_a_number() -> None:
    words = ["predict", "r", "x", "--out", "f", "--thresholds"]
    assert parse(*words, "tuned")["thresholds"] == "tuned"
    assert parse(*words, "0.25")["thresholds"] == 0.25


@pytest.mark.parametrize("word", ["#id", "null", "None", "a #b", "[a]", "{a: 1}", '["a"]', '{"a": 1}'])
def test_texts_and_paths_are_taken_as_they_are_typed(word: str) -> None:
    taken = parse("train", word, "--out", word, "--labels", word, "--set", word, "b")
    assert taken == {
        "data": word,
        "out": Path(word),
        "options": DataOptions(labels=word),
        "fields": [word, "b"],
    }


def test_a_value_may_start_with_a_hyphen() -> None:
    assert parse("train", "d", "--separator=-")["options"] == DataOptions(separator="-")


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        ("train d --roh 3", ["--roh", "--rho"]),
        ("train d --rho x", ["--rho", "a number", "'x'"]),
        ("train d --rho none", ["--rho", "a number", "'none'"]),
        ("train d --rho 0.5", ["--rho", "1 or more", "0.5"]),
        ("train d --seed 2.5", ["--seed", "a whole number", "'2.5'"]),
        ("train d --epochs null", ["--epochs", "a whole number", "'null'"]),
        ("data d --format xml", ["--format", "table, json", "'xml'"]),
        ("predict r x -o f --thresholds y", ["--thresholds", "tuned or a number", "'y'"]),
        ("train d --seed", ["--seed needs a value"]),
        ("train d --separator -", ["--separator needs a value", "--separator=VALUE"]),
        ("compare --methods", ["--methods needs a value"]),
        ("train", ["DATA is missing", "tailmask train --help"]),
        ("report", ["RUNS is missing"]),
        ("export r", ["--format is missing"]),
        ("train d --labels tag_a tag_b", ["'tag_b'", "commas"]),
        ("train d --labels a --labels=b", ["--labels", "multiple times"]),
        ("train d --set a=1 --set b=2", ["--set", "multiple times"]),
        ("train d --out f -o g", ["-o", "multiple times"]),
        ("trian", ["trian", "train"]),
    ],
)
def test_mistakes_get_one_sentence(words: str, facts: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    sentence = refusal(capsys, *words.split())
    assert [fact for fact in facts if fact not in sentence] == []


def test_help_shows_options_with_their_texts_and_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for fact in (
        "Usage: tailmask compare",
        "[default: digits]",
        "number of seeds, the same for all methods [default: 3]",
        "[default: one per GPU, else one per core, at most 8]",
        "--out -o PATH",
        "--no-download",
        "seed of the splits",
        "[choices: 32, bf16, auto]",
        *DataOptions.GROUPS,
    ):
        assert fact in text
    assert "--no-list" not in text


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_has_a_text(command: str) -> None:
    arguments = app[command].assemble_argument_collection(parse_docstring=True)
    assert [each.name for each in arguments if each.show and not each.parameter.help] == []


def test_only_the_named_command_is_imported() -> None:
    code = (
        "import sys; from tailmask.cli import main; main(['export', '--help']); "
        "print(sorted(m for m in sys.modules if m.startswith('tailmask.cli.')), 'torch' in sys.modules)"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.splitlines()[-1] == "['tailmask.cli.app', 'tailmask.cli.export'] False"


def test_a_planned_run_s_command_is_read_back() -> None:
    options = DataOptions(separator="-", rho=5.0, download=False, no_header=True, labels="a,b")
    setting = Setting("d.csv", options, epochs=3, fields=("optimizer.lr=0.1",))
    taken = parse("train", *setting.arguments())
    assert taken == {"data": "d.csv", "options": options, "epochs": 3, "fields": ["optimizer.lr=0.1"]}
