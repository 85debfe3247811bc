"""`tailmask train`: what it prints, what it leaves, what it refuses."""

from __future__ import annotations

import pickle
import random
import sys
from pathlib import Path

import pytest

from tailmask._util.precision import has_fast_bf16
from tailmask.cli import main
from tailmask.cli.progress_bar import RunProgress, notes
from tailmask.runs import Run, configure, load_recipe
from tailmask.runs.recipe_text import to_toml


@pytest.fixture(scope="module")
def digits(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "run"
    assert (
        main(["train", "digits", "--epochs", "1", "--seed", "3", "--threads", "1", "--out", str(folder)]) == 0
    )
    return folder


def refused(capsys, *arguments: str) -> str:
    """The sentence with which a command is refused."""
    assert main(["train", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("tailmask: ")
    assert captured.err.count("\n") == 1
    return captured.err.removeprefix("tailmask: ").strip()


def test_a_run_ends_with_a_table_of_the_test_metrics(digits: Path, capsys) -> None:
    command = ["train", "digits", "--epochs", "1", "--seed", "3", "--threads", "1", "--out", str(digits)]
    assert main(command) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith(f"note: {digits} already has this run, complete")
    summary = Run(digits).metrics["test"]["summary"]
    for name in ("precision", "recall", "f1", "ap", "exact_match", "f1_rarest_3", "ap_tail"):
        assert f"{100 * summary[name]:.2f}" in captured.out
    assert "rarest 3" in captured.out
    assert f"run in {digits}" in captured.out


def test_a_run_keeps_its_precision_where_that_is_left_open(tmp_path: Path, capsys) -> None:
    """Also one that another machine has begun."""
    begun = "32" if has_fast_bf16() else "bf16"
    command = ["train", "digits", "--epochs", "1", "--method", "bce", "--threads", "1"]
    assert main([*command, "--precision", begun, "--out", str(tmp_path / "begun")]) == 0
    (tmp_path / "begun" / "metrics.json").unlink()  # as if it were interrupted
    assert main([*command, "--precision", "auto", "--out", str(tmp_path / "begun")]) == 0
    assert Run(tmp_path / "begun").config["precision"] == begun
    assert main([*command, "--precision", "auto", "--out", str(tmp_path / "new")]) == 0
    assert Run(tmp_path / "new").config["precision"] == ("bf16" if begun == "32" else "32")


def test_progress_without_a_terminal_is_a_line(tmp_path: Path, capsys) -> None:
    main(
        [
            "train",
            "digits",
            "--epochs",
            "1",
            "--method",
            "bce",
            "--threads",
            "1",
            "--out",
            str(tmp_path / "run"),
        ]
    )
    told = capsys.readouterr().err
    assert "bce on digits: epoch 1/1, loss " in told
    assert "already" not in told


def test_one_label_each_with_rows_and_classes_that_lack_it(tmp_path: Path, capsys) -> None:
    rows = "".join(f"{i % 7},{'' if i % 10 == 9 else f'k{i % 3}'}\n" for i in range(120))
    (tmp_path / "a.csv").write_text(f"x,kind\n{rows}\n")
    (tmp_path / "classes.txt").write_text("k0\nk1\nk2\nk3\n")
    data = [str(tmp_path / "a.csv"), "--label-column", "kind", "--classes", str(tmp_path / "classes.txt")]
    # The softmax of LDAM needs one label each.
    arguments = ["--method", "ldam+drw", "--epochs", "1", "--threads", "1", "--out", str(tmp_path / "run")]
    assert main(["train", *data, *arguments]) == 0
    told = capsys.readouterr().err
    assert told.count("12 rows have nothing in 'kind'") == 1
    assert [line for line in told.splitlines() if "train" in line and "k3" in line] == [
        "note: train has no positive sample of k3"
    ]
    run = Run(tmp_path / "run")
    assert run.config["single_label"]
    known = (run.predictions()["test_targets"] == 1).any(axis=1)
    assert not known.all()
    assert 0 <= run.metrics["test"]["summary"]["error"] <= 1


def test_the_folder_has_a_name_where_none_is_given(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = [
        "--method",
        "plm:rate=1,initial_ratio=mean",
        "--seed",
        "2",
        "--epochs",
        "1",
        "--threads",
        "1",
    ]
    assert main(["train", "digits", *arguments]) == 0
    assert Run(tmp_path / "runs" / "digits_plm_rate=1_initial_ratio=mean_seed=2").is_complete


def test_print_config_is_a_recipe_that_reads_back(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["--budget", "0.2", "--method", "plm:initial_ratio=mean+focal", "--set", "optimizer.lr=0.05"]
    assert main(["train", "multimnist", *arguments, "--print-config"]) == 0
    text = capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
    path = tmp_path / "mine.toml"
    path.write_text(text)
    recipe = load_recipe(str(path))
    assert recipe.optimizer.lr == 0.05
    assert recipe.schedule.epochs == 18
    assert recipe.method["plm"] == {"rate": 0.05, "initial_ratio": "mean"}
    again = configure("multimnist", "plm+focal", recipe=str(path))
    assert str(again.method) == "plm:rate=0.05,initial_ratio=mean+focal:gamma=2"
    assert to_toml(again).partition("\n")[2] == text.rstrip("\n").partition("\n")[2].partition("\n")[2]


def test_overrides_reach_the_run(tmp_path: Path) -> None:
    fields = ["optimizer.lr=0.05", "schedule.batch_size=256"]
    command = ["train", "digits", "--epochs", "1", "--threads", "1", "--model", "linear"]
    assert main([*command, "--out", str(tmp_path / "run"), "--set", *fields]) == 0
    recipe = Run(tmp_path / "run").config["recipe"]
    assert recipe["optimizer"]["lr"] == 0.05
    assert recipe["schedule"]["batch_size"] == 256
    assert recipe["model"]["name"] == "linear"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["digits", "--method", "plm+focl"],
            "unknown word 'focl' in the method 'plm+focl': did you mean 'focal'?",
        ),
        (["digits", "--method", "ldam"], "ldam needs data with exactly one label per sample"),
        (["digit"], "there is no data set and no file called 'digit': did you mean 'digits'?"),
        (
            ["digits", "--set", "optimizer.lrr=1"],
            "unknown field 'optimizer.lrr': did you mean 'optimizer.lr'?",
        ),
        (["digits", "--recipe", "digit"], "unknown recipe 'digit': did you mean 'digits'?"),
        (["digits", "--metod", "plm"], "Unknown option: --metod. Did you mean --method?"),
        (["digits", "--model", "resnet23"], "unknown model 'resnet23': did you mean 'resnet32'?"),
        (["digits", "--budget", "0"], "the budget must be a share"),
        (["digits", "--seed", "-1"], "the seed must be 0 or more"),
        (["digits", "--threads", "0"], "--threads must be 1 or more, got 0"),
        (["digits", "--devices", "0"], "--devices must be 1 or more, got 0"),
        (["digits", "--devices", "5000"], "--devices asks for 5000 processes, but this machine has only"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_written(
    tmp_path: Path, monkeypatch, capsys, arguments: list[str], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert sentence.rstrip("?") in refused(capsys, *arguments, "--out", str(tmp_path / "run")).replace(
        "'--", "--"
    ).replace("d'?", "d?")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_another_run_is_refused(digits: Path, capsys) -> None:
    sentence = refused(capsys, "digits", "--epochs", "1", "--seed", "4", "--out", str(digits))
    assert "holds another run, which differs in seed (3 there, 4 asked for)" in sentence


@pytest.fixture
def table(tmp_path: Path) -> Path:
    numbers = random.Random(0)
    rows = ["width,height,tag_big,tag_rare"]
    for _ in range(300):
        width, height = numbers.gauss(0, 1), numbers.gauss(0, 1)
        rows.append(f"{width},{height},{int(width > 0)},{int(width + height > 2)}")
    (tmp_path / "mine.csv").write_text("\n".join(rows))
    return tmp_path / "mine.csv"


def test_a_table_of_ones_own_is_trained(table: Path, tmp_path: Path, capsys) -> None:
    arguments = ["--labels", "tag_*", "--epochs", "2", "--threads", "1", "--folds", "1"]
    assert main(["train", str(table), *arguments, "--out", str(tmp_path / "run")]) == 0
    run = Run(tmp_path / "run")
    assert run.config["classes"] == ["tag_big", "tag_rare"]
    assert run.config["recipe"]["model"]["name"] == "mlp"
    assert run.history[0]["validation"]


def test_a_table_with_another_model_than_the_recipes(table: Path, tmp_path: Path, capsys) -> None:
    command = [str(table), "--labels", "tag_*", "--epochs", "1", "--threads", "1"]
    out = ["--out", str(tmp_path / "run")]
    assert refused(capsys, *command, *out, "--model", "linear", "--set", "model.hidden=[9]") == (
        "model.hidden and model.dropout are for the model 'mlp', not for 'linear'"
    )
    assert refused(capsys, *command, *out, "--model", "resnet12") == (
        "the model 'resnet12' is for images (channels, height, width), but a sample here has the shape (4,): "
        "choose 'mlp' or 'linear', which fit tables"
    )
    assert main(["train", *command, *out, "--model", "linear"]) == 0
    assert Run(tmp_path / "run").config["recipe"]["model"]["name"] == "linear"


def test_ctrl_c_leaves_a_resumable_run_and_says_how_to_go_on(tmp_path: Path, monkeypatch, capsys) -> None:
    (tmp_path / "interrupted_net.py").write_text(
        "import os, signal\n"
        "from torch import nn\n"
        "class Net(nn.Linear):\n"
        "    steps = 0\n"
        "    def forward(self, inputs):\n"
        "        self.steps += self.training\n"
        "        if self.steps == 3:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "        return super().forward(inputs.flatten(1))\n"
        "def build(shape, num_classes):\n"
        "    return Net(144, num_classes)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "run"
    one_step = ["--model", "interrupted_net:build", "--set", "schedule.batch_size=9999"]
    command = ["train", "digits", *one_step, "--out", str(folder)]
    monkeypatch.setattr(sys, "argv", ["tailmask", *command])
    assert main(command) == 130
    captured = capsys.readouterr()
    how = f"to resume: tailmask {' '.join(command)}\n"
    assert f"note: stopped after epoch 2 of 40, kept in {folder}; {how}" in captured.err
    assert captured.out == ""
    assert not Run(folder).is_complete


def test_ctrl_c_before_training_began_is_answered_too(tmp_path: Path, monkeypatch, capsys) -> None:
    (tmp_path / "slow_net.py").write_text("raise KeyboardInterrupt\n")
    monkeypatch.syspath_prepend(tmp_path)
    command = ["train", "digits", "--model", "slow_net:build", "--out", str(tmp_path / "run")]
    assert main(command) == 130
    assert capsys.readouterr().err == "note: stopped before training began; nothing was written\n"
    assert not (tmp_path / "run").exists()


def test_warnings_become_notes(capsys) -> None:
    import warnings

    progress = RunProgress("plm on digits")
    with notes(progress):
        warnings.warn("fewer than 0.1% are kept", stacklevel=1)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        warnings.warn("no sample\nof \x1b]0;cat", stacklevel=1)
    told = capsys.readouterr().err
    assert told == "note: fewer than 0.1% are kept\nnote: no sample of \N{REPLACEMENT CHARACTER}]0;cat\n"


def test_progress_can_be_handed_to_another_process() -> None:
    assert pickle.loads(pickle.dumps(RunProgress("a"))).title == "a"


def test_a_file_that_has_changed_is_named_and_not_its_digests(tmp_path: Path, capsys) -> None:
    rows = [f"{row % 7},{row % 2},{row % 3 % 2}" for row in range(60)]
    path, out = tmp_path / "mine.csv", tmp_path / "run"
    command = [str(path), "--labels", "tag_*", "--epochs", "1", "--threads", "1", "--out", str(out)]
    path.write_text("\n".join(["number,tag_a,tag_b", *rows]))
    assert main(["train", *command]) == 0
    path.write_text("\n".join(["number,tag_a,tag_b", *rows[1:]]))
    capsys.readouterr()
    assert refused(capsys, *command) == (
        f"{out} holds another run, which differs in the contents of mine.csv: "
        "choose another folder with --out"
    )
