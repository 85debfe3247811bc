"""Data sets by name, and users' own files by path: `load("digits")`, `load("mydata.csv", options)`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailmask.data.options import DataOptions
from tailmask.errors import UserError, nearest

if TYPE_CHECKING:
    from tailmask.data.dataset import Dataset as Dataset
    from tailmask.data.dataset import Split as Split
    from tailmask.data.encoders import Encoder as Encoder

__all__ = ["NAMED", "DataOptions", "Dataset", "Encoder", "Split", "load"]

NAMED = {
    "digits": "tailmask.data.digits:load_digits",
    "multimnist": "tailmask.data.multimnist:load_multimnist",
    "cifar10-lt": "tailmask.data.cifar:load_cifar10",
    "cifar100-lt": "tailmask.data.cifar:load_cifar100",
    "coco": "tailmask.data.coco:load_coco",
    "coco-mlt": "tailmask.data.coco:load_coco_mlt",
    "voc-mlt": "tailmask.data.coco:load_voc_mlt",
    "goemotions": "tailmask.data.goemotions:load_goemotions",
}

_LAZY = {"Dataset": "dataset", "Split": "dataset", "Encoder": "encoders"}


def load(name_or_path: str | Path, options: DataOptions | None = None) -> Dataset:
    """Load a data set by its name, or the user's own by the path of a file.

    >>> dataset = load("digits")
    >>> dataset.shape, len(dataset.classes)
    ((1, 12, 12), 10)
    """
    options = options or DataOptions()
    name = str(name_or_path)
    if name in NAMED:
        return _function(NAMED[name])(options)
    path = Path(name_or_path)
    if path.exists():
        from tailmask.data.own import load_file

        return load_file(path, options)
    raise UserError(f"there is no data set and no file called {name!r}: {nearest(name, NAMED)}")


def _function(reference: str) -> Callable[[DataOptions], Dataset]:
    module, _, name = reference.partition(":")
    function: Callable[[DataOptions], Dataset] = getattr(importlib.import_module(module), name)
    return function


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(f"tailmask.data.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'tailmask.data' has no attribute {name!r}")
