"""Data sets by name, and users' own files by path: `load("digits")`, `load("mydata.csv", options)`."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tailmask._util.messages import UserError, closest, nearest
from tailmask.data.options import DataOptions

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from tailmask.data.dataset import Dataset as Dataset
    from tailmask.data.dataset import Split as Split
    from tailmask.data.encoders.encoder import Encoder as Encoder

__all__ = ["NAMED", "DataOptions", "Dataset", "Encoder", "Split", "load", "load_unencoded"]


class Named(NamedTuple):
    """A public data set: a description, and the function that loads it."""

    help: str
    function: str  # module:name


NAMED = {
    "digits": Named(
        "two small digits per image, a long tail; needs no download",
        "tailmask.data.public.digits:load_digits",
    ),
    "multimnist": Named(
        "two MNIST digits per image, the paper's long tail", "tailmask.data.public.multimnist:load_multimnist"
    ),
    "cifar10-lt": Named("CIFAR-10 with a long tail, --rho 100", "tailmask.data.public.cifar:load_cifar10"),
    "cifar100-lt": Named("CIFAR-100 with a long tail, --rho 100", "tailmask.data.public.cifar:load_cifar100"),
    "coco": Named("MSCOCO 2014, 80 classes", "tailmask.data.public.coco:load_coco"),
    "coco-mlt": Named("a long-tailed part of MSCOCO 2017", "tailmask.data.public.coco:load_coco_mlt"),
    "voc-mlt": Named("a long-tailed part of PASCAL VOC", "tailmask.data.public.coco:load_voc_mlt"),
    "goemotions": Named(
        "28 emotions in comments, as bags of words", "tailmask.data.public.goemotions:load_goemotions"
    ),
    "rcv1": Named("103 topics of newswire stories, as bags of words", "tailmask.data.public.rcv1:load_rcv1"),
}

_LAZY = {"Dataset": "dataset", "Split": "dataset", "Encoder": "encoders.encoder"}


def load(
    name_or_path: str | Path | pl.DataFrame | pd.DataFrame,
    options: DataOptions | None = None,
    *,
    labels: Sequence[str] | None = None,
) -> Dataset:
    """Load a public data set by its name, or your own data: the path of a file, or a polars or pandas frame.

    `labels` are the names of the label columns; `options.labels` can also name them.

    >>> dataset = load("digits")
    >>> dataset.shape, len(dataset.classes)
    ((1, 12, 12), 10)
    """
    options = (options or DataOptions()).with_labels(labels)
    if not isinstance(name_or_path, str | Path):
        from tailmask.data.readers.table.program_frames import as_polars
        from tailmask.data.readers.user_file import load_frame

        dataset = load_frame(as_polars(name_or_path), options)
    else:
        dataset = load_unencoded(name_or_path, options)
    if options.finetune:
        from tailmask.data.pretrained.finetuning import with_preprocessing

        return with_preprocessing(dataset, options)
    if options.features_of is None:
        return dataset
    from tailmask.data.pretrained.backbone_features import with_features

    return with_features(dataset, options)


def load_unencoded(name_or_path: str | Path, options: DataOptions) -> Dataset:
    """The data set of a name or path, before a pretrained model turns samples into features."""
    name, path = str(name_or_path), Path(name_or_path)
    if name in NAMED:
        module, _, function = NAMED[name].function.partition(":")
        dataset: Dataset = getattr(importlib.import_module(module), function)(options)
    elif path.exists():
        from tailmask.data.readers.user_file import load_file

        dataset = load_file(path, options)
    else:
        raise UserError(_missing(name, path))
    return dataset


def _missing(name: str, path: Path) -> str:
    if not path.suffix:
        return f"there is no data set and no file called {name!r}: {nearest(name, NAMED)}"
    if not path.parent.is_dir():
        return f"there is no file {name!r}, and no folder {str(path.parent)!r}: check the path"
    close = closest(path.name, (each.name for each in path.parent.iterdir()))
    hint = f"did you mean {str(path.with_name(close))!r}?" if close else "check the path"
    return f"there is no file {name!r}: {hint}"


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(f"tailmask.data.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'tailmask.data' has no attribute {name!r}")
