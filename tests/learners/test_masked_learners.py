"""Partial Label Masking in logistic regression and LightGBM, against the plain fits and scikit-learn."""

from __future__ import annotations

import time
from dataclasses import replace

import lightgbm
import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from tailmask._util.messages import UserError
from tailmask.data.options import DataOptions
from tailmask.data.rows import Rows
from tailmask.learners.cross_fitted_run import learner_of
from tailmask.learners.matrix.boosters import BoostLearner, fit_masked_boosters
from tailmask.learners.matrix.lightgbm_training import LabelTrainer
from tailmask.learners.matrix.linear import LinearLearner, fit_linear, fit_masked_linear
from tailmask.learners.protocol import Deadline
from tailmask.learners.stored_models import load_fitted
from tailmask.masking.ratio_track import Masking
from tailmask.methods import parse
from tailmask.runs import configure

FEW = Masking(updates=2)
STAY = Masking(rate=0.0)
LEARNERS = {
    "linear": lambda masking: LinearLearner(C=1.0, masking=masking),
    "boost": lambda masking: BoostLearner(rounds=12, masking=masking),
}


def test_linear_weighs_each_label_by_its_keep_probability(partly_known):
    matrix, targets = partly_known
    model, track = fit_masked_linear(matrix, targets, FEW, C=1.0, seed=0)
    keep = track.keep.numpy()
    assert (keep[:, :4].min(0) < 1).all()
    for label in range(4):
        known = targets[:, label] >= 0
        weights = keep[targets[known, label].astype(int), label]
        oracle = LogisticRegression(tol=1e-8).fit(matrix[known], targets[known, label], weights)
        expected = oracle.decision_function(matrix)
        np.testing.assert_allclose(model.logits(matrix)[:, label].numpy(), expected, atol=0.03)


@pytest.mark.parametrize("kind", LEARNERS)
def test_ratios_that_stay_give_the_plain_learner(partly_known, kind):
    rows = Rows(*partly_known)
    masked, plain = (LEARNERS[kind](masking).fit(rows, seed=3) for masking in (STAY, None))
    for name, array in plain.model.arrays().items():
        np.testing.assert_array_equal(array, masked.model.arrays()[name])
    assert torch.equal(masked.logits(rows), plain.logits(rows))


@pytest.mark.parametrize("adapt", ["divergence", "prevalence"])
@pytest.mark.parametrize("kind", LEARNERS)
def test_same_seed_same_model_and_it_survives_storage(partly_known, tmp_path, kind, adapt):
    rows = Rows(*partly_known)
    learner = LEARNERS[kind](Masking(adapt=adapt, rate=0.5, updates=2))
    first, again = (learner.fit(rows, seed=1) for _ in range(2))
    assert torch.equal(first.logits(rows), again.logits(rows))
    plain = LEARNERS[kind](None).fit(rows, seed=1)
    assert not torch.equal(first.logits(rows), plain.logits(rows))
    # Labels of one value are as without masking.
    assert torch.equal(first.logits(rows)[:, 4:], plain.logits(rows)[:, 4:])
    first.save(tmp_path / "model")
    assert torch.equal(load_fitted(tmp_path / "model").logits(rows), first.logits(rows))


def test_linear_outputs_are_shifted_back_to_the_prevalence():
    generator = np.random.default_rng(0)
    matrix = generator.normal(size=(2000, 4))
    targets = (matrix[:, :2] + generator.normal(size=(2000, 2)) > [1.5, 2]).astype(np.int8)
    rows = Rows(matrix, targets)
    fitted = LinearLearner(C=1.0, masking=Masking()).fit(rows, seed=0)
    logits, trained = fitted.logits(rows), fitted.model.logits(fitted.encoder.encode(rows))
    prevalence = targets.mean(0)
    assert (np.abs(logits.sigmoid().numpy().mean(0) - prevalence) < 0.02).all()
    # At the ratios that it was trained at, classes are predicted about as often as they are present.
    assert (np.abs((trained > 0).numpy().mean(0) - prevalence) < 0.03).all()
    assert ((logits > 0).numpy().mean(0) < prevalence * 0.8).all()


def test_masks_of_boosting_keep_the_shares_of_equation_3():
    """Each tree's root counts the rows that it was grown on."""
    generator = np.random.default_rng(0)
    matrix = generator.normal(size=(2000, 3)).astype(np.float32)
    targets = (matrix[:, 0] > 1.2).astype(np.int8)
    positives = int(targets.sum())
    trainer = LabelTrainer.of(matrix, (), seed=0)
    for keep, expected in [((0.25, 1.0), 500 + 0.75 * positives), ((1.0, 0.5), 2000 - 0.5 * positives)]:
        booster = trainer.boost(
            targets, rounds=20, keep=keep, scores=np.zeros(2000), pos_power=0.0, mask_seed=1
        )
        trees = booster.dump_model()["tree_info"]
        sizes = [tree["tree_structure"]["internal_count"] for tree in trees]
        assert abs(np.mean(sizes) - expected) < 25
        assert len(set(sizes)) > 10  # new draws


def test_stretches_go_on_where_the_one_before_ended(problem):
    """With all columns and no masks, two parts are one model up to rounding; LightGBM is the oracle."""
    matrix, targets = problem
    trainer = LabelTrainer.of(matrix, (), seed=0)
    trainer = replace(trainer, parameters={**trainer.parameters, "feature_fraction": 1.0})
    data = lightgbm.Dataset(matrix, targets[:, 0], params=dict(trainer.parameters))
    whole = lightgbm.train(dict(trainer.parameters), data, 20).predict(matrix, raw_score=True)
    options = {"rounds": 10, "keep": (1.0, 1.0), "pos_power": 0.0, "mask_seed": 0}
    first = trainer.boost(targets[:, 0], scores=None, **options).predict(matrix, raw_score=True)
    second = trainer.boost(targets[:, 0], scores=first, **options).predict(matrix, raw_score=True)
    np.testing.assert_allclose(first + second, whole, atol=1e-5)
    # Nothing of it is left for the next label.
    again = trainer.boost(targets[:, 0], scores=None, **options).predict(matrix, raw_score=True)
    np.testing.assert_array_equal(again, first)


def test_any_number_of_threads_gives_the_same_masked_boosters(problem):
    fits = [fit_masked_boosters(*problem, FEW, seed=0, rounds=6, threads=threads)[0] for threads in (1, 3)]
    for name, array in fits[0].arrays().items():
        np.testing.assert_array_equal(array, fits[1].arrays()[name])


def test_rows_too_few_to_hold_some_out_are_fitted_unmasked():
    matrix, targets = np.arange(6, dtype=np.float32)[:, None], np.array([[0], [0], [0], [1], [0], [1]])
    model, track = fit_masked_linear(matrix, targets, FEW, C=1.0, seed=0)
    plain = fit_linear(matrix, targets, C=1.0, seed=0)
    assert track.num_updates == 0
    assert torch.equal(model.logits(matrix), plain.logits(matrix))


@pytest.mark.parametrize("kind", LEARNERS)
def test_deadline_ends_the_updates(problem, kind):
    learner = LEARNERS[kind](Masking(updates=1000))
    start = time.monotonic()
    learner.fit(Rows(*problem), seed=0, deadline=Deadline.after(0))
    assert time.monotonic() - start < 20


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("linear", LinearLearner()),
        ("plm:expected=false+linear", LinearLearner(masking=Masking(adapt="divergence"))),
        ("plm+linear:C=2", LinearLearner(C=2.0, masking=Masking(adapt="divergence"))),
        ("plm:adapt=prevalence,warmup=1+boost", BoostLearner(masking=Masking(warmup=1))),
        (
            "plm:rate=0.2,ratio_range=0..1+boost",
            BoostLearner(masking=Masking(adapt="divergence", rate=0.2, ratio_range=(0.0, 1.0))),
        ),
    ],
)
def test_names_of_methods_give_masked_learners(tmp_path, method, expected):
    """A recipe's λ and warm-up are for networks; here the learner's own hold."""
    rows = "".join(f"{number},{number % 2},{number % 3 % 2}\n" for number in range(60))
    (tmp_path / "data.csv").write_text(f"x,a,b\n{rows}")
    config = configure(str(tmp_path / "data.csv"), method, options=DataOptions(labels="a,b"), epochs=7)
    assert learner_of(config, ("a", "b"), single_label=False) == expected


@pytest.mark.parametrize(
    "method",
    [
        "plm:expected=true+linear",
        "plm:statistics=training+boost",
        "plm:hold=3+linear",
        "plm:damp=true+boost",
        "plm+trees",
    ],
)
def test_options_of_networks_are_refused(method):
    with pytest.raises(UserError):
        parse(method)
