"""Which of the rarest classes a study looks at, where its recipe does not say."""

from __future__ import annotations

import dataclasses

from tailmask.study.facts import DataFacts
from tailmask.study.plan import Setting

__all__ = ["with_rarest"]


def with_rarest(setting: Setting, facts: DataFacts) -> Setting:
    """The setting with measures over the K rarest classes.

    A recipe that names no K gets the paper's shares: a quarter and an eighth of the classes, as on MSCOCO, or
    half of them where samples have one label, as on CIFAR-100. The most frequent ones are as many as the
    larger of these, unless their number is named.
    """
    evaluation = setting.config("bce", 0).recipe.evaluation
    if evaluation.rarest:
        return setting
    shares = (2,) if facts.single_label else (4, 8)
    sizes = sorted({max(1, len(facts.classes) // share) for share in shares}, reverse=True)
    fields = [f"evaluation.rarest={sizes}"]
    if not evaluation.frequent:
        fields.append(f"evaluation.frequent={sizes[:1]}")
    return dataclasses.replace(setting, fields=(*setting.fields, *fields))
