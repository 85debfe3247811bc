"""`tailmask report`: finished runs as a page to read and to send, or as a table for programs."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

from tailmask.errors import require
from tailmask.files import write_text

__all__ = ["report"]


def report(
    *runs: Path,
    out: Path | None = None,
    format: Literal["html", "csv", "json", "md"] | None = None,
    baseline: str | None = None,
    title: str | None = None,
    resamples: int = 2000,
    force: bool = False,
) -> None:
    """Make one page from finished runs: what was found, how sure that is, class by class.

    The page is a single file that loads nothing; csv, json and md have the comparison alone.

    Args:
        runs: folders of runs, or folders that runs are below of
        out: file to write; left out, report.html for a page, and the terminal for the other forms
        format: html, csv, json or md; left out, what --out ends in, else html
        baseline: method to compare the others with; left out, bce
        title: title of the page
        resamples: how many resampled test sets the intervals are from
        force: replace a file that is not a report of tailmask
    """
    for package in ("matplotlib", "jinja2", "rich"):
        require(package, extra="cli")
    from tailmask.analysis import compare_runs
    from tailmask.report.output import check_target, find_runs, format_of, render

    form = format_of(out, format)
    target = Path("report.html") if out is None and form == "html" else out
    if target is not None:
        check_target(target, force=force)
    found = find_runs(runs)
    with _progress(len(found)) as advance:
        comparison = compare_runs(found, baseline=baseline, resamples=resamples, on_run=advance)
        text = render(form, found, comparison=comparison, title=title)
    if target is None:
        sys.stdout.write(text)
        return
    write_text(target, text)
    print(f"{comparison.verdict}\n\nreport in {target}")


@contextlib.contextmanager
def _progress(total: int) -> Iterator[Callable[[object], Any]]:
    """A bar that moves with each run that is read, where there is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True)
    columns = (TextColumn("reading runs"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("runs", total=total)
        yield lambda _: bar.advance(task)
