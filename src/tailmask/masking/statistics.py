"""What the outputs of an epoch looked like: histograms that batches add to and ranks sum up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor

from tailmask import functional
from tailmask.buffers import ExactBuffers
from tailmask.masking.labels import Batch

__all__ = ["OutputStatistics", "check_state", "collective_device"]

# Entries of a batch whose statistics are taken at once.
_BLOCK = 2**18
_WITHOUT_VALUES = ("meta",)


class OutputStatistics(ExactBuffers):
    """Histograms of the outputs since the last reset, by label and class, and how many values were bad.

    They are part of the state_dict but no buffers: DDP would overwrite every rank's with rank 0's.
    """

    def __init__(self, num_classes: int, num_bins: int, *, device: torch.device) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.num_bins = num_bins
        self.counts = torch.zeros(2, num_classes, num_bins, dtype=torch.int64, device=device)
        self.faults = torch.zeros(2, dtype=torch.int64, device=device)  # as in Batch
        # Who has recorded since the last reset, to tell where two passes would be added up.
        self._by_forward = self._by_update = False

    def reset(self) -> None:
        """Forget the statistics recorded since the last `step`, bad values included; the ratios stay."""
        self.forget_outputs()
        self.faults.zero_()

    def forget_outputs(self) -> None:
        """Forget the recorded outputs alone: of bad values among them or in training `step` still tells."""
        self.counts.zero_()
        self._by_forward = self._by_update = False

    def summed_statistics(self) -> tuple[Tensor, Tensor]:
        """Counts (2, C, num_bins) and faults (2,) summed over the process group; all ranks must call it."""
        distributed = torch.distributed
        if not (distributed.is_available() and distributed.is_initialized()):
            return self.counts.clone(), self.faults.clone()
        statistics = torch.cat([self.counts.flatten(), self.faults])
        total = statistics.to(collective_device(statistics.device))
        distributed.all_reduce(total)
        total = total.to(statistics.device)
        return total[:-2].view_as(self.counts), total[-2:]

    def _follow(self, device: torch.device) -> None:
        """Go to the device of the logits; but not to the one of tensors without values."""
        if device != self.counts.device and device.type not in _WITHOUT_VALUES:
            with torch.inference_mode(False):  # which would make buffers that no step can change
                self.to(device)

    def _record(self, batch: Batch) -> None:
        logits, known = batch.logits.detach(), batch.known
        targets = batch.targets.int() if known is None else batch.targets
        if torch.compiler.is_compiling() or logits.numel() <= _BLOCK:
            self.counts.add_(functional.histogram(logits.sigmoid(), targets, self.num_bins, known=known))
        else:  # class by class within a block, whose temporaries stay in the processor's cache
            for start in range(0, self.num_classes, width := max(1, _BLOCK // len(logits))):
                block = slice(start, start + width)
                self.counts[:, block] += functional.histogram(
                    logits[:, block].sigmoid(),
                    targets[:, block],
                    self.num_bins,
                    known=None if known is None else known[:, block],
                )
        if batch.faults is not None:
            self.faults += batch.faults

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)
        self.counts = fn(self.counts)
        self.faults = fn(self.faults)
        return self

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "counts"] = self.counts.clone()
        destination[prefix + "faults"] = self.faults.clone()

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        for name in ("counts", "faults"):
            check_state(name, state_dict.get(prefix + name))
        counts = state_dict.get(prefix + "counts", self.counts)
        if counts.shape != self.counts.shape:
            raise ValueError(
                f"the state must be of {self.num_classes} classes and {self.num_bins} bins, "
                f"got counts of shape {tuple(counts.shape)}: build the criterion as the saved one was"
            )
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        for name in ("counts", "faults"):
            key = prefix + name
            if key in state_dict:
                getattr(self, name).copy_(state_dict[key])
            else:
                missing_keys.append(key)
            if key in unexpected_keys:
                unexpected_keys.remove(key)


def collective_device(device: torch.device) -> torch.device:
    """Where a tensor of the device has to be for a collective of the process group: there, if it is served.

    NCCL serves CUDA alone, and a criterion may be on the CPU: Lightning moves it there after training.
    """
    served = [entry.partition(":")[0] for entry in torch.distributed.get_backend_config().split(",")]
    return device if device.type in served else torch.device(served[0])


def check_state(name: str, value: Any, *, ratios: bool = False) -> None:
    """Refuse a part of a state that no saved loss has there: a damaged one would spoil training silently.

    >>> check_state("counts", torch.tensor([3, 0]))
    """
    if value is None or (isinstance(value, Tensor) and value.is_meta):
        return
    if not isinstance(value, Tensor) or value.is_floating_point() != ratios:
        raise ValueError(f"the state's {name} must be a tensor of {'ratios' if ratios else 'whole numbers'}")
    if not bool(((value > 0) & value.isfinite() if ratios else value >= 0).all()):
        kind = "finite ratios above 0" if ratios else "numbers of 0 or more"
        raise ValueError(f"the state's {name} must hold {kind}: the file is damaged or of another criterion")
