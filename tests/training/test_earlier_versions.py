"""Unfinished runs of earlier versions: gone on with, whatever their checkpoints lack."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tiny import Interrupter, same_bytes, tiny_config

from tailmask.errors import UserError
from tailmask.training import Run, train
from tailmask.training.checkpoint import find_checkpoint
from tailmask.training.weights import read_description

KEEP, SHIFT = "objective.criterion.trained_keep", "objective.prior_shift"


def unfinished(dataset, folder: Path, *, method: str, epochs: int) -> Path:
    """A run that was stopped after some epochs, as the first versions left it."""
    stop = Interrupter(epochs, error=RuntimeError("stop"), after_record=True)
    with pytest.raises(RuntimeError, match="stop"):
        train(tiny_config(method), folder, dataset=dataset, progress=stop)
    found = find_checkpoint(folder)
    assert found is not None
    path, checkpoint = found
    path.unlink()
    del checkpoint["history"]
    negatives, positives = checkpoint["state_dict"].pop(KEEP)
    if "focal" not in method:
        checkpoint["state_dict"][SHIFT] = (negatives / positives).log()
    torch.save(checkpoint, folder / "checkpoint.ckpt")
    return folder


@pytest.mark.parametrize("method", ["plm:rate=0.5", "plm:rate=0.5+focal", "plm+bce+undersample:samples=20"])
def test_epochs_that_are_left_give_the_same_bytes(dataset, tmp_path, method: str) -> None:
    whole = train(tiny_config(method), tmp_path / "whole", dataset=dataset)
    folder = unfinished(dataset, tmp_path / "run", method=method, epochs=3)
    run = train(tiny_config(method), folder, dataset=dataset)
    assert run.config["sessions"][-1]["resumed_after_epoch"] == 3
    assert same_bytes(whole.folder, folder)
    assert len(run.history) == 4


def test_a_run_that_only_lacks_its_results_gets_its_prior_shift(finished: Run, dataset, tmp_path) -> None:
    folder = unfinished(dataset, tmp_path / "run", method="plm:rate=0.5", epochs=4)
    run = train(tiny_config(), folder, dataset=dataset)
    assert run.metrics == finished.metrics
    first, second = (read_description(each.folder / "model.safetensors") for each in (finished, run))
    assert any(first.prior_shift)
    assert second.prior_shift == pytest.approx(first.prior_shift, rel=1e-5, abs=1e-7)


def test_a_checkpoint_without_the_history_needs_its_lines(dataset, tmp_path) -> None:
    folder = unfinished(dataset, tmp_path / "run", method="plm:rate=0.5", epochs=3)
    lines = (folder / "history.jsonl").read_text().splitlines(keepends=True)
    (folder / "history.jsonl").write_text("".join(lines[:2]))
    with pytest.raises(UserError, match=r"history.jsonl lacks epochs that are done"):
        train(tiny_config(), folder, dataset=dataset)
