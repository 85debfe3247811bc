"""Mulan's data sets: ARFF files, an XML file that names the labels, and official train and test files."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.parsers import expat

import numpy as np

from tailmask._util.messages import UserError, listing
from tailmask.data.encoders.array import ArrayRows
from tailmask.data.options import DataOptions
from tailmask.data.readers.arff import Arff, ArffRow
from tailmask.data.readers.arff_features import feature_names, read_features
from tailmask.data.readers.table.frames import matching_columns
from tailmask.data.readers.table.label_columns import Labels, check_classes, labels_from_matrix

__all__ = ["official_test_file", "read_label_names", "read_mulan"]

# A cell that is neither a label nor the mark of a missing label.
_NO_LABEL = -2

_MEKA_LABELS = re.compile(r"-C\s+(-?\d{1,6})\b")


def read_mulan(path: Path, options: DataOptions) -> tuple[ArrayRows, Labels]:
    """Features and labels of an ARFF file.

    `options.labels` names the labels, else the XML file beside the ARFF file names them. Without both, they
    are the first or the last attributes; MEKA writes their number into the relation's name (`-C 6`, `-C -6`).
    """
    file = Arff(path)
    names = [attribute.name for attribute in file.attributes]
    classes = check_classes(_label_names(file, names, options.labels), path)
    absent = [name for name in classes if name not in names]
    if absent:
        raise UserError(
            f"{path} has no attribute for the labels {listing(absent)}: check --labels or the XML file"
        )
    columns = {names.index(name): number for number, name in enumerate(classes)}
    features = feature_names(a for i, a in enumerate(file.attributes) if i not in columns)
    targets = array("b")
    values = read_features(file, features, _noting_labels(file, columns, targets))
    matrix = np.array(targets, dtype=np.int8).reshape(-1, len(classes))
    return ArrayRows(values, names=features), labels_from_matrix(matrix, classes, path)


def official_test_file(path: Path) -> Path | None:
    """The test file beside a training file: `yeast-test.arff` for `yeast-train.arff`."""
    head, word, tail = path.name.rpartition("train")
    candidate = path.with_name(f"{head}test{tail}")
    return candidate if word and candidate.is_file() else None


def read_label_names(path: Path) -> list[str]:
    """The label names in a Mulan XML file. A DOCTYPE is refused, because it could define entities."""
    names: list[str] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        if tag == "label":
            names.append(attributes.get("name", ""))

    def doctype(*_: object) -> None:
        raise UserError(f"{path} has a DOCTYPE, which could define entities: remove it")

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.StartDoctypeDeclHandler = doctype
    try:
        parser.Parse(path.read_bytes(), True)
    except (expat.ExpatError, LookupError, ValueError) as error:  # the last two: unknown encodings
        if isinstance(error, UserError):
            raise
        raise UserError(f"{path} is not a complete XML file: {error}") from error
    return names


def _label_names(file: Arff, names: list[str], patterns: str | None) -> list[str]:
    if patterns is not None:
        return matching_columns(patterns, names, file.path)
    xml = _xml_beside(file.path)
    if xml is not None:
        return read_label_names(xml)
    match = _MEKA_LABELS.search(file.relation)
    if match is None:
        raise UserError(
            f"{file.path} has no XML file beside it that names its labels: name them with --labels"
        )
    number = int(match[1])
    return names[:number] if number >= 0 else names[number:]


def _xml_beside(path: Path) -> Path | None:
    """The XML file whose name begins the ARFF file's name; the longest name if there are several."""
    beside = [xml for xml in path.parent.glob("*.xml") if path.stem.lower().startswith(xml.stem.lower())]
    return max(beside, key=lambda xml: len(xml.stem), default=None)


def _noting_labels(file: Arff, columns: Mapping[int, int], targets: array[int]) -> Iterator[ArffRow]:
    """Yield the rows of a file, and append their labels to `targets`."""
    omitted = array("b", [_label(file.attributes[position].omitted) for position in columns])
    for line, cells in file.rows():
        row = omitted[:]
        for position, text in cells:
            if position in columns:
                row[columns[position]] = _label(text)
        if _NO_LABEL in row:
            raise _wrong_label(file, line, dict(cells), list(columns)[row.index(_NO_LABEL)])
        targets.extend(row)
        yield line, cells


def _label(text: str | None) -> int:
    if text is None:
        return -1
    try:
        value = float(text)
    except ValueError:
        return _NO_LABEL
    return int(value) if value in (0, 1) else _NO_LABEL


def _wrong_label(file: Arff, line: int, cells: Mapping[int, str | None], position: int) -> UserError:
    attribute = file.attributes[position]
    text = cells.get(position, attribute.omitted) or ""
    omitted = "" if position in cells else ", the value that a sparse row omits"
    return file.error(
        line, f"the label {attribute.name[:40]!r} must be 0, 1 or ?, got {text[:40]!r}{omitted}"
    )
