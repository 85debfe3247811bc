"""Splits by --group and --time: groups stay together, tests are later than training, and folds know both."""

from __future__ import annotations

import datetime

import numpy as np
import polars as pl
import pytest

from tailmask._util.messages import UserError
from tailmask.data import DataOptions, load
from tailmask.data.copied_rows import joined_groups
from tailmask.learners.folds import make_folds

ROWS = 400
GROUPED, TIMED = DataOptions(labels="y", group="patient"), DataOptions(labels="y", time="day")


def visits(rows=ROWS):
    """Visits of patients, four each, in random order, on about one day in three of a year."""
    generator = np.random.default_rng(0)
    days = [
        datetime.date(2024, 1, 1) + datetime.timedelta(int(day)) for day in generator.integers(0, 150, rows)
    ]
    return pl.DataFrame(
        {
            "patient": [f"{number:03}" for number in generator.permutation(rows) // 4],
            "day": days,
            "x": generator.normal(size=rows),
            "y": (generator.random(rows) < 0.2).astype(int),
        }
    )


def parts(data, frame):
    """The frame's rows of each part, by the row numbers of the data set."""
    return {name: frame[numbers - 1] for name, numbers in data.row_numbers.items()}


@pytest.mark.parametrize("kind", ["frame", "csv", "parquet"])
def test_rows_of_a_group_are_in_one_part_and_one_fold(tmp_path, kind):
    frame = visits()
    frame.write_csv(tmp_path / "visits.csv")
    frame.write_parquet(tmp_path / "visits.parquet")
    data = load(frame if kind == "frame" else tmp_path / f"visits.{kind}", GROUPED)
    patients = {name: set(part["patient"]) for name, part in parts(data, frame).items()}
    assert (
        sum(map(len, patients.values())) == frame["patient"].n_unique() == len(set.union(*patients.values()))
    )
    assert "patient" not in data.raw.test.format.names
    assert data.unit == "patient"
    rows = data.raw.development
    folds = make_folds(rows, 5, seed=0)
    assert all(len(set(folds.number[rows.groups == group])) == 1 for group in rows.groups)


def test_test_members_are_the_groups():
    frame = visits()
    data = load(frame, GROUPED)
    patients = parts(data, frame)["test"]["patient"].to_numpy()
    members = data.test.members[:, 0]
    np.testing.assert_array_equal(patients[:, None] == patients, members[:, None] == members)
    assert data.train.members is None


def test_codes_with_zeros_are_other_groups_and_empty_cells_stand_alone(tmp_path):
    lines = [f"{['01', '1', '', 'NA'][row % 4]},{row * 0.618034 % 1:.6f},{row % 3 % 2}" for row in range(200)]
    (tmp_path / "a.csv").write_text("g,x,y\n" + "\n".join(lines) + "\n")
    data = load(tmp_path / "a.csv", DataOptions(labels="y", group="g", test=0.5, validation=0))
    groups = np.concatenate([data.raw.development.groups, data.raw.test.groups])
    assert len(np.unique(groups)) == 2 + 100


def test_groups_are_the_same_numbers_in_both_files_also_as_floats(tmp_path):
    """Whole numbers become floats where a cell is empty."""
    train, test = visits().with_columns(pl.col("patient").cast(int)), visits(40)
    train.write_csv(tmp_path / "train.csv")
    test.with_columns(pl.col("patient").cast(float)).write_parquet(tmp_path / "test.parquet")
    options = DataOptions(labels="y", group="patient", test_file=tmp_path / "test.parquet", validation=0)
    notes = load(tmp_path / "train.csv", options).notes
    assert any("40 rows of test share 'patient'" in note for note in notes)


def test_copies_join_groups_unless_they_would_join_most_of_them():
    groups = np.repeat(np.arange(50), 2)
    copies = np.arange(100)
    copies[[10, 21]] = 0, 10  # rows 0, 10 and 21: groups 0, 5 and 10
    joined = joined_groups(groups, copies)
    assert len(set(joined[[0, 1, 10, 11, 20, 21]])) == 1
    assert len(np.unique(joined)) == 48
    chain = np.where(np.arange(100) % 2 == 0, np.arange(100), np.arange(100) + 1) % 100
    np.testing.assert_array_equal(joined_groups(groups, np.minimum(chain, 99)), groups)


@pytest.mark.parametrize("kind", ["frame", "csv"])
def test_a_split_by_time_trains_on_the_past(tmp_path, kind):
    frame = visits()
    frame.write_csv(tmp_path / "visits.csv")
    data = load(frame if kind == "frame" else tmp_path / "visits.csv", TIMED)
    taken = parts(data, frame)
    assert taken["train"]["day"].max() < taken["validation"]["day"].min()
    assert taken["validation"]["day"].max() < taken["test"]["day"].min()
    assert abs(len(data.test) - 0.2 * ROWS) <= 8
    assert abs(len(data.validation) - 0.1 * ROWS) <= 8
    assert sum(map(len, taken.values())) == ROWS
    assert data.raw.test.format.names == ("patient", "x")
    assert any("unless --features names it" in note for note in data.notes)
    folds = make_folds(data.raw.development, 5, seed=0)
    days = pl.concat([taken["train"], taken["validation"]])["day"].to_numpy()
    assert folds.forward
    for fold in range(5):
        assert days[folds.train(fold)].max() < days[folds.held_out(fold)].min()


def test_a_time_that_features_name_is_learned_from():
    data = load(visits(), DataOptions(labels="y", time="day", features="x,day"))
    assert data.raw.test.format.names == ("day", "x") or data.raw.test.format.names == ("x", "day")
    assert {column.name: column.use for column in data.columns}["day"] == "date"


@pytest.mark.parametrize("form", ["%d.%m.%Y", "%d/%m/%Y %H:%M", "%Y-%m-%dT%H:%M:%SZ", "%s"])
def test_times_are_read_in_common_forms(form):
    frame = visits()
    seconds = [(day - datetime.date(1970, 1, 1)).days * 86400 for day in frame["day"]]
    texts = [
        str(s) if form == "%s" else day.strftime(form) for s, day in zip(seconds, frame["day"], strict=True)
    ]
    data = load(frame.with_columns(pl.Series("day", texts)), TIMED)
    expected = load(frame, TIMED)
    for name, numbers in expected.row_numbers.items():
        np.testing.assert_array_equal(data.row_numbers[name], numbers)


def test_with_groups_and_times_the_past_of_those_held_out_is_left_out():
    frame = visits()
    data = load(frame, DataOptions(labels="y", group="patient", time="day"))
    taken = parts(data, frame)
    assert taken["train"]["day"].max() < taken["test"]["day"].min()
    assert not set(taken["train"]["patient"]) & set(taken["test"]["patient"])
    assert not set(taken["train"]["patient"]) & set(taken["validation"]["patient"])
    left_out = ROWS - sum(map(len, taken.values()))
    assert any(note.startswith(f"{left_out} rows are in no part") for note in data.notes)


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        ({}, DataOptions(labels="y", group="pateint"), "no column 'pateint': did you mean"),
        ({"day": None}, TIMED, "no time in row 1 of the column 'day'"),
        ({"day": "soon"}, TIMED, "'soon' in row 1 of the column 'day', which is neither a date nor a number"),
        ({"day": "2024-01-01"}, TIMED, "same time"),
        ({"patient": "me"}, GROUPED, "too few"),
        (
            {"patient": "me"},
            DataOptions(labels="y", group="patient", time="day"),
            "none is left for training",
        ),
    ],
)
def test_columns_that_cannot_split_are_refused(change, options, words):
    frame = visits().with_columns(pl.col("day").cast(pl.String))
    if change.get("day") != "2024-01-01" and "day" in change:  # in the first row alone
        frame[0, "day"] = change["day"]
    else:
        frame = frame.with_columns(pl.lit(value).alias(name) for name, value in change.items())
    with pytest.raises(UserError, match=words):
        load(frame, options)


def test_a_second_file_has_its_groups_and_times_too(tmp_path):
    frame = visits().sort("day")
    frame[:300].write_csv(tmp_path / "train.csv")
    frame[300:].write_csv(tmp_path / "test.csv")
    options = DataOptions(labels="y", group="patient", time="day", test_file=tmp_path / "test.csv")
    data = load(tmp_path / "train.csv", options)
    patients = frame[300:]["patient"].to_numpy()
    members = data.test.members[:, 0]
    np.testing.assert_array_equal(patients[:, None] == patients, members[:, None] == members)
    shared = sum(patient in set(frame[data.row_numbers["train"] - 1]["patient"]) for patient in patients)
    assert any(note.startswith(f"{shared} rows of test share 'patient' with training") for note in data.notes)
    np.testing.assert_array_equal(data.row_numbers["test"], np.arange(1, 101))


def test_arrays_are_named_in_npz_files(tmp_path):
    frame = visits()
    arrays = {"X": frame["x"].to_numpy()[:, None], "Y": frame["y"].to_numpy()[:, None]}
    arrays |= {"who": frame["patient"].to_numpy().astype(np.str_), "when": np.arange(ROWS)[::-1]}
    np.savez(tmp_path / "a.npz", **arrays, short=np.arange(3))
    data = load(tmp_path / "a.npz", DataOptions(group="who"))
    who = {name: set(part["patient"]) for name, part in parts(data, frame).items()}
    assert not who["train"] & who["test"]
    assert data.unit == "who"
    by_time = load(tmp_path / "a.npz", DataOptions(time="when"))
    assert sorted(by_time.row_numbers["test"]) == list(range(1, 81))
    with pytest.raises(UserError, match="no array 'where'"):
        load(tmp_path / "a.npz", DataOptions(group="where"))
    with pytest.raises(UserError, match="one value for each of the 400 rows"):
        load(tmp_path / "a.npz", DataOptions(time="short"))


def test_groups_of_images_are_read_from_their_list(tmp_path):
    from PIL import Image

    lines = ["path,patient,y"]
    for number in range(40):
        Image.new("L", (8, 8), number).save(tmp_path / f"{number}.png")
        lines.append(f"{number}.png,{number // 4},{number % 3 % 2}")
    (tmp_path / "list.csv").write_text("\n".join(lines) + "\n")
    data = load(tmp_path / "list.csv", GROUPED)
    who = {name: set((numbers - 1) // 4) for name, numbers in data.row_numbers.items()}
    assert not who["train"] & who["test"]
    assert not who["train"] & who["validation"]


def test_arff_files_have_no_such_columns(tmp_path):
    text = "@relation r\n@attribute a numeric\n@attribute y {0,1}\n@data\n" + "1,0\n2,1\n" * 20
    (tmp_path / "a.arff").write_text(text)
    with pytest.raises(UserError, match="name columns of tables or arrays"):
        load(tmp_path / "a.arff", DataOptions(labels="y", group="a"))
