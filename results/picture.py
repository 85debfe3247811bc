"""What thresholds, the recommended form and both together gain over plain cross-entropy, as one picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from published import PLAIN, TUNED

from tailmask.comparison.comparison_result import Comparison
from tailmask.comparison.run_outputs import Decision
from tailmask.methods import RECOMMENDED
from tailmask.report.charts.style import GRID, MUTED, SERIES, TEXT, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROWS: tuple[tuple[str, Decision, str], ...] = (
    ("bce", TUNED, "bce, tuned thresholds"),
    (RECOMMENDED, PLAIN, f"{RECOMMENDED}, threshold 0.5"),
    (RECOMMENDED, TUNED, f"{RECOMMENDED}, tuned thresholds"),
)


@styled
def gains(found: dict[str, Comparison]) -> Figure:
    """F1 over that of plain `bce` with 95 % intervals, three lines for each set; filled where clear."""
    figure, grid = new_figure(height=0.9 + 0.52 * len(found))
    axes = grid[0, 0]
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.axvline(0.0, color=MUTED, linewidth=1.2)
    for place, (method, decision, label) in enumerate(ROWS):
        colour = SERIES[place]
        for line, comparison in enumerate(found.values()):
            difference = comparison.difference(method, "f1", decision=decision)
            if difference is None:
                continue
            low, mean, high = (100 * value for value in (difference.low, difference.mean, difference.high))
            height = line + 0.25 * (place - 1)
            axes.plot([low, high], [height, height], color=colour, linewidth=2.2, solid_capstyle="round")
            face = colour if difference.effect else "white"
            axes.plot(mean, height, "o", color=colour, markerfacecolor=face, markersize=6, label=label)
            label = None
    axes.set_yticks(range(len(found)), list(found))
    axes.tick_params(axis="y", labelcolor=TEXT)
    axes.invert_yaxis()
    axes.spines["bottom"].set_visible(False)
    axes.set_xlabel("points of F1 over plain bce →")
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3)
    return figure
