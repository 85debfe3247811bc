"""The plan of a study: one run per method and seed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tailmask._util.files import slug
from tailmask._util.messages import UserError
from tailmask.methods import Method, find_words, parse
from tailmask.runs import ResolvedSetting, RunConfig

__all__ = ["PlannedRun", "distinct", "method_names", "plan_runs", "run_name"]


@dataclass(frozen=True)
class PlannedRun:
    """One run of a study: its setting, its configuration and its folder."""

    setting: ResolvedSetting
    config: RunConfig
    folder: Path

    @property
    def label(self) -> str:
        """A short name of the run."""
        return f"{self.config.name}, seed {self.config.seed}"

    @property
    def command(self) -> str:
        """The command line that makes only this run.

        >>> from tailmask.runs import Setting
        >>> setting = Setting("digits", budget=0.5).resolve()
        >>> print(plan_runs(setting, ["plm"], [1], folder=Path("runs"))[0].command)
        tailmask train digits --budget 0.5 --method plm --seed 1 --out runs/plm_seed=1
        """
        own = ["--method", self.config.name, "--seed", str(self.config.seed), "--out", str(self.folder)]
        return shlex.join(["tailmask", "train", *self.setting.asked.arguments(), *own])


def plan_runs(
    setting: ResolvedSetting, methods: Iterable[str], seeds: Iterable[int], *, folder: Path
) -> list[PlannedRun]:
    """One run per seed and method, ordered by seed, in folders below `folder`.

    >>> from tailmask.runs import Setting
    >>> runs = plan_runs(Setting("digits").resolve(), ["bce", "plm:rate=1"], [0], folder=Path("a"))
    >>> [str(run.folder) for run in runs]
    ['a/bce_seed=0', 'a/plm_rate=1_seed=0']
    """
    methods = list(methods)
    configs = [setting.config(method, seed) for seed in seeds for method in methods]
    return [PlannedRun(setting, config, folder / run_name(config.name, config.seed)) for config in configs]


def run_name(method: str, seed: int) -> str:
    """The name of a run's folder.

    >>> run_name("plm:rate=1", 0)
    'plm_rate=1_seed=0'
    """
    return slug(f"{method}_seed={seed}")


def method_names(methods: Iterable[str]) -> list[str]:
    """The methods' canonical names, each once, in their order.

    >>> method_names(["plm+bce", "plm", "focal"])
    ['plm', 'focal']
    """
    return distinct([str(_parse(name)) for name in methods])


def distinct(names: Sequence[str]) -> list[str]:
    """The names without repetitions, in their order."""
    return list(dict.fromkeys(names))


def _parse(name: str) -> Method:
    try:
        return parse(name)
    except UserError:
        # A comma also separates the options of a word. Only a comma before a known word separates methods.
        between = re.compile(rf",\s*(?=(?:{'|'.join(find_words())})\s*(?:[:+,]|$)|$)", flags=re.IGNORECASE)
        separated = between.sub(" ", name).strip()
        if separated == name.strip():
            raise
        raise UserError(f"methods are separated by spaces, as in --methods {separated}") from None
