"""The objective of a method in training: its loss, each epoch's samples, and the updates between epochs."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from tailmask import losses
from tailmask._util.seeds import generator
from tailmask.masking import PartialLabelMasking, RatioUpdate
from tailmask.sampling import ClassAwareSampler, UndersamplingSampler

__all__ = ["Objective"]


class Objective(nn.Module):
    """The loss of a method with the state that it carries from epoch to epoch.

    Epochs count from 0. `order` gives the samples of an epoch, and `begin_epoch` prepares for it. Calling the
    objective gives the loss of a batch. `end_epoch` moves the ratios if the method masks labels.
    """

    def __init__(
        self,
        criterion: nn.Module,
        *,
        num_samples: int,
        seed: int,
        sampler: UndersamplingSampler | ClassAwareSampler | None = None,
        statistics: Literal["training", "validation"] = "training",
        notes: tuple[str, ...] = (),
    ) -> None:
        super().__init__()
        self.criterion = criterion
        self.num_samples = num_samples
        self.seed = seed
        self.sampler = sampler
        self.statistics = statistics
        self.notes = notes

    @property
    def masking(self) -> PartialLabelMasking | None:
        """The criterion if it masks labels, else None."""
        return self.criterion if isinstance(self.criterion, PartialLabelMasking) else None

    @property
    def prior_shift(self) -> Tensor | None:
        """The current shift (C,) that corrects logits to the prevalence in the data; None if there is none.

        Undersampling changes how classes occur together, and no shift of single logits corrects that.
        """
        masking = self.masking
        if masking is None or self.sampler is not None or not masking.supports_prior_shift:
            return None
        return masking.prior_shift()

    @property
    def activation(self) -> Literal["sigmoid", "softmax"]:
        """The function that turns logits into probabilities."""
        return "softmax" if self.needs_cosines else "sigmoid"

    @property
    def needs_cosines(self) -> bool:
        """True if the network's last layer must be normalised, as for LDAM."""
        return self._ldam() is not None

    @property
    def logit_scale(self) -> float:
        """The factor that turns the network's outputs into logits: 1, or the scale of LDAM's cosines."""
        ldam = self._ldam()
        return 1.0 if ldam is None else ldam.scale

    def order(self, epoch: int) -> Tensor:
        """Indices of the samples of an epoch, in the order of training."""
        if self.sampler is None:
            return torch.randperm(self.num_samples, generator=generator(self.seed, "order", epoch))
        self.sampler.set_epoch(epoch)
        return self.sampler.indices()

    def begin_epoch(self, epoch: int, *, rank: int = 0) -> None:
        """Prepare for an epoch: set the generator of the masks, the draw's class counts, deferred weights."""
        for module in self.modules():
            if isinstance(module, losses.DeferredReweighting):
                module.set_epoch(epoch)
        if self.masking is None:
            return
        device = self.masking.target_ratio.device
        self.masking.generator = generator(self.seed, "masks", epoch, rank, device=device)
        if self.sampler is not None:
            self.sampler.set_epoch(epoch)
            negatives, positives = self.sampler.class_counts()
            self.masking.set_class_counts(positives, negatives)

    def end_epoch(self, *, lr_factor: float | None = None) -> RatioUpdate | None:
        """Move the ratios by the epoch's statistics; all ranks must call it.

        `lr_factor` is the learning rate at the epoch's end as a share of its base.
        """
        return None if self.masking is None else self.masking.step(lr_factor=lr_factor)

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Loss of a batch."""
        loss: Tensor = self.criterion(logits, targets)
        return loss

    def total_weight(self, targets: Tensor) -> Tensor | None:
        """The divisor () of a batch's loss if it is not the number of rows: the sum of LDAM's weights."""
        ldam = self._ldam()
        return None if ldam is None else ldam.total_weight(targets)

    def _ldam(self) -> losses.LDAMLoss | None:
        return next((module for module in self.modules() if isinstance(module, losses.LDAMLoss)), None)
