"""The inputs of an exported program: their names, their axes of any size, and values for its check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

__all__ = ["NumberInputs", "ProgramInputs", "TokenInputs"]


class ProgramInputs(Protocol):
    """The inputs of a program."""

    @property
    def dynamic(self) -> dict[str, dict[int, Any]]:
        """The names of the inputs in their order, each with its axes of any size."""
        ...

    def drawn(self, size: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        """A batch of `size` random samples."""
        ...


@dataclass(frozen=True)
class NumberInputs:
    """Inputs (batch, *shape) in float32."""

    shape: tuple[int, ...]

    @property
    def dynamic(self) -> dict[str, dict[int, Any]]:
        """One input."""
        return {"inputs": {0: torch.export.Dim("batch")}}

    def drawn(self, size: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Normal values."""
        return (torch.randn(size, *self.shape, generator=generator),)


@dataclass(frozen=True)
class TokenInputs:
    """Numbers of tokens, and a mask that is 0 for padding, both (batch, tokens) in int64."""

    vocabulary: int
    length: int  # the longest text
    padding: int

    @property
    def dynamic(self) -> dict[str, dict[int, Any]]:
        """Two inputs with the same axes."""
        axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens", max=self.length)}
        return {"input_ids": axes, "attention_mask": axes}

    def drawn(self, size: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Random tokens. Each text is one token shorter than the one before it, and padded."""
        longest = min(self.length, 5 + size)
        ids = torch.randint(self.vocabulary, (size, longest), generator=generator)
        lengths = (longest - torch.arange(size)).clamp(min=1)
        mask = torch.arange(longest)[None, :] < lengths[:, None]
        return ids.masked_fill(~mask, self.padding), mask.long()
