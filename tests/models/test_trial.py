"""Networks tried out before training: misfits are named, and the trial leaves no trace."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tailmask._util.messages import UserError
from tailmask.models import build_model
from tailmask.models.trial_run import check_outputs, evaluation_mode, needs_two_rows


def build(name: str) -> nn.Module:
    return build_model(f"training.factories:{name}", shape=(6,), num_classes=4)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("positional", r"positional\(shape=\(6,\), num_classes=4\) failed: TypeError: .* keyword .*'shape'"),
        ("broken", r"broken\(.*\) failed: KeyError: 'width' \(factories\.py, line \d+\)"),
        ("narrow", r"narrow cannot take inputs of shape \(2, 6\): RuntimeError: mat1 and mat2"),
        ("fewer", r"fewer must turn .* \(2, 6\) into logits of shape \(2, 4\), got .* shape \(2, 3\)"),
        ("paired", r"paired must turn inputs .* into logits of shape \(2, 4\), got a tuple"),
    ],
)
def test_a_network_that_does_not_fit_is_told_when_it_is_built(name: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence) as caught:
        build(name)
    assert "\n" not in str(caught.value)


def test_a_module_that_cannot_be_imported_for_any_reason_is_told(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mistyped_networks.py").write_text("def make(shape num_classes):\n    pass\n")
    with pytest.raises(UserError, match=r"cannot be imported: .*\(mistyped_networks\.py, line 1\)"):
        build_model("mistyped_networks:make", shape=(6,), num_classes=4)


def test_building_draws_just_what_the_factory_draws() -> None:
    from training.factories import counting

    torch.manual_seed(0)
    expected = counting((6,), 4)
    drawn = torch.rand(3)
    torch.manual_seed(0)
    network = build("counting")
    assert torch.rand(3).equal(drawn)
    assert network.calls == 0
    assert not network.noise.any()
    assert network.linear.weight.equal(expected.linear.weight)
    assert network.training
    assert all(parameter.grad is None for parameter in network.parameters())


def test_evaluation_mode_gives_every_module_its_own_mode_back() -> None:
    network = build("frozen")
    modes = [module.training for module in network.modules()]
    assert len(set(modes)) == 2
    with evaluation_mode(network):
        assert not any(module.training for module in network.modules())
    assert [module.training for module in network.modules()] == modes
    with pytest.raises(ZeroDivisionError), evaluation_mode(network):
        raise ZeroDivisionError
    assert [module.training for module in network.modules()] == modes


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("training.factories:normed", (6,), True),
        ("training.factories:frozen", (6,), False),
        ("linear", (6,), False),
        ("cnn", (1, 12, 12), False),
        ("cnn", (1, 4, 4), True),
        ("resnet12", (1, 32, 32), False),
        ("resnet32", (3, 4, 4), True),
    ],
)
def test_which_networks_cannot_be_trained_on_a_single_row(name: str, shape, expected: bool) -> None:
    network = build_model(name, shape=shape, num_classes=4)
    before = {key: value.clone() for key, value in network.state_dict().items()}
    assert needs_two_rows(network, shape) is expected
    assert all(value.equal(before[key]) for key, value in network.state_dict().items())


def test_images_too_small_for_the_small_network_are_told() -> None:
    with pytest.raises(UserError, match=r"'resnet12-fewshot' needs images of at least 16 × 16 pixels"):
        build_model("resnet12-fewshot", shape=(1, 15, 32), num_classes=2)
    with pytest.raises(UserError, match=r"'cnn' needs images of at least 4 × 4 pixels, got 3 × 9"):
        build_model("cnn", shape=(1, 3, 9), num_classes=2)


@pytest.mark.parametrize("network", [nn.Sequential(nn.LazyBatchNorm1d(), nn.Linear(4, 2)), nn.Linear(4, 2)])
def test_buffers_that_are_yet_to_be_made_or_cannot_be_written_to_are_no_obstacle(network: nn.Module) -> None:
    network.register_buffer("spread", torch.ones(1).expand(4))
    check_outputs(network, (4,), 2, name="mine:network")
    assert network.spread.tolist() == [1.0] * 4
