"""Files made to do harm, each by its name: what they would run, fill, read or write does not happen."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import os
import pickle
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from claims import ROWS, peak

from tailmask._util.messages import UserError
from tailmask.data import DataOptions
from tailmask.data.readers.idx import read_idx
from tailmask.data.readers.mulan import read_label_names
from tailmask.data.readers.user_file import load_file as load_data
from tailmask.runs.model_file import read_model
from tailmask.training.checkpoint_file import read_checkpoint


class Harm:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.folder),)


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_idx_that_claims_a_trillion_rows(tmp_path: Path, packed: bool) -> None:
    content = bytes([0, 0, 8, 3]) + struct.pack(">3I", 10**6, 10**3, 10**3) + bytes(100)
    path = tmp_path / ("images.gz" if packed else "images")
    path.write_bytes(gzip.compress(content) if packed else content)
    before = peak()
    with pytest.raises(UserError, match=f"claims {ROWS} bytes of data"):
        read_idx(path, num_dimensions=3)
    assert peak() - before < 2**26


def test_a_gzip_bomb(tmp_path: Path) -> None:
    """Ten megabytes of zeros in ten kilobytes: what the header does not claim is not unpacked."""
    path = tmp_path / "labels.gz"
    header = bytes([0, 0, 8, 1]) + struct.pack(">I", 5)
    path.write_bytes(gzip.compress(header + bytes(10**7)))
    with pytest.raises(UserError, match="claims 5 bytes of data but holds more"):
        read_idx(path, num_dimensions=1)


@pytest.mark.parametrize(
    ("shape", "indptr"), [((ROWS, 2), [0, 1]), ((1, ROWS), [0, 1]), ((1, 2), [0, ROWS]), ((ROWS, ROWS), [0])]
)
def test_a_sparse_matrix_that_claims_a_trillion(tmp_path: Path, shape: tuple, indptr: list[int]) -> None:
    path, parts = tmp_path / "a.npz", {"data": [1.0], "indices": [0], "indptr": indptr, "shape": shape}
    np.savez(path, Y=np.ones((1, 1)), **{f"X_{name}": np.array(value) for name, value in parts.items()})
    before = peak()
    with pytest.raises(UserError):
        load_data(path, DataOptions())
    assert peak() - before < 2**26


def test_an_npz_bomb(tmp_path: Path) -> None:
    """A header of a trillion rows over a member that says it has them, in a file of a few kilobytes."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (ROWS, 1)})
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", header.getvalue() + bytes(10**6))
    content = bytearray(path.read_bytes())
    size = struct.pack("<I", len(header.getvalue()) + 10**6)
    for place in (content.find(size), content.rfind(size)):
        content[place : place + 4] = struct.pack("<I", 0xFFFFFFF0)
    path.write_bytes(content)
    before = peak()
    with pytest.raises(UserError, match=r"a\.npz"):
        load_data(path, DataOptions(targets="X"))
    assert peak() - before < 2**26


@pytest.mark.parametrize("count", [f"-C {ROWS}", "-C -999999", "-C 999999"])
def test_arff_that_claims_more_labels_than_it_has(tmp_path: Path, count: str) -> None:
    path = tmp_path / "a.arff"
    path.write_text(f"@relation 'x: {count}'\n@attribute a {{0,1}}\n@attribute b {{0,1}}\n@data\n0,1\n1,0\n")
    with pytest.raises(UserError):
        load_data(path, DataOptions())


def test_arff_with_a_row_of_a_trillionth_column(tmp_path: Path) -> None:
    path = tmp_path / "a.arff"
    path.write_text(f"@relation x\n@attribute a {{0,1}}\n@attribute b numeric\n@data\n{{{ROWS} 1}}\n")
    with pytest.raises(UserError, match="is not the number of an attribute"):
        load_data(path, DataOptions(labels="a"))


LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))


@pytest.mark.parametrize(
    "doctype",
    [
        f'<!DOCTYPE labels [<!ENTITY l0 "lol">{LAUGHS}]>',
        '<!DOCTYPE labels [<!ENTITY l9 SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE labels SYSTEM "http://127.0.0.1:1/a.dtd">',
        '<!DOCTYPE labels [<!ENTITY % p SYSTEM "file:///etc/passwd">%p;]>',
    ],
    ids=["expansion", "external entity", "external type", "parameter entity"],
)
def test_xml_entities(tmp_path: Path, doctype: str) -> None:
    path = tmp_path / "labels.xml"
    path.write_text(f'<?xml version="1.0"?>{doctype}<labels><label name="&l9;"/></labels>')
    with pytest.raises(UserError, match="DOCTYPE"):
        read_label_names(path)


@pytest.mark.parametrize(
    ("name", "suffix"),
    [
        *itertools.product(
            ["../secret.png", "/etc/passwd", "a/../../secret.png", "..", "a\0b"], [".csv", ".txt", ".json"]
        ),
        *(("", suffix) for suffix in (".csv", ".json")),  # in .txt, a line without a path is no line
    ],
)
def test_paths_that_climb_out_of_a_list_of_images(tmp_path: Path, name: str, suffix: str) -> None:
    pytest.importorskip("pycocotools")
    folder = tmp_path / "inner"
    folder.mkdir()
    (tmp_path / "secret.png").write_bytes(b"secret")
    path = folder / f"list{suffix}"
    if suffix == ".json":
        content = {"images": [{"id": 1, "file_name": name}], "categories": [{"id": 1, "name": "a"}]}
        path.write_text(json.dumps(content | {"annotations": [{"id": 1, "image_id": 1, "category_id": 1}]}))
    elif suffix == ".csv":
        path.write_text(f'path,labels\n"{name}",a\n')
    else:
        path.write_text(f"{name} 0\n")
    with pytest.raises(UserError, match="is not a path below"):
        load_data(path, DataOptions())


def test_pickles_are_never_executed(tmp_path: Path) -> None:
    harm = Harm(tmp_path / "harm")
    array = np.empty(1, dtype=object)
    array[0] = harm
    np.savez(tmp_path / "objects.npz", X=array, Y=np.ones((1, 1)))
    with zipfile.ZipFile(tmp_path / "bare.npz", "w") as archive:
        archive.writestr("X.npy", pickle.dumps(harm))
        archive.writestr("Y.npy", pickle.dumps(harm))
    torch.save({"epochs_done": 1, "state_dict": harm}, tmp_path / "checkpoint.ckpt")
    (tmp_path / "legacy.ckpt").write_bytes(pickle.dumps(harm))
    (tmp_path / "model.safetensors").write_bytes(pickle.dumps(harm))
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps(harm))
    for name, read in (
        ("objects.npz", lambda path: load_data(path, DataOptions())),
        ("bare.npz", lambda path: load_data(path, DataOptions())),
        ("checkpoint.ckpt", read_checkpoint),
        ("legacy.ckpt", read_checkpoint),
        ("model.safetensors", read_model),
        ("data_batch_1", lambda path: load_data(path, DataOptions())),
    ):
        with pytest.raises(UserError):
            read(tmp_path / name)
    assert not (tmp_path / "harm").exists()
    pickle.loads(pickle.dumps(harm))
    assert (tmp_path / "harm").exists()  # it would have shown


def test_text_that_is_none(tmp_path: Path) -> None:
    """Numbers that no character has, in an array of text, and half a character in JSON."""
    names = np.frombuffer(struct.pack("<2I", 0x110000, 65), dtype="<U1")
    np.savez(tmp_path / "a.npz", X=np.ones((4, 1)), Y=np.eye(4)[:, :2], classes=names)
    with pytest.raises(UserError, match="invalid characters"):
        load_data(tmp_path / "a.npz", DataOptions())
    pytest.importorskip("pycocotools")
    content = {"images": [], "categories": [{"id": 1, "name": "\ud800"}], "annotations": []}
    (tmp_path / "a.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match="class name"):
        load_data(tmp_path / "a.json", DataOptions())


@pytest.mark.parametrize("suffix", [".csv", ".npz", ".arff"])
def test_numbers_beyond_float32(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    values = [1e300 if row == 5 else row for row in range(20)]
    if suffix == ".npz":
        np.savez(path, X=np.array(values)[:, None], Y=np.arange(20)[:, None] % 2)
    else:
        rows = "".join(f"{value},{row % 2}\n" for row, value in enumerate(values))
        arff = "@relation x\n@attribute size numeric\n@attribute tag {0,1}\n@data\n"
        path.write_text(("size,tag\n" if suffix == ".csv" else arff) + rows)
    with pytest.raises(UserError, match="too large"):
        load_data(path, DataOptions(labels="tag", encoding="standard-1"))
    if suffix == ".csv":  # an outlier as any other
        assert load_data(path, DataOptions(labels="tag")).train.inputs.abs().max() <= 3


def test_the_command_prints_one_line_for_a_hostile_file(tmp_path: Path) -> None:
    """Names in a file cannot move the cursor, and no traceback reaches the terminal."""
    (tmp_path / "a.arff").write_text("@relation x\n@attribute '\x1b[2J\x07' string\n@data\n")
    result = subprocess.run(
        [sys.executable, "-m", "tailmask", "data", str(tmp_path / "a.arff")], capture_output=True, text=True
    )
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("tailmask: ")
    assert line.isprintable()
