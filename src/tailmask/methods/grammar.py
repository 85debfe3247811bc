"""Methods by name: `[plm+]LOSS[+cb][+undersample|+classaware][+drw]`, with options after a colon.

The name of a learner that is not a network replaces the loss: `trees`, `plm+linear`.

The registry finds the words; see `tailmask._util.registry`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tailmask._util.messages import UserError, nearest
from tailmask._util.registry import KINDS, Word, find_words
from tailmask.methods import option_values

__all__ = [
    "DEFAULT_METHODS",
    "RECOMMENDED",
    "TABLE_METHODS",
    "Method",
    "MethodPart",
    "check_options",
    "method_help",
    "parse",
]

# The form of PLM to begin with on new data: see docs/evidence/tables.md for the measurements behind it.
RECOMMENDED = "plm:adapt=prevalence"

# The methods that are compared by default: the baseline, the paper's method, and the recommended one. Tables
# and texts also have other learners than networks, and these are often better there.
DEFAULT_METHODS = ("bce", "plm", RECOMMENDED)
TABLE_METHODS = (*DEFAULT_METHODS, "linear", "trees", "boost", "ensemble")


@dataclass(frozen=True)
class MethodPart:
    """A word of a method's name with the options that are named.

    >>> parse("plm:rate=0.05").masking
    MethodPart(plm:rate=0.05)
    """

    word: Word
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)  # in the order of the signature

    def get(self, option: str) -> Any:
        """The value of an option, or None if it is not named."""
        return self.options.get(option)

    def with_options(self, **options: Any) -> MethodPart:
        """The part with other options; one that is None is no longer named.

        >>> parse("plm:rate=0.05").masking.with_options(rate=None, num_bins=20)
        MethodPart(plm:num_bins=20)
        """
        merged = {**self.options, **options}
        checked = {
            name: option_values.checked(self.word, name, value)
            for name, value in merged.items()
            if value is not None
        }
        return _part(self.word, checked)

    def build(self, **given: Any) -> Any:
        """Build the loss, the sampler or the learner that the word names; see `Word.build`."""
        return self.word.build(self.options, given)

    def __str__(self) -> str:
        options = ",".join(
            f"{name}={option_values.write_value(value)}" for name, value in self.options.items()
        )
        return f"{self.word.name}:{options}" if options else self.word.name

    def __repr__(self) -> str:
        return f"MethodPart({self})"


@dataclass(frozen=True)
class Method:
    """How to train: a loss, whether labels are masked, how classes are weighted and samples drawn.

    A network is trained unless `learner` names another learner, which has a loss of its own. Prints as its
    canonical name, which `parse` reads back.

    >>> str(parse("focal:gamma=2.0+plm:rate=5e-2"))
    'plm:rate=0.05+focal:gamma=2'
    """

    loss: MethodPart
    masking: MethodPart | None = None
    learner: MethodPart | None = None
    weighting: MethodPart | None = None
    sampling: MethodPart | None = None
    deferral: MethodPart | None = None

    def __post_init__(self) -> None:
        if self.learner is not None:
            foreign = [str(part) for part in self if part.word.kind not in ("masking", "learner")]
            if foreign != ["bce"]:
                raise UserError(
                    f"{self.learner.word.name} is no network and takes neither losses nor weights nor "
                    f"samplers: leave out {', '.join(name for name in foreign if name != 'bce')}"
                )
        names = {part.word.name: part for part in self}
        for part in self:
            for own, excluded in _exclusions(part):
                for other, reason in excluded.items():
                    word, _, option = other.partition(":")
                    if word in names and (not option or option in names[word].options):
                        raise UserError(f"{other} does not go with {own}: {reason}; leave one of them out")

    @property
    def activation(self) -> Literal["sigmoid", "softmax"]:
        """The function that turns logits into probabilities."""
        return "softmax" if self.loss.word.single_label else "sigmoid"

    def __iter__(self) -> Iterator[MethodPart]:
        """The parts that the method has, in the order of the grammar."""
        for kind in KINDS:
            if getattr(self, kind) is not None:
                yield getattr(self, kind)

    def __str__(self) -> str:
        parts = list(self)
        is_bce = self.loss == MethodPart(find_words()["bce"])
        if is_bce and (self.learner is not None or (self.masking is not None and len(parts) == 2)):
            parts.remove(self.loss)  # `plm` is `plm+bce`
        if self.deferral is not None and self.weighting == MethodPart(find_words()["cb"]):
            parts.remove(self.weighting)  # `+drw` is `+cb+drw`
        return "+".join(map(str, parts))

    def options(self) -> dict[str, dict[str, Any]]:
        """The options that are named, by word.

        >>> parse("plm:rate=0.05+focal").options()
        {'plm': {'rate': 0.05}, 'focal': {}}
        """
        return {part.word.name: dict(part.options) for part in self}

    def with_options(self, word: str, **options: Any) -> Method:
        """The method with other options of one of its words; one that is None is no longer named.

        >>> str(parse("plm+focal").with_options("plm", rate=0.1))
        'plm:rate=0.1+focal'
        """
        parts = {
            part.word.kind: part.with_options(**options) if part.word.name == word else part for part in self
        }
        return dataclasses.replace(self, **parts)

    def with_defaults(self, defaults: Mapping[str, Mapping[str, Any]]) -> Method:
        """The method with the options that were not named taken from `defaults`, by word and option.

        >>> print(parse("plm+focal").with_defaults({"plm": {"rate": 0.05}, "focal": {"gamma": 1}}))
        plm:rate=0.05+focal:gamma=1
        """
        method = self
        for part in self:
            missing = _missing(part, defaults.get(part.word.name, {}))
            method = method.with_options(part.word.name, **missing) if missing else method
        return method

    def require_fit(self, *, single_label: bool) -> None:
        """Raise a `UserError` if the method cannot train on such data."""
        if self.loss.word.single_label and not single_label:
            others = [word.name for word in _of_kind("loss") if not word.single_label]
            raise UserError(
                f"{self.loss.word.name} needs data with exactly one label per sample, and here samples have "
                f"several or none: choose from {', '.join(others)}"
            )


def parse(name: str) -> Method:
    """The method of a name such as `plm:rate=0.05,expected=true+focal:gamma=2`.

    >>> parse("plm")
    Method(loss=MethodPart(bce), masking=MethodPart(plm),
        learner=None, weighting=None, sampling=None, deferral=None)
    >>> parse("focl")
    Traceback (most recent call last):
    tailmask._util.messages.UserError: unknown word 'focl' in the method 'focl': did you mean 'focal'?
    """
    parts: dict[str, MethodPart] = {}
    for text in name.split("+"):
        part = _read(text.strip(), name)
        if part.word.kind in parts:
            first, second = parts[part.word.kind].word.name, part.word.name
            raise UserError(f"the method {name!r} has both {first!r} and {second!r}: choose one; {_form()}")
        parts[part.word.kind] = part
    for part in list(parts.values()):
        if part.word.implies is not None:
            implied = find_words()[part.word.implies]
            parts.setdefault(implied.kind, MethodPart(implied))
    if "loss" not in parts:
        losses = ", ".join(word.name for word in _of_kind("loss"))
        raise UserError(f"the method {name!r} has no loss: begin with one of {losses}, or plm")
    return Method(**parts)


def check_options(word: str, options: Mapping[str, Any]) -> None:
    """Raise a `UserError` unless `options`, such as those of a recipe's table, are the word's own."""
    MethodPart(find_words()[word]).with_options(**options)


def method_help() -> str:
    """Help on the values of `--method`, for the command line; imports no torch.

    >>> method_help()
    'a name such as bce or plm+focal:gamma=2, of the form [plm+]LOSS[+cb]...'
    """
    losses, learners = (", ".join(word.name for word in _of_kind(kind)) for kind in ("loss", "learner"))
    return (
        f"a name such as bce or plm+focal:gamma=2, of the form {_form()}. LOSS is {losses}; for tables and "
        f"texts also a learner: {learners}. docs/methods.md explains all words and their options"
    )


def _of_kind(kind: str) -> list[Word]:
    return [word for word in find_words().values() if word.kind == kind]


def _form() -> str:
    """The form of a method's name, with all words in their places."""
    places = {kind: [word.name for word in _of_kind(kind)] for kind in KINDS}
    masking, _, _ = places.pop("masking"), places.pop("learner"), places.pop("loss")
    after = (f"[{'|'.join(f'+{name}' for name in names)}]" for names in places.values())
    return "".join([f"[{'|'.join(f'{name}+' for name in masking)}]", "LOSS", *after])


def _read(text: str, name: str) -> MethodPart:
    word_name, _, options = text.partition(":")
    word_name = word_name.strip().lower()
    words = find_words()
    if word_name not in words:
        raise UserError(f"unknown word {word_name!r} in the method {name!r}: {nearest(word_name, words)}")
    word, chosen = words[word_name], dict[str, Any]()
    for option in filter(None, (piece.strip() for piece in options.split(","))):
        key, value = option_values.read_option(word, option)
        if key in chosen:
            raise UserError(f"the method {name!r} names the option {key!r} of {word_name!r} twice")
        chosen[key] = value
    return _part(word, chosen)


def _part(word: Word, options: Mapping[str, Any]) -> MethodPart:
    """The part with these options; raises a `UserError` if they do not go together."""
    if not options:
        return MethodPart(word)
    try:
        word.check(options)
    except ValueError as error:
        raise UserError(f"{word.name}: {error}") from None
    return MethodPart(word, {name: options[name] for name in word.options if name in options})


def _exclusions(part: MethodPart) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The word, and its options that are not at their defaults, each with what it excludes."""
    yield part.word.name, part.word.not_with
    for name, value in part.options.items():
        declared = part.word.options[name]
        if value != declared.default:
            yield f"{part.word.name}:{name}", declared.option.not_with


def _missing(part: MethodPart, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults of options that the part does not name."""
    declared = part.word.options if defaults else {}
    missing = {}
    for name, value in defaults.items():
        steering = declared[name].option.default_goes_with if name in declared else None
        if steering is not None and part.get(steering) not in (
            None,
            defaults.get(steering, declared[steering].default),
        ):
            continue  # the default is for another update: a recipe's λ fits only the recipe's own `adapt`
        if name not in part.options:
            missing[name] = value
    return missing
