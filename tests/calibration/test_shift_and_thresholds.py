from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file

from tailmask.calibration import Calibration, apply_prior_shift, fit_shared_threshold, fit_thresholds


def long_tailed(seed, num_samples, num_classes=30):
    """Validation and held-out outputs of a classifier that over- or under-predicts each class its own way."""
    rng = np.random.default_rng(seed)
    share = 0.3 * np.arange(1, num_classes + 1) ** -0.9
    offset = np.log(share / (1 - share)) + rng.normal(-1.0, 1.0, num_classes)

    def draw(number):
        targets = rng.random((number, num_classes)) < share
        logits = 2.5 * (rng.normal(size=targets.shape) + 2.5 * targets - 1.25) + offset
        return torch.from_numpy(logits).float().sigmoid(), torch.from_numpy(targets.astype(np.int8))

    return draw(num_samples), draw(5000)


def f1_scores(probabilities, targets, thresholds):
    """F1 of each class, by counting."""
    predictions, present, known = probabilities >= thresholds, targets == 1, targets >= 0
    hits = (predictions & present).sum(dim=0)
    sizes = (predictions & known).sum(dim=0) + present.sum(dim=0)
    return np.divide(2 * hits.numpy(), sizes.numpy(), out=np.zeros(len(sizes)), where=sizes.numpy() > 0)


@st.composite
def validation_sets(draw):
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    shape = draw(st.integers(1, 25)), draw(st.integers(1, 4))
    probabilities = rng.random(shape)
    if draw(st.booleans()):
        probabilities = np.round(probabilities, 1)  # ties, zeros and ones
    targets = (rng.random(shape) < probabilities).astype(np.int8)
    targets[rng.random(shape) < draw(st.sampled_from([0.0, 0.4]))] = -1
    return torch.from_numpy(probabilities).float(), torch.from_numpy(targets)


@given(validation_sets())
def test_without_shrinkage_f1_is_the_highest_there_is(case):
    probabilities, targets = case
    reached = f1_scores(*case, fit_thresholds(*case, shrinkage=0.0))
    for c in range(targets.shape[1]):
        possible = [f1_scores(*case, score)[c] for score in probabilities[:, c]]
        assert reached[c] == max(possible)


@given(validation_sets())
def test_unknown_labels_and_orders_change_nothing(case):
    probabilities, targets = case
    thresholds = fit_thresholds(probabilities, targets)
    more = torch.cat([probabilities, torch.rand_like(probabilities)]).flip(0)
    unknown = torch.cat([targets.float(), torch.full_like(probabilities, torch.nan)]).flip(0)
    assert torch.equal(fit_thresholds(more, unknown), thresholds)
    flipped = fit_thresholds(probabilities.flip(1), targets.flip(1))
    torch.testing.assert_close(flipped.flip(0), thresholds)


@given(validation_sets(), st.floats(0.1, 100.0))
def test_shrunk_thresholds_lie_between_their_own_and_the_shared_one(case, shrinkage):
    own = fit_thresholds(*case, shrinkage=0.0).clamp(7e-6, 1 - 7e-6)
    shared = fit_thresholds(*case, shrinkage=math.inf)
    shrunk = fit_thresholds(*case, shrinkage=shrinkage)
    assert bool((shrunk >= torch.minimum(own, shared) - 1e-6).all())
    assert bool((shrunk <= torch.maximum(own, shared) + 1e-6).all())


def test_shrinkage_worked_out_by_hand():
    # The first class has two positives and its own cut halfway between 0.2 and 0.8, at the logit 0; the other
    # five have theirs between 0.85 and 0.9, where the mean F1 is highest too.
    first = torch.tensor([[0.8], [0.8], [0.2], [0.1]])
    others = torch.tensor([[0.9], [0.9], [0.85], [0.85]]).expand(4, 5)
    probabilities = torch.cat([first, others], dim=1)
    targets = torch.tensor([[1], [1], [0], [0]]).expand(4, 6)
    shared = float(torch.tensor(fit_shared_threshold(probabilities, targets)).logit())
    assert math.log(0.85 / 0.15) < shared < math.log(0.9 / 0.1)
    own = (math.log(0.85 / 0.15) + math.log(0.9 / 0.1)) / 2
    thresholds = fit_thresholds(probabilities, targets, shrinkage=6.0)
    expected = [0.75 * shared] + [0.25 * own + 0.75 * shared] * 5
    assert thresholds.logit().tolist() == pytest.approx(expected, abs=1e-5)


def test_cuts_lie_halfway_in_logits_and_separate_neighbouring_floats():
    probabilities = torch.tensor([[0.01], [0.5]])
    targets = torch.tensor([[0], [1]])
    threshold = fit_thresholds(probabilities, targets, shrinkage=0.0)
    assert float(threshold.logit()) == pytest.approx(math.log(0.01 / 0.99) / 2, abs=1e-5)
    for upper in (1.0, 0.5, 1e-30):
        high = torch.tensor(upper)
        low = torch.nextafter(high, torch.tensor(0.0))
        threshold = fit_thresholds(torch.stack([low, high]).unsqueeze(1), targets, shrinkage=0.0)
        assert bool(low < threshold)
        assert bool(high >= threshold)


@pytest.mark.parametrize(("shared", "lower", "upper"), [(0.85, 0.7, 0.9), (0.25, 0.0, 0.31)])
def test_of_equally_good_cuts_the_nearest_to_the_shared_one_is_taken(shared, lower, upper):
    # The first class has an F1 of 2/3 if only its highest score is predicted, and also if all are.
    first = torch.tensor([[0.9], [0.7], [0.5], [0.3]])
    others = torch.tensor([[shared + 0.03], [shared - 0.03], [shared - 0.03], [shared - 0.03]]).expand(4, 5)
    targets = torch.tensor([[1, 1, 1, 1, 1, 1], [0] * 6, [0] * 6, [1, 0, 0, 0, 0, 0]])
    thresholds = fit_thresholds(torch.cat([first, others], dim=1), targets, shrinkage=0.0)
    assert lower < float(thresholds[0]) < upper


def test_thresholds_are_as_precise_as_the_probabilities():
    probabilities = torch.tensor([[0.1], [0.3], [0.7]], dtype=torch.float64)  # 0.1 in float32 is above it
    thresholds = fit_thresholds(probabilities, torch.ones(3, 1), shrinkage=0.0)
    assert (probabilities >= thresholds).all()
    halves = fit_thresholds(probabilities.half(), torch.ones(3, 1))
    assert (thresholds.dtype, halves.dtype) == (torch.float64, torch.float32)


def test_classes_without_positives_get_the_shared_threshold():
    (probabilities, targets), _ = long_tailed(0, 200, num_classes=5)
    targets[:, 2] = 0
    targets[:, 4] = -1
    thresholds = fit_thresholds(probabilities, targets)
    shared = fit_shared_threshold(probabilities, targets)
    assert thresholds[[2, 4]].tolist() == pytest.approx([shared, shared])
    assert float(thresholds[0]) != pytest.approx(shared)
    assert fit_thresholds(probabilities, torch.zeros_like(targets)).tolist() == [0.5] * 5
    assert fit_thresholds(probabilities[:0], targets[:0]).tolist() == [0.5] * 5


def test_shared_threshold_has_the_highest_mean_f1_of_its_grid():
    (probabilities, targets), _ = long_tailed(3, 300, num_classes=8)
    targets[torch.rand(targets.shape) < 0.1] = -1
    shared = fit_shared_threshold(probabilities, targets)
    grid = torch.sigmoid(torch.arange(-11.9, 12.0, 0.1))
    assert f1_scores(probabilities, targets, shared).mean() == pytest.approx(
        max(f1_scores(probabilities, targets, threshold).mean() for threshold in grid)
    )
    assert 1e-3 < shared < 0.5  # this classifier under-predicts


def test_shared_threshold_is_the_middle_of_equally_good_ones():
    probabilities = torch.tensor([[0.99], [0.01]])
    assert fit_shared_threshold(probabilities, torch.tensor([[1], [0]])) == pytest.approx(0.5, abs=0.03)


def test_shrunk_thresholds_generalise_better_on_small_data():
    """Over 30 draws of 150 validation samples, where the rarest classes have one or two positives."""
    gains = {"0.5": [], "own": [], "shared": []}
    for seed in range(30):
        validation, held_out = long_tailed(seed, 150)
        shrunk = f1_scores(*held_out, fit_thresholds(*validation)).mean()
        gains["0.5"].append(shrunk - f1_scores(*held_out, 0.5).mean())
        for name, shrinkage in (("own", 0.0), ("shared", math.inf)):
            other = fit_thresholds(*validation, shrinkage=shrinkage)
            gains[name].append(shrunk - f1_scores(*held_out, other).mean())
    for values in gains.values():
        standard_error = np.std(values, ddof=1) / math.sqrt(len(values))
        assert np.mean(values) > 3 * standard_error, {name: np.mean(gain) for name, gain in gains.items()}
    assert np.mean(gains["own"]) > 0.01  # a point of F1 and more


@pytest.mark.parametrize(
    ("probabilities", "targets", "shrinkage", "message"),
    [
        (torch.rand(3, 2), torch.zeros(3, 3), 1.0, "same shape"),
        (torch.tensor([[3.0]]), torch.ones(1, 1), 1.0, "apply the sigmoid"),
        (torch.tensor([[torch.nan]]), torch.ones(1, 1), 1.0, "between 0 and 1"),
        (torch.rand(1, 2), torch.tensor([[1, 7]]), 1.0, "targets must be 0, 1, soft labels between, .*got 7"),
        (torch.rand(1, 2), torch.tensor([[1.0, -5.0]]), 1.0, "unknown .-1 or NaN., got -5"),
        (torch.rand(1, 2), torch.tensor([[1, 255]], dtype=torch.uint8), 1.0, "got 255"),
        (torch.rand(3, 2), torch.zeros(3, 2), -1.0, "shrinkage must be 0 or more"),
        (torch.rand(3, 2), torch.zeros(3, 2), math.nan, "shrinkage must be 0 or more"),
    ],
)
def test_bad_input_is_refused(probabilities, targets, shrinkage, message):
    with pytest.raises(ValueError, match=message):
        fit_thresholds(probabilities, targets, shrinkage=shrinkage)


def test_kinds_of_targets_and_soft_ones_by_their_side():
    (probabilities, targets), _ = long_tailed(0, 100, num_classes=4)
    expected = fit_thresholds(probabilities, targets)
    for kind in (targets.bool(), targets.to(torch.uint8), targets.double(), targets * 0.4 + 0.3):
        assert torch.equal(fit_thresholds(probabilities, kind), expected)


def test_prior_shift_gives_back_the_probabilities_of_the_data():
    # The posterior odds are prior odds times evidence: trained at the ratio 1, seen at the ratio 0.05.
    evidence = torch.tensor([[0.3], [4.0], [20.0]])
    logits = (evidence * 1.0).log()
    shifted = apply_prior_shift(logits, torch.tensor([0.05]).log()).sigmoid()
    torch.testing.assert_close(shifted, evidence * 0.05 / (1 + evidence * 0.05))


def test_prior_shift_of_another_class_count_is_refused():
    with pytest.raises(ValueError, match=r"\(3,\).*got \(2,\)"):
        apply_prior_shift(torch.zeros(4, 3), torch.zeros(2))


def test_calibration_fits_after_the_shift_and_predicts():
    (probabilities, targets), _ = long_tailed(1, 300, num_classes=4)
    logits, shift = probabilities.logit(), torch.tensor([0.5, -1.0, 2.0, 0.0])
    calibration = Calibration.fit(logits, targets, prior_shift=shift)
    shifted = (logits + shift).sigmoid()
    torch.testing.assert_close(calibration.thresholds, fit_thresholds(shifted, targets))
    assert torch.equal(calibration.predict(logits), shifted >= calibration.thresholds)
    assert Calibration.fit(logits, targets).prior_shift.tolist() == [0, 0, 0, 0]


def test_calibration_is_saved_and_loaded_with_a_model(tmp_path):
    (probabilities, targets), _ = long_tailed(2, 100)
    calibration = Calibration.fit(probabilities.logit(), targets, prior_shift=torch.randn(30))
    path = tmp_path / "model.safetensors"
    save_file({"weight": torch.zeros(1)}, path, metadata={"calibration": json.dumps(calibration.to_json())})
    with safe_open(path, framework="pt") as file:
        loaded = Calibration.from_json(json.loads(file.metadata()["calibration"]))
    assert torch.equal(loaded.thresholds, calibration.thresholds)
    assert torch.equal(loaded.prior_shift, calibration.prior_shift)


def test_broken_calibrations_are_refused():
    with pytest.raises(ValueError, match=r"same shape \(C,\)"):
        Calibration(torch.zeros(2), torch.zeros(3))
    with pytest.raises(ValueError, match="finite"):
        Calibration(torch.zeros(1), torch.tensor([torch.nan]))
    with pytest.raises(ValueError, match="thresholds"):
        Calibration.from_json({"prior_shift": [0.0]})
