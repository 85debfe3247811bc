"""Everything that trains on raw rows: linear models, trees, boosting, networks; cross-fitting and ensembles.

`protocol` has the interface of all of them. The training loops of networks live in `training`, and the choice
between learners in `studies` and `fitting`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailmask.learners.cross_fitted_run import make_run as make_run

__all__ = ["make_run"]


def __getattr__(name: str) -> Any:
    if name == "make_run":
        from tailmask.learners.cross_fitted_run import make_run

        return make_run
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
