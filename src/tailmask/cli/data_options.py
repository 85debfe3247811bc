"""The data options that several commands share: one per field of `DataOptions`."""

from __future__ import annotations

import typing
from typing import Annotated

from cyclopts import Group, Parameter

from tailmask.data import DataOptions

__all__ = ["DATA_DEFAULTS"]

# cyclopts reads its settings from a class's annotations. They are added here, not in the class itself,
# because `tailmask.data` is used without cyclopts.
_hints = typing.get_type_hints(DataOptions)
for _heading, _names in DataOptions.GROUPS.items():
    _group = Group.create_ordered(_heading)
    for _name in _names:
        _negative = f"--no-{_name.replace('_', '-')}" if getattr(DataOptions, _name) is True else ()
        DataOptions.__annotations__[_name] = Annotated[
            _hints[_name], Parameter(group=_group, negative=_negative)
        ]
Parameter(name="*")(DataOptions)

DATA_DEFAULTS = DataOptions()
