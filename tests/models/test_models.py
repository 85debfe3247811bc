"""Networks: their sizes against the published ones, their layouts, and users' own."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
import torch
from torch import nn

from tailmask._util.messages import UserError
from tailmask.models import MODELS, build_model
from tailmask.models.last_layer import NormalizedLinear, last_bias, last_linear
from tailmask.models.resnet import BasicBlock, FewShotBlock
from tailmask.models.small_networks import WideLinear

SHAPES = {name: (3, 32, 32) for name in MODELS if name.startswith("resnet")}
SHAPES |= {"resnet12": (1, 32, 32), "resnet50": (3, 64, 64), "cnn": (1, 12, 12)}


def num_parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def cifar_resnet_size(blocks: tuple[int, int, int], channels: int, classes: int, widening: int = 1) -> int:
    """Counted by hand: 3×3 convolutions without bias, two numbers a channel for each normalisation."""
    width = 16 * widening
    total = 9 * channels * width + 2 * width
    for number, out in zip(blocks, (width, 2 * width, 4 * width), strict=True):
        for _ in range(number):
            total += 9 * width * out + 9 * out * out + 4 * out
            width = out
    return total + width * classes + classes


def few_shot_size(widths: tuple[int, ...], channels: int, classes: int) -> int:
    """Counted by hand: per block three 3×3 convolutions, one of 1×1, and four normalisations."""
    total, before = 0, channels
    for width in widths:
        total += 9 * before * width + 18 * width * width + before * width + 8 * width
        before = width
    return total + before * classes + classes


@pytest.mark.parametrize("name", MODELS)
def test_every_model_gives_one_logit_a_class(name: str) -> None:
    shape = SHAPES.get(name, (7,))
    network = build_model(name, shape=shape, num_classes=5, hidden=(8,) if name == "mlp" else ())
    assert network(torch.randn(3, *shape)).shape == (3, 5)


def test_residual_networks_have_the_published_sizes() -> None:
    resnet32 = build_model("resnet32", shape=(3, 32, 32), num_classes=10)
    assert num_parameters(resnet32) == cifar_resnet_size((5, 5, 5), 3, 10) == 464_154
    resnet12 = build_model("resnet12", shape=(1, 32, 32), num_classes=10)
    assert num_parameters(resnet12) == cifar_resnet_size((1, 2, 2), 1, 10)
    assert sum(isinstance(module, nn.Conv2d | nn.Linear) for module in resnet12.modules()) == 12
    resnet50 = build_model("resnet50", shape=(3, 224, 224), num_classes=80)
    assert num_parameters(resnet50) == 25_557_032 - 2049 * (1000 - 80)


@pytest.mark.parametrize(("widening", "size"), [(2, 666_858), (4, 2_660_810)])
def test_wider_networks_have_the_derived_sizes(widening: int, size: int) -> None:
    network = build_model(f"resnet12-wide{widening}", shape=(1, 32, 32), num_classes=10)
    assert num_parameters(network) == cifar_resnet_size((1, 2, 2), 1, 10, widening) == size


@pytest.mark.parametrize(
    ("name", "widths", "millions"),
    [("resnet12-fewshot", (64, 128, 256, 512), 8.0), ("resnet12-fewshot-wide", (64, 160, 320, 640), 12.4)],
)
def test_few_shot_networks_have_the_published_sizes(
    name: str, widths: tuple[int, ...], millions: float
) -> None:
    """Published in millions, for the features of RGB images, without a classifier."""
    network = build_model(name, shape=(3, 32, 32), num_classes=10)
    assert num_parameters(network) == few_shot_size(widths, 3, 10)
    assert round(num_parameters(network.blocks) / 1e6, 1) == millions
    layers = [module for module in network.modules() if isinstance(module, nn.Conv2d)]
    assert sum(layer.kernel_size == (3, 3) for layer in layers) == 12
    assert network.blocks(torch.zeros(1, 3, 32, 32)).shape == (1, widths[-1], 2, 2)


def test_few_shot_block_adds_the_shortcut_before_the_maximum() -> None:
    block = FewShotBlock(1, 1).eval()
    nn.init.zeros_(block.convolutions[-1][0].weight)
    nn.init.ones_(block.shortcut[0].weight)
    images = torch.tensor([[[[1.0, -2.0], [3.0, 0.5]]], [[[-1.0, -2.0], [-3.0, -4.0]]]])
    torch.testing.assert_close(block(images).flatten(), torch.tensor([3.0, -0.1]), rtol=1e-4, atol=0)


def test_shortcut_takes_every_second_pixel_and_zeros_for_new_channels() -> None:
    block = BasicBlock(2, 4, stride=2)
    nn.init.zeros_(block.norm2.weight)  # leaves the shortcut alone
    images = torch.rand(1, 2, 4, 4)
    out = block(images)
    torch.testing.assert_close(out[:, 1:3], images[:, :, ::2, ::2])
    assert not out[:, [0, 3]].any()


@pytest.mark.parametrize("name", ["resnet12", "resnet12-fewshot", "resnet32", "resnet50", "cnn"])
def test_layout_does_not_change_the_outputs_and_is_kept_through_the_network(name: str) -> None:
    torch.manual_seed(0)
    network = build_model(name, shape=SHAPES[name], num_classes=5).eval()
    images = torch.randn(2, *SHAPES[name])
    expected = network(images)
    layouts = []
    network = network.to(memory_format=torch.channels_last)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.register_forward_hook(lambda _, __, out: layouts.append(out))
    result = network(images.contiguous(memory_format=torch.channels_last))
    torch.testing.assert_close(result, expected, atol=1e-4, rtol=1e-4)
    assert all(out.is_contiguous(memory_format=torch.channels_last) for out in layouts)


def test_last_bias_starts_where_the_recipe_says() -> None:
    network = build_model("resnet12", shape=(1, 32, 32), num_classes=10, bias="uniform")
    torch.testing.assert_close(network.classifier.bias.data, torch.full((10,), -math.log(9)))
    assert last_bias(network) is network.classifier.bias
    single = build_model("linear", shape=(4,), num_classes=1, bias="uniform")
    assert last_bias(single).item() == 0


def test_normalized_head_gives_cosines() -> None:
    network = build_model("mlp", shape=(4,), num_classes=3, hidden=(8,), bias="uniform", normalized=True)
    head = network[-1]
    assert isinstance(head, NormalizedLinear)
    features = torch.randn(5, 8)
    expected = [
        [torch.cosine_similarity(row, weight, dim=0) for weight in head.weight.detach()] for row in features
    ]
    torch.testing.assert_close(head(features), torch.tensor(expected))
    assert last_bias(network) is None


def test_own_model_by_import_path(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_networks.py").write_text(
        "from torch import nn\n"
        "def small(shape, num_classes):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0], num_classes))\n"
        "def bare(shape, num_classes):\n"
        "    return nn.Linear(shape[0], num_classes)\n"
        "def wrong(shape, num_classes):\n"
        "    return 3\n"
    )
    network = build_model("own_networks:small", shape=(4,), num_classes=3, bias="uniform")
    assert network[1].bias[0].item() == pytest.approx(-math.log(2))
    cosines = build_model("own_networks:bare", shape=(4,), num_classes=3, normalized=True)
    assert cosines(torch.full((2, 4), 100.0)).abs().max() <= 1 + 1e-6
    assert list(cosines.state_dict()) == ["weight"]
    with pytest.raises(UserError, match=r"must return an nn\.Module, got int"):
        build_model("own_networks:wrong", shape=(4,), num_classes=3)
    with pytest.raises(UserError, match=r"cannot be imported: .*no attribute 'smal'"):
        build_model("own_networks:smal", shape=(4,), num_classes=3)
    with pytest.raises(UserError, match="cannot be imported: No module named 'nowhere'"):
        build_model("nowhere:factory", shape=(4,), num_classes=3)


@pytest.mark.parametrize("name", [":factory", ".a:factory", "a..b:factory", "a:", ":"])
def test_import_paths_that_are_not_whole(name: str) -> None:
    with pytest.raises(UserError, match=f"the model '{name}' must be written as package.module:factory"):
        build_model(name, shape=(4,), num_classes=3)


def test_bad_names_and_shapes_are_refused() -> None:
    with pytest.raises(UserError, match="unknown model 'resnet23': did you mean 'resnet32'"):
        build_model("resnet23", shape=(3, 32, 32), num_classes=3)
    with pytest.raises(UserError, match=r"is for images .* has the shape \(7,\): choose 'mlp' or 'linear'"):
        build_model("resnet12", shape=(7,), num_classes=3)
    with pytest.raises(UserError, match="for the model 'mlp', not for 'linear'"):
        build_model("linear", shape=(7,), num_classes=3, hidden=(8,))
    with pytest.raises(UserError, match=r"'mlp' needs hidden layers: set model.hidden"):
        build_model("mlp", shape=(7,), num_classes=3)
    with pytest.raises(ValueError, match="must have 4 outputs"):
        last_linear(nn.Linear(3, 3), num_classes=4)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.9])
def test_a_wide_layer_is_a_linear_one(share) -> None:
    torch.manual_seed(0)
    wide = WideLinear(5000, 3)
    plain = nn.Linear(5000, 3)
    plain.load_state_dict(wide.state_dict())
    inputs = torch.randn(8, 5000) * (torch.rand(5000) < share)
    for layer in (wide, plain):
        layer(inputs).square().sum().backward()
    torch.testing.assert_close(wide(inputs), plain(inputs))
    for ours, theirs in zip(wide.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_a_wide_layer_gives_inputs_their_gradients() -> None:
    layer, inputs = WideLinear(5000, 3), torch.zeros(2, 5000, requires_grad=True)
    layer(inputs).sum().backward()
    torch.testing.assert_close(inputs.grad, layer.weight.sum(dim=0).expand(2, -1))


def test_a_wide_layer_tells_of_a_value_that_is_not_finite() -> None:
    inputs = torch.zeros(2, 5000)
    inputs[0, 7] = torch.nan
    assert not WideLinear(5000, 3)(inputs)[0].isfinite().any()


def test_a_network_without_memory_is_built_without_the_compiler() -> None:
    """`read_model` builds one to compare shapes; importing the compiler takes seconds and writes files."""
    program = (
        "import sys, torch\n"
        "from tailmask.models import build_model\n"
        "with torch.device('meta'):\n"
        "    build_model('mlp', shape=(3,), num_classes=2, hidden=[4], normalized=True)\n"
        "assert 'torch._dynamo' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
