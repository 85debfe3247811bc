"""What moves the ratios in Hugging Face's Trainer: training or evaluation, in time, from a clean start."""

from __future__ import annotations

import warnings

import pytest
import torch
from small_trainers import NUM_CLASSES, Network, make_criterion, make_data, make_trainer

from tailmask import PartialLabelMasking
from tailmask.integrations.transformers import PLMTrainerCallback


def held_out() -> list[dict[str, torch.Tensor]]:
    """Twenty rows with other shares of positives than those that are trained on."""
    inputs, labels = make_data(68)
    return [{"inputs": x, "labels": y} for x, y in zip(inputs[48:], 1 - labels[48:], strict=True)]


def stepped_by(rows: list[dict[str, torch.Tensor]], steps: int, **options) -> PartialLabelMasking:
    """A criterion that saw just these rows, before each of its steps, through the untrained network."""
    criterion = make_criterion(statistics="validation", **options)
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
@pytest.mark.parametrize("adapt", ["divergence", "prevalence"])
def test_evaluation_moves_the_ratios_in_place_of_training(tmp_path, evaluations, adapt):
    options = {"adapt": adapt, "warmup": 0}
    criterion = make_criterion(**options)
    trainer = make_trainer(tmp_path, criterion, statistics="validation", learning_rate=0.0, **evaluations)
    trainer.eval_dataset = held_out()
    trainer.train()
    torch.testing.assert_close(criterion.target_ratio, stepped_by(held_out(), 3, **options).target_ratio)
    assert criterion.statistics == ("validation" if adapt == "prevalence" else "training")
    ratio = criterion.target_ratio.clone()
    trainer.evaluate()
    trainer.predict(held_out())
    assert not criterion.counts.any()  # nothing is recorded after training
    assert criterion.target_ratio.equal(ratio)


def test_a_training_without_evaluation_is_not_stepped_and_says_so(tmp_path):
    criterion = make_criterion()
    with pytest.warns(UserWarning, match=r'nothing is masked.*eval_strategy="epoch"'):
        make_trainer(tmp_path, criterion, statistics="validation").train()
    assert criterion.num_steps == 0


@pytest.mark.parametrize("statistics", ["training", "validation"])
def test_bad_labels_in_training_are_reported_whatever_moves_the_ratios(tmp_path, statistics):
    inputs, labels = make_data()
    criterion = make_criterion()
    trainer = make_trainer(
        tmp_path, criterion, (inputs, 255 * labels), statistics=statistics, eval_strategy="epoch"
    )
    trainer.eval_dataset = held_out()
    with pytest.raises(ValueError, match=f"got {int(labels.sum())} others"):
        trainer.train()


def test_a_new_network_starts_from_the_first_ratios(tmp_path):
    criterion = make_criterion(expected=True)
    trainer = make_trainer(tmp_path, criterion, num_train_epochs=2)
    trainer.model_init = Network
    trainer.train()
    after_first = criterion.target_ratio.clone()
    trainer.train()  # as the trials of a search do
    assert criterion.target_ratio.equal(after_first)
    assert criterion.num_steps == 2


def test_a_network_that_is_trained_on_keeps_its_ratios(tmp_path):
    criterion = make_criterion()
    trainer = make_trainer(tmp_path, criterion, num_train_epochs=2)
    trainer.train()
    trainer.train()
    assert criterion.num_steps == 4


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
    with pytest.raises(ValueError, match=r"statistics .* 'validating'"):
        PLMTrainerCallback(make_criterion(), statistics="validating")


def test_says_where_training_ends_before_anything_is_masked(tmp_path):
    options = {"eval_strategy": "epoch", "statistics": "validation"}
    with pytest.warns(
        UserWarning, match=r"3 epochs to go, so nothing is masked: .* with epochs=3 and no warmup$"
    ):
        make_trainer(tmp_path, make_criterion(adapt="prevalence"), **options).train()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*nothing is masked")
        make_trainer(tmp_path, make_criterion(adapt="prevalence", epochs=3), **options).train()


@pytest.mark.parametrize("strategy", ["steps", "epoch"])  # before the step of the second epoch, or after it
def test_counts_the_epochs_that_a_resumed_training_has_left(tmp_path, strategy):
    options = {"save_strategy": strategy, "save_steps": 12}
    with warnings.catch_warnings(action="ignore"):
        make_trainer(tmp_path, make_criterion(adapt="prevalence"), **options).train()
    options = {"save_strategy": "no"}
    checkpoint = str(tmp_path / "checkpoint-12")
    trainer = make_trainer(tmp_path, make_criterion(adapt="prevalence"), num_train_epochs=6, **options)
    with pytest.warns(UserWarning, match=r"has [45] epochs to go, so nothing is masked"):
        trainer.train(resume_from_checkpoint=checkpoint)
    trainer = make_trainer(tmp_path, make_criterion(adapt="prevalence"), num_train_epochs=7, **options)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*nothing is masked")
        trainer.train(resume_from_checkpoint=checkpoint)


def steps_of(trainer, criterion) -> list[int]:
    """How many samples each step counts in a training."""
    counts, step = [], criterion.step

    def count_and_step():
        counts.append(int(criterion.counts.sum()) // NUM_CLASSES)
        return step()

    criterion.step = count_and_step
    trainer.train()
    del criterion.step
    return counts


@pytest.mark.parametrize("same_trainer", [False, True])
@pytest.mark.parametrize("interrupted", [False, True])
def test_a_training_starts_without_the_counts_of_the_last(tmp_path, same_trainer, interrupted):
    criterion = make_criterion()
    trainer = make_trainer(tmp_path, criterion, max_steps=-1 if interrupted else 8)
    if interrupted:
        loss, calls = trainer.compute_loss_func, iter(range(8))

        def interrupt(*args, **kwargs):
            if next(calls, None) is None:
                raise KeyboardInterrupt
            return loss(*args, **kwargs)

        trainer.compute_loss_func = interrupt
        with pytest.raises(KeyboardInterrupt):
            trainer.train()
        trainer.compute_loss_func = loss
    else:
        trainer.train()
    assert criterion.counts.sum() == 2 * 8 * NUM_CLASSES
    if same_trainer:
        trainer.args.max_steps = -1
    else:
        trainer = make_trainer(tmp_path, criterion)
    assert steps_of(trainer, criterion) == [48, 48, 48]


def test_evaluation_after_a_training_that_was_cut_counts_one_pass(tmp_path):
    """An evaluation that is interrupted leaves half of its counts, and those of the next one replace them."""
    options = {"statistics": "validation", "eval_strategy": "epoch", "per_device_eval_batch_size": 8}
    criterion = make_criterion()
    trainer = make_trainer(tmp_path, criterion, **options)
    record, calls = criterion.update, iter(range(2))

    def interrupt(*args):
        record(*args)
        if next(calls, None) is None:
            raise KeyboardInterrupt

    criterion.update = interrupt
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    del criterion.update
    assert criterion.counts.any()
    assert steps_of(trainer, criterion) == [48, 48, 48]


def test_an_epoch_that_starts_again_forgets_its_first_part(tmp_path):
    make_trainer(tmp_path, make_criterion(), save_strategy="steps", save_steps=8).train()
    criterion = make_criterion()
    trainer = make_trainer(tmp_path, criterion, ignore_data_skip=True)
    train, path = trainer.train, str(tmp_path / "checkpoint-8")
    trainer.train = lambda: train(resume_from_checkpoint=path)
    assert steps_of(trainer, criterion)[0] == 48
