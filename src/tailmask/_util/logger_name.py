"""The names of other tools' loggers."""

from __future__ import annotations

from typing import Literal, get_args

from tailmask._util.messages import UserError, nearest, require

__all__ = ["LoggerName", "check_logger"]

LoggerName = Literal["tensorboard", "mlflow", "wandb"]
_PACKAGES = {"tensorboard": "tensorboardX", "mlflow": "mlflow", "wandb": "wandb"}


def check_logger(name: str) -> None:
    """Refuse an unknown logger, or one whose package is not installed.

    >>> check_logger("mlflo")
    Traceback (most recent call last):
    tailmask._util.messages.UserError: logger must be tensorboard, mlflow or wandb, got 'mlflo': did you ...
    """
    if name not in _PACKAGES:
        hint = nearest(name, get_args(LoggerName))
        raise UserError(f"logger must be tensorboard, mlflow or wandb, got {name!r}: {hint}")
    require(_PACKAGES[name], extra=name)
    require("pytorch_lightning", extra="cli")
