"""`tailmask predict`: labels and probabilities for new inputs, from a finished run."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

if TYPE_CHECKING:
    from tailmask.inference.label_decision import LabelDecision

__all__ = ["predict"]


def predict(
    run: Path,
    inputs: Path,
    /,
    *,
    out: Annotated[Path | None, Parameter(alias="-o")] = None,
    decide: str | None = None,
    thresholds: Literal["tuned"] | float | None = None,
    study_run: Annotated[str | None, Parameter(name="--run")] = None,
    prior_shift: bool = False,
    id_column: Annotated[str | None, Parameter(name="--id")] = None,
    images: Path | None = None,
    model: str | None = None,
    encoder: str | None = None,
    force: bool = False,
) -> None:
    """Predict labels for new inputs with a result of fit, a finished run, or the run that a study chose.

    Args:
        run: folder of fit, of a finished run or of a study of compare, or a .safetensors file that was
            exported from one
        inputs: file like the one that the run was trained on, without labels; for images also a folder
        out: file to write: .csv, .parquet or .jsonl [default: the input's name with -predicted.csv]
        decide: goal of thresholds, fitted on the run's validation outputs: f1, precision=0.9, recall=0.8,
            cost=5 (a miss costs five false alarms) or top=3 (three labels per sample)
        thresholds: lowest probability at which a label is predicted, as in 0.5, or tuned for the thresholds
            fitted on validation data [default: tuned if the run has tuned thresholds, else 0.5]
        study_run: run of a study, as in plm_seed=0, or a method of it [default: the run that compare chose]
        prior_shift: shift probabilities back to the prevalence of the data (only for runs of plm)
        id_column: column, or array of an .npz file, that identifies rows [default: the paths of images, else
            row numbers from 0]
        images: folder that the paths in a list of images are relative to [default: the list's folder]
        model: import path package.module:factory, for a run with a network of your own; or hf:FOLDER, if the
            run's pretrained model is in another folder now
        encoder: import path module:function, for a run with an encoder of your own
        force: overwrite an existing file
    """
    import torch

    from tailmask.inference import choose_run, load_predictor, write_predictions

    device = "cuda" if torch.cuda.is_available() else "cpu"
    predictor = load_predictor(
        run,
        thresholds=thresholds,
        decide=decide,
        prior_shift=prior_shift,
        study_run=study_run,
        model=model,
        encoder=encoder,
        device=device,
    )
    path = out or Path(f"{inputs.stem}-predicted.csv")
    with _row_count(f"predicting for {inputs.name}") as progress:
        number = write_predictions(
            predictor, inputs, path, id_column=id_column, images=images, force=force, progress=progress
        )
    chosen = choose_run(run, study_run).path
    which = "" if chosen == run else f" by {chosen.name}"
    print(f"{path}: {number} rows{which}, {_described(predictor.decision)}")
    for note in predictor.decision.notes:
        print(f"note: {note}", file=sys.stderr)


def _described(decision: LabelDecision) -> str:
    """A phrase that says how the labels were decided."""
    if decision.thresholds is None:
        several = f"{decision.top} most probable labels"
        return f"each with its {'most probable label' if decision.top == 1 else several}"
    if decision.decided_by == "tuned":
        return "labels by tuned thresholds"
    if decision.decided_by == "default":
        return f"labels with a probability of at least {decision.thresholds[0]:g}"
    return f"labels by thresholds for {decision.decided_by}"


@contextlib.contextmanager
def _row_count(title: str) -> Iterator[Callable[[int], None]]:
    """Show the number of rows on the error stream if it is a terminal; the total is not known."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TextColumn("{task.completed:.0f} rows"))
    console = Console(stderr=True)
    with Progress(
        *columns, TimeElapsedColumn(), console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(title, total=None)
        yield lambda number: bar.update(task, completed=number)
