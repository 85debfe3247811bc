"""Random test sets for the tests of the metrics: scores with ties, labels that may be unknown."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor


def random_case(
    seed: int, num_samples: int = 200, num_classes: int = 7, *, unknown: float = 0.0, ties: bool = False
) -> tuple[Tensor, Tensor]:
    """Scores (float32) and targets (int8) whose positives score higher on average; some classes are rare."""
    rng = np.random.default_rng(seed)
    share = rng.choice([0.02, 0.1, 0.3, 0.6], num_classes)
    targets = (rng.random((num_samples, num_classes)) < share).astype(np.int8)
    scores = rng.normal(size=targets.shape) + 1.5 * targets - 0.75
    if ties:
        scores = np.round(scores)
    targets[rng.random(targets.shape) < unknown] = -1
    return torch.from_numpy(scores.astype(np.float32)), torch.from_numpy(targets)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """Small cases of every kind, empty classes and samples included."""
    return random_case(
        draw(st.integers(0, 10_000)),
        draw(st.integers(1, 30)),
        draw(st.integers(1, 8)),
        unknown=draw(st.sampled_from([0.0, 0.3, 0.9])),
        ties=draw(st.booleans()),
    )
