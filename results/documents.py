"""The parts of the documents that tell what was measured.

They stand between `<!-- measured: WORD -->` and `<!-- end -->`; overview.py fills them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from published import (
    HERE,
    PLAIN,
    SHIFTED,
    TUNED,
    changed_fields,
    comparisons,
    measured,
    reproduced,
    result,
    table_line,
)

from tailmask.comparison.comparison_result import Comparison
from tailmask.comparison.run_outputs import Decision
from tailmask.comparison.verdict_sentences import points
from tailmask.methods import RECOMMENDED

PATHS = tuple(
    HERE.parent / name
    for name in (
        *("README.md", "docs/methods.md", "docs/thresholds.md"),
        *("docs/evidence/tables.md", "docs/evidence/multimnist.md", "docs/evidence/cifar.md"),
    )
)

# Label, measure, decision, and the decision of `bce` that it is held against
Measure = tuple[str, str, Decision, Decision]
MEASURES: tuple[Measure, ...] = (
    ("F1", "f1", PLAIN, PLAIN),
    ("F1, rarest third", "f1_tail", PLAIN, PLAIN),
    ("F1, thresholds tuned for both", "f1", TUNED, TUNED),
    ("F1, rarest third, thresholds tuned for both", "f1_tail", TUNED, TUNED),
    ("nDCG@3", "ndcg_at_3", PLAIN, PLAIN),
)
MEAN_PRECISION: Measure = ("mAP", "ap", PLAIN, PLAIN)
EXACT_MATCH: Measure = ("exact match", "exact_match", PLAIN, PLAIN)
SHIFTED_RANKING: Measure = ("nDCG@3, prior shift", "ndcg_at_3", SHIFTED, PLAIN)
ALL_MEASURES: tuple[Measure, ...] = (
    *MEASURES[:4],
    ("F1, thresholds tuned for `bce` only", "f1", PLAIN, TUNED),
    *(MEASURES[4], SHIFTED_RANKING),
    MEAN_PRECISION,
    EXACT_MATCH,
)

# The form of the asymmetric loss in `compare` and `held-out`
ATTACHED = "asl:detach=false"

# The methods that show what a word does, if that is not only the word itself
CARDS: dict[str, tuple[str, ...]] = {
    "plm": ("plm", "plm:expected=true", "plm:adapt=prevalence"),
    "bce": ("bce:pos_power=1",),
    "focal": ("focal", "plm+focal"),
    "asl": (ATTACHED, f"plm+{ATTACHED}", f"{RECOMMENDED}+{ATTACHED}"),
    "cb": ("bce+cb",),
    "undersample": ("bce+undersample", "bce+classaware"),
}


def filled(document: str, found: dict[str, Comparison]) -> str:
    """A document with its measured parts as they are now."""

    def part(match: re.Match[str]) -> str:
        return f"{match[1]}\n" + "\n".join(_block(match[2], found)) + "\n<!-- end -->"

    return re.sub(r"(<!-- measured: ([\w ]+) -->).*?<!-- end -->", part, document, flags=re.DOTALL)


def _block(word: str, found: dict[str, Comparison]) -> Iterator[str]:
    match word:
        case "in short":
            return _in_short(found)
        case "learners":
            return _learners()
        case "multimnist":
            return _multimnist()
        case "calibration":
            return _calibration(found)
        case "cifar":
            return _cifar("cifar")
        case "cifar full":
            return _cifar("cifar-200-epochs")
        case "ldam":
            return _single_label()
        case "recommended":
            return _differences(found, (RECOMMENDED,), ALL_MEASURES)
        case "held out":
            return _differences(comparisons(HERE / "held-out"), (RECOMMENDED,), ALL_MEASURES)
        case "halfway":
            return _halfway()
        case "asl detached":
            return _asl_forms()
        case "plm":
            return _differences(found, CARDS[word], (*MEASURES, SHIFTED_RANKING))
        case _:
            return _differences(found, CARDS.get(word, (word,)), MEASURES)


def _in_short(found: dict[str, Comparison]) -> Iterator[str]:
    """F1 over all classes and over the rarest third, a line for each set; of the paper's, its own beside."""
    rows = [("bce", PLAIN), ("bce", TUNED), (ATTACHED, PLAIN), ("plm", PLAIN), (RECOMMENDED, PLAIN)]
    yield table_line("F1 over all classes, over the rarest third", *(f"`{m}`{_with(d)}" for m, d in rows))
    yield table_line("---", *("---" for _ in rows))
    for name, comparison in found.items():
        cells = ([_mean(comparison, *row, metric) for metric in ("f1", "f1_tail")] for row in rows)
        yield table_line(name, *map(", ".join, cells))
    cells_of = reproduced("multimnist", "table1", ("F1", "F1 K=3"))
    for label, key in (("MultiMNIST, 90 epochs; 3 rarest", "mean"), ("MultiMNIST in the paper", "paper")):
        texts = (_texts(cells_of.get(m, []), key) if d == PLAIN else [] for m, d in rows)
        yield table_line(label, *map(", ".join, texts))


def _learners() -> Iterator[str]:
    """F1 with tuned thresholds and mAP of each learner, a line for each set."""
    rows = [
        ("bce", PLAIN),
        *((m, TUNED) for m in ("bce", RECOMMENDED, "linear", "trees", "boost", "ensemble")),
    ]
    names = ["`bce` at 0.5", *(f"`{method}`" for method, _ in rows[1:])]
    yield table_line("F1 / mAP in %, tuned thresholds", *names)
    yield table_line("---", *("---" for _ in rows))
    for name, comparison in comparisons(HERE / "learners").items():
        seeds = max(len(method.seeds) for method in comparison.methods)
        cells = (
            f"{_mean(comparison, method, decision, 'f1')} / {_mean(comparison, method, PLAIN, 'ap')}"
            for method, decision in rows
        )
        yield table_line(f"{name}, {seeds} seed{'s' if seeds > 1 else ''}", *cells)


def _calibration(found: dict[str, Comparison]) -> Iterator[str]:
    """Calibration error, a line for each set."""
    rows = [
        *(("bce", PLAIN), ("plm", PLAIN), ("plm", SHIFTED)),
        *((RECOMMENDED, PLAIN), (RECOMMENDED, SHIFTED), (ATTACHED, PLAIN)),
    ]
    yield table_line("calibration error", *(f"`{m}`{_with(d)}" for m, d in rows))
    yield table_line("---", *("---:" for _ in rows))
    for name, comparison in found.items():
        yield table_line(name, *(_mean(comparison, *row, "ece") for row in rows))


def _cifar(folder: str) -> Iterator[str]:
    """Error rates on long-tailed CIFAR with the paper's network, measured and in the paper, by method."""
    tables = [name for name in ("table3", "table4") if (HERE / folder / f"{name}.json").is_file()]
    if not tables:
        yield "Not measured yet."
        return
    columns = {
        ("table3", "ρ = 100, Error"): "CIFAR-10-LT",
        ("table3", "ρ = 100, Error K=5"): "its 5 rarest",
        ("table4", "ρ = 100, Error"): "CIFAR-100-LT",
        ("table4", "ρ = 100, Error K=50"): "its 50 rarest",
    }
    yield table_line("error, measured (in the paper)", *columns.values())
    yield table_line("---", *("---:" for _ in columns))
    found = [reproduced(folder, table, (column,)) if table in tables else {} for table, column in columns]
    for method in dict.fromkeys(method for rows in found for method in rows):
        cells = [rows[method][0] if method in rows else {"mean": None, "paper": None} for rows in found]
        if any(cell["mean"] is not None for cell in cells):
            yield table_line(f"`{method}`", *map(_beside, cells))


def _beside(cell: dict[str, Any]) -> str:
    """What was measured, with the paper's number in brackets."""
    if cell["mean"] is None:
        return ""
    return f"{cell['mean']:.1f}" + ("" if cell["paper"] is None else f" ({cell['paper']:.1f})")


def _single_label() -> Iterator[str]:
    """Error rates on long-tailed CIFAR-10, a line for each method."""
    comparison = Comparison.from_json(result("cifar10-lt-cnn", "compare")["comparison"])
    yield table_line("error", "mean over classes", "rarest third", "most frequent third")
    yield table_line("---", "---:", "---:", "---:")
    for method in comparison.methods:
        metrics = ("error_balanced", "error_tail", "error_head")
        yield table_line(
            f"`{method.name}`", *(_mean(comparison, method.name, PLAIN, each) for each in metrics)
        )


def _halfway() -> Iterator[str]:
    """What it changes that ratios first move halfway through training, a line for each set."""
    methods = (f"{RECOMMENDED},warmup=1", RECOMMENDED)
    measures = (*MEASURES, MEAN_PRECISION)
    yield table_line("over `bce`: at once, from halfway", "epochs", *(label for label, *_ in measures))
    yield table_line("---", *("---:" for _ in range(1 + len(measures))))
    for name, comparison in comparisons(HERE / "halfway").items():
        epochs = result("halfway", name)["settings"][0]["trained_epochs"]
        cells = (
            ", ".join(_difference(comparison, method, *how) for method in methods)
            for how in (each[1:] for each in measures)
        )
        yield table_line(name, str(epochs), *cells)


def _asl_forms() -> Iterator[str]:
    """Differences of both forms of the asymmetric loss to `bce`, a column for each set that has both."""
    detached = comparisons(HERE / "asl-detached")
    published = comparisons(HERE / "compare") | comparisons(HERE / "held-out")
    yield table_line("points over `bce`", *detached)
    yield table_line("---", *("---:" for _ in detached))
    for label, *how in (*MEASURES, MEAN_PRECISION, EXACT_MATCH):
        for method, found in (("asl", detached), (ATTACHED, published)):
            cells = (_difference(found[name], method, *how) for name in detached)
            yield table_line(f"`{method}`: {label}", *cells)


def _with(decision: Decision) -> str:
    return "" if decision == PLAIN else f", {decision}"


def _multimnist() -> Iterator[str]:
    """The paper's Table 1 for plain cross-entropy and PLM, a line for each setting that was measured."""
    columns = ("F1", "F1 K=3", "Recall K=3", "Exact match")
    yield table_line(
        *("", "seeds", "F1", "F1, 3 rarest", "recall, 3 rarest", "exact match"),
        "ratio of digit 0, of 9, at the end",
    )
    yield table_line("---", *("---:" for _ in range(6)))
    folders = sorted(path.parent.name for path in HERE.glob("multimnist*/table1.json"))
    for method in ("bce", "plm", RECOMMENDED):
        for place, key in (("multimnist", "paper"), *((folder, "mean") for folder in folders)):
            cells = reproduced(place, "table1", columns).get(method, [])
            if any(cell[key] is not None for cell in cells):
                where, seeds = ("in the paper", "") if key == "paper" else (_setting(place), cells[0]["n"])
                ratios = _end_ratios(place, key) if method == "plm" else ""
                yield table_line(f"`{method}`, {where}", str(seeds), *_texts(cells, key), ratios)


def _texts(cells: list[dict[str, Any]], key: str) -> list[str]:
    return ["" if cell[key] is None else f"{cell[key]:.2f}" for cell in cells]


def _setting(folder: str) -> str:
    setting = result(folder, "table1")["settings"][0]
    parts = [f"{setting['trained_epochs']} epochs", *changed_fields(setting)]
    if setting["options"].get("fresh_shifts"):
        parts.append("new shifts in each epoch")
    return ", ".join(parts)


def _end_ratios(folder: str, key: str) -> str:
    epochs = result(folder, "figure2")["settings"][0]["trained_epochs"]
    ratio_of = reproduced(folder, "figure2", (f"Epoch {epochs}",))
    return ", ".join(f"{ratio_of[digit][0][key]:.3f}" for digit in "09")


def _differences(
    found: dict[str, Comparison], methods: tuple[str, ...], measures: tuple[Measure, ...]
) -> Iterator[str]:
    """Differences to `bce`, a column for each set."""
    alone = len(methods) == 1
    yield table_line(f"`{methods[0]}` over `bce`" if alone else "points over `bce`", *found)
    yield table_line("---", *("---:" for _ in found))
    for method in measured(found, methods):
        for label, metric, decision, reference in measures:
            cells = (_difference(each, method, metric, decision, reference) for each in found.values())
            yield table_line(label if alone else f"`{method}`: {label}", *cells)


def _mean(comparison: Comparison, method: str, decision: Decision, metric: str) -> str:
    row = comparison.row(method, metric, decision)
    return "" if row is None else f"{100 * row.mean:.1f}"


def _difference(
    comparison: Comparison, method: str, metric: str, decision: Decision, reference: Decision
) -> str:
    difference = comparison.difference(method, metric, decision=decision, reference=reference)
    if difference is None:
        return ""
    text = points(difference.mean)
    return f"**{text}**" if difference.effect else text
