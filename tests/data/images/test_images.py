"""Images on disk: manifests, what training makes of them, and what happens to bad ones."""

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

from data.drawn_images import draw
from tailmask._util.messages import UserError
from tailmask.data import DataOptions, load
from tailmask.data.dataset import Split
from tailmask.data.images.on_disk import ImageFiles, decode, packed


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
