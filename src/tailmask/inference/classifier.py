"""A trained network with the steps from its outputs to probabilities."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from tailmask.calibration import apply_prior_shift

__all__ = ["Classifier"]


class Classifier(nn.Module):
    """The exported module: from inputs (B, …) to probabilities and logits, both (B, C) in float32.

    Args:
        network: Returns the outputs (B, C).
        activation: The function that turns logits into probabilities.
        logit_scale: The factor that turns outputs into logits.
        prior_shift: Added to the logits (C,); see `PartialLabelMasking.prior_shift`.

    >>> import torch
    >>> probabilities, logits = Classifier(nn.Linear(3, 2))(torch.zeros(1, 3))
    >>> bool((probabilities == logits.sigmoid()).all())
    True
    """

    prior_shift: Tensor | None

    def __init__(
        self,
        network: nn.Module,
        *,
        activation: Literal["sigmoid", "softmax"] = "sigmoid",
        logit_scale: float = 1.0,
        prior_shift: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.network = network
        self.activation = activation
        self.logit_scale = logit_scale
        self.register_buffer("prior_shift", prior_shift)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities and logits (B, C) of inputs (B, …)."""
        return self.finished(self.network(inputs))

    def finished(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities and logits (B, C) of the network's outputs (B, C)."""
        logits = outputs.float() * self.logit_scale
        if self.prior_shift is not None:
            logits = apply_prior_shift(logits, self.prior_shift)
        return (logits.sigmoid() if self.activation == "sigmoid" else logits.softmax(dim=1)), logits
