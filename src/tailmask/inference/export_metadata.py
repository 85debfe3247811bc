"""The metadata of an exported model, as JSON values that any language can read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tailmask import __version__
from tailmask.inference.label_decision import LabelDecision
from tailmask.inference.predictor import Predictor
from tailmask.inference.row_predictor import RowPredictor
from tailmask.learners.trained_model import ModelFacts
from tailmask.runs.model_file import ModelDescription

__all__ = ["architecture", "as_texts", "metadata", "row_metadata"]

OUTPUTS = {
    "probabilities": "(batch, classes), the activation of the logits",
    "logits": "(batch, classes), to which the prior shift may be added before the activation",
}


def metadata(predictor: Predictor) -> dict[str, Any]:
    """All facts for preparing inputs and reading outputs; the model itself does not apply the prior shift."""
    description = predictor.description
    return _shared(description, predictor.decision, prior_shift=description.prior_shift) | {
        "shape": description.shape,
        "outputs": OUTPUTS,
        "encoder": description.encoder,
    }


def row_metadata(predictor: RowPredictor, inputs: list[dict[str, Any]]) -> dict[str, Any]:
    """The same facts about a program on raw rows: its inputs in place of an encoder."""
    return _shared(predictor.model.facts, predictor.decision, prior_shift=None) | {
        "outputs": {
            "probabilities": "(batch, classes) in float64, the activation of the logits",
            "logits": "(batch, classes) in float32, for the prevalence of the data",
        },
        "inputs": inputs,
    }


def _shared(
    model: ModelDescription | ModelFacts, decision: LabelDecision, *, prior_shift: tuple[float, ...] | None
) -> dict[str, Any]:
    """The facts about any model; without thresholds, each row gets its `top` most probable labels."""
    thresholds = decision.thresholds
    return {
        "tailmask_version": __version__,
        "method": model.method,
        "classes": model.classes,
        "single_label": model.single_label,
        "thresholds": None if thresholds is None else thresholds.tolist(),
        "top": decision.top if thresholds is None else None,
        "prior_shift": prior_shift,
        "activation": model.activation,
    }


def as_texts(about: Mapping[str, Any]) -> dict[str, str]:
    """Metadata as texts: JSON, unless they are texts already.

    >>> as_texts({"method": "bce", "classes": ["a", "b"]})
    {'method': 'bce', 'classes': '["a", "b"]'}
    """
    return {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in about.items()
    }


def architecture(predictor: Predictor) -> dict[str, Any]:
    """The arguments of `tailmask.models.build_model` for this network, and the meaning of its outputs."""
    description = predictor.description
    build = {**description.model, "shape": description.shape, "num_classes": len(description.classes)}
    about = metadata(predictor)
    names = ("tailmask_version", "classes", "single_label", "thresholds", "prior_shift", "activation")
    return {"build_model": build, "logit_scale": description.logit_scale} | {
        name: about[name] for name in names
    }
