"""`tailmask data`: tables that programs can read, JSON, notes and pictures."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from tailmask.cli import main
from tailmask.data import NAMED, load
from tailmask.data.class_statistics import summaries, summarize
from tailmask.data.dataset import Dataset, Split
from tailmask.report.charts.data_set import draw_data_set


def run(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    code = main(["data", *map(str, words)])
    captured = capsys.readouterr()
    assert (code, captured.err) == (0, "")
    return captured.out


def test_without_a_name_the_public_sets_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert [line.split()[0] for line in run(capsys).splitlines()] == list(NAMED)


def test_tables_hold_the_statistics(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "digits")
    assert out.startswith("digits: 10 classes, any number of labels per sample, inputs of 1×12×12\n")
    statistics = {
        name: summarize(split, load("digits").classes) for name, split in load("digits").splits.items()
    }
    for figure in ("density", "ρ", "r_c"):
        assert f"{figure}: " in out, "what it is, where it is shown"
    rows = [line.split() for line in out.splitlines() if line.strip()]
    summary = {row[0]: row[1:] for row in rows if row[0] in statistics}
    for name, split in statistics.items():
        assert summary[name][:2] == [str(split.num_samples), str(sum(split.positives))]
        assert summary[name][4] == f"{split.rho:.2f}"
    classes = [row for row in rows if re.fullmatch(r"\d", row[0])]
    assert [row[0] for row in classes] == [str(c) for c in statistics["train"].order]
    assert [int(row[1]) for row in classes] == sorted(statistics["train"].positives, reverse=True)
    assert ["total", *(str(sum(split.positives)) for split in statistics.values())] in rows


def test_json_holds_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    content = json.loads(run(capsys, "digits", "--format", "json"))
    assert content["splits"]["train"]["samples"] == 3216
    assert [row["class"] for row in content["splits"]["train"]["classes"]] == [str(c) for c in range(10)]
    assert content["source"]["name"] == "digits"
    assert content["inputs"] == [1, 12, 12]


@pytest.fixture
def odd_file(tmp_path: Path) -> Path:
    """Unknown labels, a class without positives, one without negatives, and names that try things."""
    rng = np.random.default_rng(0)
    targets = (rng.random((200, 4)) < 0.4).astype(float)
    targets[:, 1], targets[:, 2] = 0, 1
    targets[:30, 3] = np.nan
    names = np.array(["[red]$x^2$ <script>\x1b[2J", "never", "always", "naïve 猫"])
    np.savez(tmp_path / "odd.npz", X=rng.normal(size=(200, 1_234)), Y=targets, classes=names)
    return tmp_path / "odd.npz"


def test_notes_name_what_is_degenerate_or_unknown(odd_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, odd_file)
    assert "note: train has no positive sample of never" in out
    assert "note: train has no negative sample of always" in out
    assert re.search(r"note: \d+ labels of train \(\d+\.\d\d%\) are unknown", out)
    assert "[red]$x^2$ <script>\N{REPLACEMENT CHARACTER}[2J" in out
    assert "\x1b" not in out
    assert "naïve 猫" in out


def test_names_in_notes_cannot_move_the_cursor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"{i / 7},{i % 2},0\n" for i in range(40))
    (tmp_path / "a.csv").write_text(f'x,a,"\x1b]0;b\nc\x07"\n{rows}')
    out = run(capsys, tmp_path / "a.csv", "--labels", "a,*c*")
    assert (
        "note: train has no positive sample of \N{REPLACEMENT CHARACTER}]0;b c\N{REPLACEMENT CHARACTER}\n"
        in out
    )
    assert "\x1b" not in out


def test_long_numbers_and_names_are_not_broken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = np.array([f"a rather long name of a class, number {c}, of many" * 3 for c in range(3)])
    np.savez(tmp_path / "a.npz", X=np.zeros((90, 1)), Y=np.eye(3)[np.arange(90) % 3], classes=names)
    out = run(capsys, tmp_path / "a.npz")
    for name in names:
        assert any(name in line and " 21 " in line for line in out.splitlines())


def test_many_classes_are_cut_in_the_middle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    targets = np.eye(1200, dtype=np.int8)[np.arange(3600) % 1200]
    np.savez(tmp_path / "a.npz", X=np.zeros((3600, 1)), Y=targets)
    out = run(capsys, tmp_path / "a.npz", "--validation", "0", "--test-file", tmp_path / "a.npz")
    assert "… 200 more classes" in out
    assert 1000 < len(out.splitlines()) < 1050


def test_pictures(odd_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, odd_file, "--plot", tmp_path / "pictures")
    for name in ("class-frequencies.svg", "co-occurrence.svg"):
        path = tmp_path / "pictures" / name
        assert f"drew {path}" in out
        text = "".join(ElementTree.parse(path).getroot().itertext())
        assert "naïve 猫" in text
        assert "[red]$x^2$ <script>" in text  # as it is, not as a formula
    assert sorted(path.name for path in (tmp_path / "pictures").iterdir()) == [
        "class-frequencies.svg",
        "co-occurrence.svg",
    ]


@pytest.mark.parametrize("num_classes", [10, 80, 400])
def test_pictures_name_as_many_classes_as_can_be_read(tmp_path: Path, num_classes: int) -> None:
    shares = np.geomspace(0.5, 0.005, num_classes)
    targets = torch.from_numpy(
        (np.random.default_rng(0).random((4000, num_classes)) < shares).astype(np.int8)
    )
    split = Split(torch.zeros(4000, 1), targets)
    classes = tuple(f"class number {c}" for c in range(num_classes))
    dataset = Dataset("a", classes, split, None, split, load("digits").encoder)
    paths = draw_data_set(dataset, summaries(dataset), tmp_path)
    for path in paths:
        labels = [
            element.text
            for element in ElementTree.parse(path).getroot().iter()
            if element.text and element.text.startswith("class number")
        ]
        axes = 2 if "co-occurrence" in path.name else 1
        assert len(labels) == axes * (num_classes if num_classes <= 100 else 100)
        assert path.stat().st_size < 1_000_000


@pytest.mark.parametrize(
    ("content", "sentence"),
    [("", "is empty"), ("x,tag_a\n1,7\n2,0\n", "has 7 for class 'tag_a' in row 1")],
)
def test_bad_files_end_with_2(tmp_path: Path, content: str, sentence: str, capsys) -> None:
    (tmp_path / "a.csv").write_text(content)
    assert main(["data", str(tmp_path / "a.csv"), "--labels", "tag_*"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert sentence in captured.err
    assert captured.err.count("\n") == 1


def test_flags_of_users_files(real_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = real_data / "goemotions"
    out = run(
        capsys,
        *(folder / "dev.tsv", "--no-header", "--text", "0", "--label-column", "1"),
        *("--classes", folder / "labels.txt", "--format", "json"),
    )
    content = json.loads(out)
    assert content["splits"]["train"]["classes"][0]["class"] == "neutral"
    assert sum(split["samples"] for split in content["splits"].values()) == 5426


def test_columns_of_a_table_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"{i % 7}.5,{'ab'[i % 2]},remark {i},{i % 2}\n" for i in range(40))
    (tmp_path / "a.csv").write_text("age,[red]kind\x1b,comment,tag_a\n" + rows)
    out = run(capsys, tmp_path / "a.csv", "--labels", "tag_*")
    listed = [line.split() for line in out.splitlines()]
    assert [words[:3] for words in listed if words and words[0] in ("age", "comment")] == [
        ["age", "number", "0.5"],
        ["comment", "left", "out"],
    ]
    assert ["[red]kind\N{REPLACEMENT CHARACTER}", "category", "2", "values", "2"] in listed
    assert ["tag_a", "label"] in listed
    content = json.loads(run(capsys, tmp_path / "a.csv", "--labels", "tag_*", "--format", "json"))
    assert [(column["name"], column["use"]) for column in content["columns"]][2:] == [
        ("comment", "left out"),
        ("tag_a", "label"),
    ]


def test_a_column_without_a_name_can_be_dropped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"{i},{i / 7},{i % 2}\n" for i in range(40))
    (tmp_path / "a.csv").write_text(f",x,tag_a\n{rows}")
    out = run(capsys, tmp_path / "a.csv", "--labels", "tag_*")
    assert "note: column '' is left out: it looks like an ID" in out
    out = run(capsys, tmp_path / "a.csv", "--labels", "tag_*", "--drop", "")
    assert "as --drop says" in out
    assert "note: " not in out


def test_columns_of_a_wide_table_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"x{i}" for i in range(500)]
    rows = "".join(",".join([str(i / 7)] * 500) + f",{i % 2}\n" for i in range(40))
    (tmp_path / "a.csv").write_text(",".join([*names, "tag_a"]) + "\n" + rows)
    out = run(capsys, tmp_path / "a.csv", "--labels", "tag_*", "--drop", "x1*")
    listed = [" ".join(line.split()) for line in out.splitlines()]
    assert "number 389 x0, x2, x3, x4, x5 and 384 more" in listed
    assert "left out: as --drop says 111 x1, x10, x11, x12, x13 and 106 more" in listed
    assert "label 1 tag_a" in listed
    assert len(listed) < 40


def test_folds_and_columns_that_split_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(
        f"{i // 4},2024-{i % 12 + 1:02}-01,{i * 0.618034 % 1:.5f},{int(i % 9 == 0)}\n" for i in range(180)
    )
    (tmp_path / "a.csv").write_text(f"who,day,x,tag_a\n{rows}")
    options = ("--labels", "tag_*", "--group", "who")
    out = run(capsys, tmp_path / "a.csv", *options)
    assert "it says which rows stay together (--group)" in out
    content = json.loads(run(capsys, tmp_path / "a.csv", *options, "--format", "json"))
    (fewest,) = content["folds"]["fewest_positives"]
    assert f"with 5 folds, the smallest number of tag_a in a fold is {fewest}" in out
    out = run(capsys, tmp_path / "a.csv", "--labels", "tag_*", "--time", "day")
    assert "it says which rows are later (--time)" in out


def test_too_few_times_for_folds_are_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"{i % 4},{i * 0.618034 % 1:.5f},{i % 3 % 2}\n" for i in range(120))
    (tmp_path / "a.csv").write_text(f"year,x,tag_a\n{rows}")
    out = run(capsys, tmp_path / "a.csv", "--labels", "tag_*", "--time", "year")
    assert "note: no 5 folds: " in out
