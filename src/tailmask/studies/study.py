"""`compare`: train every method with every seed on one data set, and compare the results."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tailmask._util.files import write_json, write_text
from tailmask._util.messages import UserError, check_count, listing
from tailmask._util.precision import AskedPrecision
from tailmask._util.provenance import provenance
from tailmask._util.result_formats import COMPARISON
from tailmask.calibration import DecisionRule
from tailmask.data import DataOptions
from tailmask.data.facts import DataFacts
from tailmask.data.readers.program_data import is_frame, keep_frame
from tailmask.learners.ensemble_run import ENSEMBLE, other_methods
from tailmask.methods import DEFAULT_METHODS, TABLE_METHODS
from tailmask.report.result_markdown import render_markdown
from tailmask.runs import ResolvedSetting, Run, Setting
from tailmask.runs.lock import locked
from tailmask.runs.next_command import predict_command
from tailmask.studies.existing_runs import check_recipe, complete_runs, other_runs
from tailmask.studies.planned_runs import (
    PlannedRun,
    distinct,
    method_names,
    plan_runs,
    run_name,
)
from tailmask.studies.run_records import listed_runs, run_record
from tailmask.studies.study_folder import begin_study, check_study
from tailmask.studies.tuning import Trial, choose_rate, earlier_trials, plan_tuning, tunable
from tailmask.studies.worker_pool import Failure, Listener, Pool, check_extras, choose_jobs

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from matplotlib.figure import Figure

    from tailmask.comparison import Comparison
    from tailmask.comparison.run_outputs import Decision

__all__ = ["Study", "compare", "plan_comparison"]


@dataclass(frozen=True)
class Study:
    """The result of `compare`. `comparison` is None if too many runs failed."""

    folder: Path
    runs: tuple[Run, ...]
    comparison: Comparison | None
    failures: tuple[Failure, ...] = ()
    trials: tuple[Trial, ...] = ()

    @property
    def next_command(self) -> str | None:
        """The command that predicts with the chosen model; None if none was chosen."""
        if self.comparison is None or self.comparison.chosen is None:
            return None
        return predict_command(str(self.folder), self.runs[0].config)

    @property
    def report_path(self) -> Path:
        """The page with all tables and figures."""
        return self.folder / "report.html"

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Measures, paired differences and gains by class as lists and dictionaries; values from 0 to 1."""
        if self.comparison is None:
            return {"rows": [], "differences": [], "class_gains": []}
        values = self.comparison.to_json()
        return {name: values[name] for name in ("rows", "differences", "class_gains")}

    def figures(self) -> dict[str, Figure]:
        """The figures by name."""
        from tailmask.report.page_figures import draw_study

        return {} if self.comparison is None else draw_study(self.runs, self.comparison)


def compare(
    data: str | Path | pl.DataFrame | pd.DataFrame = "digits",
    methods: Sequence[str] | None = None,
    *,
    labels: Sequence[str] | None = None,
    seeds: int = 3,
    jobs: int | None = None,
    out: Path | str | None = None,
    baseline: str | None = None,
    tune: Literal["rate"] | None = None,
    recipe: str | None = None,
    budget: float = 1.0,
    epochs: int | None = None,
    fields: Sequence[str] = (),
    options: DataOptions | None = None,
    precision: AskedPrecision = "32",
    folds: int | None = None,
    decisions: Sequence[Decision] | None = None,
    decide: str = "f1",
    listener: Listener | None = None,
    command: str | None = None,
) -> Study:
    """Train every method with every seed, and compare them on the test set. Nothing is chosen on that set.

    Names, data, methods and folders are checked before the first run begins. Complete runs are read.
    Interrupted runs are resumed. A run that fails does not stop the others. The folder gets the runs, the
    page `report.html`, and the tables as `comparison.json` and `comparison.md`. They show all complete runs
    of the study, also those of earlier calls with other methods or more seeds.

    Args:
        data: Name of a data set, path of a file, or a polars or pandas frame, which is kept in the folder.
        methods: Names of methods. The default is the baseline, the paper's method and the recommended one;
            for tables and texts also linear, trees, boost, and the ensemble of all.
        labels: The columns that are labels; `options` may name them instead.
        seeds: Number of seeds, counted from 0; the same for all methods.
        jobs: Number of runs at a time; None: one per GPU, else one per core, at most 8.
        out: Folder of the study; None: `tailmask-compare-DATA` in the current folder.
        baseline: Method to compare with; it is trained too. None: `bce` if it is one of the methods, else the
            first method that does not mask.
        tune: "rate" chooses λ on the validation split for each method with `plm` that does not name one. The
            study does not use the seed of this choice.
        recipe: Name of a recipe, or path of a .toml file; None: the recipe for the data.
        budget: Share of the recipe's epochs to train for.
        epochs: Number of epochs, instead of a budget.
        fields: Fields of the recipe to set, such as "optimizer.lr=0.05".
        options: Choices about the data.
        precision: "32", "bf16" for mixed precision, or "auto" for "bf16" if it is fast on the machine. A
            resumed study keeps its precision.
        folds: Number of folds to cross-fit; None: 5 for tables of fewer than 20,000 rows, else 1.
        decisions: Other decisions to show, made from the same outputs: "tuned thresholds", "prior shift";
            None: both.
        decide: The goal of fitted thresholds: "f1", "precision=0.9", "recall=0.8", "cost=5" or "top=3".
        listener: Receives the progress of the study.
        command: The command line to record.
    """
    if tune not in (None, "rate"):
        raise UserError(f"--tune takes rate, got {tune!r}")
    rule = DecisionRule.parse(decide)
    options = (options or DataOptions()).with_labels(labels)
    if is_frame(data):
        out = Path("tailmask-compare-frame" if out is None else out)
        data = keep_frame(data, out)
    setting = Setting(str(data), options, recipe, budget, epochs, tuple(fields), precision, folds=folds)
    setting, names, folder = _check(setting, methods, seeds=seeds, out=out, baseline=baseline)
    to_tune, listener, by_data = tunable(names) if tune else [], listener or Listener(), methods is None
    listener.prepare()
    possible = [*names, *(TABLE_METHODS if by_data else ())]
    folders = [folder / "runs" / run_name(name, seed) for name in possible for seed in range(seeds)]
    missing = None if tune else sum(not Run(each).is_complete for each in folders)
    with contextlib.ExitStack() as held:  # the folder's lock, until the tables are written
        with Pool(choose_jobs(jobs, num_runs=len(folders)), num_runs=missing) as pool:
            facts = pool.facts([setting])[setting]
            if tune and not facts.has_validation:
                raise UserError("--tune needs a validation split: give the data one, as in --validation 0.1")
            resolved = setting.resolve(facts)
            names = _for_data(names, facts, by_data=by_data)
            with_ensemble, names = ENSEMBLE in names, other_methods(names)
            tuning = plan_tuning(resolved, to_tune, folder=folder / "tuning")
            tries = [run for planned in tuning.values() for run in planned.values()]
            pool.check([*plan_runs(resolved, names, range(seeds), folder=folder / "runs"), *tries])
            held.enter_context(locked(folder))
            begin_study(folder, resolved, facts)
            check_recipe(folder / "runs", resolved)
            failures = pool.make(tries, listener) if tries else []
            chosen = {method: choose_rate(method, planned, failures) for method, planned in tuning.items()}
            names = distinct([chosen[name][0] if name in chosen else name for name in names])
            planned = plan_runs(resolved, names, range(seeds), folder=folder / "runs")
            failures += pool.make(planned, listener)
            if with_ensemble:
                combined = plan_runs(resolved, [ENSEMBLE], range(seeds), folder=folder / "ensembles")
                arms = {run: _arms(folder / "runs", run.config.seed) for run in combined}
                combined = [run for run in combined if arms[run]]
                failures += pool.make(combined, listener, arms=arms)
                planned += combined
        asked = [run for run in (Run(each.folder) for each in planned) if run.is_complete]
        ensembles = [run for run in asked if run.config["name"] == ENSEMBLE]
        asked = [run for run in asked if run not in ensembles]
        runs = (*asked, *_others(folder / "runs", asked, listener), *ensembles)
        first = planned[0].config.name if baseline else _baseline(asked)
        comparison = _compare(runs, first, decisions, rule, listener)
        made = [trial for _, trials in chosen.values() for trial in trials]
        trials = (*made, *earlier_trials(folder / "comparison.json", besides=made))
        study = Study(folder, runs, comparison, tuple(failures), trials)
        _write(study, resolved, command=command)
    return study


def plan_comparison(
    setting: Setting,
    methods: Sequence[str] | None = None,
    *,
    seeds: int = 3,
    out: Path | str | None = None,
    baseline: str | None = None,
) -> list[PlannedRun]:
    """The runs that `compare` would make or read, for a scheduler that makes them one by one.

    It writes the study's folder. Make the runs there, and `compare` will find them.
    """
    setting, names, folder = _check(setting, methods, seeds=seeds, out=out, baseline=baseline)
    with Pool(1) as pool:
        facts = pool.facts([setting])[setting]
        resolved = setting.resolve(facts)
        names = _for_data(names, facts, by_data=methods is None)
        planned = plan_runs(resolved, other_methods(names), range(seeds), folder=folder / "runs")
        pool.check(planned)
    with locked(folder):
        begin_study(folder, resolved, facts)
    return planned


def _check(
    setting: Setting,
    methods: Sequence[str] | None,
    *,
    seeds: int,
    out: Path | str | None,
    baseline: str | None,
) -> tuple[Setting, list[str], Path]:
    """The setting, canonical names and the study's folder, after all checks that need no data."""
    check_count("seeds", seeds)
    check_extras()
    names = _names(DEFAULT_METHODS if methods is None else methods, baseline)
    setting.check(names)
    setting.check_data()
    folder = Path(f"tailmask-compare-{Path(setting.data).stem}" if out is None else out)
    setting = check_study(folder, setting)
    return setting, names, folder


def _names(methods: Sequence[str], baseline: str | None) -> list[str]:
    """Canonical names; a named baseline comes first."""
    if not methods:
        raise UserError("--methods needs at least one method, such as bce plm")
    first = [] if baseline is None else [baseline]
    return method_names([*first, *methods])


def _for_data(names: list[str], facts: DataFacts, *, by_data: bool) -> list[str]:
    """The methods to compare: the named ones, or the default ones for the kind of data."""
    if by_data and facts.raw_rows is not None:
        return method_names([*names, *TABLE_METHODS])
    if ENSEMBLE in names and facts.raw_rows is None:
        raise UserError("ensemble needs tables or texts, and these data are images: leave it out")
    return names


def _arms(folder: Path, seed: int) -> list[Path]:
    """The folders of the complete runs that the ensemble of a seed combines."""
    return [run.folder for run in complete_runs(folder) if run.config["seed"] == seed]


def _baseline(asked: Sequence[Run]) -> str | None:
    """The baseline among the requested runs; None if there are none."""
    from tailmask.comparison import arrange

    return arrange(asked).baseline if asked else None


def _others(folder: Path, asked: Sequence[Run], listener: Listener) -> list[Run]:
    """The study's other runs that can be compared with the requested ones. Notes name them and the rest."""
    if not asked:
        return []
    belonging, rest = other_runs(folder, asked)
    if belonging:
        labels = listing(f"{run.config['name']} (seed {run.config['seed']})" for run in belonging)
        listener.note(None, f"{_of_study(belonging)} in the folder and compared too: {labels}")
    if rest:
        names = listing(run.folder.name for run in rest)
        listener.note(None, f"{_of_study(rest)} damaged, renamed or not comparable, and left out: {names}")
    return belonging


def _of_study(runs: Sequence[Run]) -> str:
    return "1 more run of this study is" if len(runs) == 1 else f"{len(runs)} more runs of this study are"


def _compare(
    runs: Sequence[Run],
    baseline: str | None,
    decisions: Sequence[Decision] | None,
    rule: DecisionRule,
    listener: Listener,
) -> Comparison | None:
    from tailmask.comparison import compare_runs
    from tailmask.comparison.run_outputs import DECISIONS

    if not runs or (baseline is not None and all(run.config["name"] != baseline for run in runs)):
        return None
    done = 0

    def tell(_: Run) -> None:
        nonlocal done
        done += 1
        listener.analysed(done, len(runs))

    return compare_runs(
        runs,
        baseline=baseline,
        decisions=DECISIONS if decisions is None else decisions,
        rule=rule,
        on_run=tell,
    )


def _write(study: Study, setting: ResolvedSetting, *, command: str | None) -> None:
    """Write the tables and the page."""
    from tailmask.report import write_report

    if study.comparison is None:
        return
    result = {
        "format": COMPARISON,
        "command": command,
        "budget": setting.asked.budget,
        **provenance(),
        **listed_runs([(setting, run_record(setting, run)) for run in study.runs]),
        "trials": [dataclasses.asdict(trial) for trial in study.trials],
        "failures": [{"run": failure.run.label, "sentence": failure.sentence} for failure in study.failures],
        "comparison": study.comparison.to_json(),
    }
    write_json(study.folder / "comparison.json", result)
    write_text(study.folder / "comparison.md", render_markdown(result))
    # The page comes last: a failing figure must not lose the numbers. It names the folder, not its path.
    name = study.folder.resolve().name
    write_report(
        study.runs,
        study.report_path,
        comparison=study.comparison,
        command=None if study.next_command is None else predict_command(name, study.runs[0].config),
    )
