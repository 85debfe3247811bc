"""`tailmask export`: convert a finished run's model to another format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from tailmask._util.messages import UserError

__all__ = ["agreement", "export"]


def export(
    run: Path,
    /,
    *,
    form: Annotated[Literal["onnx", "torch-export", "safetensors"] | None, Parameter(name="--format")] = None,
    out: Annotated[Path | None, Parameter(alias="-o")] = None,
    study_run: Annotated[str | None, Parameter(name="--run")] = None,
    model: str | None = None,
    force: bool = False,
) -> None:
    """Convert the model of a finished run to another format.

    Args:
        run: folder of a finished run, of fit, or of a study that compare made
        form: format to write; onnx takes any model, the others one network: torch-export is a .pt2 program,
            safetensors the weights with a .json file to rebuild the network from [default: the ending of
            --out]
        out: file to write [default: the run's name, in the current folder]
        study_run: run of a study, as in plm_seed=0, or a method of it [default: the run that compare chose]
        model: import path package.module:factory, for a run with a network of your own
        force: overwrite existing files
    """
    from tailmask.inference import FORMATS, export_model

    if form is not None:
        out = out or Path(f"{run.resolve().name}{FORMATS[form]}")
        if out.suffix.lower() != FORMATS[form]:
            raise UserError(f"a file for {form} must end with {FORMATS[form]}, got {out}")
    if out is None:
        raise UserError("--format is missing: give it, or name the file to write, such as -o model.onnx")
    exported = export_model(run, out, study_run=study_run, model=model, force=force)
    print(" and ".join(map(str, exported.files)) + agreement(exported.difference))
    if exported.note is not None:
        print(f"note: {exported.note}")


def agreement(difference: float | None) -> str:
    """How well the exported probabilities agree with the model's, as the end of a sentence."""
    if difference is None:
        return ""
    how = "to the last bit" if difference == 0 else f"within {difference:.1g}"
    return f": probabilities are equal to the model's {how}"
