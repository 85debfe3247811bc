"""Methods by name: `[plm+]LOSS[+cb][+undersample|+classaware][+drw]`, with options after a colon."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tailmask.errors import UserError, nearest
from tailmask.method import parts, values
from tailmask.method.parts import WORDS, Loss, Part, Sampling

__all__ = ["DEFAULT_METHODS", "RECOMMENDED", "Method", "check_options", "parse"]

# The form of PLM to begin with on new data: see docs/when-plm-helps.md for the measurements behind it.
RECOMMENDED = "plm:adapt=rate"

# What is compared where nothing is named: the baseline, the paper's method, and what we would take.
DEFAULT_METHODS = ("bce", "plm", RECOMMENDED)

_NAMES = {part: word for word, part in WORDS.items()}
_LOSSES = [word for word, part in WORDS.items() if issubclass(part, Loss)]
_ELEMENTWISE = ", ".join(word for word in _LOSSES if word != "ldam")
_GRAMMAR = "[plm+]LOSS[+cb][+undersample|+classaware][+drw]"


@dataclass(frozen=True)
class Method:
    """How to train: a loss, whether labels are masked, how classes are weighted and samples drawn.

    Prints as its canonical name, which `parse` reads back.

    >>> method = Method(parts.Focal(gamma=2.0), masking=parts.Masking(rate=0.05))
    >>> str(method)
    'plm:rate=0.05+focal:gamma=2'
    >>> parse(str(method)) == method
    True
    """

    loss: Loss
    masking: parts.Masking | None = None
    balance: parts.ClassBalance | None = None
    sampling: Sampling | None = None
    deferral: parts.Deferral | None = None

    def __post_init__(self) -> None:
        if self.masking is not None and isinstance(self.loss, parts.LDAM):
            raise UserError(
                "plm masks single labels, but ldam is a softmax over all of them: "
                f"put plm around one of {_ELEMENTWISE}"
            )
        if self.masking is not None and isinstance(self.loss, parts.BCE) and self.loss.pos_power:
            raise UserError(
                "plm and bce:pos_power both set the ratio of positives to negatives: leave one of them out"
            )
        if isinstance(self.loss, parts.LDAM) and self.balance is not None and self.balance.per is not None:
            raise UserError("ldam has one weight a sample in any case: leave out cb:per")

    def __iter__(self) -> Iterator[Part]:
        """The parts that the method has, in the order of the grammar."""
        for part in (self.masking, self.loss, self.balance, self.sampling, self.deferral):
            if part is not None:
                yield part

    def __str__(self) -> str:
        words = list(self)
        plain_loss = self.masking is not None and self.loss == parts.BCE()
        if plain_loss and len(words) == 2:
            words.remove(self.loss)  # `plm` is `plm+bce`
        if self.deferral is not None and self.balance == parts.ClassBalance():
            words.remove(self.balance)  # `+drw` is `+cb+drw`
        return "+".join(_write(part) for part in words)

    def options(self) -> dict[str, dict[str, Any]]:
        """The options that are named, by word.

        >>> parse("plm:rate=0.05+focal").options()
        {'plm': {'rate': 0.05}, 'focal': {}}
        """
        return {
            _NAMES[type(part)]: {name: value for name, value in vars(part).items() if value is not None}
            for part in self
        }

    def with_defaults(self, defaults: Mapping[str, Mapping[str, Any]]) -> Method:
        """The method with the options that were not named taken from `defaults`, by word and option.

        >>> print(parse("plm+focal").with_defaults({"plm": {"rate": 0.05}, "focal": {"gamma": 1}}))
        plm:rate=0.05+focal:gamma=1
        """
        filled: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            part = getattr(self, field.name)
            if part is not None:
                filled[field.name] = _filled(part, defaults.get(_NAMES[type(part)], {}))
        return dataclasses.replace(self, **filled)

    def require_fit(self, *, single_label: bool) -> None:
        """Raise a `UserError` where the method cannot train on such data."""
        if isinstance(self.loss, parts.LDAM) and not single_label:
            raise UserError(
                "ldam needs data with exactly one label a sample, and here samples have several or none: "
                f"choose from {_ELEMENTWISE}"
            )


def parse(name: str) -> Method:
    """The method of a name such as `plm:rate=0.05,expected=true+focal:gamma=2`.

    >>> parse("plm")
    Method(loss=BCE(pos_power=None), masking=Masking(rate=None, ...), balance=None, sampling=None, ...)
    >>> parse("focl")
    Traceback (most recent call last):
    tailmask.errors.UserError: unknown word 'focl' in the method 'focl': did you mean 'focal'?
    """
    words = [_read(word.strip(), name) for word in name.split("+")]
    slots: dict[str, Any] = {}
    for part in words:
        slot = _slot(part)
        if slot in slots:
            first, second = _NAMES[type(slots[slot])], _NAMES[type(part)]
            raise UserError(f"the method {name!r} has both {first!r} and {second!r}: choose one; {_GRAMMAR}")
        slots[slot] = part
    if "loss" not in slots:
        if "masking" not in slots:
            raise UserError(
                f"the method {name!r} has no loss: begin with one of {', '.join(_LOSSES)}, or plm"
            )
        slots["loss"] = parts.BCE()
    if "deferral" in slots:
        slots.setdefault("balance", parts.ClassBalance())
    return Method(**slots)


def _read(text: str, name: str) -> Part:
    word, _, options = text.partition(":")
    word = word.strip().lower()
    if word not in WORDS:
        raise UserError(f"unknown word {word!r} in the method {name!r}: {nearest(word, WORDS)}")
    part, chosen = WORDS[word], {}
    for option in filter(None, (piece.strip() for piece in options.split(","))):
        key, value = values.read_option(word, part, option)
        if key in chosen:
            raise UserError(f"the method {name!r} names the option {key!r} of {word!r} twice")
        chosen[key] = value
    return part(**chosen)


def _slot(part: Part) -> str:
    match part:
        case parts.Masking():
            return "masking"
        case parts.ClassBalance():
            return "balance"
        case parts.Undersample() | parts.ClassAware():
            return "sampling"
        case parts.Deferral():
            return "deferral"
        case _:
            return "loss"


def _write(part: Part) -> str:
    word = _NAMES[type(part)]
    options = ",".join(f"{k}={values.write_value(v)}" for k, v in vars(part).items() if v is not None)
    return f"{word}:{options}" if options else word


def _filled(part: Part, defaults: Mapping[str, Any]) -> Part:
    word = _NAMES[type(part)]
    if isinstance(part, parts.Masking) and part.adapt not in (None, defaults.get("adapt", "divergence")):
        # A rate of one update says nothing about another's.
        defaults = {name: value for name, value in defaults.items() if name not in ("rate", "warmup")}
    missing = {
        name: values.checked(word, type(part), name, value)
        for name, value in defaults.items()
        if getattr(part, name, None) is None
    }
    return dataclasses.replace(part, **missing)


def check_options(word: str, options: Mapping[str, Any]) -> None:
    """Raise a `UserError` unless `options`, such as those of a recipe's table, are the word's own."""
    part = WORDS[word]
    part(**{name: values.checked(word, part, name, value) for name, value in options.items()})
