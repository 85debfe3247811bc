"""The examples run as a user would run them, are short, and show what they say."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).parents[1] / "examples"
FILES = sorted(EXAMPLES.glob("*.py"))


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Runs an example in this process, which has loaded its libraries already, and gives what it prints."""

    def run(name: str, *arguments: str) -> str:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        with torch.random.fork_rng():
            runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return run


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"\d+\.\d+", text)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_is_short_and_listed(path):
    longest = 80 if path.name == "tutorial.py" else 60
    assert len(path.read_text(encoding="utf-8").splitlines()) < longest
    assert f"`{path.name}`" in (EXAMPLES / "README.md").read_text(encoding="utf-8")


def test_plain_loop(run):
    *_, nine, mean = run("plain_loop.py").splitlines()
    plain, masked = numbers(nine)
    assert masked > plain + 0.1
    plain, masked = numbers(mean)
    assert masked > plain + 0.02


def test_ddp_torchrun():
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    result = subprocess.run(
        [*command, EXAMPLES / "ddp_torchrun.py"],
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert "2 processes, the same ratios on each: True" in result.stdout
    assert numbers(result.stdout)[-1] > 0.3


def test_lightning_callback(run):
    plain, masked = numbers(run("lightning_callback.py"))[-2:]
    assert masked > plain + 0.02


def test_hf_trainer(run):
    plain, masked = (numbers(line)[-1] for line in run("hf_trainer.py").splitlines() if "F1 of each" in line)
    assert masked > plain + 0.01


@pytest.mark.filterwarnings("ignore:.*classes have no positives:UserWarning")
def test_hf_trainer_with_a_file(run, real_data, tmp_path):
    lines = (real_data / "goemotions" / "train.tsv").read_text(encoding="utf-8").splitlines()[:200]
    path = tmp_path / "few.tsv"
    path.write_text("\n".join(lines), encoding="utf-8")
    printed = [line for line in run("hf_trainer.py", str(path)).splitlines() if "F1 of each" in line]
    assert [len(numbers(line)) for line in printed] == [29, 29]


def test_sklearn_grid_search(run):
    *folds, plain, best = numbers(run("sklearn_grid_search.py"))
    assert len(folds) == 6  # three rates, each with its score
    assert best > plain


def test_custom_loss(run):
    alone, inside = numbers(run("custom_loss.py"))
    assert inside > alone + 0.01


def test_missing_labels(run):
    whole, _, absent, _, unknown, _ = numbers(run("missing_labels.py"))
    assert whole > unknown > absent + 0.1


@pytest.mark.long
def test_tutorial(run, real_data, tmp_path):
    text = run("tutorial.py", "--epochs", "1")
    assert "14694 images" in text
    assert (tmp_path / "tutorial" / "multimnist" / "report.html").exists()
    assert (tmp_path / "tutorial" / "mine" / "report.html").exists()
    _, table = text.split("3. a table")
    assert len(numbers(table)) == 24  # three measures of eight rows, the recommended method among them
