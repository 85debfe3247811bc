"""From raw digits to a report, then your own table: python examples/tutorial.py [--epochs 2] [--out DIR]

Needs MNIST: it is downloaded, or read from the folder in TAILMASK_DATA.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np

from tailmask import PartialLabelMasking
from tailmask.data import DataOptions, load
from tailmask.studies import Study, compare


def show(study: Study) -> None:
    means = {(row["method"], row["decision"], row["metric"]): row["mean"] for row in study.tables()["rows"]}
    print(f"   {'':39}    F1  tail   mAP")
    for method, decision in dict.fromkeys(key[:2] for key in means):
        scores = (100 * means[method, decision, metric] for metric in ("f1", "f1_tail", "ap"))
        print(f"   {f'{method} ({decision})':39}", *(f"{score:5.1f}" for score in scores))
    print(f"   the page to open: {study.report_path}")


def write_table(path: Path) -> None:
    draws = np.random.default_rng(0)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["height", "colour", "tag_tall", "tag_rare"])
        for height, colour in zip(
            draws.normal(170, 10, 800), draws.choice(["red", "blue"], 800), strict=True
        ):
            rare = height > 178 and colour == "red" and draws.random() < 0.4
            writer.writerow([round(height, 1), colour, int(height > 172), int(rare)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("tutorial"))
    options = parser.parse_args()

    digits = load("multimnist")
    print(f"1. {len(digits.train)} images of two overlaid digits, long-tailed; inputs {digits.shape}")
    negatives, positives = digits.train.counts()
    criterion = PartialLabelMasking.from_counts(positives, negatives)
    for name, number, ratio in zip(digits.classes, positives, criterion.class_ratio, strict=True):
        print(f"   digit {name}: {number:5d} images, positives to negatives {ratio:.3f}")

    print(f"2. bce and plm, one seed, {options.epochs} epochs: too little to conclude from, enough to see")
    folder = options.out / "multimnist"
    show(compare("multimnist", ["bce", "plm"], seeds=1, epochs=options.epochs, out=folder))

    write_table(options.out / "mine.csv")
    print("3. your own table: all columns called tag_… are labels, the others are inputs")
    table, tags = f"{options.out}/mine.csv", DataOptions(labels="tag_*")
    show(compare(table, seeds=2, epochs=20, options=tags, out=options.out / "mine"))


if __name__ == "__main__":
    main()
