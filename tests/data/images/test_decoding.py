"""What pixels come out of an image file: upright, and by the range of their format."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

from tailmask._util.messages import UserError
from tailmask.data import DataOptions, load
from tailmask.data.encoders.image import ImageEncoder
from tailmask.data.images.on_disk import decode

GRADIENT = np.linspace(0, 65535, 40 * 30).round().astype(np.uint16).reshape(30, 40)

# What a camera has done to the upright image whose tag is this number (EXIF 2.3, tag 274): the first row that
# it stored is this side of the scene, the first column that side.
STORED = {
    1: lambda image: image,
    2: lambda image: image[:, ::-1],  # top, right
    3: lambda image: image[::-1, ::-1],  # bottom, right
    4: lambda image: image[::-1],  # bottom, left
    5: lambda image: image.swapaxes(0, 1),  # left, top
    6: lambda image: image.swapaxes(0, 1)[::-1],  # right, top
    7: lambda image: image.swapaxes(0, 1)[::-1, ::-1],  # right, bottom
    8: lambda image: image.swapaxes(0, 1)[:, ::-1],  # left, bottom
}


def save_turned(path: Path, upright: NDArray[np.uint8], orientation: int) -> None:
    image = Image.fromarray(np.ascontiguousarray(STORED[orientation](upright)))
    exif = Image.Exif()
    exif[274] = orientation
    options = {"lossless": True} if path.suffix == ".webp" else {}
    image.save(path, exif=exif, **options)


@pytest.mark.parametrize("suffix", ["png", "tif", "webp"])
@pytest.mark.parametrize("orientation", STORED)
def test_images_are_upright(tmp_path: Path, orientation: int, suffix: str) -> None:
    upright = np.random.default_rng(0).integers(256, size=(6, 9, 3), dtype=np.uint8)
    path = tmp_path / f"a.{suffix}"
    save_turned(path, upright, orientation)
    assert np.array_equal(decode(path, (3, 6, 9)), upright)


@pytest.mark.parametrize("orientation", STORED)
def test_photos_are_upright_and_decoded_small(
    tmp_path: Path, orientation: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    colours = np.array([[[250, 0, 0], [0, 250, 0]], [[0, 0, 250], [250, 250, 250]]], dtype=np.uint8)
    upright = colours.repeat(600, axis=0).repeat(800, axis=1)  # 1600 wide
    save_turned(tmp_path / "a.jpg", upright, orientation)
    draft, sizes = JpegImageFile.draft, []

    def spied(self, *arguments):
        result = draft(self, *arguments)
        sizes.append(sorted(self.size))
        return result

    monkeypatch.setattr(JpegImageFile, "draft", spied)
    seen = []

    def right_half(size: tuple[int, int]) -> tuple[float, float, float, float]:
        seen.append(size)
        return (800.0, 0.0, 1600.0, 1200.0)

    whole = decode(tmp_path / "a.jpg", (3, 150, 200))
    half = decode(tmp_path / "a.jpg", (3, 150, 100), choose_box=right_half)
    assert sizes == [[150, 200], [150, 200]]
    assert seen == [(1600, 1200)]
    for row, column in np.ndindex(2, 2):
        assert abs(whole[35 + 75 * row, 50 + 100 * column].astype(int) - colours[row, column]).max() <= 8
    for row in range(2):
        assert abs(half[35 + 75 * row, 50].astype(int) - colours[row, 1]).max() <= 8


@pytest.mark.parametrize(
    "exif",
    [
        b"Exif\0\0junk",
        b"Exif\0\0II*\0\xff\xff\xff\xff",
        b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x02\0\0\0\x02ab\0\0\0\0\0\0",  # the orientation "ab"
        b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x63\0\0\0\0\0\0",  # the orientation 99
    ],
)
@pytest.mark.parametrize("suffix", ["jpg", "png", "webp"])
@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
def test_strange_exif_data_turn_nothing(tmp_path: Path, exif: bytes, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    Image.new("RGB", (9, 6), (10, 200, 30)).save(path, exif=exif)
    assert abs(decode(path, (3, 6, 9)).astype(int) - [10, 200, 30]).max() <= 3


@pytest.mark.parametrize("suffix", ["png", "tif", "ppm"])
@pytest.mark.parametrize("channels", [1, 3])
def test_sixteen_bits_keep_their_range(tmp_path: Path, suffix: str, channels: int) -> None:
    path = tmp_path / f"a.{suffix}"
    Image.fromarray(GRADIENT).save(path)
    pixels = decode(path, (channels, 30, 40))
    for channel in range(channels):
        assert np.array_equal(pixels[..., channel], np.rint(GRADIENT / 257))


def test_big_endian_sixteen_bits(tmp_path: Path) -> None:
    Image.frombytes("I;16B", (40, 30), GRADIENT.astype(">u2").tobytes()).save(tmp_path / "a.tif")
    assert np.array_equal(decode(tmp_path / "a.tif", (1, 30, 40))[..., 0], np.rint(GRADIENT / 257))


def test_sixteen_bits_are_turned_and_cut_like_others(tmp_path: Path) -> None:
    wide = np.zeros((10, 30), dtype=np.uint16)
    wide[:, 10:20] = 51400  # 200 · 257
    exif = Image.Exif()
    exif[274] = 6
    Image.fromarray(np.ascontiguousarray(STORED[6](wide))).save(tmp_path / "a.png", exif=exif)
    assert (decode(tmp_path / "a.png", (3, 10, 10)) == 200).all()


def tiff(pixels: bytes, *, size: tuple[int, int], bits: int, sample_format: int) -> bytes:
    """A TIFF file of one channel, which Pillow reads and does not write."""
    width, height = size
    tags = [(256, width), (257, height), (258, bits), (259, 1), (262, 1), (273, 8), (277, 1), (278, height)]
    tags += [(279, len(pixels)), (339, sample_format)]
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
    header = struct.pack("<2sHI", b"II", 42, 8 + len(pixels))
    return header + pixels + struct.pack("<H", len(tags)) + entries + b"\0" * 4


def test_twelve_bits_keep_their_range(tmp_path: Path) -> None:
    # 0, 4095, 2048 and 16 in three bytes a pair.
    (tmp_path / "a.tif").write_bytes(tiff(b"\x00\x0f\xff\x80\x00\x10", size=(2, 2), bits=12, sample_format=1))
    assert decode(tmp_path / "a.tif", (1, 2, 2))[..., 0].tolist() == [[0, 255], [128, 1]]


@pytest.mark.parametrize("suffix", ["tif", "ppm"])
def test_floats_from_0_to_1(tmp_path: Path, suffix: str) -> None:
    values = (GRADIENT / 65535).astype(np.float32)
    Image.fromarray(values).save(tmp_path / f"a.{suffix}")
    assert np.array_equal(decode(tmp_path / f"a.{suffix}", (1, 30, 40))[..., 0], np.rint(values * 255))


@pytest.mark.parametrize("value", [-0.5, 1.5, np.nan, np.inf])
def test_other_floats_have_no_range(tmp_path: Path, value: float) -> None:
    pixels = np.full((4, 4), 0.5, dtype=np.float32)
    pixels[2, 1] = value
    Image.fromarray(pixels).save(tmp_path / "a.tif")
    with pytest.raises(UserError, match=r"^\S+a\.tif holds floats outside of .*save.*16 bits") as error:
        decode(tmp_path / "a.tif", (3, 4, 4))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("dtype", "bits", "sample_format"), [("<i4", 32, 2), ("<u4", 32, 1), ("<i2", 16, 2)])
def test_other_whole_numbers_have_no_range(tmp_path: Path, dtype: str, bits: int, sample_format: int) -> None:
    content = tiff(np.arange(16).astype(dtype).tobytes(), size=(4, 4), bits=bits, sample_format=sample_format)
    (tmp_path / "a.tif").write_bytes(content)
    with pytest.raises(UserError, match=r"^\S+a\.tif holds .*integers.*: .*save.*16 bits"):
        decode(tmp_path / "a.tif", (3, 4, 4))


def test_prediction_decodes_as_training_does(tmp_path: Path) -> None:
    Image.fromarray(GRADIENT).save(tmp_path / "deep.png")
    upright = np.random.default_rng(0).integers(256, size=(30, 40, 3), dtype=np.uint8)
    save_turned(tmp_path / "turned.png", upright, 6)
    (tmp_path / "list.txt").write_text("deep.png 0\nturned.png 1\n" * 10)
    dataset = load(tmp_path / "list.txt", DataOptions(image_size=16, augment="none"))
    assert isinstance(dataset.encoder, ImageEncoder)
    predicted = torch.cat(list(dataset.encoder.batches(tmp_path / "list.txt", batch_size=3)))[:2]
    inputs, targets = dataset.train.batch(torch.arange(len(dataset.train)))
    for column in (0, 1):
        one = inputs[targets[:, column] == 1][0]
        assert torch.equal(one, predicted[column])
        assert one.std() > 0.1


@pytest.mark.parametrize(("highest", "notes"), [(4095, 1), (60000, 0), (0, 0)])
def test_a_note_where_much_of_the_range_is_unused(tmp_path: Path, highest: int, notes: int) -> None:
    """Twelve bits in files of sixteen would be sixteen shades of black."""
    Image.fromarray((GRADIENT.astype(float) * highest / 65535).astype(np.uint16)).save(tmp_path / "a.png")
    (tmp_path / "list.txt").write_text("a.png 0\na.png 1\n" * 10)
    found = [text for text in load(tmp_path / "list.txt").notes if "of 65535" in text]
    assert len(found) == notes
    assert all("4095 of 65535" in text and "multiply them by 16" in text for text in found)
