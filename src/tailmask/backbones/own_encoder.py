"""The user's own encoders: any function from a list of texts or images to an array."""

from __future__ import annotations

import hashlib
import importlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailmask._util.messages import UserError
from tailmask._util.own_code import import_own
from tailmask.backbones.backbone import BackboneChoice

__all__ = ["OwnEncoder"]


@dataclass(frozen=True)
class OwnEncoder:
    """A function that turns a list of samples into an array (N, D), or an object with such a method `encode`.

    The digest covers the source of its module and its name, but not a model that it loads.
    """

    choice: BackboneChoice
    module: ModuleType
    encode: Callable[[list[Any]], Any]

    @classmethod
    def open(cls, choice: BackboneChoice) -> OwnEncoder:
        """Import the encoder."""
        module, found = import_own(choice.name, what="encoder", form="package.module:function")
        encode = getattr(found, "encode", found)  # as models of sentence-transformers have it
        if not callable(encode) or inspect.isclass(found):
            raise UserError(
                f"the encoder {choice.name} must be a function from a list to an array, or an object with a "
                f"method encode, got {'a class' if inspect.isclass(found) else type(found).__name__}"
            )
        return cls(choice, module, encode)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the module's source, the name, and the options."""
        source = Path(inspect.getfile(self.module)).read_bytes() if hasattr(self.module, "__file__") else b""
        about = repr((self.choice.name, self.choice.kind, self.choice.flips)).encode()
        return hashlib.sha256(about + source).hexdigest()

    def features(self, samples: Sequence[Any]) -> NDArray[np.float32]:
        """Features (N, D), checked because the user's own code computes them."""
        features = self._called(list(samples))
        if self.choice.flips:
            flip = importlib.import_module("PIL.ImageOps").mirror
            features = (features + self._called([flip(image) for image in samples])) / np.float32(2)
        return features

    def _called(self, samples: list[Any]) -> NDArray[np.float32]:
        try:
            values = self.encode(samples)
            array = np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)
            found = array.astype(np.float32)
        except Exception as error:  # a user's own code may raise anything
            reason = " ".join(str(error).split())[:300]
            raise UserError(
                f"the encoder {self.choice.name} failed: {type(error).__name__}: {reason}"
            ) from error
        if found.ndim != 2 or len(found) != len(samples) or not found.shape[1]:
            raise UserError(
                f"the encoder {self.choice.name} must turn {len(samples)} {self.choice.kind} into an array "
                f"of shape ({len(samples)}, D), got shape {found.shape}"
            )
        if not np.isfinite(found).all():
            raise UserError(f"the encoder {self.choice.name} gave NaN or infinite features: check its code")
        return found
