"""CSV and TSV files as programs write them: quotes, blank lines, marks of bytes, and what cannot be read."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
import torch

from tailmask._util.messages import UserError
from tailmask.data import DataOptions, load
from tailmask.data.readers.table.frames import frame_pieces, read_frame


@pytest.mark.parametrize(("suffix", "blank"), [(".csv", "\n"), (".csv", "\r\n"), (".tsv", "\n")])
def test_blank_lines_are_no_rows(tmp_path: Path, suffix: str, blank: str) -> None:
    separator = "," if suffix == ".csv" else "\t"
    lines = [f"{i}{separator}k{i % 3}\n" for i in range(60)]
    plain, blanks = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    plain.write_text(f"x{separator}kind\n{''.join(lines)}")
    blanks.write_text(f"x{separator}kind\n{blank.join(lines)}{blank}", newline="")
    expected, found = (load(path, DataOptions(label_column="kind")) for path in (plain, blanks))
    assert found.single_label
    assert found.notes == expected.notes
    assert torch.equal(found.train.inputs, expected.train.inputs)
    (new,) = found.encoder.batches(blanks, 100)
    assert torch.equal(new, next(expected.encoder.batches(plain, 100)))


@pytest.mark.parametrize(
    ("name", "content", "rows"),
    [
        ("a.csv", "x,k\n1,a\n,\n\n2,b\n\n", [("1", "a"), (None, None), ("2", "b")]),
        ("a.csv", "x,k\r\n1,a\r\n\r\n,\r\n2,b\r\n,", [("1", "a"), (None, None), ("2", "b"), (None, None)]),
        ("a.tsv", 'x\tk\n1\ta\n\t\n\n2\t"b\n\n\t\n', [("1", "a"), (None, None), ("2", '"b'), (None, None)]),
        ("a.csv", 'x,k\n"1\n\n""",a\n\n,\n2,b\n', [('1\n\n"', "a"), (None, None), ("2", "b")]),
        ("a.csv", 'x\n1\n\n""\n2\n', [("1",), ("",), ("2",)]),
    ],
)
def test_rows_of_empty_cells_are_rows(tmp_path: Path, name: str, content: str, rows: list[tuple]) -> None:
    (tmp_path / name).write_text(content, newline="")
    columns = ["x", "k"][: len(rows[0])]
    types = dict.fromkeys(columns, pl.String)
    assert read_frame(tmp_path / name, types=types).rows() == rows
    for batch_size in (1, 2, 9):
        pieces = list(frame_pieces(tmp_path / name, batch_size, columns=columns, types=types))
        assert pl.concat(pieces).rows() == rows
        assert {piece.height for piece in pieces[:-1]} <= {batch_size}
    (last,) = frame_pieces(tmp_path / name, 9, columns=columns[-1:], types=types)
    assert last.rows() == [row[-1:] for row in rows]


def test_predictions_stand_where_their_rows_do(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,l\n" + "".join(f"{i},{i % 2}\n" for i in range(20)))
    encoder = load(tmp_path / "a.csv", DataOptions(labels="l", encoding="standard-1")).encoder
    lines = [
        "\n" if i % 7 == 3 else "NA,NA\n" if i % 5 == 4 else ",\n" if i % 5 == 2 else f"{i},a\n"
        for i in range(99_999)
    ]
    (tmp_path / "new.csv").write_text(f"x,k\n{''.join(lines)}")
    inputs = torch.cat(list(encoder.batches(tmp_path / "new.csv", 1000)))[:, 0]
    written = [line for line in lines if line != "\n"]
    assert (inputs == 0).tolist() == [line in (",\n", "NA,NA\n") for line in written]


def test_a_row_of_empty_cells_is_of_unknown_labels(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,l\n" + "".join(f"{i},{i % 2}\n" for i in range(20)) + ",\n,\n")
    dataset = load(tmp_path / "a.csv", DataOptions(labels="l"))
    assert sum(len(split) for split in dataset.splits.values()) == 22
    assert sum(int((split.targets == -1).sum()) for split in dataset.splits.values()) == 2


def test_quotes_in_a_tsv_file(tmp_path: Path) -> None:
    texts = ['"Why', 'so "sad"', '"a ""b"" c"', '"all of it"']
    (tmp_path / "a.tsv").write_text("t\tl\n" + "".join(f"{text}\t{i % 2}\n" for i, text in enumerate(texts)))
    assert read_frame(tmp_path / "a.tsv")["t"].to_list() == texts
    (tmp_path / "q.tsv").write_text('"t"\t"l\t1"\n"a\tb"\t0\n"c ""d"""\t1\n')  # as R writes it
    table = read_frame(tmp_path / "q.tsv")
    assert table.to_dict(as_series=False) == {"t": ["a\tb", 'c "d"'], "l\t1": [0, 1]}
    (piece,) = frame_pieces(tmp_path / "q.tsv", 9, columns=["t"], types={})
    assert piece["t"].to_list() == table["t"].to_list()
    (tmp_path / "n.tsv").write_text('"a"\t"b"\n')
    assert read_frame(tmp_path / "n.tsv", header=False).rows() == [('"a"', '"b"')]


def test_byte_order_marks_and_windows_lines(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(
        b"\xef\xbb\xbfl,x\r\n" + b"".join(b"%d,%d\r\n" % (i % 2, i) for i in range(20))
    )
    assert load(tmp_path / "a.csv", DataOptions(labels="l")).classes == ("l",)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.csv", "\nx,l\n1,0\n", "begins with a blank line: remove it$"),
        ("a.tsv", " \r\n\r\nx\tl\r\n1\t0\r\n", "begins with a blank line: remove it$"),
        (
            "a.csv",
            "# from the lab\nx,l\n1,0\n",
            "has 2 cells in line 2, but 1 in its first line, '# from the lab': the first line must name "
            "every column, and a cell with a comma must be in quotes$",
        ),
        (
            "a.csv",
            'x,l\n"1\n2",0\n1,2,3\n',
            "has 3 cells in line 4, but 2 in its first line, 'x,l': the first line must name every column",
        ),
        (
            "a.csv",
            "x,l\n1,0,\n2,1,\n",
            "has 3 cells in line 2, but 2 in its first line, 'x,l': remove the commas at the ends of lines$",
        ),
        (
            "a.tsv",
            'x\tl\n"1\t0\n1\t0\t"\n',
            "has 3 cells in line 3, but 2 in its first line, 'x.+l': the first line must name every column$",
        ),
        (
            "a.tsv",
            "x\tl\n1\t0\t\n",
            "has 3 cells in line 2, but 2 in its first line, 'x.+l': remove the tabs at the ends of lines$",
        ),
        (
            "a.csv",
            'x,l\na,0\n5" pipe,1\nb,0\n',
            r"has quotes that do not match: write .*5\"\" pipe",
        ),
        ("a.csv", 'x,l\n"1,0\n2,1\n', "has quotes that do not match: write"),
        ("a.csv", "x,l\n1,é\n".encode("latin-1"), "is not written in UTF-8: save it again as UTF-8$"),
        (
            "a.csv",
            b"x,l\n" + b"1,0\n" * 9999 + b"\xe9,0\n",
            "is not written in UTF-8: save it again as UTF-8$",
        ),
        ("a.tsv", "x\tl\n1\t0\n".encode("utf-16"), "is not written in UTF-8: save it again as UTF-8$"),
        ("a.csv", "x,l\n1,0\n".encode("utf-16-le"), "is not written in UTF-8: save it again as UTF-8$"),
        (
            "a.jsonl",
            '{"x": "é", "l": 0}'.encode("latin-1"),
            "is not written in UTF-8: save it again as UTF-8$",
        ),
    ],
)
def test_text_files_as_programs_write_them(
    tmp_path: Path, name: str, content: str | bytes, sentence: str
) -> None:
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=rf"{name} {sentence}"):
        load(tmp_path / name, DataOptions(labels="l"))


def test_rows_longer_than_the_first_without_a_header(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,0\n2,3,1\n")
    with pytest.raises(UserError, match="3 cells in line 2, but 2 in its first line, '1,0': all lines must"):
        read_frame(tmp_path / "a.csv", header=False)
