"""One page over all comparisons in `compare/`: python results/overview.py

Writes README.md beside this file. Every number is read from the JSON that `tailmask compare` left.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tailmask.analysis.comparison import Comparison, Decision

HERE = Path(__file__).parent
METHODS = ("bce", "focal", "asl", "db", "bce+cb", "bce+undersample", "plm", "plm+focal", "plm+asl")
METHODS += ("plm:expected=true", "plm:adapt=rate")
TUNED: Decision = "tuned thresholds"

# Title, measure, decision
TABLES: tuple[tuple[str, str, Decision], ...] = (
    ("F1 over all classes, threshold 0.5", "f1", "default"),
    ("F1 over the rarest third of the classes, threshold 0.5", "f1_tail", "default"),
    ("F1 over all classes, thresholds tuned on validation", "f1", TUNED),
    ("F1 over the rarest third, thresholds tuned on validation", "f1_tail", TUNED),
    ("Mean average precision, which no threshold changes", "ap", "default"),
    ("nDCG of a sample's first three labels", "ndcg_at_3", "default"),
    ("Ranking loss; less is better", "ranking_loss", "default"),
)


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
    ]
    for title, metric, decision in TABLES:
        parts += [f"## {title}", "\n".join(_lines(found, metric, decision))]
    return "\n\n".join(parts) + "\n"


def _lines(found: dict[str, Comparison], metric: str, decision: Decision) -> Iterator[str]:
    yield _line("method", *(f"[{name}](compare/{name}.md)" for name in found))
    yield _line("---", *("---:" for _ in found))
    for method in METHODS:
        yield _line(f"`{method}`", *(_cell(each, method, metric, decision) for each in found.values()))


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


if __name__ == "__main__":
    (HERE / "README.md").write_text(render(comparisons(HERE / "compare")), encoding="utf-8")
