"""Lists of tags as y, against scikit-learn's MultiLabelBinarizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MultiLabelBinarizer, StandardScaler

from tailmask.data.readers.table.program_frames import as_polars
from tailmask.integrations.sklearn import PLMClassifier, PLMMultiOutputClassifier
from tailmask.integrations.tabular.estimator_labels import EstimatorLabels
from tailmask.integrations.tail_classifier import TailClassifier

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(90, 3))
NAMES = ("sport", "news", "art")
TAGS = [[name for name, value in zip(NAMES, row, strict=True) if value > 0.3] for row in FEATURES]
ESTIMATORS = {
    "perceptron": lambda: PLMClassifier(max_epochs=3, random_state=0),
    "wrapper": lambda: PLMMultiOutputClassifier(LogisticRegression(), updates=1, random_state=0),
    "tail": lambda: TailClassifier(methods=("linear:C=1",), folds=2, random_state=0),
}
FORMS: dict[str, Callable[[Any], Any]] = {
    "lists": list,
    "sets": lambda tags: [set(row) for row in tags],
    "tuples": lambda tags: tuple(map(tuple, tags)),
    "pandas series": pd.Series,
    "pandas column": lambda tags: pd.DataFrame({"tags": tags}),
    "pandas sets": lambda tags: pd.Series([frozenset(row) for row in tags]),
    "polars series": pl.Series,
    "polars column": lambda tags: pl.DataFrame({"tags": tags}),
}


@pytest.mark.parametrize("form", FORMS)
def test_targets_are_those_of_the_binarizer(form: str) -> None:
    binarizer = MultiLabelBinarizer().fit(TAGS)
    labels = EstimatorLabels.of(FORMS[form](TAGS))
    assert labels.multilabel
    assert labels.classes.tolist() == binarizer.classes_.tolist()
    assert np.array_equal(labels.encode(FORMS[form](TAGS)).numpy(), binarizer.transform(TAGS))


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("form", ["lists", "pandas series", "polars column"])
def test_estimators_predict_as_with_the_binarizer(name: str, form: str) -> None:
    binarizer = MultiLabelBinarizer().fit(TAGS)
    model = ESTIMATORS[name]().fit(FEATURES, FORMS[form](TAGS))
    plain = ESTIMATORS[name]().fit(FEATURES, binarizer.transform(TAGS))
    assert model.classes_.tolist() == binarizer.classes_.tolist()
    for method in ("predict", "predict_proba"):
        found = getattr(model, method)(FEATURES)
        if form != "lists":
            assert type(found).__module__.startswith(form.split()[0])
            assert list(found.columns) == binarizer.classes_.tolist()
        assert np.array_equal(np.asarray(found), getattr(plain, method)(FEATURES))


def test_sets_in_a_pandas_frame_become_lists() -> None:
    frame = as_polars(pd.DataFrame({"tags": [{"b", "a"}, frozenset(), None]}))
    assert frame["tags"].to_list() == [["a", "b"], [], None]


def test_an_empty_list_has_no_tag_and_a_gap_is_unknown() -> None:
    labels = EstimatorLabels.of([["a", "b"], ["a"]])
    assert labels.encode(pd.Series([[], None, ["b"]])).tolist() == [[0, 0], [-1, -1], [0, 1]]


def test_tags_of_later_batches_are_those_of_the_first() -> None:
    model = PLMClassifier(random_state=0).partial_fit(FEATURES[:9], TAGS[:9], classes=NAMES)
    model.partial_fit(FEATURES[9:], TAGS[9:])
    assert model.classes_.tolist() == sorted(NAMES)
    with pytest.raises(ValueError, match="music"):
        model.partial_fit(FEATURES[:2], [["music"], []])


@pytest.mark.parametrize("library", [pd, pl])
def test_frames_of_a_pipeline_keep_their_names(library: Any) -> None:
    X = library.DataFrame({name: FEATURES[:, number] for number, name in enumerate("xyz")})
    kind = library.__name__
    pipeline = make_pipeline(StandardScaler(), ESTIMATORS["perceptron"]()).set_output(transform=kind)
    labels = library.DataFrame({name: ["yes" if name in row else "no" for row in TAGS] for name in NAMES})
    predicted = pipeline.fit(X, labels).predict(X)
    assert pipeline[-1].feature_names_in_.tolist() == ["x", "y", "z"]
    assert isinstance(predicted, library.DataFrame)
    assert list(predicted.columns) == list(NAMES)


def test_a_pandas_frame_keeps_the_index_of_the_features() -> None:
    X = pd.DataFrame(FEATURES, index=[f"row {number}" for number in range(90)])
    X.columns = list("xyz")
    predicted = ESTIMATORS["perceptron"]().fit(X, pd.Series(TAGS)).predict(X)
    assert predicted.index.equals(X.index)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        ([["a"], "b", ["a", "b"]], "'b'"),
        ([["a", 1], ["b"], []], "both"),
        (pd.Series([[0, 1], [1, 1], [1, 0]]), "column per label"),
    ],
)
def test_what_is_no_list_of_tags_is_refused(y: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        PLMClassifier().fit(FEATURES[:3], y)
