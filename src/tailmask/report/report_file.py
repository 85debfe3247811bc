"""The path and the format of a report: an HTML page, or the comparison as CSV, JSON or Markdown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

from tailmask._util.messages import UserError
from tailmask.comparison import Comparison
from tailmask.comparison.comparison_result import FORMAT
from tailmask.report.comparison_text import CSV_COLUMNS, MARKDOWN_MARK, to_csv, to_markdown
from tailmask.report.html_page import GENERATOR, render_report
from tailmask.runs.reader import Run

__all__ = ["Format", "check_report_path", "find_runs", "format_of", "render"]

Format = Literal["html", "csv", "json", "md"]
FORMATS: tuple[Format, ...] = get_args(Format)

# Depth of the search for runs: a study's folder, its settings, their runs.
DEPTH = 3


def find_runs(folders: Sequence[Path]) -> list[Run]:
    """The runs in these folders and their subfolders, each once, except a study's trials of λ.

    >>> find_runs([Path("no-such-folder")])
    Traceback (most recent call last):
    tailmask._util.messages.UserError: there is no folder no-such-folder
    """
    found: dict[Path, Run] = {}
    for folder in folders:
        if not folder.exists():
            raise UserError(f"there is no folder {folder}")
        if not folder.is_dir():
            raise UserError(f"{folder} is a file: name the folder of a run")
        patterns = ["*/" * depth + "run.json" for depth in range(DEPTH + 1)]
        paths = [path.parent for pattern in patterns for path in sorted(folder.glob(pattern))]
        below = [path for path in paths if not _is_try(path, folder)]
        if not below:
            next(folder.iterdir(), None)  # raises an error for an unreadable folder; glob skips it
            raise UserError(f"there is no run.json in {folder} or below it: name the folder of a run")
        found |= {path.resolve(): Run(path) for path in below}
    return list(found.values())


def _is_try(run: Path, folder: Path) -> bool:
    """True if a run below `folder` is only a study's trial of λ, which is not a result."""
    tuning = run.parent
    return tuning.name == "tuning" and folder in tuning.parents and (tuning.parent / "study.json").is_file()


def format_of(path: Path | None, asked: Format | None) -> Format:
    """The requested format, else the one of the path's suffix, else "html".

    >>> format_of(Path("table.csv"), None), format_of(None, None), format_of(Path("a.csv"), "md")
    ('csv', 'html', 'md')
    """
    if asked is not None:
        return asked
    ending = "" if path is None else path.suffix.lower().removeprefix(".")
    return next((name for name in FORMATS if name == ending), "html")


def check_report_path(path: Path, *, force: bool) -> None:
    """Raise a `UserError` if the report would replace a file that is not a report."""
    if path.is_dir():
        raise UserError(f"{path} is a folder: name a file, such as {path / 'report.html'}")
    if path.exists() and not force and not _is_own(path):
        raise UserError(f"{path} exists and is not a report of tailmask: name another file, or add --force")


def render(form: Format, runs: Sequence[Run], *, comparison: Comparison, title: str | None = None) -> str:
    """The report as text in this format."""
    if form == "csv":
        return to_csv(comparison)
    if form == "md":
        return to_markdown(comparison)
    if form == "json":
        return json.dumps(comparison.to_json(), indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    return render_report(runs, comparison=comparison, title=title)


def _is_own(path: Path) -> bool:
    with path.open("rb") as file:
        start = file.read(1000).decode(errors="replace")
    json_mark = f'"format": "{FORMAT}"'
    return (
        GENERATOR in start or json_mark in start or start.startswith((MARKDOWN_MARK, ",".join(CSV_COLUMNS)))
    )
