"""Table 2, whose images are not at hand here: the whole recipe on a small drawn set in COCO's format."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tailmask.data import DataOptions
from tailmask.paper import Request, reproduce
from tailmask.paper.published_numbers import load_paper
from tailmask.runs import Run

NUM_CLASSES = 80


def write_part(root: Path, part: str, number: int, *, seed: int) -> np.ndarray:
    """Images with a patch of its own colour for each label, and their annotations; the labels (N, C)."""
    generator = np.random.default_rng(seed)
    shares = np.geomspace(0.6, 0.05, NUM_CLASSES)
    labels = generator.random((number, NUM_CLASSES)) < shares
    labels[np.arange(NUM_CLASSES) % number, np.arange(NUM_CLASSES)] = True  # every class is present
    colours = np.random.default_rng(0).integers(256, size=(NUM_CLASSES, 3), dtype=np.uint8)
    (root / part).mkdir(parents=True)
    for i, row in enumerate(labels):
        pixels = np.zeros((NUM_CLASSES, 3), dtype=np.uint8)
        pixels[row] = colours[row]
        image = Image.fromarray(pixels.reshape(8, 10, 3)).resize((40, 32), Image.Resampling.NEAREST)
        image.save(root / part / f"{i}.png")
    content = {
        "images": [{"id": i, "file_name": f"{i}.png", "width": 40, "height": 32} for i in range(number)],
        "annotations": [
            {"id": NUM_CLASSES * int(i) + int(c), "image_id": int(i), "category_id": int(c) + 1}
            for i, c in np.argwhere(labels)
        ],
        "categories": [{"id": c + 1, "name": f"thing {c}"} for c in range(NUM_CLASSES)],
    }
    (root / "annotations").mkdir(exist_ok=True)
    (root / "annotations" / f"instances_{part}.json").write_text(json.dumps(content))
    return labels


@pytest.mark.long
def test_table_2_is_made_from_images_in_coco_format(tmp_path: Path) -> None:
    labels = write_part(tmp_path / "coco", "train2014", 24, seed=1)
    write_part(tmp_path / "coco", "val2014", 16, seed=2)
    options = DataOptions(data_dir=tmp_path, download=False, image_size=32)
    methods = ("bce", "plm", "plm+bce+undersample")
    request = Request(
        options=options, fields=("schedule.epochs=1", "schedule.batch_size=12"), methods=methods
    )
    made = reproduce("table2", request, jobs=1, out=tmp_path / "results", runs=tmp_path / "runs")
    assert made.failures == ()
    (table,) = made.result["tables"]
    assert [row["label"] for row in table["rows"]] == list(load_paper()["table2"]["rows"])
    for row in table["rows"]:
        assert {cell["n"] for cell in row["cells"]} == {int(row["label"] in methods)}
        assert all(0 <= cell["mean"] <= 100 for cell in row["cells"] if cell["n"])
        assert [cell["paper"] for cell in row["cells"]] == load_paper()["table2"]["rows"][row["label"]]
    run = Run(next((tmp_path / "runs").glob("*/plm_seed=0")))
    recipe = run.config["recipe"]
    assert (recipe["model"]["name"], recipe["optimizer"]["lr"]) == ("resnet50", 0.4)
    assert run.config["method"] == "plm:rate=0.01,ratio_range=0..1"
    # The paper clips ratios to [0, 1] from the first batch on; above 1 only classes with most images are.
    positives = labels.sum(axis=0)
    expected = np.minimum(positives / (len(labels) - positives), 1)
    assert run.history[0]["ratio"] == pytest.approx(expected.tolist(), rel=1e-4)
    assert len(run.metrics["test"]["per_class"]["f1"]) == NUM_CLASSES
