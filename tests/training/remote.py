"""Tensors that stand for those on a GPU: to look at one is to wait for the device."""

from __future__ import annotations

import pytest
from torch import Tensor

from tailmask.training.nan_guard import Watch


class Remote(Tensor):
    """A tensor on the CPU that says it is elsewhere, and counts how often somebody waits for it."""

    waits = 0
    is_cpu = False

    def item(self):
        type(self).waits += 1
        return super().item()

    def tolist(self):
        type(self).waits += 1
        return super().tolist()

    def __bool__(self):
        type(self).waits += 1
        return super().__bool__()

    def __float__(self):
        type(self).waits += 1
        return super().__float__()


def remote(tensor: Tensor) -> Tensor:
    return tensor.as_subclass(Remote)


def make_steps_remote(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs watch their steps as they do on a GPU."""
    add = Watch.add

    def add_remote(self, loss, *, logits, inputs, **sizes):
        return add(self, remote(loss), logits=remote(logits), inputs=remote(inputs), **sizes)

    monkeypatch.setattr(Watch, "add", add_remote)
