"""Made-up runs for the paper's tables and figures, and what is read of a result."""

from __future__ import annotations

import json

from made_up_runs import with_epochs, write_run
from tailmask.paper import Request, plan_reproduction

DIGITS = [str(digit) for digit in range(10)]
COUNTS = [900, 600, 400, 250, 150, 90, 50, 30, 20, 10]
DATA = {
    "coco": ([f"thing {number}" for number in range(80)], [2000 - 20 * number for number in range(80)]),
    "cifar100-lt": ([f"class {number}" for number in range(100)], list(range(200, 100, -1))),
}
REQUEST = with_epochs(Request(budget=0.5), 6)  # three epochs a run


class IdlePool:
    """A pool of workers that makes nothing."""

    def __init__(self, *_, **__):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def check(self, runs):
        return {}

    def make(self, *_):
        return []


def add_runs(
    folder, item, *, request=REQUEST, seeds=1, methods=None, classes=DIGITS, counts=COUNTS, **settings
):
    """Made-up runs for what an item asks for; gives their folders by method and seed."""
    made = {}
    for run in plan_reproduction(item, request, seeds=seeds, runs=folder / "runs"):
        if methods is None or run.config.name in methods:
            classes, counts = DATA.get(run.setting.data, (DIGITS, COUNTS))
            strength = 3.0 if run.config.name.startswith("plm") else 1.5
            made[run.setting.options.rho, run.config.name, run.config.seed] = write_run(
                run,
                **{"classes": classes, "train_positives": counts, "strength": strength, **settings},
            )
    return made


def summary(folder):
    return json.loads((folder / "metrics.json").read_text())["test"]["summary"]


def cells(result, label, table=0):
    (row,) = (row for row in result["tables"][table]["rows"] if row["label"] == label)
    return row["cells"]
