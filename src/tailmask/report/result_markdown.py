"""Results as Markdown, a pure function of their JSON: everyone can check one against the other."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tailmask._util.markdown_text import escape, markdown_table
from tailmask._util.messages import UserError
from tailmask._util.result_formats import COMPARISON, RESULT

__all__ = ["render_markdown", "rows_of"]


def render_markdown(result: dict[str, Any]) -> str:
    """The Markdown page of a result that `reproduce` or `compare` wrote as JSON.

    >>> render_markdown({"format": "another"})
    Traceback (most recent call last):
    tailmask._util.messages.UserError: a result must have the format 'tailmask.result/1' or ..., got 'another'
    """
    kind = result.get("format")
    if kind == RESULT:
        blocks = _result(result)
    elif kind == COMPARISON:
        blocks = _comparison(result)
    else:
        raise UserError(f"a result must have the format {RESULT!r} or {COMPARISON!r}, got {kind!r}")
    return "\n\n".join([*blocks, "## How this was measured", _provenance(result)]) + "\n"


def _result(result: dict[str, Any]) -> list[str]:
    blocks = [f"# {escape(result['title'])}"]
    if result["figure"]:
        blocks.append(f"![{escape(result['title'])}]({result['figure']})")
    for table in result["tables"]:
        rows = rows_of(table)
        left = 2 if rows[0][1] == "" else 1
        blocks += [f"**{escape(table['caption'])}**", markdown_table(rows, left=left)]
    return blocks + [escape(note) for note in result["notes"]]


def _comparison(result: dict[str, Any]) -> list[str]:
    from tailmask.comparison import Comparison
    from tailmask.report.comparison_text import to_markdown

    blocks = [to_markdown(Comparison.from_json(result["comparison"])).strip()]
    if result["trials"]:
        rows = [["Method", "λ", "F1 on validation, %", "Chosen"]]
        for trial in result["trials"]:
            score = "failed" if trial["validation_f1"] is None else f"{100 * trial['validation_f1']:.2f}"
            rows.append([trial["method"], f"{trial['rate']:g}", score, "yes" if trial["chosen"] else ""])
        blocks += ["## λ, tried with a seed of its own", markdown_table(rows)]
    failures = [escape(f"Failed: {failure['run']}: {failure['sentence']}") for failure in result["failures"]]
    return blocks + failures


def rows_of(table: dict[str, Any]) -> list[list[str]]:
    """A result's table as text: a header, then for each row the paper's numbers and the measured ones.

    A table without the paper's numbers has only the measured lines. `n` is the number of runs. It is given
    once per row, or in each cell if the cells of a row differ; a cell computed from other cells has none.
    """
    cells = [cell for row in table["rows"] for cell in row["cells"]]
    has_paper, has_n = any(cell["paper"] is not None for cell in cells), any(cell["n"] for cell in cells)
    lines = [[table["label"], *[""] * has_paper, *["n"] * has_n, *table["columns"]]]
    for row in table["rows"]:
        numbers = sorted({cell["n"] for cell in row["cells"] if cell["mean"] is not None and cell["n"]})
        if has_paper:
            stated = [_number(cell["paper"], table["digits"]) for cell in row["cells"]]
            lines.append([row["label"], "paper", *[""] * has_n, *stated])
        own = [_measured(cell, table["digits"], with_n=len(numbers) > 1) for cell in row["cells"]]
        shared = str(numbers[0]) if len(numbers) == 1 else ""
        lines.append([*(["", "measured"] if has_paper else [row["label"]]), *[shared] * has_n, *own])
    return lines


def _measured(cell: dict[str, Any], digits: int, *, with_n: bool) -> str:
    if cell["mean"] is None:
        return ""
    form = _form(cell["mean"], digits)
    spread = "" if cell["std"] is None else f" ± {cell['std']:{form}}"
    return f"{cell['mean']:{form}}{spread}" + (f" (n = {cell['n']})" if with_n and cell["n"] else "")


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:{_form(value, digits)}}"


def _form(value: float, digits: int) -> str:
    """The format of a number: the table's decimals, or four significant digits for a tiny or huge number.

    Tables of percentages (two decimals or fewer) show tiny numbers as zero.

    >>> [f"{value:{_form(value, 3)}}" for value in (0.0, 0.0548, 2.3909e-07, 212.88, 5068.32)]
    ['0.000', '0.055', '2.391e-07', '212.880', '5068']
    """
    tiny = digits >= 3 and 0 < abs(value) < 0.01
    huge = digits >= 1 and abs(value) >= 1000
    return ".4g" if tiny or huge else f"z.{digits}f"


def _provenance(result: dict[str, Any]) -> str:
    lines = [
        f"- Command: {_command(result)}",
        f"- Commit: {result['commit'] or 'unknown, not of a checkout'}{_trained_by(result)}",
        f"- Machine: {_machine(result)}",
        f"- Versions: {_versions(result)}",
    ]
    if result["runs"]:
        seeds = ", ".join(map(str, result["seeds"]))
        time = _duration(sum(run["seconds"] for run in result["runs"]))
        lines.append(f"- Seeds: {seeds}; runs: {len(result['runs'])}, which trained for {time}")
    lines += _carried(result)
    lines += [f"- Setting: {_setting(setting)}" for setting in result["settings"]]
    return "\n".join(lines)


def _carried(result: dict[str, Any]) -> list[str]:
    """One line per earlier result that runs were kept from."""
    sources = [run["result"] for run in result["runs"] if "result" in run]
    lines = []
    for place, source in enumerate(sources):
        if source not in sources[:place]:
            parts = [f"- Of these, kept from the result of {_command(source)}: {sources.count(source)}"]
            parts += [say(source) for say in (_machine, _versions) if say(source) != say(result)]
            lines.append("; ".join(parts))
    return lines


def _command(source: dict[str, Any]) -> str:
    return f"`{source['command'] or 'none, by a call from Python'}`"


def _machine(source: dict[str, Any]) -> str:
    machine = source["machine"]
    return f"{machine['cpu']}, {machine['cores']} cores, {machine['system']}"


def _versions(source: dict[str, Any]) -> str:
    return ", ".join(f"{name} {version}" for name, version in source["versions"].items())


def _trained_by(result: dict[str, Any]) -> str:
    """The commits that trained the runs, if they differ from the commit that made the tables."""
    trained = Counter(run["commit"] for run in result["runs"])
    if set(trained) <= {result["commit"]}:
        return ""
    parts = (
        f"{number} by {commit[:10] if commit else 'an unknown one'}"
        for commit, number in trained.most_common()
    )
    return f"; runs: {', '.join(parts)}"


def _duration(seconds: float) -> str:
    """A time in a suitable unit.

    >>> _duration(12.34), _duration(90), _duration(9000)
    ('12.3 s', '1.5 min', '2.5 h')
    """
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def _setting(setting: dict[str, Any]) -> str:
    share = f"budget {setting['budget']:g}" if setting["epochs"] is None else "as asked"
    parts = [f"{escape(setting['data'])}, epochs: {setting['trained_epochs']} ({share})"]
    parts += [f"recipe {setting['recipe']}"] if setting["recipe"] else []
    parts += [f"{name} {value}" for name, value in setting["options"].items()]
    parts += [f"precision {setting['precision']}"] if "precision" in setting else []
    return "; ".join([parts[0], *(f"`{part}`" for part in [*parts[1:], *setting["fields"]])])
