"""A pretrained model with the network on its features, as one network that can be exported."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tailmask._util.messages import UserError, require
from tailmask.backbones.hugging_face import (
    HuggingFaceBackbone,
    load_image_processor,
    load_network,
    stored_tokenizer,
)
from tailmask.backbones.pooling import pool_image, pool_text, read_text_pooling
from tailmask.data.encoders.backbone_encoder import BackboneEncoder
from tailmask.data.encoders.token_encoder import TokenEncoder
from tailmask.inference.classifier import Classifier
from tailmask.inference.program_inputs import NumberInputs, ProgramInputs, TokenInputs
from tailmask.models.pretrained import PretrainedTextNetwork

__all__ = [
    "TOKENS_NOTE",
    "FineTunedTextClassifier",
    "WholeClassifier",
    "WholeTextClassifier",
    "features_note",
    "fine_tuned_texts",
    "raw_features_note",
    "whole_classifier",
]

TOKENS_NOTE = (
    "its inputs are input_ids and attention_mask, which the tokenizer in the metadata makes "
    "(encoder.tokenizer, for tokenizers.Tokenizer.from_str)"
)


class _Standardised(nn.Module):
    """The network on the standardised features of a frozen body."""

    mean: Tensor
    scale: Tensor

    def __init__(self, body: nn.Module, encoder: BackboneEncoder, classifier: Classifier) -> None:
        super().__init__()
        self.body = body
        self.classifier = classifier
        self.choice = encoder.format.choice
        self.register_buffer("mean", torch.tensor(encoder.scale.mean, dtype=torch.float32))
        self.register_buffer("scale", torch.tensor(encoder.scale.scale, dtype=torch.float32))

    def classified(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities and logits (B, C) of features (B, D)."""
        outputs: tuple[Tensor, Tensor] = self.classifier((features - self.mean) / self.scale)
        return outputs


class WholeClassifier(_Standardised):
    """A frozen image model and the network on its features, as one network."""

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities and logits (B, C) of `pixel_values` (B, 3, height, width)."""
        features = self._features(inputs)
        if self.choice.flips:
            features = (features + self._features(inputs.flip(-1))) / 2
        return self.classified(features)

    def _features(self, inputs: Tensor) -> Tensor:
        return pool_image(self.body(pixel_values=inputs), self.body.config, self.choice.pooling)


class WholeTextClassifier(_Standardised):
    """A frozen text model and the network on its features, as one network."""

    def __init__(
        self, body: nn.Module, encoder: BackboneEncoder, classifier: Classifier, backbone: HuggingFaceBackbone
    ) -> None:
        super().__init__(body, encoder, classifier)
        self.how = read_text_pooling(backbone.folder, self.choice.pooling)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities and logits (B, C) of tokens (B, T)."""
        outputs = self.body(input_ids=input_ids, attention_mask=attention_mask)
        return self.classified(pool_text(outputs, attention_mask, self.how))


class FineTunedTextClassifier(nn.Module):
    """A fine-tuned text model as a network of tokens."""

    def __init__(self, classifier: Classifier) -> None:
        super().__init__()
        self.classifier = classifier

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities and logits (B, C) of tokens (B, T)."""
        network = self.classifier.network
        assert isinstance(network, PretrainedTextNetwork)
        return self.classifier.finished(network.head(network.text_features(input_ids, attention_mask)))


def whole_classifier(
    encoder: BackboneEncoder, classifier: Classifier
) -> tuple[nn.Module, ProgramInputs] | None:
    """The whole network with its inputs.

    None if the backbone is not an hf: model, or if its tokenizer gives more than tokens and their mask.
    """
    backbone = None if encoder.format.choice.is_code else encoder.format.backbone
    if not isinstance(backbone, HuggingFaceBackbone):
        return None
    choice = encoder.format.choice
    body: Any = load_network(backbone.folder, choice.kind, choice.pooling)
    if choice.kind == "texts":
        try:
            _, padding, length = stored_tokenizer(backbone.folder)
        except UserError:
            return None
        inputs = TokenInputs(body.config.vocab_size, length, padding)
        return WholeTextClassifier(body, encoder, classifier, backbone).eval(), inputs
    image = require("PIL.Image", extra="cli").new("RGB", (64, 64))
    pixels: Any = load_image_processor(backbone.folder)([image], return_tensors="pt")["pixel_values"]
    return WholeClassifier(body, encoder, classifier).eval(), NumberInputs(tuple(pixels.shape[1:]))


def fine_tuned_texts(encoder: TokenEncoder, classifier: Classifier) -> tuple[nn.Module, ProgramInputs]:
    """A fine-tuned text model with its inputs."""
    network: Any = classifier.network
    inputs = TokenInputs(network.body.config.vocab_size, encoder.length, encoder.padding)
    return FineTunedTextClassifier(classifier).eval(), inputs


def features_note(encoder: BackboneEncoder, *, whole: bool) -> str:
    """A sentence that says which inputs the caller of an exported program must prepare."""
    name = encoder.format.choice.name
    if whole and encoder.reads_images:
        return f"its inputs are the pixel_values that the image processor of {name} makes"
    if whole:
        return f"its inputs are the input_ids and attention_mask that the tokenizer of {name} makes"
    return (
        f"{raw_features_note(name)}, subtract their mean and divide by their scale (encoder.scale in the "
        "metadata)"
    )


def raw_features_note(name: str) -> str:
    """The sentence for a program that takes features of the backbone `name`."""
    return f"its inputs are features of {name}: compute them as `tailmask embed` does"
