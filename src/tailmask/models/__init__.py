"""Networks by name: residual networks, a small convolutional network, networks for tables, and users' own.

How pretrained models are found and loaded lives in `tailmask.backbones`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tailmask._util.messages import UserError, nearest
from tailmask._util.own_code import import_own
from tailmask.models.last_layer import normalize_head, start_bias, start_uniform
from tailmask.models.member_networks import MemberNetworks
from tailmask.models.resnet import FewShotResNet12, ResNet
from tailmask.models.resnet50 import ResNet50
from tailmask.models.small_networks import cnn, mlp
from tailmask.models.trial_run import check_outputs, reason

__all__ = ["BACKBONE", "MODELS", "MOST_MEMBERS", "build_model", "is_own_model"]

# The same limit as in recipes: a forged model file must not cause long computations.
MOST_MEMBERS = 1000


def _resnet12(channels: int, classes: int, widening: int = 1) -> nn.Module:
    return ResNet((1, 2, 2), in_channels=channels, num_classes=classes, widening=widening)


_IMAGE_MODELS: dict[str, Callable[[int, int], nn.Module]] = {
    "resnet12": _resnet12,
    "resnet12-wide2": functools.partial(_resnet12, widening=2),
    "resnet12-wide4": functools.partial(_resnet12, widening=4),
    "resnet12-fewshot": lambda channels, classes: FewShotResNet12(
        (64, 128, 256, 512), in_channels=channels, num_classes=classes
    ),
    "resnet12-fewshot-wide": lambda channels, classes: FewShotResNet12(
        (64, 160, 320, 640), in_channels=channels, num_classes=classes
    ),
    "resnet32": lambda channels, classes: ResNet((5, 5, 5), in_channels=channels, num_classes=classes),
    "resnet50": lambda channels, classes: ResNet50(in_channels=channels, num_classes=classes),
    "cnn": lambda channels, classes: cnn(in_channels=channels, num_classes=classes),
}

# The number of times that a network halves its images, without rounding up.
_HALVINGS = {"cnn": 2, "resnet12-fewshot": 4, "resnet12-fewshot-wide": 4}

MODELS = (*_IMAGE_MODELS, "mlp", "linear")

# The pretrained model of `--model hf:NAME --finetune`, trained as a whole.
BACKBONE = "backbone"


def build_model(
    name: str,
    *,
    shape: Sequence[int],
    num_classes: int,
    hidden: Sequence[int] = (),
    dropout: float = 0.0,
    bias: str | Tensor = "default",
    normalized: bool = False,
    input_dropout: float = 0.0,
    members: int = 1,
    freeze: float = 0.0,
    fixed_norm: bool = False,
    **pretrained: Any,
) -> nn.Module:
    """Network that turns inputs (B, *shape) into logits (B, num_classes).

    Args:
        name: One of `MODELS`, or `package.module:factory` for a network of your own.
            `factory(shape=…, num_classes=…)` must return an `nn.Module`; a trial run checks its outputs.
        shape: Shape of one sample.
        num_classes: Number of classes.
        hidden: Widths of the hidden layers of `mlp`.
        dropout: Share of hidden values that `mlp` drops in training.
        bias: Initial last bias: "default" is PyTorch's own, "uniform" is −log(C − 1); or values (C,).
        normalized: Whether to replace the last layer by one that returns cosines, for LDAM.
        input_dropout: Share of the inputs that `mlp` and `linear` drop in training.
        members: Number of networks that `mlp` and `linear` train at once; see `MemberNetworks`.
        freeze: Share of the depth of `backbone` that is not trained, from the inputs on.
        fixed_norm: Whether batch normalisation stays in evaluation mode.
        **pretrained: For `backbone`: its name `backbone` or its `config`, and its `pooling`; see
            `tailmask.models.pretrained.build_pretrained`.

    >>> build_model("resnet12", shape=(1, 32, 32), num_classes=10)(torch.zeros(2, 1, 32, 32)).shape
    torch.Size([2, 10])
    """
    if (members > 1 or input_dropout) and name not in ("mlp", "linear"):
        raise UserError(
            f"model.members and model.input_dropout are for the models 'mlp' and 'linear', not for {name!r}"
        )
    if not 1 <= members <= MOST_MEMBERS:
        raise UserError(f"model.members must be from 1 to {MOST_MEMBERS}, got {members}")
    if members > 1:
        alone: dict[str, Any] = {"hidden": hidden, "dropout": dropout, "bias": bias, "normalized": normalized}
        alone |= {"shape": shape, "num_classes": num_classes, "input_dropout": input_dropout}
        return MemberNetworks([build_model(name, **alone) for _ in range(members)])
    if (hidden or dropout) and name != "mlp":
        raise UserError(f"model.hidden and model.dropout are for the model 'mlp', not for {name!r}")
    if name == "mlp" and not hidden:
        raise UserError("the model 'mlp' needs hidden layers: set model.hidden=[256], or choose 'linear'")
    for share in (dropout, input_dropout):
        if not 0 <= share < 1:
            raise UserError(f"model.dropout and model.input_dropout must be from 0 to below 1, got {share}")
    if name == BACKBONE:
        from tailmask.models.pretrained import build_pretrained

        network: nn.Module = build_pretrained(
            shape=shape, num_classes=num_classes, freeze=freeze, **pretrained
        )
    elif freeze:
        raise UserError(f"model.freeze is for pretrained models (--finetune), not for {name!r}")
    else:
        options = {"dropout": dropout, "input_dropout": input_dropout}
        network = _build(name, tuple(shape), num_classes, hidden=hidden, **options)
    if isinstance(bias, Tensor) and not normalized:
        start_bias(network, bias)
    elif bias == "uniform" and not normalized:
        start_uniform(network, num_classes=num_classes)
    if normalized:
        network = normalize_head(network, num_classes=num_classes)
    if is_own_model(name):
        check_outputs(network, shape, num_classes, name=name)
    if fixed_norm:
        from tailmask.models.pretrained import set_fixed_norm

        set_fixed_norm(network)
    return network


def is_own_model(name: str) -> bool:
    """True if `name` is an import path, `package.module:factory`, rather than one of `MODELS`."""
    return ":" in name


def _build(
    name: str,
    shape: tuple[int, ...],
    num_classes: int,
    *,
    hidden: Sequence[int],
    dropout: float,
    input_dropout: float,
) -> nn.Module:
    if is_own_model(name):
        return _own_model(name, shape, num_classes)
    if name in ("mlp", "linear"):
        num_features = torch.Size(shape).numel()
        options = {"dropout": dropout, "input_dropout": input_dropout}
        return mlp(num_features=num_features, num_classes=num_classes, hidden=hidden, **options)
    if name not in _IMAGE_MODELS:
        raise UserError(f"unknown model {name!r}: {nearest(name, MODELS)}")
    if len(shape) != 3:
        raise UserError(
            f"the model {name!r} is for images (channels, height, width), but a sample here has the shape "
            f"{shape}: choose 'mlp' or 'linear', which fit tables"
        )
    least = 2 ** _HALVINGS.get(name, 0)
    if min(shape[1:]) < least:
        raise UserError(
            f"the model {name!r} needs images of at least {least} × {least} pixels, "
            f"got {shape[1]} × {shape[2]}"
        )
    return _IMAGE_MODELS[name](shape[0], num_classes)


def _own_model(path: str, shape: tuple[int, ...], num_classes: int) -> nn.Module:
    _, factory = import_own(path, what="model", form="package.module:factory")
    try:
        network = factory(shape=shape, num_classes=num_classes)
    except Exception as error:
        raise UserError(
            f"{path}(shape={shape}, num_classes={num_classes}) failed: {reason(error)}"
        ) from error
    if not isinstance(network, nn.Module):
        raise UserError(f"{path} must return an nn.Module, got {type(network).__name__}")
    return network
