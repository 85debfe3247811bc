"""Two processes that train together give what one gives, and only one of them writes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from tiny import Interrupter, replaced, same_bytes, tiny_config, tiny_dataset

from forked import ensure_server
from tailmask._util.messages import UserError
from tailmask.data.dataset import Split
from tailmask.runs import Run
from tailmask.runs.model_file import read_model
from tailmask.training import Execution, train
from tailmask.training.split_outputs import predict, validation_metrics
from tailmask.training.with_lightning.launch_processes import free_port

# No dropout and no drawn masks: what remains are sums in another order.
METHOD = "plm:rate=0.5,expected=true"
HELD_OUT = "plm:adapt=prevalence,rate=0.5,warmup=0,expected=true+asl"  # moved by the validation split
FIELDS = ["model.dropout=0", "model.hidden=[16]"]


@pytest.fixture(autouse=True)
def _server() -> None:
    """Ranks are forked from the server of all tests, which has imported Lightning."""
    ensure_server()


def config(method: str = METHOD, epochs: int = 2, *, fields: Sequence[str] = ()):
    return tiny_config(method, epochs=epochs, fields=[*FIELDS, *fields])


@pytest.mark.parametrize("method", [METHOD, pytest.param(HELD_OUT, marks=pytest.mark.long)])
def test_two_ranks_train_as_one_process_does(tmp_path: Path, method: str) -> None:
    """203 samples in batches of 32 leave a last batch of 11, so that one row has to be repeated."""
    dataset, execution = tiny_dataset(), Execution(devices=2, threads=1)
    one = train(config(method), tmp_path / "one", dataset=dataset)
    two = train(config(method), tmp_path / "two", dataset=dataset, execution=execution)
    assert two.is_complete
    for ours, theirs in zip(one.history, two.history, strict=True):
        assert theirs["loss"] == pytest.approx(ours["loss"], rel=1e-4)
        assert theirs["ratio"] == pytest.approx(ours["ratio"], rel=1e-3)
        # The histograms count every sample once: the last, incomplete batch too, and its repeated row not.
        assert theirs["divergence"][0] == pytest.approx(ours["divergence"][0], abs=1e-3)
        assert theirs["divergence"][1] == pytest.approx(ours["divergence"][1], abs=1e-3)
    first, second = (torch.from_numpy(run.predictions()["test_logits"]) for run in (one, two))
    torch.testing.assert_close(first, second, rtol=1e-3, atol=1e-3)
    assert two.config["determines"]["world_size"] == 2
    with pytest.raises(UserError, match=r"world_size \(2 there, 1 asked for\)"):
        train(config(method), tmp_path / "two", dataset=dataset)


def test_two_ranks_weigh_samples_as_one_process_does(tmp_path: Path) -> None:
    """LDAM divides by the weights of a batch's samples; each rank has its own share of them."""
    dataset, execution = tiny_dataset(single_label=True), Execution(devices=2, threads=1)
    one = train(config("ldam+drw"), tmp_path / "one", dataset=dataset)
    two = train(config("ldam+drw"), tmp_path / "two", dataset=dataset, execution=execution)
    for ours, theirs in zip(one.history, two.history, strict=True):
        assert theirs["loss"] == pytest.approx(ours["loss"], rel=1e-4)
    first, second = (torch.from_numpy(run.predictions()["test_logits"]) for run in (one, two))
    torch.testing.assert_close(first, second, rtol=1e-3, atol=1e-3)


def test_all_outputs_are_those_of_the_network_that_is_saved(tmp_path: Path) -> None:
    """Each rank's batch normalisation has seen rows of its own, and only the first one's is kept."""
    generator = torch.Generator().manual_seed(0)

    def split(number: int) -> Split:
        targets = torch.rand(number, 4, generator=generator) < 0.3
        images = (
            torch.randn(number, 1, 6, 6, generator=generator)
            * torch.linspace(0.2, 3, number)[:, None, None, None]
        )
        return Split(images, targets.to(torch.int8))

    dataset = replaced(tiny_dataset(), train=split(90), validation=split(21), test=split(31))
    images = config(epochs=1, fields=["model.name=cnn", "model.hidden=[]"])
    run = train(images, tmp_path / "run", dataset=dataset, execution=Execution(devices=2, threads=1))
    network, _ = read_model(run.folder / "model.safetensors")
    for name, part in (("test", dataset.test), ("validation", dataset.validation)):
        logits = torch.from_numpy(run.predictions()[f"{name}_logits"])
        torch.testing.assert_close(logits, predict(network, part), rtol=1e-4, atol=1e-5)
    measured = validation_metrics(
        torch.from_numpy(run.predictions()["validation_logits"]),
        dataset.validation.targets,
        threshold=0.5,
        single_label=False,
    )
    assert run.history[-1]["validation"] == pytest.approx(measured, rel=1e-4)


@pytest.mark.long
def test_errors_of_a_rank_reach_the_caller_as_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="ldam needs data with exactly one label"):
        train(config("ldam"), tmp_path / "run", dataset=tiny_dataset(), execution=Execution(devices=2))
    assert not (tmp_path / "run").exists()


class SlowError(UserError):
    """A mistake that takes so long to be told that the other rank fails first, for want of the first one."""

    def __str__(self) -> str:
        time.sleep(3)
        return "the mistake"


@pytest.mark.long
def test_the_cause_is_told_and_not_what_it_did_to_the_other_rank(tmp_path: Path) -> None:
    interrupter = Interrupter(1, error=SlowError())
    execution = Execution(devices=2, threads=1)
    with pytest.raises(UserError, match="the mistake"):
        train(config(), tmp_path / "run", dataset=tiny_dataset(), execution=execution, progress=interrupter)


@pytest.mark.long
def test_an_interrupted_run_of_two_ranks_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    dataset, execution = tiny_dataset(), Execution(devices=2, threads=1)
    method = "plm:rate=0.5"
    whole = train(config(method, 3), tmp_path / "whole", dataset=dataset, execution=execution)
    interrupter = Interrupter(2, error=UserError("stop"), after_record=True)
    with pytest.raises(UserError, match="stop"):
        train(config(method, 3), tmp_path / "run", dataset=dataset, execution=execution, progress=interrupter)
    assert len(Run(tmp_path / "run").history) == 2
    train(config(method, 3), tmp_path / "run", dataset=dataset, execution=execution)
    assert same_bytes(whole.folder, tmp_path / "run")


@pytest.mark.long
def test_torchrun_and_devices_give_the_same_bytes(tmp_path: Path) -> None:
    tailmask = [sys.executable, "-m", "tailmask", "train", "digits", "--epochs", "1", "--threads", "1"]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run([*tailmask, "--devices", "2", "--out", tmp_path / "devices"], check=True, env=environment)
    subprocess.run([*torchrun, *tailmask[1:], "--out", tmp_path / "torchrun"], check=True, env=environment)
    assert same_bytes(tmp_path / "devices", tmp_path / "torchrun")


@pytest.mark.long
def test_tasks_of_srun_train_together_without_ntasks_per_node(tmp_path: Path) -> None:
    """The job has more tasks and machines than this step."""
    step = {"SLURM_STEP_ID": "0", "SLURM_NTASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "2", "SLURM_NODEID": "0"}
    job = {"SLURM_JOB_ID": "7", "SLURM_NNODES": "2", "SLURM_TASKS_PER_NODE": "4(x2)"}
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tailmask", "train", "digits", "--epochs", "1", "--threads", "1"]
    tasks = [
        subprocess.Popen(
            [*command, "--out", tmp_path / "srun"],
            env=os.environ | step | job | place | {"SLURM_PROCID": str(task), "SLURM_LOCALID": str(task)},
        )
        for task in range(2)
    ]
    assert [task.wait(timeout=120) for task in tasks] == [0, 0]
    assert Run(tmp_path / "srun").config["determines"]["world_size"] == 2
    subprocess.run([*command, "--devices", "2", "--out", tmp_path / "devices"], check=True)
    assert same_bytes(tmp_path / "devices", tmp_path / "srun")


@pytest.mark.long
def test_an_interrupt_of_the_first_process_alone_stops_every_rank(tmp_path: Path) -> None:
    """As a scheduler sends it; a terminal would send it to all of them."""
    command = [sys.executable, "-m", "tailmask", "train", "digits", "--epochs", "10000", "--devices", "2"]
    process = subprocess.Popen(
        [*command, "--threads", "1", "--out", tmp_path / "run"],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        while not (tmp_path / "run" / "history.jsonl").exists() and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "of 10000, kept in" in errors
    done = len(Run(tmp_path / "run").history)
    time.sleep(1)
    assert len(Run(tmp_path / "run").history) == done < 10000
