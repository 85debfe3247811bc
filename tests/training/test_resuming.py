"""A run and its folder: a restart changes nothing, and existing files are never damaged."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny import (
    Interrupter,
    replaced,
    same_bytes,
    tiny_config,
    tiny_dataset,
    without_times,
)

from tailmask._util.messages import UserError
from tailmask.data.dataset import Dataset, Split
from tailmask.runs import Run, RunConfig, configure
from tailmask.runs.folder import check_folder
from tailmask.runs.lock import locked
from tailmask.training import train
from tailmask.training.checkpoint_file import read_checkpoint
from tailmask.training.engine import run_description
from tailmask.training.tables.table_run import Checkpoints


def test_a_run_asked_for_twice_is_read(finished: Run, dataset) -> None:
    before = {path: path.stat().st_mtime_ns for path in finished.folder.iterdir()}
    progress = Interrupter()
    again = train(tiny_config(), finished.folder, dataset=dataset, progress=progress)
    assert again.metrics == finished.metrics
    assert progress.calls == []
    assert {path: path.stat().st_mtime_ns for path in finished.folder.iterdir()} == before


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(finished: Run, dataset, tmp_path) -> None:
    train(tiny_config(), tmp_path / "same", dataset=dataset)
    assert same_bytes(finished.folder, tmp_path / "same")
    other = train(tiny_config(seed=1), tmp_path / "other", dataset=dataset)
    assert other.metrics != finished.metrics


@pytest.mark.parametrize("after_record", [False, True], ids=["within an epoch", "after a checkpoint"])
@pytest.mark.parametrize("epoch", [1, 3, 4])
def test_an_interrupted_run_goes_on_to_the_same_bytes(
    finished: Run, dataset, tmp_path, epoch: int, after_record: bool
) -> None:
    interrupter = Interrupter(epoch, error=RuntimeError("stop"), after_record=after_record)
    with pytest.raises(RuntimeError, match="stop"):
        train(tiny_config(), tmp_path / "run", dataset=dataset, progress=interrupter)
    assert interrupter.calls[-1] == "end"
    done = epoch if after_record else epoch - 1
    assert len(Run(tmp_path / "run").history) == done
    assert not Run(tmp_path / "run").is_complete
    progress = Interrupter()
    run = train(tiny_config(), tmp_path / "run", dataset=dataset, progress=progress)
    assert [record["epoch"] for record in progress.records] == list(range(done + 1, 5))
    if done:
        assert progress.notes[-1] == f"resuming after epoch {done} of 4"
    assert run.config["sessions"][1]["resumed_after_epoch"] == done
    assert same_bytes(finished.folder, run.folder)
    assert without_times(run.history) == without_times(finished.history)
    assert not (run.folder / "checkpoint.ckpt").exists()


@pytest.mark.parametrize(
    "method",
    [
        "focal",
        "plm+bce+undersample:samples_per_class=20",
        "plm:adapt=prevalence,warmup=1",
        "plm:rate=0.5,hold=0.5,damp=true",
        "plm:expected=true+db",
        "bce+drw:start=0.5",
    ],
)
def test_every_kind_of_method_resumes_to_the_same_bytes(dataset, tmp_path, method: str) -> None:
    whole = train(tiny_config(method), tmp_path / "whole", dataset=dataset)
    with pytest.raises(RuntimeError):
        train(
            tiny_config(method),
            tmp_path / "run",
            dataset=dataset,
            progress=Interrupter(3, error=RuntimeError("stop")),
        )
    resumed = train(tiny_config(method), tmp_path / "run", dataset=dataset)
    assert same_bytes(whole.folder, resumed.folder)


def refusal(folder: Path, asked: RunConfig, dataset: Dataset) -> str:
    with pytest.raises(UserError) as caught:
        check_folder(folder, run_description(asked, dataset, world_size=1)["determines"])
    return str(caught.value).partition("which differs in ")[2].partition(": choose")[0]


def test_differences_are_those_that_a_user_can_act_on(tmp_path: Path, dataset) -> None:
    def config(epochs: int, *fields: str) -> RunConfig:
        return configure("digits", "bce", epochs=epochs, fields=fields)

    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps(run_description(config(7), dataset, world_size=1)))
    assert refusal(folder, config(13), dataset) == "epochs (7 there, 13 asked for)", "the rest follows"
    changed = refusal(folder, config(13, "schedule.warmup=3"), dataset)
    assert changed.startswith("epochs (7 there, 13 asked for), schedule.milestones")
    assert "schedule.warmup (0.35 there, 0.975 asked for)" in changed
    lower = config(7, "optimizer.lr=0.5")
    assert refusal(folder, lower, dataset) == "optimizer.lr (0.1 there, 0.5 asked for)"
    reworded = replace(dataset, notes=("a note about the data in other words",))
    assert check_folder(folder, run_description(config(7), reworded, world_size=1)["determines"]).exists
    (folder / "run.json").write_text('{"determines": {"recipe": {"schedule": {"epochs": "x"}}}}')
    assert refusal(folder, config(7), dataset).endswith(" more"), "a damaged record is another run"


def test_another_configuration_is_refused_and_nothing_is_touched(finished: Run, dataset) -> None:
    before = {path: path.read_bytes() for path in finished.folder.iterdir()}
    with pytest.raises(UserError, match=r"holds another run, which differs in seed \(0 there, 7 asked for\)"):
        train(tiny_config(seed=7), finished.folder, dataset=dataset)
    with pytest.raises(UserError, match=r"method \(plm:rate=0\.5 there, focal:gamma=2 asked for\)"):
        train(tiny_config("focal"), finished.folder, dataset=dataset)
    with pytest.raises(UserError, match=r"data\.validation \(true there, false asked for\)"):
        train(tiny_config(), finished.folder, dataset=tiny_dataset(validation=False))
    assert {path: path.read_bytes() for path in finished.folder.iterdir()} == before


def test_a_folder_with_other_files_is_refused(dataset, tmp_path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="holds files"):
        train(tiny_config(), tmp_path, dataset=dataset)
    with pytest.raises(UserError, match="is a file"):
        train(tiny_config(), tmp_path / "notes.txt", dataset=dataset)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("method", "fields", "message"),
    [
        (
            "ldam",
            [],
            "ldam needs data with exactly one label per sample, and here samples have several or none",
        ),
        (
            "plm",
            ["model.name=resnet12", "model.hidden=[]", "model.dropout=0"],
            r"'resnet12' is for images .*, but a sample here has the shape \(6,\)",
        ),
        ("plm", ["evaluation.rarest=[5]"], "rarest must be .* 4, got 5"),
        (
            "plm",
            ["evaluation.frequent=[0]"],
            "frequent must be .* 4, got 0",
        ),
    ],
)
def test_what_cannot_work_leaves_no_folder(
    dataset, tmp_path, method: str, fields: list[str], message: str
) -> None:
    config = tiny_config(method, fields=fields)
    with pytest.raises(UserError, match=message):
        train(config, tmp_path / "run", dataset=dataset)
    assert not (tmp_path / "run").exists()


def test_two_processes_cannot_train_in_one_folder(dataset, tmp_path) -> None:
    with (
        locked(tmp_path / "run"),
        pytest.raises(UserError, match=r"another process is training in .*run: wait for it"),
    ):
        train(tiny_config(), tmp_path / "run", dataset=dataset)
    assert train(tiny_config(epochs=1), tmp_path / "run", dataset=dataset).is_complete


def test_a_diverging_run_stops_with_the_step_and_keeps_the_last_good_epoch(dataset, tmp_path) -> None:
    inputs = dataset.train.inputs.clone()
    spoilt = replaced(dataset, train=Split(inputs, dataset.train.targets))

    class Spoiler(Interrupter):
        def record(self, record) -> None:
            if record["epoch"] == 2:
                inputs.fill_(float("nan"))

    with pytest.raises(UserError, match="the inputs hold NaN or infinite values in epoch 3, step 1 of 7"):
        train(tiny_config(), tmp_path / "run", dataset=spoilt, progress=Spoiler())
    assert len(Run(tmp_path / "run").history) == 2
    with pytest.raises(UserError, match="in epoch 3, step 1 of 7"):
        train(tiny_config(), tmp_path / "run", dataset=spoilt)
    inputs.copy_(dataset.train.inputs)
    assert train(tiny_config(), tmp_path / "run", dataset=spoilt).is_complete


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_leave_a_resumable_run(finished: Run, dataset, tmp_path, sent) -> None:
    class Sender(Interrupter):
        def record(self, record) -> None:
            if record["epoch"] == 2:
                os.kill(os.getpid(), sent)

    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        train(tiny_config(), tmp_path / "run", dataset=dataset, progress=Sender())
    assert signal.getsignal(signal.SIGINT) is handler
    assert len(Run(tmp_path / "run").history) >= 2
    assert same_bytes(finished.folder, train(tiny_config(), tmp_path / "run", dataset=dataset).folder)


def test_leftovers_of_a_killed_write_are_removed(dataset, tmp_path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / ".run.json.abc.partial").write_text("{")
    train(tiny_config(epochs=1), folder, dataset=dataset)
    assert not list(folder.glob(".*.partial"))


def interrupted(dataset, folder: Path) -> Path:
    with pytest.raises(RuntimeError):
        train(tiny_config(), folder, dataset=dataset, progress=Interrupter(3, error=RuntimeError("stop")))
    return folder


@pytest.mark.parametrize(
    ("file", "content", "sentence"),
    [
        ("checkpoint.ckpt", b"", "checkpoint.ckpt cannot be read"),
        ("checkpoint.ckpt", b"PK\x03\x04 not a checkpoint", "checkpoint.ckpt cannot be read"),
        ("run.json", b"{", "run.json is not valid JSON"),
        ("run.json", b"[]", "run.json must be a JSON object, got list"),
        ("run.json", b"{}", "holds another run"),
    ],
)
def test_damaged_files_are_named(dataset, tmp_path, file: str, content: bytes, sentence: str) -> None:
    folder = interrupted(dataset, tmp_path / "run")
    for path in folder.glob("*.ckpt") if file == "checkpoint.ckpt" else [folder / file]:
        path.write_bytes(content)
    with pytest.raises(UserError, match=sentence):
        train(tiny_config(), folder, dataset=dataset)


def test_a_checkpoint_is_never_executed(dataset, tmp_path) -> None:
    folder = interrupted(dataset, tmp_path / "run")

    class Harm:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "harm"),))

    for path in folder.glob("*.ckpt"):
        torch.save({"epochs_done": Harm()}, path)
    with pytest.raises(UserError, match="cannot be read"):
        train(tiny_config(), folder, dataset=dataset)
    assert not (tmp_path / "harm").exists()


def test_a_torn_line_of_history_is_cut_off(finished: Run, dataset, tmp_path) -> None:
    folder = interrupted(dataset, tmp_path / "run")
    with (folder / "history.jsonl").open("a") as file:
        file.write('{"epoch": 3, "lo')
    assert without_times(train(tiny_config(), folder, dataset=dataset).history) == without_times(
        finished.history
    )


def test_a_full_disk_is_told_and_the_run_goes_on_afterwards(
    finished: Run, dataset, tmp_path, monkeypatch
) -> None:
    real, calls = Path.write_bytes, []

    def full(self: Path, content) -> int:
        calls.extend([1] if "checkpoint" in self.name else [])
        if len(calls) == 3:
            real(self, bytes(content)[:100])
            raise OSError(28, "No space left on device")
        return real(self, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    monkeypatch.setattr(Checkpoints, "SECONDS_BETWEEN", 0.0)
    with pytest.raises(UserError, match=r"cannot be written to \(No space left on device\)"):
        train(tiny_config(), tmp_path / "run", dataset=dataset)
    monkeypatch.undo()
    run = train(tiny_config(), tmp_path / "run", dataset=dataset)
    assert run.config["sessions"][1]["resumed_after_epoch"] == 2
    assert same_bytes(finished.folder, run.folder)


@pytest.mark.long
def test_compiled_runs_resume_to_the_same_bytes(dataset, tmp_path) -> None:
    config = replaced(tiny_config(), compiled=True)
    whole = train(config, tmp_path / "whole", dataset=dataset)
    progress = Interrupter(3, error=RuntimeError("stop"))
    with pytest.raises(RuntimeError, match="stop"):
        train(config, tmp_path / "run", dataset=dataset, progress=progress)
    checkpoint = read_checkpoint(tmp_path / "run" / "checkpoint.ckpt")
    assert sum(name.endswith("1.weight") for name in checkpoint["state_dict"]) == 1
    torch.compiler.reset()
    assert same_bytes(whole.folder, train(config, tmp_path / "run", dataset=dataset).folder)
