"""Texts for a pretrained model that is fine-tuned: numbers of tokens, padded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tailmask.data.encoders.token_encoder import TokenEncoder, padded

__all__ = ["TokenizedTexts"]


@dataclass(frozen=True)
class TokenizedTexts:
    """The numbers of each text's tokens; batches are padded to the longest text that the model takes."""

    ids: Sequence[Sequence[int]]
    encoder: TokenEncoder

    on_disk = False

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def shape(self) -> tuple[int, ...]:
        """Tokens, and a mask that is 0 for padding."""
        return self.encoder.shape

    def batch(self, index: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Tokens and their mask (B, 2, T) in float32; texts are not augmented."""
        return padded([self.ids[number] for number in index.tolist()], self.encoder)
