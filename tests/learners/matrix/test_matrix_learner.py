"""All learners on a matrix: their encoders, prior shifts, and storage that refuses what is damaged."""

from __future__ import annotations

import hashlib
import json
import shutil

import numpy as np
import polars as pl
import pytest
import scipy.sparse
import torch
from safetensors.numpy import load_file, save_file

from tailmask._util.messages import UserError
from tailmask._util.registry import find_words
from tailmask.data.rows import Rows
from tailmask.learners.cross_fitting import FoldModels
from tailmask.learners.ensemble import Combination, Ensemble
from tailmask.learners.matrix.forest import ForestLearner
from tailmask.learners.matrix.linear import LinearLearner
from tailmask.learners.matrix.row_encoders import encoder_from_json, fit_encoder
from tailmask.learners.protocol import Deadline
from tailmask.learners.stored_models import load_fitted

QUICK = {
    "linear": {"C": 1.0, "pos_power": 0.5},
    "trees": {"trees": 7},
    "boost": {"rounds": 5, "pos_power": 0.5},
}
LEARNERS = {
    name: word.builder(**QUICK.get(name, {}))
    for name, word in find_words().items()
    if word.module.startswith("tailmask.learners.matrix.")
}
FORMS = {"dense": np.asarray, "sparse": scipy.sparse.csr_array}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", LEARNERS)
def test_what_is_loaded_gives_the_same_logits(partly_known, tmp_path, name, form):
    matrix, targets = partly_known
    rows = Rows(FORMS[form](matrix), targets)
    fitted = LEARNERS[name].fit(rows, seed=0)
    fitted.save(tmp_path / "model")
    unlabelled = Rows(FORMS[form](matrix[:30]))
    assert torch.equal(load_fitted(tmp_path / "model").logits(unlabelled), fitted.logits(rows)[:30])
    with pytest.raises(UserError):  # never overwritten
        fitted.save(tmp_path / "model")


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("fitted_on", FORMS)
def test_dense_and_sparse_rows_give_the_same_logits(problem, name, fitted_on):
    matrix, targets = problem
    matrix = np.where(np.abs(matrix) < 0.5, 0, matrix)
    fitted = LEARNERS[name].fit(Rows(FORMS[fitted_on](matrix), targets), seed=0)
    dense, sparse = (fitted.logits(Rows(form(matrix))) for form in FORMS.values())
    torch.testing.assert_close(dense, sparse)


def test_missing_values_are_kept_for_trees_and_become_the_mean_for_linear_models():
    values = np.array([[1.0, np.nan], [3.0, 5.0]])
    raw, scaled = (fit_encoder(Rows(values), form).encode(Rows(values)) for form in ("raw", "scaled"))
    np.testing.assert_array_equal(raw, values.astype(np.float32))
    np.testing.assert_array_equal(scaled, [[-1, 0], [1, 0]])
    sparse = scipy.sparse.csr_array(values)
    assert fit_encoder(Rows(sparse), "raw").encode(Rows(sparse)).toarray()[0, 1] == 0
    assert np.isnan(sparse.toarray()[0, 1])  # the caller's rows are not changed


@pytest.mark.parametrize(
    "features", [pl.DataFrame({"a": ["x"]}), np.array([["x"]]), np.array([[np.inf]]), np.array([[1e300]])]
)
def test_features_that_are_no_numbers_are_refused(features):
    with pytest.raises(UserError):
        fit_encoder(Rows(features), "raw").encode(Rows(features))


def test_other_numbers_of_features_are_refused(problem):
    fitted = LinearLearner(C=1.0).fit(Rows(*problem), seed=0)
    with pytest.raises(UserError):
        fitted.logits(Rows(problem[0][:, :3]))


def test_prior_shift_brings_weighted_outputs_back_to_the_prevalence():
    generator = np.random.default_rng(0)
    matrix = generator.normal(size=(2000, 4))
    targets = (matrix[:, :2] + generator.normal(size=(2000, 2)) > [1, 1.5]).astype(np.int8)
    rows = Rows(matrix, targets)
    fitted = LinearLearner(C=1.0, pos_power=1.0).fit(rows, seed=0)
    logits, unshifted = fitted.logits(rows), fitted.model.logits(fitted.encoder.encode(rows))
    weights = (targets == 0).sum(0) / (targets == 1).sum(0)
    np.testing.assert_allclose(logits, unshifted.numpy() - np.log(weights), rtol=1e-5, atol=1e-5)
    excess = [np.abs(each.sigmoid().numpy().mean(0) - targets.mean(0)) for each in (logits, unshifted)]
    assert (excess[0] < 0.02).all()
    assert (excess[1] > 0.05).all()


def test_deadline_reaches_the_fit(problem):
    forest = ForestLearner(trees=500).fit(Rows(*problem), seed=0, deadline=Deadline.after(0))
    assert len(forest.model.trees.roots) < 10


def test_rows_without_targets_cannot_be_fitted(problem):
    with pytest.raises(ValueError, match="targets"):
        LinearLearner().fit(Rows(problem[0]), seed=0)


@pytest.fixture
def stored(problem, tmp_path):
    rows = Rows(*problem)
    parts = tuple(FoldModels((LinearLearner(C=c).fit(rows, seed=0),) * 2) for c in (0.1, 1.0))
    combination = Combination(np.array([0.25, 0.75]), np.ones((2, 4)), np.zeros((2, 4)))
    Ensemble(parts, combination).save(tmp_path / "model")
    return tmp_path / "model"


def change_json(path, **changes):
    value = json.loads(path.read_text())
    path.write_text(json.dumps({**value, **changes}))


def test_ensembles_of_fold_models_are_loaded_whole(stored, problem):
    rows = Rows(*problem)
    first, second = (LinearLearner(C=c).fit(rows, seed=0).logits(rows) for c in (0.1, 1.0))
    torch.testing.assert_close(load_fitted(stored).logits(rows), 0.25 * first + 0.75 * second)


FORGERIES = {
    "no description": lambda folder: (folder / "fitted.json").unlink(),
    "no arrays": lambda folder: (folder / "arrays.safetensors").unlink(),
    "no part": lambda folder: shutil.rmtree(folder / "part-1"),
    "empty description": lambda folder: (folder / "fitted.json").write_text("{}"),
    "a list": lambda folder: (folder / "fitted.json").write_text("[]"),
    "deep JSON": lambda folder: (folder / "fitted.json").write_text("[" * 100_000),
    "NaN": lambda folder: (folder / "fitted.json").write_text('{"format": NaN}'),
    "no text": lambda folder: (folder / "fitted.json").write_bytes(b"\xff\xfe\x00"),
    "unknown kind": lambda folder: change_json(folder / "fitted.json", kind="os:system"),
    "kind is a list": lambda folder: change_json(folder / "fitted.json", kind=["linear"]),
    "kind of another model": lambda folder: change_json(folder / "fitted.json", kind="trees"),
    "parts is a number": lambda folder: change_json(folder / "fitted.json", parts=10**9),
    "a part fewer": lambda folder: change_json(folder / "fitted.json", parts=[]),
    "swapped parts": lambda folder: [
        (folder / "part-0").rename(folder / "x"),
        (folder / "part-1").rename(folder / "part-0"),
        (folder / "x").rename(folder / "part-1"),
    ],
    "changed arrays": lambda folder: (folder / "arrays.safetensors").write_bytes(
        (folder / "arrays.safetensors").read_bytes()[:-1] + b"\x01"
    ),
    "changed arrays of a part": lambda folder: save_file(
        {"bias": np.zeros(3)}, folder / "part-0" / "part-1" / "arrays.safetensors"
    ),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_damaged_folders_are_refused(stored, forgery):
    FORGERIES[forgery](stored)
    with pytest.raises(UserError):
        load_fitted(stored)


def forge(folder, *, fields=None, **arrays):
    """Change a stored model and correct its checksum, as somebody with bad intent would."""
    path = folder / "arrays.safetensors"
    save_file({**load_file(path), **arrays}, path)
    change_json(folder / "fitted.json", arrays=hashlib.sha256(path.read_bytes()).hexdigest())
    if fields is not None:
        change_json(folder / "fitted.json", fields=fields)


@pytest.mark.parametrize(
    "changes",
    [
        {"fields": {}},
        {"fields": {"encoder": None}},
        {"fields": {"encoder": {"kind": "raw arrays", "width": 9, "sparse": False}}},
        {"fields": {"encoder": {"kind": "raw arrays", "width": "6", "sparse": False}}},
        {"fields": {"encoder": {"kind": "arrays", "num_features": 6}}},
        {"fields": {"encoder": {"kind": "images"}}},
        {"prior_shift": np.zeros(3, np.float32)},
        {"prior_shift": np.full(4, np.nan, np.float32)},
        {"model.bias": np.zeros(4, np.float64)},
        {"model.weights": np.zeros((5, 4), np.float32)},
    ],
    ids=str,
)
def test_forged_models_are_refused(problem, tmp_path, changes):
    LinearLearner(C=1.0).fit(Rows(*problem), seed=0).save(tmp_path / "model")
    forge(tmp_path / "model", **changes)
    with pytest.raises(UserError):
        load_fitted(tmp_path / "model")


@pytest.mark.parametrize(
    "changes",
    [
        {"weights": np.array([0.5, 0.6])},
        {"weights": np.array([-1.0, 2.0])},
        {"weights": np.array([1.0])},
        {"slopes": -np.ones((2, 4))},
        {"offsets": np.zeros((2, 3))},
    ],
    ids=str,
)
def test_forged_ensembles_are_refused(stored, changes):
    forge(stored, **changes)
    with pytest.raises(UserError):
        load_fitted(stored)


def test_encoders_survive_json(problem):
    for form in ("raw", "scaled"):
        encoder = fit_encoder(Rows(problem[0]), form)
        again = encoder_from_json(json.loads(json.dumps(encoder.to_json())))
        np.testing.assert_array_equal(again.encode(Rows(problem[0])), encoder.encode(Rows(problem[0])))
