"""Residual networks for small images: the CIFAR form of He et al. (2016), and the few-shot ResNet-12.

The CIFAR form (section 4.2 there) has a 3×3 stem, three stages of basic blocks, global average pooling and
one linear layer. Shortcuts have no parameters: if a stage halves the image, they take every second pixel and
fill the new channels with zeros.

In the literature on few-shot learning "ResNet-12" is another network: four blocks of three convolutions, each
with a convolution in its shortcut and a maximum over 2 × 2 pixels at its end.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["FewShotResNet12", "ResNet", "initialize"]

WIDTHS = (16, 32, 64)  # channels of the three stages
_SLOPE = 0.1  # slope of the few-shot network's rectifiers for negative values


class BasicBlock(nn.Module):
    """Two 3×3 convolutions with batch normalisation, added to the input, then the rectifier."""

    def __init__(self, in_channels: int, channels: int, *, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.new_channels = channels - in_channels
        self.conv1 = nn.Conv2d(in_channels, channels, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)

    def forward(self, images: Tensor) -> Tensor:
        """Images (B, in_channels, H, W) → (B, channels, H / stride, W / stride)."""
        hidden = F.relu(self.norm1(self.conv1(images)), inplace=True)
        hidden = self.norm2(self.conv2(hidden))
        return F.relu(hidden.add_(self._shortcut(images)), inplace=True)

    def _shortcut(self, images: Tensor) -> Tensor:
        if self.stride > 1:
            images = images[:, :, :: self.stride, :: self.stride]
        if self.new_channels:
            before = self.new_channels // 2
            images = F.pad(images, (0, 0, 0, 0, before, self.new_channels - before))
        return images


class ResNet(nn.Module):
    """Residual network for small images; `num_blocks` basic blocks in each stage.

    ResNet-32 has (5, 5, 5) blocks. The ResNet-12 of this project has (1, 2, 2): twelve layers with weights.
    It replaces the paper's MultiMNIST network. `widening` multiplies the channels of all layers.

    >>> import torch
    >>> network = ResNet((1, 2, 2), in_channels=1, num_classes=10)
    >>> network(torch.zeros(2, 1, 32, 32)).shape
    torch.Size([2, 10])
    >>> sum(isinstance(module, nn.Conv2d | nn.Linear) for module in network.modules())
    12
    """

    def __init__(
        self, num_blocks: Sequence[int], *, in_channels: int, num_classes: int, widening: int = 1
    ) -> None:
        super().__init__()
        widths = [widening * width for width in WIDTHS]
        channels = widths[0]
        self.stem = nn.Conv2d(in_channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        blocks: list[nn.Module] = []
        for stage, (number, width) in enumerate(zip(num_blocks, widths, strict=True)):
            for index in range(number):
                stride = 2 if stage and not index else 1
                blocks.append(BasicBlock(channels, width, stride=stride))
                channels = width
        self.blocks = nn.Sequential(*blocks)
        self.classifier = nn.Linear(channels, num_classes)
        initialize(self)

    def forward(self, images: Tensor) -> Tensor:
        """Logits (B, C) of images (B, channels, H, W)."""
        hidden = F.relu(self.norm(self.stem(images)), inplace=True)
        hidden = self.blocks(hidden).mean(dim=(2, 3))
        logits: Tensor = self.classifier(hidden)
        return logits


class FewShotBlock(nn.Module):
    """Three 3×3 convolutions and a 1×1 convolution of the input, added, then a maximum over 2 × 2 pixels."""

    def __init__(self, in_channels: int, channels: int) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            _normalized(in_channels, channels, 3),
            nn.LeakyReLU(_SLOPE, inplace=True),
            _normalized(channels, channels, 3),
            nn.LeakyReLU(_SLOPE, inplace=True),
            _normalized(channels, channels, 3),
        )
        self.shortcut = _normalized(in_channels, channels, 1)

    def forward(self, images: Tensor) -> Tensor:
        """Images (B, in_channels, H, W) → (B, channels, H // 2, W // 2)."""
        hidden = self.convolutions(images).add_(self.shortcut(images))
        return F.max_pool2d(F.leaky_relu(hidden, _SLOPE, inplace=True), 2)


class FewShotResNet12(nn.Module):
    """ResNet-12 as in few-shot learning (Oreshkin et al. 2018, Lee et al. 2019), without DropBlock.

    Its twelve layers are the 3×3 convolutions; shortcuts and the linear layer do not count.

    >>> import torch
    >>> network = FewShotResNet12((64, 160, 320, 640), in_channels=1, num_classes=10)
    >>> network(torch.zeros(2, 1, 32, 32)).shape
    torch.Size([2, 10])
    """

    def __init__(self, widths: Sequence[int], *, in_channels: int, num_classes: int) -> None:
        super().__init__()
        ends = zip((in_channels, *widths), widths, strict=False)
        self.blocks = nn.Sequential(*(FewShotBlock(before, after) for before, after in ends))
        self.classifier = nn.Linear(widths[-1], num_classes)
        initialize(self)

    def forward(self, images: Tensor) -> Tensor:
        """Logits (B, C) of images (B, channels, H, W), of 16 × 16 pixels or more."""
        logits: Tensor = self.classifier(self.blocks(images).mean(dim=(2, 3)))
        return logits


def _normalized(in_channels: int, channels: int, size: int) -> nn.Sequential:
    """A convolution that keeps the image's size, with batch normalisation."""
    convolution = nn.Conv2d(in_channels, channels, size, padding=size // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(channels))


def initialize(network: nn.Module) -> None:
    """Initialise all convolutions with He's normal weights (He et al. 2015), scaled by their outputs."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
