"""Users' tables: labels from columns or tags, features of every kind, and sentences for what is wrong."""

from __future__ import annotations

import dataclasses
import json
from datetime import timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from scipy.sparse import csr_array
from sklearn.preprocessing import StandardScaler
from sklearn.utils import murmurhash3_32

from tailmask._util.messages import UserError
from tailmask.data import DataOptions, Dataset, load
from tailmask.data.class_statistics import summaries
from tailmask.data.notes import data_notes
from tailmask.data.readers.table.table_dataset import read_table

COLOURS = ["red", "blue", "green"]


def frame(number: int = 80) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    return pl.DataFrame(
        {
            "id": [f"row{i}" for i in range(number)],
            "age": rng.normal(40, 10, number),
            "paid": rng.random(number) < 0.5,
            "colour": [COLOURS[i % 3] for i in range(number)],
            "text": [f"word{i % 7} common {'rare' if i % 5 == 0 else ''}" for i in range(number)],
            "tag_a": (rng.random(number) < 0.5).astype(int),
            "tag_b": (rng.random(number) < 0.2).astype(int),
        }
    )


def save(table: pl.DataFrame, path: Path) -> Path:
    {".csv": table.write_csv, ".parquet": table.write_parquet, ".jsonl": table.write_ndjson}.get(
        path.suffix, lambda target: table.write_csv(target, separator="\t")
    )(path)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".jsonl"])
def test_every_format_gives_the_same_data(tmp_path: Path, suffix: str) -> None:
    table = frame()
    dataset = load(
        save(table, tmp_path / f"a{suffix}"), DataOptions(labels="tag_*", features="age,paid,colour")
    )
    assert dataset.classes == ("tag_a", "tag_b")
    assert [column.kind for column in dataset.encoder.columns] == ["number", "boolean", "category"]
    assert dataset.shape == (6,)  # a number is squashed, and a normal score
    total = sum(split.counts()[1] for split in dataset.splits.values())
    assert total.tolist() == [table["tag_a"].sum(), table["tag_b"].sum()]
    digest = dataset.train.inputs.double().sum().item()
    reference = load(
        save(table, tmp_path / "r.parquet"), DataOptions(labels="tag_*", features="age,paid,colour")
    )
    assert digest == pytest.approx(reference.train.inputs.double().sum().item(), abs=1e-4)


def test_numbers_are_standardised_as_scikit_learn_does(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(3, 5, size=(50, 2))
    table = pl.DataFrame({"x": values[:, 0], "y": values[:, 1], "l": np.arange(50) % 2})
    test = table.head(10)
    save(test, tmp_path / "test.csv")
    options = DataOptions(labels="l", test_file=tmp_path / "test.csv", validation=0, encoding="standard-1")
    dataset = load(save(table, tmp_path / "a.csv"), options)
    scaler = StandardScaler().fit(values)
    np.testing.assert_allclose(dataset.train.inputs.numpy(), scaler.transform(values), atol=1e-5)
    np.testing.assert_allclose(dataset.test.inputs.numpy(), scaler.transform(values[:10]), atol=1e-5)


def test_missing_cells_constant_columns_and_new_categories(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,same,kind,l\n1,7,u,1\n3,7,u,0\n,7,v,1\n5,7,v,0\n")
    (tmp_path / "t.csv").write_text("x,same,kind,l\n,7,w,1\n3,7,,0\n")
    options = DataOptions(labels="l", test_file=tmp_path / "t.csv", validation=0, encoding="standard-1")
    dataset = load(tmp_path / "a.csv", options)
    deviation = np.std([1, 3, 5])
    expected = [[-2 / deviation, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1], [2 / deviation, 0, 0, 1]]
    np.testing.assert_allclose(dataset.train.inputs.numpy(), expected, atol=1e-6)
    assert dataset.test.inputs.tolist() == [[0, 0, 0, 0], [0, 0, 0, 0]]
    assert dataset.notes == (
        "column 'same' has the same value in all training rows, so nothing can be learned from it",
        "column 'x' has 1 empty cells, which are taken as its mean",
    )


def test_identifiers_of_more_digits_than_numbers_have(tmp_path: Path) -> None:
    start = 12345678901234567890123  # polars reads such numbers in 128 bits, which NumPy has not
    rows = "".join(f"{index % 7},{start + index},{start + index % 5},{index % 2}\n" for index in range(30))
    (tmp_path / "a.csv").write_text(f"x,account,branch,l\n{rows}")
    dataset = load(tmp_path / "a.csv", DataOptions(labels="l", encoding="standard-1"))
    assert [note for note in dataset.notes if "in every row" in note and "'account'" in note]
    assert dataset.train.inputs[:, 1:].abs().max() < 1e-6
    (new,) = dataset.encoder.batches(tmp_path / "a.csv", 30)
    assert new[:, 1:].abs().max() < 1e-6


@pytest.mark.parametrize("cells", [["0.1"] * 6, ["0.3", "0.30000000000000004"] * 3, ["true"] * 6])
def test_another_value_in_a_constant_column_is_not_blown_up(tmp_path: Path, cells: list[str]) -> None:
    rows = "".join(f"{cell},{index},{index % 2}\n" for index, cell in enumerate(cells))
    (tmp_path / "a.csv").write_text(f"same,x,l\n{rows}")
    (tmp_path / "t.csv").write_text(f"same,x,l\n{'false' if cells[0] == 'true' else 0.2},1,1\n")
    options = DataOptions(labels="l", test_file=tmp_path / "t.csv", validation=0, encoding="standard-1")
    dataset = load(tmp_path / "a.csv", options)
    assert dataset.train.inputs[:, 0].abs().max() < 1e-12
    assert dataset.test.inputs[0, 0].item() == pytest.approx({"0.1": 0.1, "0.3": -0.1}.get(cells[0], -1.0))


def test_a_column_of_unique_texts_is_left_out_with_a_note(tmp_path: Path) -> None:
    dataset = load(save(frame(), tmp_path / "a.csv"), DataOptions(labels="tag_*"))
    assert (
        "column 'id' is left out: none of its values occurs twice; if it is text, name it in --text"
        in dataset.notes
    )
    assert "id" not in {column.name for column in dataset.encoder.columns}
    (tmp_path / "b.csv").write_text("id,tag\n" + "".join(f"row{i},{i % 2}\n" for i in range(20)))
    with pytest.raises(UserError, match="nothing to learn from: no value of id occurs twice"):
        load(tmp_path / "b.csv", DataOptions(labels="tag"))


def test_a_test_file_needs_only_the_columns_that_are_used(tmp_path: Path) -> None:
    test = save(frame(20).drop("id"), tmp_path / "t.csv")
    dataset = load(save(frame(), tmp_path / "a.csv"), DataOptions(labels="tag_*", test_file=test))
    assert len(dataset.test) == 20


def test_text_is_a_hashed_bag_of_words(tmp_path: Path) -> None:
    table = frame()
    path, test = save(table, tmp_path / "a.csv"), save(table.tail(9), tmp_path / "test.csv")
    expected = np.zeros((len(table), 64))
    for row, text in enumerate(table["text"]):
        for word in text.split():
            expected[row, abs(murmurhash3_32(word, seed=0)) % 64] += 1
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)

    def read(features: str) -> Dataset:
        text = {"text": "text", "text_buckets": 64, "features": features}
        chosen = {"labels": "tag_*", "validation": 0, "encoding": "standard-1"}
        return load(path, DataOptions(test_file=test, **chosen, **text))

    alone = read("text")
    assert isinstance(alone.train.inputs, csr_array)
    np.testing.assert_allclose(alone.train.inputs.toarray(), expected, atol=1e-6)
    np.testing.assert_allclose(alone.test.inputs.toarray(), expected[-9:], atol=1e-6)
    both, _ = read("age").train.batch(torch.arange(len(table)))
    age = StandardScaler().fit_transform(table["age"].to_numpy()[:, None])
    np.testing.assert_allclose(both, np.hstack([age, expected]), atol=1e-5)


def test_text_comes_beside_the_other_columns(tmp_path: Path) -> None:
    path = save(frame(), tmp_path / "a.csv")
    dataset = load(path, DataOptions(labels="tag_*", text="text", text_buckets=64))
    assert [column.name for column in dataset.encoder.columns] == ["age", "paid", "colour", "text"]
    assert dataset.encoder.text == ("text",)
    assert dataset.shape == (2 + 1 + 3 + 64,)


def test_many_categories_become_sparse(tmp_path: Path) -> None:
    table = pl.DataFrame({"k": [f"v{i % 100}" for i in range(1000)], "l": [i % 2 for i in range(1000)]})
    dataset = load(save(table, tmp_path / "a.parquet"), DataOptions(labels="l"))
    assert isinstance(dataset.train.inputs, csr_array)
    assert dataset.shape == (100,)
    assert (dataset.train.inputs.sum(axis=1) == 1).all()


@pytest.mark.parametrize("separator", [",", "|", ";", " "])
def test_tags_in_one_column(tmp_path: Path, separator: str) -> None:
    tags = [separator.join(["b", "a"]), "a", separator, "", "c"]
    table = pl.DataFrame({"x": [1.0, 2, 3, 4, 5], "tags": [None if tag == "" else tag for tag in tags]})
    path = save(table, tmp_path / "a.parquet")
    _, labels = read_table(path, DataOptions(label_column="tags", separator=separator))
    assert labels.classes == ("a", "b", "c")
    assert labels.targets.tolist() == [[1, 1, 0], [1, 0, 0], [0, 0, 0], [-1, -1, -1], [0, 0, 1]]
    assert labels.notes[0].startswith("1 rows have nothing in 'tags', so their labels are unknown")
    assert "--empty-tags none" in labels.notes[0]
    _, labels = read_table(path, DataOptions(label_column="tags", separator=separator, empty_tags="none"))
    assert labels.targets.tolist()[2:4] == [[0, 0, 0], [0, 0, 0]]
    assert labels.notes == ("1 rows have nothing in 'tags': they have none of the labels",)


def test_tags_as_lists_and_the_column_called_labels(tmp_path: Path) -> None:
    lines = [{"x": 1, "labels": ["a", "b"]}, {"x": 2, "labels": []}, {"x": 3, "labels": None}]
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    _, labels = read_table(tmp_path / "a.jsonl", DataOptions())
    assert labels.targets.tolist() == [[1, 1], [0, 0], [-1, -1]]


def test_empty_label_cells_are_unknown(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,t1,t2\n1,1,0\n2,,0\n3,0,\n4,maybe,0\n")
    with pytest.raises(UserError, match="'maybe' for class 't1' in row 4: labels are 0 or 1"):
        read_table(tmp_path / "a.csv", DataOptions(labels="t*"))
    (tmp_path / "a.csv").write_text("x,t1,t2\n1,1,0\n2,,0\n3,0,\n4,1.0,0\n")
    _, labels = read_table(tmp_path / "a.csv", DataOptions(labels="t*"))
    assert labels.targets.tolist() == [[1, 0], [-1, 0], [0, -1], [1, 0]]


def test_labels_in_plain_words(tmp_path: Path) -> None:
    words = ["x,t1,t2,t3", "1,yes,True,1", "2,No,false,y", "3,,FALSE,0", "4,YES ,true,n"]
    (tmp_path / "a.csv").write_text("\n".join(words))
    _, labels = read_table(tmp_path / "a.csv", DataOptions(labels="t*"))
    assert labels.targets.tolist() == [[1, 1, 1], [0, 0, 1], [-1, 0, 0], [1, 1, 0]]


def test_classes_of_other_files_join_in(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,tags\n" + "".join(f'{i},"a,b"\n{i},a\n' for i in range(5)))
    (tmp_path / "t.csv").write_text('x,tags\n1,"c,a"\n')
    options = DataOptions(label_column="tags", test_file=tmp_path / "t.csv", validation=0)
    dataset = load(tmp_path / "a.csv", options)
    assert dataset.classes == ("a", "b", "c")
    assert "train has no positive sample of c" in data_notes(dataset, summaries(dataset))
    assert dataset.test.targets.tolist() == [[1, 0, 1]]


def test_one_tag_a_row_is_single_label(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,kind\n" + "".join(f"{i},k{i % 3}\n" for i in range(60)))
    assert load(tmp_path / "a.csv", DataOptions(label_column="kind")).single_label


def test_a_row_without_a_label_leaves_one_label_a_sample(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,kind\n" + "".join(f"{i},k{i % 3}\n" for i in range(60)) + "7,\n")
    dataset = load(tmp_path / "a.csv", DataOptions(label_column="kind"))
    assert dataset.single_label
    assert sum(int((split.targets == -1).all(dim=1).sum()) for split in dataset.splits.values()) == 1
    assert "their labels are unknown" in dataset.notes[0]
    assert not load(tmp_path / "a.csv", DataOptions(label_column="kind", empty_tags="none")).single_label


def test_goemotions_by_name_and_as_anybodys_file(real_data: Path) -> None:
    dataset = load("goemotions", DataOptions(data_dir=real_data, download=False))
    assert {name: len(split) for name, split in dataset.splits.items()} == {
        "train": 43410,
        "validation": 5426,
        "test": 5427,
    }
    assert (dataset.classes[0], dataset.classes[27]) == ("admiration", "neutral")
    assert dataset.shape == (20_000,)
    first = load("goemotions", DataOptions(data_dir=real_data, download=False, encoding="standard-1"))
    assert first.shape == (2**14,)
    assert first.source == dataset.source | {"encoding": "standard-1"}
    assert dataset.source["options"] == {"label_column": "1", "text": "0", "features": "0", "no_header": True}
    folder = real_data / "goemotions"
    lines = (folder / "train.tsv").read_text().splitlines()
    assert dataset.train.counts()[1, 27] == sum("27" in line.split("\t")[1].split(",") for line in lines)
    options = DataOptions(
        no_header=True,
        text="0",
        features="0",
        label_column="1",
        classes=folder / "labels.txt",
        validation_file=folder / "train.tsv",
        test_file=folder / "test.tsv",
    )
    own = load(folder / "dev.tsv", dataclasses.replace(options, encoding="standard-1"))
    assert own.classes == dataset.classes
    assert (own.test.inputs != first.test.inputs).nnz == 0


@pytest.mark.parametrize(
    ("content", "options", "sentence"),
    [
        ("x,y\n1,2\n", {}, "which columns of .*a.csv are labels\\? name them with --labels"),
        ("x,tag_a\n1,2\n", {"labels": "tg_*"}, "has no column 'tg_\\*': did you mean 'tag_a'"),
        ("x, tag_a\n1, 2\n", {"labels": "tag_*"}, "has ' 2' for class 'tag_a' in row 1"),
        ("x,tag_a, tag_a\n1,0,1\n", {"labels": "tag_a"}, "column twice: tag_a; give"),
        ("x,tag_a\n1,2\n", {"label_column": "tag_"}, "has no column 'tag_': did you mean 'tag_a'\\?"),
        ("x,tag_a\n1,2\n", {"labels": "tag_a"}, "has 2 for class 'tag_a' in row 1"),
        ("x,tag_a\n1,ja\n", {"labels": "tag_a"}, "has 'ja' for class 'tag_a' in row 1: .* yes and no"),
        ("x,tag_a\n1,0.5\n2,NA\n", {"labels": "tag_a"}, "has '0.5' for class 'tag_a' in row 1: labels"),
        ("x,tag_a\n1,yes\n2,1.5\n", {"labels": "tag_a"}, "has '1.5' for class 'tag_a' in row 2: labels"),
        ("x,tag_a,tag_a\n1,0,1\n", {"labels": "tag_a"}, "column twice: tag_a; give each .* its own name$"),
        ("1,0,0\n1,0,1\n", {"labels": "2"}, "twice: 0; .* if that line holds no names, add --no-header"),
        ("tag_a\n1\n", {"labels": "tag_a"}, "has no column to learn from"),
        ("x,tag_a\n", {"labels": "tag_a"}, "has no rows"),
        ("", {"labels": "tag_a"}, "is empty: write"),
        ("x,tag_a\n1,0\n1,0,9\n", {"labels": "tag_a"}, "has 3 cells in line 3, but 2 in its first line"),
        ("x,tag_a\ninf,0\n1,1\n2,0\n3,1\n4,0\n" * 1, {"labels": "tag_a"}, "infinite numbers"),
        ("x,tags\n1,a;b\n2,b;c\n", {"label_column": "tags"}, "have ';': .* --separator ';'"),
        ("x,tag_a\n1,1\n2,\n", {"labels": "tag_a"}, "has empty cells or NaN but no 0"),
        (
            "x,h\n" + "".join(f"{i},{i * 7 % 29 / 10}\n" for i in range(30)),
            {"label_column": "h"},
            "has 29 different labels in 30 rows: is 'h' a label\\?",
        ),
        ("x,h\n1,a\n2,b\n3,c\n", {"label_column": "h"}, "3 samples are too few to hold out"),
        ("x,tag_a\n1,0\n", {"labels": "tag_a", "text": "words"}, "has no column 'words'"),
    ],
)
def test_bad_tables_get_one_sentence(tmp_path: Path, content: str, options: dict, sentence: str) -> None:
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(UserError, match=sentence) as error:
        load(tmp_path / "a.csv", DataOptions(**options, validation=0, test=0.4))
    assert "\n" not in str(error.value)


def test_files_that_are_no_tables(tmp_path: Path) -> None:
    for name in ("a.csv", "a.parquet", "a.jsonl", "a.tsv"):
        (tmp_path / name).write_bytes(b"\xff\xfe\x00\x01PAR1\n\xf0\x28" * 50)
        with pytest.raises(UserError, match=name) as error:
            load(tmp_path / name, DataOptions(labels="tag_*"))
        assert "\n" not in str(error.value)


def test_a_cut_parquet_file(tmp_path: Path) -> None:
    path = save(frame(), tmp_path / "a.parquet")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UserError, match="cannot be read as a table"):
        load(path, DataOptions(labels="tag_*"))


def test_columns_that_are_neither_numbers_nor_text(tmp_path: Path) -> None:
    for cell in ([1, 2], {"a": 1}, timedelta(days=1)):
        table = frame().with_columns(pl.Series("pair", [cell] * 80))
        with pytest.raises(UserError, match=r"column 'pair' holds .*: leave it out with --drop 'pair'$"):
            load(save(table, tmp_path / "a.parquet"), DataOptions(labels="tag_*"))
        assert (
            load(tmp_path / "a.parquet", DataOptions(labels="tag_*", drop="pair")).columns[-1].use
            == "left out"
        )


def test_a_test_file_with_other_types(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,l\n" + "".join(f"{i}.5,{i % 2}\n" for i in range(20)))
    (tmp_path / "t.csv").write_text("x,l\n1,0\n2,1\n")
    options = DataOptions(labels="l", test_file=tmp_path / "t.csv", validation=0)
    assert len(load(tmp_path / "a.csv", options).test) == 2
    (tmp_path / "t.csv").write_text("x,l\nmany,0\n2,1\n")
    with pytest.raises(UserError, match=r"t\.csv has 'many' in row 1 of the column 'x'"):
        load(tmp_path / "a.csv", options)
    (tmp_path / "t.csv").write_text("z,l\n1,0\n2,1\n")
    with pytest.raises(UserError, match=r"t\.csv lacks the columns x"):
        load(tmp_path / "a.csv", options)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_a_test_file_may_fill_a_column_that_is_empty_in_training(tmp_path: Path, suffix: str) -> None:
    table = frame(20).select("age", "tag_a").with_columns(pl.lit(None).alias("fax"))
    test = save(table.with_columns(pl.lit(0.5).alias("fax")), tmp_path / f"t{suffix}")
    options = DataOptions(labels="tag_a", test_file=test, validation=0)
    dataset = load(save(table, tmp_path / f"a{suffix}"), options)
    assert torch.equal(dataset.test.inputs, dataset.train.inputs)


@pytest.mark.parametrize("cells", ["true false NA", "1 0 ?", "TRUE False n/a", "1.0 0.0 -"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_booleans_in_other_files_are_read_as_numbers_are(tmp_path: Path, cells: str, suffix: str) -> None:
    rows = "".join(f"{str(i % 4 == 0).lower()},{i % 2}\n" for i in range(20))
    (tmp_path / "a.csv").write_text(f"paid,l\n{rows}")
    save(pl.DataFrame({"paid": cells.split(), "l": [0, 1, 1]}), tmp_path / f"t{suffix}")
    options = DataOptions(labels="l", test_file=tmp_path / f"t{suffix}", validation=0)
    dataset = load(tmp_path / "a.csv", options)
    assert dataset.columns[0].use == "boolean"
    # Most are false, which is the median; true is one spread from it.
    expected = [[1 / (1 + 1 / 9) ** 0.5], [0.0], [0.0]]
    np.testing.assert_allclose(dataset.test.inputs.numpy(), expected, atol=1e-6)
    (new,) = dataset.encoder.batches(tmp_path / f"t{suffix}", 10)
    assert torch.equal(new, dataset.test.inputs)
    save(pl.DataFrame({"paid": [True, False, None]}), tmp_path / "new.parquet")
    (new,) = dataset.encoder.batches(tmp_path / "new.parquet", 10)
    assert torch.equal(new, dataset.test.inputs)
    (tmp_path / "new.csv").write_text("paid\ntrue\nmaybe\n")
    with pytest.raises(UserError, match=r"new\.csv has 'maybe' in row 2 of the column 'paid'"):
        list(dataset.encoder.batches(tmp_path / "new.csv", 10))
