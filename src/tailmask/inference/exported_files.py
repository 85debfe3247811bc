"""Models in the formats that others read: ONNX, torch.export programs, safetensors."""

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

from tailmask._util.files import atomic_path, write_json
from tailmask._util.messages import UserError, require
from tailmask.data.encoders.backbone_encoder import BackboneEncoder
from tailmask.inference.backbone_export import features_note, whole_classifier
from tailmask.inference.export_metadata import architecture, metadata
from tailmask.inference.output_file import check_path
from tailmask.inference.predictor import Predictor
from tailmask.inference.study_choice import choose_run
from tailmask.learners.trained_model import is_model

__all__ = ["FORMATS", "Exported", "export_model"]

FORMATS = {"onnx": ".onnx", "torch-export": ".pt2", "safetensors": ".safetensors"}

# How far an exported program's probabilities may be from the network's, and on batches of which sizes.
TOLERANCE = 1e-5
CHECKED_SIZES = (1, 3)


@dataclass(frozen=True)
class Exported:
    """The files that were written, and how far their probabilities are from the network's (at most).

    `note` says what the caller must do before the program, where a pretrained model comes first.
    """

    files: tuple[Path, ...]
    difference: float | None = None
    note: str | None = None


def export_model(
    run: Path | str,
    target: Path | str,
    *,
    study_run: str | None = None,
    model: str | None = None,
    encoder: str | None = None,
    force: bool = False,
) -> Exported:
    """Write the model of a finished run to `target`, in the format that its ending stands for.

    `.onnx` and `.pt2` hold a program that takes encoded `inputs` (batch, …) of any batch size and gives
    `probabilities` and `logits`; it is compared with the network before the file is there. `.safetensors`
    holds the weights, and a .json file beside it says how to rebuild the network. Class names, thresholds,
    prior shift and encoder go along as metadata. A frozen backbone for images goes into the program where its
    operators allow; for texts the program takes the features, and `note` says so.

    Args:
        run: The run's folder, or that of a study, whose chosen run is taken.
        target: The file to write.
        study_run: Which run of a study to take, in place of the chosen one.
        model: The import path `package.module:factory` of a network of your own; or `hf:FOLDER`, where the
            run's backbone is now.
        encoder: The import path `module:function` of an encoder of your own.
        force: Whether to write over files that are there.
    """
    target = Path(target)
    check_path(target, tuple(FORMATS.values()), force=force)
    suffix = target.suffix.lower()
    if suffix == ".onnx":
        for package in ("onnx", "onnxscript", "onnxruntime"):
            require(package, extra="export")
    chosen = choose_run(Path(run), study_run)
    for folder in (chosen.path / "model", chosen.path / "best" / "model"):
        if is_model(folder):
            raise UserError(
                f"{chosen.path} has several models with encoders of their own, and {suffix} files hold one "
                f"network: copy the folder {folder}, which `tailmask predict` takes, or train one network "
                "with --folds 1"
            )
    # Exported programs name their prior shift beside them, and do not have it inside.
    whole = chosen.decision not in (None, "prior shift")
    predictor = Predictor.load(run if whole else chosen.path, model=model, encoder=encoder)
    try:
        if suffix == ".safetensors":
            return _write_safetensors(predictor, target, force=force)
        save = _save_onnx if suffix == ".onnx" else _save_program
        if predictor.description.encoder.get("kind") == "backbone":
            return _write_with_backbone(predictor, target, save)
        return _write_program(predictor, target, save)
    except OSError as error:
        raise UserError(f"{target} cannot be written: {error.strerror or error}") from error


def _write_safetensors(predictor: Predictor, target: Path, *, force: bool) -> Exported:
    from tailmask.runs.model_file import save_model

    beside = target.with_suffix(".json")
    check_path(beside, (".json",), force=force)
    write_json(beside, architecture(predictor))
    save_model(target, predictor.classifier.network, predictor.description)
    return Exported((target, beside))


# Writes a program with its metadata to a file, and gives what runs that file: inputs → probabilities.
_Save = Callable[[torch.export.ExportedProgram, dict[str, Any], Path], Callable[[Tensor], Tensor]]

_DYNAMIC_BATCH = {"inputs": {0: torch.export.Dim("batch")}}


def _write_with_backbone(predictor: Predictor, target: Path, save: _Save) -> Exported:
    """The frozen backbone together with the network on its features where that works, else the latter."""
    encoder = predictor.encoder
    assert isinstance(encoder, BackboneEncoder)
    whole = whole_classifier(encoder, predictor.classifier)
    if whole is not None:
        with contextlib.suppress(UserError):  # an operator that the format lacks
            exported = _write_program(predictor, target, save, *whole)
            return replace(exported, note=features_note(encoder, whole=True))
    return replace(_write_program(predictor, target, save), note=features_note(encoder, whole=False))


def _write_program(
    predictor: Predictor,
    target: Path,
    save: _Save,
    network: nn.Module | None = None,
    shape: tuple[int, ...] | None = None,
) -> Exported:
    classifier: nn.Module = (network or predictor.classifier).to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]  # torch's types lack memory_format alone
    shape = shape or predictor.description.shape
    with atomic_path(target) as path:
        try:
            with _quiet(), torch.no_grad():
                example = (torch.zeros(2, *shape),)
                program = torch.export.export(classifier, example, dynamic_shapes=_DYNAMIC_BATCH)
                run = save(program, metadata(predictor), path)
                difference = _largest_difference(classifier, run, shape)
        except OSError:
            raise
        except Exception as error:  # torch and ONNX Runtime raise dozens of kinds, none of them documented
            reason = " ".join(str(error).split())[:200]
            raise UserError(f"the network cannot be exported to {target}: {reason}") from error
        if not difference <= TOLERANCE:
            raise UserError(
                f"{target} is not written: its probabilities differ from the network's by {difference:.1g}"
            )
    return Exported((target,), difference)


def _save_onnx(
    program: torch.export.ExportedProgram, about: dict[str, Any], path: Path
) -> Callable[[Tensor], Tensor]:
    exported = torch.onnx.export(
        program,
        dynamo=True,
        dynamic_shapes=_DYNAMIC_BATCH,  # the program has it already; this is what names the axis
        input_names=["inputs"],
        output_names=["probabilities", "logits"],
        verbose=False,
    )
    if exported is None:
        raise RuntimeError("torch.onnx.export has given no program")
    texts = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in about.items()
    }
    exported.model.metadata_props.update(texts)
    exported.save(path, external_data=False)
    runtime = require("onnxruntime", extra="export")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda inputs: torch.from_numpy(session.run(["probabilities"], {"inputs": inputs.numpy()})[0])


def _save_program(
    program: torch.export.ExportedProgram, about: dict[str, Any], path: Path
) -> Callable[[Tensor], Tensor]:
    with path.open("wb") as file:
        torch.export.save(program, file, extra_files={"metadata.json": json.dumps(about, ensure_ascii=False)})
    with path.open("rb") as file:
        module = torch.export.load(file).module()
    return lambda inputs: module(inputs)[0]


def _largest_difference(
    classifier: nn.Module, run: Callable[[Tensor], Tensor], shape: tuple[int, ...]
) -> float:
    generator = torch.Generator().manual_seed(0)
    differences = []
    for size in CHECKED_SIZES:
        inputs = torch.randn(size, *shape, generator=generator)
        differences.append(float((run(inputs) - classifier(inputs)[0]).abs().max()))
    return max(differences)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """What torch says of its own inner workings kept from the user, who gets a sentence."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(action="ignore"), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(before)
