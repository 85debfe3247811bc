"""Users' own files as data sets: read by format, split, and encoded with the training split's encoder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tailmask._util.messages import UserError, listing
from tailmask.data.copied_rows import are_coarse, copy_groups, joined_groups, num_copies
from tailmask.data.dataset import Dataset, Inputs, Split
from tailmask.data.options import DataOptions
from tailmask.data.readers.dataset_parts import Part, ReadRows, source_record
from tailmask.data.readers.raw_parts import raw_data
from tailmask.data.readers.split_columns import split_column_notes, with_groups_and_times
from tailmask.data.readers.table.frames import TABLES, is_table
from tailmask.data.readers.table.label_columns import Labels, in_order
from tailmask.data.splits import latest, stratified

if TYPE_CHECKING:
    import polars as pl

    from tailmask.data.readers.table.column_summary import ColumnUse

__all__ = ["VALIDATION_SHARE", "load_file", "load_frame", "read_whole"]

KINDS = (*TABLES, ".npz", ".arff", ".txt")
TEST_SHARE, VALIDATION_SHARE = 0.2, 0.1

# In fewer rows than this, a real label may occur only once.
LEAST_ROWS = 10


def load_file(path: Path, options: DataOptions) -> Dataset:
    """The data set in a user's file; test and validation rows have their own files, or are split off."""
    path, test_file = _official_files(path)
    return _dataset(_read_part(path, options), options, test_file=test_file)


def load_frame(frame: pl.DataFrame, options: DataOptions) -> Dataset:
    """The data set in a frame; test and validation rows have their own files, or are split off."""
    from tailmask.data.readers.table.frames import with_dates_as_text
    from tailmask.data.readers.table.table_dataset import table_rows

    path = Path("frame")
    rows, labels = table_rows(with_dates_as_text(frame), path, options)
    if not len(rows):
        raise UserError("the table has no rows: add at least one")
    return _dataset(Part(path, rows, labels, rows.keys(), np.arange(len(rows))), options)


def _dataset(train: Part, options: DataOptions, *, test_file: Path | None = None) -> Dataset:
    path, parts = train.path, {"train": train}
    others = {"test": options.test_file or test_file, "validation": options.validation_file}
    for name, other in others.items():
        if other is not None:
            parts[name] = _read_part(other, options, like=parts["train"].rows)
    parts, read = with_groups_and_times(parts, options), sum(len(part.rows) for part in parts.values())
    # Published results on official pairs of files were made with a validation part that ignores copies.
    parts, copies = _split_off(_same_classes(parts), options, keep_copies=test_file is None)

    train = parts["train"]
    encoder = train.rows.fit(train.index, options)
    splits = {
        name: Split(
            part.rows.encode(encoder, part.index, training=name == "train"),
            part.labels.take(part.index),
            members=part.groups[part.index, None] if name != "train" and part.groups is not None else None,
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
        source=source_record(path, parts, options),
        columns=_column_uses(train.rows, encoder),
        notes=(
            *train.labels.notes,
            *train.rows.notes(encoder, train.index, train.labels),
            *_copy_notes(parts, copies),
            *split_column_notes(parts, options, read=read),
        ),
        unit=options.group,
        row_numbers={name: part.index + 1 for name, part in parts.items()},
        raw=raw_data(parts, without_features=options.features_of is not None),
    )


def read_whole(path: Path, options: DataOptions) -> tuple[Part, Inputs]:
    """All rows of a user's file in their order, with the inputs for a pretrained model."""
    if not path.exists():
        raise UserError(f"there is no file {path}")
    part = _read_part(path, options)
    return part, part.rows.encode(part.rows.fit(part.index, options), part.index)


def _column_uses(rows: ReadRows, encoder: Any) -> tuple[ColumnUse, ...]:
    from tailmask.data.readers.table.table_dataset import TableRows

    return rows.uses(encoder) if isinstance(rows, TableRows) else ()


def _read_part(path: Path, options: DataOptions, like: ReadRows | None = None) -> Part:
    rows, labels = _read(path, options, like)
    if not len(rows):
        raise UserError(f"{path} has no rows: add at least one")
    return Part(path, rows, labels, rows.keys(like), np.arange(len(rows)))


def _read(path: Path, options: DataOptions, like: ReadRows | None) -> tuple[ReadRows, Labels]:
    """Rows and labels of a file, by its format; a second file must match the training rows `like`."""
    suffix = path.suffix.lower()
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    if re.search("[\udc80-\udcff]", str(path)):  # Python's stand-ins for bytes that are not UTF-8
        raise UserError(f"the name of {path} is not written in UTF-8: rename it")
    if is_table(path):
        from tailmask.data.readers.table.table_dataset import TableRows, TextRows, read_table

        types = like.types if isinstance(like, TableRows | TextRows) else None
        return read_table(path, options, types=types)
    if suffix == ".npz":
        from tailmask.data.readers.npz_dataset import read_npz

        return read_npz(path, options)
    if suffix == ".arff":
        from tailmask.data.readers.mulan import read_mulan

        return read_mulan(path, options)
    if suffix == ".json":
        from tailmask.data.public.coco import read_coco

        return read_coco(path, options)
    if suffix == ".txt":
        from tailmask.data.readers.image_list import read_list

        return read_list(path, options)
    if suffix in (".xls", ".ods"):
        raise UserError(f"{path} is a spreadsheet in a format that is not read: save it as .xlsx or .csv")
    if suffix in (".gz", ".zip", ".bz2", ".xz", ".zst", ".7z"):
        raise UserError(f"{path} is packed: unpack it, or pack a .csv, .tsv, .json or .jsonl with gzip")
    if path.name.startswith(("data_batch", "test_batch")) or suffix in (".pkl", ".pickle", ".pt", ".pth"):
        raise UserError(
            f"{path} may hold pickles, which can run code and are not read: save plain arrays as .npz "
            "(CIFAR comes in a binary version: https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz)"
        )
    raise UserError(f"{path} has a format that cannot be read: use one of {listing(KINDS, limit=20)}")


def _official_files(path: Path) -> tuple[Path, Path | None]:
    """The training file and the official test file beside it; for a folder, its pair of ARFF files."""
    from tailmask.data.readers.mulan import official_test_file

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


def _same_classes(parts: dict[str, Part]) -> dict[str, Part]:
    """The parts with the same classes in all. Files may have different classes only if classes are tags."""
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


def _split_off(
    parts: dict[str, Part], options: DataOptions, *, keep_copies: bool
) -> tuple[dict[str, Part], int]:
    """The parts with a test part and, unless its share is 0, a validation part, split off from training.

    Also returns the number of copies that are kept together. Rows of a group are always in one part. With
    `keep_copies`, so are copies of a row, unless the features are too coarse or the split is by time.
    """
    number, shares = len(parts["train"].rows), _shares(parts, options)
    if not shares:
        return parts, 0
    _check_labels(parts["train"], options)
    by_time = parts["train"].times is not None
    copies = copy_groups(parts["train"].keys) if keep_copies and not by_time else np.arange(number)
    if are_coarse(copies):
        copies = np.arange(number)
    chosen = parts["train"].groups
    groups = copies if chosen is None else joined_groups(chosen, copies)
    left = number
    for name, share in shares.items():
        train = parts["train"]
        of_rest = share * number / left  # shares are of all rows
        if train.times is not None:
            apart = None if chosen is None else groups[train.index]
            kept, held_out = latest(train.times[train.index], of_rest, groups=apart)
        else:
            kept, held_out = stratified(
                train.labels.take(train.index), of_rest, options.data_seed, groups=groups[train.index]
            )
        left -= len(held_out)
        parts = {
            **parts,
            "train": replace(train, index=train.index[kept]),
            name: replace(train, index=train.index[held_out]),
        }
    return parts, num_copies(copies)


def _copy_notes(parts: Mapping[str, Part], copies: int) -> Iterator[str]:
    """Notes on copies of rows, and on rows of other parts that are also in training."""
    if copies:
        yield (
            f"{copies} rows have the same features as an earlier row: all copies of a row are in the same "
            "part (training, validation or test)"
        )
    train = parts["train"]
    groups = copy_groups(train.keys)
    if are_coarse(groups) and len(groups) >= LEAST_ROWS and num_copies(groups):
        yield (
            f"the {len(groups)} rows have only {len(groups) - num_copies(groups)} different combinations of "
            "features: rows with the same features may be in training and in other parts"
        )
        return
    for name, part in parts.items():
        trained = train.keys[train.index]
        shared = 0 if name == "train" else int(np.isin(part.keys[part.index], trained).sum())
        if shared:
            yield (
                f"{shared} of the {len(part.index)} rows of {name} have the same features as a training row: "
                "scores on them may be too good"
            )


def _check_labels(part: Part, options: DataOptions) -> None:
    """Raise an error if most rows have a label that no other row has: no split can have it in two parts."""
    labels, number = part.labels, len(part.labels.classes)
    if not labels.open or len(labels) < LEAST_ROWS or 2 * number <= len(labels):
        return
    positives = int((labels.targets == 1).sum())
    if positives <= len(labels) and positives < 2 * number:
        hint = "are they labels?" if options.label_column is None else f"is {options.label_column!r} a label?"
        raise UserError(f"{part.path} has {number} different labels in {len(labels)} rows: {hint}")


def _shares(parts: Mapping[str, Part], options: DataOptions) -> dict[str, float]:
    """The shares of the rows that are split off for the parts without their own file."""
    test = TEST_SHARE if options.test is None else options.test
    validation = VALIDATION_SHARE if options.validation is None else options.validation
    if "test" not in parts and test == 0:
        raise UserError("--test must be above 0 without a --test-file, got 0: there is nothing to test on")
    asked = {"test": test, "validation": validation}
    shares = {name: share for name, share in asked.items() if name not in parts and share > 0}
    if sum(shares.values()) >= 1:
        raise UserError(
            f"--test and --validation must leave rows to train on, got {test:g} and {validation:g}"
        )
    return shares
