"""RCV1 from a stand-in for scikit-learn's function, which would download it: splits, sparsity, no pickles."""

from __future__ import annotations

import inspect
import json
import pickle
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
import sklearn.datasets
import torch
from scipy.sparse import csr_array, csr_matrix
from sklearn.utils import Bunch

from tailmask._util.messages import UserError
from tailmask.data import DataOptions, Encoder, load

TOPICS = ["C11", "C12", "CCAT", "GCAT"]
SIZES = {"train": 200, "test": 500}
NUM_WORDS = 30

real_signature = inspect.signature(sklearn.datasets.fetch_rcv1)


def part_of(subset: str) -> Bunch:
    """What `fetch_rcv1` documents that it returns."""
    rng = np.random.default_rng(len(subset))
    words = rng.random((SIZES[subset], NUM_WORDS)) * (rng.random((SIZES[subset], NUM_WORDS)) < 0.2)
    topics = rng.random((SIZES[subset], len(TOPICS))) < [0.05, 0.2, 0.5, 0.7]
    return Bunch(
        data=csr_matrix(words),
        target=csr_matrix(topics.astype(np.uint8)),
        sample_id=np.arange(SIZES[subset], dtype=np.uint32),
        target_names=np.array(TOPICS, dtype=object),
        DESCR="",
    )


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The stand-in in place of the function, and the parts that were asked of it."""
    asked: list[str] = []

    def fetch_rcv1(**arguments: object) -> Bunch:
        chosen = real_signature.bind(**arguments).arguments
        asked.append(chosen["subset"])
        Path(chosen["data_home"], "samples.pkl").write_bytes(pickle.dumps("what it keeps"))
        return part_of(chosen["subset"])

    monkeypatch.setattr(sklearn.datasets, "fetch_rcv1", fetch_rcv1)
    return asked


def test_the_official_split_stays_sparse(calls: list[str], tmp_path: Path) -> None:
    dataset = load("rcv1", DataOptions(data_dir=tmp_path, validation=0))
    assert dataset.classes == tuple(TOPICS)
    assert dataset.shape == dataset.encoder.shape == (NUM_WORDS,)
    assert not dataset.single_label
    assert dataset.validation is None
    for name, split in dataset.splits.items():
        expected = part_of(name)
        assert len(split) == SIZES[name]
        assert isinstance(split.inputs, csr_array)
        assert isinstance(split.targets, csr_array)
        assert (split.inputs.dtype, split.targets.dtype) == (np.float32, np.int8)
        np.testing.assert_array_equal(split.inputs.toarray(), expected.data.toarray().astype(np.float32))
        np.testing.assert_array_equal(split.targets.toarray(), expected.target.toarray())
        inputs, targets = split.batch(torch.tensor([3, 1]))
        assert inputs.dtype == targets.dtype == torch.float32
        np.testing.assert_array_equal(targets.numpy(), expected.target.toarray()[[3, 1]])


def test_validation_is_a_tenth_of_training_with_its_labels(calls: list[str], tmp_path: Path) -> None:
    dataset = load("rcv1", DataOptions(data_dir=tmp_path))
    assert {name: len(split) for name, split in dataset.splits.items()} == {
        "train": 180,
        "validation": 20,
        "test": 500,
    }
    both = dataset.train.counts() + dataset.validation.counts()
    assert both[1].tolist() == part_of("train").target.sum(axis=0).tolist()[0]
    assert (dataset.validation.counts()[1] > 0).all()
    larger = load("rcv1", DataOptions(data_dir=tmp_path, validation=0.25))
    assert (len(larger.train), len(larger.validation)) == (150, 50)
    assert isinstance(larger.validation.inputs, csr_array)


def test_it_is_fetched_once_and_no_pickle_is_kept(calls: list[str], tmp_path: Path) -> None:
    first = load("rcv1", DataOptions(data_dir=tmp_path))
    again = load("rcv1", DataOptions(data_dir=tmp_path, download=False))
    other = load("rcv1", DataOptions(data_dir=tmp_path, data_seed=1))
    assert calls == ["train", "test"]
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["rcv1", "test.npz", "train.npz"]
    assert first.source == again.source == json.loads(json.dumps(again.source))
    assert first.source["digest"] == other.source["digest"]
    assert (first.train.inputs != again.train.inputs).nnz == 0
    assert (first.train.inputs != other.train.inputs).nnz > 0


def test_new_stories_are_read_as_the_old(calls: list[str], tmp_path: Path) -> None:
    dataset = load("rcv1", DataOptions(data_dir=tmp_path))
    encoder = Encoder.from_json(json.loads(json.dumps(dataset.encoder.to_json())))
    rows = torch.cat(list(encoder.batches(tmp_path / "rcv1" / "test.npz", 64)))
    assert torch.equal(rows, dataset.test.batch(torch.arange(500))[0])


@pytest.mark.parametrize("error", [URLError("no network"), OSError("the checksum differs")])
def test_a_download_that_fails_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: OSError
) -> None:
    def fail(**_: object) -> Bunch:
        raise error

    monkeypatch.setattr(sklearn.datasets, "fetch_rcv1", fail)
    with pytest.raises(UserError) as caught:
        load("rcv1", DataOptions(data_dir=tmp_path))
    place = tmp_path / "rcv1"
    facts = (f"rcv1 is not in {tmp_path}", type(error).__name__, "run tailmask data rcv1", str(place))
    assert all(fact in str(caught.value) for fact in facts)
    assert not list(place.iterdir())


def test_no_download_is_tried_where_none_is_wanted(calls: list[str], tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"rcv1 is not in \S+: run tailmask data rcv1 "):
        load("rcv1", DataOptions(data_dir=tmp_path, download=False))
    assert calls == []
    assert not list(tmp_path.iterdir())
