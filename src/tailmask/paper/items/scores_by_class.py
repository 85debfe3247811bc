"""Scores of BCE and PLM class by class, in percent, from the most to the least frequent class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tailmask.paper.result_table import ResultCell, ResultRow, Table, measured
from tailmask.runs import Run

__all__ = ["Scores", "class_scores"]


@dataclass(frozen=True)
class Scores:
    """A measure by class, with one value per run of BCE and of PLM."""

    title: str
    classes: tuple[str, ...]
    counts: tuple[int, ...]
    bce: tuple[tuple[float, ...], ...]  # (C, runs)
    plm: tuple[tuple[float, ...], ...]

    def means(self) -> list[tuple[float, float]]:
        """The means of BCE and of PLM for each class."""
        return [
            (sum(bce) / len(bce), sum(plm) / len(plm)) for bce, plm in zip(self.bce, self.plm, strict=True)
        ]

    def shares(self) -> tuple[list[float], list[float]]:
        """Means of BCE and of PLM as shares from 0 to 1, for figures."""
        before, after = zip(*self.means(), strict=True)
        return [value / 100 for value in before], [value / 100 for value in after]

    def difficult(self) -> list[int]:
        """The classes with many samples but an F1 below 20 % with BCE."""
        from tailmask.comparison.chosen_classes import difficult_classes

        return difficult_classes(self.shares()[0], self.counts)

    def table(self) -> Table:
        """A table of the scores and of each class's gain."""
        columns = zip(self.classes, self.counts, self.bce, self.plm, self.means(), strict=True)
        rows = [
            ResultRow(f"{name} ({count})", (measured(bce), measured(plm), ResultCell(mean=after - before)))
            for name, count, bce, plm, (before, after) in columns
        ]
        return Table(
            f"{self.title}, in percent", "Class (training samples)", ("bce", "plm", "Gain"), tuple(rows)
        )


def class_scores(title: str, metric: str, *, bce: Sequence[Run], plm: Sequence[Run]) -> Scores:
    """The scores of finished runs on the test set."""
    from tailmask.comparison.chosen_classes import by_frequency

    config = bce[0].config
    order = by_frequency(config["train_counts"][1])
    return Scores(
        title,
        tuple(config["classes"][c] for c in order),
        tuple(config["train_counts"][1][c] for c in order),
        bce=tuple(_values(bce, metric, c) for c in order),
        plm=tuple(_values(plm, metric, c) for c in order),
    )


def _values(runs: Sequence[Run], metric: str, index: int) -> tuple[float, ...]:
    return tuple(100 * run.metrics["test"]["per_class"][metric][index] for run in runs)
