"""A pool of workers that makes runs up."""

from __future__ import annotations

from typing import ClassVar

from made_up_runs import write_run
from tailmask.data.facts import DataFacts
from tailmask.studies.planned_runs import PlannedRun
from tailmask.studies.worker_pool import Failure

CLASSES = [f"class {number}" for number in range(8)]
COUNTS = [800, 500, 300, 200, 100, 50, 30, 10]


class FakePool:
    """Makes up runs; those of a method in `failing` fail."""

    failing: tuple[str, ...] = ()
    has_validation = True
    validation_f1 = staticmethod(lambda run: 0.5)
    made: ClassVar[list[PlannedRun]]

    def __init__(self, jobs, *, num_runs=None):
        self.jobs = jobs

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def facts(self, settings):
        facts = DataFacts({"name": "digits"}, tuple(CLASSES), (4,), False, self.has_validation)
        return dict.fromkeys(settings, facts)

    def check(self, runs):
        pass

    def make(self, runs, listener=None):
        failures = []
        for run in runs:
            if run.config.name in self.failing:
                failures.append(Failure(run, "the loss became NaN"))
            elif not (run.folder / "metrics.json").exists():
                self.made.append(run)
                strength = 3.0 if run.config.name.startswith("plm") else 1.5
                score = self.validation_f1(run)
                write_run(
                    run, classes=CLASSES, train_positives=COUNTS, strength=strength, validation_f1=score
                )
        return failures
