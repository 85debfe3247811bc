"""The user's own functions, found by their import path."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from tailmask._util.messages import UserError

__all__ = ["import_own"]


def import_own(path: str, *, what: str, form: str) -> tuple[ModuleType, Any]:
    """The module and the object of an import path, for the model or the encoder that `what` names.

    >>> import_own("json:dumps", what="encoder", form="package.module:function")[1]([1])
    '[1]'
    >>> import_own("json.dumps", what="encoder", form="package.module:function")
    Traceback (most recent call last):
    tailmask._util.messages.UserError: the encoder 'json.dumps' must be written as package.module:function
    """
    module_name, _, attribute = path.partition(":")
    if not all([*module_name.split("."), attribute]):
        raise UserError(f"the {what} {path!r} must be written as {form}")
    here = str(Path.cwd())
    if here not in sys.path:  # a console script, unlike `python -m`, does not search the current folder
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
        return module, getattr(module, attribute)
    except Exception as error:  # a user's own code may raise anything
        raise UserError(f"the {what} {path!r} cannot be imported: {error}") from error
