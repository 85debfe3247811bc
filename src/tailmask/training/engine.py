"""Training: from a configuration to a complete run folder, also after interruptions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tailmask._util.logger_name import LoggerName, check_logger
from tailmask._util.messages import require
from tailmask.data import load
from tailmask.data.class_statistics import summaries
from tailmask.data.dataset import BatchSource, Dataset
from tailmask.data.notes import data_notes
from tailmask.runs.config import RunConfig, config_digest, determined_by
from tailmask.runs.folder import begin_session, check_folder
from tailmask.runs.history import restore_history
from tailmask.runs.lock import locked
from tailmask.runs.reader import Run
from tailmask.runs.setting import TABLE_MODELS
from tailmask.training.checkpoint_file import find_checkpoint, remove_checkpoints
from tailmask.training.context_managers import disk_errors, memory_errors, process_group, quiet
from tailmask.training.loggers import open_logger
from tailmask.training.progress import Progress
from tailmask.training.run_parts import Parts, build_parts
from tailmask.training.session import Session
from tailmask.training.with_lightning.devices import Placement

__all__ = ["Execution", "determining", "run_description", "train"]


@dataclass(frozen=True)
class Execution:
    """Devices, threads and logging of a run.

    The result depends on the number of devices. The number of threads changes only its last bits.

    Args:
        devices: Processes that train together on this machine, one on each device.
        threads: CPU threads per process; None keeps torch's choice.
        logger: Another tool that also gets the settings, epochs and results of the run.
    """

    devices: int = 1
    threads: int | None = None
    logger: LoggerName | None = None

    def __post_init__(self) -> None:
        if self.logger is not None:
            check_logger(self.logger)


def train(
    config: RunConfig,
    folder: Path | str,
    *,
    dataset: Dataset | None = None,
    execution: Execution | None = None,
    progress: Progress | None = None,
) -> Run:
    """Train the run in `folder`, or resume it; a complete run is only read.

    Pass `dataset` if the data that `config` names are already loaded. A configuration that cannot work raises
    a `UserError` before anything is written. An interrupt raises `KeyboardInterrupt`; the same call then
    resumes the run.
    """
    if not config.is_plain:
        raise ValueError(
            f"train makes one network on one split, but {config.name} has {config.folds} folds or another "
            "learner: use tailmask.learners.make_run"
        )
    folder, execution, progress = Path(folder), execution or Execution(), progress or Progress()
    placement = Placement.from_environment()
    if execution.devices > 1 and placement.world_size == 1:
        from tailmask.training.with_lightning.launch_processes import launch

        launch(config, folder, dataset=dataset, execution=execution, progress=progress)
        return Run(folder)
    if execution.threads is not None:
        torch.set_num_threads(execution.threads)
    dataset = dataset or load(config.data, config.options)
    parts = build_parts(config, dataset, world_size=placement.world_size)
    record = run_description(config, dataset, world_size=placement.world_size)
    record["notes"] += [note for note in parts.objective.notes if note not in record["notes"]]
    if check_folder(folder, record["determines"]).is_complete:
        remove_checkpoints(folder)
        return Run(folder)
    if not is_table_run(config, dataset, world_size=placement.world_size):
        require("pytorch_lightning", extra="cli")
    batch_size = config.recipe.schedule.batch_size
    with quiet(), disk_errors(folder), memory_errors(batch_size), process_group():
        if not placement.is_first:
            _train(config, folder, parts, placement, execution, progress=Progress(), record=record)
        else:
            with locked(folder):
                if not Run(folder).is_complete:  # another process may have completed it meanwhile
                    _train(config, folder, parts, placement, execution, progress=progress, record=record)
    return Run(folder)


def determining(config: RunConfig, dataset: Dataset, *, world_size: int) -> dict[str, Any]:
    """Everything that the result of a run depends on."""
    own = determined_by(config)
    return {"data": dataset.source, **own, "world_size": world_size}


def run_description(config: RunConfig, dataset: Dataset, *, world_size: int) -> dict[str, Any]:
    """The content of run.json for a new run."""
    determines = determining(config, dataset, world_size=world_size)
    statistics = summaries(dataset)
    return config.to_json() | {
        "format": 1,
        "digest": config_digest(determines),
        "determines": determines,
        "data": config.data,
        "shape": list(dataset.shape),
        "classes": list(dataset.classes),
        "single_label": dataset.single_label,
        "train_counts": [list(statistics["train"].negatives), list(statistics["train"].positives)],
        "notes": [*data_notes(dataset, statistics), *config.notes],
        "unit": dataset.unit,
    }


def _train(
    config: RunConfig,
    folder: Path,
    parts: Parts,
    placement: Placement,
    execution: Execution,
    *,
    progress: Progress,
    record: dict[str, Any],
) -> None:
    path, checkpoint = find_checkpoint(folder) or (None, {})
    done: int = checkpoint.get("epochs_done", 0)
    lines: list[str] = checkpoint.get("history", [])
    if placement.is_first:
        restore_history(folder / "history.jsonl", lines)
        begin_session(folder, record, epochs_done=done, threads=torch.get_num_threads())
    for note in record["notes"]:
        progress.note(note)
    if path is not None:
        progress.note(f"resuming after epoch {done} of {config.recipe.schedule.epochs}")
    try:
        with open_logger(execution.logger if placement.is_first else None, config, folder) as log:
            session = Session(folder, config, parts, lines=lines, progress=progress, log=log)
            if is_table_run(config, parts.dataset, world_size=placement.world_size):
                from tailmask.training.tables.table_run import train_table

                train_table(session, checkpoint)
            else:
                from tailmask.training.with_lightning.lightning_run import train_with_lightning

                del checkpoint  # Lightning reads the file itself
                train_with_lightning(session, placement, path)
    finally:
        progress.end()


def is_table_run(config: RunConfig, dataset: Dataset, *, world_size: int) -> bool:
    """True if the small loop trains the run: rows of numbers, one device, and a network for tables."""
    optimizer, schedule = config.recipe.optimizer, config.recipe.schedule
    return (
        world_size == 1
        and not config.compiled
        and config.recipe.model.name in TABLE_MODELS
        and not (optimizer.body_lr or optimizer.clip)
        and schedule.accumulate == 1
        and not any(isinstance(split.inputs, BatchSource) for split in dataset.splits.values())
    )
