"""`tailmask report`: a page about finished runs, or their comparison as CSV, JSON or Markdown."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from tailmask._util.files import write_text
from tailmask._util.messages import require

__all__ = ["report"]


def report(
    *runs: Annotated[Path, Parameter(required=True)],
    out: Annotated[Path | None, Parameter(alias="-o")] = None,
    form: Annotated[Literal["html", "csv", "json", "md"] | None, Parameter(name="--format")] = None,
    baseline: str | None = None,
    title: str | None = None,
    resamples: int = 2000,
    force: bool = False,
) -> None:
    """Make a report from finished runs.

    Args:
        runs: folders of runs, or folders that contain them
        out: file to write [default: report.html; csv, json and md are printed]
        form: format of the report [default: the ending of --out, else html]
        baseline: method to compare the others with [default: bce, else the first method without masking]
        title: title of the page
        resamples: number of bootstrap samples of the test set for the intervals
        force: overwrite a file that is not a report of tailmask
    """
    for package in ("matplotlib", "jinja2", "rich"):
        require(package, extra="cli")
    from tailmask.comparison import compare_runs
    from tailmask.report.report_file import check_report_path, find_runs, format_of, render

    chosen = format_of(out, form)
    path = Path("report.html") if out is None and chosen == "html" else out
    if path is not None:
        check_report_path(path, force=force)
    found = find_runs(runs)
    with _progress(len(found)) as advance:
        comparison = compare_runs(found, baseline=baseline, resamples=resamples, on_run=advance)
        text = render(chosen, found, comparison=comparison, title=title)
    if path is None:
        sys.stdout.write(text)
        return
    write_text(path, text)
    print(f"{comparison.verdict}\n\nreport in {path}")


@contextlib.contextmanager
def _progress(total: int) -> Iterator[Callable[[object], Any]]:
    """Show a bar that advances with each run, only in a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True)
    columns = (TextColumn("reading runs"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("runs", total=total)
        yield lambda _: bar.advance(task)
