"""Every table and figure of the paper by its number, and the figures of the discussion.

How their runs are made and kept lives in `tailmask.paper`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tailmask._util.messages import UserError, listing, nearest
from tailmask.data import DataOptions
from tailmask.paper.items.class_figures import accuracy_item, class_item
from tailmask.paper.items.count_table import count_item
from tailmask.paper.items.discussion import ends_item, imbalance_item
from tailmask.paper.items.distribution_figures import output_item, training_item
from tailmask.paper.items.method_tables import table_item
from tailmask.paper.items.ratio_figure import ratio_item
from tailmask.paper.items.toy_figures import toy_item
from tailmask.paper.request import PaperItem, Request

__all__ = ["ITEMS", "build_item"]

ITEMS: dict[str, Callable[[Request], PaperItem]] = {
    **{f"table{number}": partial(table_item, name=f"table{number}") for number in range(1, 7)},
    "table7": count_item,
    "figure1": output_item,
    "figure2": ratio_item,
    "figure3": accuracy_item,
    "figure4": partial(class_item, name="figure4"),
    "figure5": partial(toy_item, normalized=False),
    "figure6": partial(toy_item, normalized=True),
    "figure7": training_item,
    "figure8": partial(class_item, name="figure8"),
    "discussion-precision": ends_item,
    "discussion-imbalance": imbalance_item,
}


_BY_METHOD = tuple(f"table{number}" for number in range(1, 7))
_BY_IMBALANCE = ("table3", "table4", "figure3")
_OWN_IMBALANCE = (*_BY_IMBALANCE, "table5", "table6")


def build_item(name: str, request: Request) -> PaperItem:
    """The table or figure with this name, for a request.

    >>> build_item("table1", Request()).title
    'Table 1: methods on MultiMNIST'
    """
    if name not in ITEMS:
        raise UserError(f"the paper has no {name!r}: {nearest(name, ITEMS)}")
    if request.methods and name not in _BY_METHOD:
        raise UserError(f"{name} has fixed methods: leave --methods out")
    if request.imbalances and (name not in _BY_IMBALANCE or request.data is not None):
        raise UserError(f"--imbalance is for {listing(_BY_IMBALANCE)} on the paper's data: leave it out")
    if name in _OWN_IMBALANCE and request.data is None and request.options.rho != DataOptions().rho:
        raise UserError(f"{name} has fixed imbalances: choose some of them with --imbalance, not --rho")
    return ITEMS[name](request)
