"""The out-of-fold mAP of ensembles from different methods, from the finished runs of studies.

    tailmask compare mulan/emotions/emotions-train.arff --seeds 3 --out studies/emotions
    python benchmarks/ensemble_arms.py studies/emotions [studies/yeast ...]

Nothing is trained: the out-of-fold outputs of the studies' runs are combined again, by the code of `tailmask
fit`, each time from other methods. Values are in %, means over the seeds. This shows which methods the
default of `fit` needs.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tailmask.calibration import apply_prior_shift
from tailmask.learners.ensemble import fit_ensemble
from tailmask.learners.folds import Folds
from tailmask.learners.trained_model import is_model
from tailmask.metrics import average_precision
from tailmask.runs import Run
from tailmask.runs.model_file import read_description

MASKED = "plm:adapt=prevalence"
DEFAULT = ("linear", "trees", "boost", "bce")
ENSEMBLES = {
    "`linear`, `trees`, `boost`, `bce`": DEFAULT,
    f"and `{MASKED}`": (*DEFAULT, MASKED),
    f"with `{MASKED}` in place of `bce`": (*DEFAULT[:3], MASKED),
    **{f"without `{name}`": tuple(n for n in DEFAULT if n != name) for name in reversed(DEFAULT)},
}


def outputs(run: Run) -> Tensor:
    """The logits of the validation rows under the data's own prevalence."""
    logits = torch.from_numpy(run.predictions()["validation_logits"])
    if is_model(run.folder / "model"):
        return logits
    shift = read_description(run.folder / "model.safetensors").prior_shift
    return logits if shift is None else apply_prior_shift(logits, torch.tensor(shift))


def scores(study: Path) -> dict[str, float]:
    """The mean mAP over the seeds, by the name of the ensemble."""
    runs, ensembles = ([Run(each) for each in (study / name).iterdir()] for name in ("runs", "ensembles"))
    found: dict[str, list[float]] = {name: [] for name in ENSEMBLES}
    for combined in ensembles:
        seed = combined.config["seed"]
        arms = {run.config["name"]: outputs(run) for run in runs if run.config["seed"] == seed}
        arrays = combined.predictions()
        targets, number = arrays["validation_targets"], arrays["validation_folds"]
        folds = Folds(number, int(number.max()) + 1)
        for name, methods in ENSEMBLES.items():
            logits = fit_ensemble([arms[m] for m in methods], targets, folds, seed=seed).logits
            found[name].append(float(average_precision(logits, torch.from_numpy(targets)).nanmean()))
    return {name: float(np.mean(values)) for name, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("studies", type=Path, nargs="+", help="folders of `tailmask compare`")
    studies = parser.parse_args().studies
    columns = [scores(study) for study in studies]
    print(f"| ensemble of | {' | '.join(study.name for study in studies)} |")
    print(f"|---|{'---:|' * len(studies)}")
    for name in ENSEMBLES:
        print(f"| {name} | {' | '.join(f'{100 * column[name]:.1f}' for column in columns)} |")


if __name__ == "__main__":
    main()
