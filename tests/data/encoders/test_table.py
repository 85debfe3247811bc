"""The encoding of tables: outliers, empty cells, dates, rare categories and texts, in both forms."""

from __future__ import annotations

import json
from datetime import datetime

import numpy as np
import polars as pl
import pytest
from scipy.sparse import csr_array
from scipy.stats import norm, rankdata
from sklearn.feature_extraction.text import TfidfVectorizer

from tailmask._util.messages import UserError
from tailmask.data import Encoder
from tailmask.data.encoders.dates import fit_date, read_moments
from tailmask.data.encoders.table import TableEncoder, fit_table_encoder


def table(rows: int = 2000) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    income = rng.lognormal(10, 0.5, rows)
    income[::300] = 1e9
    return pl.DataFrame(
        {
            "row_id": rng.permutation(rows),
            "same": [7.5] * rows,
            "income": pl.Series(income).set(pl.Series(np.arange(rows) % 10 == 0), None),
            "paid": rng.random(rows) < 0.1,
            "day": pl.Series(np.datetime64("2020-01-01") + rng.integers(0, 900, rows)).cast(pl.Date),
            "kind": pl.Series(rng.choice(["a", "b", "c"], rows)).set(
                pl.Series(np.arange(rows) % 4 == 0), None
            ),
            "shop": [f"s{number}" for number in rng.zipf(1.3, rows)],
            "note": rng.choice(["Good service!", "bad bad service", "no word in common", ""], rows),
        }
    )


def dense(inputs: np.ndarray | csr_array) -> np.ndarray:
    return inputs if isinstance(inputs, np.ndarray) else inputs.toarray()


def by_name(encoder: TableEncoder, frame: pl.DataFrame) -> dict[str, np.ndarray]:
    return dict(zip(encoder.outputs, dense(encoder.encode(frame)).T, strict=True))


@pytest.mark.parametrize("form", ["scaled", "raw"])
@pytest.mark.parametrize("buckets", [None, 16])
def test_an_encoder_that_went_through_json_gives_the_same_numbers(form: str, buckets: int | None) -> None:
    frame = table()
    encoder = fit_table_encoder(frame.head(1000), form=form, text=["note"], text_buckets=buckets)
    again = Encoder.from_json(json.loads(json.dumps(encoder.to_json(), allow_nan=False)))
    assert again == encoder
    expected = dense(encoder.encode(frame))
    assert expected.dtype == np.float32
    assert expected.shape == (2000, *encoder.shape)
    pieces = [dense(again.encode(frame[start : start + 7])) for start in range(0, 2000, 7)]
    np.testing.assert_array_equal(np.concatenate(pieces), expected)
    assert np.isfinite(expected).all() == (form == "scaled")


def test_outliers_do_not_flatten_a_column() -> None:
    frame = table()
    encoder = fit_table_encoder(frame.select("income"))
    columns = by_name(encoder, frame)
    income = frame["income"].to_numpy()
    usual = income < 1e6
    assert columns["income"][usual].std() > 0.5
    assert abs(columns["income"]).max() <= 3
    known = ~np.isnan(income)
    np.testing.assert_array_equal(columns["income is empty"], ~known)
    scores = norm.ppf((rankdata(income[known]) - 0.5) / known.sum())
    middle = abs(scores) < 2
    np.testing.assert_allclose(columns["income (score)"][known][middle], scores[middle], atol=0.05)
    assert not columns["income"][~known].any()
    assert not columns["income (score)"][~known].any()
    new = pl.DataFrame({"income": [-1e300, 1e300]})
    assert np.isfinite(dense(encoder.encode(new))).all()


def test_equal_numbers_share_a_score_and_few_numbers_have_none() -> None:
    numbers = [0.0] * 70 + [float(i) for i in range(1, 31)]
    columns = by_name(
        encoder := fit_table_encoder(pl.DataFrame({"late": numbers})), pl.DataFrame({"late": numbers})
    )
    assert columns["late (score)"][0] == pytest.approx(norm.ppf(0.35), abs=1e-6)
    assert encoder.shape == (2,)
    assert fit_table_encoder(pl.DataFrame({"late": [0, 1, 1, 0, 1]})).shape == (1,)


def test_many_rows_may_have_the_largest_number() -> None:
    frame = pl.DataFrame({"paid": [*map(float, range(1000)), *[2000.0] * 50]})  # as in a column cut at 2000
    scores = by_name(fit_table_encoder(frame), frame)["paid (score)"]
    assert scores[-1] == pytest.approx(norm.ppf(1 - 25 / 1050), abs=1e-6)


def test_columns_that_say_nothing_are_left_out() -> None:
    encoder = fit_table_encoder(table(), text=["note"])
    assert set(encoder.left_out) == {"row_id", "same"}
    assert "row_id" in {column.name for column in fit_table_encoder(table(), keep=["row_id"]).columns}
    copied = pl.concat([table(), table().head(50)])
    assert set(fit_table_encoder(copied, text=["note"]).left_out) == {"row_id", "same"}
    alone = fit_table_encoder(table().select("row_id"))
    assert [column.name for column in alone.columns] == ["row_id"]
    names = pl.DataFrame({"name": [f"n{i}" for i in range(50)], "empty": [None] * 50})
    assert not fit_table_encoder(names).columns


def test_raw_numbers_and_codes() -> None:
    frame = table()
    encoder = fit_table_encoder(frame.drop("note"), form="raw")
    columns = by_name(encoder, frame)
    np.testing.assert_array_equal(columns["income"], frame["income"].to_numpy().astype(np.float32))
    np.testing.assert_array_equal(columns["paid"], frame["paid"].to_numpy())
    codes = [np.nan if value is None else "abc".index(value) for value in frame["kind"]]
    np.testing.assert_array_equal(columns["kind"], codes)
    assert [encoder.outputs[place] for place in encoder.categorical] == ["kind", "shop"]
    days = (frame["day"] - frame["day"].min()).dt.total_days().to_numpy()
    np.testing.assert_array_equal(columns["day (days)"], days)
    for part in ("year", "month", "weekday"):
        np.testing.assert_array_equal(columns[f"day ({part})"], getattr(frame["day"].dt, part)().to_numpy())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-02-03", datetime(2024, 2, 3)),
        ("2024/2/3", datetime(2024, 2, 3)),
        ("2024-02-03T10:30:00", datetime(2024, 2, 3, 10, 30)),
        ("2024-02-03 10:30:00.250000", datetime(2024, 2, 3, 10, 30, 0, 250000)),
        ("2024-02-03T10:30:00Z", datetime(2024, 2, 3, 10, 30)),
        ("2024-02-03T10:30:00+02:00", datetime(2024, 2, 3, 10, 30)),
        ("3.2.2024", datetime(2024, 2, 3)),
        ("03/02/2024 9:05", datetime(2024, 2, 3, 9, 5)),
        ("03-02-24", datetime(2024, 2, 3)),
        ("3 Feb 2024", datetime(2024, 2, 3)),
        ("03-Feb-2024", datetime(2024, 2, 3)),
        ("February 3, 2024", datetime(2024, 2, 3)),
        ("2/3/2024 11:15 PM", datetime(2024, 3, 2, 23, 15)),
        ("2/3/2024 12:15 am", datetime(2024, 3, 2, 0, 15)),
    ],
)
def test_common_forms_of_dates(text: str, expected: datetime) -> None:
    moments = read_moments(pl.Series([text, None, "soon", "30.2.2024"]), day_first=True)
    assert np.isnan(moments.days[1:]).all()
    assert moments.dates[0] == expected.date()
    midnight = expected.replace(hour=0, minute=0, second=0, microsecond=0)
    hours = (expected - midnight).total_seconds() / 3600
    assert moments.hours[0] == pytest.approx(hours) if ":" in text else np.isnan(moments.hours[0])


@pytest.mark.parametrize(
    ("texts", "month"),
    [
        (["01/13/2024", "02/03/2024"], 2),  # there is no 13th month
        (["13/01/2024", "02/03/2024"], 3),
        (["01/05/2024", "02/03/2024"], 2),
        (["01.05.2024", "02.03.2024"], 3),
    ],
)
def test_the_order_of_day_and_month(texts: list[str], month: int) -> None:
    frame = pl.DataFrame({"day": texts * 10})
    assert by_name(fit_table_encoder(frame, form="raw"), frame)["day (month)"][1] == month


def test_cells_that_are_no_dates_are_empty() -> None:
    frame = pl.DataFrame({"day": [f"2024-01-{1 + i % 28:02}" for i in range(98)] + ["unknown"] * 2})
    encoder = fit_table_encoder(frame)
    assert encoder.columns[0].kind == "date"
    assert by_name(encoder, frame)["day is empty"].tolist() == [0] * 98 + [1] * 2
    words = pl.DataFrame({"day": ["2024-01-01", "soon", "later"] * 10})
    assert fit_table_encoder(words).columns[0].kind == "category"


def test_values_beyond_the_most_frequent_are_hashed_and_rare_ones_marked() -> None:
    often = [f"v{i % 1100}" for i in range(11_000)]
    frame = pl.DataFrame({"k": [*often, *(f"rare{i}" for i in range(100))]})
    encoder = fit_table_encoder(frame)
    (column,) = encoder.columns
    assert (len(column.values), column.buckets, column.marks_rare) == (1000, 128, True)
    rows = dense(encoder.encode(pl.DataFrame({"k": ["v0", "v1", "unseen", None]})))
    assert [row.sum() for row in rows[1:]] == [1, 2, 0]
    raw = fit_table_encoder(frame, form="raw")
    codes = dense(raw.encode(frame))
    assert np.nanmax(codes) < 255
    assert len(raw.columns[0].values) == 250


@pytest.mark.parametrize("analyzer", ["word", "char"])
def test_texts_are_the_tf_idf_of_scikit_learn(analyzer: str) -> None:
    rng = np.random.default_rng(0)
    words = np.array(["good", "bad", "day", "night", "!", "?", "it's", "so", "Very", "very"])
    texts = [" ".join(rng.choice(words, rng.integers(0, 9))) for _ in range(200)]
    frame = pl.DataFrame({"a": texts, "b": [text[::-1] for text in texts]})
    encoder = fit_table_encoder(frame[:150], text=["a", "b"], text_analyzer=analyzer, text_terms=40)
    kinds = {"word": {"ngram_range": (1, 2)}, "char": {"ngram_range": (2, 5)}}
    names = {"word": {"token_pattern": r"\w+|[^\w\s]"}, "char": {"analyzer": "char_wb"}}
    expected = [
        TfidfVectorizer(sublinear_tf=True, min_df=2, max_features=40, **kinds[analyzer], **names[analyzer])
        .fit(frame[name][:150].to_list())
        .transform(frame[name].to_list())
        .toarray()
        for name in ("a", "b")
    ]
    np.testing.assert_allclose(dense(encoder.encode(frame)), np.hstack(expected), atol=1e-6)


def test_a_text_without_terms_is_left_out() -> None:
    frame = pl.DataFrame({"x": [1, 2, 3], "t": ["one", "two", ""]})
    assert list(fit_table_encoder(frame, text=["t"]).left_out) == ["t"]


@pytest.mark.parametrize(
    "change",
    [
        {"form": "other"},
        {"columns": [{"name": "a", "kind": "list"}]},
        {"columns": [{"name": "a", "kind": "text", "buckets": 0}]},
        {"columns": [{"name": "a", "kind": "text", "buckets": 10**12}]},
        {"columns": [{"name": "a", "kind": "text", "analyzer": "word", "terms": ["b"], "idf": []}]},
        {"columns": [{"name": "a", "kind": "text", "analyzer": "exec", "terms": ["b"], "idf": [1.0]}]},
        {"columns": [{"name": "a", "kind": "category", "values": [], "buckets": 10**12}]},
        {"columns": None},
    ],
)
def test_descriptions_that_are_not_whole(change: dict) -> None:
    whole = fit_table_encoder(pl.DataFrame({"x": [1, 2, 3]})).to_json()
    with pytest.raises(UserError, match="encoder of kind 'table-2'"):
        Encoder.from_json(whole | change)


def test_times_beside_dates_do_not_hide_which_number_is_the_day():
    dates = pl.Series("d", ["1/2/2024 10:30", "17/3/2024 11:00", "2/4/2024 09:15"] * 5)
    column = fit_date(dates)
    assert column.day_first
