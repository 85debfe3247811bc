"""Features that are computed once: kept on disk by the digests of backbone and sample."""

from __future__ import annotations

import contextlib
import hashlib
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tailmask._util.files import atomic_path
from tailmask._util.messages import UserError, require
from tailmask.backbones.backbone import Backbone, Kind

__all__ = ["FOLDER", "Samples", "cached_features"]

# The default folder of the cache, in the current folder, beside the studies.
FOLDER = Path("tailmask-features")

# Number of samples per file of features. A killed process loses at most one file.
SHARD = 256
# Number of images that are decoded at once: images at full size need much memory.
DECODED = 32

SECONDS_BETWEEN_LINES = 30.0


class Samples(Protocol):
    """Texts or images to compute features of."""

    @property
    def kind(self) -> Kind: ...

    def __len__(self) -> int: ...

    def keys(self) -> list[bytes]:
        """A digest of the content of each sample."""
        ...

    def take(self, index: Sequence[int]) -> list[Any]:
        """Some of the samples, in the form that a backbone takes."""
        ...


def cached_features(backbone: Backbone, samples: Samples, folder: Path | None = None) -> NDArray[np.float32]:
    """Features (N, D) of the samples. They are read from the cache; missing ones are computed and stored.

    The key of a sample is a digest of its content. After another split, in another order or in a file with
    more rows, only new samples are computed. Each backbone has its own folder of shards. A shard is written
    whole or not at all, and a damaged one is computed again.
    """
    if not len(samples):
        raise UserError(f"there are no {samples.kind} to compute features of")
    store, keys = (folder or FOLDER) / backbone.digest[:32], samples.keys()
    known = _read(store, set(keys))
    if any(key not in known for key in keys):
        with _lock(store):
            known = _read(store, set(keys))  # another process may have computed them while this one waited
            first = {key: index for index, key in reversed(list(enumerate(keys))) if key not in known}
            missing = sorted(first.values())
            with _progress(samples.kind, len(missing)) as advance:
                for start in range(0, len(missing), SHARD):
                    block = missing[start : start + SHARD]
                    features = _computed(backbone, samples, block, advance)
                    names = [keys[index] for index in block]
                    _write(store, names, features)
                    known |= dict(zip(names, features, strict=True))
    return np.stack([known[key] for key in keys])


def _computed(
    backbone: Backbone, samples: Samples, block: Sequence[int], advance: Callable[[int], None]
) -> NDArray[np.float32]:
    step, pieces = DECODED if samples.kind == "images" else SHARD, []
    for start in range(0, len(block), step):
        pieces.append(backbone.features(samples.take(block[start : start + step])))
        advance(len(pieces[-1]))
    features = np.concatenate(pieces)
    if not np.isfinite(features).all():
        raise UserError(
            f"the backbone gave NaN or infinite features for some {samples.kind}: choose another model"
        )
    return features


def _read(store: Path, wanted: set[bytes]) -> dict[bytes, NDArray[np.float32]]:
    known: dict[bytes, NDArray[np.float32]] = {}
    for path in sorted(store.glob("*.npz")):
        with contextlib.suppress(OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            with np.load(path, allow_pickle=False) as file:
                keys, features = file["keys"], file["features"]
            if features.dtype != np.float32 or features.ndim != 2 or keys.shape != (len(features), 32):
                continue
            names = (key.tobytes() for key in keys)
            known |= {name: row for name, row in zip(names, features, strict=True) if name in wanted}
    return known


def _write(store: Path, keys: Sequence[bytes], features: NDArray[np.float32]) -> None:
    joined = b"".join(keys)
    name = hashlib.sha256(joined).hexdigest()[:32]
    with atomic_path(store / f"{name}.npz", durable=False) as path, path.open("wb") as file:
        np.savez(file, keys=np.frombuffer(joined, dtype=np.uint8).reshape(-1, 32), features=features)


@contextlib.contextmanager
def _lock(store: Path) -> Iterator[None]:
    """Let one process at a time compute; other workers and ranks wait for it."""
    store.mkdir(parents=True, exist_ok=True)
    with require("filelock", extra="cli").FileLock(store / ".lock"):
        yield


@contextlib.contextmanager
def _progress(kind: Kind, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar with samples per second on the error stream; outside a terminal, a line every 30 seconds."""
    rich = require("rich.progress", extra="cli")
    console = require("rich.console", extra="cli").Console(stderr=True)
    began, done, last = time.monotonic(), 0, time.monotonic()
    bar = rich.Progress(
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TextColumn("{task.fields[rate]}"),
        rich.TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )
    task = bar.add_task(f"features of {kind}", total=total, rate="")

    def advance(number: int) -> None:
        nonlocal done, last
        done, now = done + number, time.monotonic()
        rate = f"{done / max(now - began, 1e-9):.3g} {kind}/s"
        bar.update(task, completed=done, rate=rate)
        if not console.is_terminal and now - last > SECONDS_BETWEEN_LINES:
            last = now
            print(f"tailmask: features of {done} of {total} {kind}, {rate}", file=sys.stderr, flush=True)

    with bar:
        yield advance
