"""Models of Hugging Face as backbones: `AutoModel` with the model's own processor or tokenizer."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tailmask._util.messages import UserError, is_out_of_memory, require
from tailmask.backbones.backbone import BackboneChoice, Kind, Pooling
from tailmask.backbones.hub_folder import files_digest, find_folder
from tailmask.backbones.pooling import pool_image, pool_text, read_text_pooling

__all__ = ["HuggingFaceBackbone", "load_image_processor", "load_network", "network_from_config"]

BATCH_SIZE = 32

# Positions of these start behind the padding's own.
_SHIFTED_POSITIONS = ("roberta", "xlm-roberta", "camembert", "mpnet", "data2vec-text")

# Turns a batch of samples into features (B, D) on some device.
_Embed: TypeAlias = Callable[[Sequence[Any]], Tensor]


@dataclass(frozen=True)
class HuggingFaceBackbone:
    """A model in a folder, frozen; see `tailmask.backbones.pooling` for what its features are."""

    folder: Path
    choice: BackboneChoice

    @classmethod
    def open(cls, choice: BackboneChoice) -> HuggingFaceBackbone:
        """The model that `choice` names; it is found, not yet loaded."""
        return cls(find_folder(choice.name.removeprefix("hf:")), choice)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the files in the folder and of how features are taken."""
        options = [self.choice.kind, self.choice.pooling, self.choice.flips]
        return hashlib.sha256(json.dumps([files_digest(self.folder), *options]).encode()).hexdigest()

    def features(self, samples: Sequence[Any]) -> NDArray[np.float32]:
        """Features (N, D); texts of similar length share a batch, so that little of it is padding."""
        order = sorted(range(len(samples)), key=lambda i: len(samples[i]) if self._is_text else 0)
        pieces = []
        with torch.inference_mode():
            for start in range(0, len(order), BATCH_SIZE):
                batch = [samples[index] for index in order[start : start + BATCH_SIZE]]
                pieces.append(self._embed(batch).float().cpu().numpy())
        found = np.concatenate(pieces)
        features = np.empty_like(found)
        features[order] = found
        return features

    @property
    def _is_text(self) -> bool:
        return self.choice.kind == "texts"

    @cached_property
    def _embed(self) -> _Embed:
        network = load_network(self.folder, self.choice.kind, self.choice.pooling)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        network = network.to(device)
        build = _text_embedder if self._is_text else _image_embedder
        return build(self.folder, network, self.choice, device)


def load_network(folder: Path, kind: Kind, pooling: Pooling | None = None) -> nn.Module:
    """The network in a folder in float32 and evaluation mode; of one for images and texts, the image tower.

    Code that comes with a model is never run, and no weights but those in safetensors files are read. A model
    of the wrong kind, or weights that are not all there, are a `UserError`.
    """
    transformers = require("transformers", extra="hf")
    with _quiet(), _sentence(folder, "a model"):
        network, info = transformers.AutoModel.from_pretrained(
            folder,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            output_loading_info=True,
        )
    missing = [name for name in info["missing_keys"] if pooling == "pooler" or not name.startswith("pooler.")]
    if missing:
        raise UserError(
            f"the weights in {folder} are not those of its config.json: {min(missing)} is missing"
            f"{f' and {len(missing) - 1} more are' if len(missing) > 1 else ''}"
        )
    if kind == "images" and hasattr(network, "vision_model"):
        network = network.vision_model
    elif kind == "texts" and network.config.is_encoder_decoder:
        network = network.get_encoder()
    name = getattr(network, "main_input_name", "pixel_values")  # an image tower may not say it
    takes = {"pixel_values": "images", "input_ids": "texts"}.get(name, "neither")
    if takes != kind:
        raise UserError(
            f"{folder} is a {network.config.model_type} model, which takes {takes}, but the data are {kind}: "
            f"choose a model for {kind}"
        )
    network.requires_grad_(False)
    return network.float().eval()  # type: ignore[no-any-return]


def network_from_config(config: Mapping[str, Any]) -> nn.Module:
    """A network for images of the architecture that `config` describes, with random weights.

    `config` is the JSON of a configuration of transformers; code that it names is not run.
    """
    transformers = require("transformers", extra="hf")
    values = {name: value for name, value in config.items() if name not in ("auto_map", "model_type")}
    with _quiet(), _sentence(Path("the stored configuration"), "that of a model"):
        own = transformers.AutoConfig.for_model(str(config["model_type"]), **values)
        network: nn.Module = transformers.AutoModel.from_config(own, trust_remote_code=False)
    return getattr(network, "vision_model", network)


def load_image_processor(folder: Path) -> Any:
    """The image processor in a folder, the one that needs no torchvision: all machines get its numbers."""
    transformers = require("transformers", extra="hf")
    new = int(transformers.__version__.partition(".")[0]) >= 5
    chosen: dict[str, Any] = {"backend": "pil"} if new else {"use_fast": False}
    with _quiet(), _sentence(folder, "an image processor (preprocessor_config.json)"):
        return transformers.AutoImageProcessor.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, **chosen
        )


def _image_embedder(folder: Path, network: nn.Module, choice: BackboneChoice, device: torch.device) -> _Embed:
    processor = load_image_processor(folder)

    def embed(images: Sequence[Any]) -> Tensor:
        pixels = processor(list(images), return_tensors="pt")["pixel_values"].to(device)
        features = pool_image(network(pixel_values=pixels), network.config, choice.pooling)
        if choice.flips:
            mirrored = network(pixel_values=pixels.flip(-1))
            features = (features + pool_image(mirrored, network.config, choice.pooling)) / 2
        return features

    return embed


def _text_embedder(folder: Path, network: nn.Module, choice: BackboneChoice, device: torch.device) -> _Embed:
    transformers = require("transformers", extra="hf")
    with _quiet(), _sentence(folder, "a tokenizer"):
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    if tokenizer.pad_token is None:
        raise UserError(
            f"the tokenizer in {folder} has no padding token, as those of models that write text: choose an "
            "encoder such as BERT or MiniLM"
        )
    tokenizer.padding_side = "right"
    how = read_text_pooling(folder, choice.pooling)
    length = how.max_length or _longest(tokenizer, network.config)

    def embed(texts: Sequence[str]) -> Tensor:
        encoded = tokenizer(
            list(texts), padding=True, truncation=length is not None, max_length=length, return_tensors="pt"
        ).to(device)
        return pool_text(network(**encoded), encoded["attention_mask"], how)

    return embed


def _longest(tokenizer: Any, config: Any) -> int | None:
    """The longest text in tokens that a model takes."""
    positions = getattr(config, "max_position_embeddings", None)
    if positions is not None and config.model_type in _SHIFTED_POSITIONS:
        positions -= 2
    limits = [limit for limit in (tokenizer.model_max_length, positions) if limit and limit < 10**6]
    return int(min(limits)) if limits else None


@contextlib.contextmanager
def _sentence(folder: Path, what: str) -> Iterator[None]:
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # of tokenizers, safetensors, JSON: dozens of kinds
        if is_out_of_memory(error):
            raise
        text = " ".join(str(error).split())
        if "trust_remote_code" in text or "custom code" in text:
            raise UserError(
                f"the model in {folder} needs code of its own, which is not run: choose another model, or "
                "name a function of yours with --encoder module:function"
            ) from error
        raise UserError(f"{folder} cannot be read as {what}: {text[:200]}") from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """No bars and reports of transformers on the way; what matters of them is checked here."""
    logging = require("transformers", extra="hf").utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
