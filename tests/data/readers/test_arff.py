"""ARFF files and Mulan's XML, against liac-arff on well-formed files, and what else there is on bad ones."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import arff
import numpy as np
import pytest
from scipy.sparse import csr_array

from tailmask._util.messages import UserError
from tailmask.data import DataOptions, load
from tailmask.data.readers.arff import Arff
from tailmask.data.readers.mulan import official_test_file, read_label_names, read_mulan

DENSE = """% a comment
@RELATION 'some data'
@attribute age NUMERIC
@attribute 'the colour' {red, 'light blue', "it\\'s"}
@attribute height real
@attribute cat {0,1}
@attribute dog {0,1}

@data
1.5, red, ?, 1, 0
-2e1,'light blue',3,0,0
?,"it\\'s", 4 ,?,1
"""

SPARSE = """@relation r
@attribute a {0,1}
@attribute b numeric
@attribute kind {x,y,z}
@attribute label1 {0,1}
@attribute label2 {0,1}
@data
{0 1, 3 1}
{1 2.5,2 y,4 1}
{}
{ 2 z , 4 1 }
"""

XML = """<?xml version="1.0" encoding="utf-8"?>
<labels xmlns="http://mulan.sourceforge.net/labels">
<label name="{}"></label><label name="{}"/>
</labels>"""


def write(folder: Path, name: str, content: str, *labels: str) -> Path:
    (folder / f"{name}.arff").write_text(content)
    if labels:
        (folder / f"{name}.xml").write_text(XML.format(*labels))
    return folder / f"{name}.arff"


def test_dense_file(tmp_path: Path) -> None:
    rows, labels = read_mulan(write(tmp_path, "d", DENSE, "cat", "dog"), DataOptions())
    assert rows.names == ("age", "the colour=red", "the colour=light blue", "the colour=it's", "height")
    expected = [[1.5, 1, 0, 0, np.nan], [-20, 0, 1, 0, 3], [np.nan, 0, 0, 1, 4]]
    np.testing.assert_array_equal(rows.values, expected)
    assert labels.classes == ("cat", "dog")
    assert labels.targets.tolist() == [[1, 0], [0, 0], [-1, 1]]


def test_sparse_file_leaves_out_zeros_and_first_values(tmp_path: Path) -> None:
    rows, labels = read_mulan(write(tmp_path, "s", SPARSE, "label1", "label2"), DataOptions())
    assert isinstance(rows.values, csr_array)
    assert rows.names == ("a", "b", "kind=x", "kind=y", "kind=z")
    expected = [[1, 0, 1, 0, 0], [0, 2.5, 0, 1, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 1]]
    assert rows.values.toarray().tolist() == expected
    assert labels.targets.tolist() == [[1, 0], [0, 1], [0, 0], [0, 1]]


def test_sparse_cells_may_be_separated_by_any_white_space(tmp_path: Path) -> None:
    plain = read_mulan(write(tmp_path, "s", SPARSE, "label1", "label2"), DataOptions())
    rows = SPARSE.replace("{1 2.5,2 y", "{1\t2.5,2  \ty")
    assert rows != SPARSE
    tabs = read_mulan(write(tmp_path, "s", rows, "label1", "label2"), DataOptions())
    assert tabs[0].values.toarray().tolist() == plain[0].values.toarray().tolist()
    assert tabs[1].targets.tolist() == plain[1].targets.tolist()


def test_labels_by_pattern_or_as_meka_counts_them(tmp_path: Path) -> None:
    path = write(tmp_path, "s", SPARSE)
    assert read_mulan(path, DataOptions(labels="label*"))[1].classes == ("label1", "label2")
    assert read_mulan(path, DataOptions(labels="label2, a"))[1].classes == ("a", "label2")
    with pytest.raises(UserError, match=r"s\.arff has no column 'lable\*': did you mean 'label[12]'\?"):
        read_mulan(path, DataOptions(labels="label1,lable*"))
    path.write_text(SPARSE.replace("label1", "label[1]"))
    assert read_mulan(path, DataOptions(labels="label[1]"))[1].classes == ("label[1]",)
    path.write_text(SPARSE)
    with pytest.raises(UserError, match="no XML file beside it that names its labels"):
        read_mulan(path, DataOptions())
    path.write_text(SPARSE.replace("@relation r", "@relation 'r: -C -2'"))
    assert read_mulan(path, DataOptions())[1].classes == ("label1", "label2")
    path.write_text(SPARSE.replace("@relation r", "@relation 'r: -C 1'"))
    assert read_mulan(path, DataOptions())[1].classes == ("a",)


@pytest.mark.parametrize(
    ("name", "train", "test", "features", "num_labels"),
    [
        ("yeast", 1500, 917, 103, 14),
        ("enron", 1123, 579, 1001, 53),
        ("corel5k", 4500, 500, 499, 374),
        ("medical", 333, 645, 1449, 45),
        ("emotions", 391, 202, 72, 6),
    ],
)
def test_real_sets_have_their_published_sizes(
    real_data: Path, name: str, train: int, test: int, features: int, num_labels: int
) -> None:
    dataset = load(real_data / "mulan" / name, DataOptions(validation=0))
    assert (len(dataset.train), len(dataset.test)) == (train, test)
    assert (dataset.shape, len(dataset.classes)) == ((features,), num_labels)
    assert dataset.validation is None


@pytest.mark.parametrize(("folder", "file"), [("medical", "medical-train"), ("emotions", "emotions-train")])
def test_real_files_against_liac_arff(real_data: Path, folder: str, file: str) -> None:
    path = real_data / "mulan" / folder / f"{file}.arff"
    rows, labels = read_mulan(path, DataOptions())
    with path.open() as stream:
        content = arff.load(stream)
    names = [name for name, _ in content["attributes"]]
    values = np.array(content["data"], dtype=float)
    expected = values[:, [names.index(name) for name in rows.names]]
    dense = rows.values.toarray() if isinstance(rows.values, csr_array) else rows.values
    np.testing.assert_array_equal(dense, expected)
    np.testing.assert_array_equal(
        labels.targets.numpy(), values[:, [names.index(name) for name in labels.classes]]
    )


def test_official_files_are_found(tmp_path: Path) -> None:
    train = write(tmp_path, "set-train", SPARSE)
    assert official_test_file(train) is None
    test = write(tmp_path, "set-test", SPARSE)
    (tmp_path / "set.xml").write_text(XML.format("label1", "label2"))
    assert official_test_file(train) == test
    assert official_test_file(test) is None
    dataset = load(tmp_path, DataOptions(validation=0))
    assert (len(dataset.train), len(dataset.test), dataset.name) == (4, 4, "set")
    assert load(train, DataOptions(validation=0)).source["splits"]["test"]["file"] == "set-test.arff"
    write(tmp_path, "other-train", SPARSE)
    write(tmp_path, "other-test", SPARSE)
    with pytest.raises(
        UserError,
        match=r"without one pair of train and test .*: name a file in it, or for images a .csv file with",
    ):
        load(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("{0 1, 3 1}", "{0 1, 3 2}", "line 8: the label 'label1' must be 0, 1 or \\?, got '2'"),
        ("{0 1, 3 1}", "{0 1, 99 1}", "line 8: '99' is not the number of an attribute"),
        ("{0 1, 3 1}", "{0 1, 10000000000000000000000 1}", "is not the number of an attribute"),
        ("{0 1, 3 1}", "{0 1, -1 1}", "line 8: '-1' is not the number"),
        ("{0 1, 3 1}", "{0 1, ³ 1}", "line 8: '³' is not the number"),
        ("{0 1, 3 1}", "{0 1, 3 1", "line 8: a sparse row must end"),
        ("{0 1, 3 1}", "{1 abc}", "line 8: 'b' must be a number, got 'abc'"),
        ("{0 1, 3 1}", "{1 1e999}", "line 8: 'b' must be a number"),
        ("{0 1, 3 1}", "{2 w}", "line 8: 'w' is not among the values of 'kind'"),
        ("{0 1, 3 1}", "1,2,x,0", "line 8: expected 5 values, got 4"),
        ("@data", "", "line 8: expected @attribute or @data"),
        ("@attribute b numeric", "@attribute b string", "line 3: attribute 'b' must be numeric or a list"),
        ("@attribute b numeric", "@attribute b {1,2", "line 3: attribute 'b' must be numeric or a list"),
        ("@attribute b numeric", "@attribute b", "line 3: attribute"),
        ("@attribute b numeric", "@attribute a numeric", "names an attribute twice: a"),
    ],
)
def test_bad_files_name_the_line(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    path = write(tmp_path, "s", SPARSE.replace(old, new), "label1", "label2")
    with pytest.raises(UserError, match=sentence) as error:
        read_mulan(path, DataOptions())
    assert str(path) in str(error.value)


def test_dense_rows_leave_no_label_out(tmp_path: Path) -> None:
    dense = "@relation r\n@attribute a numeric\n@attribute l1 {0,1}\n@attribute l2 {2,1,0}\n@data\n"
    path = write(tmp_path, "d", f"{dense}1,0,1\n2,1,0\n{{0 3, 2 1}}\n", "l1", "l2")
    assert read_mulan(path, DataOptions())[1].targets.tolist() == [[0, 1], [1, 0], [0, 1]]
    path.write_text(f"{dense}1,0,1\n2,1,2\n")
    with pytest.raises(UserError, match=r"line 7: the label 'l2' must be 0, 1 or \?, got '2'$"):
        read_mulan(path, DataOptions())
    path.write_text(f"{dense}1,0,1\n".replace("{2,1,0}", "{TRUE,FALSE}").replace(",1\n", ",TRUE\n"))
    with pytest.raises(UserError, match=r"line 6: the label 'l2' must be 0, 1 or \?, got 'TRUE'$"):
        read_mulan(path, DataOptions())


def test_a_label_that_a_sparse_row_leaves_out_is_the_first_of_its_values(tmp_path: Path) -> None:
    path = write(tmp_path, "s", SPARSE.replace("label2 {0,1}", "label2 {1,0}"), "label1", "label2")
    assert read_mulan(path, DataOptions())[1].targets.tolist() == [[1, 1], [0, 1], [0, 1], [0, 1]]
    path.write_text(SPARSE.replace("label2 {0,1}", "label2 {no,1}").replace("{0 1, 3 1}", "{0 1, 3 1, 4 1}"))
    with pytest.raises(UserError, match=r"line 10: the label 'label2' .* got 'no', .* sparse row"):
        read_mulan(path, DataOptions())


def test_files_without_data_or_labels(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no @data"):
        Arff(write(tmp_path, "a", "@relation r\n@attribute a numeric\n"))
    with pytest.raises(UserError, match="has no attribute for the labels absent"):
        read_mulan(write(tmp_path, "b", SPARSE, "label1", "absent"), DataOptions())
    with pytest.raises(UserError, match="has no rows"):
        load(write(tmp_path, "c", SPARSE.partition("{0 1, 3 1}")[0], "label1", "label2"))
    with pytest.raises(UserError, match="line 1: expected @attribute"):
        Arff(write(tmp_path, "d", "\0\1\2 not an arff file"))


@pytest.mark.parametrize(
    "line", ["{" + "a," * 5000 + "x y}", "{" + "'\\" * 5000, '"' * 9999 + "{" + "," * 9999 + "}"]
)
def test_no_line_takes_long(tmp_path: Path, line: str) -> None:
    start = time.perf_counter()
    path = write(tmp_path, "a", f"@relation r\n@attribute a {line}\n@attribute l {{0,1}}\n@data\nx,1\n")
    with contextlib.suppress(UserError):
        read_mulan(path, DataOptions(labels="l"))
    assert time.perf_counter() - start < 2


ENTITIES = """<?xml version="1.0"?>
<!DOCTYPE labels [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>
<labels><label name="&b;"/></labels>"""


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_xml_entities_are_refused(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.xml").write_bytes(ENTITIES.replace("?>", f' encoding="{encoding}"?>', 1).encode(encoding))
    with pytest.raises(UserError, match="has a DOCTYPE"):
        read_label_names(tmp_path / "a.xml")


def test_broken_xml(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text("<labels><label name='a'>")
    with pytest.raises(UserError, match="not a complete XML file"):
        read_label_names(tmp_path / "a.xml")
    (tmp_path / "a.xml").write_text(XML.format("same", "same"))
    with pytest.raises(UserError, match="names a class twice: same"):
        read_mulan(write(tmp_path, "a", SPARSE), DataOptions())
