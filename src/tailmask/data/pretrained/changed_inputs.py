"""A data set with other inputs in all splits: those that a pretrained model takes or gives."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tailmask.data.dataset import Dataset, Inputs
from tailmask.data.encoders.encoder import Encoder
from tailmask.data.rows import RawData

__all__ = ["with_inputs"]


def with_inputs(
    dataset: Dataset,
    inputs: Mapping[str, Inputs],
    encoder: Encoder,
    *,
    backbone: Mapping[str, str],
    note: str,
    raw: RawData | None = None,
) -> Dataset:
    """The data set with these inputs by split.

    `backbone` is the model's name and digest, for the data set's source; `note` becomes its first note.
    """
    splits = {name: dataclasses.replace(split, inputs=inputs[name]) for name, split in dataset.splits.items()}
    return dataclasses.replace(
        dataset,
        train=splits["train"],
        validation=splits.get("validation"),
        test=splits["test"],
        encoder=encoder,
        source={**dataset.source, "backbone": dict(backbone)},
        notes=(note, *dataset.notes),
        raw=raw,
    )
