"""Logistic regression and LightGBM, with and without Partial Label Masking.

    TAILMASK_DATA=... python benchmarks/plm_learners.py [--sets yeast emotions] [--seeds 1] [--test] [--json]

The data are Mulan's sets from `$TAILMASK_DATA/mulan`. The rows of training and validation are cut into five
folds. All outputs are out-of-fold. The metrics are macro-F1 at 0.5 of the outputs as trained, macro-F1 with
thresholds from the other folds, and mAP. `--test` adds the same metrics for the test rows, with the mean of
the fold models and thresholds from all out-of-fold outputs. All numbers are means over the seeds, in %.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse
import torch
from sklearn.metrics import average_precision_score
from torch import Tensor

from tailmask.data import load
from tailmask.data.dataset import Split
from tailmask.data.rows import Rows
from tailmask.learners.cross_fitting import CrossFitted, crossfit
from tailmask.learners.folds import make_folds
from tailmask.learners.matrix.boosters import BoostLearner
from tailmask.learners.matrix.linear import LinearLearner
from tailmask.learners.out_of_fold_decisions import decide
from tailmask.learners.protocol import Learner
from tailmask.masking.ratio_track import Masking
from tailmask.metrics.classwise import confusion

SETS = ("emotions", "yeast", "scene", "medical", "enron")
BY_DIVERGENCE = Masking(adapt="divergence")
ARMS: dict[str, Learner] = {
    "linear": LinearLearner(),
    "plm+linear": LinearLearner(masking=Masking()),
    "plm+linear, divergence": LinearLearner(masking=BY_DIVERGENCE),
    "boost": BoostLearner(),
    "plm+boost": BoostLearner(masking=Masking()),
    "plm+boost, divergence": BoostLearner(masking=BY_DIVERGENCE),
}


def read(name: str) -> tuple[Rows, Rows]:
    """The training rows and the test rows."""
    data = load(Path(os.environ["TAILMASK_DATA"]) / "mulan" / name / f"{name}-train.arff")
    assert data.validation is not None
    parts = [_rows(split) for split in (data.train, data.validation)]
    stack = scipy.sparse.vstack if scipy.sparse.issparse(parts[0].features) else np.concatenate
    targets = np.concatenate([part.labelled for part in parts])
    return Rows(stack([part.features for part in parts]), targets), _rows(data.test)


def _rows(split: Split) -> Rows:
    targets = split.targets.numpy() if isinstance(split.targets, Tensor) else split.targets.toarray()
    return Rows(split.inputs if scipy.sparse.issparse(split.inputs) else np.asarray(split.inputs), targets)


def score(learner: Learner, rows: Rows, test: Rows | None, *, seed: int) -> dict[str, float]:
    """The metrics of one learner."""
    folds = make_folds(rows, 5, seed=seed)
    with tempfile.TemporaryDirectory() as workdir:
        result = crossfit(learner, rows, folds, seed=seed, workdir=Path(workdir))
    decisions = decide(result.logits, rows.labelled, folds)
    shifts = _shifts(result)
    trained = result.logits - shifts[torch.from_numpy(folds.number)]
    found = {
        "out of fold F1 at 0.5": macro_f1(trained >= 0, rows),
        "out of fold F1": macro_f1(decisions.predicted, rows),
        "out of fold mAP": mean_precision(result.logits, rows),
    }
    if test is None:
        return found
    logits = result.fitted.logits(test)
    predicted = logits.double().sigmoid() >= decisions.thresholds
    return found | {
        "test F1 at 0.5": macro_f1(logits - shifts.mean(0) >= 0, test),
        "test F1": macro_f1(predicted, test),
        "test mAP": mean_precision(logits, test),
    }


def _shifts(result: CrossFitted) -> Tensor:
    """The shift of each fold model's outputs to the prevalence of the data, (folds, C)."""
    found = [part.prior_shift for part in result.fitted.parts]  # type: ignore[attr-defined]
    return torch.from_numpy(np.stack([np.zeros(result.logits.shape[1]) if s is None else s for s in found]))


def macro_f1(predicted: Tensor, rows: Rows) -> float:
    """Macro-F1 in %."""
    return 100 * float(confusion(predicted, torch.from_numpy(rows.labelled)).f1.mean())


def mean_precision(logits: Tensor, rows: Rows) -> float:
    """Mean average precision of the classes that have positives, in %."""
    pairs = [(rows.labelled[:, c] == 1, logits[:, c].numpy()) for c in range(logits.shape[1])]
    return 100 * float(np.mean([average_precision_score(*pair) for pair in pairs if pair[0].any()]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--arms", nargs="*", default=list(ARMS), choices=list(ARMS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--test", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    for name in options.sets:
        rows, test = read(name)
        for arm in options.arms:
            runs = [
                score(ARMS[arm], rows, test if options.test else None, seed=seed)
                for seed in range(options.seeds)
            ]
            means = {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}
            if options.json:
                print(json.dumps({"set": name, "arm": arm, **means}), flush=True)
            else:
                print(
                    f"{name:9} {arm:24}", *(f"{k} {v:5.1f}" for k, v in means.items()), sep="  ", flush=True
                )


if __name__ == "__main__":
    main()
