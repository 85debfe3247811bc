"""Check for the packages that a study needs beyond the core, without importing them."""

from __future__ import annotations

from importlib.util import find_spec

from tailmask._util.messages import require

__all__ = ["check_extras"]


def check_extras() -> None:
    """Raise a `UserError` that says what to install if a package of the extra `cli` is missing."""
    for module in ("pytorch_lightning", "matplotlib", "jinja2", "safetensors", "sklearn"):
        if find_spec(module) is None:
            require(module, extra="cli")
