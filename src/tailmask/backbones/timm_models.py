"""Models of timm as backbones, with the preprocessing that timm records for them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tailmask._util.messages import UserError, require
from tailmask.backbones.backbone import BackboneChoice

__all__ = ["TimmBackbone"]

BATCH_SIZE = 32


@dataclass(frozen=True)
class TimmBackbone:
    """A model of timm without its head; its features are the pooled inputs of the head."""

    choice: BackboneChoice
    network: nn.Module
    weights: Path

    @classmethod
    def open(cls, choice: BackboneChoice) -> TimmBackbone:
        """The model that `choice` names, with weights from a safetensors file of the hub."""
        if choice.kind != "images":
            raise UserError(
                f"{choice.name} is a model for images, but the data are {choice.kind}: choose an hf: model"
            )
        timm, name = _timm(), choice.name.removeprefix("timm:")
        if not timm.is_model(name.partition(".")[0]):
            raise UserError(f"timm has no model {name!r}: timm.list_models('*', pretrained=True) names all")
        network = timm.create_model(name, pretrained=False, num_classes=0)
        weights = _weights(name, str((network.pretrained_cfg or {}).get("hf_hub_id") or ""))
        state = require("safetensors.torch", extra="hf").load_file(weights)
        missing = network.load_state_dict(state, strict=False).missing_keys
        if missing:
            raise UserError(f"the weights of {choice.name} lack {missing[0]}: download them again")
        return cls(choice, network.eval().requires_grad_(False), weights)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the weights, the preprocessing and the options."""
        with self.weights.open("rb") as file:
            own = hashlib.file_digest(file, "sha256").hexdigest()
        about = repr((own, self.choice.name, self.choice.flips, sorted(self._settings.items())))
        return hashlib.sha256(about.encode()).hexdigest()

    def features(self, samples: Sequence[Any]) -> NDArray[np.float32]:
        """Features (N, D) of Pillow images."""
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        network, pieces = self.network.to(device), []
        with torch.inference_mode():
            for start in range(0, len(samples), BATCH_SIZE):
                images = samples[start : start + BATCH_SIZE]
                pixels = torch.stack([self._transform(image) for image in images]).to(device)
                found = network(pixels)
                if self.choice.flips:
                    found = (found + network(pixels.flip(-1))) / 2
                pieces.append(found.float().cpu().numpy())
        return np.concatenate(pieces)

    @cached_property
    def _settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = _timm().data.resolve_model_data_config(self.network)
        return settings

    @cached_property
    def _transform(self) -> Any:
        return _timm().data.create_transform(**self._settings, is_training=False)


def _timm() -> Any:
    try:
        return require("timm", extra="timm")
    except UserError:
        raise
    except Exception as error:  # a torchvision that was built for another torch
        raise UserError(
            f"timm cannot be imported ({error}): install the torchvision that was built for torch "
            f"{torch.__version__}"
        ) from error


def _weights(name: str, repository: str) -> Path:
    hub = require("huggingface_hub", extra="hf")
    if not repository:
        raise UserError(
            f"timm:{name} has no pretrained weights on the hub: choose a name that ends with a tag"
        )
    file = "model.safetensors"
    try:
        return Path(hub.hf_hub_download(repository, file, local_files_only=True))
    except (OSError, ValueError):
        pass
    try:
        return Path(hub.hf_hub_download(repository, file))
    except Exception as error:  # the network, the hub and the disk raise many kinds of errors
        reason = " ".join(str(error).split())[:160]
        raise UserError(
            f"the weights of timm:{name} are not in the cache {hub.constants.HF_HUB_CACHE} and cannot be "
            f"downloaded ({reason}): on a machine with a network, run `hf download {repository} {file}`, and "
            "copy its cache here"
        ) from error
