"""Hugging Face's Trainer and Accelerate, against plain torch."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from safetensors.torch import load_file
from small_trainers import NUM_CLASSES, Network, make_criterion, make_data, make_trainer
from torch.utils.data import IterableDataset
from transformers import Trainer

from forked import run_ranks
from tailmask import PartialLabelMasking
from tailmask.integrations.resume import ResumableState
from tailmask.integrations.transformers import PLMTrainerCallback, plm_loss


def some_unknown(labels: torch.Tensor) -> torch.Tensor:
    unknown = torch.rand(labels.shape, generator=torch.Generator().manual_seed(1)) < 0.3
    return labels.masked_fill(unknown, -100)


@pytest.mark.parametrize("reduction", ["mean", "batchmean", "sum"])
@pytest.mark.parametrize("labels", ["all known", "some unknown", "class indices"])
@pytest.mark.parametrize(("batch_size", "accumulate"), [(16, 1), (8, 2), (6, 3)])
def test_accumulated_batches_have_the_gradients_of_one(tmp_path, reduction, labels, batch_size, accumulate):
    inputs, targets = make_data(16)
    if labels == "some unknown":
        targets = some_unknown(targets)
    if labels == "class indices":
        targets = torch.arange(16) % NUM_CLASSES
    initial_ratio = torch.tensor([0.4, 2.0, 0.7])  # so that both sides are masked
    criterion = make_criterion(expected=True, initial_ratio=initial_ratio, reduction=reduction)
    rate = {"mean": 1.0, "batchmean": 0.3, "sum": 0.02}[reduction]
    trainer = make_trainer(
        tmp_path,
        criterion,
        (inputs, targets),
        per_device_train_batch_size=batch_size,
        gradient_accumulation_steps=accumulate,
        num_train_epochs=1,
        learning_rate=rate,
    )
    trainer.train()
    assert trainer.state.global_step == 1

    network = Network()
    expected = make_criterion(expected=True, initial_ratio=initial_ratio, reduction=reduction)
    expected(network(inputs)["logits"], targets.masked_fill(targets == -100, -1)).backward()
    # The Trainer counts labels: how many samples the other batches have can only be told from this one's.
    is_exact = accumulate == 1 or reduction != "batchmean" or labels != "some unknown"
    tolerances = {} if is_exact else {"rtol": 0.1, "atol": 0.02}
    for parameter, trained in zip(network.parameters(), trainer.model.parameters(), strict=True):
        torch.testing.assert_close((parameter - trained) / rate, parameter.grad, **tolerances)


@pytest.mark.parametrize("reduction", ["mean", "batchmean"])
def test_a_batch_alone_costs_what_the_criterion_says(reduction):
    criterion = make_criterion(reduction=reduction)
    logits, labels = torch.zeros(8, NUM_CLASSES), some_unknown(make_data(8)[1])
    num_items = (labels != -100).sum()  # what the Trainer passes
    assert num_items < labels.numel()
    torch.testing.assert_close(
        plm_loss(criterion)((logits,), labels, num_items), plm_loss(criterion)((logits,), labels)
    )


def test_other_marks_of_unknown_labels_stay_out_of_the_loss():
    criterion = make_criterion()
    logits = torch.randn(8, NUM_CLASSES, generator=torch.Generator().manual_seed(0), requires_grad=True)
    labels = make_data(8)[1]
    labels[::2, 1] = torch.nan
    labels[1, 0] = -1
    known = int((labels >= 0).sum())
    loss = plm_loss(criterion)((logits,), labels, num_items_in_batch=torch.tensor(labels.numel()))
    torch.testing.assert_close(loss, criterion(logits, labels) * known / labels.numel())


def test_the_loss_needs_one_number_and_labels():
    with pytest.raises(ValueError, match='reduction="mean"'):
        plm_loss(make_criterion(reduction="none"))
    with pytest.raises(ValueError, match='call their column "labels"'):
        plm_loss(make_criterion())({"logits": torch.zeros(1, NUM_CLASSES)}, None)
    nothing = torch.full((2, NUM_CLASSES), -100)
    assert plm_loss(make_criterion())({"logits": torch.zeros(2, NUM_CLASSES)}, nothing, 0) == 0.0


def test_refuses_a_criterion_that_follows_the_learning_rate():
    with pytest.raises(ValueError, match=r"damp=True needs .* build the criterion with hold"):
        PLMTrainerCallback(make_criterion(damp=True))


def test_steps_once_an_epoch_as_a_loop_would(tmp_path):
    criterion = make_criterion(expected=True)
    # One batch an epoch, so that the order of the samples does not matter.
    trainer = make_trainer(
        tmp_path,
        criterion,
        per_device_train_batch_size=48,
        eval_strategy="epoch",
        gradient_accumulation_steps=2,
    )
    trainer.train()

    network, expected = Network(), make_criterion(expected=True)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.5)
    inputs, targets = make_data()
    for _ in range(3):
        expected(network(inputs)["logits"], targets).backward()
        optimizer.step()
        optimizer.zero_grad()
        update = expected.step()
    torch.testing.assert_close(criterion.target_ratio, expected.target_ratio)
    torch.testing.assert_close(trainer.model.linear.weight, network.linear.weight)
    assert not criterion.counts.any()  # evaluation records nothing
    steps = [entry for entry in trainer.state.log_history if "plm/ratio_min" in entry]
    assert [entry["epoch"] for entry in steps] == [1.0, 2.0, 3.0]
    assert steps[-1]["plm/gap/1"] == pytest.approx(update.gap[1].item(), rel=1e-4)


def assert_same(trainer: Trainer, criterion: PartialLabelMasking, whole: Trainer, expected) -> None:
    assert criterion.num_steps == expected.num_steps > 0
    assert criterion.target_ratio.equal(expected.target_ratio)
    assert trainer.model.linear.weight.equal(whole.model.linear.weight)


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("strategy", ["steps", "epoch"])
def test_resumes_from_every_checkpoint(tmp_path, accumulate, strategy):
    options = {"gradient_accumulation_steps": accumulate, "save_strategy": strategy, "save_steps": 2}
    expected = make_criterion()
    whole = make_trainer(tmp_path, expected, **options)
    whole.train()
    checkpoints = {"steps": [2, 4, 6], "epoch": [6 // accumulate, 12 // accumulate]}[strategy]
    for number in checkpoints:
        folder = tmp_path / f"checkpoint-{number}"
        assert (folder / "plm.safetensors").is_file()
        criterion = make_criterion()
        trainer = make_trainer(tmp_path, criterion, **options | {"save_strategy": "no"})
        trainer.train(resume_from_checkpoint=str(folder))
        assert_same(trainer, criterion, whole, expected)


def test_a_cut_epoch_is_completed_by_the_resumed_run(tmp_path):
    expected = make_criterion()
    whole = make_trainer(tmp_path / "whole", expected)
    whole.train()
    criterion = make_criterion()
    cut = make_trainer(tmp_path, criterion, max_steps=8, save_strategy="steps", save_steps=100)
    cut.train()
    assert criterion.num_steps == 1
    criterion = make_criterion()
    trainer = make_trainer(tmp_path, criterion)
    trainer.train(resume_from_checkpoint=True)
    assert_same(trainer, criterion, whole, expected)


def test_a_checkpoint_elsewhere_has_to_be_named(tmp_path):
    expected = make_criterion()
    whole = make_trainer(tmp_path / "whole", expected, save_strategy="steps", save_steps=5)
    whole.train()
    checkpoint = tmp_path / "whole" / "checkpoint-5"
    # Another run has stopped after as many steps.
    other = make_criterion(rate=0.1)
    make_trainer(tmp_path / "new", other, save_strategy="steps", save_steps=5, max_steps=10).train()

    criterion = make_criterion()
    trainer = make_trainer(tmp_path / "new", criterion, resume_from_checkpoint=str(checkpoint))
    trainer.train(resume_from_checkpoint=str(checkpoint))
    assert_same(trainer, criterion, whole, expected)

    shutil.copytree(tmp_path / "whole" / "checkpoint-10", tmp_path / "moved")
    with pytest.raises(ValueError, match=r"plm\.safetensors in .* TrainingArguments\(resume_from_checkpoint"):
        make_trainer(tmp_path / "new", make_criterion()).train(resume_from_checkpoint=str(tmp_path / "moved"))


def test_data_without_a_length_are_stepped_at_the_end_of_each_pass(tmp_path):
    inputs, labels = make_data(32)

    class Stream(IterableDataset):
        def __iter__(self):
            return iter([{"inputs": x, "labels": y} for x, y in zip(inputs, labels, strict=True)])

    criterion = make_criterion()
    trainer = make_trainer(tmp_path, criterion, train_dataset=Stream(), max_steps=10)
    trainer.train()
    assert criterion.num_steps == 2
    assert criterion.counts.sum() == 2 * 8 * NUM_CLASSES  # of the third pass, which is cut


@pytest.mark.parametrize("wrap", [lambda criterion: criterion, ResumableState])
def test_accelerate_saves_and_loads_the_criterion(tmp_path, wrap):
    def train(num_batches: int, accelerator: Accelerator, model, optimizer, criterion) -> None:
        inputs, targets = make_data()
        for _ in range(num_batches):
            accelerator.backward(criterion(model(inputs)["logits"], targets))
            optimizer.step()
            optimizer.zero_grad()

    def prepare(criterion: PartialLabelMasking):
        network = Network()
        accelerator = Accelerator(cpu=True)
        prepared = accelerator.prepare(network, torch.optim.SGD(network.parameters(), lr=0.5))
        accelerator.register_for_checkpointing(wrap(criterion))
        return accelerator, *prepared, criterion

    whole = prepare(make_criterion())
    train(3, *whole)
    whole[-1].step()
    train(1, *whole)
    whole[0].save_state(tmp_path / "state")
    train(1, *whole)
    whole[-1].step()

    resumed = prepare(make_criterion())
    resumed[0].load_state(tmp_path / "state")
    train(1, *resumed)
    resumed[-1].step()
    assert resumed[-1].target_ratio.equal(whole[-1].target_ratio)
    assert resumed[1].linear.weight.equal(whole[1].linear.weight)


def test_the_criterion_belongs_to_the_best_model(tmp_path):
    options = {"eval_strategy": "epoch", "save_strategy": "epoch", "load_best_model_at_end": True}
    criterion = make_criterion()
    trainer = make_trainer(tmp_path, criterion, **options, learning_rate=30.0)  # too high to end best
    trainer.train()
    best, last = Path(trainer.state.best_model_checkpoint), tmp_path / "checkpoint-18"
    assert best != last
    states = [load_file(folder / "plm.safetensors") for folder in (best, last)]
    assert not states[0]["target_ratio"].equal(states[1]["target_ratio"])
    assert criterion.target_ratio.equal(states[0]["target_ratio"])
    assert criterion.trained_keep.equal(states[0]["trained_keep"])


def test_every_process_goes_back_to_the_ratios_of_the_best_model(tmp_path):
    script = Path(__file__).with_name("transformers_ddp.py")
    run_ranks(script, tmp_path, tmp_path)
    first, second = (json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(2))
    assert first == second
    assert first["steps"] == int(load_file(Path(first["best"]) / "plm.safetensors")["num_steps"]) < 3


def test_two_criteria_have_a_state_each(tmp_path):
    def make(root, **options):
        first, second = make_criterion(), make_criterion(rate=0.1)
        trainer = make_trainer(root, first, **options)
        trainer.compute_loss_func = lambda *args, **kwargs: (
            plm_loss(first)(*args, **kwargs) + plm_loss(second)(*args, **kwargs)
        )
        trainer.add_callback(PLMTrainerCallback(second, name="other"))
        return trainer, first, second

    trainer, *expected = make(tmp_path, save_strategy="epoch")
    trainer.train()
    assert any("plm/other/ratio_min" in entry for entry in trainer.state.log_history)
    trainer, *found = make(tmp_path)
    trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-6"))
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.target_ratio.equal(theirs.target_ratio)
    assert not found[0].target_ratio.equal(found[1].target_ratio)
