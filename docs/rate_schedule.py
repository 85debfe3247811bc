"""Draw λ of each update over the epochs, as `tailmask.masking.schedule` gives it, for docs/method.md.

Writes rate_schedule.svg beside this file:

    python docs/rate_schedule.py
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tailmask.masking.schedule import Schedule
from tailmask.report.charts.style import SERIES, new_figure, styled
from tailmask.report.charts.svg_output import save_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EPOCHS = (10, 30, 60, 90)


@styled
def draw() -> Figure:
    """λ after each epoch: a panel for each update, a line for each length of training."""
    figure, grid = new_figure(1, 2, height=2.8, sharex=True)
    for axes, adapt in zip(grid[0], ("divergence", "prevalence"), strict=True):
        for epochs, colour in zip(reversed(EPOCHS), SERIES, strict=False):
            schedule = Schedule.of(adapt, epochs=epochs)
            rates = [schedule.rate_at(update) for update in range(epochs)]
            axes.plot(
                range(1, epochs + 1), rates, color=colour, drawstyle="steps-post", label=f"{epochs} epochs"
            )
        axes.set_title(f'adapt="{adapt}"')
        axes.set_xlabel("after epoch")
    grid[0, 0].set_ylabel("λ of the update")
    grid[0, 0].set_ylim(0, 0.02)
    grid[0, 1].legend(loc="upper right")
    return figure


if __name__ == "__main__":
    save_svg(draw(), Path(__file__).with_suffix(".svg"))
