"""Partial Label Masking in Hugging Face's Trainer: a loss for `compute_loss_func`, and a callback."""

from __future__ import annotations

import copy
import math
import uuid
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from tailmask._util.files import atomic_path
from tailmask._util.label_values import IGNORED
from tailmask._util.messages import UserError, require
from tailmask.integrations.callback_checks import refuse_damping, warn_if_idle, warn_of_no_passes
from tailmask.integrations.logged_values import curves
from tailmask.integrations.repeated_samples import loss_of_all, num_own_samples
from tailmask.integrations.resume import ResumableState
from tailmask.masking import PartialLabelMasking
from tailmask.masking.criterion_options import StatisticsSource, check_statistics

if TYPE_CHECKING:
    from torch.utils.hooks import RemovableHandle
    from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
else:
    TrainerCallback = require("transformers", extra="hf").TrainerCallback

__all__ = ["PLMTrainerCallback", "plm_loss"]

# Distinguishes checkpoints of different runs with the same number of steps.
_RUN_ID = "tailmask_run"


def plm_loss(criterion: PartialLabelMasking) -> Callable[..., Tensor]:
    """The criterion as a Trainer's `compute_loss_func`, correct with gradient accumulation.

    The Trainer adds up the losses of accumulated batches. This function divides each by the number of labels
    in all of them. So two batches of 8 give the gradients of one batch of 16, on any number of devices.

    Labels have shape (N, C), or (N,) as class indices. Mark unknown labels with −100: the Trainer does not
    count these. (`from_targets` expects −1 instead: `labels.masked_fill(labels == -100, -1)`.) Labels marked
    with −1 or NaN are left out of the loss, too, but the Trainer counts them in the divisor. With unknown
    labels, reduction="mean" is exact; "batchmean" assumes that each batch has the same share of them.

    >>> criterion = PartialLabelMasking.from_counts([1, 1], [1, 1])
    >>> loss = plm_loss(criterion)
    >>> outputs, labels = {"logits": torch.zeros(1, 2)}, torch.tensor([[1.0, 0.0]])
    >>> loss(outputs, labels), loss(outputs, labels, num_items_in_batch=4)  # 2 of 4 labels are in this batch
    (tensor(0.6931), tensor(0.3466))
    """
    if criterion.reduction == "none":
        raise ValueError('the Trainer needs one number: build the criterion with reduction="mean"')

    def loss(outputs: Any, labels: Tensor | None, num_items_in_batch: Tensor | int | None = None) -> Tensor:
        if labels is None:
            raise ValueError('the batch has no labels: call their column "labels"')
        logits: Tensor = outputs["logits"] if isinstance(outputs, Mapping) else outputs[0]
        known = (labels != IGNORED) & (labels != -1) & ~labels.isnan()
        targets = labels.masked_fill(labels == IGNORED, -1)
        value = loss_of_all(criterion, logits, targets, num_own=num_own_samples(len(logits)))
        if num_items_in_batch is None or criterion.reduction == "sum":
            return value
        return value * known.sum() / torch.as_tensor(num_items_in_batch).clamp(min=1)

    return loss


class PLMTrainerCallback(TrainerCallback):
    """Callback that steps the criterion after each epoch and keeps its state in the Trainer's checkpoints.

    >>> criterion = PartialLabelMasking.from_counts([10, 1], [40, 49])
    >>> callback = PLMTrainerCallback(criterion)
    >>> # Trainer(..., compute_loss_func=plm_loss(criterion), callbacks=[callback])

    Each checkpoint folder gets a `plm.safetensors` with the ratios and the statistics of all ranks.
    `train(resume_from_checkpoint=...)` resumes from it, also in the middle of an epoch. The Trainer's
    `state.log_history` gets an entry per step, with `plm/ratio_min`, `plm/divergence_positives` and so on.
    If `load_best_model_at_end` loads the best weights, the callback loads their ratios.

    Args:
        criterion: The criterion that you passed to `plm_loss`.
        statistics: The outputs that move the ratios: those in "training", or those of the evaluation after
            each epoch ("validation", with `TrainingArguments(eval_strategy="epoch")`). None is the
            criterion's own choice, "validation" for `adapt="prevalence"`. Without an evaluation at the end
            of an epoch, its last evaluation counts; an epoch without any has no step. If several sets are
            evaluated, the first one counts.
        name: Needed for a second criterion. Its state is then `plm-<name>.safetensors`, and its values are
            `plm/<name>/ratio_min` and so on.
    """

    def __init__(
        self,
        criterion: PartialLabelMasking,
        *,
        statistics: StatisticsSource | None = None,
        name: str | None = None,
    ) -> None:
        if statistics is not None:
            check_statistics(statistics)
        self.criterion = criterion
        self.name = name
        self.statistics: StatisticsSource = statistics or criterion.statistics
        self._hook: RemovableHandle | None = None
        refuse_damping(criterion)
        self._own_statistics: StatisticsSource | None = None  # the criterion's before training
        self._first_state = copy.deepcopy(criterion.state_dict())
        self._network: weakref.ref[Any] | None = None  # the network that was trained last
        self._is_evaluating = False
        self._is_in_epoch = False
        self._is_due = False  # True if an epoch is complete and its evaluation has not come yet

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Restore the criterion if the Trainer resumes from a checkpoint or starts with a new network."""
        network = kwargs["model"]
        if state.global_step > 0:
            self._restore(self._find_state(args, state))
            if args.ignore_data_skip and self.statistics == "training" and not _is_whole(state):
                self.criterion.forget_outputs()  # the Trainer starts the epoch again
        else:
            _run_ids(state).setdefault(_RUN_ID, _new_run_id())
            if self._network is not None and self._network() is not network:  # the next trial of a search
                self.criterion.load_state_dict(self._first_state)
            self.criterion.reset()  # an earlier training may have ended within an epoch
        self._is_evaluating = self._is_in_epoch = self._is_due = False
        self._network = weakref.ref(network)
        epochs = math.ceil(state.num_train_epochs - (state.epoch or 0))
        warn_if_idle(self.criterion, epochs + self._is_behind(state))
        if self.statistics == "validation" and args.eval_strategy == "no":
            warn_of_no_passes("evaluation", 'pass TrainingArguments(eval_strategy="epoch")')
        self._begin_recording()

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Stop recording, and load the ratios of the best model if the Trainer has loaded it."""
        self._end_recording()
        if args.load_best_model_at_end and state.best_model_checkpoint is not None:
            best = Path(state.best_model_checkpoint) / self._state_file
            if _belongs_to(best, state):
                self._restore(best)

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Make the step that is missing if the checkpoint was saved right after an epoch's last batch."""
        if self._is_behind(state):
            self._step(state)
        self._is_in_epoch = True

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Step if the epoch is complete; else keep the statistics for a run that resumes here."""
        from transformers.trainer_utils import has_length

        endless = not has_length(kwargs["train_dataloader"])  # then the epoch number is never whole
        is_complete = not control.should_training_stop if endless else _is_whole(state)
        self._is_in_epoch = not is_complete
        self._is_due = is_complete and self.statistics == "validation" and control.should_evaluate
        if is_complete and not self._is_due:
            self._step(state)

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Step after the evaluation of a complete epoch."""
        self._is_evaluating = False
        if self._is_due:
            self._is_due = False
            self._step(state)
        elif self._hook is not None and not self._is_in_epoch:  # the epoch already had its step
            self.criterion.forget_outputs()

    def on_predict(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: dict[str, float],
        **kwargs: Any,
    ) -> None:
        """Drop the recorded outputs of a test set that is predicted during training."""
        self._is_evaluating = False
        if self._hook is not None:
            self.criterion.forget_outputs()

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Add the criterion's state to the checkpoint that the Trainer has just saved, on all ranks."""
        from safetensors.torch import save_file

        tensors = ResumableState(self.criterion).state_dict()
        folder = _checkpoint(args.output_dir, state)
        if args.should_save and folder.is_dir():  # trials of a search save elsewhere and are not resumed
            with atomic_path(folder / self._state_file) as path:
                save_file(tensors, path, metadata={_RUN_ID: _run_ids(state)[_RUN_ID]})

    @property
    def _state_file(self) -> str:
        return "plm.safetensors" if self.name is None else f"plm-{self.name}.safetensors"

    def _find_state(self, args: TrainingArguments, state: TrainerState) -> Path:
        """The criterion's file in the resumed checkpoint. The Trainer does not say where that is."""
        folders = [_checkpoint(args.output_dir, state)]
        if isinstance(args.resume_from_checkpoint, str):
            folders.append(Path(args.resume_from_checkpoint))
        for folder in folders:
            if _belongs_to(folder / self._state_file, state):
                return folder / self._state_file
        raise UserError(
            f"the run to resume must have its {self._state_file} in {folders[-1]}, but the file is missing "
            "or belongs to another run: also pass the checkpoint's folder as "
            "TrainingArguments(resume_from_checkpoint=...), or start again if that run had no callback"
        )

    def _restore(self, path: Path) -> None:
        from safetensors.torch import load_file

        ResumableState(self.criterion).load_state_dict(load_file(path))

    def _is_behind(self, state: TrainerState) -> bool:
        """True if an epoch is complete and its step is missing."""
        return bool(state.epoch) and _is_whole(state) and bool(self.criterion.summed_statistics()[0].any())

    def _begin_recording(self) -> None:
        self._end_recording()  # an earlier training may have been interrupted
        self._own_statistics, self.criterion.statistics = self.criterion.statistics, self.statistics
        if self.statistics == "validation":
            self._hook = self.criterion.register_forward_pre_hook(self._record)

    def _end_recording(self) -> None:
        if self._hook is not None:
            self._hook.remove()
            self._hook = None
        if self._own_statistics is not None:
            self.criterion.statistics = self._own_statistics
            self._own_statistics = None

    def _record(self, criterion: PartialLabelMasking, args: tuple[Tensor, Tensor]) -> None:
        """Record the loss's inputs in evaluation. The Trainer evaluates without gradients."""
        if torch.is_grad_enabled():
            return
        if not self._is_evaluating:
            criterion.forget_outputs()
        self._is_evaluating = True
        num_own = num_own_samples(len(args[0]))
        criterion.update(*(each[:num_own] for each in args))

    def _step(self, state: TrainerState) -> None:
        if self.statistics == "validation" and not any(
            part.any() for part in self.criterion.summed_statistics()
        ):
            return
        values = curves(self.criterion.step(), "plm" if self.name is None else f"plm/{self.name}")
        state.log_history.append(values | {"epoch": state.epoch, "step": state.global_step})


def _is_whole(state: TrainerState) -> bool:
    """True if training is between two epochs: the Trainer counts epochs in fractions."""
    return float(state.epoch).is_integer()


def _checkpoint(output_dir: str | None, state: TrainerState) -> Path:
    from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

    return Path(str(output_dir)) / f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}"


def _run_ids(state: TrainerState) -> dict[str, str]:
    """The mapping that holds the run's id. It is the only part of the Trainer's file that others may fill."""
    callbacks: Any = state.stateful_callbacks
    return cast(dict[str, str], callbacks)


def _new_run_id() -> str:
    """A new id, the same on all ranks."""
    ids = [uuid.uuid4().hex]
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.broadcast_object_list(ids)
    return ids[0]


def _belongs_to(path: Path, state: TrainerState) -> bool:
    """True if the file exists and belongs to this run."""
    return path.is_file() and _read_run_id(path) == _run_ids(state).get(_RUN_ID)


def _read_run_id(path: Path) -> str | None:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        metadata: dict[str, str] = file.metadata()
    return metadata.get(_RUN_ID)
