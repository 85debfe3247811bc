"""Partial Label Masking in Lightning: one callback, for `lightning` and `pytorch_lightning` alike."""

from __future__ import annotations

import contextlib
import importlib
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.utils._pytree import tree_leaves

from tailmask._util.messages import listing, nearest, require
from tailmask.integrations.callback_checks import refuse_damping, warn_if_idle, warn_of_no_passes
from tailmask.integrations.logged_values import curves
from tailmask.integrations.resume import ResumableState
from tailmask.masking import PartialLabelMasking
from tailmask.masking.criterion_options import StatisticsSource, check_statistics

if TYPE_CHECKING:
    from pytorch_lightning import Callback, LightningModule, Trainer
else:

    def _installed_callbacks() -> tuple[type, ...]:
        found = []
        for name in ("pytorch_lightning", "lightning.pytorch"):
            with contextlib.suppress(ModuleNotFoundError):
                found.append(importlib.import_module(name).Callback)
        return tuple(found) or (require("pytorch_lightning", extra="lightning").Callback,)

    # Both packages define the same classes, and a Trainer accepts only its own package's callbacks. If both
    # are installed, the callback inherits from both.
    Callback = type("Callback", _installed_callbacks(), {})

__all__ = ["PLMCallback"]


class PLMCallback(Callback):
    """Callback that steps a LightningModule's `PartialLabelMasking` after each epoch, logs and restores it.

    The module only has to call its criterion in `training_step`, like any other loss.

    >>> criterion = PartialLabelMasking.from_counts([10, 1], [40, 49])
    >>> callback = PLMCallback()  # trainer = Trainer(callbacks=[callback])
    >>> from pytorch_lightning import Callback
    >>> isinstance(callback, Callback)
    True

    It logs `plm/ratio_min`, `plm/ratio_max`, `plm/divergence_negatives`, `plm/divergence_positives`,
    `plm/kept_negatives` and `plm/kept_positives` (means over the classes). With at most 20 classes it also
    logs `plm/ratio/0`, `plm/gap/0` and so on for each class. An epoch that ends early (`max_steps`, early
    stopping) has no step. Its statistics stay for a checkpoint that is saved then; a new `fit` drops them.

    A run that resumes in the middle of an epoch counts the whole epoch if its loaders have `state_dict` and
    `load_state_dict`. Lightning starts any other loader again from the first batch and takes as many batches
    as the epoch has left. Then only the larger part of the epoch counts, before or after the checkpoint, so
    no sample counts twice.

    Args:
        criterion: Name of the criterion in the module; None if the module has only one. A module with several
            criteria needs one callback for each. They log `plm/<name>/ratio_min` and so on.
        statistics: The outputs that move the ratios: those in "training", or those in "validation", which
            are whatever `validation_step` passes to the criterion. None is the criterion's own choice,
            "validation" for `adapt="prevalence"`. The last validation pass of an epoch counts; an epoch
            without one has no step.
    """

    def __init__(
        self,
        criterion: str | None = None,
        *,
        statistics: StatisticsSource | None = None,
    ) -> None:
        if statistics is not None:
            check_statistics(statistics)
        self.name = criterion
        self.statistics = statistics
        self._module: nn.Module | None = None
        self._is_due = False  # True if an epoch is complete and has had no step
        self._has_validated = False  # since the last step
        self._recording: Any = None
        self._own_statistics: StatisticsSource | None = None  # the criterion's before the fit
        self._is_silenced = False  # True if the rest of this epoch does not count
        self._is_restored = False  # from a checkpoint, before the first batch
        self._num_positions = 0  # number of loaders that have a position in the checkpoint

    @property
    def state_key(self) -> str:
        """The key of the callback's state in checkpoints, one per criterion."""
        return "PLMCallback" if self.name is None else f"PLMCallback[{self.name}]"

    @property
    def criterion(self) -> PartialLabelMasking:
        """The criterion of the module that is being trained."""
        if self._module is None:
            raise ValueError("the callback has no module yet: pass it to a Trainer and call fit()")
        return _find_criterion(self._module, self.name)

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Remember the module. It may not have built its criterion yet."""
        self._module = pl_module
        self._is_restored = False

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Set which outputs the criterion counts."""
        criterion = self.criterion
        refuse_damping(criterion)
        self._own_statistics = criterion.statistics
        criterion.statistics = self.statistics or criterion.statistics
        if criterion.statistics == "validation" and not trainer.enable_validation:
            warn_of_no_passes("validation", "give fit() validation data, and the module a validation_step")

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Drop the counts of an earlier fit, and warn if training ends before anything is masked."""
        if not self._is_restored:
            self.criterion.reset()
            self._is_due = self._has_validated = False
        epochs = None if getattr(trainer, "fast_dev_run", False) else trainer.max_epochs
        if epochs is not None and epochs > 0:  # −1 is without end
            warn_if_idle(self.criterion, epochs - trainer.current_epoch + self._is_due)

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Restore the criterion's own choice of statistics for a later fit."""
        self._restore_statistics()

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Make a step that is missing because the checkpoint was saved before it.

        Lightning does not run the end of that epoch again.
        """
        if self._is_due:
            self._step(pl_module)
        elif self._is_restored and batch_idx > 0 and self.criterion.statistics == "training":
            self._resume_epoch(trainer, batch_idx)
        self._is_restored = False

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Remember whether the epoch is complete."""
        self._is_due = trainer.is_last_batch or batch_idx + 1 >= trainer.num_training_batches

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Step: after the epoch's validation, and before the checkpoint at the epoch's end is saved."""
        if self._is_due:
            self._step(pl_module)

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Start recording the outputs of a validation pass if they move the ratios."""
        is_fit = trainer.state.fn == "fit" and not trainer.sanity_checking
        if is_fit and self.criterion.statistics == "validation" and not self._is_silenced:
            self.criterion.forget_outputs()
            self._recording = self.criterion.register_forward_pre_hook(_record, with_kwargs=True)

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Stop recording."""
        if self._recording is not None:
            self._has_validated = True
        self._end_recording()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Restore the criterion if an exception ends the fit."""
        self._end_recording()
        self._restore_statistics()

    def state_dict(self) -> dict[str, Any]:
        """The criterion's state with statistics summed over ranks. Lightning calls this on all ranks."""
        state = ResumableState(self.criterion).state_dict()
        return {"criterion": state, "is_due": self._is_due, "has_validated": self._has_validated}

    def on_load_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Remember how many of the training loaders have a position in the checkpoint."""
        fit_loop = checkpoint.get("loops", {}).get("fit_loop", {}).get("state_dict", {})
        self._num_positions = len(fit_loop.get("combined_loader", ()))

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the statistics on rank 0 only. Lightning has already restored the module."""
        ResumableState(self.criterion).load_state_dict(state_dict["criterion"])
        self._is_due = state_dict["is_due"]
        self._has_validated = state_dict["has_validated"]
        self._is_restored = True

    def _resume_epoch(self, trainer: Trainer, num_done: int) -> None:
        """Leave out the smaller part of the epoch if its loader starts again after `num_done` batches."""
        if self._num_positions == len(tree_leaves(trainer.train_dataloader)):
            return
        if num_done <= trainer.num_training_batches - num_done:
            self.criterion.forget_outputs()
        else:
            self._is_silenced = True
            self.criterion.statistics = "validation"  # training outputs no longer count

    def _end_recording(self) -> None:
        if self._recording is not None:
            self._recording.remove()
            self._recording = None

    def _restore_statistics(self) -> None:
        self._is_silenced = False
        if self._own_statistics is not None:
            self.criterion.statistics = self._own_statistics
            self._own_statistics = None

    def _step(self, pl_module: LightningModule) -> None:
        self._is_due = False
        if self._is_silenced:
            self._is_silenced = False
            self.criterion.statistics = "training"
        is_unsteered = self.criterion.statistics == "validation" and not self._has_validated
        if is_unsteered and not self.criterion.summed_statistics()[1].any():
            return  # if training had invalid values, a step follows, and reports them
        self._has_validated = False
        prefix = "plm" if self.name is None else f"plm/{self.name}"
        pl_module.log_dict(curves(self.criterion.step(), prefix), sync_dist=True)


def _record(criterion: PartialLabelMasking, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    given = dict(zip(("logits", "targets"), args, strict=False)) | kwargs
    criterion.update(given["logits"], given["targets"])


def _find_criterion(module: nn.Module, name: str | None) -> PartialLabelMasking:
    found = {path: child for path, child in module.named_modules() if isinstance(child, PartialLabelMasking)}
    owner = type(module).__name__
    if name is not None:
        if name not in found:
            raise ValueError(f"{owner} has no PartialLabelMasking called {name!r}: {nearest(name, found)}")
        return found[name]
    if len(found) != 1:
        what = f"{listing(found)}: name one of them" if found else "none: make it an attribute of the module"
        raise ValueError(f"PLMCallback() expects one PartialLabelMasking in {owner}, got {what}")
    return next(iter(found.values()))
