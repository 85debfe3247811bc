"""What a run records of its data: other data have another record, the same data elsewhere the same one."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tailmask.data import DataOptions, load

ROWS = 40


def test_digits_without_validation_are_other_data() -> None:
    assert load("digits").source != load("digits", DataOptions(validation=0)).source
    assert load("digits").source == load("digits", DataOptions(validation=0.3)).source  # it has its own split


def write_classes(path: Path, *names: str) -> Path:
    path.write_text("\n".join(names))
    return path


def write_table(folder: Path) -> Path:
    cells = (["cat", "dog", "cat;dog"][row % 3] for row in range(ROWS))
    path = folder / "a.csv"
    path.write_text("x,labels\n" + "".join(f"{row},{cell}\n" for row, cell in enumerate(cells)))
    return path


def write_arrays(folder: Path) -> Path:
    path = folder / "a.npz"
    np.savez(path, X=np.arange(2.0 * ROWS).reshape(-1, 2), Y=np.arange(ROWS) % 2)
    return path


@pytest.mark.parametrize("write", [write_table, write_arrays])
def test_classes_in_another_order_are_other_data(tmp_path: Path, write) -> None:
    path = write(tmp_path)
    one, other, again = (
        load(path, DataOptions(classes=write_classes(tmp_path / name, *classes), separator=";"))
        for name, classes in (
            ("one.txt", ("cat", "dog")),
            ("other.txt", ("dog", "cat")),
            ("again.txt", ("cat", "dog")),
        )
    )
    assert one.classes == other.classes[::-1]
    assert one.source != other.source
    assert one.source == again.source == json.loads(json.dumps(again.source))


def test_names_cannot_be_cut_in_another_place(tmp_path: Path) -> None:
    path = write_arrays(tmp_path)
    sources = [
        load(path, DataOptions(classes=write_classes(tmp_path / "names.txt", *names))).source
        for names in (("ab", "c"), ("a", "bc"), ("a, b", "c"), ("a", "b, c"))
    ]
    assert all(sources[i] != sources[k] for i in range(4) for k in range(i))


def test_many_class_names_take_little_room(tmp_path: Path) -> None:
    path = write_arrays(tmp_path)
    names = write_classes(tmp_path / "names.txt", *(f"class number {c}" for c in range(5000)))
    source = load(path, DataOptions(classes=names)).source
    assert len(json.dumps(source)) < 2000


def test_the_labels_that_an_xml_file_names_are_part_of_the_data(tmp_path: Path) -> None:
    columns = "abcd"
    header = "".join(f"@attribute {name} numeric\n" for name in columns)
    rows = "".join(f"{row},{row % 2},{row % 3 == 0:d},{row % 5 == 0:d}\n" for row in range(ROWS))
    path = tmp_path / "set.arff"
    path.write_text(f"@relation set\n{header}@data\n{rows}")

    def source(*names: str) -> dict[str, object]:
        labels = "".join(f'<label name="{name}"/>' for name in names)
        (tmp_path / "set.xml").write_text(f"<labels>{labels}</labels>")
        return load(path).source

    sources = [source(*names) for names in ("cd", "dc", "bc", "bd")]
    assert all(sources[i] != sources[k] for i in range(4) for k in range(i))


def paint(folder: Path, *, first: int = 0) -> Path:
    """A list, and images of one size on disk, in any colour."""
    folder.mkdir()
    for number in range(ROWS):
        Image.new("RGB", (8, 8), (first + number, 0, 0)).save(folder / f"{number}.bmp")
    path = folder / "list.txt"
    path.write_text("".join(f"{number}.bmp {number % 2}\n" for number in range(ROWS)))
    return path


def test_other_images_under_the_same_names_are_other_data(tmp_path: Path) -> None:
    one, other = paint(tmp_path / "one"), paint(tmp_path / "other", first=100)
    assert one.read_bytes() == other.read_bytes()
    first = load(one).source
    assert first != load(other).source
    assert first != load(one, DataOptions(images=other.parent)).source


def test_the_size_of_every_image_counts(tmp_path: Path) -> None:
    path = paint(tmp_path / "one")
    before = load(path).source
    for number in (0, 1, ROWS - 1):
        file = path.parent / f"{number}.bmp"
        content = file.read_bytes()
        file.write_bytes(content + b"\0")
        assert load(path).source != before
        file.write_bytes(content)
    assert load(path).source == before


def test_a_copy_of_the_images_is_the_same_data(tmp_path: Path) -> None:
    path = paint(tmp_path / "one")
    shutil.copytree(path.parent, tmp_path / "far" / "away")
    for file in (tmp_path / "far" / "away").iterdir():
        os.utime(file, (0, 0))
    source = load(path).source
    assert source == load(tmp_path / "far" / "away" / "list.txt").source
    assert source == load(path, DataOptions(images=tmp_path / "far" / "away")).source
    assert str(tmp_path) not in json.dumps(source)
