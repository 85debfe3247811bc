"""Learners on the raw rows of files: new files give the same logits, and folds fit their own encoders."""

from __future__ import annotations

import csv
import datetime

import numpy as np
import polars as pl
import pytest
import scipy.sparse
import torch

from tailmask._util.messages import UserError
from tailmask.data import DataOptions, load
from tailmask.data.row_formats import TableFormat
from tailmask.data.rows import Rows
from tailmask.learners.matrix.boosters import BoostLearner
from tailmask.learners.matrix.forest import ForestLearner
from tailmask.learners.matrix.linear import LinearLearner
from tailmask.learners.matrix.row_encoders import encoder_from_json, fit_encoder
from tailmask.learners.stored_models import load_fitted

ROWS = 240
LEARNERS = {
    "linear": LinearLearner(C=1.0),
    "trees": ForestLearner(trees=9),
    "boost": BoostLearner(rounds=8),
}
TEXTS = {"without text": DataOptions(labels="y_*"), "with text": DataOptions(labels="y_*", text="review")}


@pytest.fixture
def table(tmp_path):
    """A CSV file with numbers, gaps, dates, booleans, categories, codes that look like numbers, and text."""
    generator = np.random.default_rng(0)
    words = np.array(["good", "bad", "late", "007", "1.5", "never", "again"])
    path = tmp_path / "table.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["x", "age", "day", "paid", "city", "code", "review", "y_a", "y_b"])
        for row in range(ROWS):
            age, city = generator.integers(18, 90), generator.choice(["Bern", "Basel", "Zug"])
            day = datetime.date(2024, 1, 1) + datetime.timedelta(int(generator.integers(300)))
            gap = generator.random(4) < 0.1
            label = age > 60
            writer.writerow(
                [
                    row + 0.25,
                    "NA" if gap[0] else age,
                    "" if gap[1] else day,
                    ["true", "false"][age % 2],
                    "" if gap[2] else city,
                    ["01", "1", "007", "A7"][generator.integers(4)],
                    "" if gap[3] else " ".join(generator.choice(words, 4)),
                    int(label),
                    int(city == "Zug" or generator.random() < 0.1),
                ]
            )
    return path


def logits_by_x(fitted, pieces):
    """The logits of all rows in the order of the column x."""
    rows = [(piece.features["x"].to_numpy(), fitted.logits(piece)) for piece in pieces]
    x, logits = np.concatenate([x for x, _ in rows]), torch.cat([each for _, each in rows])
    return logits[torch.from_numpy(np.argsort(x))]


@pytest.mark.parametrize("texts", TEXTS)
@pytest.mark.parametrize("name", LEARNERS)
def test_the_file_in_pieces_gives_the_logits_of_the_rows(table, tmp_path, name, texts):
    raw = load(table, TEXTS[texts]).raw
    fitted = LEARNERS[name].fit(raw.development, seed=0)
    fitted.save(tmp_path / "model")
    loaded = load_fitted(tmp_path / "model")
    expected = logits_by_x(fitted, [raw.development, raw.test])
    assert expected.std() > 0.1
    for model in (fitted, loaded):
        assert torch.equal(logits_by_x(model, raw.test.format.pieces(table, 50)), expected)
    frame = raw.test.format.rows(pl.read_csv(table, infer_schema=False))
    assert torch.equal(logits_by_x(loaded, [frame]), expected)


@pytest.mark.parametrize("name", LEARNERS)
def test_typed_files_and_frames_give_the_logits_of_the_rows(table, tmp_path, name):
    frame = pl.read_csv(table, null_values=["NA", ""], try_parse_dates=True)
    assert {pl.Date, pl.Boolean, pl.Int64} <= set(frame.dtypes)
    frame = frame.with_columns(pl.col("city").cast(pl.Categorical))
    frame.write_parquet(tmp_path / "table.parquet")
    raw = load(tmp_path / "table.parquet", TEXTS["with text"]).raw
    fitted = LEARNERS[name].fit(raw.development, seed=0)
    expected = logits_by_x(fitted, [raw.development, raw.test])
    row_format = raw.test.format
    assert torch.equal(logits_by_x(fitted, row_format.pieces(tmp_path / "table.parquet", 33)), expected)
    assert torch.equal(logits_by_x(fitted, [row_format.rows(frame)]), expected)
    pandas = pytest.importorskip("pandas")
    made = pandas.DataFrame({name: frame[name].to_list() for name in reversed(frame.columns)})
    assert torch.equal(logits_by_x(fitted, [row_format.rows(made)]), expected)


@pytest.mark.parametrize("name", LEARNERS)
def test_gaps_and_zeros_beside_texts_are_told_apart(name):
    """One label is the gap in a number, the other the gap in a category; zeros and code 0 are frequent."""
    generator = np.random.default_rng(0)
    gaps = generator.random((400, 2)) < 0.2
    numbers, cities = generator.integers(0, 2, 400), generator.choice(["a", "b"], 400)
    frame = pl.DataFrame(
        {
            "n": [None if gap else int(n) for n, gap in zip(numbers, gaps[:, 0], strict=True)],
            "city": [None if gap else str(c) for c, gap in zip(cities, gaps[:, 1], strict=True)],
            "text": [str(t) for t in generator.choice(["one two", "two three", "three"], 400)],
            "y_n": gaps[:, 0].astype(int),
            "y_c": gaps[:, 1].astype(int),
        }
    )
    raw = load(frame, DataOptions(labels="y_*", text="text")).raw
    learner = BoostLearner(rounds=40) if name == "boost" else LEARNERS[name]
    fitted = learner.fit(raw.development, seed=0)
    if name != "linear":
        matrix = fitted.encoder.encode(raw.test)
        assert scipy.sparse.issparse(matrix)
        assert np.isfinite(matrix.data).all()
    assert ((fitted.logits(raw.test) > 0).numpy() == (raw.test.targets == 1)).all()


@pytest.mark.parametrize("name", LEARNERS)
def test_dense_and_sparse_files_give_the_logits_of_the_rows(tmp_path, problem, name):
    matrix, targets = problem
    matrix = np.where(np.abs(matrix) < 0.5, 0, matrix)
    csr = scipy.sparse.csr_array(matrix)
    parts = {f"X_{part}": getattr(csr, part) for part in ("data", "indices", "indptr", "shape")}
    paths = {"dense": tmp_path / "dense.npz", "sparse": tmp_path / "sparse.npz"}
    np.savez(paths["dense"], X=matrix, Y=targets)
    np.savez(paths["sparse"], **parts, Y=targets)
    for kind, path in paths.items():
        raw = load(path).raw
        assert scipy.sparse.issparse(raw.test.features) == (kind == "sparse")
        fitted = LEARNERS[name].fit(raw.development, seed=0)
        whole = fitted.logits(raw.test.format.rows(csr if kind == "sparse" else matrix))
        for other in paths.values():
            pieces = torch.cat([fitted.logits(rows) for rows in raw.test.format.pieces(other, 37)])
            if other == path:
                assert torch.equal(pieces, whole)
            else:
                torch.testing.assert_close(pieces, whole)


def test_an_encoder_sees_the_rows_that_it_is_given_alone(table):
    rows = load(table, TEXTS["with text"]).raw.development
    some = rows.take(np.arange(50))
    for form in ("scaled", "raw"):
        encoder = fit_encoder(some, form)
        alone = fit_encoder(Rows(some.features.clone(), some.targets, format=rows.format), form)
        assert encoder.to_json() == alone.to_json() != fit_encoder(rows, form).to_json()


def test_linear_models_get_more_terms_unless_the_user_says_how_many():
    texts = [" ".join(f"w{row}x{word}" for word in range(400)) for row in range(60)] * 2
    for chosen, linear, others in ((None, 60 * (400 + 399), 20_000), (30, 30, 30)):
        stated = TableFormat(("note",), ("text",), text=("note",), text_terms=chosen)
        rows = Rows(pl.DataFrame({"note": texts}), np.arange(120)[:, None] % 2, format=stated)
        assert LinearLearner(C=1.0).fit(rows, seed=0).encoder.width == linear
        assert fit_encoder(rows, "scaled").width == others


def test_raw_categories_are_named_and_codes_keep_their_zeros(table):
    encoder = fit_encoder(load(table, DataOptions(labels="y_*", drop="review")).raw.development, "raw")
    names = [encoder.encoder.outputs[place] for place in encoder.categorical]
    assert names == ["city", "code"]
    (code,) = [column for column in encoder.encoder.columns if column.name == "code"]
    assert code.values == ("007", "01", "1", "A7")


@pytest.mark.parametrize(
    "damage",
    [
        {"columns": 3},
        {"columns": [{"kind": "number", "name": "x"}]},
        {"form": "other"},
        {"left_out": None},
        {"kind": "table-9"},
    ],
)
def test_damaged_encoders_of_tables_are_refused(table, damage):
    value = fit_encoder(load(table, TEXTS["without text"]).raw.development, "raw").to_json()
    assert encoder_from_json(value).to_json() == value
    with pytest.raises(UserError):
        encoder_from_json(value | damage)


def test_rows_of_another_kind_are_refused_in_a_sentence(table, problem):
    raw = load(table, TEXTS["without text"]).raw
    on_table = fit_encoder(raw.development, "scaled")
    on_array = fit_encoder(Rows(*problem), "scaled")
    with pytest.raises(UserError, match="array"):
        on_table.encode(Rows(problem[0]))
    with pytest.raises(UserError, match="table"):
        on_array.encode(raw.test)
    with pytest.raises(UserError, match="columns age"):
        on_table.encode(Rows(raw.test.features.drop("age")))
    with pytest.raises(UserError, match="'age'"):
        on_table.encode(Rows(raw.test.features.with_columns(pl.lit("old").alias("age"))))
    with pytest.raises(UserError, match="no column to learn from"):
        fit_encoder(Rows(pl.DataFrame({"a": [1, 1]})), "raw")
