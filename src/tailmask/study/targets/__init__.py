"""Every table and figure of the paper by its own numbering, and the discussion's figures."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tailmask.data import DataOptions
from tailmask.errors import UserError, listing, nearest
from tailmask.study.request import Request, Target
from tailmask.study.targets.classes import accuracy_target, class_target
from tailmask.study.targets.counts import count_target
from tailmask.study.targets.discussion import ends_target, imbalance_target
from tailmask.study.targets.distributions import output_target, training_target
from tailmask.study.targets.ratios import ratio_target
from tailmask.study.targets.tables import table_target
from tailmask.study.targets.toy import toy_target

__all__ = ["TARGETS", "build_target"]

TARGETS: dict[str, Callable[[Request], Target]] = {
    **{f"table{number}": partial(table_target, name=f"table{number}") for number in range(1, 7)},
    "table7": count_target,
    "figure1": output_target,
    "figure2": ratio_target,
    "figure3": accuracy_target,
    "figure4": partial(class_target, name="figure4"),
    "figure5": partial(toy_target, normalized=False),
    "figure6": partial(toy_target, normalized=True),
    "figure7": training_target,
    "figure8": partial(class_target, name="figure8"),
    "discussion-precision": ends_target,
    "discussion-imbalance": imbalance_target,
}


_BY_METHOD = tuple(f"table{number}" for number in range(1, 7))
_BY_IMBALANCE = ("table3", "table4", "figure3")
_OWN_IMBALANCE = (*_BY_IMBALANCE, "table5", "table6")


def build_target(name: str, request: Request) -> Target:
    """The target of a name, for a request.

    >>> build_target("table1", Request()).title
    'Table 1: methods on MultiMNIST'
    """
    if name not in TARGETS:
        raise UserError(f"there is no target {name!r}: {nearest(name, TARGETS)}")
    if request.methods and name not in _BY_METHOD:
        raise UserError(f"{name} has methods of its own: leave --methods out")
    if request.imbalances and (name not in _BY_IMBALANCE or request.data is not None):
        raise UserError(f"--imbalance is for {listing(_BY_IMBALANCE)} on the paper's data: leave it out")
    if name in _OWN_IMBALANCE and request.data is None and request.options.rho != DataOptions().rho:
        raise UserError(f"{name} has imbalances of its own: choose from them with --imbalance, not --rho")
    return TARGETS[name](request)
