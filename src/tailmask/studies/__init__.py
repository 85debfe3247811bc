"""Studies: many runs are planned, trained by worker processes, and compared.

`compare` answers whether a method helps on some data. Interrupted studies are resumed. The paper's tables
live in `paper`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailmask.studies.study import Study as Study
    from tailmask.studies.study import compare as compare
    from tailmask.studies.study import plan_comparison as plan_comparison

__all__ = ["Study", "compare", "plan_comparison"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from tailmask.studies import study

        return getattr(study, name)
    raise AttributeError(f"module 'tailmask.studies' has no attribute {name!r}")
