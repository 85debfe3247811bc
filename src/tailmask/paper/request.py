"""The request to `reproduce`, and the answer of a table or figure of the paper."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tailmask._util.precision import Precision
from tailmask.data import DataOptions
from tailmask.data.facts import DataFacts, load_data
from tailmask.paper.result_table import Table
from tailmask.runs import ResolvedSetting, Run, Setting
from tailmask.studies.planned_runs import method_names

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Answer", "Arm", "PaperItem", "Request", "Runs"]


@dataclass(frozen=True)
class Request:
    """The options of a table or figure: the settings that its runs share, and which runs to train.

    Args:
        data: Name or path of other data than the paper's.
        options: Choices about the data.
        recipe: Name of a recipe, or path of a .toml file; None: the recipe for the data.
        budget: Share of the recipe's epochs to train for.
        fields: Fields of the recipe to set, such as "optimizer.weight_decay=5e-4".
        methods: Rows of a table to train; empty: all of the paper's. Other methods become new rows.
        imbalances: Imbalances ρ to train in table 3, table 4 and figure 3; empty: all.
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
        """Load other data than the paper's, and return facts about them."""
        return DataFacts.of(load_data(data, self.options))

    def identity(self) -> dict[str, Any]:
        """The fields that all runs of one result must share: all except methods and imbalances."""
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
    """One method in one setting."""

    setting: ResolvedSetting
    method: str


class Runs(Protocol):
    """Finds the runs of a table or figure, in the order of their seeds."""

    def find(self, arm: Arm) -> list[Run]:
        """All complete runs of an arm."""

    def measures(self, arm: Arm) -> list[Mapping[str, float | None]]:
        """The test measures of all runs of an arm, also of runs that only an earlier result has."""

    def more_methods(self, known: Sequence[Arm]) -> list[str]:
        """The methods in the earlier result that are not in the known arms, in its order."""


@dataclass(frozen=True)
class Answer:
    """The content of a result: tables, a figure if there is one, and notes for the reader."""

    tables: tuple[Table, ...]
    figure: Figure | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PaperItem:
    """One table or figure of the paper, for one request.

    `arms` are the arms to train, and `answer` makes the tables and the figure from the runs that exist so
    far. With `from_records` it needs only the record of a run: the run itself may be gone.
    """

    title: str
    arms: Sequence[Arm]
    answer: Callable[[Runs], Answer]
    from_records: bool = False
