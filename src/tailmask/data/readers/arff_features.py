"""Features from ARFF files: one column per number, one per value of a nominal attribute."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tailmask._util.messages import UserError, listing, require
from tailmask.data.readers.arff import Arff, ArffRow, Attribute

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["arff_batches", "feature_names", "read_features"]


def feature_names(attributes: Iterable[Attribute]) -> tuple[str, ...]:
    """The names of the feature columns of some attributes.

    >>> feature_names([Attribute("age", None), Attribute("colour", ("red", "blue"))])
    ('age', 'colour=red', 'colour=blue')
    """
    return tuple(name for attribute in attributes for name in _columns(attribute).values())


def read_features(file: Arff, names: Sequence[str], rows: Iterable[ArffRow]) -> NDArray[Any] | csr_array:
    """The features `names` (N, F) of some rows: CSR for a sparse file, else dense with NaN for missing."""
    position = {name: number for number, name in enumerate(names)}
    named = [_columns(attribute) for attribute in file.attributes]
    missing = position.keys() - {name for columns in named for name in columns.values()}
    if missing:
        raise UserError(f"{file.path} lacks the features {listing(sorted(missing))}: add them")
    # The column of each attribute's values: a number has the key None, any other value has its own column.
    plans = [
        {value: position[name] for value, name in columns.items() if name in position} for columns in named
    ]
    # Sparse rows omit zeros, and the first value of a nominal attribute, although it has its own column.
    implied = [
        (i, attribute.omitted)
        for i, attribute in enumerate(file.attributes)
        if plans[i] and file.is_sparse and (not attribute.is_number or attribute.omitted != "0")
    ]
    places, values, ends = array("q"), array("d"), array("q", [0])
    for line, cells in rows:
        written = {position for position, _ in cells} if implied else set()
        for i, text in [*cells, *((i, text) for i, text in implied if i not in written)]:
            plan = plans[i]
            if None in plan:
                number = file.number(text, i, line)
                if number != 0:
                    places.append(plan[None])
                    values.append(number)
            elif plan and text is not None:
                if text not in named[i]:
                    name = file.attributes[i].name
                    raise file.error(line, f"{text[:40]!r} is not among the values of {name[:40]!r}")
                if text in plan:
                    places.append(plan[text])
                    values.append(1.0)
        ends.append(len(places))
    parts = (np.array(values), np.array(places, dtype=np.int64), np.array(ends, dtype=np.int64))
    matrix = require("scipy.sparse", extra="cli").csr_array(parts, shape=(len(ends) - 1, len(names)))
    matrix.sum_duplicates()
    return matrix if file.is_sparse else matrix.toarray()


def arff_batches(path: Path, names: Sequence[str], batch_size: int) -> Iterator[NDArray[Any] | csr_array]:
    """The features `names` of an ARFF file, `batch_size` rows at a time."""
    file = Arff(path)
    rows = file.rows()
    while piece := list(islice(rows, batch_size)):
        yield read_features(file, names, piece)


def _columns(attribute: Attribute) -> dict[str | None, str]:
    """The names of an attribute's columns by value; the key of a number is None."""
    if attribute.is_number:
        return {None: attribute.name}
    return {value: f"{attribute.name}={value}" for value in attribute.values or ()}
