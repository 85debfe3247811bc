"""Hugging Face's Trainer and Accelerate, against plain torch."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from safetensors.torch import load_file
from torch import nn
from torch.utils.data import IterableDataset
from transformers import Trainer, TrainingArguments

from tailmask import PartialLabelMasking
from tailmask.integrations.resume import ResumableState
from tailmask.integrations.transformers import PLMTrainerCallback, plm_loss

NUM_CLASSES = 3


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, NUM_CLASSES)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.linspace(-1.0, 1.0, parameter.numel()).view_as(parameter))

    def forward(self, inputs, labels=None):
        return {"logits": self.linear(inputs)}


def make_data(num_samples: int = 48) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(num_samples, 5, generator=generator)
    rare = torch.rand(num_samples, NUM_CLASSES, generator=generator) < torch.tensor([0.6, 0.3, 0.15])
    return inputs, (rare | (inputs[:, :NUM_CLASSES] > 1.2)).float()


def make_criterion(**options) -> PartialLabelMasking:
    return PartialLabelMasking.from_targets(make_data()[1], **{"rate": 0.5, "num_bins": 4} | options)


def make_trainer(root: Path, criterion: PartialLabelMasking, data=None, **options) -> Trainer:
    inputs, labels = data or make_data()
    options = {
        "per_device_train_batch_size": 8,
        "learning_rate": 0.5,
        "optim": "sgd",
        "lr_scheduler_type": "constant",
        "max_grad_norm": 0.0,
        "save_strategy": "no",
        "num_train_epochs": 3,
    } | options
    dataset = options.pop("train_dataset", None)
    statistics = options.pop("statistics", "training")
    arguments = TrainingArguments(
        root, report_to="none", disable_tqdm=True, use_cpu=True, logging_strategy="no", seed=3, **options
    )
    rows = [{"inputs": x, "labels": y} for x, y in zip(inputs, labels, strict=True)]
    return Trainer(
        Network(),
        arguments,
        train_dataset=dataset or rows,
        eval_dataset=rows,
        compute_loss_func=plm_loss(criterion),
        callbacks=[PLMTrainerCallback(criterion, statistics=statistics)],
    )


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
    with pytest.raises(ValueError, match="is missing or another's: give the checkpoint's folder"):
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


def held_out() -> list[dict[str, torch.Tensor]]:
    """Twenty rows with other shares of positives than those that are trained on."""
    inputs, labels = make_data(68)
    return [{"inputs": x, "labels": y} for x, y in zip(inputs[48:], 1 - labels[48:], strict=True)]


def stepped_by(rows: list[dict[str, torch.Tensor]], steps: int, **options) -> PartialLabelMasking:
    """A criterion that saw just these rows, before each of its steps, through the untrained network."""
    criterion = make_criterion(record=False, **options)
    for _ in range(steps):
        for row in rows:
            criterion.update(Network()(row["inputs"])["logits"].unsqueeze(0), row["labels"].unsqueeze(0))
        criterion.step()
    return criterion


# Evaluations an epoch of six batches: one at its end; two within; one within and one at its last batch.
@pytest.mark.parametrize(
    "evaluations",
    [
        {"eval_strategy": "epoch"},
        {"eval_strategy": "epoch", "eval_on_start": True},
        {"eval_strategy": "steps", "eval_steps": 2},
        {"eval_strategy": "steps", "eval_steps": 3},
    ],
)
@pytest.mark.parametrize("adapt", ["divergence", "rate"])
def test_evaluation_moves_the_ratios_in_place_of_training(tmp_path, evaluations, adapt):
    options = {"adapt": adapt, "warmup": 0}
    criterion = make_criterion(**options)
    trainer = make_trainer(tmp_path, criterion, statistics="validation", learning_rate=0.0, **evaluations)
    trainer.eval_dataset = held_out()
    trainer.train()
    torch.testing.assert_close(criterion.target_ratio, stepped_by(held_out(), 3, **options).target_ratio)
    assert criterion.record
    ratio = criterion.target_ratio.clone()
    trainer.evaluate()
    trainer.predict(held_out())
    assert not criterion.counts.any()  # nothing is recorded after training
    assert criterion.target_ratio.equal(ratio)


def test_an_epoch_without_evaluation_is_not_stepped(tmp_path):
    criterion = make_criterion()
    make_trainer(tmp_path, criterion, statistics="validation").train()
    assert criterion.num_steps == 0


def test_of_several_sets_one_steps_the_criterion_once(tmp_path):
    criterion = make_criterion()
    trainer = make_trainer(
        tmp_path, criterion, statistics="validation", learning_rate=0.0, eval_strategy="epoch"
    )
    trainer.eval_dataset = {"first": held_out(), "second": held_out()[:3]}
    trainer.train()
    assert criterion.num_steps == 3
    torch.testing.assert_close(criterion.target_ratio, stepped_by(held_out(), 3).target_ratio)


def test_a_run_that_evaluation_steers_resumes_to_the_same_ratios(tmp_path):
    options = {"eval_strategy": "epoch", "save_strategy": "epoch", "statistics": "validation"}
    whole, half = make_criterion(expected=True), make_criterion(expected=True)
    make_trainer(tmp_path / "whole", whole, **options).train()
    make_trainer(tmp_path / "half", half, **options | {"num_train_epochs": 2}).train()
    resumed = make_criterion(expected=True)
    make_trainer(tmp_path / "half", resumed, **options).train(resume_from_checkpoint=True)
    torch.testing.assert_close(resumed.target_ratio, whole.target_ratio)
    assert resumed.num_steps == whole.num_steps == 3


def test_statistics_has_two_choices():
    with pytest.raises(ValueError, match="statistics is not 'validating'"):
        PLMTrainerCallback(make_criterion(), statistics="validating")


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


def test_says_where_training_ends_before_anything_is_masked(tmp_path):
    options = {"eval_strategy": "epoch", "statistics": "validation"}
    with pytest.warns(UserWarning, match=r"after 3 epochs, so nothing is masked: .* rate=0\.5, warmup=1"):
        make_trainer(tmp_path, make_criterion(adapt="rate"), **options).train()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*nothing is masked")
        make_trainer(tmp_path, make_criterion(adapt="rate", warmup=1), **options).train()
