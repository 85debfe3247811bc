"""Buffers that keep their precision when a module is cast, and that training can change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor, nn

__all__ = ["ExactBuffers"]


class ExactBuffers(nn.Module):
    """A module whose floating-point buffers keep their precision when the module is cast.

    A class weight or ratio of 10⁻⁵ would lose its digits in half precision. A module that is built in torch's
    inference mode gets ordinary buffers: inference tensors cannot be updated in place or take part in a
    gradient later.

    >>> module = ExactBuffers()
    >>> module.register_buffer("frequency", torch.tensor([1e-5]))
    >>> module.half().frequency
    tensor([1.0000e-05])
    """

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Register a buffer as `nn.Module` does; an inference tensor is copied to an ordinary one."""
        if tensor is not None and tensor.is_inference():
            with torch.inference_mode(False):
                tensor = tensor.clone()
        super().register_buffer(name, tensor, persistent)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        exact = {name: buffer for name, buffer in self._buffers.items() if buffer is not None}
        super_apply: Callable[..., Any] = super()._apply  # torch leaves it untyped
        super_apply(fn, recurse)
        for name, buffer in exact.items():
            moved = self._buffers[name]
            if moved is not None and moved.dtype != buffer.dtype:
                self._buffers[name] = buffer.to(moved.device)
        return self
