"""What holds for every loss: stability, gradients, unknown labels, reductions, precision, use inside PLM."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from tailmask import PartialLabelMasking
from tailmask._util.registry import Word, find_words
from tailmask.losses import (
    AsymmetricLoss,
    BinaryCrossEntropy,
    DeferredReweighting,
    ElementwiseLoss,
    FocalLoss,
    HillLoss,
    LDAMLoss,
)

NUM_CLASSES = 4
POSITIVES, NEGATIVES = [40000, 300, 20, 1], [60000, 99700, 99980, 99999]
WEIGHT = [0.01, 0.5, 1.5, 2.0]

Build = Callable[..., nn.Module]


def declared(word: Word) -> Build:
    """A loss of the registry with its default options."""
    return lambda **options: word.build({}, {"positives": POSITIVES, "negatives": NEGATIVES} | options)


ELEMENTWISE: dict[str, Build] = {
    **{
        name: declared(word)
        for name, word in find_words().items()
        if word.kind == "loss" and not word.single_label
    },
    "bce weighted": lambda **options: BinaryCrossEntropy(weight=WEIGHT, **options),
    "bce weighted per sample": lambda **options: BinaryCrossEntropy(
        weight=WEIGHT, per_sample=True, **options
    ),
    "bce positives weighted": lambda **options: BinaryCrossEntropy(pos_weight=[0.5, 3, 20, 100], **options),
    "bce deferred": lambda **options: DeferredReweighting(
        BinaryCrossEntropy(**options), WEIGHT, start_epoch=0
    ),
    "focal 0.5 alpha": lambda **options: FocalLoss(0.5, alpha=[0.1, 0.2, 0.5, 0.9], **options),
    "asl attached": lambda **options: AsymmetricLoss(detach=False, **options),
    "asl 0.5": lambda **options: AsymmetricLoss(gamma_neg=0.5, gamma_pos=0.5, detach=False, **options),
    "asl no clip": lambda **options: AsymmetricLoss(gamma_pos=1.0, clip=0.0, detach=False, **options),
    "hill 0.5": lambda **options: HillLoss(gamma=0.5, margin=-0.5, **options),
}
LDAM: dict[str, Build] = {
    "ldam": lambda **options: LDAMLoss(POSITIVES, **options),
    "ldam weighted": lambda **options: LDAMLoss(POSITIVES, weight=WEIGHT, **options),
}
EVERY = ELEMENTWISE | LDAM


def batch(name: str, number: int = 30) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    logits = 2 * torch.randn(number, NUM_CLASSES, generator=generator)
    if name in LDAM:
        classes = torch.randint(NUM_CLASSES, (number,), generator=generator)
        return logits / 4, nn.functional.one_hot(classes, NUM_CLASSES).float()
    return logits, (torch.rand(number, NUM_CLASSES, generator=generator) < 0.4).float()


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", EVERY)
def test_huge_logits_give_a_finite_loss_and_gradient(name: str, dtype: torch.dtype, autocast: bool) -> None:
    size = 1e4
    logits = torch.tensor([[size, -size, size, -size], [-size, size, size, -size], [0.0, size, 0.0, -size]])
    logits = logits.to(dtype).requires_grad_()
    targets = torch.tensor([[1.0, 0, 0, 0], [0, 0, 0, 1.0], [0, 1.0, 0, 0]])
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        loss = EVERY[name]()(logits, targets)
    assert loss.dtype == torch.float32
    assert loss.isfinite()
    assert loss > 10  # the wrong ones are not forgotten
    loss.backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
    assert logits.grad[1, 3] < 0  # a positive that is predicted to be absent is still pulled up


@pytest.mark.parametrize("name", [name for name in EVERY if name != "asl"])  # which detaches
def test_gradient_is_that_of_the_loss(name: str) -> None:
    logits, targets = batch(name, 6)
    loss = EVERY[name](reduction="sum")
    assert torch.autograd.gradcheck(lambda x: loss(x, targets), logits.double().requires_grad_())


@pytest.mark.parametrize("name", EVERY)
def test_half_precision_logits_and_autocast_are_computed_in_float32(name: str) -> None:
    logits, targets = batch(name)
    loss = EVERY[name]()
    rounded = logits.bfloat16()
    expected = loss(rounded.float(), targets)
    assert torch.equal(loss(rounded, targets), expected)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(loss(rounded, targets), expected)
        assert torch.equal(loss(rounded.float(), targets), expected)
    assert loss(logits.double(), targets.double()).dtype == torch.float64


@pytest.mark.parametrize("name", EVERY)
def test_casting_the_module_keeps_its_constants(name: str) -> None:
    logits, targets = batch(name)
    loss = EVERY[name]()
    expected, state = loss(logits, targets), copy.deepcopy(loss.state_dict())
    for cast in (loss.half(), loss.bfloat16(), loss.double()):
        assert torch.equal(cast(logits, targets), expected)
        for key, value in cast.state_dict().items():
            assert value.dtype == state[key].dtype
            assert torch.equal(value, state[key])


@pytest.mark.parametrize("unknown", [-1.0, torch.nan])
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_unknown_labels_have_no_loss_and_no_gradient(name: str, unknown: float) -> None:
    logits, targets = batch(name)
    hidden = torch.rand(targets.shape, generator=torch.Generator().manual_seed(2)) < 0.3
    targets = targets.masked_fill(hidden, unknown)
    poisoned = logits.masked_fill(hidden, torch.nan).requires_grad_()
    losses = ELEMENTWISE[name](reduction="none")(poisoned, targets)
    assert (losses[hidden] == 0).all()
    assert losses[~hidden].isfinite().all()
    mean = ELEMENTWISE[name](reduction="mean")(poisoned, targets)
    assert mean.item() == pytest.approx((losses.sum() / (~hidden).sum()).item())
    mean.backward()
    assert poisoned.grad is not None
    assert (poisoned.grad[hidden] == 0).all()
    assert poisoned.grad[~hidden].isfinite().all()


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_nothing_known_is_zero(name: str) -> None:
    logits = torch.randn(3, NUM_CLASSES, requires_grad=True)
    loss = ELEMENTWISE[name]()(logits, torch.full((3, NUM_CLASSES), -1.0))
    loss.backward()
    assert loss.item() == 0
    assert logits.grad is not None
    assert not logits.grad.any()


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_reductions(name: str) -> None:
    logits, targets = batch(name)
    targets[0, :2] = -1
    losses = ELEMENTWISE[name](reduction="none")(logits, targets)
    assert losses.shape == logits.shape
    assert (losses >= 0).all()
    for reduction, number in (("mean", targets.numel() - 2), ("batchmean", len(targets)), ("sum", 1)):
        value = ELEMENTWISE[name](reduction=reduction)(logits, targets)
        assert value.item() == pytest.approx((losses.sum() / number).item(), rel=1e-6)


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.uint8, torch.int8, torch.int64, torch.float64, torch.bfloat16]
)
@pytest.mark.parametrize("name", EVERY)
def test_targets_of_any_type(name: str, dtype: torch.dtype) -> None:
    logits, targets = batch(name)
    loss = EVERY[name]()
    assert torch.equal(loss(logits, targets.to(dtype)), loss(logits, targets))


@pytest.mark.parametrize("value", [5.0, -3.0, -100.0, torch.inf])
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_targets_that_nobody_can_have_meant(name: str, value: float) -> None:
    logits, targets = batch(name)
    targets[1, 2], targets[2, 2] = torch.nan, -1
    targets[0, 1] = value
    with pytest.raises(ValueError, match=f"unknown .-1 or NaN., got {value:g}"):
        ELEMENTWISE[name]()(logits, targets)


def test_an_empty_batch_costs_nothing() -> None:
    assert BinaryCrossEntropy(reduction="sum")(torch.zeros(0, 4), torch.zeros(0, 4)) == 0


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_the_class_may_be_on_axis_1_of_more(name: str) -> None:
    logits, targets = batch(name, 30)
    shaped = [tensor.view(5, 3, 2, NUM_CLASSES).movedim(-1, 1) for tensor in (logits, targets)]
    losses = ELEMENTWISE[name](reduction="none")
    flat = losses(*shaped).movedim(1, -1).reshape(30, NUM_CLASSES)
    assert torch.allclose(flat, losses(logits, targets), rtol=1e-6)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_inside_plm(name: str) -> None:
    logits, targets = batch(name)
    counts = torch.tensor([NEGATIVES, POSITIVES])
    criterion = PartialLabelMasking(counts, loss=ELEMENTWISE[name](reduction="none"))
    plain = ELEMENTWISE[name]()(logits, targets)
    logits.requires_grad_()
    assert criterion(logits, targets).item() == pytest.approx(plain.item())  # nothing is masked yet
    criterion.step()
    criterion(logits, targets).backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
    with pytest.raises(ValueError, match="reduc"):
        PartialLabelMasking(counts, loss=ELEMENTWISE[name]())


@pytest.mark.parametrize("name", EVERY)
def test_compiles_in_one_graph(name: str) -> None:
    logits, targets = batch(name)
    targets[0] = -1
    loss = EVERY[name]()
    torch.compiler.reset()
    compiled = torch.compile(loss, fullgraph=True, backend="eager")
    assert compiled(logits, targets).item() == pytest.approx(loss(logits, targets).item(), rel=1e-6)


@pytest.mark.parametrize("name", EVERY)
def test_state_goes_round(name: str) -> None:
    logits, targets = batch(name)
    loss, other = EVERY[name](), EVERY[name]()
    for buffer in other.buffers():
        buffer.zero_()
    other.load_state_dict(loss.state_dict())
    assert torch.equal(other(logits, targets), loss(logits, targets))


@pytest.mark.parametrize("name", EVERY)
def test_a_loss_built_in_inference_mode_can_be_trained(name: str) -> None:
    logits, targets = batch(name)
    with torch.inference_mode():
        loss = EVERY[name]()
    gradients = [
        torch.autograd.grad(each(logits.requires_grad_(), targets), logits)[0]
        for each in (loss, EVERY[name]())
    ]
    assert torch.equal(*gradients)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_bad_input(name: str) -> None:
    loss = ELEMENTWISE[name]()
    with pytest.raises(ValueError, match=r"got \(3, 4\) and \(3,\): .*class indices"):
        loss(torch.zeros(3, 4), torch.zeros(3))
    with pytest.raises(ValueError, match="got"):
        loss(torch.zeros(3, 4), torch.zeros(3, 5))
    with pytest.raises(ValueError, match="did you mean 'mean'"):
        ELEMENTWISE[name](reduction="meen")
    with pytest.raises(ValueError, match=r"reduction .* None: did you mean 'none'"):
        ELEMENTWISE[name](reduction=None)


def test_a_loss_of_ones_own() -> None:
    class Squared(ElementwiseLoss):
        def elementwise(self, logits: Tensor, targets: Tensor) -> Tensor:
            return (logits.sigmoid() - targets).square()

    value = Squared(weight=[1.0, 3.0])(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]))
    assert value.item() == pytest.approx(0.5)
