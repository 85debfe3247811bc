"""Users' own files as data sets: read by their kind, split where they are not, encoded as training is."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tailmask.data.dataset import Dataset, Inputs, Split
from tailmask.data.digest import digest, file_digest, text_digest
from tailmask.data.encoders import Encoder
from tailmask.data.frames import TABLES
from tailmask.data.labels import Labels, in_order
from tailmask.data.options import PLACES, DataOptions
from tailmask.data.splits import stratified
from tailmask.errors import UserError, listing

if TYPE_CHECKING:
    from tailmask.data.columns import ColumnUse

__all__ = ["VALIDATION_SHARE", "Rows", "load_file"]

KINDS = (*TABLES, ".npz", ".arff", ".json", ".txt")
TEST_SHARE, VALIDATION_SHARE = 0.2, 0.1

# In fewer rows than this, that labels occur just once says nothing of them.
LEAST_ROWS = 10


class Rows(Protocol):
    """Samples as they were read, which fit an encoder and are encoded by it."""

    def __len__(self) -> int: ...

    def fit(self, index: NDArray[np.int64], options: DataOptions) -> Encoder:
        """The encoder with the statistics of the rows in `index`."""
        ...

    def encode(self, encoder: Any, index: NDArray[np.int64], *, training: bool = False) -> Inputs:
        """The inputs of the rows in `index`."""
        ...

    def notes(self, encoder: Any, index: NDArray[np.int64]) -> list[str]:
        """What a user should know about how the rows were taken, those in `index` for training."""
        ...


@dataclass(frozen=True)
class _Part:
    """A file with its rows and labels, and which of them a split takes."""

    path: Path
    rows: Rows
    labels: Labels
    index: NDArray[np.int64]


def load_file(path: Path, options: DataOptions) -> Dataset:
    """The data set in a user's file; test and validation come from files of their own, or are split off."""
    path, test_file = _official_files(path)
    parts = {"train": _read_part(path, options)}
    others = {"test": options.test_file or test_file, "validation": options.validation_file}
    for name, other in others.items():
        if other is not None:
            parts[name] = _read_part(other, options, like=parts["train"].rows)
    parts = _split_off(_same_classes(parts), options)

    train = parts["train"]
    encoder = train.rows.fit(train.index, options)
    splits = {
        name: Split(
            part.rows.encode(encoder, part.index, training=name == "train"), part.labels.take(part.index)
        )
        for name, part in parts.items()
    }
    return Dataset(
        name=path.stem if test_file is None else re.sub("[-_]?train", "", path.stem),
        classes=train.labels.classes,
        train=splits["train"],
        validation=splits.get("validation"),
        test=splits["test"],
        encoder=encoder,
        single_label=all(part.labels.single for part in parts.values()),
        source=_source(path, parts, options),
        columns=_column_uses(train.rows, encoder),
        notes=(*train.labels.notes, *train.rows.notes(encoder, train.index)),
    )


def _column_uses(rows: Rows, encoder: Encoder) -> tuple[ColumnUse, ...]:
    from tailmask.data.table_encoder import TableEncoder
    from tailmask.data.tables import TableRows

    return rows.uses(encoder) if isinstance(rows, TableRows) and isinstance(encoder, TableEncoder) else ()


def _read_part(path: Path, options: DataOptions, like: Rows | None = None) -> _Part:
    rows, labels = _read(path, options, like)
    if not len(rows):
        raise UserError(f"{path} has no rows")
    return _Part(path, rows, labels, np.arange(len(rows)))


def _read(path: Path, options: DataOptions, like: Rows | None) -> tuple[Rows, Labels]:
    """Rows and labels of a file, by its kind; `like` are the training rows that a second file must match."""
    suffix = path.suffix.lower()
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    if re.search("[\udc80-\udcff]", str(path)):  # what Python makes of bytes that are no UTF-8
        raise UserError(f"the name of {path} is not written in UTF-8: rename it")
    if suffix in TABLES:
        from tailmask.data.tables import TableRows, read_table

        return read_table(path, options, types=like.types if isinstance(like, TableRows) else None)
    if suffix == ".npz":
        from tailmask.data.npz_data import read_npz

        return read_npz(path, options)
    if suffix == ".arff":
        from tailmask.data.mulan import read_mulan

        return read_mulan(path, options)
    if suffix == ".json":
        from tailmask.data.coco import read_coco

        return read_coco(path, options)
    if suffix == ".txt":
        from tailmask.data.manifest import read_list

        return read_list(path, options)
    if path.name.startswith(("data_batch", "test_batch")) or suffix in (".pkl", ".pickle", ".pt", ".pth"):
        raise UserError(
            f"{path} may hold pickles, which can run code and are not read: save plain arrays as .npz "
            "(CIFAR comes in a binary version: https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz)"
        )
    raise UserError(f"{path} is of no kind that can be read: take one of {listing(KINDS, limit=20)}")


def _official_files(path: Path) -> tuple[Path, Path | None]:
    """The training file, and the official test file beside it; of a folder, the pair of ARFF files in it."""
    from tailmask.data.mulan import official_test_file

    if not path.is_dir():
        return path, official_test_file(path) if path.suffix.lower() == ".arff" else None
    pairs = [(train, official_test_file(train)) for train in sorted(path.glob("*train*.arff"))]
    pairs = [(train, test) for train, test in pairs if test is not None]
    if len(pairs) != 1:
        raise UserError(
            f"{path} is a folder without one pair of train and test .arff files: name a file in it, or for "
            "images a .csv file with their paths in a column `path` and their labels beside it"
        )
    return pairs[0]


def _same_classes(parts: dict[str, _Part]) -> dict[str, _Part]:
    """The parts with the same classes in all; only where classes are the tags there are may they differ."""
    first = parts["train"].labels
    if all(part.labels.classes == first.classes for part in parts.values()):
        return parts
    for part in parts.values():
        differing = set(part.labels.classes) ^ set(first.classes)
        if not part.labels.open and differing:
            raise UserError(
                f"{part.path} does not have the classes of {parts['train'].path}: {listing(differing)}"
            )
    union = in_order({name for part in parts.values() for name in part.labels.classes})
    classes = union if first.open else first.classes
    return {name: replace(part, labels=part.labels.aligned(classes)) for name, part in parts.items()}


def _split_off(parts: dict[str, _Part], options: DataOptions) -> dict[str, _Part]:
    """The parts with a test and, unless its share is 0, a validation part, taken from training's rows."""
    number, shares = len(parts["train"].rows), _shares(parts, options)
    if shares:
        _check_labels(parts["train"], options)
    for name, share in shares.items():
        train = parts["train"]
        of_rest = share * number / len(train.index)  # shares are of all rows
        kept, held_out = stratified(train.labels.take(train.index), of_rest, options.data_seed)
        parts = {
            **parts,
            "train": replace(train, index=train.index[kept]),
            name: replace(train, index=train.index[held_out]),
        }
    return parts


def _check_labels(part: _Part, options: DataOptions) -> None:
    """An error where most rows have a label that no other row has, so that no split can show it twice."""
    labels, number = part.labels, len(part.labels.classes)
    if not labels.open or len(labels) < LEAST_ROWS or 2 * number <= len(labels):
        return
    positives = int((labels.targets == 1).sum())
    if positives <= len(labels) and positives < 2 * number:
        hint = "are they labels?" if options.label_column is None else f"is {options.label_column!r} a label?"
        raise UserError(f"{part.path} has {number} different labels in {len(labels)} rows: {hint}")


def _shares(parts: Mapping[str, _Part], options: DataOptions) -> dict[str, float]:
    """The shares of training's rows that the parts without a file of their own take."""
    test = TEST_SHARE if options.test is None else options.test
    validation = VALIDATION_SHARE if options.validation is None else options.validation
    if "test" not in parts and test == 0:
        raise UserError("--test must be above 0 where there is no --test-file: there is nothing to test on")
    asked = {"test": test, "validation": validation}
    shares = {name: share for name, share in asked.items() if name not in parts and share > 0}
    if sum(shares.values()) >= 1:
        raise UserError(
            f"--test and --validation must leave rows to train on, got {test:g} and {validation:g}"
        )
    return shares


def _source(path: Path, parts: dict[str, _Part], options: DataOptions) -> dict[str, object]:
    train = parts["train"]
    chosen = {
        field.name: getattr(options, field.name)
        for field in dataclasses.fields(options)
        if field.name not in PLACES and getattr(options, field.name) != field.default
    }
    digests = {part.path: _digests(part) for part in parts.values()}
    return {
        "name": path.name,  # not where it is: the same file elsewhere is the same data
        "options": chosen,
        "classes": len(train.labels.classes),
        "class_names": text_digest(train.labels.classes),  # which a second file may give, in any order
        "splits": {
            name: {
                "file": part.path.name,
                **digests[part.path],
                "samples": len(part.index),
                "rows": digest(part.index),
            }
            for name, part in parts.items()
        },
    }


def _digests(part: _Part) -> dict[str, str]:
    """The digest of a file and, where it lists images, that of the images."""
    from tailmask.data.manifest import FileRows

    digests = {"sha256": file_digest(part.path)}
    return digests | ({"images": part.rows.digest()} if isinstance(part.rows, FileRows) else {})
