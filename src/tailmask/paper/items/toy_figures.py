"""Figures 5 and 6: the appendix's toy example, as histograms and as distributions; nothing is trained."""

from __future__ import annotations

from functools import partial

from tailmask._util.messages import UserError
from tailmask.paper.published_numbers import load_paper
from tailmask.paper.request import Answer, PaperItem, Request, Runs
from tailmask.paper.result_table import ResultCell, ResultRow, Table

__all__ = ["toy_item"]


def toy_item(request: Request, *, normalized: bool) -> PaperItem:
    """Figure 5, the histograms, or figure 6, the distributions."""
    if request.data is not None:
        raise UserError("the toy example has its own ten samples: leave --data out")
    title = (
        "Figure 6: the toy example's distributions"
        if normalized
        else "Figure 5: the toy example's histograms"
    )
    return PaperItem(title, (), partial(_answer, normalized=normalized))


def _answer(runs: Runs, *, normalized: bool) -> Answer:
    """Histograms of the sets S⁺, Ŝ⁺, S⁻ and Ŝ⁻ of ten samples, by `tailmask.functional.histogram`."""
    import torch

    from tailmask.functional import histogram
    from tailmask.paper.items.distribution_figures import bin_names, shares
    from tailmask.report.charts import toy_example

    example = load_paper()["toy"]
    targets = torch.tensor(example["labels"], dtype=torch.float32).unsqueeze(1)
    outputs = torch.tensor(example["probabilities"]).unsqueeze(1)
    predicted, true = (histogram(values, targets, example["bins"]) for values in (outputs, targets))
    if normalized:
        predicted, true = shares(predicted), shares(true)
    letter = "P" if normalized else "S"
    sets = {
        f"{letter}⁺": true[1, 0],
        f"{letter}̂⁺": predicted[1, 0],
        f"{letter}⁻": true[0, 0],
        f"{letter}̂⁻": predicted[0, 0],
    }
    rows = [
        ResultRow(name, tuple(ResultCell(mean=value) for value in values.double().tolist()))
        for name, values in sets.items()
    ]
    what, digits = ("Share of the outputs", 1) if normalized else ("Number of outputs", 0)
    table = Table(f"{what} in each bin", "Set", bin_names(example["bins"]), tuple(rows), digits=digits)
    return Answer((table,), toy_example(normalized=normalized))
