"""What an exported model says of itself, in JSON values that any language reads."""

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
    """All that is needed to prepare inputs and to read outputs, for a model that has no prior shift in it."""
    description = predictor.description
    return {
        "tailmask_version": __version__,
        "method": description.method,
        "classes": description.classes,
        "single_label": description.single_label,
        "thresholds": None if predictor.thresholds is None else predictor.thresholds.tolist(),
        "prior_shift": description.prior_shift,
        "activation": description.activation,
        "shape": description.shape,
        "outputs": OUTPUTS,
        "encoder": description.encoder,
    }


def architecture(predictor: Predictor) -> dict[str, Any]:
    """What `tailmask.models.build_model` rebuilds the network from, and what its outputs mean."""
    description = predictor.description
    build = {**description.model, "shape": description.shape, "num_classes": len(description.classes)}
    about = metadata(predictor)
    names = ("tailmask_version", "classes", "single_label", "thresholds", "prior_shift", "activation")
    return {"build_model": build, "logit_scale": description.logit_scale} | {
        name: about[name] for name in names
    }
