"""Public data sets: where they are kept, and how they are downloaded.

They are kept in the folder that the user names, else in $TAILMASK_DATA, else in a cache. A file is downloaded
to `.downloads` below that folder and checked against its SHA-256. Only then is it moved or unpacked to its
place, so a place never holds half a file.
"""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from tailmask._util.messages import UserError, listing, require
from tailmask.data.options import DataOptions
from tailmask.data.public.download_bar import DownloadBar

__all__ = [
    "CIFAR10",
    "CIFAR100",
    "COCO2014",
    "COCO2017",
    "GOEMOTIONS",
    "MNIST",
    "Remote",
    "data_root",
    "provide",
]


@dataclass(frozen=True)
class Remote:
    """A published file. `files` is what it puts below the data folder: itself, or what it unpacks to."""

    url: str
    sha256: str
    files: tuple[str, ...]
    unpack_to: str | None = None  # folder below the data folder; None for a file that is not unpacked


def _mnist(name: str, sha256: str) -> Remote:
    return Remote(f"https://ossci-datasets.s3.amazonaws.com/mnist/{name}", sha256, (f"mnist/{name}",))


def _coco(name: str, sha256: str, *files: str) -> Remote:
    return Remote(f"http://images.cocodataset.org/{name}.zip", sha256, files, unpack_to="coco")


def _goemotions(name: str, sha256: str) -> Remote:
    base = "https://raw.githubusercontent.com/google-research/google-research/master/goemotions/data"
    return Remote(f"{base}/{name}", sha256, (f"goemotions/{name}",))


MNIST = (
    _mnist("train-images-idx3-ubyte.gz", "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
    _mnist("train-labels-idx1-ubyte.gz", "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
    _mnist("t10k-images-idx3-ubyte.gz", "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
    _mnist("t10k-labels-idx1-ubyte.gz", "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
)

CIFAR10 = (
    Remote(
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        tuple(
            f"cifar-10-batches-bin/{name}"
            for name in (
                *(f"data_batch_{number}.bin" for number in range(1, 6)),
                "test_batch.bin",
                "batches.meta.txt",
            )
        ),
        unpack_to=".",
    ),
)

CIFAR100 = (
    Remote(
        "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
        "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
        tuple(f"cifar-100-binary/{name}" for name in ("train.bin", "test.bin", "fine_label_names.txt")),
        unpack_to=".",
    ),
)

COCO2014 = (
    _coco(
        "annotations/annotations_trainval2014",
        "031296bbc80c45a1d1f76bf9a90ead27e94e99ec629208449507a4917a3bf009",
        "coco/annotations/instances_train2014.json",
        "coco/annotations/instances_val2014.json",
    ),
    _coco(
        "zips/train2014", "ede4087e640bddba550e090eae701092534b554b42b05ac33f0300b984b31775", "coco/train2014"
    ),
    _coco("zips/val2014", "fe9be816052049c34717e077d9e34aa60814a55679f804cd043e3cbee3b9fde0", "coco/val2014"),
)

COCO2017 = (
    _coco(
        "zips/train2017", "69a8bb58ea5f8f99d24875f21416de2e9ded3178e903f1f7603e283b9e06d929", "coco/train2017"
    ),
    _coco("zips/val2017", "4f7e2ccb2866ec5041993c9cf2a952bbed69647b115d0f74da7ce8f4bef82f05", "coco/val2017"),
)

GOEMOTIONS = (
    _goemotions("train.tsv", "1c254a142be5c00e80d819b9ae1bbd36d94b2eeb8f4b1271846508d57e57d9c5"),
    _goemotions("dev.tsv", "575489c079c9de1097062a01738f998590d6b7ead66dd1c9fd1d2ba01fd8bc62"),
    _goemotions("test.tsv", "0587b2dd8b27b97352adbfc3fb083d46005c8946657fdc2b1ca8b1cc7f1f8be4"),
)


def data_root(options: DataOptions) -> Path:
    """The folder of the public data sets."""
    if options.data_dir is not None:
        return options.data_dir
    named = os.environ.get("TAILMASK_DATA")
    return Path(named) if named else Path(require("pooch", extra="cli").os_cache("tailmask"))


def provide(remotes: Iterable[Remote], options: DataOptions) -> Path:
    """Make sure that the files of `remotes` are in the data folder, and return that folder."""
    root = data_root(options)
    for remote in remotes:
        missing = [root / name for name in remote.files if not (root / name).exists()]
        if not missing:
            continue
        if not options.download:
            raise UserError(f"{listing(missing)} does not exist: {_by_hand(remote, root)}")
        try:
            _fetch(remote, root)
        except OSError as error:  # requests' errors are OSErrors too
            sentence = f"{listing(missing)} does not exist, and the download failed ({type(error).__name__})"
            raise UserError(f"{sentence}: {_by_hand(remote, root)}") from error
    return root


def _by_hand(remote: Remote, root: Path) -> str:
    if remote.unpack_to is None:
        return f"download {remote.url} and put it at {root / remote.files[0]}"
    return f"download {remote.url} and unpack it in {(root / remote.unpack_to).resolve()}"


def _fetch(remote: Remote, root: Path) -> None:
    pooch = require("pooch", extra="cli")
    pooch.get_logger().setLevel("WARNING")  # the progress bar already shows the download
    name = PurePosixPath(remote.url).name
    with DownloadBar(name) as bar:
        downloader = pooch.HTTPDownloader(progressbar=bar, timeout=30)
        try:
            fetched = pooch.retrieve(
                remote.url, remote.sha256, fname=name, path=root / ".downloads", downloader=downloader
            )
        except ValueError as error:  # pooch raises it for a wrong checksum
            raise UserError(
                f"{remote.url} does not have the published checksum: it was cut off or replaced, try again"
            ) from error
    archive = Path(fetched)
    if remote.unpack_to is None:
        archive.chmod(0o644)  # pooch leaves it readable by its owner only
        place = root / remote.files[0]
        place.parent.mkdir(parents=True, exist_ok=True)
        archive.replace(place)
    else:
        unpack(archive, root / remote.unpack_to)
        archive.unlink(missing_ok=True)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a zip or tar file into `folder`. Each top-level name appears whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".unpacking-") as scratch:
        for name, content in _members(archive):
            parts = PurePosixPath(name).parts
            if PurePosixPath(name).is_absolute() or ".." in parts or "\\" in name:
                raise UserError(f"{archive} has a member outside of its folder: {name!r}")
            place = Path(scratch, *parts)
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("wb") as file:
                shutil.copyfileobj(content, file)
        for top in sorted(Path(scratch).iterdir()):
            _install(top, folder / top.name)


def _install(source: Path, place: Path) -> None:
    """Move a file or folder to its place. Existing files are replaced one by one."""
    if source.is_dir() and place.exists():
        for inner in sorted(source.iterdir()):
            _install(inner, place / inner.name)
    else:
        source.replace(place)


def _members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Names and contents of the plain files in an archive. Links and devices are skipped."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            for info in packed.infolist():
                if not info.is_dir():
                    with packed.open(info) as content:
                        yield info.filename, content
        return
    with tarfile.open(archive) as bundle:
        for member in bundle:
            extracted = bundle.extractfile(member) if member.isfile() else None
            if extracted is not None:
                yield member.name, extracted
