"""Write the results of the comparisons in `compare/` to all pages that have them: python results/overview.py

Writes README.md and gains.svg beside this file, and the measured parts of the documents. Every number is
read from the JSON that `tailmask compare` and `tailmask reproduce` left.
"""

from __future__ import annotations

from collections.abc import Iterator

import documents
import picture
from published import HERE, PLAIN, SHIFTED, TUNED, changed_fields, comparisons, measured, result, table_line

from tailmask.comparison.comparison_result import Comparison
from tailmask.comparison.run_outputs import Decision
from tailmask.report.charts.svg_output import save_svg

METHODS = (
    *("bce", "bce:pos_power=1", "focal", "asl:detach=false", "hill", "db"),
    *("bce+cb", "bce+undersample", "bce+classaware"),
    *("plm", "plm+focal", "plm+asl:detach=false"),
    *("plm:expected=true", "plm:adapt=prevalence", "plm:adapt=prevalence+asl:detach=false"),
)

# Title, measure, decision
TABLES: tuple[tuple[str, str, Decision], ...] = (
    ("F1 over all classes, threshold 0.5", "f1", PLAIN),
    ("F1 over the rarest third of the classes, threshold 0.5", "f1_tail", PLAIN),
    ("F1 over all classes, thresholds tuned on validation", "f1", TUNED),
    ("F1 over the rarest third, thresholds tuned on validation", "f1_tail", TUNED),
    ("Mean average precision, which no threshold changes", "ap", PLAIN),
    ("nDCG of a sample's first three labels", "ndcg_at_3", PLAIN),
    ("nDCG of a sample's first three labels, with the prior shift", "ndcg_at_3", SHIFTED),
    ("Ranking loss; less is better", "ranking_loss", PLAIN),
    ("Ranking loss, with the prior shift; less is better", "ranking_loss", SHIFTED),
)


def render(found: dict[str, Comparison]) -> str:
    """The page."""
    parts = [
        "<!-- made by results/overview.py -->",
        "# Measured here",
        "In %, mean ± deviation over seeds; every set links to its full table with paired intervals, "
        "command, commit, versions and machine. Bold: the 95 % interval of the paired difference to `bce`, "
        "decided in the same way, leaves out zero; + if the method is ahead, − if it is behind. `bce` has no "
        "prior shift, so outputs with it are compared with the plain ones of `bce`.",
        "## The sets",
        "\n".join(_sets(found)),
        "A class without test samples has an F1 of 0 with every method.",
        "The asymmetric loss in these tables was trained with the gradient of its focusing weights. It was "
        "the only form then and was called `asl`; it is `asl:detach=false` now, and names and commands were "
        "changed to say so. The numbers are as measured. `asl` now leaves this gradient out, as its authors "
        "do; `asl-detached` has the results of this form.",
        "## The paper's tables and figures",
        "The paper's numbers are beside ours if it has them; it does not use `digits`. `cifar` is the record "
        "of a short training, 30 of the 200 epochs, in which `plm` at λ = 1 does harm; with all epochs it "
        "helps (`cifar-200-epochs`). `cifar-float32` has its `bce` in float32 instead of bf16. Table 2, "
        "figures 4 and 8 and the discussion's precision are missing: MSCOCO's images are not available here. "
        "`tests/paper/test_coco_recipe.py` runs their recipe on a small set of drawn images in "
        "COCO's format.",
        "\n".join(_links(of_the_paper=True)),
        "## Other comparisons",
        "Linear models, trees, boosting, networks and their ensemble, by default with folds (`learners`), "
        "two sets that had no part in choosing the recommended form (`held-out`), that form with "
        "ratios that move at once and from halfway on (`halfway`), long-tailed CIFAR with it "
        "(`cifar10-lt-prevalence`, `cifar100-lt-prevalence`) and with a network that is not the paper's "
        "(`cifar10-lt-cnn`, and with other λ `cifar10-lt-cnn-rates`), other numbers of bins (`bins`), the "
        "asymmetric loss as its authors train it (`asl-detached`), and all measures of MultiMNIST.",
        "\n".join(_links(of_the_paper=False)),
    ]
    for title, metric, decision in TABLES:
        parts += [f"## {title}", "\n".join(_lines(found, metric, decision))]
    return "\n\n".join(parts) + "\n"


def _sets(found: dict[str, Comparison]) -> Iterator[str]:
    heads = ("seeds", "epochs", "classes", "test samples", "rarest, most frequent class")
    yield table_line("set", *heads, "classes without test samples", "changed in the recipe")
    yield table_line("---", *("---:" for _ in range(6)), "---")
    for name, each in found.items():
        setting = result("compare", name)["settings"][0]
        numbers = (
            max(len(method.seeds) for method in each.methods),
            setting["trained_epochs"],
            len(each.classes),
            each.num_test,
            f"{min(each.train_positives)}, {max(each.train_positives)}",
            sum(number == 0 for number in each.test_positives),
        )
        fields = ", ".join(changed_fields(setting))
        yield table_line(f"[{name}](compare/{name}.md)", *map(str, numbers), fields)


def _links(*, of_the_paper: bool) -> Iterator[str]:
    """Links to what was made beside the sets above: tables and figures of the paper, or comparisons."""
    for path in sorted(HERE.glob("*/*.json")):
        found = result(path.parent.name, path.stem)
        if path.parent.name != "compare" and ("title" in found) == of_the_paper:
            title = found["title"] if of_the_paper else f"All measures on {found['comparison']['data']}"
            yield f"- [{title}]({path.relative_to(HERE).with_suffix('.md')}), in `{path.parent.name}`"


def _lines(found: dict[str, Comparison], metric: str, decision: Decision) -> Iterator[str]:
    yield table_line("method", *(f"[{name}](compare/{name}.md)" for name in found))
    yield table_line("---", *("---:" for _ in found))
    for method in measured(found, METHODS):
        cells = [_cell(each, method, metric, decision) for each in found.values()]
        if any(cells):
            yield table_line(f"`{method}`", *cells)


def _cell(comparison: Comparison, method: str, metric: str, decision: Decision) -> str:
    row = comparison.row(method, metric, decision)
    if row is None:
        return ""
    text = f"{100 * row.mean:.1f} ± {100 * row.std:.1f}"
    difference = comparison.like_for_like(method, metric, decision)
    if difference is None or difference.effect == 0:
        return text
    return f"**{text}** {'+' if difference.effect > 0 else '−'}"


if __name__ == "__main__":
    found = comparisons(HERE / "compare")
    (HERE / "README.md").write_text(render(found), encoding="utf-8")
    save_svg(picture.gains(found), HERE / "gains.svg")
    for path in documents.PATHS:
        path.write_text(documents.filled(path.read_text(encoding="utf-8"), found), encoding="utf-8")
