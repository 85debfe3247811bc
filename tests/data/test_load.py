"""Loading by name or path, and choices that make no sense."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tailmask._util.messages import UserError
from tailmask.data import NAMED, DataOptions, load


def test_unknown_names_get_a_suggestion() -> None:
    with pytest.raises(
        UserError, match="no data set and no file called 'multimnst': did you mean 'multimnist'"
    ):
        load("multimnst")
    with pytest.raises(UserError, match="choose from digits, multimnist"):
        load("cars")


def test_files_of_no_known_kind(tmp_path: Path) -> None:
    (tmp_path / "a.docx").write_bytes(b"")
    with pytest.raises(UserError, match=r"a\.docx .* cannot be read: .*\.csv"):
        load(tmp_path / "a.docx")
    with pytest.raises(UserError, match="is a folder without one pair"):
        load(tmp_path)
    options = DataOptions(test_file=tmp_path / "gone.csv", labels="l")
    (tmp_path / "a.csv").write_text("x,l\n1,0\n2,1\n")
    with pytest.raises(UserError, match=r"there is no file .*gone\.csv"):
        load(tmp_path / "a.csv", options)


@pytest.mark.parametrize("suffix", [".csv", ".npz"])
def test_names_that_are_no_text(tmp_path: Path, suffix: str) -> None:
    """As of files from old archives: neither polars nor a run's record could name them."""
    path = tmp_path / os.fsdecode(b"caf\xe9" + suffix.encode())
    path.write_text("x,tag_a\n1,0\n2,1\n")
    with pytest.raises(UserError, match=r"name of .* is not written in UTF-8: rename it"):
        load(path, DataOptions(labels="tag_*"))


@pytest.mark.parametrize(
    ("choice", "sentence"),
    [
        ({"test": 1.0}, "--test must be a share of the rows such as 0.2, got 1"),
        ({"validation": -0.1}, "--validation must be a share"),
        ({"rho": 0.5}, "--rho must be 1 or more, got 0.5"),
        ({"rho": float("nan")}, "--rho must be 1 or more, got nan"),
        ({"image_size": 0}, "--image-size must be 1 or more"),
        ({"text_buckets": -4}, "--text-buckets must be 1 or more"),
        ({"data_seed": -1}, "--data-seed must be 0 or more"),
        ({"data_seed": 5_000_000_000}, "--data-seed must be below 4294967296, got 5000000000"),
        ({"separator": ""}, "--separator must not be empty"),
    ],
)
def test_choices_that_make_no_sense(choice: dict, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        DataOptions(**choice)


@pytest.mark.parametrize(
    ("shares", "sentence"),
    [
        (
            {"test": 0.6, "validation": 0.5},
            "--test and --validation must leave rows to train on, got 0.6 and 0.5",
        ),
        ({"test": 0.95}, "--test and --validation must leave rows to train on, got 0.95 and 0.1"),
        ({"test": 0.5, "validation": 0.5}, "must leave rows to train on"),
        ({"test": 0.0}, "--test must be above 0 without a --test-file"),
    ],
)
def test_shares_that_leave_nothing(tmp_path: Path, shares: dict, sentence: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x,l\n" + "".join(f"{row},{row % 2}\n" for row in range(100)))
    with pytest.raises(UserError, match=sentence):
        load(path, DataOptions(labels="l", **shares))


def test_only_shares_that_are_split_off_count(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x,l\n" + "".join(f"{row},{row % 2}\n" for row in range(100)))
    for test in (0.0, 0.6):
        dataset = load(path, DataOptions(labels="l", test=test, validation=0.5, test_file=path))
        assert {name: len(split) for name, split in dataset.splits.items()} == {
            "train": 50,
            "validation": 50,
            "test": 100,
        }


def test_every_option_is_in_one_group_and_has_a_help_text() -> None:
    listed = [name for names in DataOptions.GROUPS.values() for name in names]
    fields = [field.name for field in dataclasses.fields(DataOptions)]
    assert sorted(listed) == sorted(fields)
    for name in fields:
        assert f"        {name}: " in DataOptions.__doc__


def test_sources_are_plain_json(tmp_path: Path) -> None:
    dataset = load("digits")
    assert json.loads(json.dumps(dataset.source)) == dataset.source
    (tmp_path / "a.csv").write_text("x,l\n" + "".join(f"{i},{i % 2}\n" for i in range(40)))
    source = load(tmp_path / "a.csv", DataOptions(labels="l", data_dir=tmp_path)).source
    assert json.loads(json.dumps(source)) == source
    assert source["options"] == {"labels": "l"}


def test_the_options_cost_no_torch() -> None:
    code = "import sys, tailmask.data; sys.exit('torch' in sys.modules or 'polars' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_named_set_has_a_line_of_help() -> None:
    assert all(named.help and ":" in named.function for named in NAMED.values())


def test_a_file_that_is_not_there_is_looked_for_among_its_neighbours(tmp_path):
    (tmp_path / "mydata.csv").write_text("a,b\n1,2\n")
    with pytest.raises(UserError, match=r"there is no file '.*mydta.csv': did you mean '.*mydata.csv'\?"):
        load(tmp_path / "mydta.csv")
    with pytest.raises(UserError, match=r"there is no file '.*other.npz': check the path"):
        load(tmp_path / "other.npz")
    with pytest.raises(UserError, match=r"no file '.*', and no folder '.*nowhere': check the path"):
        load(tmp_path / "nowhere" / "mydata.csv")
