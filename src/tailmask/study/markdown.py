"""Results as Markdown: a pure function of their JSON, so that anybody can check one against the other."""

from __future__ import annotations

from typing import Any

__all__ = ["cell_texts", "escape", "markdown_table", "render_markdown", "rows_of"]


def render_markdown(result: dict[str, Any]) -> str:
    """The page of a result that `tailmask reproduce` wrote as JSON."""
    blocks = [f"# {result['title']}"]
    if result["figure"]:
        blocks.append(f"![{result['title']}]({result['figure']})")
    for table in result["tables"]:
        blocks += [f"**{escape(table['caption'])}**", _table(table)]
    blocks += [escape(note) for note in result["notes"]]
    return "\n\n".join([*blocks, "## How this was measured", _provenance(result)]) + "\n"


def rows_of(table: dict[str, Any]) -> list[list[str]]:
    """The table as text: a header, then a line of the paper's numbers and one of the measured ones a row.

    A table without numbers of the paper has the measured lines only; `n` is the number of runs, given once
    a row, or in each cell where cells of a row differ in it.
    """
    has_paper = any(cell["paper"] is not None for row in table["rows"] for cell in row["cells"])
    has_n = any(cell["n"] for row in table["rows"] for cell in row["cells"])
    header = [table["label"], *([""] if has_paper else []), *(["n"] if has_n else []), *table["columns"]]
    lines = [header]
    for row in table["rows"]:
        cells, label = row["cells"], row["label"]
        numbers = sorted({cell["n"] for cell in cells if cell["mean"] is not None})
        n = str(numbers[0]) if len(numbers) == 1 else ""
        if has_paper:
            paper = [_number(cell["paper"], table["digits"]) for cell in cells]
            lines.append([label, "paper", *([""] if has_n else []), *paper])
        own = [cell_texts(cell, table["digits"], with_n=len(numbers) > 1) for cell in cells]
        lead = ["", "measured"] if has_paper else [label]
        lines.append([*lead, *([n] if has_n else []), *own])
    return lines


def cell_texts(cell: dict[str, Any], digits: int, *, with_n: bool = False) -> str:
    """A measured cell as text, empty where nothing was measured.

    >>> cell_texts({"mean": 81.0, "std": 1.4142, "n": 2}, 2)
    '81.00 ± 1.41'
    """
    if cell["mean"] is None:
        return ""
    spread = "" if cell["std"] is None else f" ± {_number(cell['std'], digits)}"
    return _number(cell["mean"], digits) + spread + (f" (n = {cell['n']})" if with_n and cell["n"] else "")


def markdown_table(rows: list[list[str]], *, left: int = 1) -> str:
    """Rows of text, the first being the header, as a Markdown table; all but `left` columns stand right.

    >>> print(markdown_table([["class", "F1"], ["cat", "1.00"]]))
    | class | F1 |
    | --- | ---: |
    | cat | 1.00 |
    """
    header, *body = rows
    rule = ["---" if column < left else "---:" for column in range(len(header))]
    lines = [[escape(text) for text in header], rule, *([escape(text) for text in row] for row in body)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def escape(text: str) -> str:
    """Text, such as the name of a class, with nothing in it that Markdown would take for its own.

    >>> escape("a|b <i>")
    'a\\\\|b \\\\<i>'
    """
    return "".join(f"\\{char}" if char in "\\|<*_`[]" else char for char in " ".join(text.split()))


def _table(table: dict[str, Any]) -> str:
    rows = rows_of(table)
    return markdown_table(rows, left=2 if rows[0][1] == "" else 1)


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _provenance(result: dict[str, Any]) -> str:
    machine, versions = result["machine"], result["versions"]
    listed = ", ".join(f"{name} {version}" for name, version in versions.items())
    lines = [
        f"- Command: `{result['command']}`",
        f"- Commit: {result['commit'] or 'not of a checkout'}",
        f"- Machine: {machine['cpu']}, {machine['cores']} cores, {machine['system']}",
        f"- Versions: {listed}",
    ]
    if result["seeds"]:
        seeds = ", ".join(map(str, result["seeds"]))
        time = _duration(sum(run["seconds"] for run in result["runs"]))
        lines.append(f"- Seeds: {seeds}; runs: {len(result['runs'])}, which trained for {time}")
    for setting in result["settings"]:
        lines.append(f"- Setting: {_setting(setting)}")
    return "\n".join(lines)


def _duration(seconds: float) -> str:
    """A time in the unit that fits it.

    >>> _duration(12.34), _duration(90), _duration(9000)
    ('12.3 s', '1.5 min', '2.5 h')
    """
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def _setting(setting: dict[str, Any]) -> str:
    length = f"epochs: {setting['trained_epochs']}"
    share = f"budget {setting['budget']:g}" if setting["epochs"] is None else "as asked"
    choices = [f"{name} {value}" for name, value in setting["options"].items()]
    own = [f"recipe {setting['recipe']}"] if setting["recipe"] else []
    return "; ".join([f"{setting['data']}, {length} ({share})", *own, *choices, *setting["fields"]])
