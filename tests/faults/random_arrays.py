"""One random array in files of several forms: .npz and ARFF, dense and sparse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

__all__ = ["arff_forms", "array_forms"]


def array_forms(seed: int, folder: Path) -> dict[str, Path]:
    """One random array with its labels in .npz files: dense by rows and by columns, and sparse."""
    rng = np.random.default_rng(seed)
    number, width = int(rng.integers(12, 40)), int(rng.integers(1, 6))
    values = rng.normal(rng.normal(0, 5), 10.0 ** rng.integers(-2, 4), size=(number, width))
    values[rng.random(values.shape) < rng.random()] = 0.0
    if rng.random() < 0.4:
        values[rng.random(values.shape) < 0.2] = np.nan
    if rng.random() < 0.2:
        values[:, rng.integers(width)] = (0.0, 3.0, np.nan)[rng.integers(3)]
    if rng.random() < 0.5:
        kind = (np.float32, np.int16, np.int64, np.bool_)[rng.integers(4)]
        values = (np.nan_to_num(values) if kind is not np.float32 else values).astype(kind)
    labels = np.stack([np.arange(number) % 2, np.arange(number) % 3 == 0], axis=1).astype(np.int8)
    thin = sparse.csr_array(values)
    parts = {"data": thin.data, "indices": thin.indices, "indptr": thin.indptr, "shape": thin.shape}
    contents: dict[str, dict[str, Any]] = {
        "dense": {"X": np.ascontiguousarray(values)},
        "by columns": {"X": np.asfortranarray(values)},
        "sparse": {f"X_{name}": np.asarray(part) for name, part in parts.items()},
    }
    paths = {form: folder / f"{seed} {form}.npz" for form in contents}
    for form, content in contents.items():
        np.savez(paths[form], Y=labels, **content)
    return paths


def arff_forms(seed: int, folder: Path) -> dict[str, Path]:
    """One random table with its labels in ARFF files, dense and sparse."""
    rng = np.random.default_rng(seed)
    number = int(rng.integers(12, 40))
    kinds = [
        ("numeric", lambda: repr(round(float(rng.normal(0, 100)), 3)) if rng.random() < 0.5 else "0"),
        ("numeric", lambda: f"{int(rng.integers(-3, 4)):+}"),
        ("{0,1}", lambda: str(rng.integers(2))),
        ("{1,0}", lambda: str(rng.integers(2))),
        ("{red,'light, blue',\"it's\"}", lambda: ("red", "'light, blue'", '"it\'s"')[rng.integers(3)]),
    ]
    chosen = [kinds[0], *(kinds[rng.integers(len(kinds))] for _ in range(rng.integers(0, 5)))]
    header = "@relation r\n" + "".join(f"@attribute 'a {i}' {kind}\n" for i, (kind, _) in enumerate(chosen))
    header += "@attribute l {0,1}\n@attribute m {0,1}\n@data\n"
    empty = rng.random() < 0.4
    rows = [
        ["?" if empty and rng.random() < 0.2 else draw() for _, draw in chosen]
        + [str(row % 2), str(int(row % 3 == 0))]
        for row in range(number)
    ]
    omitted = [
        {"{1,0}": "1"}.get(kind, "0" if kind[0] != "{" or kind == "{0,1}" else "red") for kind, _ in chosen
    ]
    omitted += ["0", "0"]
    thin = [
        ",".join(f"{place} {cell}" for place, cell in enumerate(row) if cell != omitted[place])
        for row in rows
    ]
    paths = {form: folder / f"{seed} {form}.arff" for form in ("dense", "sparse")}
    paths["dense"].write_text(header + "".join(",".join(row) + "\n" for row in rows))
    paths["sparse"].write_text(header + "".join(f"{{{row}}}\n" for row in thin))
    return paths
