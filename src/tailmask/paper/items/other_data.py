"""Tables and figures on other data than the paper's: their setting and their measures."""

from __future__ import annotations

from tailmask.data.facts import DataFacts
from tailmask.paper.request import Request
from tailmask.runs import ResolvedSetting

__all__ = ["chosen_setting", "own_metrics", "own_setting"]


def own_setting(request: Request, data: str) -> tuple[ResolvedSetting, DataFacts]:
    """The setting of a request's own data, and facts about these data."""
    facts = request.facts(data)
    return request.setting(data, facts=facts), facts


def chosen_setting(request: Request, paper_data: str) -> ResolvedSetting:
    """The setting of the request's own data, or of the paper's."""
    return request.setting(paper_data) if request.data is None else own_setting(request, request.data)[0]


def own_metrics(setting: ResolvedSetting, facts: DataFacts) -> tuple[str, ...]:
    """The measures of tables 3 and 4 if every sample has exactly one label, else those of table 1."""
    sizes = setting.recipe.evaluation.rarest
    if facts.single_label:
        return ("error_balanced", *(f"error_rarest_{size}" for size in sizes))
    recall, f1 = ([f"{base}_rarest_{size}" for size in sizes] for base in ("recall", "f1"))
    return ("precision", "recall", *recall, "f1", *f1, "exact_match")
