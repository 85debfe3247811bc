"""The options of the estimator: their checks and error messages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any

from torch import Tensor

from tailmask._util.messages import listing, nearest
from tailmask.calibration import DecisionRule
from tailmask.integrations.tabular.estimator_labels import EstimatorLabels
from tailmask.losses import ElementwiseLoss
from tailmask.methods import MethodPart, find_words, parse

__all__ = ["build_loss", "check_options", "hidden_sizes", "is_tuned", "needs_counts"]


def build_loss(name: str, counts: Tensor) -> ElementwiseLoss | None:
    """The elementwise loss with this name and class counts (2, C); None is PLM's own binary cross-entropy.

    >>> import torch
    >>> build_loss("focal:gamma=1", torch.tensor([[3], [1]])).gamma
    1.0
    """
    part = _loss_part(name)
    if part.word.name == "bce":
        return None  # PLM's own is the fastest
    loss: ElementwiseLoss = part.build(negatives=counts[0], positives=counts[1], reduction="none")
    return loss


def needs_counts(name: str) -> bool:
    """True if the loss with this name weighs by the class counts of all data.

    >>> needs_counts("db:gamma=1"), needs_counts("focal"), needs_counts("bce")
    (True, False, False)
    """
    word = _loss_part(name).word
    return word.needs_counts and word.name != "bce"


def _loss_part(name: str) -> MethodPart:
    """The loss with this name; a ValueError if it names no single loss for PLM."""
    word = name.partition(":")[0]
    losses = [each.name for each in find_words().values() if each.kind == "loss" and not each.single_label]
    if word not in losses:
        raise ValueError(f"loss is not {name!r}: {nearest(word, losses)}")
    method = parse(name)
    if len(list(method)) > 1:
        raise ValueError(f"loss must be the name of a loss alone, such as {word!r}, got {name!r}")
    return parse(f"plm+{name}").loss  # refuses options that PLM cannot work with


def hidden_sizes(value: Any) -> list[int]:
    """Widths of the hidden layers; a single layer may be given as a number.

    >>> hidden_sizes(100), hidden_sizes((20, 10)), hidden_sizes(())
    ([100], [20, 10], [])
    """
    sizes = [value] if isinstance(value, Integral) else value
    sizes = list(sizes) if isinstance(sizes, Iterable) else [sizes]
    if not all(isinstance(size, Integral) and int(size) >= 1 for size in sizes):
        raise ValueError(f"hidden_layer_sizes must be integers of 1 or more, got {value!r}")
    return [int(size) for size in sizes]


def is_tuned(thresholds: Any) -> bool:
    """True if thresholds are to be fitted.

    >>> is_tuned("tuned"), is_tuned(0.5)
    (True, False)
    """
    return isinstance(thresholds, str) and thresholds == "tuned"


def check_options(options: Mapping[str, Any], labels: EstimatorLabels) -> None:
    """Raise a ValueError if a parameter of the estimator is invalid, or does not fit these labels."""
    loss, thresholds, decay = options["loss"], options["thresholds"], options["weight_decay"]
    if isinstance(loss, str):
        _loss_part(loss)
    hidden_sizes(options["hidden_layer_sizes"])
    for name in ("max_epochs", "batch_size", "n_iter_no_change"):
        value = options[name]
        if not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{name} must be an integer of 1 or more, got {value!r}")
    if not _is_within(options["validation_fraction"], 0, 1):
        raise ValueError(
            f"validation_fraction must lie between 0 and 1, got {options['validation_fraction']!r}"
        )
    if not is_tuned(thresholds) and not _is_within(thresholds, 0, 1):
        raise ValueError(f"thresholds must lie between 0 and 1 or be 'tuned', got {thresholds!r}")
    if not _is_within(options["learning_rate"], 0, math.inf):
        raise ValueError(f"learning_rate must be a number above 0, got {options['learning_rate']!r}")
    if decay != 0 and not _is_within(decay, 0, math.inf):
        raise ValueError(f"weight_decay must be a number of 0 or more, got {decay!r}")
    _check_rule(options["decide"], thresholds, labels)
    if not labels.multilabel and len(labels.classes) > 2 and thresholds != 0.5:
        raise ValueError(
            f"thresholds are for multi-label targets or two classes, got {len(labels.classes)} classes, "
            "of which the one with the highest output is predicted: leave them at 0.5"
        )
    if len(labels.classes) < 2:
        raise ValueError(f"y must have two classes or more, got one class: {listing(labels.classes)}")


def _check_rule(decide: Any, thresholds: Any, labels: EstimatorLabels) -> None:
    if decide is None:
        return
    rule = DecisionRule.parse(decide)
    if thresholds != 0.5:
        raise ValueError(f"decide={str(rule)!r} fits thresholds: leave thresholds at 0.5, got {thresholds!r}")
    if not labels.multilabel and (len(labels.classes) > 2 or rule.top is not None):
        usable = "multi-label targets" if rule.top else "multi-label targets or two classes"
        raise ValueError(
            f"decide={str(rule)!r} is for {usable}, got one of {len(labels.classes)} classes per sample: "
            "leave it out"
        )


def _is_within(value: Any, low: float, high: float) -> bool:
    return isinstance(value, Real) and low < float(value) < high
