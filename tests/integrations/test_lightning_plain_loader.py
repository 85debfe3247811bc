"""What Lightning does with an ordinary DataLoader in the middle of an epoch, and what is counted then."""

from __future__ import annotations

import pytest
import pytorch_lightning
import torch
from small_fits import BATCH_SIZE, NUM_BATCHES, ResumableLoader, make_data, make_module, make_trainer
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from tailmask.integrations.lightning import PLMCallback

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:pytorch_lightning")

NUM_CLASSES = 3
NUM_SAMPLES = NUM_BATCHES * BATCH_SIZE - 5  # the last batch is smaller


class Counts(pytorch_lightning.Callback):
    """The samples that each step counts; stands before the PLMCallback, which steps and then forgets."""

    def __init__(self):
        self.of_steps: list[int] = []

    def on_train_epoch_end(self, trainer, pl_module):
        self.of_steps.append(int(pl_module.criterion.counts.sum()) // NUM_CLASSES)


def fit(root, loader, *, ckpt_path=None, callbacks=(), plm=None, take=tuple, **options):
    module = make_module(pytorch_lightning)
    module.samples = []
    step = type(module).training_step.__get__(module)

    def training_step(batch, batch_idx):
        batch = take(batch)
        module.samples.append((module.trainer.current_epoch, batch_idx, batch[0][:, 0].tolist()))
        return step(batch, batch_idx)

    module.training_step = training_step
    counts = Counts()
    trainer = make_trainer(
        pytorch_lightning,
        root,
        callbacks=[counts, plm or PLMCallback(), *callbacks],
        enable_checkpointing=bool(callbacks),
        **options,
    )
    trainer.fit(module, loader, DataLoader(make_data(3, seed=1), BATCH_SIZE), ckpt_path=ckpt_path)
    return module, counts


def data() -> TensorDataset:
    return TensorDataset(*(tensor[:NUM_SAMPLES] for tensor in make_data().tensors))


def plain_loader(*, shuffle: bool = False) -> DataLoader:
    return DataLoader(data(), BATCH_SIZE, shuffle=shuffle, generator=torch.Generator().manual_seed(0))


class Stream(IterableDataset):
    """The samples without their number."""

    def __iter__(self):
        return iter(zip(*data().tensors, strict=True))


def checkpoints(root, **when):
    return pytorch_lightning.callbacks.ModelCheckpoint(root, filename="{step}", save_top_k=-1, **when)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize(
    ("when", "options", "step"),
    [
        ({"every_n_train_steps": 2}, {}, 2),
        ({"every_n_train_steps": 3}, {}, 3),
        ({"every_n_train_steps": 4}, {}, 4),
        ({"every_n_train_steps": 5}, {}, 5),
        ({"save_on_train_epoch_end": False}, {"val_check_interval": 0.5}, 3),
        ({"every_n_train_steps": 8}, {}, 8),
        # Here the epoch is over, and nothing is counted but once anyway.
        ({"every_n_train_steps": NUM_BATCHES}, {}, NUM_BATCHES),
        ({"save_on_train_epoch_end": True}, {}, NUM_BATCHES),
        ({"save_on_train_epoch_end": False}, {}, NUM_BATCHES),
    ],
)
def test_no_sample_is_counted_twice(tmp_path, when, options, step, shuffle):
    fit(tmp_path, plain_loader(shuffle=shuffle), callbacks=[checkpoints(tmp_path, **when)], **options)
    path = tmp_path / f"step={step}.ckpt"
    module, counts = fit(tmp_path, plain_loader(shuffle=shuffle), ckpt_path=path, **options)
    assert module.criterion.num_steps == 3
    position = step % NUM_BATCHES
    assert module.samples[0][1] == position
    if position:
        counted = counts.of_steps.pop(0)
        # One part of the epoch, the larger one: that before the checkpoint, or that after it.
        assert counted == max(position, NUM_BATCHES - position) * BATCH_SIZE
    assert set(counts.of_steps) == {NUM_SAMPLES}
    assert module.criterion.statistics == "training"


def test_lightning_starts_a_plain_loader_again(tmp_path):
    """What the callback goes by; where this changes, it may count both parts."""
    whole, _ = fit(tmp_path, plain_loader(), callbacks=[checkpoints(tmp_path, every_n_train_steps=2)])
    resumed, _ = fit(tmp_path, plain_loader(), ckpt_path=tmp_path / "step=2.ckpt")
    batches = [values for _, _, values in whole.samples]
    assert [values for _, _, values in resumed.samples[: NUM_BATCHES - 2]] == batches[: NUM_BATCHES - 2]
    assert [values for _, _, values in resumed.samples[NUM_BATCHES - 2 :]] == batches[NUM_BATCHES:]


def test_a_stream_is_counted_whole(tmp_path):
    loader = DataLoader(Stream(), BATCH_SIZE)
    fit(tmp_path, loader, callbacks=[checkpoints(tmp_path, every_n_train_steps=5)])
    _, counts = fit(tmp_path, loader, ckpt_path=tmp_path / "step=5.ckpt")
    assert counts.of_steps == [NUM_SAMPLES] * 3


def test_a_loader_that_becomes_resumable_later_has_no_position(tmp_path):
    """Lightning's own advice on resuming; but the checkpoint does not say where the loader was."""
    fit(tmp_path, plain_loader(), callbacks=[checkpoints(tmp_path, every_n_train_steps=2)])
    _, counts = fit(tmp_path, ResumableLoader(data(), BATCH_SIZE), ckpt_path=tmp_path / "step=2.ckpt")
    assert counts.of_steps == [(NUM_BATCHES - 2) * BATCH_SIZE, NUM_SAMPLES, NUM_SAMPLES]


def test_a_loader_with_a_position_is_counted_whole(tmp_path):
    def loader():
        return ResumableLoader(data(), BATCH_SIZE)

    fit(tmp_path, loader(), callbacks=[checkpoints(tmp_path, every_n_train_steps=2)])
    _, counts = fit(tmp_path, loader(), ckpt_path=tmp_path / "step=2.ckpt")
    assert counts.of_steps == [NUM_SAMPLES] * 3


def test_one_loader_without_a_position_is_enough(tmp_path):
    def loaders():
        return {"first": ResumableLoader(data(), BATCH_SIZE), "second": plain_loader()}

    def take_second(batch):
        return batch["second"]

    fit(tmp_path, loaders(), take=take_second, callbacks=[checkpoints(tmp_path, every_n_train_steps=2)])
    _, counts = fit(tmp_path, loaders(), take=take_second, ckpt_path=tmp_path / "step=2.ckpt")
    assert counts.of_steps[0] == (NUM_BATCHES - 2) * BATCH_SIZE


def test_a_run_that_is_resumed_twice_counts_no_sample_twice(tmp_path):
    fit(tmp_path, plain_loader(), callbacks=[checkpoints(tmp_path / "a", every_n_train_steps=4)])
    again = [checkpoints(tmp_path / "b", every_n_train_steps=5)]
    fit(tmp_path, plain_loader(), ckpt_path=tmp_path / "a" / "step=4.ckpt", callbacks=again)
    module, counts = fit(tmp_path, plain_loader(), ckpt_path=tmp_path / "b" / "step=5.ckpt")
    assert counts.of_steps == [4 * BATCH_SIZE, NUM_SAMPLES, NUM_SAMPLES]
    assert module.criterion.statistics == "training"


def test_held_out_statistics_are_those_of_one_pass(tmp_path):
    options = {"val_check_interval": 0.5}
    saving = checkpoints(tmp_path, every_n_train_steps=4)
    plm = PLMCallback(statistics="validation")
    fit(tmp_path, plain_loader(), callbacks=[saving], plm=plm, **options)
    plm = PLMCallback(statistics="validation")
    path = tmp_path / "step=4.ckpt"
    _, counts = fit(tmp_path, plain_loader(), plm=plm, ckpt_path=path, **options)
    assert counts.of_steps == [3 * BATCH_SIZE] * 3


@pytest.mark.parametrize("same_trainer", [False, True])
@pytest.mark.parametrize("interrupted", [False, True])
def test_a_new_fit_starts_without_the_counts_of_the_last(tmp_path, same_trainer, interrupted):
    module = make_module(pytorch_lightning)
    counts, plm = Counts(), PLMCallback()
    trainer = make_trainer(
        pytorch_lightning, tmp_path, callbacks=[counts, plm], max_epochs=1, max_steps=-1 if interrupted else 2
    )
    if interrupted:
        step = module.training_step
        module.training_step = lambda batch, batch_idx: step(batch, batch_idx) if batch_idx < 2 else 1 / 0
        with pytest.raises(ZeroDivisionError):
            trainer.fit(module, plain_loader())
        del module.training_step
    else:
        trainer.fit(module, plain_loader())
    assert module.criterion.counts.any(), "a checkpoint may yet be saved of them"
    if same_trainer:
        trainer.fit_loop.epoch_loop.max_steps = -1
        trainer.fit_loop.max_epochs = 3
    else:
        trainer = make_trainer(pytorch_lightning, tmp_path, callbacks=[counts, PLMCallback()], max_epochs=1)
    counts.of_steps.clear()
    trainer.fit(module, plain_loader())
    assert counts.of_steps[0] == NUM_SAMPLES
