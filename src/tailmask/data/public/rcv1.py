"""`rcv1`: Reuters newswire stories with 103 topics (Lewis et al. 2004), as cosine-normalised bags of words.

scikit-learn downloads them and checks the files, but stores pickles, which can run code. So its copy is
deleted. The two parts of the official split (LYRL2004) are stored as `rcv1/train.npz` and `rcv1/test.npz`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from tailmask._util.files import atomic_path
from tailmask._util.messages import UserError, require
from tailmask.data.dataset import Dataset, Split
from tailmask.data.digests import digest
from tailmask.data.encoders.array import ArrayEncoder
from tailmask.data.options import DataOptions
from tailmask.data.public.download import data_root
from tailmask.data.readers.npz import Npz
from tailmask.data.readers.raw_parts import dense_targets
from tailmask.data.readers.user_file import VALIDATION_SHARE
from tailmask.data.row_formats import ArrayFormat
from tailmask.data.rows import RawData, Rows
from tailmask.data.splits import stratified

__all__ = ["load_rcv1"]


def load_rcv1(options: DataOptions) -> Dataset:
    """RCV1-v2 with 23149 stories for training, a tenth of them for validation, and 781265 for testing."""
    folder = data_root(options) / "rcv1"
    files = {part: folder / f"{part}.npz" for part in ("train", "test")}
    if not all(path.exists() for path in files.values()):
        _fetch(files, options)
    matrices = [Npz(path).csr(name) for path in files.values() for name in ("X", "Y")]
    inputs, targets, test_inputs, test_targets = matrices
    share = VALIDATION_SHARE if options.validation is None else options.validation
    train, validation, order = Split(inputs, targets), None, np.arange(inputs.shape[0])
    if share:
        parts = stratified(targets, share, options.data_seed)
        train, validation = (Split(inputs[rows], targets[rows]) for rows in parts)
        order = np.concatenate(parts)
    row_format = ArrayFormat("X", inputs.shape[1])
    return Dataset(
        name="rcv1",
        classes=tuple(Npz(files["train"]).array("classes").tolist()),
        train=train,
        validation=validation,
        test=Split(test_inputs, test_targets),
        encoder=ArrayEncoder(inputs.shape[1], mean=None, scale=np.ones(inputs.shape[1])),
        source={
            "name": "rcv1",
            "data_seed": options.data_seed,
            "validation": share,
            "digest": digest(*(array for each in matrices for array in (each.data, each.indices))),
        },
        raw=RawData(
            Rows(inputs[order], dense_targets(targets[order]), format=row_format),
            Rows(test_inputs, dense_targets(test_targets), format=row_format),
            num_train=len(train),
        ),
    )


def _fetch(files: dict[str, Path], options: DataOptions) -> None:
    folder = files["train"].parent
    missing = f"rcv1 is not in {folder.parent}"
    by_hand = f"run tailmask data rcv1 on a machine with a network, and copy its folder to {folder}"
    if not options.download:
        raise UserError(f"{missing}: {by_hand}")
    fetch_rcv1 = require("sklearn.datasets", extra="cli").fetch_rcv1
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".fetching-") as scratch:
            for part, path in files.items():
                found = fetch_rcv1(data_home=scratch, subset=part)
                arrays = {"classes": found.target_names.astype(np.str_)}
                for name, matrix in {"X": found.data.astype("f4"), "Y": found.target.astype("i1")}.items():
                    for each in ("data", "indices", "indptr", "shape"):
                        arrays[f"{name}_{each}"] = getattr(matrix, each)
                with atomic_path(path) as temporary, temporary.open("wb") as file:
                    np.savez(file, **arrays)
    except OSError as error:
        sentence = f"{missing}, and the download failed ({type(error).__name__})"
        raise UserError(f"{sentence}: {by_hand}") from error
