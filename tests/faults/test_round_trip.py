"""What a model was trained on is what `predict` reads: random files, there and back, without a difference."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from torch import Tensor

from faults.random_arrays import arff_forms, array_forms
from faults.random_tables import RandomTable, random_table
from tailmask._util.messages import UserError
from tailmask.data import DataOptions, Dataset, Encoder, load
from tailmask.data.dataset import Split
from tailmask.data.encoders.table import TableEncoder
from tailmask.data.facts import DataFacts
from tailmask.inference import load_predictor
from tailmask.learners.cross_fitted_run import make_run
from tailmask.runs import configure

FEW, MANY = 40, 4000
RUNS = 40


def inputs(split: Split) -> Tensor:
    return split.batch(torch.arange(len(split)))[0]


def sorted_rows(rows: Tensor) -> list[list[float]]:
    return sorted(rows.tolist())


def new_inputs(dataset: Dataset, path: Path, batch_size: int) -> Tensor:
    """What `predict` makes of a file, with the encoder as a model's file has it."""
    encoder = Encoder.from_json(json.loads(json.dumps(dataset.encoder.to_json(), allow_nan=False)))
    return torch.cat(list(encoder.batches(path, batch_size)))


def check(dataset: Dataset, path: Path, seed: int) -> None:
    """The file gives `predict` the inputs that the splits have, bit for bit; all rows are test rows."""
    content = path.read_bytes()[:2000] if path.suffix != ".npz" else b""
    told = f"seed {seed}, {path.name}:\n{content.decode(errors='replace')}"
    for batch_size in (1 + seed % 7, 1024):
        new = new_inputs(dataset, path, batch_size)
        assert torch.equal(new, inputs(dataset.test)), told
    parts = [inputs(split) for name, split in dataset.splits.items() if name != "test"]
    assert sorted_rows(torch.cat(parts)) == sorted_rows(new), told


def check_numbers(dataset: Dataset, file: RandomTable, seed: int) -> None:
    """Columns that hold numbers are read as those numbers, in any notation."""
    assert isinstance(dataset.encoder, TableEncoder)
    found = inputs(dataset.test).double().numpy()
    columns = {column.name: column for column in dataset.encoder.columns}
    reasons = ("training", "training rows", "looks like an ID")
    for name, numbers in file.numbers.items():
        told = f"seed {seed}, {file.path.name}, column {name}"
        if name not in columns:
            (use,) = [use for use in dataset.columns if use.name == name]
            assert any(reason in use.detail for reason in reasons), told
            continue
        column, place = columns[name], dataset.encoder.outputs.index(name)
        assert column.kind == "number", told
        z = [0.0 if each is None else (each - column.scale.center) / column.scale.spread for each in numbers]
        expected = [each / (1 + (each / 3) ** 2) ** 0.5 for each in z]
        np.testing.assert_allclose(found[:, place], expected, rtol=1e-5, atol=1e-6, err_msg=told)


def table_round_trip(seed: int, folder: Path) -> bool:
    """Whether a random table was taken; if it was, it makes the round trip."""
    file = random_table(seed, folder)
    try:
        dataset = load(file.path, replace(file.options, test_file=file.path))
    except UserError:
        return False
    check(dataset, file.path, seed)
    check_numbers(dataset, file, seed)
    file.path.unlink()
    return True


def tables(seeds: range, folder: Path) -> None:
    taken = sum(table_round_trip(seed, folder) for seed in seeds)
    assert taken > 0.8 * len(seeds)


def same_form(make: Callable[[int, Path], dict[str, Path]], form: str, seeds: range, folder: Path) -> None:
    for seed in seeds:
        path = make(seed, folder)[form]
        check(load(path, DataOptions(labels="l,m", test_file=path, validation=0.2)), path, seed)


def other_form(
    make: Callable[[int, Path], dict[str, Path]], forms: tuple[str, str], seeds: range, folder: Path
) -> None:
    for seed in seeds:
        paths = make(seed, folder)
        first, second = (paths[form] for form in forms)
        dataset = load(first, DataOptions(labels="l,m", test_file=first, validation=0))
        told = f"seed {seed}: {first.name} and {second.name}"
        for batch_size in (5, 1024):
            new = new_inputs(dataset, second, batch_size)
            np.testing.assert_allclose(new, inputs(dataset.test), rtol=1e-5, atol=1e-5, err_msg=told)


SAME = [(array_forms, "dense"), (array_forms, "sparse"), (arff_forms, "dense"), (arff_forms, "sparse")]
OTHER = [
    (array_forms, ("sparse", "dense")),
    (array_forms, ("dense", "sparse")),
    (array_forms, ("dense", "by columns")),
    (array_forms, ("by columns", "by columns")),
    (arff_forms, ("sparse", "dense")),
    (arff_forms, ("dense", "sparse")),
]


def test_some_tables(tmp_path: Path) -> None:
    tables(range(10**7, 10**7 + FEW), tmp_path)


@pytest.mark.long
def test_many_tables(tmp_path: Path) -> None:
    tables(range(MANY), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(("make", "form"), SAME)
def test_many_arrays(tmp_path: Path, make: Callable[[int, Path], dict[str, Path]], form: str) -> None:
    same_form(make, form, range(MANY // 8), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(("make", "forms"), OTHER)
def test_many_arrays_in_another_form(
    tmp_path: Path, make: Callable[[int, Path], dict[str, Path]], forms: tuple[str, str]
) -> None:
    other_form(make, forms, range(MANY // 16), tmp_path)


@pytest.mark.long
def test_lists_and_durations_are_refused_or_dropped(tmp_path: Path) -> None:
    for cell in ([1, 2], ["a"], timedelta(hours=3), {"a": 1}, b"a"):
        frame = pl.DataFrame({"x": range(20), "odd": [cell] * 20, "l": [0, 1] * 10})
        path = tmp_path / "a.parquet"
        frame.write_parquet(path)
        for options in (DataOptions(labels="l"), DataOptions(labels="l", text="odd")):
            with pytest.raises(UserError, match="'odd'"):
                load(path, options)
        dataset = load(path, DataOptions(labels="l", drop="odd", test_file=path, validation=0.2))
        check(dataset, path, 0)


@pytest.mark.long
@pytest.mark.parametrize(
    ("method", "folds"),
    [("bce", 1), ("bce", 2), ("linear:C=1", 2), ("trees:trees=5", 2), ("boost:rounds=5", 2)],
)
def test_predict_gives_the_outputs_of_training(tmp_path: Path, method: str, folds: int) -> None:
    taken = 0
    for seed in range(2 * 10**7, 2 * 10**7 + RUNS):
        file = random_table(seed, tmp_path)
        options = replace(file.options, test_file=file.path)
        fields = ["model.hidden=[4]"] if method == "bce" else []
        try:
            facts = DataFacts.of(load(file.path, options))
            config = configure(
                str(file.path), method, epochs=1, fields=fields, options=options, folds=folds, facts=facts
            )
            run = make_run(config, tmp_path / f"run{seed}")
        except UserError:
            continue
        taken += 1
        predictor = load_predictor(run.folder)
        logits = torch.cat([predictor.outputs(batch)[1] for batch in predictor.batches(file.path)])
        stored = torch.from_numpy(run.predictions()["test_logits"])
        assert torch.equal(logits, stored), f"seed {seed}, {file.path.name}"
    assert taken > 0.7 * RUNS
