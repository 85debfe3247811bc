"""COCO files and lists of images: users' own, the published ones, and what happens to bad ones."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from drawn_images import CLASSES, draw

from tailmask._util.messages import UserError
from tailmask.data import DataOptions, load
from tailmask.data.class_statistics import summarize
from tailmask.data.dataset import Split
from tailmask.data.public.coco import read_instances
from tailmask.data.readers.image_list import read_list_lines
from tailmask.data.readers.table.label_columns import labels_from_tags, read_classes


def write_coco(path: Path, names: list[str], rng: np.random.Generator) -> np.ndarray:
    """A COCO file whose category numbers have gaps; returns the labels it means."""
    labels = (rng.random((len(names), 3)) < 0.5).astype(int)
    labels[0] = 0
    numbers = [7, 3, 90]  # in the order of the numbers: square, circle, stripe
    annotations = [
        {"id": 10 * i + int(c), "image_id": 100 + i, "category_id": numbers[c], "bbox": [0, 0, 1, 1]}
        for i, row in enumerate(labels)
        for c in np.flatnonzero(row)
    ]
    annotations += annotations[:2]  # two objects of one kind are one label
    content = {
        "images": [
            {"id": 100 + i, "file_name": name, "width": 40, "height": 30} for i, name in enumerate(names)
        ],
        "annotations": annotations,
        "categories": [{"id": number, "name": name} for number, name in zip(numbers, CLASSES, strict=True)],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return labels[:, [1, 0, 2]]


def test_coco_end_to_end(tmp_path: Path) -> None:
    """The layout and format of COCO 2014, with images drawn here."""
    rng = np.random.default_rng(0)
    labels = {}
    for part, number in (("train2014", 20), ("val2014", 12)):
        names = draw(tmp_path / "coco" / part, number)
        annotations = tmp_path / "coco" / "annotations" / f"instances_{part}.json"
        labels[part] = write_coco(annotations, names, rng)
    dataset = load("coco", DataOptions(data_dir=tmp_path, download=False, image_size=24))
    assert dataset.classes == ("square", "circle", "stripe")
    assert dataset.train.targets.tolist() == labels["train2014"].tolist()
    assert dataset.test.targets.tolist() == labels["val2014"].tolist()
    assert summarize(dataset.train, dataset.classes).num_unlabelled >= 1
    inputs, _ = dataset.train.batch(torch.arange(20), torch.Generator().manual_seed(0))
    assert inputs.shape == (20, 3, 24, 24)
    assert dataset.validation is None
    held = load("coco", DataOptions(data_dir=tmp_path, download=False, image_size=24, validation=0.2))
    assert len(held.train) + len(held.validation) == 20


def test_a_users_coco_file(tmp_path: Path) -> None:
    names = draw(tmp_path / "images", 20)
    labels = write_coco(tmp_path / "mine.json", names, np.random.default_rng(1))
    dataset = load(tmp_path / "mine.json", DataOptions(images=tmp_path / "images", image_size=8))
    total = sum(split.counts()[1] for split in dataset.splits.values())
    assert total.tolist() == labels.sum(axis=0).tolist()
    with pytest.raises(UserError, match=r"mine\.json, image 0: there is no file"):
        load(tmp_path / "mine.json")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[1, 2]",
        "{}",
        '{"images": [{"id": 1}], "annotations": [], "categories": []}',
        '{"images": [], "annotations": [{"image_id": 5, "category_id": 1, "id": 1}], "categories": []}',
        '{"images": 3, "annotations": {}, "categories": "x"}',
        "[" * 100_000,
    ],
)
def test_bad_coco_files(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(
        UserError, match=r"a\.json is not a whole file in COCO's format .*list of records"
    ) as error:
        read_instances(tmp_path / "a.json")
    assert "\n" not in str(error.value)


def test_a_list_of_records_is_a_table(tmp_path: Path) -> None:
    records = [{"x": i, "labels": ["a"] if i % 2 else ["a", "b"]} for i in range(40)]
    (tmp_path / "a.json").write_text(json.dumps(records))
    assert load(tmp_path / "a.json").classes == ("a", "b")


def test_duplicate_coco_categories(tmp_path: Path) -> None:
    categories = [{"id": 1, "name": "a"}, {"id": 2, "name": "a"}]
    content = {"images": [{"id": 1, "file_name": "x"}], "annotations": [], "categories": categories}
    (tmp_path / "a.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match="names a class twice: a"):
        read_instances(tmp_path / "a.json")


def test_the_published_list_gives_the_papers_imbalance(real_data: Path) -> None:
    folder = real_data / "coco_labels"
    names, tags = read_list_lines(folder / "coco_train2014_labels.txt")
    labels = labels_from_tags(tags, "the list", classes=read_classes(folder / "coco_labels.txt"))
    statistics = summarize(Split(torch.zeros(len(names), 1), labels.targets), labels.classes)
    assert len(names) == 82081
    assert round(statistics.rho, 2) == 352.92
    assert statistics.classes[statistics.order[0]] == "person"
    assert (max(statistics.positives), min(statistics.positives)) == (45174, 128)


@pytest.mark.parametrize(
    ("name", "prefix", "train", "test"), [("coco-mlt", "coco", 1909, 5000), ("voc-mlt", "voc", 1142, 4952)]
)
def test_long_tailed_lists(
    real_data: Path, tmp_path: Path, name: str, prefix: str, train: int, test: int
) -> None:
    """The published lists with one drawn image in the place of each of theirs."""
    (tmp_path / "coco_labels").symlink_to(real_data / "coco_labels")
    draw(tmp_path, 1)
    root = tmp_path / ("coco" if prefix == "coco" else "")
    for part in ("train", "test"):
        for image in read_list_lines(real_data / "coco_labels" / f"{prefix}_lt_{part}.txt")[0]:
            path = root / image
            path.parent.mkdir(parents=True, exist_ok=True)
            path.hardlink_to(tmp_path / "image0.jpg")
    dataset = load(name, DataOptions(data_dir=tmp_path, download=False, image_size=16))
    assert (len(dataset.train), len(dataset.test)) == (train, test)
    assert len(dataset.classes) == (80 if prefix == "coco" else 20)
    assert dataset.train.batch(torch.tensor([0, train - 1]))[0].shape == (2, 3, 16, 16)
    assert int(dataset.train.counts()[1].min()) > 0


def test_missing_lists_and_images_say_what_to_do(tmp_path: Path) -> None:
    options = DataOptions(data_dir=tmp_path, download=False)
    with pytest.raises(UserError, match=r"coco_lt_train\.txt does not exist: put the published list there"):
        load("coco-mlt", options)
    with pytest.raises(
        UserError, match=r"download http://images\.cocodataset\.org/annotations/.*unpack it in"
    ):
        load("coco", options)


def test_plain_list(tmp_path: Path) -> None:
    names = draw(tmp_path, 12)
    lines = [f"{name} {i % 2} {2 + i % 3}" for i, name in enumerate(names)]
    (tmp_path / "list.txt").write_text("\n".join(lines))
    dataset = load(tmp_path / "list.txt", DataOptions(image_size=8, validation=0))
    assert dataset.classes == ("0", "1", "2", "3", "4")
    (tmp_path / "empty.txt").write_text("\n \n")
    with pytest.raises(UserError, match="lists no images"):
        load(tmp_path / "empty.txt")


def test_a_list_of_zeros_and_ones_is_refused(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("a.png 1 0 2\nb.png 0 1 0\n")
    with pytest.raises(UserError, match=r"list\.txt names the class 0 twice for b\.png: .* 1\.jpg 3 17"):
        load(tmp_path / "list.txt")
