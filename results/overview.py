"""What the comparisons in `compare/` found, wherever it is told: python results/overview.py

Writes README.md beside this file, and in the documents the parts between `<!-- measured: WORD -->` and
`<!-- end -->`. Every number is read from the JSON that `tailmask compare` left.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tailmask.analysis.comparison import Comparison
from tailmask.analysis.outputs import Decision
from tailmask.analysis.verdict import points
from tailmask.method import RECOMMENDED

HERE = Path(__file__).parent
DOCUMENTS = tuple(
    HERE.parent / name
    for name in ("README.md", "docs/methods.md", "docs/thresholds.md", "docs/when-plm-helps.md")
)
METHODS = (
    *("bce", "bce:pos_power=1", "focal", "asl", "hill", "db", "bce+cb", "bce+undersample", "bce+classaware"),
    *("plm", "plm+focal", "plm+asl", "plm:expected=true", "plm:adapt=rate", "plm:adapt=rate+asl"),
)
PLAIN: Decision = "default"
TUNED: Decision = "tuned thresholds"
SHIFTED: Decision = "prior shift"

# Title, measure, decision
TABLES: tuple[tuple[str, str, Decision], ...] = (
    ("F1 over all classes, threshold 0.5", "f1", PLAIN),
    ("F1 over the rarest third of the classes, threshold 0.5", "f1_tail", PLAIN),
    ("F1 over all classes, thresholds tuned on validation", "f1", TUNED),
    ("F1 over the rarest third, thresholds tuned on validation", "f1_tail", TUNED),
    ("Mean average precision, which no threshold changes", "ap", PLAIN),
    ("nDCG of a sample's first three labels", "ndcg_at_3", PLAIN),
    ("Ranking loss; less is better", "ranking_loss", PLAIN),
)


# Label, measure, decision, and the decision of `bce` that it is held against
Measure = tuple[str, str, Decision, Decision]
MEASURES: tuple[Measure, ...] = (
    ("F1", "f1", PLAIN, PLAIN),
    ("F1, rarest third", "f1_tail", PLAIN, PLAIN),
    ("F1, thresholds tuned for both", "f1", TUNED, TUNED),
    ("nDCG@3", "ndcg_at_3", PLAIN, PLAIN),
)
RANKING: tuple[Measure, ...] = (
    ("nDCG@3, prior shift", "ndcg_at_3", SHIFTED, PLAIN),
    ("mAP", "ap", PLAIN, PLAIN),
    ("exact match", "exact_match", PLAIN, PLAIN),
)

# Of the card of a word, the methods that show what it does
CARDS: dict[str, tuple[str, ...]] = {
    "plm": ("plm", "plm:expected=true", "plm:adapt=rate"),
    "bce": ("bce:pos_power=1",),
    "focal": ("focal", "plm+focal"),
    "asl": ("asl", "plm+asl", "plm:adapt=rate+asl"),
    "hill": ("hill",),
    "db": ("db",),
    "cb": ("bce+cb",),
    "undersample": ("bce+undersample", "bce+classaware"),
}


def comparisons(folder: Path) -> dict[str, Comparison]:
    """The comparisons in a folder, by the names of their files."""
    return {
        path.stem: Comparison.from_json(json.loads(path.read_text(encoding="utf-8"))["comparison"])
        for path in sorted(folder.glob("*.json"))
    }


def render(found: dict[str, Comparison]) -> str:
    """The page."""
    parts = [
        "<!-- made by results/overview.py -->",
        "# Measured here",
        "In %, mean ± deviation over seeds; every set links to its full table with paired intervals, "
        "command, commit, versions and machine. Bold: the 95 % interval of the paired difference to `bce`, "
        "decided in the same way, leaves out zero; + where the method is ahead, − where it is behind.",
        "## The sets",
        "\n".join(_sets(found)),
        "A class without test samples counts as F1 0, whatever the method.",
        "## Against the paper",
        "\n".join(_targets()),
    ]
    for title, metric, decision in TABLES:
        parts += [f"## {title}", "\n".join(_lines(found, metric, decision))]
    return "\n\n".join(parts) + "\n"


def _sets(found: dict[str, Comparison]) -> Iterator[str]:
    yield _line(
        "set",
        "seeds",
        "classes",
        "test samples",
        "rarest, most frequent class",
        "classes without test samples",
    )
    yield _line("---", *("---:" for _ in range(5)))
    for name, each in found.items():
        seeds = max(len(method.seeds) for method in each.methods)
        ends = f"{min(each.train_positives)}, {max(each.train_positives)}"
        absent = sum(number == 0 for number in each.test_positives)
        yield _line(
            f"[{name}](compare/{name}.md)", *map(str, (seeds, len(each.classes), each.num_test, ends, absent))
        )


def _targets() -> Iterator[str]:
    """A link to each table and figure of the paper that was made, and to all measures of the same runs."""
    for path in sorted(HERE.glob("*/*.json")):
        if path.parent.name != "compare":
            title = _result(path.parent.name, path.stem).get("title", "All measures")
            yield f"- [{title}]({path.relative_to(HERE).with_suffix('.md')}), in `{path.parent.name}`"


def _lines(found: dict[str, Comparison], metric: str, decision: Decision) -> Iterator[str]:
    yield _line("method", *(f"[{name}](compare/{name}.md)" for name in found))
    yield _line("---", *("---:" for _ in found))
    for method in _measured(found, METHODS):
        yield _line(f"`{method}`", *(_cell(each, method, metric, decision) for each in found.values()))


def _measured(found: dict[str, Comparison], methods: tuple[str, ...]) -> list[str]:
    return [method for method in methods if any(each.row(method, "f1") for each in found.values())]


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(comparison: Comparison, method: str, metric: str, decision: Decision) -> str:
    row = comparison.row(method, metric, decision)
    if row is None:
        return ""
    text = f"{100 * row.mean:.1f} ± {100 * row.std:.1f}"
    difference = comparison.difference(method, metric, decision=decision, reference=decision)
    if difference is None or difference.effect == 0:
        return text
    return f"**{text}** {'+' if difference.effect > 0 else '−'}"


def filled(document: str, found: dict[str, Comparison]) -> str:
    """A document with its measured parts as they are now."""

    def part(match: re.Match[str]) -> str:
        return f"{match[1]}\n" + "\n".join(_block(match[2], found)) + "\n<!-- end -->"

    return re.sub(r"(<!-- measured: ([\w ]+) -->).*?<!-- end -->", part, document, flags=re.DOTALL)


def _block(word: str, found: dict[str, Comparison]) -> Iterator[str]:
    match word:
        case "in short":
            return _in_short(found)
        case "multimnist":
            return _multimnist()
        case "calibration":
            return _calibration(found)
        case "ldam":
            return _single_label()
        case "recommended":
            return _differences(found, (RECOMMENDED,), (*MEASURES, *RANKING))
        case _:
            return _differences(found, CARDS[word], MEASURES)


def _in_short(found: dict[str, Comparison]) -> Iterator[str]:
    """F1 over all classes and over the rarest third, a line for each set; of the paper's, its own beside."""
    rows = [("bce", PLAIN), ("bce", TUNED), ("asl", PLAIN), ("plm", PLAIN), (RECOMMENDED, PLAIN)]
    yield _line("F1 over all classes, over the rarest third", *(f"`{m}`{_with(d)}" for m, d in rows))
    yield _line("---", *("---" for _ in rows))
    for name, comparison in found.items():
        cells = ([_mean(comparison, *row, metric) for metric in ("f1", "f1_tail")] for row in rows)
        yield _line(name, *map(", ".join, cells))
    cells_of = _reproduced("multimnist", "table1", ("F1", "F1 K=3"))
    for label, key in (("MultiMNIST, 90 epochs; 3 rarest", "mean"), ("MultiMNIST in the paper", "paper")):
        texts = (_texts(cells_of.get(m, []), key) if d == PLAIN else [] for m, d in rows)
        yield _line(label, *map(", ".join, texts))


def _calibration(found: dict[str, Comparison]) -> Iterator[str]:
    """Calibration error, a line for each set."""
    rows = [
        *(("bce", PLAIN), ("plm", PLAIN), ("plm", SHIFTED)),
        *((RECOMMENDED, PLAIN), (RECOMMENDED, SHIFTED), ("asl", PLAIN)),
    ]
    yield _line("calibration error", *(f"`{m}`{_with(d)}" for m, d in rows))
    yield _line("---", *("---:" for _ in rows))
    for name, comparison in found.items():
        yield _line(name, *(_mean(comparison, *row, "ece") for row in rows))


def _single_label() -> Iterator[str]:
    """Error rates on long-tailed CIFAR-10, a line for each method."""
    comparison = Comparison.from_json(_result("cifar10-lt-cnn", "compare")["comparison"])
    yield _line("error", "mean over classes", "rarest third", "most frequent third")
    yield _line("---", "---:", "---:", "---:")
    for method in comparison.methods:
        metrics = ("error_balanced", "error_tail", "error_head")
        yield _line(f"`{method.name}`", *(_mean(comparison, method.name, PLAIN, each) for each in metrics))


def _with(decision: Decision) -> str:
    return "" if decision == PLAIN else f", {decision}"


def _multimnist() -> Iterator[str]:
    """The paper's Table 1 for plain cross-entropy and PLM, a line for each setting that was measured."""
    columns = ("F1", "F1 K=3", "Recall K=3", "Exact match")
    yield _line(
        *("", "seeds", "F1", "F1, 3 rarest", "recall, 3 rarest", "exact match"),
        "ratio of digit 0, of 9, at the end",
    )
    yield _line("---", *("---:" for _ in range(6)))
    folders = sorted(path.parent.name for path in HERE.glob("multimnist*/table1.json"))
    for method in ("bce", "plm", RECOMMENDED):
        for place, key in (("multimnist", "paper"), *((folder, "mean") for folder in folders)):
            cells = _reproduced(place, "table1", columns).get(method, [])
            if any(cell[key] is not None for cell in cells):
                where, seeds = ("in the paper", "") if key == "paper" else (_setting(place), cells[0]["n"])
                ratios = _end_ratios(place, key) if method == "plm" else ""
                yield _line(f"`{method}`, {where}", str(seeds), *_texts(cells, key), ratios)


def _reproduced(folder: str, target: str, columns: tuple[str, ...]) -> dict[str, list[dict[str, Any]]]:
    """Some columns of a table that `tailmask reproduce` left, by row."""
    table = _result(folder, target)["tables"][0]
    places = [table["columns"].index(name) for name in columns]
    return {row["label"]: [row["cells"][place] for place in places] for row in table["rows"]}


@functools.cache
def _result(folder: str, target: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((HERE / folder / f"{target}.json").read_text(encoding="utf-8"))
    return result


def _texts(cells: list[dict[str, Any]], key: str) -> list[str]:
    return ["" if cell[key] is None else f"{cell[key]:.2f}" for cell in cells]


def _setting(folder: str) -> str:
    setting = _result(folder, "table1")["settings"][0]
    epochs = f"{setting['trained_epochs']} epochs"
    return f"{epochs}, shifts drawn anew" if setting["options"].get("fresh_shifts") else epochs


def _end_ratios(folder: str, key: str) -> str:
    epochs = _result(folder, "figure2")["settings"][0]["trained_epochs"]
    ratio_of = _reproduced(folder, "figure2", (f"Epoch {epochs}",))
    return ", ".join(f"{ratio_of[digit][0][key]:.3f}" for digit in "09")


def _differences(
    found: dict[str, Comparison], methods: tuple[str, ...], measures: tuple[Measure, ...]
) -> Iterator[str]:
    """Differences to `bce`, a column for each set."""
    alone = len(methods) == 1
    yield _line(f"`{methods[0]}` over `bce`" if alone else "points over `bce`", *found)
    yield _line("---", *("---:" for _ in found))
    for method in _measured(found, methods):
        for label, metric, decision, reference in measures:
            cells = (_difference(each, method, metric, decision, reference) for each in found.values())
            yield _line(label if alone else f"`{method}`: {label}", *cells)


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


if __name__ == "__main__":
    measured = comparisons(HERE / "compare")
    (HERE / "README.md").write_text(render(measured), encoding="utf-8")
    for path in DOCUMENTS:
        path.write_text(filled(path.read_text(encoding="utf-8"), measured), encoding="utf-8")
