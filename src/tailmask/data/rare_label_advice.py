"""Advice for rare labels, by their number of positives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tailmask.data.class_statistics import Statistics

__all__ = ["advice"]

# With fewer positives, a label is hardly learned, or its scores and thresholds are uncertain.
LEAST_TO_LEARN, LEAST_TO_JUDGE = 20, 10


def advice(statistics: Mapping[str, Statistics]) -> Iterator[str]:
    """Sentences about the label with the fewest positives: whether it can be learned and scored reliably.

    >>> train = Statistics(("spam", "fraud"), 1000, (300, 12), (700, 988), 690)
    >>> test = Statistics(("spam", "fraud"), 100, (30, 2), (70, 98), 69)
    >>> for sentence in advice({"train": train, "test": test}):
    ...     print(sentence)
    the rarest label is fraud: 12 positives in train, 2 in test
    12 positives are few to learn from: more rows with fraud help more than any method
    test has fewer than 10 positives for 1 of 2 labels: the scores of such labels are uncertain
    """
    train = statistics["train"]
    rarest = min(range(len(train.classes)), key=lambda c: train.positives[c])
    number, name = train.positives[rarest], train.classes[rarest]
    others = [f"{split.positives[rarest]} in {part}" for part, split in statistics.items() if part != "train"]
    yield ", ".join([f"the rarest label is {name}: {number} positives in train", *others])
    if number < LEAST_TO_LEARN:
        yield f"{number} positives are few to learn from: more rows with {name} help more than any method"
    for part, split in statistics.items():
        few = sum(positives < LEAST_TO_JUDGE for positives in split.positives)
        if part != "train" and few:
            what = "scores" if part == "test" else "thresholds"
            yield (
                f"{part} has fewer than {LEAST_TO_JUDGE} positives for {few} of {len(split.classes)} labels: "
                f"the {what} of such labels are uncertain"
            )
