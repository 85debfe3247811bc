"""`tailmask embed`: the features of a pretrained model as a file of numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from tailmask._util.messages import UserError
from tailmask.cli.data_options import DATA_DEFAULTS
from tailmask.cli.model_option import apply_model
from tailmask.data import DataOptions

__all__ = ["embed"]


def embed(
    data: str,
    /,
    *,
    out: Annotated[Path, Parameter(alias="-o")],
    model: str | None = None,
    force: bool = False,
    options: DataOptions = DATA_DEFAULTS,
) -> None:
    """Write the features of a pretrained model for all samples of a file, with their labels.

    Args:
        data: path of your own file, or name of a public data set
        out: .npz file to write, with the arrays X, Y and classes; for a public data set one file per split
        model: pretrained model: hf:NAME_OR_FOLDER or timm:NAME (--encoder names a function of your own)
        force: overwrite an existing file
    """
    from tailmask.data.embedded_files import write_features

    options, fields = apply_model(model, options, ())
    if fields:
        raise UserError(f"--model must be hf:NAME_OR_FOLDER or timm:NAME, got {model!r}")
    for path, (number, width) in write_features(data, out, options, force=force).items():
        print(f"{path}: {number} rows of {width} features")
