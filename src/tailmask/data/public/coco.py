"""`coco` (2014), `coco-mlt` and `voc-mlt`, and users' files in COCO's format.

`coco` trains on all 82,783 images of 2014 and tests on its 40,504 validation images, including those without
a label. An image has the labels of all objects annotated in it. `coco-mlt` and `voc-mlt` are the long-tailed
subsets of Wu et al. (2020), from their published lists of images. All three are scaled to 224 pixels (or
`image_size`). Training takes a random box of 8 to 100 % of an image's area, mirrored with probability ½.
"""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import numpy as np

from tailmask._util.messages import UserError, require
from tailmask.data.dataset import Dataset, Split
from tailmask.data.digests import digest, file_digest
from tailmask.data.encoders.image import ImageEncoder
from tailmask.data.images.on_disk import check_paths
from tailmask.data.options import DataOptions
from tailmask.data.public.download import COCO2014, COCO2017, data_root, provide
from tailmask.data.readers.image_list import MEAN, STD, FileRows, file_rows, read_list_lines
from tailmask.data.readers.table.label_columns import (
    Labels,
    check_classes,
    labels_from_pairs,
    labels_from_tags,
    read_classes,
)
from tailmask.data.splits import stratified

__all__ = ["load_coco", "load_coco_mlt", "load_voc_mlt", "read_coco", "read_instances"]

SIDE, MIN_AREA = 224, 0.08


def load_coco(options: DataOptions) -> Dataset:
    """MSCOCO 2014 with its 80 classes, from `coco/annotations`, `coco/train2014` and `coco/val2014`."""
    root = provide(COCO2014, options) / "coco"
    parts = {}
    for split, year in (("train", "train2014"), ("test", "val2014")):
        file = root / "annotations" / f"instances_{year}.json"
        names, labels = read_instances(file)
        parts[split] = (file, root / year, names, labels)
    return _dataset("coco", parts, options)


def load_coco_mlt(options: DataOptions) -> Dataset:
    """COCO-MLT: 1909 images of COCO 2017 with a long tail, and its 5000 validation images."""
    lists = _published_lists(options, "coco")
    root = provide(COCO2017, options) / "coco"
    return _dataset("coco-mlt", _listed(root, *lists), options)


def load_voc_mlt(options: DataOptions) -> Dataset:
    """VOC-MLT: 1142 images of VOC 2012 with a long tail, and the 4952 test images of VOC 2007."""
    root = data_root(options)
    lists = _published_lists(options, "voc")
    if not (root / "VOCdevkit").is_dir():
        raise UserError(
            f"{root / 'VOCdevkit'} does not exist: unpack VOCtrainval_11-May-2012.tar and "
            f"VOCtest_06-Nov-2007.tar of http://host.robots.ox.ac.uk/pascal/VOC in {root}"
        )
    return _dataset("voc-mlt", _listed(root, *lists), options)


def read_coco(path: Path, options: DataOptions) -> tuple[FileRows, Labels]:
    """Images and labels of a user's file in COCO's format."""
    names, labels = read_instances(path)
    return file_rows(path, names, options), labels


def read_instances(path: Path) -> tuple[list[str], Labels]:
    """File names and labels of the images in an `instances_*.json`, including those without objects."""
    pycocotools = require("pycocotools.coco", extra="coco")
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # pycocotools prints how long it takes
            content: dict[str, Any] = pycocotools.COCO(str(path)).dataset
        images, categories = content["images"], sorted(content["categories"], key=lambda item: item["id"])
        names = [str(image["file_name"]) for image in images]
        row = {image["id"]: number for number, image in enumerate(images)}
        column = {category["id"]: number for number, category in enumerate(categories)}
        objects = [(row[item["image_id"]], column[item["category_id"]]) for item in content["annotations"]]
        classes = [str(category["name"]) for category in categories]
    except (ValueError, KeyError, TypeError, AttributeError, AssertionError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"[:120]
        if isinstance(error, AssertionError):  # pycocotools raises it if the file is another JSON value
            reason = "it holds no JSON object"
        raise UserError(
            f"{path} is not a whole file in COCO's format ({reason}): for a table, write a list of records"
        ) from error
    pairs = np.array(objects, dtype=np.int64).reshape(-1, 2)
    targets = labels_from_pairs(pairs[:, 0], pairs[:, 1], (len(names), len(classes)))
    return names, Labels(check_classes(classes, path), targets)


def _published_lists(options: DataOptions, prefix: str) -> tuple[Path, Path, tuple[str, ...]]:
    folder = data_root(options) / "coco_labels"
    train, test, names = (folder / f"{prefix}_{part}.txt" for part in ("lt_train", "lt_test", "labels"))
    for path in (train, test, names):
        if not path.is_file():
            raise UserError(
                f"{path} does not exist: put the published list there "
                "(https://github.com/richard-peng-xia/LMPT has it)"
            )
    return train, test, read_classes(names)


_Part = tuple[Path, Path, list[str], Labels]


def _listed(root: Path, train: Path, test: Path, classes: tuple[str, ...]) -> dict[str, _Part]:
    parts = {}
    for split, path in (("train", train), ("test", test)):
        names, tags = read_list_lines(path)
        parts[split] = (path, root, names, labels_from_tags(tags, path, classes=classes))
    return parts


def _dataset(name: str, parts: dict[str, _Part], options: DataOptions) -> Dataset:
    side = options.image_size or SIDE
    encoder = ImageEncoder(channels=3, height=side, width=side, mean=MEAN, std=STD)
    labels = {split: labels for split, (_, _, _, labels) in parts.items()}
    rows = {}
    for split, (path, folder, names, _) in parts.items():
        check_paths(folder, names, path)
        rows[split] = FileRows(folder, tuple(names), MIN_AREA, flip=True)
    train_index = np.arange(len(rows["train"]))
    validation = None
    if options.validation:
        train_index, held_out = stratified(labels["train"].targets, options.validation, options.data_seed)
        validation = Split(rows["train"].encode(encoder, held_out), labels["train"].take(held_out))
    test_index = np.arange(len(rows["test"]))
    return Dataset(
        name=name,
        classes=labels["train"].classes,
        train=Split(
            rows["train"].encode(encoder, train_index, training=True), labels["train"].take(train_index)
        ),
        validation=validation,
        test=Split(rows["test"].encode(encoder, test_index), labels["test"].take(test_index)),
        encoder=encoder,
        source={
            "name": name,
            "image_size": side,
            "validation": options.validation or 0.0,
            "data_seed": options.data_seed,
            "rows": digest(train_index),
            "files": {split: file_digest(path) for split, (path, _, _, _) in parts.items()},
        },
    )
