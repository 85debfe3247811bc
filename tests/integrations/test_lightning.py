"""The Lightning callback against a plain loop, in both packages, through every kind of checkpoint."""

from __future__ import annotations

import importlib
import json
import runpy
import sys
import warnings
from pathlib import Path
from types import ModuleType

import pytest
import torch
from small_fits import (
    BATCH_SIZE,
    NUM_BATCHES,
    assert_same,
    loaders,
    make_module,
    make_parts,
    make_trainer,
    train_plainly,
)

from forked import run_ranks
from tailmask.integrations.lightning import PLMCallback

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning:lightning"),
    pytest.mark.filterwarnings("ignore::UserWarning:pytorch_lightning"),
]


@pytest.fixture(params=["pytorch_lightning", "lightning.pytorch"])
def package(request: pytest.FixtureRequest) -> ModuleType:
    return importlib.import_module(request.param)


@pytest.mark.parametrize("accumulate", [1, 3])
def test_steps_once_an_epoch(package, tmp_path, accumulate):
    module = make_module(package)
    make_trainer(package, tmp_path, accumulate_grad_batches=accumulate).fit(module, *loaders())
    assert_same(module, train_plainly(accumulate=accumulate))
    for epoch in range(3):  # the ratios hold still within an epoch
        within = torch.stack(module.ratios[epoch * NUM_BATCHES : (epoch + 1) * NUM_BATCHES])
        assert within.eq(within[0]).all()


def test_a_sampled_epoch_counts_as_one(package, tmp_path):
    module = make_module(package)
    make_trainer(package, tmp_path, limit_train_batches=4).fit(module, *loaders())
    assert module.criterion.num_steps == 3


@pytest.mark.parametrize(
    ("where", "when"),
    [
        ("middle", {"every_n_train_steps": 5}),
        ("last batch", {"every_n_train_steps": NUM_BATCHES}),
        ("epoch end", {"every_n_epochs": 1, "save_on_train_epoch_end": True}),
        ("validation", {"every_n_epochs": 1, "save_on_train_epoch_end": False}),
    ],
)
@pytest.mark.parametrize("statistics", ["training", "validation"])
def test_resumes_from_every_checkpoint(package, tmp_path, where, when, statistics):
    def callback():
        return PLMCallback(statistics=statistics)

    checkpoints = package.callbacks.ModelCheckpoint(tmp_path / "all", save_top_k=-1, **when)
    whole = make_module(package)
    trainer = make_trainer(package, tmp_path, callbacks=[checkpoints, callback()], enable_checkpointing=True)
    trainer.fit(whole, *loaders(validation=True))
    if statistics == "training":
        assert_same(whole, train_plainly())
    paths = sorted((tmp_path / "all").glob("*.ckpt"))
    assert len(paths) >= 3
    for path in paths:
        position = torch.load(path, weights_only=True)["global_step"]
        if where == "last batch" and (statistics == "validation" or position == 3 * NUM_BATCHES):
            continue  # Lightning takes the epoch for finished, and neither validates nor trains any more
        resumed = make_module(package)
        trainer = make_trainer(package, tmp_path, callbacks=[callback()])
        trainer.fit(resumed, *loaders(validation=True), ckpt_path=path)
        assert_same(resumed, (whole.model, whole.criterion))


@pytest.mark.parametrize("statistics", ["validation", None])  # None is the criterion's own choice
@pytest.mark.parametrize("checks", [1.0, 0.5])
def test_validation_statistics_are_those_of_the_last_pass(package, tmp_path, checks, statistics):
    module = make_module(package, adapt="prevalence", warmup=0)
    callback = PLMCallback("criterion", statistics=statistics)
    trainer = make_trainer(package, tmp_path, callbacks=[callback], val_check_interval=checks)
    trainer.fit(module, *loaders(validation=True))
    expected = train_plainly(adapt="prevalence", warmup=0, validate=True)
    assert_same(module, expected)
    trainer.validate(module, loaders(validation=True)[1], verbose=False)
    assert not module.criterion.counts.any()


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_later_fit_may_take_its_statistics_from_training(package, tmp_path, interrupted):
    module = make_module(package)
    trainer = make_trainer(package, tmp_path, callbacks=[PLMCallback(statistics="validation")], max_epochs=1)
    if interrupted:
        module.training_step = lambda batch, batch_idx: 1 / 0
        with pytest.raises(ZeroDivisionError):
            trainer.fit(module, *loaders(validation=True))
        del module.training_step
    else:
        trainer.fit(module, *loaders(validation=True))
    assert module.criterion.statistics == "training"
    steps = int(module.criterion.num_steps)
    make_trainer(package, tmp_path, callbacks=[PLMCallback()], max_epochs=1).fit(module, *loaders())
    assert module.criterion.num_steps == steps + 1


@pytest.mark.parametrize("statistics", ["training", "validation"])
def test_a_criterion_that_does_not_record_stays_so(package, tmp_path, statistics):
    module = make_module(package, statistics="validation")
    module.on_train_start = lambda: module.criterion.update(torch.zeros(8, 3), torch.ones(8, 3))
    callback = PLMCallback(statistics=statistics)
    make_trainer(package, tmp_path, callbacks=[callback], max_epochs=1).fit(module, *loaders(validation=True))
    assert module.criterion.statistics == "validation"


def test_epochs_without_validation_keep_their_ratios(package, tmp_path):
    module = make_module(package)
    callback = PLMCallback(statistics="validation")
    trainer = make_trainer(package, tmp_path, callbacks=[callback], max_epochs=4, check_val_every_n_epoch=2)
    trainer.fit(module, *loaders(validation=True))
    assert module.criterion.num_steps == 2


def test_a_fit_without_validation_is_not_stepped_and_says_so(package, tmp_path):
    module = make_module(package)
    trainer = make_trainer(package, tmp_path, callbacks=[PLMCallback(statistics="validation")])
    with pytest.warns(UserWarning, match=r"nothing is masked: .* validation data"):
        trainer.fit(module, *loaders())
    assert module.criterion.num_steps == 0


@pytest.mark.parametrize("checks", [1, 2])
@pytest.mark.parametrize("statistics", ["training", "validation"])
def test_bad_labels_in_training_are_reported_whatever_moves_the_ratios(package, tmp_path, statistics, checks):
    module = make_module(package)
    step = module.training_step
    module.training_step = lambda batch, batch_idx: step((batch[0], 255 * batch[1]), batch_idx)
    callback = PLMCallback(statistics=statistics)
    trainer = make_trainer(package, tmp_path, callbacks=[callback], check_val_every_n_epoch=checks)
    with pytest.raises(ValueError, match="targets must be from 0 to 1"):
        trainer.fit(module, *loaders(validation=True))


def test_validation_without_the_criterion_is_an_error(package, tmp_path):
    module = make_module(package)
    module.validation_step = lambda batch, batch_idx: None
    trainer = make_trainer(package, tmp_path, callbacks=[PLMCallback(statistics="validation")])
    with pytest.raises(ValueError, match=r"step\(\) .* got none"):
        trainer.fit(module, *loaders(validation=True))


def test_a_cut_epoch_gives_its_statistics_to_a_checkpoint(package, tmp_path):
    module = make_module(package, expected=True)
    trainer = make_trainer(package, tmp_path, max_epochs=-1, max_steps=NUM_BATCHES + 2)
    trainer.fit(module, *loaders())
    assert module.criterion.num_steps == 1
    assert module.criterion.counts.sum() == 2 * BATCH_SIZE * 3
    trainer.save_checkpoint(tmp_path / "cut.ckpt")
    resumed = make_module(package, expected=True)
    make_trainer(package, tmp_path).fit(resumed, *loaders(), ckpt_path=tmp_path / "cut.ckpt")
    assert resumed.criterion.num_steps == 2
    assert not resumed.criterion.counts.any()


def test_logs_ratios_and_divergences(package, tmp_path):
    logger = package.loggers.CSVLogger(tmp_path)
    module = make_module(package)
    trainer = make_trainer(package, tmp_path, logger=logger, max_epochs=2, log_every_n_steps=1)
    trainer.fit(module, *loaders())
    ratio = module.criterion.target_ratio
    logged = trainer.logged_metrics
    assert logged["plm/ratio_min"] == ratio.min()
    assert logged["plm/ratio_max"] == ratio.max()
    assert logged["plm/ratio/2"] == ratio[2]
    assert {"plm/gap/0", "plm/divergence_negatives", "plm/divergence_positives"} <= logged.keys()
    torch.testing.assert_close(logged["plm/kept_negatives"], module.criterion.keep[0].mean())


def test_a_module_with_two_criteria_has_two_callbacks(package, tmp_path):
    module = make_module(package)
    module.other = make_parts(rate=0.0)[1]
    module.on_train_start = lambda: module.other.update(torch.zeros(8, 3), torch.ones(8, 3))
    callbacks = [PLMCallback("criterion"), PLMCallback("other")]
    trainer = make_trainer(package, tmp_path, callbacks=callbacks, max_epochs=1)
    trainer.fit(module, *loaders())
    assert trainer.callback_metrics["plm/criterion/ratio_min"] == module.criterion.target_ratio.min()
    assert trainer.callback_metrics["plm/other/ratio_min"] == module.other.class_ratio.min()


def test_an_interrupted_validation_leaves_no_trace(package, tmp_path):
    module = make_module(package)

    def interrupt(batch, batch_idx):
        raise RuntimeError("interrupted")

    module.validation_step = interrupt
    callback = PLMCallback(statistics="validation")
    trainer = make_trainer(package, tmp_path, callbacks=[callback], num_sanity_val_steps=0)
    with pytest.raises(RuntimeError, match="interrupted"):
        trainer.fit(module, *loaders(validation=True))
    module.criterion(torch.zeros(8, 3, requires_grad=True), torch.ones(8, 3))
    assert not module.criterion.counts.any()


@pytest.mark.parametrize("missing", ["pytorch_lightning", "lightning.pytorch"])
def test_one_of_the_packages_is_enough(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    source = sys.modules[PLMCallback.__module__].__file__
    alone = runpy.run_path(source)["PLMCallback"]
    other = {"pytorch_lightning", "lightning.pytorch"} - {missing}
    assert issubclass(alone, sys.modules[other.pop()].Callback)
    monkeypatch.setitem(sys.modules, "pytorch_lightning", None)
    monkeypatch.setitem(sys.modules, "lightning.pytorch", None)
    with pytest.raises(ValueError, match=r"pip install 'tailmask\[lightning\]'"):
        runpy.run_path(source)


def test_names_the_criterion_that_it_cannot_find(package, tmp_path):
    module = make_module(package)
    trainer = make_trainer(package, tmp_path, callbacks=[PLMCallback("critrion")])
    with pytest.raises(ValueError, match="called 'critrion': did you mean 'criterion'"):
        trainer.fit(module, *loaders())
    module.other = make_parts()[1]
    with pytest.raises(ValueError, match="expects one PartialLabelMasking in Module, got criterion, other"):
        make_trainer(package, tmp_path).fit(module, *loaders())
    del module.other, module.criterion
    with pytest.raises(ValueError, match="got none: make it an attribute"):
        make_trainer(package, tmp_path).fit(module, *loaders())


def test_statistics_are_of_training_or_validation():
    with pytest.raises(ValueError, match="did you mean 'validation'"):
        PLMCallback(statistics="valid")
    with pytest.raises(ValueError, match="has no module yet"):
        _ = PLMCallback().criterion


def test_two_processes_resume_in_the_middle_of_an_epoch(tmp_path):
    script = Path(__file__).with_name("lightning_ddp.py")
    run_ranks(script, tmp_path, tmp_path)
    results = json.loads((tmp_path / "results.json").read_text())
    _, criterion = train_plainly(expected=True)
    assert results["expected"]["whole"] == pytest.approx(criterion.target_ratio.tolist(), rel=1e-5)
    for result in results.values():
        assert result["resumed"] == result["whole"]
        # Two batches of the cut epoch, of both ranks.
        assert result["saved_labels"] == 2 * BATCH_SIZE * 3
    assert results["drawn"]["whole"] != results["expected"]["whole"]


def test_refuses_a_criterion_that_follows_the_learning_rate(package, tmp_path):
    trainer = make_trainer(package, tmp_path, callbacks=[PLMCallback()])
    with pytest.raises(ValueError, match=r"damp=True needs .* build the criterion with hold"):
        trainer.fit(make_module(package, damp=True), *loaders())


@pytest.mark.parametrize(
    ("warmup", "fit", "warns"), [(5, {}, True), (1, {}, False), (5, {"fast_dev_run": True}, False)]
)
def test_says_where_training_ends_before_anything_is_masked(package, tmp_path, warmup, fit, warns):
    module = make_module(package, adapt="prevalence", warmup=warmup)
    trainer = make_trainer(package, tmp_path, callbacks=[PLMCallback(statistics="validation")], **fit)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer.fit(module, *loaders(validation=True))
    said = [str(each.message) for each in caught if "nothing is masked" in str(each.message)]
    assert len(said) == warns
    assert all("training has 3 epochs to go" in each for each in said)


@pytest.mark.parametrize(
    ("when", "max_epochs", "warns"),
    [
        ({"every_n_epochs": 1, "save_on_train_epoch_end": True}, 6, True),
        ({"every_n_epochs": 1, "save_on_train_epoch_end": True}, 7, False),
        ({"every_n_train_steps": NUM_BATCHES}, 7, False),  # before the step of an epoch that is complete
    ],
)
def test_counts_the_epochs_that_a_resumed_training_has_left(package, tmp_path, when, max_epochs, warns):
    options = {"adapt": "prevalence", "warmup": 5, "statistics": "training"}
    checkpoints = package.callbacks.ModelCheckpoint(tmp_path / "all", save_top_k=-1, **when)
    trainer = make_trainer(
        package, tmp_path, callbacks=[checkpoints, PLMCallback()], enable_checkpointing=True
    )
    with warnings.catch_warnings(action="ignore"):
        trainer.fit(make_module(package, **options), *loaders())
    (path,) = (tmp_path / "all").glob("*-step=12.ckpt")  # of two epochs
    trainer = make_trainer(package, tmp_path, max_epochs=max_epochs)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer.fit(make_module(package, **options), *loaders(), ckpt_path=path)
    said = [str(each.message) for each in caught if "nothing is masked" in str(each.message)]
    assert len(said) == warns
    assert all("training has 4 epochs to go" in each for each in said)
    assert all(each.endswith("with epochs=6 and no warmup") for each in said), "of which two are over"
