"""Features that tell a label by themselves are named; strong but honest ones, and rare labels, are not."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from scipy.sparse import csr_array, random_array

from tailmask.data import DataOptions, load
from tailmask.data.giveaway_features import FeatureSample, give_aways

ROWS = 400


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def told(values: np.ndarray | csr_array, labels: np.ndarray, categories: frozenset[int] = frozenset()):
    names = tuple(f"x{number}" for number in range(values.shape[1]))
    return give_aways(FeatureSample(names, values, categories), torch.from_numpy(labels.astype(np.int8)))


def churn(rows: int = ROWS, share: float = 0.2) -> np.ndarray:
    return rng().random(rows) < share


COPIES = {
    "a flag": lambda label: label * 1.0,
    "the other way round": lambda label: 1.0 - label,
    "with a few errors": lambda label: np.where(
        np.arange(len(label)) == np.flatnonzero(label)[0], 0, label * 1.0
    ),
    "a score": lambda label: label * 5 + rng().random(len(label)),
    "a falling score": lambda label: -5.0 * label + rng().random(len(label)),
    "a code between others": lambda label: np.where(label, 3, rng().choice([1, 2, 4, 5], len(label))) * 1.0,
    "missing but for positives": lambda label: np.where(label, rng().normal(size=len(label)), np.nan),
    "a score, missing for some negatives": lambda label: np.where(
        ~label & (rng().random(len(label)) < 0.3), np.nan, label * 5 + rng().random(len(label))
    ),
    "missing for positives, and for one negative in ten positives": lambda label: np.where(
        label | (rng().random(len(label)) < 0.1 * label.mean()), np.nan, rng().normal(size=len(label))
    ),
    "missing for positives": lambda label: np.where(label, np.nan, rng().normal(size=len(label))),
}


@pytest.mark.parametrize("make", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("share", [0.05, 0.2, 0.8])
def test_what_follows_from_a_label_is_found(make, share: float) -> None:
    label = churn(2000, share)
    other = np.random.default_rng(1).random((2000, 2)) < 0.4
    values = np.stack([rng().normal(size=2000), make(label)], axis=1)
    assert told(values, np.column_stack([other, label])) == {1: [2]}


HONEST = {
    "one deviation apart": lambda label: label + rng().normal(size=len(label)),
    "area under the curve of 0.99": lambda label: label * 3.3 + rng().normal(size=len(label)),
    "a code that is right in nine of ten": lambda label: np.where(
        rng().random(len(label)) < 0.9, label, ~label
    ),
    "numbers that tell rows apart": lambda label: np.arange(len(label)),
    "nothing": lambda label: rng().normal(size=len(label)),
    "the same everywhere": lambda label: np.ones(len(label)),
    "always missing": lambda label: np.full(len(label), np.nan),
    "missing for three of four positives": lambda label: np.where(
        label & (np.arange(len(label)) % 4 > 0), np.nan, rng().normal(size=len(label))
    ),
}


@pytest.mark.parametrize("make", HONEST.values(), ids=HONEST)
@pytest.mark.parametrize("share", [0.05, 0.2, 0.8])
@pytest.mark.parametrize("category", [False, True])
def test_honest_features_are_not(make, share: float, category: bool) -> None:
    label = np.random.default_rng(3).random(2000) < share
    values = make(label).astype(np.float64)[:, None]
    assert told(values, label[:, None], frozenset({0} if category else ())) == {}


def test_a_handful_of_positives_is_told_by_chance() -> None:
    labels = np.zeros((60, 1))
    labels[:4] = 1
    values = np.column_stack([labels[:, 0], rng().random((60, 500)) < 0.07])
    assert told(values.astype(np.float64), labels) == {}
    assert told(csr_array(values.astype(np.float64)), labels) == {}


def test_chance_does_not_do_it() -> None:
    """Many features and many labels without a relation, and a category that two rows share at most."""
    labels = rng().random((300, 30)) < np.geomspace(0.5, 0.05, 30)
    values = np.column_stack([np.random.default_rng(1).random((300, 300)), np.arange(300) // 2])
    values[:, :100] = values[:, :100] < 0.1
    assert told(values, labels, frozenset({300})) == {}


def test_unknown_labels_do_not_count() -> None:
    label = churn().astype(np.int8)
    values = np.column_stack([label * 1.0, label * 5 + rng().random(ROWS), rng().normal(size=ROWS)])
    hidden = np.where(np.arange(ROWS) % 3 == 0, -1, label)
    values[::3] = rng().integers(0, 2, size=(len(values[::3]), 3))
    assert told(values, hidden[:, None]) == {0: [0], 1: [0]}
    assert told(values, np.abs(hidden)[:, None]) == {}


def test_sparse_features() -> None:
    values = random_array((ROWS, 50), density=0.1, rng=rng()).toarray()
    label = churn()
    values[:, 7] = label * 2.5
    assert told(csr_array(values), label[:, None]) == {7: [0]}
    hidden = np.where(np.arange(ROWS) % 3 == 0, -1, label)
    values[::3, 7] = 1.0
    assert told(csr_array(values), hidden[:, None]) == {7: [0]}
    values[1::4, 7] = 1.0
    assert told(csr_array(values), hidden[:, None]) == {}


def test_tables_name_the_columns(tmp_path: Path) -> None:
    label = churn()
    frame = pl.DataFrame(
        {
            "age": rng().normal(size=ROWS).round(3),
            "churn_flag": label,
            "reason": [("price", "service")[i % 2] if gone else None for i, gone in enumerate(label)],
            "city": [("Bern", "Basel", "Zug")[i % 3] for i in range(ROWS)],
            "left_on": [f"2024-0{i % 9 + 1}-05" if gone else None for i, gone in enumerate(label)],
            "closed_on": ["2024-12-31" if gone else None for gone in label],
            "churn": label.astype(int),
            "late": (np.random.default_rng(5).random(ROWS) < 0.3).astype(int),
        }
    )
    frame.write_csv(tmp_path / "a.csv")
    dataset = load(tmp_path / "a.csv", DataOptions(labels="churn,late"))
    found = [note for note in dataset.notes if "by itself predicts" in note]
    assert [note.split("'")[1] for note in found] == ["churn_flag", "left_on", "closed_on", "reason"]
    assert all("by itself predicts churn almost" in note for note in found)
    clean = load(tmp_path / "a.csv", DataOptions(labels="churn,late", drop="churn_flag,reason,*_on"))
    assert not [note for note in clean.notes if "by itself predicts" in note]


def test_arrays_number_the_features_and_many_share_a_note(tmp_path: Path) -> None:
    label = churn()
    X = np.column_stack([rng().normal(size=(ROWS, 2)), label])
    np.savez(tmp_path / "a.npz", X=X, Y=label[:, None].astype(np.int8), classes=np.array(["churn"]))
    (note,) = [note for note in load(tmp_path / "a.npz").notes if "by itself predicts" in note]
    assert note.startswith("'feature 2' by itself predicts churn almost")
    np.savez(tmp_path / "b.npz", X=np.tile(X, 6), Y=label[:, None].astype(np.int8))
    (note,) = [note for note in load(tmp_path / "b.npz").notes if "by itself predicts" in note]
    assert note.startswith("each of 6 features (feature 2, feature 5,")


@pytest.mark.parametrize("name", ["yeast", "scene", "emotions", "medical", "enron", "tmc2007"])
def test_public_sets_are_honest(real_data: Path, name: str) -> None:
    dataset = load(real_data / "mulan" / name)
    assert not [note for note in dataset.notes if "by itself predicts" in note]


def test_a_conference_is_told_by_its_name(real_data: Path) -> None:
    """All papers of StatPhys 23, and no others, say that it was the 23rd conference of the IUPAP."""
    notes = [note for note in load(real_data / "mulan" / "bibtex").notes if "by itself predicts" in note]
    assert [note.split(" almost")[0] for note in notes] == [
        f"'{word}' by itself predicts TAG_statphys23" for word in ("iupap", "xxiii")
    ]


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_many_features_and_labels_take_seconds(form) -> None:
    values = form(np.where(rng().random((2000, 3000)) < 0.05, 1.0, 0.0))
    labels = rng().random((2000, 300)) < 0.05
    start = time.process_time()
    assert told(values, labels) == {}
    assert time.process_time() - start < 20
