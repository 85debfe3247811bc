"""The paper's numeric statements about its figures, beside the measured values."""

from __future__ import annotations

from collections.abc import Sequence

from tailmask.paper.items.scores_by_class import Scores
from tailmask.paper.published_numbers import load_paper
from tailmask.paper.result_table import ResultCell, ResultRow, Table

__all__ = ["statements"]


def statements(name: str, scores: Sequence[Scores], *, on_paper_data: bool) -> Table:
    """The statements about figure 4 (F1) or figure 8 (precision first) as a table of one column."""
    first, paper = scores[0], load_paper()[name]
    found = _figure4(first) if name == "figure4" else _figure8(first)
    rows = [
        ResultRow(label, (ResultCell(paper[key] if on_paper_data else None, value),))
        for key, (label, value) in found.items()
    ]
    return Table("The paper's statements about the figure", "Statement", ("Value",), tuple(rows))


def _figure4(scores: Scores) -> dict[str, tuple[str, float | None]]:
    number = len(scores.classes)
    size = min(load_paper()["figure4"]["improved_rarest"], number)
    gains = [plm - bce for bce, plm in scores.means()]
    difficult = scores.difficult()
    names = ", ".join(scores.classes[c] for c in difficult) or "none"
    return {
        "improved_rarest": (
            f"Number of the {size} rarest classes that gain",
            float(sum(gain > 0 for gain in gains[number - size :])),
        ),
        "difficult_gain": (
            f"Mean gain of classes with many samples but an F1 below 20 % with bce ({names})",
            sum(gains[c] for c in difficult) / len(difficult) if difficult else None,
        ),
    }


def _figure8(scores: Scores) -> dict[str, tuple[str, float | None]]:
    gains = [plm - bce for bce, plm in scores.means()][:10]
    label = f"Gain in precision over the {len(gains)} most frequent classes"
    return {"precision_frequent_10_gain": (label, sum(gains) / len(gains))}
