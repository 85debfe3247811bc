"""A run's settings, epochs and results, logged to TensorBoard, MLflow or Weights & Biases."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tailmask._util.logger_name import LoggerName
from tailmask._util.messages import UserError, require
from tailmask.runs.config import RunConfig
from tailmask.runs.history import scalars
from tailmask.runs.reader import Run

__all__ = ["open_logger"]


@contextmanager
def open_logger(
    name: LoggerName | None, config: RunConfig, folder: Path
) -> Iterator[Callable[[Mapping[str, Any]], None] | None]:
    """A function that logs the record of one epoch; None without a logger.

    The settings of the run are logged first, its test results last.
    """
    if name is None:
        yield None
        return
    try:
        logger = _open(name, folder)
        logger.log_hyperparams(config.to_json())
    except Exception as error:  # each tool has its own errors for a missing server or login
        raise UserError(
            f"{name} cannot log this run ({error}): check its settings, or leave out --logger"
        ) from error
    status = "failed"
    try:
        yield lambda record: logger.log_metrics(scalars(record), step=record["epoch"])
        metrics = Run(folder).metrics
        results = {
            f"{part}/{metric}": value
            for part in ("test", "test_tuned")
            for metric, value in metrics.get(part, {"summary": {}})["summary"].items()
            if value is not None
        }
        logger.log_metrics(results, step=config.recipe.schedule.epochs)
        status = "success"
    finally:
        logger.finalize(status)
        if name == "wandb":  # Lightning leaves the run open, and the next run would also be logged to it
            logger.experiment.finish(exit_code=int(status == "failed"))


def _open(name: LoggerName, folder: Path) -> Any:
    """Lightning's logger; the tools' own environment variables say where to log."""
    from pytorch_lightning import loggers

    if name == "tensorboard":
        return loggers.TensorBoardLogger(folder, name="", version="tensorboard")
    if name == "mlflow":
        mlflow = require("mlflow", extra="mlflow")
        experiment = os.environ.get("MLFLOW_EXPERIMENT_NAME", "tailmask")
        return loggers.MLFlowLogger(experiment, folder.name, tracking_uri=mlflow.get_tracking_uri())
    return loggers.WandbLogger(folder.name, project=os.environ.get("WANDB_PROJECT", "tailmask"))
