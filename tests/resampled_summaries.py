"""The bootstrap as it is defined: every measure again, on each resampled test set."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from tailmask.metrics import Evaluation


def resampled_summaries(evaluation: Evaluation, weights: Tensor) -> dict[str, Tensor]:
    """The summary under each row of `weights` (B, N), which says how often each sample was drawn, as (B,)."""
    rows = [_drawn(evaluation, row).report().summary for row in weights.long()]
    return {name: torch.tensor([row[name] for row in rows], dtype=torch.float64) for name in rows[0]}


def _drawn(evaluation: Evaluation, times: Tensor) -> Evaluation:
    drawn = copy.copy(evaluation)
    for name in ("labels", "scores", "probabilities", "predictions"):
        setattr(drawn, name, getattr(evaluation, name).repeat_interleave(times, dim=0))
    drawn.samples = {name: each.repeat_interleave(times) for name, each in evaluation.samples.items()}
    return drawn
