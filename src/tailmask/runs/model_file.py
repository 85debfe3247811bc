"""Trained models as one safetensors file: the weights, and metadata with everything else for prediction."""

from __future__ import annotations

import functools
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor, nn

from tailmask._util.files import write_bytes
from tailmask._util.messages import UserError
from tailmask._util.serialization import from_mapping
from tailmask.models import build_model, is_own_model

__all__ = ["ModelDescription", "build_network", "read_description", "read_model", "save_model"]

_KEY = "tailmask"


@dataclass(frozen=True)
class ModelDescription:
    """The metadata of a model file: everything for prediction except the weights."""

    method: str
    classes: tuple[str, ...]
    shape: tuple[int, ...]  # of one sample
    model: dict[str, Any]  # arguments of build_model
    encoder: dict[str, Any]  # Encoder.to_json
    single_label: bool
    activation: Literal["sigmoid", "softmax"]
    logit_scale: float  # logits = scale · outputs; LDAM's outputs are cosines
    threshold: float
    thresholds: tuple[float, ...] | None  # fitted on validation, one per class
    prior_shift: tuple[float, ...] | None  # added to logits: it restores the prior of the data
    format: int = 1


def save_model(path: Path, network: nn.Module, description: ModelDescription) -> None:
    """Write the weights and the description, whole or not at all."""
    weights = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in network.state_dict().items()
    }
    # Only one entry: safetensors writes several entries in an order that differs between processes.
    metadata = {_KEY: json.dumps(asdict(description), ensure_ascii=False)}
    write_bytes(path, save(weights, metadata=metadata))


def read_description(path: Path) -> ModelDescription:
    """The description in a model file."""
    try:
        with safe_open(path, framework="pt") as file:
            fields = json.loads((file.metadata() or {})[_KEY])
        if not isinstance(fields, dict):
            raise ValueError("its description is not a JSON object")
        description = from_mapping(ModelDescription, fields)
        fitted = [
            values for values in (description.thresholds, description.prior_shift) if values is not None
        ]
        if any(len(values) != len(description.classes) for values in fitted):
            raise ValueError(f"thresholds and prior shift must have {len(description.classes)} values each")
        return description
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise UserError(f"{path} is not a model file of tailmask: {error}") from error


def read_model(path: Path, *, model: str | None = None) -> tuple[nn.Module, ModelDescription]:
    """The trained network, in evaluation mode, with its description.

    A user's own network is built by importing code. Only the caller may choose this code, never the file:
    `model` must name the import path again.
    """
    description = read_description(path)
    name = str(description.model.get("name", ""))
    if is_own_model(name) and model != name:
        raise UserError(
            f"{path} was trained with a network of your own: allow its code to run with --model {name}"
        )
    try:
        return build_network(description, load_file(path)), description
    except (OSError, SafetensorError, RuntimeError, TypeError, ValueError, OverflowError) as error:
        reason = " ".join(str(error).split())[:300]
        raise UserError(f"the weights in {path} do not fit its description: {reason}") from error


def build_network(description: ModelDescription, weights: dict[str, Tensor]) -> nn.Module:
    """The described network with these weights, in evaluation mode; a ValueError if they do not fit."""
    arguments = dict(description.model)
    name = str(arguments.pop("name", ""))
    build = functools.partial(
        build_model, name, shape=description.shape, num_classes=len(description.classes), **arguments
    )
    if not is_own_model(name):
        with torch.device("meta"):  # a forged description must not allocate memory
            _check_shapes(build(), weights)
    network = build()
    network.load_state_dict(weights)
    return network.eval()


def _check_shapes(network: nn.Module, weights: dict[str, Tensor]) -> None:
    for name, tensor in network.state_dict().items():
        if name in weights and weights[name].shape != tensor.shape:
            raise ValueError(
                f"{name} must have shape {tuple(tensor.shape)}, got {tuple(weights[name].shape)}"
            )
