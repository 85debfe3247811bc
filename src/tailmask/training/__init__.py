"""Training: from a configuration and a data set to a complete run folder. The folder's files live in `runs`.

Only `train` imports torch and Lightning, when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailmask.training.engine import Execution as Execution
    from tailmask.training.engine import train as train

__all__ = ["Execution", "train"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from tailmask.training import engine

        return getattr(engine, name)
    raise AttributeError(f"module 'tailmask.training' has no attribute {name!r}")
