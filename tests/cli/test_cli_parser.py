"""Commands from signatures: what becomes an argument, an option, a flag, and what mistakes are told."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from tailmask.cli import COMMANDS, main
from tailmask.cli.parser import call_with_arguments
from tailmask.errors import UserError


@dataclass(frozen=True)
class Choices:
    """Choices.

    Args:
        rho: how imbalanced
        download: fetch what is missing
        data_seed: of the splits
    """

    rho: float | None = None
    download: bool = True
    data_seed: int = 0


def command(
    data: str = "digits",
    /,
    *names: str,
    methods: list[str] = ["bce", "plm"],  # noqa: B006
    seeds: int = 3,
    kind: Literal["csv", "json"] = "csv",
    out: Path | None = None,
    force: bool = False,
    choices: Choices = Choices(),  # noqa: B008
) -> dict:
    """Do something with data.

    And more about it.

    Args:
        data: name or path
        methods: what to compare
        choices: about the data
    """
    return dict(locals())


def optional(data: str = "digits", /, *, seeds: int = 3) -> tuple:
    """Take at most one argument."""
    return data, seeds


def call(*arguments):
    return call_with_arguments(command, arguments, prog="tailmask try")


def test_every_kind_of_parameter():
    values = call(
        "d",
        "a",
        "b",
        "--methods",
        "x",
        "y+z",
        "--seeds",
        "2",
        "-o",
        "f",
        "--force",
        "--rho",
        "10",
        "--no-download",
    )
    assert values == {
        "data": "d",
        "names": ("a", "b"),
        "methods": ["x", "y+z"],
        "seeds": 2,
        "kind": "csv",
        "out": Path("f"),
        "force": True,
        "choices": Choices(10.0, False),
    }


def test_optional_argument():
    assert call_with_arguments(optional, [], prog="x") == ("digits", 3)
    assert call_with_arguments(optional, ["mine", "--seeds=4"], prog="x") == ("mine", 4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--roh", "3"], "there is no option --roh: did you mean '--rho'?"),
        (["--rho", "x"], "--rho takes a number, got 'x'"),
        (["--seeds", "2.5"], "--seeds takes a whole number, got '2.5'"),
        (["--kind", "xml"], "--kind takes one of csv, json, got 'xml'"),
        (["--seeds"], "expected one argument"),
    ],
)
def test_mistakes_get_one_sentence(arguments, message):
    with pytest.raises(UserError) as caught:
        call("d", "n", *arguments)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_help_reads_well(capsys):
    with pytest.raises(SystemExit) as left:
        call("--help")
    assert left.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith("usage: tailmask try [DATA] NAMES... [OPTIONS]\n\nDo something with data.\n")
    assert "what to compare (default: bce plm)" in text
    assert "do not fetch what is missing" in text
    assert "of the splits (default: 0)" in text
    assert "about the data:" in text
    assert "typing" not in text
    assert "class" not in text


def needy(data: str, /, *, out: Path, labels: str | None = None, kind_of: str) -> None:
    """Need much.

    Args:
        out: file to write
    """


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["d", "--kind-of", "a"], "--out is missing: file to write (see x --help)"),
        (["d", "-o", "f"], "--kind-of is missing (see x --help)"),
        (["-o", "f"], "DATA and --kind-of are missing (see x --help)"),
        ([], "DATA, --out and --kind-of are missing (see x --help)"),
    ],
)
def test_what_is_missing_is_named_as_it_is_typed(arguments, message):
    with pytest.raises(UserError) as caught:
        call_with_arguments(needy, arguments, prog="x")
    assert str(caught.value) == message


def test_usage_shows_the_options_that_are_needed(capsys):
    with pytest.raises(SystemExit):
        call_with_arguments(needy, ["--help"], prog="x")
    assert capsys.readouterr().out.startswith("usage: x DATA --out OUT --kind-of OF [OPTIONS]\n")


@pytest.mark.parametrize("words", [["tag_a", "tag_b"], ["tag_a,", "tag_b"]])
def test_names_without_commas_between_them(words):
    command = ["d", "--out", "f", "--labels", *words, "--kind-of", "a"]
    with pytest.raises(UserError) as caught:
        call_with_arguments(needy, command, prog="x")
    assert str(caught.value) == (
        "--labels takes its names in one word, with commas and no spaces, as in --labels first,second"
    )
    with pytest.raises(UserError, match="unrecognized arguments: more"):
        call_with_arguments(needy, ["d", "more", "--out", "f", "--labels", "tag_a"], prog="x")


def taking(
    data: str | None = None,
    /,
    *,
    out: Path | None = None,
    labels: str | None = None,
    set: Sequence[str] = (),
    seed: int | None = None,
    force: bool = False,
) -> tuple:
    """Take what is given."""
    return data, out, labels, set, seed, force


@pytest.mark.parametrize("word", ["#id", "null", "~", "None", "a #b", "[a]", "{a: 1}"])
def test_texts_and_paths_are_taken_as_they_are_typed(word):
    given = ["--out", word, "--labels", word, "--set", word, "b"]
    taken = call_with_arguments(taking, [word, *given], prog="x")
    assert taken == (word, Path(word), word, [word, "b"], None, False)


@pytest.mark.parametrize("word", ["#3", "null", "~"])
def test_what_is_no_number_is_refused(word):
    with pytest.raises(UserError, match="--seed takes a whole number, got"):
        call_with_arguments(taking, ["--seed", word], prog="x")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--labels t_x --labels=t_y", "--labels is given twice: name all in one word, with commas"),
        ("--set a=1 b=2 --set c=3", "--set is given twice: name all behind one of them"),
        ("--seed 1 d --seed 1", "--seed is given twice: leave one out"),
        ("--out f -o g", "--out is given twice: leave one out"),
        ("-of --out=g", "--out is given twice: leave one out"),
    ],
)
def test_an_option_that_is_given_twice(arguments, message):
    with pytest.raises(UserError) as caught:
        call_with_arguments(taking, arguments.split(), prog="x")
    assert str(caught.value) == message


def test_what_follows_two_dashes_is_no_option():
    assert call_with_arguments(taking, ["--out", "f", "--", "-odd.csv"], prog="x")[:2] == (
        "-odd.csv",
        Path("f"),
    )


def test_a_flag_may_be_given_twice():
    assert call_with_arguments(taking, ["--force", "--force"], prog="x")[-1]


def test_unknown_command(capsys):
    assert main(["trian"]) == 2
    assert capsys.readouterr().err == "tailmask: there is no command 'trian': did you mean 'train'?\n"


def test_help_lists_every_command(capsys):
    main(["--help"])
    text = capsys.readouterr().out
    assert [name for name in COMMANDS if f"\n  {name} " not in text] == []


def test_help_costs_no_torch():
    code = (
        "import sys; from tailmask.cli import main; main(['--help']); "
        "print('torch' in sys.modules, 'jsonargparse' in sys.modules)"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.splitlines()[-1] == "False False"


def test_an_interrupt_has_its_own_code(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("tailmask.cli._run", interrupted)
    assert main(["train"]) == 130
