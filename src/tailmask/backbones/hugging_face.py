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

__all__ = [
    "HuggingFaceBackbone",
    "check_kind",
    "load_image_processor",
    "load_network",
    "load_tokenizer",
    "network_from_config",
    "stored_tokenizer",
]

BATCH_SIZE = 32

# The longest text in tokens if neither the tokenizer nor the model limits it.
DEFAULT_LENGTH = 512

# In these families, positions begin after the position of the padding.
_SHIFTED_POSITIONS = ("roberta", "xlm-roberta", "camembert", "mpnet", "data2vec-text")

# Turns a batch of samples into features (B, D) on some device.
_Embed: TypeAlias = Callable[[Sequence[Any]], Tensor]


@dataclass(frozen=True)
class HuggingFaceBackbone:
    """A frozen model in a folder; `tailmask.backbones.pooling` says how its outputs become features."""

    folder: Path
    choice: BackboneChoice

    @classmethod
    def open(cls, choice: BackboneChoice) -> HuggingFaceBackbone:
        """The model that `choice` names. Its folder is found, but the model is not loaded yet."""
        return cls(find_folder(choice.name.removeprefix("hf:")), choice)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the files in the folder and of the options."""
        options = [self.choice.kind, self.choice.pooling, self.choice.flips]
        return hashlib.sha256(json.dumps([files_digest(self.folder), *options]).encode()).hexdigest()

    def features(self, samples: Sequence[Any]) -> NDArray[np.float32]:
        """Features (N, D). Texts of similar length share a batch, so a batch has little padding."""
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


def load_network(folder: Path, kind: Kind, pooling: Pooling | None) -> nn.Module:
    """The network in a folder, in float32 and evaluation mode; only the image tower if it also takes texts.

    Code in the folder is never run, and weights are read only from safetensors files. A model of the wrong
    kind or with missing weights raises a `UserError`.
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
            f"the weights in {folder} do not fit its config.json: {min(missing)} is missing"
            f"{f', and {len(missing) - 1} more' if len(missing) > 1 else ''}; download it again"
        )
    if kind == "images" and hasattr(network, "vision_model"):
        network = network.vision_model
    elif kind == "texts" and network.config.is_encoder_decoder:
        network = network.get_encoder()
    name = getattr(network, "main_input_name", "pixel_values")  # an image tower may lack it
    _refuse_other_kind(folder, network.config, name, kind)
    network.requires_grad_(False)
    return network.float().eval()  # type: ignore[no-any-return]  # transformers has no types for it


def check_kind(folder: Path, kind: Kind) -> Any:
    """The configuration in a folder; raises a `UserError` if the model takes other samples than `kind`."""
    transformers = require("transformers", extra="hf")
    with _quiet(), _sentence(folder, "a model"):
        config = transformers.AutoConfig.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        network = transformers.MODEL_MAPPING[type(config)]
    if kind == "texts" or not hasattr(config, "vision_config"):  # a model for both has an image tower
        _refuse_other_kind(folder, config, network.main_input_name, kind)
    return config


def _refuse_other_kind(folder: Path, config: Any, input_name: str, kind: Kind) -> None:
    takes = {"pixel_values": "images", "input_ids": "texts"}.get(input_name, "neither")
    if takes != kind:
        raise UserError(
            f"{folder} is a {config.model_type} model, which takes {takes}, but the data are {kind}: "
            f"choose a model for {kind}"
        )


def network_from_config(config: Mapping[str, Any], kind: Kind) -> nn.Module:
    """A network for images or texts with random weights, built from `config`.

    `config` is the JSON of a configuration of transformers. Code that it names is not run.
    """
    transformers = require("transformers", extra="hf")
    values = {name: value for name, value in config.items() if name not in ("auto_map", "model_type")}
    with _quiet(), _sentence(Path("the stored configuration"), "that of a model"):
        own = transformers.AutoConfig.for_model(str(config["model_type"]), **values)
        network: Any = transformers.AutoModel.from_config(own, trust_remote_code=False)
    if kind == "texts":
        found: nn.Module = network.get_encoder() if hasattr(network, "decoder") else network
    else:
        found = getattr(network, "vision_model", network)
    return found


def load_image_processor(folder: Path) -> Any:
    """The image processor in a folder, without torchvision: it gives the same numbers on all machines."""
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


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer in a folder, which pads on the right."""
    transformers = require("transformers", extra="hf")
    with _quiet(), _sentence(folder, "a tokenizer"):
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    if len(tokenizer) <= len(
        set(tokenizer.all_special_tokens)
    ):  # transformers builds an empty one if its files are missing
        raise UserError(f"{folder} has no tokenizer with words: save it there with tokenizer.save_pretrained")
    if tokenizer.pad_token is None:
        raise UserError(
            f"the tokenizer in {folder} has no padding token, so its model probably generates text: "
            "choose an encoder such as BERT or MiniLM"
        )
    tokenizer.padding_side = "right"
    return tokenizer


def stored_tokenizer(folder: Path) -> tuple[str, int, int]:
    """The tokenizer in a folder as JSON, the number of its padding token, and the longest text in tokens.

    The tokenizer truncates longer texts. The package `tokenizers` reads the JSON, so a model that stores it
    does not need the folder.
    """
    config, tokenizer = check_kind(folder, "texts"), load_tokenizer(folder)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise UserError(
            f"the tokenizer in {folder} is not one of the package tokenizers, so a fine-tuned model cannot "
            "store it: leave out --finetune, or choose a model with tokenizer.json"
        )
    length = read_text_pooling(folder, "mean").max_length or _longest(tokenizer, config) or DEFAULT_LENGTH
    own = require("tokenizers", extra="hf").Tokenizer.from_str(backend.to_str())
    own.enable_truncation(length)
    own.no_padding()
    if any(own.encode("a").type_ids):
        raise UserError(
            f"the tokenizer in {folder} marks single texts with token types, which fine-tuning does not pass "
            "on: leave out --finetune"
        )
    return own.to_str(), int(tokenizer.pad_token_id), length


def _text_embedder(folder: Path, network: nn.Module, choice: BackboneChoice, device: torch.device) -> _Embed:
    tokenizer = load_tokenizer(folder)
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
    except Exception as error:  # tokenizers, safetensors and JSON raise many kinds of errors
        if is_out_of_memory(error):
            raise
        text = " ".join(str(error).split())
        if "trust_remote_code" in text or "custom code" in text:
            raise UserError(
                f"the model in {folder} needs its own code, which is not run: choose another model, or "
                "name a function of yours with --encoder module:function"
            ) from error
        raise UserError(
            f"{folder} cannot be read as {what} ({text[:200]}): download it again, or save it again with "
            "save_pretrained"
        ) from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hide the progress bars and reports of transformers; this module checks what they report."""
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
