"""`goemotions`: Reddit comments with 28 emotions (Demszky et al. 2020), as TF-IDF.

The three published files are read like a user's own files. It is the same as

    tailmask data train.tsv --no-header --text 0 --features 0 --label-column 1 --classes labels.txt
        --validation-file dev.tsv --test-file test.tsv

The published comparisons were made with hashed counts: `--encoding standard-1`.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from tailmask.data.dataset import Dataset
from tailmask.data.options import DataOptions
from tailmask.data.public.download import GOEMOTIONS, provide
from tailmask.data.readers.user_file import load_file

__all__ = ["load_goemotions"]

EMOTIONS = Path(__file__).with_name("goemotions.txt")


def load_goemotions(options: DataOptions) -> Dataset:
    """GoEmotions with its official splits of 43410, 5426 and 5427 comments."""
    folder = provide(GOEMOTIONS, options) / "goemotions"
    options = dataclasses.replace(
        options,
        no_header=True,
        text="0",
        features="0",
        label_column="1",
        separator=",",
        classes=EMOTIONS,
        validation_file=folder / "dev.tsv",
        test_file=folder / "test.tsv",
    )
    dataset = load_file(folder / "train.tsv", options)
    return dataclasses.replace(dataset, name="goemotions", source={**dataset.source, "name": "goemotions"})
