"""Texts as numbers of tokens, by a tokenizer that is stored with the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tailmask._util.messages import require
from tailmask.data.encoders.encoder import Encoder
from tailmask.data.pretrained.backbone_format import TextEncoder

__all__ = ["TokenEncoder", "TokenizedTexts"]

# A forged length must not fill memory.
LARGEST_LENGTH = 2**20


@dataclass(frozen=True)
class TokenEncoder(Encoder):
    """Encoder of texts as tokens (2, length): their numbers, and a mask that is 0 for padding."""

    texts: TextEncoder
    tokenizer: str  # JSON of the package tokenizers, which truncates to `length`
    padding: int
    length: int

    kind = "tokens"

    def __post_init__(self) -> None:
        if type(self.length) is not int or not 1 <= self.length <= LARGEST_LENGTH:
            raise ValueError(f"texts must have 1 to {LARGEST_LENGTH} tokens, got {self.length!r}")
        if type(self.padding) is not int or self.padding < 0:
            raise ValueError(f"the number of the padding must be 0 or more, got {self.padding!r}")

    @property
    def shape(self) -> tuple[int, ...]:
        """Tokens and mask."""
        return (2, self.length)

    @property
    def header(self) -> bool:
        """True if a table has a line with names."""
        return self.texts.header

    def to_json(self) -> dict[str, Any]:
        """The columns, and the whole tokenizer."""
        return {
            "kind": self.kind,
            "texts": self.texts.to_json(),
            "tokenizer": self.tokenizer,
            "padding": self.padding,
            "length": self.length,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> TokenEncoder:
        """The encoder that `to_json` wrote; `Encoder.from_json` calls this for the kind `tokens`."""
        encoder = cls(
            TextEncoder.from_json(value["texts"]), str(value["tokenizer"]), value["padding"], value["length"]
        )
        encoder._backend  # noqa: B018  a damaged tokenizer is found now
        return encoder

    @cached_property
    def _backend(self) -> Any:
        tokenizers = require("tokenizers", extra="hf")
        try:
            return tokenizers.Tokenizer.from_str(self.tokenizer)
        except Exception as error:  # tokenizers has no more precise class of errors
            raise ValueError(f"the tokenizer cannot be read: {error}") from error

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """The numbers of the tokens of each text, with the model's special tokens, truncated."""
        # A lone surrogate, which CSV files cannot have but frames can, is no valid text.
        valid = [text.encode(errors="replace").decode() for text in texts]
        return [each.ids for each in self._backend.encode_batch(valid)]

    def encode(self, texts: Sequence[str]) -> Tensor:
        """Inputs (B, 2, length) of texts."""
        return _padded(self.tokens(texts), self)

    def batches(self, path: Path, batch_size: int) -> Iterator[Tensor]:
        """Inputs (B, 2, length) of the texts in a table."""
        for texts in self.texts.texts(path, batch_size):
            yield self.encode(texts)


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
        return _padded([self.ids[number] for number in index.tolist()], self.encoder)


def _padded(ids: Sequence[Sequence[int]], encoder: TokenEncoder) -> Tensor:
    """Tokens and their mask (B, 2, length) in float32, which holds all numbers below 2**24 exactly."""
    inputs = torch.zeros(len(ids), 2, encoder.length)
    inputs[:, 0] = encoder.padding
    for row, own in enumerate(ids):
        inputs[row, 0, : len(own)] = torch.tensor(own, dtype=torch.float32)
        inputs[row, 1, : len(own)] = 1
    return inputs
