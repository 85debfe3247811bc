"""`tailmask export`: a finished run's model in the formats that others read."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from tailmask.errors import UserError

__all__ = ["export"]


def export(
    run: Path,
    /,
    *,
    format: Literal["onnx", "torch-export", "safetensors"],
    out: Path | None = None,
    model: str | None = None,
    force: bool = False,
) -> None:
    """Write a finished run's model for others: ONNX, torch.export, or weights alone.

    Args:
        run: folder of a finished run
        format: onnx, torch-export (a .pt2 program), or safetensors (weights, and a .json file to rebuild
            the network from)
        out: file to write; left out, one with the run's name in the current folder
        model: import path package.module:factory, for a run with a network of your own
        force: write over files that are there
    """
    from tailmask.inference import FORMATS, export_model

    suffix = FORMATS[format]
    target = out or Path(f"{run.resolve().name}{suffix}")
    if target.suffix.lower() != suffix:
        raise UserError(f"a file for {format} must have a name that ends with {suffix}, got {target}")
    exported = export_model(run, target, model=model, force=force)
    print(" and ".join(map(str, exported.files)) + _checked(exported.difference))


def _checked(difference: float | None) -> str:
    if difference is None:
        return ""
    how = "to the last bit" if difference == 0 else f"within {difference:.1g}"
    return f": probabilities are the network's, {how}"
