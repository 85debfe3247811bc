"""Small networks: a convolutional network for tiny images, and networks for tables."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["WideLinear", "cnn", "mlp", "used_columns"]

# For narrower layers, selecting columns takes as long as multiplying all of them.
_WIDE = 4096


def cnn(*, in_channels: int, num_classes: int) -> nn.Module:
    """Three 3×3 convolutions with batch normalisation; the first two are followed by 2 × 2 max pooling.

    For images of a dozen pixels, as in the `digits` set.

    >>> import torch
    >>> cnn(in_channels=1, num_classes=10)(torch.zeros(2, 1, 12, 12)).shape
    torch.Size([2, 10])
    """
    layers: list[nn.Module] = []
    channels = in_channels
    for index, width in enumerate((16, 32, 64)):
        if index:
            layers.append(nn.MaxPool2d(2))
        layers += [nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, num_classes))


def mlp(
    num_features: int,
    num_classes: int,
    *,
    hidden: Sequence[int] = (),
    dropout: float = 0.0,
    input_dropout: float = 0.0,
) -> nn.Sequential:
    """ReLU layers with the widths in `hidden`, dropout after each; a linear model if `hidden` is empty.

    >>> import torch
    >>> mlp(num_features=4, num_classes=3, hidden=[8])(torch.zeros(2, 4)).shape
    torch.Size([2, 3])
    """
    layers: list[nn.Module] = [nn.Flatten()]
    if input_dropout:
        layers.append(nn.Dropout(input_dropout))
    width = num_features
    for size in hidden:
        layers += [_linear(width, size), nn.ReLU()]
        if dropout:
            layers.append(nn.Dropout(dropout))
        width = size
    return nn.Sequential(*layers, _linear(width, num_classes))


class WideLinear(nn.Linear):
    """A linear layer for wide inputs with few nonzero columns per batch, such as bags of words.

    In training it multiplies only these columns, unless the inputs need gradients: gradients exist for all
    columns. Weights and outputs are those of `nn.Linear`.

    >>> layer, inputs = WideLinear(5000, 2), torch.zeros(3, 5000)
    >>> inputs[:, [1, 7]] = 1.0
    >>> torch.allclose(layer(inputs), nn.functional.linear(inputs, layer.weight, layer.bias), atol=1e-6)
    True
    """

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 (the name that nn.Linear gives it)
        """Outputs (N, out_features)."""
        used = used_columns(input) if self.training else None
        if used is None:
            return super().forward(input)
        return F.linear(input.index_select(1, used), self.weight.index_select(1, used), self.bias)


def used_columns(inputs: Tensor) -> Tensor | None:
    """Indices of the nonzero columns of a batch (B, F); None if all columns should be multiplied.

    >>> inputs = torch.zeros(3, 5000)
    >>> inputs[:, [1, 7]] = 1.0
    >>> used_columns(inputs), used_columns(inputs[:, :100])
    (tensor([1, 7]), None)
    """
    # A compiled graph cannot depend on the values of a batch, and inputs have gradients in all columns.
    if inputs.shape[1] < _WIDE or inputs.requires_grad or torch.compiler.is_compiling():
        return None
    used = inputs.abs().sum(dim=0).nonzero().squeeze(1)
    return used if len(used) <= inputs.shape[1] // 4 else None


def _linear(num_inputs: int, num_outputs: int) -> nn.Linear:
    return (WideLinear if num_inputs >= _WIDE else nn.Linear)(num_inputs, num_outputs)
