"""What somebody asks `reproduce` for, and what a table or figure of the paper answers with."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tailmask.data import DataOptions
from tailmask.data.facts import DataFacts, load_data
from tailmask.paper.result_table import Table
from tailmask.runs import ResolvedSetting, Run, Setting
from tailmask.runs.config import Precision
from tailmask.studies.planned_runs import method_names

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Answer", "Arm", "PaperItem", "Request", "Runs"]


@dataclass(frozen=True)
class Request:
    """How a table or figure is to be made: everything that its runs share, and which of them to train.

    Args:
        data: Other data than the paper's, by name or path.
        options: Choices about the data.
        recipe: Name of a recipe, or path of a .toml file; None is the one for the data.
        budget: Share of the recipe's epochs to train for.
        fields: Fields of the recipe to set, such as "optimizer.weight_decay=5e-4".
        methods: Rows of a table to train, all of the paper's where empty; others become rows of their own.
        imbalances: Of table 3, table 4 and figure 3, the imbalances ρ to train, all where empty.
        precision: "32", or "bf16" for mixed precision.

    >>> Request(methods=("plm+bce", "plm")).names
    ['plm']
    """

    data: str | None = None
    options: DataOptions = field(default_factory=DataOptions)
    recipe: str | None = None
    budget: float = 1.0
    fields: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    imbalances: tuple[float, ...] = ()
    precision: Precision = "32"

    @property
    def names(self) -> list[str]:
        """Canonical names of the methods."""
        return method_names(self.methods)

    def setting(
        self,
        data: str,
        *,
        fields: Sequence[str] = (),
        rho: float | None = None,
        facts: DataFacts | None = None,
    ) -> ResolvedSetting:
        """The setting of runs on `data`, with the fields and the imbalance that a table or figure adds."""
        options = self.options if rho is None else dataclasses.replace(self.options, rho=rho)
        fields = (*fields, *self.fields)
        asked = Setting(data, options, self.recipe, self.budget, fields=fields, precision=self.precision)
        return asked.resolve(facts)

    def facts(self, data: str) -> DataFacts:
        """Facts about other data than the paper's, which are loaded for it."""
        return DataFacts.of(load_data(data, self.options))

    def identity(self) -> dict[str, Any]:
        """What results must have in common to be one: all but the methods and imbalances that are trained."""
        asked = Setting(
            self.data or "",
            self.options,
            self.recipe,
            self.budget,
            fields=self.fields,
            precision=self.precision,
        )
        return asked.published() | ({} if self.data else {"data": None})


class Arm(NamedTuple):
    """What one method gives in one setting."""

    setting: ResolvedSetting
    method: str


class Runs(Protocol):
    """Finds the runs of a table or figure, in the order of their seeds."""

    def find(self, arm: Arm) -> list[Run]:
        """All complete runs of an arm."""

    def measures(self, arm: Arm) -> list[Mapping[str, float | None]]:
        """What all runs of an arm measured on the test set, also those that only an earlier result holds."""

    def more_methods(self, known: Sequence[Arm]) -> list[str]:
        """Methods besides those of the known arms that the earlier result has runs of, in its order."""


@dataclass(frozen=True)
class Answer:
    """The result: tables, a figure if it is one, and notes for the reader."""

    tables: tuple[Table, ...]
    figure: Figure | None = None
    notes: tuple[str, ...] = ()


class PaperItem(Protocol):
    """One table or figure of the paper, for one request."""

    @property
    def title(self) -> str:
        """What it shows."""

    @property
    def arms(self) -> Sequence[Arm]:
        """What is to be trained; empty where nothing is."""

    def answer(self, runs: Runs) -> Answer:
        """The tables and the figure, with what was run so far."""
