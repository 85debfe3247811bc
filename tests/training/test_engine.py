"""Training runs: what they leave, and what a recipe and a method make of them."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import (
    NUM_CLASSES,
    Interrupter,
    lightning_config,
    replaced,
    same_bytes,
    tiny_config,
    tiny_dataset,
)

from tailmask._util.messages import UserError
from tailmask.data import DataOptions, load
from tailmask.data.dataset import Split
from tailmask.data.facts import DataFacts
from tailmask.functional import histogram, next_ratio, prevalence_gap
from tailmask.metrics import evaluate
from tailmask.runs import Run, configure
from tailmask.runs.model_file import read_model
from tailmask.training import train
from tailmask.training.run_parts import build_parts
from tailmask.training.tables.table_run import fused_optimizer
from tailmask.training.with_lightning import lightning_run
from tailmask.training.with_lightning.lightning_module import TrainingModule


def test_a_run_leaves_its_full_record(finished: Run, dataset) -> None:
    assert finished.is_complete
    files = {path.name for path in finished.folder.iterdir() if not path.name.startswith(".")}
    assert files == {
        "run.json",
        "history.jsonl",
        "model.safetensors",
        "predictions.npz",
        "decisions.json",
        "metrics.json",
    }
    config = finished.config
    assert config["name"] == config["method"] == "plm:rate=0.5"
    assert config["recipe"]["schedule"]["epochs"] == 4
    assert config["classes"] == ["a", "b", "c", "d"]
    assert config["train_counts"] == dataset.train.counts().tolist()
    assert config["versions"]["torch"] == torch.__version__
    assert [session["resumed_after_epoch"] for session in config["sessions"]] == [0]
    assert config["sessions"][0]["threads"] == 1


def test_history_has_a_line_an_epoch_with_ratios_that_follow_equation_7(finished: Run) -> None:
    history = finished.history
    assert [record["epoch"] for record in history] == [1, 2, 3, 4]
    assert all(record["samples"] == 203 for record in history)
    assert history[-1]["loss"] < history[0]["loss"]
    for now, after in itertools.pairwise(history):
        moved = next_ratio(torch.tensor(now["ratio"]), torch.tensor(now["gap"]), 0.5)
        torch.testing.assert_close(torch.tensor(after["ratio"]), moved, rtol=1e-4, atol=1e-6)
        assert np.shape(now["keep"]) == np.shape(now["divergence"]) == (2, NUM_CLASSES)
        assert np.max(now["keep"], axis=0).tolist() == [1.0] * NUM_CLASSES
    assert set(history[0]["validation"]) == {"f1", "ap", "exact_match"}


def test_metrics_are_those_of_the_predictions(finished: Run, dataset) -> None:
    arrays = finished.predictions()
    assert arrays["test_logits"].dtype == np.float32
    assert arrays["test_targets"].dtype == np.int8
    assert arrays["validation_logits"].shape == (60, NUM_CLASSES)
    assert np.array_equal(arrays["test_targets"], dataset.test.targets.numpy())
    report = evaluate(
        torch.from_numpy(arrays["test_logits"]),
        torch.from_numpy(arrays["test_targets"]),
        train_positives=dataset.train.counts()[1],
    )
    assert finished.metrics["test"] == report.to_json()


def test_the_model_file_gives_the_predictions_back(finished: Run, dataset) -> None:
    network, description = read_model(finished.folder / "model.safetensors")
    logits = network(dataset.test.inputs)
    torch.testing.assert_close(logits, torch.from_numpy(finished.predictions()["test_logits"]))
    assert description.classes == dataset.classes
    assert description.shape == (6,)
    assert description.encoder == {"kind": "plain"}
    assert (description.activation, description.threshold) == ("sigmoid", 0.5)
    positives, negatives = dataset.train.counts().flip(0).double()
    last = torch.tensor(finished.history[-1]["ratio"]).double()
    shift = torch.tensor(description.prior_shift).double()
    torch.testing.assert_close(shift, (positives / negatives / last).log(), rtol=1e-4, atol=1e-4)
    assert len(description.thresholds) == NUM_CLASSES


def test_own_images_are_trained_with_a_convolutional_network(tmp_path) -> None:
    images = torch.randn(40, 3, 8, 8)
    targets = (torch.rand(40, 2) < 0.4).to(torch.int8)
    split = Split(images, targets)
    dataset = replaced(tiny_dataset(), classes=("a", "b"), train=split, validation=None, test=split)
    config = configure("mine.npz", "plm", epochs=1, facts=DataFacts.of(dataset))
    run = train(config, tmp_path / "run", dataset=dataset)
    assert run.config["recipe"]["model"]["name"] == "resnet32"
    network, _ = read_model(run.folder / "model.safetensors")
    torch.testing.assert_close(
        network(images), torch.from_numpy(run.predictions()["test_logits"]), rtol=1e-4, atol=1e-4
    )


def test_ldam_trains_single_label_data_with_a_normalised_head(tmp_path) -> None:
    dataset = tiny_dataset(single_label=True)
    run = train(tiny_config("ldam+drw"), tmp_path / "run", dataset=dataset)
    network, description = read_model(run.folder / "model.safetensors")
    assert (description.activation, description.logit_scale) == ("softmax", 30)
    logits = torch.from_numpy(run.predictions()["test_logits"])
    torch.testing.assert_close(network(dataset.test.inputs) * 30, logits)
    assert logits.abs().max() <= 30
    assert "error" in run.metrics["test"]["summary"]
    assert description.thresholds is None


@pytest.mark.parametrize("method", ["ldam+drw", "plm:rate=0.5"])
def test_the_history_and_the_metrics_measure_the_same(tmp_path, method) -> None:
    run = train(tiny_config(method), tmp_path / "run", dataset=tiny_dataset(single_label=True))
    last, final = run.history[-1]["validation"], run.metrics["validation"]["summary"]
    for name in ("f1", "ap"):
        assert last[name] == pytest.approx(final[name], rel=1e-4)


def test_rate_matching_is_fed_by_the_validation_split(dataset, tmp_path) -> None:
    config = tiny_config("plm:adapt=prevalence,warmup=0", epochs=1)
    run = train(config, tmp_path / "run", dataset=dataset)
    arrays = {name: torch.from_numpy(array) for name, array in run.predictions().items()}
    counts = histogram(arrays["validation_logits"].sigmoid(), arrays["validation_targets"])
    assert run.history[0]["gap"] == pytest.approx(prevalence_gap(counts).tolist(), rel=1e-4)
    assert run.config["notes"] == []


@pytest.mark.parametrize("make_config", [tiny_config, lightning_config])
def test_both_engines_damp_lambda_with_the_learning_rate_and_hold_the_ratios(
    dataset, tmp_path, make_config
) -> None:
    config = make_config("plm:rate=0.5,hold=0.9,damp=true", epochs=10)
    history = train(config, tmp_path / "run", dataset=dataset).history
    factors = [record["lr"] / 0.1 for record in history]
    assert min(factors) < 0.11 < 0.99 < max(factors)
    for update, (now, following) in enumerate(itertools.pairwise(history)):
        rate = 0.5 * factors[update] if update < 9 else 0.0
        expected = [r * math.exp(rate * gap) for r, gap in zip(now["ratio"], now["gap"], strict=True)]
        assert following["ratio"] == pytest.approx(expected, rel=1e-4)
    assert history[-1]["ratio"] != history[0]["ratio"]


def test_notes_of_the_configuration_are_on_record_and_told(dataset, tmp_path) -> None:
    config, progress = tiny_config("plm:rate=1", epochs=1), Interrupter()
    run = train(config, tmp_path / "run", dataset=dataset, progress=progress)
    assert len(config.notes) == 1
    assert list(config.notes) == progress.notes == run.config["notes"]


def test_rate_matching_without_a_validation_split_says_what_it_uses(tmp_path) -> None:
    config, progress = tiny_config("plm:adapt=prevalence,warmup=0", epochs=1), Interrupter()
    run = train(config, tmp_path / "run", dataset=tiny_dataset(validation=False), progress=progress)
    assert progress.notes == run.config["notes"]
    assert "there is none, so it uses the outputs of the training passes" in progress.notes[0]
    assert "validation" not in run.history[0]
    assert "validation_logits" not in run.predictions()
    assert "test_tuned" not in run.metrics


def test_a_validation_split_that_tells_nothing_is_named(dataset, tmp_path) -> None:
    unknown = Split(dataset.validation.inputs, torch.full_like(dataset.validation.targets, -1))
    config = tiny_config("plm:adapt=prevalence")
    with pytest.raises(UserError, match="after epoch 1"):
        train(config, tmp_path / "run", dataset=replaced(dataset, validation=unknown))


def test_last_bias_is_left_out_of_weight_decay_where_the_recipe_says(dataset, tmp_path) -> None:
    config = tiny_config(fields=["optimizer.decay_last_bias=false"])
    parts = build_parts(config, dataset)
    all_but, last = TrainingModule(parts).configure_optimizers().param_groups
    assert last["weight_decay"] == 0.0
    assert last["params"] == [parts.network[-1].bias]
    assert all_but["weight_decay"] == config.recipe.optimizer.weight_decay > 0
    assert len(all_but["params"]) == 3
    optimizer = fused_optimizer(parts.network, config.recipe.optimizer)
    bias = parts.network[-1].bias.detach().clone()
    optimizer.step([torch.zeros_like(parameter) for parameter in optimizer.parameters], 0.1)
    assert parts.network[-1].bias.equal(bias)
    assert all_but["params"][1] is optimizer.parameters[1]


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
def test_learning_rate_follows_the_schedule(dataset, tmp_path, name: str) -> None:
    fields = [
        f"optimizer.name={name}",
        "schedule.warmup=2",
        "schedule.milestones=[3]",
        "schedule.factors=[0.5]",
    ]
    config = tiny_config(epochs=4, fields=["schedule.epochs=4", *fields])
    run = train(config, tmp_path / "run", dataset=dataset)
    assert [record["lr"] for record in run.history] == pytest.approx([0.05, 0.1, 0.1, 0.05])


def test_too_high_a_learning_rate_is_named_as_the_cause(dataset, tmp_path) -> None:
    config = tiny_config("bce", fields=["optimizer.lr=1e30", "schedule.warmup=0", "model.dropout=0"])
    with pytest.raises(
        UserError, match=r"became NaN or infinite in epoch \d, step \d of 7, .*optimizer.lr=1e\+29"
    ):
        train(config, tmp_path / "run", dataset=dataset)


def test_training_works_outside_the_main_thread(finished: Run, dataset, tmp_path) -> None:
    thread = threading.Thread(
        target=train, args=(tiny_config(), tmp_path / "run"), kwargs={"dataset": dataset}
    )
    thread.start()
    thread.join()
    assert same_bytes(finished.folder, tmp_path / "run")


def test_bf16_trains_and_is_another_run(finished: Run, dataset, tmp_path) -> None:
    config = replaced(tiny_config(epochs=2), precision="bf16")
    run = train(config, tmp_path / "run", dataset=dataset)
    assert run.is_complete
    with pytest.raises(UserError, match=r"precision \(bf16 there, 32 asked for\)"):
        train(tiny_config(epochs=2), tmp_path / "run", dataset=dataset)
    network, _ = read_model(run.folder / "model.safetensors")
    assert next(network.parameters()).dtype == torch.float32


def test_a_network_that_cannot_be_compiled_is_told(dataset, tmp_path, monkeypatch) -> None:
    def broken(*_, **__):
        raise torch._dynamo.exc.BackendCompilerFailed("inductor", RuntimeError("no C++ compiler"), None)

    monkeypatch.setattr(torch, "compile", lambda *_, **__: broken)
    with pytest.raises(UserError, match=r"cannot be compiled here .*: leave out --compile"):
        train(replaced(tiny_config(), compiled=True), tmp_path / "run", dataset=dataset)


def test_own_model_is_trained_and_loaded_only_when_named_again(dataset, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "user_networks.py").write_text(
        "from torch import nn\ndef make(shape, num_classes):\n    return nn.Linear(shape[0], num_classes)\n"
    )
    config = tiny_config(
        epochs=1, fields=["model.name=user_networks:make", "model.hidden=[]", "model.dropout=0"]
    )
    run = train(config, tmp_path / "run", dataset=dataset)
    path = run.folder / "model.safetensors"
    with pytest.raises(UserError, match="with --model user_networks:make"):
        read_model(path)
    network, _ = read_model(path, model="user_networks:make")
    torch.testing.assert_close(
        network(dataset.test.inputs), torch.from_numpy(run.predictions()["test_logits"])
    )


def test_run_json_is_what_others_can_read(finished: Run) -> None:
    text = (finished.folder / "run.json").read_text()
    assert json.loads(text)["determines"]["data"] == {
        "name": "tiny",
        "single_label": False,
        "validation": True,
    }
    assert str(finished.folder) not in text


def test_results_are_computed_where_the_run_was_trained(dataset, tmp_path, monkeypatch) -> None:
    """Lightning moves the network to the CPU before it returns, where NCCL's processes cannot gather."""
    seen = []

    class Elsewhere(TrainingModule):
        def on_fit_end(self) -> None:  # the device stands for a GPU
            assert self.device.type == "cpu"
            monkeypatch.setattr(type(self.trainer.strategy), "root_device", torch.device("meta"))

    def write(folder, parts, config, *, shard, device) -> None:
        devices = {parameter.device.type for parameter in parts.network.parameters()}
        seen.append((device.type, devices, torch.distributed.is_initialized()))

    monkeypatch.setattr(lightning_run, "TrainingModule", Elsewhere)
    monkeypatch.setattr(lightning_run, "write_results", write)
    train(lightning_config(epochs=1), tmp_path / "run", dataset=dataset)
    assert seen == [("meta", {"meta"}, False)]


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory: you"),
        MemoryError("Unable to allocate 8.00 GiB for an array"),
    ],
)
def test_memory_that_runs_out_is_told_and_the_run_goes_on_afterwards(
    finished: Run, dataset, tmp_path, error: Exception
) -> None:
    sentence = r"memory ran out .* batches of 32: .* the same command resumes .* schedule.batch_size=16"
    with pytest.raises(UserError, match=sentence):
        train(tiny_config(), tmp_path / "run", dataset=dataset, progress=Interrupter(3, error=error))
    assert same_bytes(finished.folder, train(tiny_config(), tmp_path / "run", dataset=dataset).folder)


def test_a_run_keeps_what_test_samples_share(tmp_path, dataset) -> None:
    members = np.arange(len(dataset.test))[:, None] // 3
    shared = dataclasses.replace(
        dataset, test=dataclasses.replace(dataset.test, members=members), unit="patient"
    )
    run = train(tiny_config(epochs=1), tmp_path / "run", dataset=shared)
    assert np.array_equal(run.predictions()["test_members"], members)
    assert run.config["unit"] == "patient"


def test_a_run_keeps_the_row_numbers_of_every_part_and_the_groups_of_test(tmp_path: Path) -> None:
    lines = [f"{row // 3},{row * 0.618034 % 1:.5f},{row % 4 // 3}" for row in range(120)]
    (tmp_path / "a.csv").write_text("who,x,y\n" + "\n".join(lines) + "\n")
    options = DataOptions(labels="y", group="who")
    data = load(tmp_path / "a.csv", options)
    run = train(configure(str(tmp_path / "a.csv"), "bce", options=options, epochs=1), tmp_path / "run")
    arrays = run.predictions()
    for name, numbers in data.row_numbers.items():
        assert np.array_equal(arrays[f"{name}_rows"], numbers)
    read = [int(lines[row - 1][-1]) for row in arrays["test_rows"]]
    assert arrays["test_targets"][:, 0].tolist() == read
    who = (arrays["test_rows"] - 1) // 3
    members = arrays["test_members"][:, 0]
    assert np.array_equal(who[:, None] == who, members[:, None] == members)
    assert run.config["unit"] == "who"
