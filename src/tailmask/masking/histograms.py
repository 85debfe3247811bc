"""Histograms of an epoch's outputs, accumulated over batches and summed over ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor, nn

from tailmask import functional
from tailmask.masking import kernels
from tailmask.masking.label_batch import LabelBatch

__all__ = ["OutputHistograms", "check_state", "collective_device"]


class OutputHistograms(nn.Module):
    """Counts of the outputs by label, class and bin since the last reset, and counts of invalid values.

    They are in the state_dict but are not buffers: DDP would overwrite every rank's counts with rank 0's.

    >>> histograms = OutputHistograms(1, 2, device=torch.device("cpu"))
    >>> histograms.add(LabelBatch(torch.tensor([[3.0]]), torch.tensor([[1.0]]), None, None))
    >>> histograms.counts
    tensor([[[0, 0]],
    <BLANKLINE>
            [[0, 1]]])
    """

    counts: Tensor  # (2, C, num_bins)
    faults: Tensor  # (2,) as in LabelBatch

    def __init__(self, num_classes: int, num_bins: int, *, device: torch.device) -> None:
        super().__init__()
        with torch.inference_mode(False):  # training could not change an inference tensor
            self.counts = torch.zeros(2, num_classes, num_bins, dtype=torch.int64, device=device)
            self.faults = torch.zeros(2, dtype=torch.int64, device=device)

    def add(self, batch: LabelBatch) -> None:
        """Count a batch's outputs and invalid values."""
        logits, targets, known, _ = batch
        logits, num_bins = logits.detach(), self.counts.shape[-1]
        if kernels.applies(logits, num_bins=num_bins):
            kernels.add_histogram(self.counts, logits, targets, known=known)
        else:
            self.counts += functional.histogram(logits.sigmoid(), targets, num_bins, known=known)
        self.add_faults(batch)

    def add_faults(self, batch: LabelBatch) -> None:
        """Count only a batch's invalid values."""
        if batch.faults is not None:
            self.faults += batch.faults

    def reset(self) -> None:
        """Set all counts to zero."""
        self.counts.zero_()
        self.faults.zero_()

    def summed(self) -> tuple[Tensor, Tensor]:
        """Copies of counts and faults, summed over the process group; all ranks must call it."""
        distributed = torch.distributed
        if not (distributed.is_available() and distributed.is_initialized()):
            return self.counts.clone(), self.faults.clone()
        statistics = torch.cat([self.counts.flatten(), self.faults])
        total = statistics.to(collective_device(statistics.device))
        distributed.all_reduce(total)
        total = total.to(statistics.device)
        return total[:-2].view_as(self.counts), total[-2:]

    def check_state(self, state_dict: dict[str, Any], prefix: str) -> None:
        """Raise a ValueError for a state that cannot be loaded here."""
        for name in ("counts", "faults"):
            check_state(name, state_dict.get(prefix + name))
        counts = state_dict.get(prefix + "counts", self.counts)
        if counts.shape != self.counts.shape:
            _, num_classes, num_bins = self.counts.shape
            raise ValueError(
                f"the state must have {num_classes} classes and {num_bins} bins, "
                f"got counts of shape {tuple(counts.shape)}: build the criterion with the saved one's options"
            )

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]  # torch's own
        self.counts, self.faults = fn(self.counts), fn(self.faults)
        return self

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        destination[prefix + "counts"] = self.counts.clone()
        destination[prefix + "faults"] = self.faults.clone()

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        *rest: Any,
    ) -> None:
        for name in ("counts", "faults"):
            if prefix + name in state_dict:
                getattr(self, name).copy_(state_dict[prefix + name])
            else:
                missing_keys.append(prefix + name)


def collective_device(device: torch.device) -> torch.device:
    """The device for collectives of the process group: `device` itself if the backend supports it.

    NCCL supports only CUDA, but a criterion may be on the CPU: Lightning moves it there after training.
    """
    served = [entry.partition(":")[0] for entry in torch.distributed.get_backend_config().split(",")]
    return device if device.type in served else torch.device(served[0])


def check_state(name: str, value: Any, *, ratios: bool = False) -> None:
    """Raise a ValueError for a part of a state that no criterion can have saved.

    A damaged state would spoil training silently.

    >>> check_state("counts", torch.tensor([3, 0]))
    """
    if value is None or (isinstance(value, Tensor) and value.is_meta):
        return
    if not isinstance(value, Tensor) or value.is_floating_point() != ratios:
        kind = "floating-point numbers" if ratios else "whole numbers"
        found = value.dtype if isinstance(value, Tensor) else type(value).__name__
        raise ValueError(
            f"the state's {name} must be a tensor of {kind}, got {found}: "
            "the file is damaged or of another criterion"
        )
    if not bool(((value > 0) & value.isfinite() if ratios else value >= 0).all()):
        kind = "finite ratios above 0" if ratios else "numbers of 0 or more"
        raise ValueError(
            f"the state's {name} must contain only {kind}: the file is damaged or of another criterion"
        )
