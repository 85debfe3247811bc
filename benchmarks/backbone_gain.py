"""The gain of a pretrained text model on GoEmotions: a linear model on TF-IDF, on features, and on both.

    python benchmarks/backbone_gain.py GOEMOTIONS_FOLDER hf:MODEL_FOLDER --rows 6000

The folder has the published train.tsv, dev.tsv and test.tsv. All three get the same rows. The regularisation
is chosen on training rows, and thresholds are fitted on dev.tsv.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tailmask.calibration import fit_thresholds
from tailmask.data import DataOptions, load
from tailmask.data.public.goemotions import EMOTIONS
from tailmask.data.rows import RawData
from tailmask.learners.matrix.linear import LinearLearner
from tailmask.learners.protocol import NEVER, silent
from tailmask.metrics import evaluate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("model")
    parser.add_argument("--rows", type=int, default=6000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        train = Path(folder) / "train.tsv"
        write_sample(arguments.folder / "train.tsv", train, arguments.rows)
        options = DataOptions(
            no_header=True,
            text="0",
            features="0",
            label_column="1",
            classes=EMOTIONS,
            validation_file=arguments.folder / "dev.tsv",
            test_file=arguments.folder / "test.tsv",
        )
        words = load(str(train), options).raw
        both = load(str(train), replace(options, backbone=arguments.model)).raw
        alone = replace(both, development=replace(both.development, texts=None))
        for name, raw in (("TF-IDF", words), ("features", alone), ("both", both)):
            print(f"{name}: {scores(raw, *outputs(raw, Path(folder)))}", flush=True)


def write_sample(source: Path, target: Path, number: int) -> None:
    """Write some lines of a file, drawn with a fixed seed, in their original order."""
    lines = source.read_text(encoding="utf-8").splitlines(keepends=True)
    chosen = np.sort(np.random.default_rng(0).permutation(len(lines))[:number])
    target.write_text("".join(lines[index] for index in chosen), encoding="utf-8")


def outputs(raw: RawData, workdir: Path) -> tuple[Tensor, Tensor]:
    """Logits of the validation rows and of the test rows."""
    rows, number = raw.development, raw.num_train
    train, validation = rows.take(np.arange(number)), rows.take(np.arange(number, len(rows)))
    fitted = LinearLearner().fit(train, seed=0, workdir=workdir, deadline=NEVER, progress=silent)
    return fitted.logits(validation), fitted.logits(raw.test)


def scores(raw: RawData, validation: Tensor, test: Tensor) -> str:
    """Macro-F1 and mean average precision on the test rows, with thresholds from the validation rows."""
    targets, number = torch.from_numpy(raw.development.labelled), raw.num_train
    report = evaluate(
        test,
        torch.from_numpy(raw.test.labelled),
        train_positives=(targets[:number] == 1).sum(dim=0),
        thresholds=fit_thresholds(validation.sigmoid(), targets[number:]),
    )
    return f"macro-F1 {100 * report.summary['f1']:.1f}, mAP {100 * report.summary['ap']:.1f}"


if __name__ == "__main__":
    main()
