"""Cross-fitted thresholds against a plain loop; rare classes have no say."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score

from tailmask.calibration import fit_shared_threshold, fit_thresholds
from tailmask.data.rows import Rows
from tailmask.learners.folds import Folds, make_folds
from tailmask.learners.out_of_fold_decisions import decide, fit_robust_thresholds


@pytest.fixture
def outputs():
    """Logits and targets of five classes; the last two have 3 positives and 1."""
    generator = np.random.default_rng(0)
    targets = (generator.random((200, 5)) < [0.5, 0.3, 0.1, 0, 0]).astype(np.int8)
    targets[[3, 60, 120], 3] = targets[77, 4] = 1
    targets[generator.random((200, 5)) < 0.05] = -1
    targets[77, 4] = 1
    logits = generator.normal(size=(200, 5)) + 1.5 * (targets == 1) - 1
    folds = make_folds(Rows(np.zeros((200, 1)), targets), 5, seed=0)
    return torch.from_numpy(logits), targets, folds


def test_equal_to_a_plain_loop(outputs):
    logits, targets, folds = outputs
    decisions = decide(logits, targets, folds)
    assert decisions.rare == (3, 4)
    probabilities = logits.sigmoid()
    labels = torch.from_numpy(targets)
    for fold in range(5):
        kept = torch.tensor([row for row in range(200) if folds.number[row] != fold])
        own = fit_thresholds(probabilities[kept][:, :3], labels[kept][:, :3]).tolist()
        shared = fit_shared_threshold(probabilities[kept][:, :3], labels[kept][:, :3])
        for row in np.flatnonzero(folds.number == fold):
            for label, threshold in enumerate([*own, shared, shared]):
                assert decisions.predicted[row, label] == (probabilities[row, label] >= threshold)
    assert torch.equal(decisions.thresholds[:3], fit_thresholds(probabilities[:, :3], labels[:, :3]))
    f1 = [
        f1_score(targets[known, c], decisions.predicted[known, c].numpy())
        for c in range(3)
        if (known := targets[:, c] >= 0) is not None
    ]
    assert decisions.macro_f1 == pytest.approx(np.mean(f1))


def test_the_targets_of_a_fold_do_not_steer_its_decisions(outputs):
    logits, targets, folds = outputs
    rows = folds.held_out(1)
    turned = targets.copy()
    turned[rows, :2] = np.where(targets[rows, :2] >= 0, 1 - targets[rows, :2], -1)
    first, second = decide(logits, targets, folds), decide(logits, turned, folds)
    assert torch.equal(first.predicted[rows], second.predicted[rows])
    assert not torch.equal(first.thresholds, second.thresholds)


def test_rare_classes_have_no_say(outputs):
    logits, targets, folds = outputs
    other = logits.clone()
    other[:, 3:] = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
    first, second = decide(logits, targets, folds), decide(other, targets, folds)
    assert torch.equal(first.thresholds, second.thresholds)
    assert first.macro_f1 == second.macro_f1
    assert first.thresholds[3] == first.thresholds[4]


def test_rare_classes_alone_fit_their_shared_threshold():
    logits = torch.tensor([[3.0], [2.0], [1.0]]).repeat(1, 4)
    targets = np.tile([[1], [0], [0]], (1, 4)).astype(np.int8)
    thresholds = fit_robust_thresholds(logits, targets, rare=range(4))
    assert thresholds.unique().logit().item() == pytest.approx(2.5, abs=0.5)
    assert np.isnan(decide(logits, targets, Folds(np.arange(3), 3)).macro_f1)


def test_rows_that_no_fold_covers_are_left_out(outputs):
    logits, targets, _ = outputs
    number = np.repeat([-1, 0, 1, 2], 50)
    late = Folds(number[50:], 3, forward=True)
    incomplete = logits.clone()
    incomplete[:50] = torch.nan
    whole = decide(incomplete, targets, Folds(number, 3, forward=True))
    part = decide(logits[50:], targets[50:], late)
    assert torch.equal(whole.thresholds, part.thresholds)
    assert whole.macro_f1 == part.macro_f1
    assert not whole.predicted[:50].any()


def test_shapes_are_checked(outputs):
    logits, targets, folds = outputs
    with pytest.raises(ValueError, match="same rows"):
        decide(logits[:10], targets[:10], folds)


def test_thresholds_follow_the_prevalence_where_logits_do():
    """A rare class whose logits lie lower by its prior gets a lower threshold, without a positive's say."""
    generator = np.random.default_rng(0)
    prevalence = np.array([0.5, 0.3, 0.1, 0.03, 0.003])
    targets = (generator.random((2000, 5)) < prevalence).astype(np.int8)
    signal = 4 * targets - 2 + generator.normal(size=targets.shape)
    logits = torch.from_numpy(signal + np.log(prevalence / (1 - prevalence)))
    thresholds = fit_robust_thresholds(logits, targets, rare=[4])
    assert (thresholds.diff() < 0).all()
    predicted = (logits.sigmoid() >= thresholds).numpy()
    rare = predicted[:, 4].sum()
    assert 0.5 < rare / targets[:, 4].sum() < 4
    # One threshold for all would miss nearly all of its positives.
    shared = fit_shared_threshold(logits[:, :4].sigmoid(), torch.from_numpy(targets[:, :4]))
    assert (predicted[:, 4] & (targets[:, 4] == 1)).sum() > (
        (logits[:, 4].sigmoid().numpy() >= shared) & (targets[:, 4] == 1)
    ).sum()
