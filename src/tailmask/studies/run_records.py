"""Records of runs in the JSON of a result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tailmask.runs import ResolvedSetting, Run

__all__ = ["listed_runs", "measures_on_test", "run_record"]


def listed_runs(found: Sequence[tuple[ResolvedSetting, dict[str, Any]]]) -> dict[str, Any]:
    """The seeds, settings and runs of a result, for its JSON."""
    settings = {setting: record["epochs"] for setting, record in found}
    return {
        "seeds": sorted({record["seed"] for _, record in found}),
        "settings": [
            setting.asked.published() | {"name": setting.name, "trained_epochs": epochs}
            for setting, epochs in settings.items()
        ],
        "runs": [record for _, record in found],
    }


def run_record(setting: ResolvedSetting, run: Run) -> dict[str, Any]:
    """The record of one run in a result."""
    config = run.config
    return {
        "setting": setting.name,
        "name": config["name"],
        "method": config["method"],
        "seed": config["seed"],
        "epochs": config["recipe"]["schedule"]["epochs"],
        "digest": config["digest"],
        "commit": config["commit"],
        "threads": config["sessions"][-1]["threads"],
        "seconds": round(run.seconds, 1),
        "measures": measures_on_test(run),
    }


def measures_on_test(run: Run) -> dict[str, float | None]:
    """A run's measures on the test set."""
    summary: dict[str, float | None] = run.metrics["test"]["summary"]
    return summary
