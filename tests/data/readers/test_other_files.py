"""Tables in files as other programs write them: other separators, gzip, Excel and JSON records."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from tailmask._util.messages import UserError
from tailmask.data import DataOptions, Dataset, load
from tailmask.data.readers.table.frames import read_frame


def table(rows: int = 60) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    return pl.DataFrame(
        {
            "price": rng.normal(10, 3, rows).round(2),
            "amount": [None if i % 9 == 0 else i % 13 + 0.5 for i in range(rows)],
            "city, state": rng.choice(["Bern", "Zug; Baar", "a,b"], rows),
            "tag": np.arange(rows) % 2,
        }
    )


def inputs(dataset: Dataset) -> torch.Tensor:
    return dataset.train.batch(torch.arange(len(dataset.train)))[0]


def commas(frame: pl.DataFrame, *, empty: str = "") -> str:
    """A file as spreadsheets write it where the decimal mark is a comma."""
    return frame.write_csv(separator=";", decimal_comma=True, null_value=empty)


def write(frame: pl.DataFrame, kind: str, folder: Path) -> Path:
    path = folder / kind
    if kind == "semicolon.csv":
        path.write_text(commas(frame))
    elif kind == "marks.csv":
        path.write_text(commas(frame, empty="NA"))
    elif kind == "tab.csv":
        frame.write_csv(path, separator="\t")
    elif kind == "packed.csv.gz":
        path.write_bytes(gzip.compress(frame.write_csv().encode()))
    elif kind == "tab_and_commas.tsv":
        frame.write_csv(path, separator="\t", decimal_comma=True)
    elif kind == "records.json":
        path.write_text(json.dumps(frame.to_dicts(), indent=1))
    elif kind == "packed.json.gz":
        path.write_bytes(gzip.compress(json.dumps(frame.to_dicts()).encode()))
    elif kind == "packed.jsonl.gz":
        path.write_bytes(gzip.compress(frame.write_ndjson().encode()))
    elif kind == "sheet.xlsx":
        write_sheet(frame, path)
    return path


def write_sheet(frame: pl.DataFrame, path: Path) -> None:
    """The least that an Excel file holds: one sheet, with texts inside their cells."""

    def cell(value: object) -> str:
        if value is None:
            return "<c/>"
        if isinstance(value, str):
            return f'<c t="inlineStr"><is><t>{value}</t></is></c>'
        return f"<c><v>{value}</v></c>"

    rows = [frame.columns, *frame.rows()]
    body = "".join(f"<row>{''.join(map(cell, row))}</row>" for row in rows)
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    links = "http://schemas.openxmlformats.org/package/2006/relationships"
    kinds = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    parts = {
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{kinds}.sheet.main+xml"/>'
        f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{kinds}.worksheet+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{links}"><Relationship Id="r1" Type="{office}/officeDocument" '
        'Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>'
        '<sheet name="a" sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{links}"><Relationship Id="r1" '
        f'Type="{office}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{main}"><sheetData>{body}</sheetData></worksheet>',
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, f'<?xml version="1.0" encoding="UTF-8"?>{content}')


@pytest.mark.parametrize(
    "kind",
    [
        *("semicolon.csv", "marks.csv", "tab.csv", "tab_and_commas.tsv", "packed.csv.gz"),
        *("records.json", "packed.json.gz", "packed.jsonl.gz", "sheet.xlsx"),
    ],
)
def test_a_table_is_the_same_in_every_file(tmp_path: Path, kind: str) -> None:
    frame = table()
    frame.write_parquet(tmp_path / "a.parquet")
    path = write(frame, kind, tmp_path)

    def read(train: Path, test: Path) -> Dataset:
        return load(train, DataOptions(labels="tag", test_file=test, validation=0))

    expected, found = read(tmp_path / "a.parquet", tmp_path / "a.parquet"), read(path, path)
    assert torch.equal(inputs(found), inputs(expected))
    assert torch.equal(found.test.inputs, expected.test.inputs)
    for encoder in (found.encoder, expected.encoder):
        assert torch.equal(torch.cat(list(encoder.batches(path, 7))), inputs(expected))
    assert torch.equal(read(tmp_path / "a.parquet", path).test.inputs, expected.test.inputs)


def test_texts_with_semicolons_stay_in_their_cells(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('text,tag\n"one; two; three",1\nfour,0\n')
    (tmp_path / "b.csv").write_text("one; two,1\nthree; four,0\n")
    assert read_frame(tmp_path / "a.csv")["text"].to_list() == ["one; two; three", "four"]
    assert read_frame(tmp_path / "b.csv", header=False)["0"].to_list() == ["one; two", "three; four"]
    codes = "code;x;tag\n" + "".join(f"{i % 3},{i % 2};{i};{i % 2}\nA;{i};1\n" for i in range(9))
    (tmp_path / "d.csv").write_text(codes)
    assert read_frame(tmp_path / "d.csv")["code"][0] == "0,0"  # not all are numbers: it stays what it is


def test_commas_of_thousands_are_no_decimal_commas(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("paid\tshare\n1,500\t0,125\n12,000\t1,500\n")
    frame = read_frame(tmp_path / "a.tsv")
    assert frame.to_dict(as_series=False) == {"paid": ["1,500", "12,000"], "share": ["0.125", "1.500"]}
    with pytest.raises(UserError, match=r"'1,500' in row 1 .* write 1\.5 for 1,5"):
        read_frame(tmp_path / "a.tsv", types={"paid": pl.Float64})


def test_files_that_cannot_be_read_say_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_text("x,tag\n1,0\n")
    with pytest.raises(UserError, match="cannot be read as a table"):
        load(tmp_path / "a.csv.gz", DataOptions(labels="tag"))
    for name, content in (("a.json.gz", b"[1, 2"), ("a.jsonl.gz", gzip.compress(b'{"x": 1}')[:-9])):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match="cannot be read as a table"):
            load(tmp_path / name, DataOptions(labels="tag"))
    (tmp_path / "a.csv.zip").write_bytes(b"PK")
    with pytest.raises(UserError, match="unpack it"):
        load(tmp_path / "a.csv.zip", DataOptions(labels="tag"))
    (tmp_path / "a.xls").write_bytes(b"\0")
    with pytest.raises(UserError, match=r"save it as \.xlsx or \.csv"):
        load(tmp_path / "a.xls", DataOptions(labels="tag"))
    (tmp_path / "a.xlsx").write_bytes(b"\0")
    with pytest.raises(UserError, match="cannot be read as a table"):
        load(tmp_path / "a.xlsx", DataOptions(labels="tag"))
    (tmp_path / "a.json").write_text("[1, 2")
    with pytest.raises(UserError, match="cannot be read as a table"):
        load(tmp_path / "a.json", DataOptions(labels="tag"))
