from __future__ import annotations

import pytest
import torch

from tailmask.metrics import bootstrap_weights


def test_weights_count_draws_with_replacement():
    weights = bootstrap_weights(50, 400, generator=torch.Generator().manual_seed(3))
    assert weights.sum(dim=1).tolist() == [50] * 400
    share_left_out = float((weights == 0).float().mean())
    assert share_left_out == pytest.approx((1 - 1 / 50) ** 50, abs=0.01)
    again = bootstrap_weights(50, 400, generator=torch.Generator().manual_seed(3))
    assert torch.equal(weights, again)
