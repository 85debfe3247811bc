"""The registry: each word of the method grammar is declared once, in the file of its class or function.

```python
@word("focal", kind="loss", summary="labels that are already right weigh less")
class FocalLoss(ElementwiseLoss):
    def __init__(self, *, gamma: Annotated[float, Option(minimum=0)] = 2.0, **shared: Unpack[Shared]) -> None:
```

The parameters that are annotated with `Option` are the word's options. Training passes the others by name:
`positives`, `negatives`, `reduction` and so on. The bounds are checked in every call. The docstring is the
word's card in the documentation.

`find_words` reads the decorators from the text of the files and imports none of them. The reason is start-up
time: a loss is a torch module, and importing torch takes one to five seconds, too long for
`tailmask train --help`. So the arguments of `word` must be literals, except `check`. Options are read from
the signature, which imports the word's file. Only commands that train or evaluate need them, and those need
torch in any case.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any, Literal, TypeVar

__all__ = ["KINDS", "DeclaredOption", "Option", "Word", "find_words", "word"]

WordKind = Literal["masking", "learner", "loss", "weighting", "sampling", "deferral"]
KINDS: tuple[WordKind, ...] = typing.get_args(WordKind)  # in the order of a method's name

_FOLDERS = ("methods", "losses", "sampling", "learners")

Builder = TypeVar("Builder", bound=Callable[..., Any])


@dataclass(frozen=True)
class Option:
    """Annotation that makes a parameter an option of a word, with the bounds of its value.

    >>> Option(minimum=0, below=1).problem(1.0)
    'from 0 to below 1'
    >>> Option(minimum=0).problem(2) is None
    True
    """

    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    below: float | None = None
    kind: Any = None  # the type in a method's name, if the parameter accepts others as well
    not_with: Mapping[str, str] = field(default_factory=dict)  # other word → why they exclude each other
    default_goes_with: str | None = None  # a recipe's default is only for its own value of this option

    def problem(self, value: Any) -> str | None:
        """The allowed range if the number is outside it, else None."""
        if not isinstance(value, Real):
            return None
        number = float(value)
        within = (
            (self.minimum is None or number >= self.minimum)
            and (self.maximum is None or number <= self.maximum)
            and (self.above is None or number > self.above)
            and (self.below is None or number < self.below)
        )
        return None if within else self.allowed

    @property
    def allowed(self) -> str:
        """The allowed range in words; empty if there are no bounds."""
        if self.above is not None:
            low = f"above {self.above:g}"
        else:
            low = "" if self.minimum is None else f"{self.minimum:g}"
        if self.maximum is None and self.below is None:
            return f"{low} or more" if self.minimum is not None else low
        high = f"{self.maximum:g}" if self.maximum is not None else f"below {self.below:g}"
        return f"from {low} to {high}" if low else f"at most {high}"


@dataclass(frozen=True)
class DeclaredOption:
    """An option as declared in a word's signature."""

    name: str
    kind: Any  # float, int, bool, a Literal or a pair of numbers
    default: Any
    option: Option


@dataclass(frozen=True)
class Word:
    """A declared word of the method grammar.

    >>> find_words()["focal"].options["gamma"].default
    2.0
    """

    name: str
    kind: WordKind
    summary: str
    module: str
    attribute: str
    implies: str | None = None
    single_label: bool = False
    not_with: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def builder(self) -> Callable[..., Any]:
        """The class or function, imported."""
        builder: Callable[..., Any] = getattr(importlib.import_module(self.module), self.attribute)
        return builder

    @property
    def options(self) -> dict[str, DeclaredOption]:
        """The options by name, in the order of the signature."""
        return _options(self.builder)

    @property
    def parameters(self) -> frozenset[str]:
        """Names of all parameters, including those of `**shared: Unpack[…]`."""
        return _parameters(self.builder)

    @property
    def needs_counts(self) -> bool:
        """True if the word can only be built with the class counts of the training data."""
        return "positives" in self.parameters

    def check(self, options: Mapping[str, Any]) -> None:
        """Raise a ValueError if the options cannot be combined."""
        check = getattr(self.builder, "_check_options", None)
        if check is not None:
            check(options)

    def build(self, options: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        """The loss, sampler or weighting, built from the options and the values in `given` that it accepts.

        >>> find_words()["focal"].build({"gamma": 1.0}, {"reduction": "sum", "seed": 3}).reduction
        'sum'
        """
        asked = {name: value for name, value in given.items() if name in self.parameters}
        return self.builder(**asked, **options)


def word(
    name: str,
    *,
    kind: WordKind,
    summary: str,
    implies: str | None = None,
    single_label: bool = False,
    not_with: Mapping[str, str] | None = None,
    check: Callable[[Mapping[str, Any]], None] | None = None,
) -> Callable[[Builder], Builder]:
    """Declare a word of the method grammar; calls then check the bounds of its options.

    Args:
        name: The word.
        kind: Its place in a method's name.
        summary: One line for the table of words.
        implies: A word that is added unless another of its kind is named.
        single_label: Whether a loss is a softmax over all classes, for data with one label per sample.
        not_with: Words, or options such as "cb:per_sample", that it cannot be combined with, and why.
        check: A function that raises a ValueError if options, given by name, cannot be combined.
    """

    def declare(builder: Builder) -> Builder:
        checked: Any = builder
        if isinstance(builder, type):
            checked.__init__ = _with_bounds(checked.__init__)
        else:
            checked = _with_bounds(builder)
        checked.declared_as = name
        checked._check_options = check
        return typing.cast(Builder, checked)

    return declare


@functools.cache
def find_words() -> Mapping[str, Word]:
    """All words by name, sorted by kind (maskings first), within a kind in the order of the files.

    >>> [name for name, each in find_words().items() if each.kind == "sampling"]
    ['undersample', 'classaware']
    """
    root = Path(__file__).parents[1]
    found = [
        each
        for folder in _FOLDERS
        for path in sorted((root / folder).rglob("*.py"))
        for each in _words_of(path, module=".".join(path.relative_to(root.parent).with_suffix("").parts))
    ]
    found.sort(key=lambda each: KINDS.index(each.kind))
    return types.MappingProxyType({each.name: each for each in found})


def _words_of(path: Path, *, module: str) -> Iterator[Word]:
    """The words declared in a file, read from its text."""
    text = path.read_text(encoding="utf-8")
    if "@word(" not in text:
        return
    declarations = [each for each in ast.parse(text).body if isinstance(each, ast.ClassDef | ast.FunctionDef)]
    for node in declarations:
        for decorator in node.decorator_list:
            match decorator:
                case ast.Call(func=ast.Name(id="word"), args=[ast.Constant(value=str(name))]):
                    values = {
                        each.arg: ast.literal_eval(each.value)
                        for each in decorator.keywords
                        if each.arg is not None and each.arg != "check"
                    }
                    yield Word(name=name, module=module, attribute=node.name, **values)


@functools.cache
def _options(builder: Callable[..., Any]) -> dict[str, DeclaredOption]:
    function = builder.__init__ if isinstance(builder, type) else builder  # type: ignore[misc]  # __init__ of a class, not of an instance
    defaults = inspect.signature(builder).parameters
    found = {}
    for name, hint in typing.get_type_hints(function, include_extras=True).items():
        for option in getattr(hint, "__metadata__", ()):
            if isinstance(option, Option):
                kind = option.kind or _without_none(typing.get_args(hint)[0])
                found[name] = DeclaredOption(name, kind, defaults[name].default, option)
    return found


@functools.cache
def _parameters(builder: Callable[..., Any]) -> frozenset[str]:
    function = builder.__init__ if isinstance(builder, type) else builder  # type: ignore[misc]  # __init__ of a class, not of an instance
    names: set[str] = set()
    for name, hint in typing.get_type_hints(function).items():
        if typing.get_origin(hint) is typing.Unpack:
            names |= typing.get_args(hint)[0].__annotations__.keys()
        else:
            names.add(name)
    return frozenset(names - {"return"})


def _with_bounds(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with a check that raises a ValueError for options out of bounds."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        options = _options(function)
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            problem = options[name].option.problem(value) if name in options else None
            if problem is not None:
                raise ValueError(f"{name} must be {problem}, got {value:g}")
        return function(*args, **kwargs)

    return checked


def _without_none(hint: Any) -> Any:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        (hint,) = (part for part in typing.get_args(hint) if part is not types.NoneType)
    return hint
