"""The criterion on the device of the data that it is made from, and on that of the logits that it meets."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from second_device import second_device
from tailmask import PartialLabelMasking
from tailmask.losses import FocalLoss

STATE = ("class_counts", "target_ratio", "num_steps", "keep", "trained_keep", "counts", "faults")


def devices(criterion):
    return {getattr(criterion, name).device for name in STATE}


def epochs(criterion, targets, device, *, number=3):
    """Losses and ratios of a few epochs, on a device."""
    losses, ratios = [], []
    generator = torch.Generator().manual_seed(0)
    for _ in range(number):
        for part in torch.randn(targets.shape, generator=generator).split(64):
            logits = part.to(device).requires_grad_()
            loss = criterion(logits, targets[: len(part)].to(device))
            loss.backward()
            losses.append(loss.detach().cpu())
        ratios.append(criterion.step().target_ratio.cpu())
    return torch.stack(losses), torch.stack(ratios)


@pytest.mark.parametrize(
    "build",
    [
        lambda targets: PartialLabelMasking.from_targets(targets),
        lambda targets: PartialLabelMasking.from_targets(targets.argmax(dim=1)),
        lambda targets: PartialLabelMasking.from_counts(targets.sum(dim=0), (1 - targets).sum(dim=0)),
        lambda targets: PartialLabelMasking.from_counts(targets.sum(dim=0), [100, 150, 180, 190]),
        lambda targets: PartialLabelMasking.from_targets(targets, initial_ratio=[0.1, 0.2, 0.3, 0.4]),
        lambda targets: PartialLabelMasking.from_targets(targets, initial_ratio=torch.ones(4)),
    ],
    ids=["targets", "indices", "counts", "counts of two devices", "ratios", "ratios of another device"],
)
def test_all_state_is_made_where_the_data_are(targets, build):
    assert devices(build(targets.to(second_device()))) == {second_device()}
    assert devices(build(targets)) == {torch.device("cpu")}


@pytest.mark.parametrize("default", ["meta", "second"])
def test_the_default_device_has_no_say(targets, default):
    targets = targets.repeat(300, 1)  # enough for the fast kernels
    options = {"rate": 0.5, "initial_ratio": "mean", "num_bins": 6}
    generator = torch.Generator().manual_seed(1)
    expected = PartialLabelMasking.from_targets(targets, generator=generator, **options)
    logits = torch.randn(targets.shape, generator=torch.Generator().manual_seed(0)).requires_grad_()
    expected_loss = expected(logits, targets)
    expected.step()
    with torch.device("meta" if default == "meta" else second_device()):
        criterion = PartialLabelMasking.from_targets(targets, generator=generator.manual_seed(1), **options)
        loss = criterion(logits, targets)
        criterion.step()
    assert devices(criterion) == {torch.device("cpu")}
    assert torch.equal(loss, expected_loss)
    assert torch.equal(criterion.target_ratio, expected.target_ratio)


@pytest.mark.parametrize("options", [{}, {"loss": FocalLoss(alpha=[0.1, 0.2, 0.3, 0.4], reduction="none")}])
def test_the_criterion_follows_the_logits(targets, options):
    options |= {"rate": 0.5, "expected": True}
    expected = epochs(PartialLabelMasking.from_targets(targets, **options), targets, "cpu")
    criterion = PartialLabelMasking.from_targets(targets, **options)
    found = epochs(criterion, targets, second_device())
    torch.testing.assert_close(found, expected)
    assert devices(criterion) == {second_device()}


def test_update_and_evaluation_follow_as_well(targets):
    logits = torch.randn(targets.shape)
    criterion = PartialLabelMasking.from_targets(targets)
    criterion.update(logits.to(second_device()), targets.to(second_device()))
    assert devices(criterion) == {second_device()}
    loss = criterion.eval()(logits, targets)  # and back
    assert torch.equal(loss, F.binary_cross_entropy_with_logits(logits, targets))
    assert devices(criterion) == {torch.device("cpu")}
    assert criterion.counts.sum() == targets.numel()


def test_a_generator_stays_where_it_is_and_decides(targets):
    def masked(device):
        generator = torch.Generator().manual_seed(3)
        criterion = PartialLabelMasking.from_targets(
            targets, initial_ratio="mean", reduction="none", generator=generator
        )
        logits = torch.zeros_like(targets).to(device).requires_grad_()
        losses = [criterion(logits, targets.to(device)).detach().cpu() for _ in range(2)]
        assert criterion.generator is generator
        return torch.stack(losses)

    assert torch.equal(masked(second_device()), masked("cpu"))


def test_new_class_counts_come_from_any_device(targets):
    criterion = PartialLabelMasking.from_targets(targets.to(second_device()))
    criterion.set_class_counts([100, 100, 100, 100], torch.tensor([100, 100, 100, 100]))
    assert devices(criterion) == {second_device()}
    assert (criterion.class_ratio.cpu() == 1).all()


def test_a_state_is_restored_on_another_device(targets):
    criterion = PartialLabelMasking.from_targets(targets, rate=0.5, expected=True)
    epochs(criterion, targets, "cpu")
    criterion.update(torch.randn(targets.shape), targets)
    resumed = PartialLabelMasking.from_targets(targets.to(second_device()), rate=0.5, expected=True)
    resumed.load_state_dict(criterion.state_dict())
    assert devices(resumed) == {second_device()}
    for name in STATE:
        assert torch.equal(getattr(resumed, name).cpu(), getattr(criterion, name))


def test_a_dry_run_without_values_takes_none_from_the_criterion(targets):
    criterion = PartialLabelMasking.from_targets(targets)
    with pytest.raises(RuntimeError):  # torch's own: two devices
        criterion(torch.randn(targets.shape, device="meta", requires_grad=True), targets.to("meta"))
    assert devices(criterion) == {torch.device("cpu")}


def test_a_compiled_criterion_follows_in_one_graph(targets):
    """From the device without values, the only second one that torch can compile for on every machine."""

    def with_values(graph, _):
        return lambda *tensors: graph(
            *(torch.ones_like(each, device="cpu") if each.is_meta else each for each in tensors)
        )

    criterion = PartialLabelMasking.from_targets(targets).to("meta")
    forward = torch.compile(criterion, fullgraph=True, backend=with_values)
    assert forward(torch.randn(targets.shape, requires_grad=True), targets).device.type == "cpu"
    assert devices(criterion) == {torch.device("cpu")}


def test_a_move_in_inference_mode_leaves_state_that_training_can_change(targets):
    criterion = PartialLabelMasking.from_targets(targets)
    with torch.inference_mode():
        criterion._follow(second_device())  # as `update` does there; lazy tensors know no inference mode
    logits = torch.zeros(targets.shape, device=second_device(), requires_grad=True)
    criterion(logits, targets.to(second_device())).backward()
    criterion.step()
    assert devices(criterion) == {second_device()}


@pytest.mark.parametrize("options", [{}, {"initial_ratio": torch.ones(4), "ratio_range": (0.1, 1.0)}])
def test_a_criterion_built_in_inference_mode_can_be_trained(targets, options):
    plain = PartialLabelMasking.from_targets(targets, generator=torch.Generator().manual_seed(0), **options)
    with torch.inference_mode():
        criterion = PartialLabelMasking.from_targets(
            targets.clone(), generator=torch.Generator().manual_seed(0), **options
        )
    assert not any(getattr(criterion, name).is_inference() for name in STATE)
    for found, expected in zip(epochs(criterion, targets, "cpu"), epochs(plain, targets, "cpu"), strict=True):
        assert torch.equal(found, expected)
