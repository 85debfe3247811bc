"""From a data set and a method to a trained model with its full record.

`configure` makes the configuration of a run, `train` the run itself, and `Run` reads a run's folder. Only
`train` imports torch and Lightning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tailmask.training.config import RunConfig, configure
from tailmask.training.recipe import Recipe, load_recipe
from tailmask.training.run import Run

if TYPE_CHECKING:
    from tailmask.training.engine import Execution as Execution
    from tailmask.training.engine import train as train

__all__ = ["Execution", "Recipe", "Run", "RunConfig", "configure", "load_recipe", "train"]


def __getattr__(name: str) -> Any:
    if name in ("Execution", "train"):
        from tailmask.training import engine

        return getattr(engine, name)
    raise AttributeError(f"module 'tailmask.training' has no attribute {name!r}")
