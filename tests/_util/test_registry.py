"""The registry: declarations are found in the text of files, and bounds hold wherever a class is built."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated, Literal, TypedDict, Unpack

import numpy as np
import pytest

import tailmask
from tailmask._util import registry
from tailmask._util.registry import KINDS, Option, Word, find_words, word


class Shared(TypedDict, total=False):
    reduction: str


@word("mine", kind="loss", summary="a loss for tests")
class Mine:
    def __init__(
        self,
        positives: list[int],
        *,
        gamma: Annotated[float, Option(minimum=0)] = 2.0,
        share: Annotated[float | None, Option(above=0, below=1)] = None,
        form: Annotated[Literal["a", "b"], Option()] = "a",
        seed: int = 0,
        **shared: Unpack[Shared],
    ) -> None:
        self.given = (positives, gamma, share, form, seed, shared)


MINE = Word("mine", "loss", "a loss for tests", __name__, "Mine")


def test_every_declaration_in_the_source_is_found() -> None:
    root = Path(tailmask.__file__).parent
    texts = [path.read_text() for path in root.rglob("*.py") if path.name != "registry.py"]
    assert sum(text.count("\n@word(") for text in texts) == len(find_words())


@pytest.mark.parametrize("name", find_words())
def test_a_declaration_names_what_it_stands_on(name: str) -> None:
    found = find_words()[name]
    assert callable(found.builder)
    assert found.builder is getattr(importlib.import_module(found.module), found.attribute)
    assert found.implies is None or found.implies in find_words()
    assert {other.partition(":")[0] for other in found.not_with} <= find_words().keys()


def test_words_stand_in_the_order_of_a_name() -> None:
    kinds = [KINDS.index(each.kind) for each in find_words().values()]
    assert kinds == sorted(kinds)


def test_a_file_is_read_without_being_run(tmp_path: Path) -> None:
    path = tmp_path / "focal.py"
    path.write_text(
        "raise RuntimeError\n"
        "@word('x', kind='loss', summary='s', not_with={'plm': 'why'}, check=max)\n"
        "class X(Base): ...\n"
        "@other('y')\n"
        "def y(): ...\n"
    )
    assert list(registry._words_of(path, module="m.focal")) == [
        Word("x", "loss", "s", "m.focal", "X", not_with={"plm": "why"})
    ]


def test_options_are_the_marked_parameters() -> None:
    assert {name: (each.kind, each.default) for name, each in MINE.options.items()} == {
        "gamma": (float, 2.0),
        "share": (float, None),
        "form": (Literal["a", "b"], "a"),
    }
    assert MINE.needs_counts


def test_a_word_is_built_from_what_it_asks_for() -> None:
    given = {"positives": [1], "negatives": [2], "seed": 3, "reduction": "sum", "weight": None}
    built = MINE.build({"gamma": 1.0}, given)
    assert built.given == ([1], 1.0, None, "a", 3, {"reduction": "sum"})


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"gamma": -1.0}, "gamma must be 0 or more, got -1"),
        ({"gamma": float("nan")}, "gamma must be 0 or more, got nan"),
        ({"gamma": np.float32(-2)}, "gamma must be 0 or more, got -2"),
        ({"share": 0}, "share must be from above 0 to below 1, got 0"),
        ({"share": 1.5}, "share must be from above 0 to below 1, got 1.5"),
    ],
)
def test_bounds_hold_where_the_class_is_built(options: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        Mine([1], **options)
    Mine([1], gamma=0, share=0.5)
    Mine([1], gamma="what is no number is left to the class")
