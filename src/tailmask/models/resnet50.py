"""ResNet-50 in its ImageNet form (He et al. 2016), with the stride in the 3×3 convolution."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from tailmask.models.resnet import initialize

__all__ = ["ResNet50"]


class Bottleneck(nn.Module):
    """1×1, 3×3 and 1×1 convolutions with batch normalisation, added to the input, then the rectifier."""

    def __init__(self, in_channels: int, width: int, *, stride: int) -> None:
        super().__init__()
        channels = 4 * width
        self.conv1 = nn.Conv2d(in_channels, width, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, channels, 1, bias=False)
        self.norm3 = nn.BatchNorm2d(channels)
        # Blocks that start as the identity allow large learning rates (Goyal et al. 2017, section 5.1).
        nn.init.zeros_(self.norm3.weight)
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or in_channels != channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_channels, channels, 1, stride=stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, images: Tensor) -> Tensor:
        """Images (B, in_channels, H, W) → (B, 4 · width, H / stride, W / stride)."""
        hidden = F.relu(self.norm1(self.conv1(images)), inplace=True)
        hidden = F.relu(self.norm2(self.conv2(hidden)), inplace=True)
        hidden = self.norm3(self.conv3(hidden))
        return F.relu(hidden.add_(self.shortcut(images)), inplace=True)


class ResNet50(nn.Module):
    """Residual network with 50 layers of weights, for images of ImageNet's size.

    >>> network = ResNet50(in_channels=3, num_classes=1000)
    >>> sum(parameter.numel() for parameter in network.parameters())
    25557032
    """

    def __init__(self, *, in_channels: int, num_classes: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(in_channels, 64, 7, stride=2, padding=3, bias=False)
        self.norm = nn.BatchNorm2d(64)
        blocks: list[nn.Module] = []
        channels = 64
        for stage, number in enumerate((3, 4, 6, 3)):
            width = 64 * 2**stage
            for index in range(number):
                stride = 2 if stage and not index else 1
                blocks.append(Bottleneck(channels, width, stride=stride))
                channels = 4 * width
        self.blocks = nn.Sequential(*blocks)
        self.classifier = nn.Linear(channels, num_classes)
        initialize(self)

    def forward(self, images: Tensor) -> Tensor:
        """Logits (B, C) of images (B, channels, H, W)."""
        hidden = F.relu(self.norm(self.stem(images)), inplace=True)
        hidden = F.max_pool2d(hidden, 3, stride=2, padding=1)
        hidden = self.blocks(hidden).mean(dim=(2, 3))
        logits: Tensor = self.classifier(hidden)
        return logits
