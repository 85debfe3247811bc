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
from tailmask.integrations.logged_values import curves
from tailmask.integrations.padding import loss_of_all, num_own_samples
from tailmask.integrations.resume import ResumableState
from tailmask.integrations.steering import refuse_damping, warn_if_idle, warn_of_no_passes
from tailmask.masking import PartialLabelMasking
from tailmask.masking.criterion_options import StatisticsSource, check_statistics

if TYPE_CHECKING:
    from torch.utils.hooks import RemovableHandle
    from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
else:
    TrainerCallback = require("transformers", extra="hf").TrainerCallback

__all__ = ["PLMTrainerCallback", "plm_loss"]

# Tells the checkpoints of one run from those of another after as many steps.
_RUN_ID = "tailmask_run"


def plm_loss(criterion: PartialLabelMasking) -> Callable[..., Tensor]:
    """The criterion as a Trainer's `compute_loss_func`, right under gradient accumulation.

    The Trainer adds up the losses of accumulated batches and leaves the division to this function, by the
    number of labels in all of them. Two batches of 8 then give the gradients of one of 16, on any number of
    devices.

    Labels have shape (N, C), or (N,) as class indices. Mark unknown ones with −100, which the Trainer counts
    out (`from_targets` wants −1 in its place: `labels.masked_fill(labels == -100, -1)`). Those marked with −1
    or NaN are left out of the loss as well, but not of what it is divided by. Where some are unknown,
    reduction="mean" is exact; for "batchmean" the number of samples in all batches is taken from that of
    labels, as if each batch had the same share of unknown ones.

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
    """Steps the criterion at each epoch's end, and keeps its state in the Trainer's checkpoints.

    >>> criterion = PartialLabelMasking.from_counts([10, 1], [40, 49])
    >>> callback = PLMTrainerCallback(criterion)
    >>> # Trainer(..., compute_loss_func=plm_loss(criterion), callbacks=[callback])

    Each checkpoint folder gets a `plm.safetensors` with the ratios and the statistics of all ranks. From it
    `train(resume_from_checkpoint=...)` goes on, also in the middle of an epoch. The Trainer's
    `state.log_history` gets an entry a step, with `plm/ratio_min`, `plm/divergence_positives` and so on.
    Where `load_best_model_at_end` brings back weights, their ratios come back with them.

    Args:
        criterion: The one that `plm_loss` was given.
        statistics: What moves the ratios: the outputs in "training", or those of the evaluation at an epoch's
            end, as `TrainingArguments(eval_strategy="epoch")` makes it ("validation"). None is the
            criterion's own choice, "validation" for `adapt="prevalence"`. Where there is no evaluation at
            the end, the epoch's last one counts; an epoch without any is not stepped. Of several sets that
            are evaluated, the first one at the epoch's end counts.
        name: For a second criterion: its state is `plm-<name>.safetensors`, its values `plm/<name>/ratio_min`
            and so on.
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
        self._network: weakref.ref[Any] | None = None  # the one that was trained last
        self._is_evaluating = False
        self._is_in_epoch = False
        self._is_due = False  # whether an epoch is complete, and its evaluation is yet to come

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Restore the criterion where the Trainer goes on from a checkpoint, or begins with a new network."""
        network = kwargs["model"]
        if state.global_step > 0:
            self._restore(self._find_state(args, state))
            if args.ignore_data_skip and self.statistics == "training" and not _is_whole(state):
                self.criterion.forget_outputs()  # the Trainer trains the epoch from its beginning
        else:
            _run_ids(state).setdefault(_RUN_ID, _new_run_id())
            if self._network is not None and self._network() is not network:  # the next trial of a search
                self.criterion.load_state_dict(self._first_state)
            self.criterion.reset()  # of what an earlier training left that ended within an epoch
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
        """Go to the ratios of the best model, if that is what the Trainer has loaded, and stop recording."""
        self._end_recording()
        if args.load_best_model_at_end and state.best_model_checkpoint is not None:
            best = Path(state.best_model_checkpoint) / self._state_file
            if _belongs_to(best, state):
                self._restore(best)

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Make up for the step that a checkpoint saved after an epoch's last batch came before."""
        if self._is_behind(state):
            self._step(state)
        self._is_in_epoch = True

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Step, unless the epoch is cut short: then the statistics stay, for a run that goes on from here."""
        from transformers.trainer_utils import has_length

        endless = not has_length(kwargs["train_dataloader"])  # then no epoch's number is ever whole
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
        elif self._hook is not None and not self._is_in_epoch:  # the epoch has had its step
            self.criterion.forget_outputs()

    def on_predict(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: dict[str, float],
        **kwargs: Any,
    ) -> None:
        """Drop what was recorded of a test set that is predicted in the middle of training."""
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
        if args.should_save and folder.is_dir():  # the trials of a search save elsewhere, and are not resumed
            with atomic_path(folder / self._state_file) as path:
                save_file(tensors, path, metadata={_RUN_ID: _run_ids(state)[_RUN_ID]})

    @property
    def _state_file(self) -> str:
        return "plm.safetensors" if self.name is None else f"plm-{self.name}.safetensors"

    def _find_state(self, args: TrainingArguments, state: TrainerState) -> Path:
        """The criterion's file in the checkpoint that the Trainer goes on from; it doesn't tell where."""
        folders = [_checkpoint(args.output_dir, state)]
        if isinstance(args.resume_from_checkpoint, str):
            folders.append(Path(args.resume_from_checkpoint))
        for folder in folders:
            if _belongs_to(folder / self._state_file, state):
                return folder / self._state_file
        raise UserError(
            f"the run to resume must have its {self._state_file} in {folders[-1]}, but it is missing or "
            "another's: give the checkpoint's folder as TrainingArguments(resume_from_checkpoint=...), too, "
            "or start anew if it was trained without the callback"
        )

    def _restore(self, path: Path) -> None:
        from safetensors.torch import load_file

        ResumableState(self.criterion).load_state_dict(load_file(path))

    def _is_behind(self, state: TrainerState) -> bool:
        """Whether an epoch is complete whose step is yet to come."""
        return bool(state.epoch) and _is_whole(state) and bool(self.criterion.summed_statistics()[0].any())

    def _begin_recording(self) -> None:
        self._end_recording()  # of a training that was cut short
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
        """Record what the loss is called with in evaluation, which the Trainer does without gradients."""
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
    """Whether training stands between two epochs: the Trainer counts them in fractions."""
    return float(state.epoch).is_integer()


def _checkpoint(output_dir: str | None, state: TrainerState) -> Path:
    from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

    return Path(str(output_dir)) / f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}"


def _run_ids(state: TrainerState) -> dict[str, str]:
    """Where a run's number is kept: the one part of the Trainer's own file that takes what others write."""
    callbacks: Any = state.stateful_callbacks
    return cast(dict[str, str], callbacks)


def _new_run_id() -> str:
    """The same on all ranks, of which the first one's goes into the files."""
    ids = [uuid.uuid4().hex]
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.broadcast_object_list(ids)
    return ids[0]


def _belongs_to(path: Path, state: TrainerState) -> bool:
    """Whether a file is there and of this run."""
    return path.is_file() and _read_run_id(path) == _run_ids(state).get(_RUN_ID)


def _read_run_id(path: Path) -> str | None:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        metadata: dict[str, str] = file.metadata()
    return metadata.get(_RUN_ID)
