"""A frozen backbone with the network on its features, as one network that can be exported."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tailmask._util.messages import require
from tailmask.backbones.hugging_face import HuggingFaceBackbone, load_image_processor, load_network
from tailmask.backbones.pooling import pool_image
from tailmask.data.encoders.backbone_encoder import BackboneEncoder
from tailmask.inference.classifier import Classifier

__all__ = ["WholeClassifier", "features_note", "whole_classifier"]


class WholeClassifier(nn.Module):
    """From the `pixel_values` of a model's image processor to probabilities and logits, both (B, C)."""

    mean: Tensor
    scale: Tensor

    def __init__(self, body: nn.Module, encoder: BackboneEncoder, classifier: Classifier) -> None:
        super().__init__()
        self.body = body
        self.classifier = classifier
        self.choice = encoder.format.choice
        self.register_buffer("mean", torch.tensor(encoder.scale.mean, dtype=torch.float32))
        self.register_buffer("scale", torch.tensor(encoder.scale.scale, dtype=torch.float32))

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities and logits (B, C) of `pixel_values` (B, 3, height, width)."""
        features = self._features(inputs)
        if self.choice.flips:
            features = (features + self._features(inputs.flip(-1))) / 2
        outputs: tuple[Tensor, Tensor] = self.classifier((features - self.mean) / self.scale)
        return outputs

    def _features(self, inputs: Tensor) -> Tensor:
        return pool_image(self.body(pixel_values=inputs), self.body.config, self.choice.pooling)


def whole_classifier(
    encoder: BackboneEncoder, classifier: Classifier
) -> tuple[WholeClassifier, tuple[int, ...]] | None:
    """The whole network and the shape of its inputs; None where a backbone is no hf: model for images."""
    backbone = encoder.format.backbone if encoder.reads_images and not encoder.format.choice.is_code else None
    if not isinstance(backbone, HuggingFaceBackbone):
        return None
    image = require("PIL.Image", extra="cli").new("RGB", (64, 64))
    pixels: Any = load_image_processor(backbone.folder)([image], return_tensors="pt")["pixel_values"]
    body = load_network(backbone.folder, "images", encoder.format.choice.pooling)
    return WholeClassifier(body, encoder, classifier).eval(), tuple(pixels.shape[1:])


def features_note(encoder: BackboneEncoder, *, whole: bool) -> str:
    """What the caller of an exported program must do before it."""
    name = encoder.format.choice.name
    if whole:
        return f"its inputs are the pixel_values that the image processor of {name} makes"
    return (
        f"its inputs are features of {name}, which the caller computes as `tailmask embed` does, less "
        "their mean and divided by their scale (encoder.scale in the metadata)"
    )
