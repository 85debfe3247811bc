"""Features of a pretrained model in .npz files that `load` reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tailmask._util.files import atomic_path
from tailmask._util.messages import UserError
from tailmask.backbones.backbone import open_backbone
from tailmask.backbones.feature_cache import cached_features
from tailmask.data import NAMED, DataOptions, load_unencoded
from tailmask.data.dataset import Inputs
from tailmask.data.pretrained.backbone_features import backbone_choice, samples_of

__all__ = ["write_features"]


def write_features(data: str, out: Path, options: DataOptions, *, force: bool) -> dict[Path, tuple[int, int]]:
    """Write the features X, the labels Y and the classes of a file's samples, in its order.

    A public data set comes in splits: training goes to `out`, the others to files beside it whose names
    end with the split's. Returns the number of rows and features in each file.
    """
    if out.suffix.lower() != ".npz":
        raise UserError(f"features are written to an .npz file, got {out}")
    if options.features_of is None:
        raise UserError(
            "name a pretrained model with --model hf:NAME_OR_FOLDER, or --encoder module:function"
        )
    if data in NAMED:
        dataset = load_unencoded(data, options)
        classes = dataset.classes
        parts: dict[Path, tuple[Inputs, Any]] = {
            out if name == "train" else out.with_name(f"{out.stem}-{name}.npz"): (
                split.inputs,
                split.targets,
            )
            for name, split in dataset.splits.items()
        }
    else:
        from tailmask.data.readers.user_file import read_whole

        part, inputs = read_whole(Path(data), options)
        classes, parts = part.labels.classes, {out: (inputs, part.labels.take(part.index))}
    there = [path for path in parts if path.exists()]
    if there and not force:
        raise UserError(f"{there[0]} exists: choose another file, or write over it with --force")
    sizes = {}
    for path, (inputs, targets) in parts.items():
        samples = samples_of(inputs, Path(data).name)
        backbone = open_backbone(backbone_choice(options, samples.kind))
        features = cached_features(backbone, samples, options.feature_dir)
        _write(path, features, targets, classes)
        sizes[path] = (len(features), features.shape[1])
    return sizes


def _write(
    path: Path, features: NDArray[np.float32], targets: Tensor | Any, classes: tuple[str, ...]
) -> None:
    labels: dict[str, Any]
    if isinstance(targets, Tensor):
        labels = {"Y": targets.numpy()}
    else:
        labels = {f"Y_{name}": getattr(targets, name) for name in ("data", "indices", "indptr")}
        labels["Y_shape"] = np.array(targets.shape)
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez(file, X=features, **labels, classes=np.array(classes, dtype=np.str_))
