"""The report as one self-contained HTML file."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from tailmask import __version__
from tailmask._util.files import write_text
from tailmask._util.messages import require
from tailmask.comparison import Comparison, Experiment, arrange, compare_runs
from tailmask.comparison.measures import describe, primary
from tailmask.comparison.verdict_sentences import decision_words, lead_method, shown_decision, verdict
from tailmask.report import page_tables
from tailmask.report.comparison_text import footnote
from tailmask.report.page_figures import draw_pictures
from tailmask.runs.reader import Run

__all__ = ["GENERATOR", "render_report", "write_report"]

# This line marks a report of tailmask.
GENERATOR = '<meta name="generator" content="tailmask'


def write_report(
    runs: Sequence[Run],
    path: Path,
    *,
    comparison: Comparison | None = None,
    command: str | None = None,
    tables: Sequence[page_tables.SmallTable] = (),
) -> None:
    """Write the page about finished runs to `path`, atomically.

    The page needs no network and no other file. With `comparison` the runs are not compared again. The page
    shows `command` as the next step, and `tables` in their own section.
    """
    write_text(path, render_report(runs, comparison=comparison, command=command, tables=tables))


def render_report(
    runs: Sequence[Run],
    *,
    comparison: Comparison | None = None,
    title: str | None = None,
    command: str | None = None,
    tables: Sequence[page_tables.SmallTable] = (),
) -> str:
    """The page about finished runs, as HTML."""
    comparison = comparison or compare_runs(runs)
    experiment = arrange(runs, baseline=comparison.baseline)
    lead = lead_method(comparison)
    found = verdict(comparison)
    script, style = _file("script.js"), _file("style.css")
    measures, lines = page_tables.comparison_table(comparison)
    methods, every_line = page_tables.all_measures(comparison)
    gained, lost = ([], []) if lead is None else page_tables.gains(comparison, lead)
    page: str = _template().render(
        generator=f"tailmask {__version__}",
        title=title or comparison.data,
        script=script,
        style=style,
        script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        comparison=comparison,
        lead=lead,
        outcome=found.outcome,
        sentences=[_spans(sentence) for sentence in found.sentences],
        details=[_spans(sentence) for sentence in found.details],
        command=command,
        ranks=page_tables.ranking(comparison),
        rank_name=describe(primary(single_label=comparison.single_label)[0]).heading,
        class_words="" if comparison.single_label else decision_words(comparison.class_decision),
        shown_words="" if comparison.single_label else decision_words(shown_decision(comparison)),
        confused=page_tables.confusion_table(
            experiment.runs[lead or comparison.baseline].values(), comparison
        ),
        measures=measures,
        lines=lines,
        methods=methods,
        every_line=every_line,
        gained=gained,
        lost=lost,
        footnote=footnote(comparison),
        notes=experiment.config.get("notes") or [],
        class_data=page_tables.class_data(comparison, lead),
        gain_name="recall" if comparison.single_label else "F1",
        tables=tables,
        pictures=draw_pictures(experiment, comparison, lead),
        runs=_runs(experiment),
        recipe=_recipe(experiment.config),
        epochs=experiment.config["recipe"]["schedule"].get("epochs"),
        environment=_environment(experiment.config),
    )
    return page


def _spans(sentence: str) -> list[tuple[bool, str]]:
    """The parts of a sentence, each with True if it is code (between backticks).

    >>> _spans("Use `plm`.")
    [(False, 'Use '), (True, 'plm'), (False, '.')]
    """
    return [(place % 2 == 1, part) for place, part in enumerate(sentence.split("`"))]


def _template() -> Any:
    jinja2 = require("jinja2", extra="cli")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["thousands"] = lambda number: f"{number:,}"
    return environment.from_string(_file("page.html"))


def _file(name: str) -> str:
    return (resources.files("tailmask.report") / "template" / name).read_text(encoding="utf-8")


def _runs(experiment: Experiment) -> list[dict[str, Any]]:
    """One line per run: method, seed, time, folder and commit."""
    every = [(method, seed, run) for method, runs in experiment.runs.items() for seed, run in runs.items()]
    names = _short_names([run.folder for _, _, run in every])
    return [
        {
            "method": method,
            "full_name": run.config["method"],
            "seed": seed,
            "minutes": run.seconds / 60,
            "folder": name,
            "commit": str(run.config.get("commit") or "–")[:10],
        }
        for (method, seed, run), name in zip(every, names, strict=True)
    ]


def _short_names(folders: Sequence[Path]) -> list[str]:
    """The shortest ends of the paths that are all different; the page must not show parent folders.

    >>> _short_names([Path("/home/a/bce"), Path("/home/b/bce")]), _short_names([Path("/home/a/bce")])
    (['a/bce', 'b/bce'], ['bce'])
    """
    parts = [folder.resolve().parts for folder in folders]
    length = 1
    while len({each[-length:] for each in parts}) < len(set(parts)):
        length += 1
    return ["/".join(each[-length:]) for each in parts]


def _recipe(config: dict[str, Any]) -> dict[str, list[tuple[str, str]]]:
    """The recipe and the data as names and texts, by section."""
    data = {**config["determines"].get("data", {})}
    splits = data.pop("splits", None) or {}
    tables: dict[str, Any] = {"data": data, **splits, **config["recipe"]}
    return {
        section: [(name, _value(value)) for name, value in table.items() if value not in ([], {}, None)]
        for section, table in tables.items()
        if isinstance(table, dict) and table
    }


def _environment(config: dict[str, Any]) -> dict[str, str]:
    versions = config.get("versions")
    found = {name: str(value) for name, value in versions.items()} if isinstance(versions, dict) else {}
    return found | {"machine": str(config.get("machine", "–"))}


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} = {_value(part)}" for name, part in value.items())
    if isinstance(value, list):
        return ", ".join(map(_value, value))
    text = str(value)
    return f"{text[:12]}…" if re.fullmatch(r"[0-9a-f]{32,}", text) else text  # a digest's start is enough
