"""The metadata of an exported model, as JSON values that any language can read."""

from __future__ import annotations

from typing import Any

from tailmask import __version__
from tailmask.inference.predictor import Predictor

__all__ = ["architecture", "metadata"]

OUTPUTS = {
    "probabilities": "(batch, classes), the activation of the logits",
    "logits": "(batch, classes), to which the prior shift may be added before the activation",
}


def metadata(predictor: Predictor) -> dict[str, Any]:
    """All facts for preparing inputs and reading outputs; the model itself does not apply the prior shift."""
    description, thresholds = predictor.description, predictor.decision.thresholds
    return {
        "tailmask_version": __version__,
        "method": description.method,
        "classes": description.classes,
        "single_label": description.single_label,
        "thresholds": None if thresholds is None else thresholds.tolist(),
        "prior_shift": description.prior_shift,
        "activation": description.activation,
        "shape": description.shape,
        "outputs": OUTPUTS,
        "encoder": description.encoder,
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
