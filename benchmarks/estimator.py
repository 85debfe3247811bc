"""Time of `PLMClassifier` and scikit-learn's `MLPClassifier` with the same layers, batches and epochs.

    TAILMASK_DATA=... python benchmarks/estimator.py [--rounds 7] [--epochs 10]

The data are Mulan's yeast and tmc2007-500 from `$TAILMASK_DATA/mulan`, as dense and as sparse rows. Both
estimators use float32 and one thread, and take turns in one process. Times are CPU times, best of the rounds.
Absolute times depend on the machine; only the ratio counts, and it must stay below 1.5.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

from tailmask.data import load
from tailmask.integrations.sklearn import PLMClassifier

CASES = (  # name, file, rows
    ("yeast", "yeast/yeast-train.arff", "dense"),
    ("tmc2007-500", "tmc2007/tmc2007-500-train.arff", "dense"),
    ("tmc2007-500", "tmc2007/tmc2007-500-train.arff", "sparse"),
)
HIDDEN, BATCH_SIZE = (100,), 200


def contestants(num_epochs: int) -> dict[str, Callable[[], Any]]:
    return {
        "MLPClassifier": lambda: MLPClassifier(
            HIDDEN,
            batch_size=BATCH_SIZE,
            max_iter=num_epochs,
            tol=0.0,
            n_iter_no_change=num_epochs,
            random_state=0,
        ),
        "PLMClassifier": lambda: PLMClassifier(
            hidden_layer_sizes=HIDDEN, batch_size=BATCH_SIZE, max_epochs=num_epochs, random_state=0
        ),
    }


def best_times(X: Any, Y: np.ndarray, *, num_epochs: int, rounds: int) -> dict[str, float]:
    """Seconds of the fastest fit of each. The first round loads libraries and does not count."""
    times: dict[str, list[float]] = {name: [] for name in contestants(num_epochs)}
    for _ in range(rounds + 1):
        for name, make in contestants(num_epochs).items():
            estimator = make()
            start = time.process_time()
            estimator.fit(X, Y)
            times[name].append(time.process_time() - start)
            assert estimator.n_iter_ == num_epochs
    return {name: min(values[1:]) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--epochs", type=int, default=10)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    torch.set_num_threads(1)
    folder = Path(os.environ["TAILMASK_DATA"]) / "mulan"
    print(f"{'data':<12} {'rows':<7} {'MLPClassifier':>14} {'PLMClassifier':>14} {'ratio':>6}")
    with threadpool_limits(1):
        for name, path, rows in CASES:
            split = load(folder / path).train
            X, Y = (
                part.toarray() if sparse.issparse(part) else part.numpy()
                for part in (split.inputs, split.targets)
            )
            X = sparse.csr_array(X) if rows == "sparse" else X
            times = best_times(X, Y.astype(np.int64), num_epochs=options.epochs, rounds=options.rounds)
            plain, masked = times.values()
            print(
                f"{name:<12} {rows:<7} {plain:>12.3f} s {masked:>12.3f} s {masked / plain:>6.2f}", flush=True
            )


if __name__ == "__main__":
    main()
