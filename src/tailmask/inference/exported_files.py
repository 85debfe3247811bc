"""Models in the formats of other programs: ONNX, torch.export programs, safetensors."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tailmask._util.files import atomic_path, write_bytes, write_json
from tailmask._util.messages import UserError, require
from tailmask.data.encoders.backbone_encoder import BackboneEncoder
from tailmask.data.encoders.token_encoder import TokenEncoder
from tailmask.data.pretrained.backbone_format import BackboneFormat
from tailmask.inference.backbone_export import (
    TOKENS_NOTE,
    features_note,
    fine_tuned_texts,
    raw_features_note,
    whole_classifier,
)
from tailmask.inference.export_metadata import architecture, as_texts, metadata
from tailmask.inference.output_file import check_path
from tailmask.inference.predictor import Predictor
from tailmask.inference.program_inputs import NumberInputs, ProgramInputs
from tailmask.inference.row_predictor import RowPredictor, load_predictor
from tailmask.inference.study_choice import choose_run

__all__ = ["FORMATS", "Exported", "export_model"]

FORMATS = {"onnx": ".onnx", "torch-export": ".pt2", "safetensors": ".safetensors"}

# The largest difference between the probabilities of a program and of its model, and the batch sizes of
# the check.
TOLERANCE = 1e-5
CHECKED_SIZES = (1, 3)


@dataclass(frozen=True)
class Exported:
    """The files that were written, and the largest difference between their probabilities and the model's.

    `note` says which inputs the caller must prepare if there is a pretrained model.
    """

    files: tuple[Path, ...]
    difference: float | None = None
    note: str | None = None


def export_model(
    run: Path | str,
    out: Path | str,
    *,
    study_run: str | None = None,
    model: str | None = None,
    encoder: str | None = None,
    force: bool = False,
) -> Exported:
    """Write the model of a finished run to `out`, in the format of its suffix.

    `.onnx` and `.pt2` hold a program that takes inputs of any batch size and gives `probabilities` and
    `logits`. It is compared with the model before the file gets its name. `.safetensors` holds the weights,
    and a .json file beside it says how to rebuild the network. The metadata have class names, thresholds,
    and facts about the inputs.

    The program of a single network takes encoded `inputs` (batch, …). A pretrained model becomes part of it
    if the format has its operators: a program for texts takes `input_ids` and `attention_mask` (batch,
    tokens). Otherwise the program takes features. `note` says which.

    Fold models, ensembles and learners such as `trees` go to `.onnx` only. Their program takes raw rows: one
    input per column of a table, or `inputs` (batch, features).

    Args:
        run: The folder of a run, of `tailmask fit`, or of a study: then its chosen run is exported.
        out: The file to write.
        study_run: The run of a study to export instead of the chosen one.
        model: The import path `package.module:factory` of your own network; or `hf:FOLDER`, the folder of the
            run's backbone.
        encoder: The import path `module:function` of your own encoder.
        force: Whether to overwrite existing files.
    """
    out = Path(out)
    check_path(out, tuple(FORMATS.values()), force=force)
    suffix = out.suffix.lower()
    if suffix == ".onnx":
        for package in ("onnx", "onnxscript", "onnxruntime"):
            require(package, extra="export")
    predictor = load_predictor(run, study_run=study_run, model=model, encoder=encoder)
    if isinstance(predictor, RowPredictor):
        return _write_row_program(predictor, Path(run), out)
    # Exported programs have their prior shift in the metadata; it is not applied to their outputs.
    if predictor.classifier.prior_shift is not None:
        predictor = Predictor.load(choose_run(Path(run), study_run).path, model=model, encoder=encoder)
    try:
        if suffix == ".safetensors":
            return _write_safetensors(predictor, out, force=force)
        save = _save_onnx if suffix == ".onnx" else _save_program
        kind = predictor.description.encoder.get("kind")
        if kind == "backbone":
            return _write_with_backbone(predictor, out, save)
        if kind == "tokens":
            return _write_fine_tuned_texts(predictor, out, save)
        return _write_program(predictor, out, save)
    except OSError as error:
        raise UserError(f"{out} cannot be written: {error.strerror or error}") from error


def _write_row_program(predictor: RowPredictor, run: Path, out: Path) -> Exported:
    """Write the model as an ONNX program that takes raw rows."""
    if out.suffix.lower() != ".onnx":
        raise UserError(
            f"{out.suffix} files need a single network, but {run} has another kind of model: write an .onnx "
            "file, or train one network with --folds 1"
        )
    from tailmask.inference.onnx.row_program import build_row_program

    instead = f"predict with `tailmask predict {run}` instead"
    try:
        with _quiet():
            content, difference = build_row_program(predictor)
    except UserError as error:
        raise UserError(f"{run} cannot be exported to {out}: {error}; {instead}") from error
    except MemoryError:
        raise
    except Exception as error:  # torch, onnx and ONNX Runtime raise many undocumented kinds of errors
        raise UserError(f"{run} cannot be exported to {out}: {_reason(error)}; {instead}") from error
    _check_difference(difference, out)
    write_bytes(out, content)
    row_format = predictor.model.row_format
    note = raw_features_note(row_format.choice.name) if isinstance(row_format, BackboneFormat) else None
    return Exported((out,), difference, note)


def _write_safetensors(predictor: Predictor, out: Path, *, force: bool) -> Exported:
    from tailmask.runs.model_file import save_model

    beside = out.with_suffix(".json")
    check_path(beside, (".json",), force=force)
    write_json(beside, architecture(predictor))
    save_model(out, predictor.classifier.network, predictor.description)
    return Exported((out, beside))


# Runs a written program: inputs → probabilities.
_Run = Callable[[tuple[Tensor, ...]], Tensor]

# Writes a program with its metadata to a file, and returns a function that runs the file.
_Save = Callable[[torch.export.ExportedProgram, ProgramInputs, dict[str, Any], Path], _Run]


def _write_with_backbone(predictor: Predictor, out: Path, save: _Save) -> Exported:
    """Write the frozen backbone with the network on its features if that works, else only the network."""
    encoder = predictor.encoder
    assert isinstance(encoder, BackboneEncoder)
    whole = whole_classifier(encoder, predictor.classifier)
    if whole is not None:
        with contextlib.suppress(UserError):  # an operator that the format lacks
            exported = _write_program(predictor, out, save, whole)
            return replace(exported, note=features_note(encoder, whole=True))
    return replace(_write_program(predictor, out, save), note=features_note(encoder, whole=False))


def _write_fine_tuned_texts(predictor: Predictor, out: Path, save: _Save) -> Exported:
    encoder = predictor.encoder
    assert isinstance(encoder, TokenEncoder)
    exported = _write_program(predictor, out, save, fine_tuned_texts(encoder, predictor.classifier))
    return replace(exported, note=TOKENS_NOTE)


def _write_program(
    predictor: Predictor,
    out: Path,
    save: _Save,
    whole: tuple[nn.Module, ProgramInputs] | None = None,
) -> Exported:
    network, inputs = whole or (predictor.classifier, NumberInputs(predictor.description.shape))
    classifier: nn.Module = network.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]  # torch's types lack memory_format alone
    with atomic_path(out) as path:
        try:
            with _quiet(), torch.no_grad():
                generator = torch.Generator().manual_seed(0)
                example = inputs.drawn(2, generator)
                program = torch.export.export(classifier, example, dynamic_shapes=inputs.dynamic)
                run = save(program, inputs, metadata(predictor), path)
                checked = [inputs.drawn(size, generator) for size in CHECKED_SIZES]
                difference = max(float((run(each) - classifier(*each)[0]).abs().max()) for each in checked)
        except OSError:
            raise
        except Exception as error:  # torch and ONNX Runtime raise many undocumented kinds of errors
            raise UserError(f"the network cannot be exported to {out}: {_reason(error)}") from error
        _check_difference(difference, out)
    return Exported((out,), difference)


def _check_difference(difference: float, out: Path) -> None:
    """Raise a UserError if the probabilities of a program differ from its model's, or are NaN."""
    if not difference <= TOLERANCE:
        raise UserError(
            f"{out} is not written: its probabilities differ from the model's by {difference:.1g}"
        )


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _save_onnx(
    program: torch.export.ExportedProgram, inputs: ProgramInputs, about: dict[str, Any], path: Path
) -> _Run:
    exported = torch.onnx.export(
        program,
        dynamo=True,
        dynamic_shapes=inputs.dynamic,  # the program has them already; this gives the axes their names
        input_names=list(inputs.dynamic),
        output_names=["probabilities", "logits"],
        verbose=False,
    )
    if exported is None:
        raise RuntimeError("torch.onnx.export has given no program")
    exported.model.metadata_props.update(as_texts(about))
    exported.save(path, external_data=False)
    runtime = require("onnxruntime", extra="export")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def run(values: tuple[Tensor, ...]) -> Tensor:
        named = {name: value.numpy() for name, value in zip(inputs.dynamic, values, strict=True)}
        return torch.from_numpy(session.run(["probabilities"], named)[0])

    return run


def _save_program(
    program: torch.export.ExportedProgram, inputs: ProgramInputs, about: dict[str, Any], path: Path
) -> _Run:
    with path.open("wb") as file:
        torch.export.save(program, file, extra_files={"metadata.json": json.dumps(about, ensure_ascii=False)})
    with path.open("rb") as file:
        module = torch.export.load(file).module()
    return lambda values: module(*values)[0]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hide torch's own logs and warnings: the user gets one sentence instead."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(action="ignore"), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(before)
