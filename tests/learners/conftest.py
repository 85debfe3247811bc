"""Small problems for the learners."""

from __future__ import annotations

import numpy as np
import pytest

ROWS = 160


@pytest.fixture
def problem():
    """Rows of numbers and targets of four labels that follow them; the last one is rare."""
    generator = np.random.default_rng(0)
    matrix = generator.normal(size=(ROWS, 6)).astype(np.float32)
    noise = generator.normal(size=(ROWS, 4))
    targets = (matrix[:, :4] + matrix[:, 2:] + noise > [0, 0.5, 1, 2.5]).astype(np.int8)
    return matrix, targets


@pytest.fixture
def partly_known(problem):
    """The same problem with a third of the labels unknown, one label never positive and one never known."""
    matrix, targets = problem
    hidden = np.random.default_rng(1).random(targets.shape) < 0.33
    targets = np.where(hidden, -1, targets)
    extra = np.zeros((ROWS, 2), dtype=np.int8)
    extra[:, 1] = -1
    return matrix, np.concatenate([targets, extra], axis=1).astype(np.int8)
