"""Tables 1 to 6: methods as rows, settings and measures as columns, the paper's numbers beside ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tailmask._util.messages import UserError, listing
from tailmask.methods import parse
from tailmask.paper.items.other_data import own_metrics, own_setting
from tailmask.paper.published_numbers import load_paper, paper_rows
from tailmask.paper.request import Answer, Arm, PaperItem, Request, Runs
from tailmask.paper.result_table import ResultCell, ResultRow, Table, measured
from tailmask.runs import ResolvedSetting

__all__ = ["chosen_imbalances", "table_item"]

PaperRows = dict[str, list[float | None]]

_TITLES = {
    "table1": "Table 1: methods on MultiMNIST",
    "table2": "Table 2: methods on MSCOCO",
    "table3": "Table 3: methods on CIFAR-10-LT",
    "table4": "Table 4: methods on CIFAR-100-LT",
    "table5": "Table 5: the rate λ on long-tailed CIFAR",
    "table6": "Table 6: the initial ratio on long-tailed CIFAR",
}
_LABELS = {"table5": "λ", "table6": "Initial ratio"}
_DATA_TITLES = {"cifar10-lt": "CIFAR-10-LT", "cifar100-lt": "CIFAR-100-LT"}
_INITIAL_RATIOS = {"min": "min r", "max": "max r", "mean": "mean r", "class": "r, the data's"}
# β of the class-balanced weights on CIFAR-100 by ρ, after Cui et al.; the recipe has β for ρ = 100 and 200.
_CIFAR100_BETA = {50.0: 0.99, 20.0: 0.99, 10.0: 0.999}
_QUOTED = "The paper quotes its rows bce+cb and ldam+drw from Cui et al. (2019) and Cao et al. (2019)."


@dataclass(frozen=True)
class Group:
    """Columns that share a setting, one per measure."""

    title: str
    setting: ResolvedSetting
    metrics: tuple[str, ...]

    def arm(self, method: str) -> Arm:
        """The arm whose runs fill a method's cells."""
        beta = _CIFAR100_BETA.get(self.setting.options.rho)
        if method == "bce+cb" and self.setting.data == "cifar100-lt" and beta is not None:
            method = f"bce+cb:beta={beta}"
        return Arm(self.setting, method)


@dataclass(frozen=True)
class MethodTable:
    """A table of methods by settings and measures, in percent."""

    label: str
    groups: Sequence[Group]
    rows: PaperRows  # by method; an empty list if the paper has no such row
    notes: tuple[str, ...]

    def answer(self, runs: Runs) -> Answer:
        """The table from the runs that exist so far."""
        columns = [
            ", ".join(filter(None, (group.title, _heading(metric))))
            for group in self.groups
            for metric in group.metrics
        ]
        known = [group.arm(method) for group in self.groups for method in self.rows]
        methods = self.rows | {method: [] for method in runs.more_methods(known)}
        rows, notes = [], dict.fromkeys(self.notes)
        for method, paper in methods.items():
            measures = [runs.measures(group.arm(method)) for group in self.groups]
            for group, found in zip(self.groups, measures, strict=True):
                notes |= dict.fromkeys(group.setting.config(method).notes if found else ())
            values = [
                _percentages(found, metric)
                for group, found in zip(self.groups, measures, strict=True)
                for metric in group.metrics
            ]
            numbers = paper or [None] * len(values)
            cells: list[ResultCell] = [
                measured(own, paper=number) for own, number in zip(values, numbers, strict=True)
            ]
            rows.append(ResultRow(_row_label(method, self.label), tuple(cells)))
        caption = "In percent" + ("; K is the number of rarest classes" if "K=" in "".join(columns) else "")
        table = Table(caption, self.label, tuple(columns), tuple(rows))
        return Answer((table,), notes=(*notes, *self._drift(methods)))

    def _drift(self, methods: Iterable[str]) -> list[str]:
        """A note on each λ that the budget has changed: without it a table by λ would mislead."""
        changed: dict[str, None] = {}
        for method in methods:
            asked = parse(method).masking
            resolved = self.groups[0].setting.config(method).method.masking
            if (
                asked is not None
                and resolved is not None
                and asked.get("rate") not in (None, resolved.get("rate"))
            ):
                changed[f"λ = {asked.get('rate'):g} is {resolved.get('rate'):g} here"] = None
        if not changed:
            return []
        return [f"λ is scaled with the number of epochs: {listing(changed)}."]


def table_item(request: Request, *, name: str) -> PaperItem:
    """One of the tables 1 to 6, on the paper's data or on others."""
    paper, title = load_paper()[name], _TITLES[name]
    if request.data is None:
        rows = paper_rows(name)
        groups = _paper_groups(request, paper)
        trained = _chosen_groups(request, groups)
    else:
        setting, facts = own_setting(request, request.data)
        groups = trained = [Group("", setting, own_metrics(setting, facts))]
        rows = {method: [] for method in _own_methods(name, setting, single_label=facts.single_label)}
        title = f"{title.partition(' on ')[0]} on {request.data}"
    rows |= {method: [] for method in request.names if method not in rows}
    notes = (_QUOTED,) if request.data is None and name in ("table3", "table4") else ()
    table = MethodTable(_LABELS.get(name, "Method"), groups, rows, notes)
    arms = [group.arm(method) for group in trained for method in request.names or rows]
    return PaperItem(title, arms, table.answer, from_records=True)


def _percentages(measures: Sequence[Mapping[str, float | None]], metric: str) -> list[float]:
    """The values of one measure in percent, one per run; undefined values are left out."""
    values = [each.get(metric) for each in measures]
    return [100 * value for value in values if value is not None]


def chosen_imbalances(request: Request, imbalances: Sequence[float]) -> list[float]:
    """The imbalances ρ that the request names; all if it names none."""
    for rho in request.imbalances:
        if rho not in imbalances:
            raise UserError(f"the result has no ρ = {rho:g}: choose from {listing(imbalances)}")
    return [float(rho) for rho in request.imbalances or imbalances]


def _paper_groups(request: Request, paper: dict[str, Any]) -> list[Group]:
    metrics, groups = tuple(paper["columns"]), []
    for data in paper["data"]:
        if "rho" not in paper:
            groups.append(Group("", request.setting(data), metrics))
        for rho in paper.get("rho", []):
            title = f"ρ = {rho}" if len(paper["data"]) == 1 else _DATA_TITLES[data]
            groups.append(Group(title, request.setting(data, rho=float(rho)), metrics))
    return groups


def _chosen_groups(request: Request, groups: Sequence[Group]) -> list[Group]:
    if not request.imbalances:
        return list(groups)
    chosen = chosen_imbalances(request, [group.setting.options.rho for group in groups])
    return [group for group in groups if group.setting.options.rho in chosen]


def _own_methods(name: str, setting: ResolvedSetting, *, single_label: bool) -> list[str]:
    """The methods of the paper's table that fit the data; table 5 adds λ of the data's recipe."""
    methods = [method for method in paper_rows(name) if single_label or not method.startswith("ldam")]
    rate = setting.recipe.method.get("plm", {}).get("rate")
    own = None if rate is None else str(parse(f"plm:rate={rate}"))
    if name == "table5" and own is not None and own not in methods:
        methods.insert(next((i for i, method in enumerate(methods) if _rate(method) < rate), 0), own)
    return methods


def _rate(method: str) -> float:
    masking = parse(method).masking
    return 0.0 if masking is None else masking.get("rate") or 0.0


def _heading(metric: str) -> str:
    """A short heading for a measure.

    >>> _heading("recall_rarest_3"), _heading("exact_match"), _heading("error_balanced")
    ('Recall K=3', 'Exact match', 'Error')
    """
    from tailmask.comparison.measures import describe

    base, _, size = metric.partition("_rarest_")
    label = "Error" if base == "error_balanced" else describe(base).label
    return f"{label} K={size}" if size else label


def _row_label(method: str, label: str) -> str:
    """The label of a row. In tables 5 and 6 it is the value of the option that they vary."""
    masking = parse(method).masking
    if label == "λ" and method in ("bce", f"plm:rate={_rate(method):g}"):
        return f"{_rate(method):g}" + (" (bce)" if masking is None else "")
    start = None if masking is None else masking.get("initial_ratio")
    if label == "Initial ratio" and method == f"plm:initial_ratio={start}":
        return _INITIAL_RATIOS[str(start)]
    return method
