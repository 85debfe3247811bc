"""The loss of one epoch, and a check for NaN and infinite values that seldom waits for the GPU."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor

__all__ = ["Fault", "Watch"]


class Fault(NamedTuple):
    """The first step (counted from 1) whose loss or outputs are not finite, and which values to blame."""

    step: int
    what: Literal["inputs", "outputs", "loss"]


class Watch:
    """The sum of the losses of one epoch, and the first step whose loss or outputs are not finite.

    Reading a number waits until the device has finished its work. On a GPU, steps are therefore checked in
    groups, and a diverged run stops a few steps later. On the CPU, each step is checked at once.

    >>> watch, ones = Watch(), torch.ones(2, 3)
    >>> watch.add(torch.tensor(0.5), logits=ones, inputs=ones, num_rows=2), watch.total
    (None, 1.0)
    >>> watch.add(torch.tensor(torch.nan), logits=ones, inputs=ones, num_rows=2)
    Fault(step=2, what='loss')
    """

    STEPS_BETWEEN_LOOKS = 20

    def __init__(self) -> None:
        self.total = 0.0  # loss of all samples in the steps checked so far
        self._num_seen = 0
        self._waiting: list[tuple[Tensor, float, float]] = []

    def add(
        self, loss: Tensor, *, logits: Tensor, inputs: Tensor, num_rows: int, scale: float = 1.0
    ) -> Fault | None:
        """Add a step with its `Batch.scale`; return a fault found by now, in this step or an earlier one."""
        outputs = logits.detach().isfinite().all()
        if loss.is_cpu:
            are_finite = bool(outputs)
            culprits = are_finite, are_finite or bool(inputs.isfinite().all())
            return self._see((loss.item(), *culprits), num_rows, scale)
        numbers = torch.stack([loss.detach().float(), outputs.float(), inputs.isfinite().all().float()])
        self._waiting.append((numbers, num_rows, scale))
        return self.look() if len(self._waiting) >= self.STEPS_BETWEEN_LOOKS else None

    def look(self) -> Fault | None:
        """Check the remaining steps and return the first fault in them."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return None
        values = torch.stack([numbers for numbers, *_ in waiting]).tolist()
        faults = [self._see(seen, *sizes) for seen, (_, *sizes) in zip(values, waiting, strict=True)]
        return next((fault for fault in faults if fault is not None), None)

    def _see(self, seen: tuple[float, float, float], num_rows: float, scale: float) -> Fault | None:
        loss, outputs, inputs = seen
        self._num_seen += 1
        if math.isfinite(loss) and outputs:
            self.total += loss * num_rows / scale  # without padding rows
            return None
        return Fault(self._num_seen, "inputs" if not inputs else "loss" if outputs else "outputs")
