"""The folder of a Hugging Face model: the user's own folder, or one in the cache of the hub."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from tailmask._util.messages import UserError, listing, require

__all__ = ["files_digest", "find_folder"]

# Files to download: safetensors weights, the configuration, the tokenizer and the image processor.
WANTED = ("*.json", "*.txt", "*.model", "model.safetensors", "model-*.safetensors")

_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.msgpack")


def find_folder(name: str) -> Path:
    """The folder of a model: `name` itself, or the copy of a model of the hub, downloaded if necessary."""
    path = Path(name).expanduser()
    if path.is_dir():
        return _checked(path)
    if path.exists():
        raise UserError(
            f"hf:{name} must be a folder with config.json and model.safetensors, got a file: name its folder"
        )
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name) or name.startswith(".") or name.count("/") > 1:
        raise UserError(f"there is no folder {name!r} with a model: check --model hf:{name}")
    return _checked(_from_hub(name))


def _from_hub(name: str) -> Path:
    hub = require("huggingface_hub", extra="hf")
    try:
        folder = Path(hub.snapshot_download(name, allow_patterns=WANTED, local_files_only=True))
        if any(folder.glob("model*.safetensors")):
            return folder
    except (OSError, ValueError):  # the model is not in the cache
        pass
    try:
        return Path(hub.snapshot_download(name, allow_patterns=WANTED))
    except Exception as error:  # the network, the hub and the disk raise many kinds of errors
        reason = _first_line(error)
        raise UserError(
            f"the model {name!r} is neither a folder here nor in the cache {hub.constants.HF_HUB_CACHE}, and "
            f"it cannot be downloaded ({reason}): on a machine with a network, run `hf download {name} "
            f"--local-dir FOLDER`, copy FOLDER here, and use --model hf:FOLDER"
        ) from error


def _checked(folder: Path) -> Path:
    if not (folder / "config.json").is_file():
        raise UserError(
            f"{folder} has no config.json, so it is not a model: name a folder that save_pretrained wrote"
        )
    if any(folder.glob("model*.safetensors")):
        return folder
    pickles = sorted(path.name for pattern in _PICKLES for path in folder.glob(pattern))
    if pickles:
        raise UserError(
            f"{folder} has its weights only in {listing(pickles)}, and pickles are not read because they can "
            "run code: save the model with save_pretrained(..., safe_serialization=True)"
        )
    raise UserError(
        f"{folder} has no model.safetensors with the weights: save the model with save_pretrained"
    )


def files_digest(folder: Path) -> str:
    """SHA-256 of all files in a model's folder that can change its features.

    It takes about a second per gigabyte.
    """
    total = hashlib.sha256()
    files = {path for pattern in WANTED for path in (*folder.glob(pattern), *folder.glob(f"*/{pattern}"))}
    for path in sorted(files):
        with path.open("rb") as file:
            own = hashlib.file_digest(file, "sha256").hexdigest()
        total.update(f"{path.relative_to(folder).as_posix()}\0{own}\0".encode())
    return total.hexdigest()


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:160] if lines else type(error).__name__
