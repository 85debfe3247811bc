"""`tailmask export`: where it writes, what it says, what it refuses."""

from __future__ import annotations

import re
from pathlib import Path

import onnxruntime
import pytest
import torch

from inference.finished_runs import random_model, train_table
from tailmask.cli import main
from tailmask.cli.export import agreement
from tailmask.runs import Run


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return train_table(tmp_path_factory.mktemp("export"))


def refused(capsys, *arguments: object) -> str:
    """The sentence with which the command is refused."""
    assert main(["export", *map(str, arguments)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err.removeprefix("tailmask: ").strip()


def test_a_file_with_the_runs_name_here(run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["export", str(run), "--format", "onnx"]) == 0
    told = capsys.readouterr()
    assert re.fullmatch(r"run\.onnx: probabilities are equal to the model's within \S+\n", told.out)
    assert told.err == ""
    session = onnxruntime.InferenceSession(tmp_path / "run.onnx")
    assert [output.name for output in session.get_outputs()] == ["probabilities", "logits"]
    assert "run.onnx already exists" in refused(capsys, run, "--format", "onnx")
    assert main(["export", str(run), "--format", "onnx", "--force"]) == 0


def test_a_program_of_torch(run, tmp_path, capsys):
    out = tmp_path / "deep" / "m.pt2"
    assert main(["export", str(run), "--format", "torch-export", "-o", str(out)]) == 0
    assert re.fullmatch(
        r".*m\.pt2: probabilities are equal to the model's (to the last bit|within [1-9]\S+)\n",
        capsys.readouterr().out,
    )
    (width,) = Run(run).config["shape"]
    probabilities, _ = torch.export.load(out).module()(torch.zeros(5, width))
    assert probabilities.shape == (5, 3)


def test_equal_outputs_are_not_within_zero():
    assert agreement(0.0) == ": probabilities are equal to the model's to the last bit"
    assert agreement(3e-8) == ": probabilities are equal to the model's within 3e-08"


def test_mistakes_get_one_sentence(run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert "must end with .onnx, got m.pt" in refused(capsys, run, "--format", "onnx", "-o", "m.pt")
    assert "one of onnx, torch-export, safetensors" in refused(capsys, run, "--format", "tflite")
    assert refused(capsys, run).startswith("--format is missing")
    assert "is not a run" in refused(capsys, tmp_path, "--format", "onnx")
    own = random_model(tmp_path / "own.safetensors")
    assert "own.safetensors already exists" in refused(capsys, own, "--format", "safetensors", "-o", own)
    assert [path.name for path in tmp_path.iterdir()] == ["own.safetensors"]
