"""`fit`: train the arms that the time allows, combine them, and keep the best model with its report."""

from __future__ import annotations

import dataclasses
import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from tailmask._util.files import write_json
from tailmask._util.messages import UserError
from tailmask._util.precision import AskedPrecision
from tailmask._util.serialization import from_mapping, to_mapping
from tailmask.calibration import DecisionRule
from tailmask.data import DataOptions, load
from tailmask.data.dataset import Dataset
from tailmask.data.facts import DataFacts
from tailmask.data.readers.program_data import is_frame, joined_frame, keep_arrays
from tailmask.data.readers.table.program_frames import as_polars
from tailmask.fitting.ablation import Step, what_mattered
from tailmask.fitting.importance import Importance, feature_importance
from tailmask.fitting.leaderboard import ArmScores, ranked, score_arm
from tailmask.inference import Predictor, RowPredictor, load_predictor
from tailmask.inference.row_predictor import FIT_RECORD
from tailmask.learners.cross_fitted_run import make_run, run_folds
from tailmask.learners.ensemble_run import ENSEMBLE, fitted_of, make_ensemble, other_methods
from tailmask.learners.protocol import NEVER, Deadline
from tailmask.learners.time_limit import OutOfTimeError
from tailmask.methods import DEFAULT_METHODS
from tailmask.runs import ResolvedSetting, Run, Setting
from tailmask.runs.config import RunConfig, differences
from tailmask.runs.folder import refuse_another, refuse_other_files
from tailmask.runs.lock import locked
from tailmask.runs.next_command import predict_command
from tailmask.studies.planned_runs import PlannedRun, method_names, plan_runs
from tailmask.training.progress import Progress

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

__all__ = ["FIT_METHODS", "FitResult", "fit", "load_model"]

# From the cheapest to the most expensive, so a short time still gives a model.
FIT_METHODS = ("linear", "trees", "boost", "bce")

_RECORD, _REPORT, _IMPORTANCE, _ASKED = FIT_RECORD, "report.html", "importance.json", "asked.json"
_NOT_ASKED = "the importance of the features was not requested"
_FORMAT = "tailmask.fit/1"


@dataclass(frozen=True, eq=False)
class FitResult:
    """The result of `fit`: the best model, and the scores of each arm.

    >>> load_model("nowhere")
    Traceback (most recent call last):
    tailmask._util.messages.UserError: nowhere holds no finished fit: it has no fit.json
    """

    folder: Path
    leaderboard: tuple[ArmScores, ...]  # the best first, by out-of-fold scores
    skipped: tuple[str, ...]  # sentences about arms that were not trained
    predictor: Predictor | RowPredictor
    mattered: tuple[Step, ...] = ()  # out-of-fold gains from thresholds, learner, masking and ensemble
    importance: Importance = dataclasses.field(default=Importance(), repr=False)  # of the features
    temporary: tempfile.TemporaryDirectory[str] | None = dataclasses.field(default=None, repr=False)

    @property
    def next_command(self) -> str:
        """The command that predicts for new data."""
        return predict_command(str(self.folder), Run(self.folder / "best").config)

    @property
    def best(self) -> ArmScores:
        """The arm whose model this is."""
        return self.leaderboard[0]

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the probabilities."""
        return self.predictor.classes

    @property
    def report(self) -> Path:
        """Path of the page with all tables and figures."""
        return self.folder / _REPORT

    def __repr__(self) -> str:
        return f"<FitResult in {self.folder}: {self.sentence()}>"

    def predict_proba(self, features: Any) -> Any:
        """Calibrated probabilities (N, C) of a frame or an array with the columns of training.

        For a frame they are a frame of the same library, with a column per class; else a tensor.
        """
        return self.predictor.predict_proba(features)

    def predict(self, features: Any) -> Any:
        """The predicted labels (N, C), True or False; a frame for a frame, as in `predict_proba`.

        They are decided by thresholds from out-of-fold outputs, or by the rule that `fit` was given.
        """
        return self.predictor.predict(features)

    def save(self, folder: Path | str) -> None:
        """Copy the fit to a new folder, which `load_model` and `tailmask predict` take."""
        if Path(folder).exists():
            raise UserError(f"{folder} already exists: choose another folder")
        shutil.copytree(self.folder, folder)

    def sentence(self) -> str:
        """One sentence: which arm was chosen, and why."""
        best = self.best
        chosen = f"Chosen by out-of-fold scores: {best.method}"
        others = [arm for arm in self.leaderboard[1:] if arm.method != best.method]
        scores = f"F1 {100 * best.out_of_fold.f1:.1f}, mAP {100 * best.out_of_fold.map:.1f}"
        if not others:
            return f"{chosen} ({scores}), the only method."
        second = others[0]
        return (
            f"{chosen} ({scores}); next is {second.method} "
            f"(F1 {100 * second.out_of_fold.f1:.1f}, mAP {100 * second.out_of_fold.map:.1f})."
        )

    def to_json(self) -> dict[str, Any]:
        """`best`, `arms`, `test`, `mattered` and `folder`; scores are shares of 1."""
        return {
            "best": self.best.method,
            "arms": [arm.to_json() for arm in self.leaderboard],
            "test": dataclasses.asdict(self.best.test),
            "mattered": to_mapping(self.mattered),
            "skipped": list(self.skipped),
            "folder": str(self.folder),
        }


def fit(
    data: str | Path | pl.DataFrame | pd.DataFrame | npt.ArrayLike,
    labels: Sequence[str] | pl.DataFrame | pd.DataFrame | npt.ArrayLike | None = None,
    *,
    minutes: float | None = None,
    methods: Sequence[str] | None = None,
    out: Path | str | None = None,
    options: DataOptions | None = None,
    folds: int | None = None,
    recipe: str | None = None,
    fields: Sequence[str] = (),
    epochs: int | None = None,
    precision: AskedPrecision = "auto",
    seed: int = 0,
    decide: str = "f1",
    importance: bool = True,
    listener: Callable[[str], Progress | None] | None = None,
) -> FitResult:
    """Train several methods, combine them, and keep the best model.

    Methods are trained one after the other, the cheapest first. Everything is chosen by out-of-fold scores;
    the test rows are used only for the report. A second call with the same folder resumes: finished
    methods are not trained again.

    Args:
        data: Name of a data set, path of a file, a polars or pandas frame, or an array of features (N, F).
        labels: The columns that are labels (`options` can also name them); or the labels themselves, a frame
            or an array (N, C) of 0 and 1, with −1 or NaN for unknown labels.
        minutes: Time for training. A method is left out if it would not finish in time. None sets no limit.
        methods: Names of methods in the order of training. By default linear, trees, boost and a network; for
            images three networks.
        out: Folder of the fit. None uses a temporary folder, which is kept while the result is in use.
        options: Choices about the data.
        folds: Number of folds; None is 5 for tables of fewer than 20,000 rows, else 1.
        recipe: Name of a recipe for the networks, or path of a .toml file.
        fields: Fields of the recipe to set, such as "optimizer.lr=0.05".
        epochs: Number of epochs of the networks.
        precision: Of the networks: "32", "bf16" for mixed precision, or "auto" for "bf16" if it is fast on
            the machine. A resumed fit keeps its precision.
        seed: Seed of folds, weights and masks.
        decide: The goal of the thresholds: "f1", "precision=0.9", "recall=0.8", "cost=5" or "top=3".
        importance: False to leave out the permutation importance of the features.
        listener: Called with the name of each method; returns the object that shows its progress.
    """
    if minutes is not None and not minutes > 0:
        raise UserError(f"--minutes must be above 0, got {minutes:g}")
    rule = DecisionRule.parse(decide)
    deadline = NEVER if minutes is None else Deadline.after(60 * minutes)
    temporary = tempfile.TemporaryDirectory(prefix="tailmask-fit-") if out is None else None
    folder = Path(temporary.name) if temporary is not None else Path(str(out))
    named = str(data) if isinstance(data, str | Path) else "frame"
    if is_frame(data) and is_frame(labels):
        data, labels = joined_frame(data, labels)
    setting = Setting(
        named, options or DataOptions(), recipe, 1.0, epochs, tuple(fields), precision, folds=folds
    )
    earlier = _asked(folder)
    if earlier is not None:
        setting = setting.keep_precision(earlier["setting"].get("precision", "32"))
    names = other_methods(method_names(methods or FIT_METHODS))
    setting.check(names)
    dataset = _load(data, labels, options, folder)
    facts = DataFacts.of(dataset)
    if dataset.raw is None and dataset.validation is None:
        raise UserError(
            "fit needs validation data to choose by, and there are none: set a share, as in --validation 0.1"
        )
    if methods is None and dataset.raw is None:
        names = method_names(DEFAULT_METHODS)
    resolved = setting.resolve(facts)
    arms = plan_runs(resolved, names, [seed], folder=folder / "runs")
    together = resolved.config(ENSEMBLE, seed)
    _claim(folder, resolved, facts, seed=seed)
    with locked(folder):
        runs, skipped = _train(arms, dataset, deadline, listener)
        if dataset.raw is not None:
            combined = make_ensemble(folder / "ensemble", runs, together, dataset)
            runs = [*runs, combined]
        leaderboard = ranked(score_arm(run) for run in runs)
        best = leaderboard[0]
        chosen = next(run for run in runs if run.config["name"] == best.method)
        if dataset.raw is not None and best.method != ENSEMBLE:  # an ensemble of one arm calibrates that arm
            chosen = make_ensemble(folder / "calibrated", [chosen], together, dataset)
            leaderboard[0] = dataclasses.replace(best, test=score_arm(chosen).test)
        _keep(folder, chosen)
        made = {arm.method for arm in leaderboard}
        trained = {arm.config.name: arm.config.method for arm in arms if arm.config.name in made}
        mattered = what_mattered(leaderboard, trained)
        found = _importance(chosen, dataset, together) if importance else Importance(note=_NOT_ASKED)
        write_json(folder / _IMPORTANCE, to_mapping(found))
        record = {
            "format": _FORMAT,
            "decide": str(rule),
            "skipped": skipped,
            "mattered": to_mapping(mattered),
        }
        write_json(folder / _RECORD, record | {"leaderboard": [arm.to_json() for arm in leaderboard]})
        result = dataclasses.replace(load_model(folder), temporary=temporary)
        _write_page(result, runs, rule)
    return result


def _load(data: Any, labels: Any, options: DataOptions | None, folder: Path) -> Dataset:
    """The data set, from data in any form; arrays are written to the folder."""
    names = list(map(str, labels.columns)) if is_frame(labels) else None
    are_names = labels is None or (names is None and all(isinstance(label, str) for label in labels))
    if isinstance(data, str | Path) or is_frame(data):
        if not are_names:
            raise UserError(
                "labels must be names of columns for a file or a frame, or a frame of labels for a frame"
            )
        return load(data, options, labels=labels)
    if are_names:
        raise UserError("for an array of features, labels must be an array or a frame (N, C) of 0 and 1")
    targets = labels if names is None else as_polars(labels).to_numpy()
    return load(keep_arrays(data, targets, folder, classes=names), options)


def _importance(chosen: Run, dataset: Dataset, config: RunConfig) -> Importance:
    """The importance of the features for the chosen model."""
    if dataset.raw is None:
        return Importance(note="the importance of features is for tables, texts and arrays")
    return feature_importance(
        fitted_of(chosen),
        dataset.raw,
        run_folds(dataset.raw, config),
        labels=dataset.classes,
        seed=config.seed,
    )


def load_model(folder: Path | str) -> FitResult:
    """The result of an earlier `fit`, from its folder."""
    folder = Path(folder)
    path = folder / _RECORD
    if not path.is_file():
        raise UserError(f"{folder} holds no finished fit: it has no {_RECORD}")
    try:
        record = json.loads(path.read_bytes())
        if record["format"] != _FORMAT:
            raise ValueError(f"its format is {record['format']!r}")
        leaderboard = tuple(ArmScores.from_json(arm) for arm in record["leaderboard"])
        skipped = tuple(str(text) for text in record["skipped"])
        mattered = tuple(from_mapping(Step, step) for step in record["mattered"])
    except (OSError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise UserError(f"{path} cannot be read: {error}; fit again") from error
    importance = _read_importance(folder / _IMPORTANCE)
    return FitResult(folder, leaderboard, skipped, load_predictor(folder), mattered, importance)


def _read_importance(path: Path) -> Importance:
    """The importance of the features."""
    try:
        return from_mapping(Importance, json.loads(path.read_bytes()))
    except (OSError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise UserError(f"{path} cannot be read: {error}; fit again") from error


def _claim(folder: Path, setting: ResolvedSetting, facts: DataFacts, *, seed: int) -> None:
    """Record the fit that a folder belongs to, or refuse a folder that belongs to another fit."""
    asked = json.loads(
        json.dumps({"setting": setting.asked.identity(), "source": facts.source, "seed": seed}, default=str)
    )
    earlier = _asked(folder)
    if earlier is not None:
        refuse_another(folder, "fit", differences(earlier, asked))
    else:
        refuse_other_files(folder, "fit")
        write_json(folder / _ASKED, asked)


def _asked(folder: Path) -> dict[str, Any] | None:
    """The record of the fit that the folder already holds, or None."""
    path = folder / _ASKED
    if not path.is_file():
        return None
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
        if isinstance(found["setting"], dict):
            return found
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise UserError(f"{path} is damaged: choose another folder with --out")


def _train(
    arms: Sequence[PlannedRun],
    dataset: Dataset,
    deadline: Deadline,
    listener: Callable[[str], Progress | None] | None,
) -> tuple[list[Run], list[str]]:
    """The runs that finished in time, and a sentence about each arm that was left out.

    Linear models, trees and boosting fit into any time, so each gets an equal share of what is left. A
    network needs the time that it needs.
    """
    runs: list[Run] = []
    skipped: list[str] = []
    for number, arm in enumerate(arms):
        progress = None if listener is None else listener(arm.config.name)
        is_network = arm.config.method.learner is None
        own = deadline if is_network else deadline.part(1 / (len(arms) - number))
        try:
            run = make_run(arm.config, arm.folder, dataset=dataset, progress=progress, deadline=own)
        except OutOfTimeError as error:
            skipped.append(f"{arm.config.name} was left out: {error}")
        else:
            runs.append(run)
    if not runs:
        raise UserError(f"no method could be trained in time ({skipped[0]}): give it more --minutes")
    return runs, skipped


def _keep(folder: Path, chosen: Run) -> None:
    """Copy the chosen run's model to `best`, which prediction reads."""
    best, partial = folder / "best", folder / ".best.partial"
    for each in (partial, best):
        shutil.rmtree(each, ignore_errors=True)
    shutil.copytree(chosen.folder, partial)
    partial.rename(best)


def _write_page(result: FitResult, runs: Sequence[Run], rule: DecisionRule) -> None:
    """Write the page, which recommends the method that was kept."""
    from tailmask.comparison import compare_runs
    from tailmask.comparison.comparison_result import Choice
    from tailmask.comparison.run_outputs import F1_RULE, rule_decision
    from tailmask.fitting.mattered_tables import ablation_table, importance_tables
    from tailmask.report import write_report

    tables = [ablation_table(result.mattered), *importance_tables(result.importance)]
    best = next(run for run in runs if run.config["name"] == result.best.method)
    single = best.config["single_label"]
    decision = "default" if single else rule_decision(rule)
    chosen = Choice(result.best.method, decision, best.config["seed"], best.folder.name)
    write_report(
        runs,
        result.report,
        comparison=compare_runs(runs, rule=F1_RULE if single else rule, chosen=chosen),
        tables=tables,
        command=None if result.temporary else predict_command(result.folder.resolve().name, best.config),
    )
