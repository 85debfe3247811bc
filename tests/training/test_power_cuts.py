"""What a power cut can leave of the files that nobody waited for: the run goes on, to the same bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tiny import Interrupter, lightning_config, same_bytes, without_times

from tailmask._util.messages import UserError
from tailmask.runs import Run
from tailmask.training import train
from tailmask.training.checkpoint_file import find_checkpoint, read_checkpoint
from tailmask.training.with_lightning.lightning_callbacks import EpochRecorder

LASTING, RECENT, HISTORY = "checkpoint.ckpt", "checkpoint.recent.ckpt", "history.jsonl"


@pytest.fixture(scope="module")
def finished(dataset, tmp_path_factory) -> Run:
    torch.set_num_threads(1)
    return train(lightning_config(), tmp_path_factory.mktemp("finished") / "run", dataset=dataset)


@pytest.fixture
def folder(dataset, tmp_path) -> Path:
    """A run with three epochs done, the first of them on the disk for certain."""
    with pytest.raises(RuntimeError, match="stop"):
        train(
            lightning_config(),
            tmp_path / "run",
            dataset=dataset,
            progress=Interrupter(4, error=RuntimeError("stop")),
        )
    return tmp_path / "run"


def cut_lines(number: int) -> Callable[[Path], None]:
    def cut(folder: Path) -> None:
        lines = (folder / HISTORY).read_text().splitlines(keepends=True)
        (folder / HISTORY).write_text("".join(lines[:number]))

    return cut


def tear(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:1000])


def test_what_was_forced_to_the_disk_is_not_replaced_by_what_was_not(folder: Path) -> None:
    assert read_checkpoint(folder / LASTING)["epochs_done"] == 1
    assert read_checkpoint(folder / RECENT)["epochs_done"] == 3
    path, content = find_checkpoint(folder) or pytest.fail("there are two")
    assert path == folder / RECENT
    assert content["history"] == (folder / HISTORY).read_text().splitlines()


def test_the_recent_checkpoint_goes_when_a_later_one_is_on_the_disk(dataset, tmp_path, monkeypatch) -> None:
    there = []

    class Watching(Interrupter):
        def record(self, record) -> None:
            lasting = read_checkpoint(tmp_path / "run" / LASTING)["epochs_done"]
            there.append((lasting, (tmp_path / "run" / RECENT).exists()))
            if record["epoch"] == 2:  # as if the last time were long ago
                monkeypatch.setattr(EpochRecorder, "SECONDS_BETWEEN_SYNCS", 0.0)

    train(lightning_config(), tmp_path / "run", dataset=dataset, progress=Watching())
    assert there == [(1, False), (1, True), (3, False), (4, False)]


@pytest.mark.parametrize(
    ("harm", "done"),
    [
        ([], 3),
        ([cut_lines(1)], 3),
        ([cut_lines(0)], 3),
        ([lambda folder: (folder / HISTORY).unlink()], 3),
        ([lambda folder: (folder / HISTORY).write_bytes(bytes(500))], 3),
        ([tear(RECENT)], 1),
        ([tear(RECENT), cut_lines(1)], 1),
        ([lambda folder: (folder / RECENT).write_bytes(b"")], 1),
        ([lambda folder: (folder / RECENT).unlink()], 1),
        ([tear(LASTING)], 3),
    ],
)
def test_the_run_goes_on_to_the_same_bytes(finished: Run, dataset, folder: Path, harm, done: int) -> None:
    for each in harm:
        each(folder)
    run = train(lightning_config(), folder, dataset=dataset)
    assert run.config["sessions"][-1]["resumed_after_epoch"] == done
    assert same_bytes(finished.folder, folder)
    assert without_times(run.history) == without_times(finished.history)
    assert not list(folder.glob("*.ckpt"))


@pytest.mark.parametrize("history", ["text", [1, 2, 3], ["{}"]])
def test_a_history_that_is_none_is_refused(folder: Path, history) -> None:
    torch.save(read_checkpoint(folder / RECENT) | {"history": history}, folder / RECENT)
    with pytest.raises(UserError, match="is not a checkpoint of tailmask"):
        read_checkpoint(folder / RECENT)


def test_the_first_epoch_of_a_process_is_forced_to_the_disk_however_young_the_machine(tmp_path) -> None:
    assert EpochRecorder(tmp_path, print, lines=()).last_sync < -EpochRecorder.SECONDS_BETWEEN_SYNCS
