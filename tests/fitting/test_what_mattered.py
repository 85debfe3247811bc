"""The ablation against scores made by hand, and permutation importance against scikit-learn's."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from scipy.sparse import csr_array
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression

from tailmask._util.messages import UserError
from tailmask.cli import main
from tailmask.data.row_formats import ArrayFormat, table_format
from tailmask.data.rows import RawData, Rows
from tailmask.fitting import ArmScores, fit, load_model
from tailmask.fitting.ablation import what_mattered
from tailmask.fitting.importance import feature_importance
from tailmask.fitting.leaderboard import ModelScores
from tailmask.learners.cross_fitting import FoldModels
from tailmask.learners.folds import Folds
from tailmask.methods import parse


def arm(method: str, f1: float, precision: float, *, f1_at_half: float | None = None) -> ArmScores:
    scores = ModelScores(f1, None, precision, 0.0, 0.0)
    return ArmScores(method, scores, scores, 1.0, f1_at_half)


def test_each_step_gains_over_its_own_partner() -> None:
    scores = [arm("ensemble", 0.7, 0.8), arm("plm+boost", 0.66, 0.7), arm("boost", 0.6, 0.75)]
    scores += [arm("plm", 0.5, 0.5), arm("bce", 0.4, 0.6, f1_at_half=0.3)]
    methods = {name: parse(name) for name in ("boost", "plm+boost", "bce", "plm")}
    steps = {step.name: step for step in what_mattered(scores, methods)}
    assert list(steps) == ["baseline", "thresholds", "learner", "masking", "ensemble"]
    found = {
        name: (step.method, step.against, round(step.f1_gain, 6), round(step.map_gain, 6))
        for name, step in steps.items()
        if step.f1_gain is not None and step.map_gain is not None
    }
    assert found == {
        "thresholds": ("bce", "bce at 0.5", 0.1, 0.0),
        "learner": ("plm+boost", "bce", 0.26, 0.1),
        "masking": ("plm+boost", "boost", 0.06, -0.05),
        "ensemble": ("ensemble", "plm+boost", 0.04, 0.1),
    }


def test_steps_that_the_methods_cannot_show_are_left_out() -> None:
    steps = what_mattered([arm("linear", 0.5, 0.5)], {"linear": parse("linear")})
    assert [(step.name, step.decision) for step in steps] == [("baseline", "most probable")]


@dataclass(frozen=True, eq=False)
class Logistic:
    """A fitted estimator of scikit-learn as a model of one label."""

    model: LogisticRegression

    def logits(self, rows: Rows) -> torch.Tensor:
        values = rows.features.toarray() if hasattr(rows.features, "toarray") else rows.features
        return torch.from_numpy(self.model.decision_function(values)).float()[:, None]

    def save(self, folder: Path) -> None:
        raise NotImplementedError


@pytest.mark.parametrize("form", [np.asarray, csr_array], ids=["dense", "sparse"])
def test_drops_agree_with_scikit_learn(form) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(1500, 3))
    target = (values @ [2.0, 1.0, 0.0] + rng.normal(size=1500) > 1).astype(np.int8)
    model = LogisticRegression().fit(values[:500], target[:500])
    rows = Rows(form(values), target[:, None], format=ArrayFormat("X", 3, ("a", "b", "c")))
    raw = RawData(rows, rows, num_train=500)
    folds = Folds(np.where(np.arange(1500) < 500, -1, 0), 1)
    found = feature_importance(FoldModels((Logistic(model),)), raw, folds, labels=["y"], seed=0)
    expected = permutation_importance(
        model, values[500:], target[500:], scoring="average_precision", n_repeats=20, random_state=0
    )
    drops = {each.feature: each.map_drop for each in found.features}
    tolerance = 4 * expected.importances_std.max()
    np.testing.assert_allclose(
        [drops["a"], drops["b"], drops["c"]], expected.importances_mean, atol=tolerance
    )
    assert [each.feature for each in found.features] == ["a", "b", "c"]
    assert found.rows == 1000
    again = feature_importance(FoldModels((Logistic(model),)), raw, folds, labels=["y"], seed=0)
    assert again == found


@dataclass(frozen=True, eq=False)
class Reads:
    """A model whose logit is one column of a table."""

    column: str

    def logits(self, rows: Rows) -> torch.Tensor:
        return torch.tensor(rows.features[self.column].to_list())[:, None]

    def save(self, folder: Path) -> None:
        raise NotImplementedError


def test_each_row_is_predicted_by_the_model_of_its_own_fold() -> None:
    """Fold 0 reads one column and fold 1 the other; either alone tells the label only in its own fold."""
    label = np.arange(200) % 4 == 0
    number = np.arange(200) // 100
    noise = np.random.default_rng(0).normal(size=200)
    frame = pl.DataFrame({"a": np.where(number == 0, label, noise), "b": np.where(number == 1, label, noise)})
    rows = Rows(frame, label[:, None].astype(np.int8), format=table_format(frame))
    models = FoldModels((Reads("a"), Reads("b")))
    found = feature_importance(
        models, RawData(rows, rows, num_train=200), Folds(number, 2), labels=["y"], seed=0
    )
    assert found.average_precision == (1.0,)


@pytest.fixture(scope="module")
def leaky(tmp_path_factory) -> Path:
    """Only `size` matters for big; `code` is a copy of the label `rare`, and `noise` is neither."""
    rng = np.random.default_rng(1)
    size, noise = rng.normal(size=(2, 240))
    rare = rng.random(240) < 0.15
    path = tmp_path_factory.mktemp("leaky") / "leaky.csv"
    pl.DataFrame(
        {
            "size": size,
            "noise": noise,
            "code": np.where(rare, "x", "y"),
            "big": (size + rng.normal(size=240) > 0).astype(int),
            "rare": rare.astype(int),
        }
    ).write_csv(path)
    return path


def test_a_leak_is_named_and_everything_is_kept(leaky: Path, capsys) -> None:
    out = leaky.parent / "model"
    arguments = ["fit", str(leaky), "--labels", "big,rare", "--folds", "3", "--out", str(out)]
    arguments += ["--methods", "linear:C=1", "trees:trees=10"]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert "rare depend almost only on 'code'" in printed
    assert "thresholds: linear:C=1" in printed
    result = load_model(out)
    importance = {each.feature: each for each in result.importance.features}
    assert importance["code"].may_leak == ("rare",)
    assert importance["size"].may_leak == importance["noise"].may_leak == ()
    assert [name for name, _ in result.importance.top("rare")] == ["code"]
    assert result.importance.top("big")[0][0] == "size"
    assert abs(importance["noise"].map_drop) < 0.05
    page = result.report.read_text()
    assert "May be a leak of" in page
    assert result.to_json()["mattered"] == json.loads((out / "fit.json").read_text())["mattered"]
    (out / "importance.json").write_text('{"features": 3}')
    with pytest.raises(UserError, match=r"importance\.json"):
        load_model(out)
    assert main([*arguments, "--no-importance"]) == 0
    assert load_model(out).importance.features == ()


def test_wide_arrays_keep_the_features_that_promise_most() -> None:
    rng = np.random.default_rng(2)
    values = rng.normal(size=(120, 300))
    labels = (values[:, [250]] + 0.5 * rng.normal(size=(120, 1)) > 0.5).astype(int)
    result = fit(values, labels, methods=["linear:C=1"], folds=2)
    assert len(result.importance.features) == 200
    assert result.importance.features[0].feature == "feature 250"
