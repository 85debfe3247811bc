"""A batch of four classes, from frequent to rare."""

from __future__ import annotations

import pytest
import torch

NUM_CLASSES = 4


@pytest.fixture
def targets():
    return (torch.rand(200, NUM_CLASSES) < torch.tensor([0.6, 0.3, 0.1, 0.05])).float()


@pytest.fixture
def logits():
    return torch.randn(200, NUM_CLASSES, requires_grad=True)
