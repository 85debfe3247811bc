"""Fitted models on disk: one folder each, with JSON, arrays as safetensors, and a folder per part.

The JSON holds checksums of the arrays and of the parts and is written last. A folder without it, or with
other checksums, is not loaded.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from tailmask._util.files import write_bytes, write_json
from tailmask._util.messages import UserError
from tailmask.learners.arrays import Array
from tailmask.learners.base import Fitted

__all__ = ["Stored", "arrays_from_bytes", "arrays_to_bytes", "is_saved", "load_fitted", "save_fitted"]

_JSON, _ARRAYS = "fitted.json", "arrays.safetensors"
_FORMAT = 1

# What a folder may hold. Each class has `from_stored`.
_KINDS = {
    "linear": "tailmask.learners.matrix.matrix_learners:FittedModel",
    "trees": "tailmask.learners.matrix.matrix_learners:FittedModel",
    "boost": "tailmask.learners.matrix.matrix_learners:FittedModel",
    "network": "tailmask.learners.network:FittedNetwork",
    "folds": "tailmask.learners.cross_fitting:FoldModels",
    "ensemble": "tailmask.learners.ensemble:Ensemble",
}


@dataclass(frozen=True)
class Stored:
    """What a folder holds: plain JSON fields, arrays, and the fitted models that it is made of."""

    kind: str
    fields: Mapping[str, Any]
    arrays: Mapping[str, Array]
    parts: tuple[Fitted, ...] = ()


def save_fitted(
    folder: Path,
    kind: str,
    *,
    fields: Mapping[str, Any],
    arrays: Mapping[str, Array],
    parts: Sequence[Fitted] = (),
) -> None:
    """Write a fitted model into a folder that does not hold one yet.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> save_fitted(folder, "linear", fields={}, arrays={})
    >>> sorted(path.name for path in folder.iterdir())
    ['arrays.safetensors', 'fitted.json']
    """
    if is_saved(folder):
        raise UserError(f"{folder} already holds a fitted model: choose another folder")
    for number, part in enumerate(parts):
        part.save(_part(folder, number))
    content = arrays_to_bytes(arrays)
    write_bytes(folder / _ARRAYS, content)
    description = {
        "format": _FORMAT,
        "kind": kind,
        "fields": dict(fields),
        "arrays": _checksum(content),
        "parts": [_checksum((_part(folder, number) / _JSON).read_bytes()) for number in range(len(parts))],
    }
    write_json(folder / _JSON, description)


def is_saved(folder: Path) -> bool:
    """Whether a fitted model was written into a folder, and its save came to its end.

    >>> is_saved(Path("nowhere"))
    False
    """
    return (folder / _JSON).is_file()


def load_fitted(folder: Path) -> Fitted:
    """The fitted model in a folder; damaged or forged files are refused.

    >>> load_fitted(Path("nowhere"))
    Traceback (most recent call last):
    tailmask._util.messages.UserError: nowhere holds no fitted model: fitted.json is missing
    """
    if not is_saved(folder):
        raise UserError(f"{folder} holds no fitted model: {_JSON} is missing")
    try:
        description = json.loads((folder / _JSON).read_bytes(), parse_constant=_refuse_constant)
        kind, fields, checksum, parts = (description[name] for name in ("kind", "fields", "arrays", "parts"))
        if description["format"] != _FORMAT or kind not in _KINDS:
            raise ValueError(f"this version of tailmask does not know the kind {kind!r}")
        if not isinstance(fields, dict) or not isinstance(parts, list):
            raise ValueError("its fields are damaged")
        content = (folder / _ARRAYS).read_bytes()
        if _checksum(content) != checksum:
            raise ValueError(f"{_ARRAYS} is damaged or belongs to another model")
        for number, part in enumerate(parts):
            if _checksum((_part(folder, number) / _JSON).read_bytes()) != part:
                raise ValueError(f"{_part(folder, number).name} is damaged or belongs to another model")
        loaded = tuple(load_fitted(_part(folder, number)) for number in range(len(parts)))
        module, _, name = _KINDS[kind].partition(":")
        stored = Stored(kind, fields, arrays_from_bytes(content), loaded)
        fitted: Fitted = getattr(importlib.import_module(module), name).from_stored(stored)
        return fitted
    except OSError as error:
        raise UserError(f"{folder} is not whole: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise UserError(f"{folder} cannot be loaded: {reason}") from error


def arrays_to_bytes(arrays: Mapping[str, Array]) -> bytes:
    """Arrays as a safetensors file.

    >>> arrays_from_bytes(arrays_to_bytes({"a": np.arange(3)}))
    {'a': array([0, 1, 2])}
    """
    return save({name: np.array(array, order="C") for name, array in arrays.items()})


def arrays_from_bytes(content: bytes) -> dict[str, Array]:
    """The arrays of a safetensors file."""
    try:
        return load(content)
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"the arrays cannot be read ({error}): the file is damaged, fit again") from error


def _part(folder: Path, number: int) -> Path:
    return folder / f"part-{number}"


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _refuse_constant(name: str) -> None:
    raise ValueError(f"its JSON holds {name}")
