"""A device beside the CPU on machines that have none: torch's lazy tensors, which the CPU computes."""

from __future__ import annotations

import functools

import pytest
import torch


@functools.cache
def second_device() -> torch.device:
    """A device whose tensors hold values, and do not mix with the CPU's; skips where torch has none."""
    if torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    try:
        from torch._lazy import ts_backend

        ts_backend.init()
    except (ImportError, RuntimeError):
        pytest.skip("torch has neither CUDA nor lazy tensors")
    return torch.zeros(1).to("lazy").device
