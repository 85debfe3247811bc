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
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from tailmask._util.files import write_bytes, write_json
from tailmask._util.messages import UserError
from tailmask._util.registry import find_words
from tailmask.learners.matrices import Array
from tailmask.learners.protocol import Fitted

__all__ = [
    "Stored",
    "arrays_from_bytes",
    "arrays_to_bytes",
    "is_saved",
    "load_fitted",
    "prefixed",
    "save_fitted",
    "take",
    "without_prefix",
]

_JSON, _ARRAYS = "fitted.json", "arrays.safetensors"
_FORMAT = 1

# The kinds of model in a folder beside the words of learners. Each class has `from_stored`.
_KINDS = {
    "network": "tailmask.learners.network_learner:FittedNetwork",
    "folds": "tailmask.learners.cross_fitting:FoldModels",
    "ensemble": "tailmask.learners.ensemble:Ensemble",
}


@dataclass(frozen=True)
class Stored:
    """The content of a folder: plain JSON fields, arrays, and the fitted models that it consists of."""

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
    """Write a fitted model into a folder that has none yet.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> save_fitted(folder, "linear", fields={}, arrays={})
    >>> sorted(path.name for path in folder.iterdir())
    ['arrays.safetensors', 'fitted.json']
    """
    if is_saved(folder):
        raise UserError(f"{folder} already has a fitted model: choose another folder")
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
    """True if a folder has a completely saved model.

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
        if description["format"] != _FORMAT:
            raise ValueError(f"this version of tailmask does not know the format {description['format']!r}")
        model_class = _model_class(kind)
        if not isinstance(fields, dict) or not isinstance(parts, list):
            raise ValueError("its fields are damaged")
        content = (folder / _ARRAYS).read_bytes()
        if _checksum(content) != checksum:
            raise ValueError(f"{_ARRAYS} is damaged or belongs to another model")
        for number, part in enumerate(parts):
            if _checksum((_part(folder, number) / _JSON).read_bytes()) != part:
                raise ValueError(f"{_part(folder, number).name} is damaged or belongs to another model")
        loaded = tuple(load_fitted(_part(folder, number)) for number in range(len(parts)))
        fitted: Fitted = model_class.from_stored(Stored(kind, fields, arrays_from_bytes(content), loaded))
        return fitted
    except OSError as error:
        raise UserError(f"{folder} is incomplete: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise UserError(f"{folder} cannot be loaded: {reason}") from error


def _model_class(kind: str) -> Any:
    """The class that reads a kind of model: one of `_KINDS`, or `fitted` of the learner with this word."""
    if kind in _KINDS:
        module, _, name = _KINDS[kind].partition(":")
        return getattr(importlib.import_module(module), name)
    found = find_words().get(kind)
    if found is None or found.kind != "learner":
        raise ValueError(f"this version of tailmask does not know the kind {kind!r}")
    learner: Any = found.builder
    return learner.fitted


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


def take(
    arrays: Mapping[str, Array], name: str, *, dtype: npt.DTypeLike, shape: tuple[int | None, ...]
) -> Array:
    """One array of a stored model, refused unless it has this dtype and shape and only finite values.

    >>> take({"bias": np.zeros(2, dtype=np.float32)}, "bias", dtype=np.float32, shape=(2,))
    array([0., 0.], dtype=float32)
    """
    if name not in arrays:
        raise UserError(f"the stored model has no array {name!r}: it is damaged, fit it again")
    array = np.asarray(arrays[name])
    fits = array.ndim == len(shape) and all(
        want is None or want == have for want, have in zip(shape, array.shape, strict=True)
    )
    if array.dtype != np.dtype(dtype) or not fits:
        wanted = tuple("any" if size is None else size for size in shape)
        raise UserError(
            f"the stored array {name!r} should be {np.dtype(dtype)} of the shape {wanted}, but is "
            f"{array.dtype} of the shape {array.shape}: the model is damaged, fit it again"
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise UserError(f"the stored array {name!r} holds values that are not finite: fit the model again")
    return np.asarray(array, order="C")


def prefixed(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays of a part of a model, under names that `without_prefix` takes back.

    >>> prefixed("trees", {"size": np.zeros(2)})
    {'trees.size': array([0., 0.])}
    """
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def without_prefix(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays of one part, by their own names.

    >>> without_prefix("trees", {"trees.size": np.zeros(2), "bias": np.ones(1)})
    {'size': array([0., 0.])}
    """
    start = f"{prefix}."
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}


def _part(folder: Path, number: int) -> Path:
    return folder / f"part-{number}"


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _refuse_constant(name: str) -> None:
    raise ValueError(f"its JSON holds {name}")
