"""Small networks: a convolutional one for tiny images, and those for tables."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

__all__ = ["cnn", "mlp"]


def cnn(*, in_channels: int, num_classes: int, widths: Sequence[int] = (16, 32, 64)) -> nn.Module:
    """Three 3×3 convolutions with batch normalisation, halving the image after each but the last.

    For images of a dozen pixels, as in the `digits` set.

    >>> import torch
    >>> cnn(in_channels=1, num_classes=10)(torch.zeros(2, 1, 12, 12)).shape
    torch.Size([2, 10])
    """
    layers: list[nn.Module] = []
    channels = in_channels
    for index, width in enumerate(widths):
        if index:
            layers.append(nn.MaxPool2d(2))
        layers += [nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, num_classes))


def mlp(
    num_features: int, num_classes: int, *, hidden: Sequence[int] = (), dropout: float = 0.0
) -> nn.Module:
    """Rectified layers of the widths in `hidden`, each with dropout after it; none of them is a linear model.

    >>> import torch
    >>> mlp(num_features=4, num_classes=3, hidden=[8])(torch.zeros(2, 4)).shape
    torch.Size([2, 3])
    """
    layers: list[nn.Module] = [nn.Flatten()]
    width = num_features
    for size in hidden:
        layers += [nn.Linear(width, size), nn.ReLU()]
        if dropout:
            layers.append(nn.Dropout(dropout))
        width = size
    return nn.Sequential(*layers, nn.Linear(width, num_classes))
