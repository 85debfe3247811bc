"""What methods make of data: losses against formulas, epochs' samples, ratios that follow the draw."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from paper_methods import PAPER_METHODS
from torch import nn

from tailmask import PartialLabelMasking
from tailmask._util.messages import UserError
from tailmask.data.dataset import Split
from tailmask.functional import class_ratio
from tailmask.losses import HillLoss, asymmetric_loss, class_balanced_weights
from tailmask.methods import build_objective, find_words, parse
from tailmask.methods.objective import Objective

NUM_SAMPLES, NUM_CLASSES = 200, 4
ELEMENTWISE = [name for name, word in find_words().items() if word.kind == "loss" and not word.single_label]


@pytest.fixture
def multi_label() -> Split:
    generator = torch.Generator().manual_seed(0)
    shares = torch.tensor([0.6, 0.3, 0.1, 0.04])
    targets = (torch.rand(NUM_SAMPLES, NUM_CLASSES, generator=generator) < shares).to(torch.int8)
    return Split(torch.randn(NUM_SAMPLES, 3, generator=generator), targets)


@pytest.fixture
def single_label() -> Split:
    classes = torch.tensor([0] * 120 + [1] * 60 + [2] * 15 + [3] * 5)
    return Split(torch.randn(NUM_SAMPLES, 3), F.one_hot(classes, NUM_CLASSES).to(torch.int8))


def batch(split: Split, number: int = 32) -> tuple[torch.Tensor, torch.Tensor]:
    logits = torch.randn(number, NUM_CLASSES, generator=torch.Generator().manual_seed(1), requires_grad=True)
    return logits, split.targets[:number].float()


@pytest.mark.parametrize("name", [name for name in PAPER_METHODS if "ldam" not in name])
def test_the_papers_methods_train_multi_label_data(multi_label: Split, name: str) -> None:
    objective = build_objective(parse(name), multi_label, num_epochs=2)
    objective.train()
    for epoch in range(2):
        objective.begin_epoch(epoch)
        order = objective.order(epoch)
        logits, _ = batch(multi_label, len(order))
        loss = objective(logits, multi_label.targets[order].float())
        loss.backward()
        assert logits.grad.isfinite().all()
        update = objective.end_epoch()
        assert (update is None) == (not name.startswith("plm"))


@pytest.mark.parametrize(
    ("name", "detach"), [("asl", True), ("asl:detach=true", True), ("asl:detach=false", False)]
)
def test_asl_detaches_its_weights_unless_the_name_says_otherwise(
    multi_label: Split, name: str, detach: bool
) -> None:
    logits, targets = batch(multi_label)
    (gradient,) = torch.autograd.grad(build_objective(parse(name), multi_label)(logits, targets), logits)
    (expected,) = torch.autograd.grad(asymmetric_loss(logits, targets, detach=detach).sum() / 32, logits)
    torch.testing.assert_close(gradient, expected)


def test_losses_are_summed_over_classes_and_averaged_over_the_batch(multi_label: Split) -> None:
    logits, targets = batch(multi_label)
    elements = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    expected = elements.sum() / len(logits)
    for name in ("bce", "plm"):  # nothing is masked before the first update
        objective = build_objective(parse(name), multi_label)
        objective.begin_epoch(0)
        torch.testing.assert_close(objective(logits, targets), expected)
    weights = class_balanced_weights(multi_label.counts()[1], 0.99)
    for name in ("bce+cb:beta=0.99", "plm+bce+cb:beta=0.99"):
        objective = build_objective(parse(name), multi_label)
        torch.testing.assert_close(objective(logits, targets), (elements * weights).sum() / len(logits))


@pytest.mark.parametrize("power", [0, 0.5, 1])
def test_positives_are_weighted_by_how_rare_they_are(multi_label: Split, power: float) -> None:
    targets = multi_label.targets.clone()
    targets[:, 2], targets[:, 3] = 0, 1  # a class without positives, and one without negatives
    negatives, positives = (targets == 0).sum(dim=0), (targets == 1).sum(dim=0)
    usual = torch.tensor([n / p if n and p else 1.0 for n, p in zip(negatives, positives, strict=True)])
    logits, labels = batch(Split(multi_label.inputs, targets))
    expected = F.binary_cross_entropy_with_logits(logits, labels, pos_weight=usual**power, reduction="sum")
    objective = build_objective(parse(f"bce:pos_power={power}"), Split(multi_label.inputs, targets))
    torch.testing.assert_close(objective(logits, labels), expected / len(logits))


@pytest.mark.parametrize("word", ELEMENTWISE)
def test_a_loss_goes_alone_inside_plm_and_with_weights(multi_label: Split, word: str) -> None:
    logits, targets = batch(multi_label)
    counts = multi_label.counts()
    given = {"negatives": counts[0], "positives": counts[1], "reduction": "none"}
    elements = find_words()[word].build({}, given)(logits, targets)
    for balance, weight in (("", 1.0), ("+cb", class_balanced_weights(counts[1]))):
        for name in (word, f"plm+{word}"):
            objective = build_objective(parse(name + balance), multi_label)
            torch.testing.assert_close(objective(logits, targets), (elements * weight).sum() / len(logits))
            assert (objective.prior_shift is None) == (word != "bce" or not name.startswith("plm"))


def test_options_reach_the_loss(multi_label: Split) -> None:
    logits, targets = batch(multi_label)
    expected = HillLoss(gamma=1.0, margin=0.5, reduction="batchmean")(logits, targets)
    objective = build_objective(parse("plm+hill:gamma=1,margin=0.5"), multi_label)
    torch.testing.assert_close(objective(logits, targets), expected)


def test_class_balance_weighs_samples_where_each_has_one_label(single_label: Split) -> None:
    logits, targets = batch(single_label, NUM_SAMPLES)
    elements = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    weights = class_balanced_weights(single_label.counts()[1], 0.9999)
    of_samples = weights[targets.argmax(dim=1)].unsqueeze(1)
    for name, weight in (("bce+cb", of_samples), ("bce+cb:per_sample=false", weights)):
        objective = build_objective(parse(name), single_label, single_label=True)
        torch.testing.assert_close(objective(logits, targets), (elements * weight).sum() / len(logits))


def test_deferred_weights_begin_after_four_fifths(single_label: Split) -> None:
    logits, targets = batch(single_label, NUM_SAMPLES)
    objective = build_objective(parse("ldam+drw"), single_label, single_label=True, num_epochs=200)
    values = {}
    for epoch in (0, 159, 160, 199):
        objective.begin_epoch(epoch)
        values[epoch] = objective(logits, targets).item()
    assert values[0] == values[159] != values[160] == values[199]
    assert objective.activation == "softmax"
    assert objective.logit_scale == 30
    assert objective.needs_cosines


@pytest.mark.parametrize(("name", "num_epochs"), [("bce+drw", 1), ("bce+drw", 2), ("bce+drw:start=0.95", 10)])
def test_deferred_weights_begin_with_the_last_epoch_at_the_latest(multi_label, name, num_epochs) -> None:
    objective = build_objective(parse(name), multi_label, num_epochs=num_epochs)
    objective.begin_epoch(num_epochs - 1)
    assert objective.criterion.is_active


def test_ldam_is_refused_on_several_labels(multi_label: Split) -> None:
    with pytest.raises(UserError, match="exactly one label per sample"):
        build_objective(parse("ldam"), multi_label)


def test_order_is_a_permutation_that_the_seed_and_the_epoch_determine(multi_label: Split) -> None:
    first, second = (build_objective(parse("bce"), multi_label, seed=3) for _ in range(2))
    other = build_objective(parse("bce"), multi_label, seed=4)
    assert first.order(5).sort().values.equal(torch.arange(NUM_SAMPLES))
    assert first.order(5).equal(second.order(5))
    assert not first.order(5).equal(first.order(6))
    assert not first.order(5).equal(other.order(5))


@pytest.mark.parametrize("name", ["plm+bce+undersample:samples_per_class=20", "plm+bce+classaware"])
def test_ratios_follow_the_draw(multi_label: Split, name: str) -> None:
    objective = build_objective(parse(name), multi_label)
    drawn = [multi_label.targets[objective.order(epoch)] for epoch in range(3)]
    ratios = [class_ratio((part == 1).sum(dim=0), (part == 0).sum(dim=0)) for part in drawn]
    objective.begin_epoch(0)
    torch.testing.assert_close(objective.masking.target_ratio, ratios[0])  # r̄₁ is the first draw's
    for epoch in (1, 2):
        objective.begin_epoch(epoch)
        torch.testing.assert_close(objective.masking.class_ratio, ratios[epoch])
        torch.testing.assert_close(objective.masking.target_ratio, ratios[0])


def test_a_class_whose_first_draws_lack_a_label_is_not_masked_away() -> None:
    generator = torch.Generator().manual_seed(0)
    targets = (torch.rand(NUM_SAMPLES, NUM_CLASSES, generator=generator) < 0.3).to(torch.int8)
    targets[:, 0] = 1
    targets[:4, 0] = 0  # four negatives; a draw has one of them or none
    train, method = (
        Split(torch.zeros(NUM_SAMPLES, 1), targets),
        parse("plm:rate=0+bce+undersample:samples_per_class=20"),
    )
    with pytest.warns(UserWarning, match=r"no negatives in the training data \(class 0\)"):
        objective = build_objective(method, train, seed=5)
    masking, ratio = objective.masking, None
    for epoch in range(12):
        objective.begin_epoch(epoch)
        if (masking.class_counts[:, 0] == 0).any():
            assert (masking.keep[:, 0] == 1).all()
        else:
            ratio = masking.class_ratio[0].item() if ratio is None else ratio  # of the first draw with both
            assert masking.target_ratio[0].item() == ratio
            assert masking.keep[:, 0].min() > 0.1
    assert ratio is not None


def test_undersampling_without_a_number_takes_the_median_class(multi_label: Split) -> None:
    objective = build_objective(parse("bce+undersample"), multi_label)
    positives = multi_label.counts()[1]
    assert objective.sampler.samples_per_class == positives.double().median().int().item()
    assert len(objective.order(0)) < NUM_SAMPLES


def test_fixed_ratio_never_moves(multi_label: Split) -> None:
    objective = build_objective(parse("plm:rate=0,initial_ratio=mean"), multi_label)
    start = objective.masking.target_ratio.clone()
    torch.testing.assert_close(start, objective.masking.class_ratio.mean().expand(NUM_CLASSES))
    objective.begin_epoch(0)
    objective(*batch(multi_label)).backward()
    objective.end_epoch()
    assert objective.masking.target_ratio.equal(start)


def test_every_option_of_plm_arrives(multi_label: Split) -> None:
    name = "plm:rate=0.3,initial_ratio=min,num_bins=20,ratio_range=0.01..2,expected=true,adapt=prevalence"
    name += ",warmup=2,statistics=training,hold=0.5,damp=true"
    masking = build_objective(parse(name), multi_label, num_epochs=8).masking
    assert (masking.schedule.hold, masking.schedule.damp) == (4, True)
    assert (masking.rate, masking.num_bins, masking.options.ratio_range) == (0.3, 20, (0.01, 2.0))
    assert (masking.adapt, masking.warmup, masking.statistics) == ("prevalence", 2, "training")
    assert masking.options.expected
    assert masking.target_ratio.unique().numel() == 1


def test_matching_prevalence_takes_statistics_from_validation_where_there_is_one(multi_label: Split) -> None:
    with_validation = build_objective(
        parse("plm:adapt=prevalence"), multi_label, has_validation=True, num_epochs=60
    )
    assert with_validation.statistics == "validation"
    assert with_validation.masking.statistics == "validation"
    assert with_validation.notes == ()
    without = build_objective(parse("plm:adapt=prevalence"), multi_label)
    assert without.statistics == "training"
    assert without.masking.statistics == "training"
    assert "there is none, so it uses the outputs of the training passes" in without.notes[0]
    divergences = build_objective(parse("plm:statistics=validation"), multi_label, has_validation=True)
    assert divergences.statistics == "validation"
    with pytest.raises(UserError, match="needs a validation split"):
        build_objective(parse("plm:statistics=validation"), multi_label)


@pytest.mark.parametrize(
    ("method", "num_epochs", "is_idle"),
    [
        ("plm:adapt=prevalence", 2, True),
        (
            "plm:adapt=prevalence",
            3,
            False,
        ),  # the second update moves the ratios, and the third epoch feels it
        ("plm:adapt=prevalence,warmup=5", 6, True),
        ("plm:adapt=prevalence,warmup=5", 7, False),
        ("plm:adapt=prevalence,initial_ratio=mean", 2, False),
        ("plm:warmup=1", 2, True),
        ("plm:adapt=prevalence,hold=0.5", 60, True),  # which ends the updates when they would begin
        ("plm:adapt=prevalence,hold=0.6", 60, False),
        ("plm", 1, False),
    ],
)
def test_training_that_ends_before_anything_is_masked_is_noted(
    multi_label: Split, method: str, num_epochs: int, is_idle: bool
) -> None:
    objective = build_objective(parse(method), multi_label, has_validation=True, num_epochs=num_epochs)
    assert any("masks nothing" in note for note in objective.notes) == is_idle


@pytest.mark.parametrize("sampling", ["undersample:samples_per_class=20", "classaware"])
def test_a_warm_up_masks_what_another_draw_has_too_much_of(multi_label: Split, sampling: str) -> None:
    objective = build_objective(parse(f"plm:warmup=5+bce+{sampling}"), multi_label, num_epochs=4)
    assert any("so they stay those of the first draw" in note for note in objective.notes)
    assert not any("masks nothing" in note for note in objective.notes)
    objective.begin_epoch(1)
    assert objective.masking.keep.min() < 1


def test_masks_are_determined_by_seed_epoch_and_rank(multi_label: Split) -> None:
    logits, targets = batch(multi_label)

    def loss(epoch: int, rank: int = 0, seed: int = 0) -> float:
        objective = build_objective(parse("plm:initial_ratio=mean"), multi_label, seed=seed)
        objective.begin_epoch(epoch, rank=rank)
        return objective(logits, targets).item()

    assert loss(1) == loss(1)
    assert len({loss(1), loss(2), loss(1, rank=1), loss(1, seed=1)}) == 4


def test_prior_shift_is_that_of_the_epoch_in_force_and_only_where_it_holds(multi_label: Split) -> None:
    objective = build_objective(parse("plm:rate=1"), multi_label)
    for epoch in range(2):
        objective.begin_epoch(epoch)
        objective(*batch(multi_label)).backward()
        in_force = (objective.masking.class_ratio / objective.masking.target_ratio).log()
        objective.end_epoch()
    torch.testing.assert_close(objective.prior_shift, in_force)
    assert objective.prior_shift.any()
    resumed = build_objective(parse("plm:rate=1"), multi_label)
    resumed.load_state_dict(objective.state_dict())
    assert torch.equal(resumed.prior_shift, objective.prior_shift)
    assert build_objective(parse("plm+bce+cb"), multi_label).prior_shift is not None
    for name in ("bce", "plm+focal", "plm+bce+undersample"):
        assert build_objective(parse(name), multi_label).prior_shift is None


@pytest.mark.parametrize(
    ("loss", "is_shifted"),
    [
        (nn.BCEWithLogitsLoss(reduction="none"), True),
        (nn.BCEWithLogitsLoss(reduction="none", pos_weight=torch.ones(NUM_CLASSES)), False),
        (lambda logits, targets: (logits.sigmoid() - targets).square(), False),
    ],
)
def test_prior_shift_is_where_the_criterion_says_that_it_holds(
    multi_label: Split, loss: Callable[..., torch.Tensor], is_shifted: bool
) -> None:
    criterion = PartialLabelMasking.from_targets(multi_label.targets, loss=loss)
    objective = Objective(criterion, num_samples=NUM_SAMPLES, seed=0)
    assert (objective.prior_shift is not None) == is_shifted


def test_state_carries_ratios_over_a_restart(multi_label: Split) -> None:
    objective = build_objective(parse("plm+bce+undersample:samples_per_class=30"), multi_label)
    objective.begin_epoch(0)
    objective(*batch(multi_label)).backward()
    objective.end_epoch()
    again = build_objective(parse("plm+bce+undersample:samples_per_class=30"), multi_label)
    again.load_state_dict(objective.state_dict())
    for each in (objective, again):
        each.begin_epoch(1)
    logits, targets = batch(multi_label)
    assert objective(logits, targets).equal(again(logits, targets))
    assert objective.masking.target_ratio.equal(again.masking.target_ratio)
