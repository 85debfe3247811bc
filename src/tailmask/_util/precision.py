"""The floating-point precisions of training, and whether this machine is faster in bfloat16."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

__all__ = ["AskedPrecision", "Precision", "has_fast_bf16", "processor_features"]

Precision = Literal["32", "bf16"]
AskedPrecision = Literal["32", "bf16", "auto"]  # auto is bf16 if the machine is fast at it

# Instructions for bfloat16 products. Without them a processor converts to float32, which is slower.
_INSTRUCTIONS = {"avx512_bf16", "amx_bf16"}


def has_fast_bf16() -> bool:
    """True if the GPU has instructions for bfloat16, or without a GPU the processor."""
    import torch

    if torch.cuda.is_available():
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    has_kernels: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]  # torch has no type for it
    return has_kernels and not _INSTRUCTIONS.isdisjoint(processor_features())


def processor_features() -> set[str]:
    """The processor's instruction sets, by their Linux names; empty if they are not known."""
    import torch

    capabilities = getattr(torch.cpu, "get_capabilities", None)  # not in every version of torch
    if capabilities is not None:
        return {name for name, value in capabilities().items() if value is True}
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return set()
    return {flag for line in lines if line.startswith("flags") for flag in line.partition(":")[2].split()}
