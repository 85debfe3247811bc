"""A pretrained model for images or texts with a new last layer, trained as a whole."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from tailmask._util.messages import UserError, is_out_of_memory
from tailmask.backbones.backbone import Kind, Pooling
from tailmask.backbones.hub_folder import find_folder
from tailmask.backbones.hugging_face import load_network, network_from_config
from tailmask.backbones.pooling import TextPooling, pool_image, pool_text, read_text_pooling
from tailmask.models.trial_run import reason

__all__ = ["PretrainedNetwork", "PretrainedTextNetwork", "build_pretrained", "set_fixed_norm"]


class PretrainedNetwork(nn.Module):
    """An image model of Hugging Face with a linear layer on its features.

    Args:
        body: The model, which takes `pixel_values`.
        width: Number of its features.
        num_classes: Number of classes.
        pooling: How its outputs become features; see `tailmask.backbones.pooling`.
    """

    def __init__(self, body: nn.Module, width: int, num_classes: int, pooling: Pooling | None) -> None:
        super().__init__()
        self.body = body
        self.pooling = pooling
        self.head = nn.Linear(width, num_classes)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (B, C) of normalised images (B, 3, height, width)."""
        logits: Tensor = self.head(self.features(inputs))
        return logits

    def features(self, inputs: Tensor) -> Tensor:
        """Features (B, D)."""
        return pool_image(self.body(pixel_values=inputs), self.body.config, self.pooling)

    def example(self, shape: Sequence[int]) -> Tensor:
        """Two samples of this shape on the device of the weights."""
        return torch.zeros(2, *shape, device=next(self.body.parameters()).device)

    def width(self, example: Tensor) -> int:
        """The number of features."""
        return int(self.features(example).shape[1])

    def config_json(self) -> dict[str, Any]:
        """The configuration of the body, from which `build_pretrained` builds it without a folder."""
        config: Any = self.body.config
        values: dict[str, Any] = json.loads(config.to_json_string(use_diff=False))
        return values


class PretrainedTextNetwork(PretrainedNetwork):
    """A text model of Hugging Face with a linear layer on its features.

    Its inputs (B, 2, T) are numbers of tokens, and a mask that is 0 for padding, else 1.
    """

    def features(self, inputs: Tensor) -> Tensor:
        """Features (B, D); columns that are padding in all texts are not computed."""
        ids, mask = inputs.long().unbind(dim=1)
        longest = max(1, int(mask.sum(dim=1).max()))
        return self.text_features(ids[:, :longest], mask[:, :longest])

    def example(self, shape: Sequence[int]) -> Tensor:
        """Two texts of a few tokens."""
        length = min(4, shape[1])
        return torch.ones(2, 2, length, device=next(self.body.parameters()).device)

    def width(self, example: Tensor) -> int:
        """The number of features; on the meta device, which computes nothing, from the configuration."""
        config: Any = self.body.config
        return int(config.hidden_size) if example.is_meta else super().width(example)

    def text_features(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Features (B, D) of `input_ids` and `attention_mask`, both (B, T)."""
        outputs = self.body(input_ids=ids, attention_mask=mask)
        return pool_text(outputs, mask, TextPooling(self.pooling or "mean"))


def build_pretrained(
    *,
    shape: Sequence[int],
    num_classes: int,
    backbone: str | None = None,
    config: Mapping[str, Any] | None = None,
    pooling: Pooling | None = None,
    freeze: float = 0.0,
) -> PretrainedNetwork:
    """The network with the weights of `backbone`, or built only from `config`, for weights loaded later.

    Samples of shape (3, height, width) are images; those of shape (2, tokens) are texts.
    `freeze` is the share of the depth that is not trained, from the inputs on.
    """
    kind: Kind = "images" if len(shape) == 3 else "texts"
    if backbone is not None:
        if not backbone.startswith("hf:"):
            raise UserError(f"only models hf:NAME_OR_FOLDER can be fine-tuned, got {backbone}")
        folder = find_folder(backbone.removeprefix("hf:"))
        if kind == "texts":
            pooling = read_text_pooling(folder, pooling).pooling
        body = load_network(folder, kind, pooling).requires_grad_(True)
    elif config is not None:
        body = network_from_config(config, kind)
    else:
        raise UserError(
            "the model 'backbone' is a pretrained one: name it with --model hf:NAME_OR_FOLDER --finetune"
        )
    if kind == "texts":
        network: PretrainedNetwork = PretrainedTextNetwork(body, 1, num_classes, pooling)
    else:
        network = PretrainedNetwork(body, 1, num_classes, pooling)
    example = network.example(shape)
    try:
        with torch.no_grad():
            network.head = nn.Linear(network.width(example), num_classes)
    except (
        ValueError,
        RuntimeError,
        TypeError,
    ) as error:  # a transformer may have positions for only one size
        if isinstance(error, UserError) or is_out_of_memory(error):
            raise
        raise UserError(
            f"the pretrained model cannot take inputs of shape {tuple(shape)}: {reason(error)}"
        ) from error
    if backbone is not None:
        _freeze_unused(network, example)
        _freeze_depth(body, freeze)
    return network


def set_fixed_norm(network: nn.Module) -> None:
    """Keep batch normalisation in evaluation mode, even if the network is set to training mode.

    >>> network = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    >>> set_fixed_norm(network)
    >>> [module.training for module in network.train()]
    [True, False]
    """
    for module in network.modules():
        if isinstance(module, _BatchNorm):
            module.eval()
            module.train = lambda mode=True, own=module: own  # type: ignore[method-assign, misc]  # on purpose


def _freeze_unused(network: PretrainedNetwork, example: Tensor) -> None:
    """Freeze weights that the logits do not depend on: several processes would wait for their gradients."""
    network(example).sum().backward()
    for parameter in network.parameters():
        parameter.requires_grad_(parameter.grad is not None)
        parameter.grad = None


def _freeze_depth(body: nn.Module, share: float) -> None:
    """Freeze everything before the first trained block, in the order of declaration."""
    if not share:
        return
    lists = [list(module) for module in body.modules() if isinstance(module, nn.ModuleList)]
    blocks = max(lists, key=len, default=[])  # the layers of a transformer, the stages of a ResNet
    number = round(share * len(blocks))
    first = next(blocks[number].parameters(), None) if number < len(blocks) else None
    if first is None and share < 1:
        raise UserError("the model has no blocks, so no part can be frozen: set model.freeze to 0 or 1")
    for parameter in body.parameters():
        if parameter is first:
            return
        parameter.requires_grad_(False)
