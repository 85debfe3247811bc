"""Targets on other data than the paper's: their setting, and the measures that stand for the paper's."""

from __future__ import annotations

from tailmask.study.facts import DataFacts
from tailmask.study.plan import Setting
from tailmask.study.rarest import with_rarest
from tailmask.study.request import Request

__all__ = ["own_metrics", "own_setting"]


def own_setting(request: Request, data: str) -> tuple[Setting, DataFacts]:
    """The setting of a request's own data, with measures over the rarest classes, and facts about them."""
    setting = request.setting(data)
    facts = request.facts(setting)
    return with_rarest(setting, facts), facts


def own_metrics(setting: Setting, facts: DataFacts) -> tuple[str, ...]:
    """The measures of the paper's tables: of tables 3 and 4 where samples have one label, else of table 1."""
    sizes = setting.config("bce", 0).recipe.evaluation.rarest
    if facts.single_label:
        return ("error_balanced", *(f"error_rarest_{size}" for size in sizes))
    recall, f1 = ([f"{base}_rarest_{size}" for size in sizes] for base in ("recall", "f1"))
    return ("precision", "recall", *recall, "f1", *f1, "exact_match")
