"""The command to give users after training."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["predict_command"]


def predict_command(folder: str, config: Mapping[str, Any]) -> str:
    """The command that predicts with the model in `folder`; `config` is that of one of its runs.

    It names a new file of the kind that the model was trained on, or a folder of images.

    >>> config = {"shape": [3], "determines": {"data": {"name": "table.npz"}}}
    >>> predict_command("my model", config)
    "tailmask predict 'my model' new.npz"
    """
    suffix = Path(config["determines"]["data"]["name"]).suffix
    images = len(config["shape"]) == 3 and not suffix
    new = "new-images" if images else f"new{suffix if suffix in ('.npz', '.arff') else '.csv'}"
    return f"tailmask predict {shlex.quote(folder)} {new}"
