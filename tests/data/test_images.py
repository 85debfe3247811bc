"""Images on disk: manifests, lists and COCO files drawn here, and what happens to bad ones."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile
from torch.utils.data import DataLoader

from tailmask.data import DataOptions, load
from tailmask.data.coco import read_instances
from tailmask.data.dataset import Split
from tailmask.data.image_files import ImageFiles, decode, packed
from tailmask.data.labels import labels_from_tags, read_classes
from tailmask.data.manifest import read_list_lines
from tailmask.data.statistics import summarize
from tailmask.errors import UserError

CLASSES = ("circle", "square", "stripe")


def draw(folder: Path, number: int, *, size: tuple[int, int] = (40, 30)) -> list[str]:
    """Small images in several formats and modes; their names."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    names = []
    for i in range(number):
        mode, suffix = [("RGB", "jpg"), ("L", "png"), ("RGBA", "png"), ("P", "gif")][i % 4]
        pixels = np.kron(
            rng.integers(256, size=(5, 4, 3), dtype=np.uint8), np.ones((6, 10, 1), dtype=np.uint8)
        )
        image = Image.fromarray(pixels).resize(size).convert(mode)
        names.append(f"image{i}.{suffix}")
        image.save(folder / names[-1])
    return names


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


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_manifest(tmp_path: Path, suffix: str) -> None:
    names = draw(tmp_path / "images", 24)
    rows = [
        {"path": f"images/{name}", "labels": ["a"] if i % 2 else ["a", "b"]} for i, name in enumerate(names)
    ]
    if suffix == "jsonl":
        content = "\n".join(json.dumps(row) for row in rows)
    else:
        content = "path,labels\n" + "\n".join(f'{row["path"]},"{",".join(row["labels"])}"' for row in rows)
    (tmp_path / f"m.{suffix}").write_text(content)
    dataset = load(tmp_path / f"m.{suffix}", DataOptions(image_size=16))
    assert dataset.train.on_disk
    assert dataset.shape == (3, 16, 16)
    inputs, targets = dataset.train.batch(torch.arange(5))
    assert inputs.shape == (5, 3, 16, 16)
    assert targets.shape == (5, 2)
    assert inputs.is_contiguous(memory_format=torch.channels_last)
    native = load(tmp_path / f"m.{suffix}")
    assert native.shape == (3, 30, 30)
    assert native.notes == ("images are scaled to 30×30 pixels",)


def test_training_images_vary_and_others_do_not(tmp_path: Path) -> None:
    names = draw(tmp_path, 8)
    files = ImageFiles(tmp_path, packed(names), (3, 20, 20), (0.0,) * 3, (1.0,) * 3, min_area=0.3, flip=True)
    index = torch.arange(8)
    plain = files.batch(index)
    assert torch.equal(plain, files.batch(index))
    first, again, other = (files.batch(index, torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert not torch.equal(first, plain)
    still = ImageFiles(tmp_path, packed(names), (3, 20, 20), (0.0,) * 3, (1.0,) * 3)
    assert torch.equal(still.batch(index, torch.Generator().manual_seed(1)), plain)


def test_the_middle_of_an_image_is_taken(tmp_path: Path) -> None:
    pixels = np.zeros((10, 30, 3), dtype=np.uint8)
    pixels[:, 10:20] = 200
    Image.fromarray(pixels).save(tmp_path / "a.png")
    assert (decode(tmp_path / "a.png", (3, 10, 10)) == 200).all()
    assert decode(tmp_path / "a.png", (1, 5, 5)).shape == (5, 5, 1)
    whole = decode(tmp_path / "a.png", (3, 10, 30))
    assert (whole == pixels).all()


def test_random_boxes_lie_in_the_image(tmp_path: Path) -> None:
    """An image whose pixels tell their place: the corners of what comes out tell the box."""
    x, y = np.meshgrid(np.arange(200), np.arange(100))
    Image.fromarray(np.stack([x, y, 0 * x], axis=2).astype(np.uint8)).save(tmp_path / "a.png")
    files = ImageFiles(tmp_path, packed(["a.png"]), (3, 8, 8), (0.0,) * 3, (1.0,) * 3, min_area=0.2)
    areas = []
    for seed in range(200):
        image = files.batch(torch.tensor([0]), torch.Generator().manual_seed(seed))[0] * 255
        width = float(image[0, 0, 7] - image[0, 0, 0]) * 8 / 7
        height = float(image[1, 7, 0] - image[1, 0, 0]) * 8 / 7
        areas.append(width * height / 20_000)
        assert -1 <= image.min() <= image.max() <= 200
    assert 0.12 < min(areas) < 0.3
    assert 0.7 < max(areas) <= 1.05


def test_large_jpegs_are_decoded_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("RGB", (1600, 1200), (10, 200, 30)).save(tmp_path / "a.jpg")
    draft, sizes = JpegImageFile.draft, []

    def spied(self, *arguments):
        result = draft(self, *arguments)
        sizes.append(self.size)
        return result

    monkeypatch.setattr(JpegImageFile, "draft", spied)
    pixels = decode(tmp_path / "a.jpg", (3, 100, 100))
    assert sizes == [(200, 150)]
    assert abs(pixels.astype(int) - [10, 200, 30]).max() <= 3


def test_workers_give_the_same_batches(tmp_path: Path) -> None:
    names = draw(tmp_path, 12)
    targets = torch.zeros(12, 2, dtype=torch.int8)
    split = Split(ImageFiles(tmp_path, packed(names), (3, 8, 8), (0.5,) * 3, (0.5,) * 3), targets)

    class Batches(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return 3

        def __getitem__(self, number: int):
            return split.batch(torch.arange(4) + 4 * number)

    alone = [inputs for inputs, _ in DataLoader(Batches(), batch_size=None)]
    helped = [inputs for inputs, _ in DataLoader(Batches(), batch_size=None, num_workers=2)]
    assert all(torch.equal(a, b) for a, b in zip(alone, helped, strict=True))


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("gone.png", "image 0: there is no file"),
        ("../secret.png", "image 0: '../secret.png' is not a path below"),
        ("images/../../secret.png", "is not a path below"),
        ("/etc/passwd", "image 0: '/etc/passwd' is not a path below"),
        ("", "image 0: '' is not a path below"),
        ("images", "image 0: there is no file"),
    ],
)
def test_bad_manifest_paths(tmp_path: Path, path: str, sentence: str) -> None:
    folder = tmp_path / "deep"
    draw(folder / "images", 1)
    (tmp_path / "secret.png").write_bytes(b"")
    lines = [{"path": path, "labels": ["a"]}, {"path": "images/image0.jpg", "labels": ["a"]}]
    (folder / "m.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    with pytest.raises(UserError, match=sentence):
        load(folder / "m.jsonl")


def bomb() -> bytes:
    """A PNG of a few bytes that claims 60000×60000 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b""))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(
    "content", [b"", b"no image", bomb(), b"\x89PNG\r\n\x1a\n\0\0\0\0", b"\xff\xd8\xff\xe0" * 9]
)
def test_images_that_do_not_decode_are_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(UserError, match=r"a\.png cannot be decoded as an image") as error:
        decode(tmp_path / "a.png", (3, 8, 8))
    assert "\n" not in str(error.value)


def test_formats_that_call_other_programs_are_not_opened(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "a.eps")
    (tmp_path / "a.eps").rename(tmp_path / "a.png")
    with pytest.raises(UserError, match="cannot be decoded as an image"):
        decode(tmp_path / "a.png", (3, 8, 8))


def test_a_cut_image_is_named(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for suffix in ("png", "jpg", "webp"):
        path = tmp_path / f"a.{suffix}"
        Image.fromarray(rng.integers(256, size=(64, 64, 3), dtype=np.uint8)).save(path)
        path.write_bytes(path.read_bytes()[:-200])
        with pytest.raises(UserError, match="cannot be decoded"):
            decode(path, (3, 8, 8))


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
    with pytest.raises(UserError, match=r"a\.json is not a whole file in COCO's format") as error:
        read_instances(tmp_path / "a.json")
    assert "\n" not in str(error.value)


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
    with pytest.raises(
        UserError, match=r"coco_lt_train\.txt is not there: put the published list in its place"
    ):
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
