"""Columns of text: TF-IDF of the terms in training, or hashed counts of words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from tailmask._util.messages import require
from tailmask.data.encoders.columns import Form

if TYPE_CHECKING:
    import polars as pl
    from scipy.sparse import csr_array

__all__ = ["MOST_TERMS", "Analyzer", "HashedTextColumn", "TextColumn", "fit_text"]

Analyzer = Literal["word", "char"]

NO_TERMS = "none of its terms occurs in two rows"

# Trees look at each term by itself, so they get only this many, the most frequent ones.
RAW_TERMS = 1000

# By default, a network gets this many: its first layer has a row of weights for each.
MOST_TERMS = 20_000

MOST_BUCKETS = 2**28

# Words of any length, and each sign that is neither a letter nor a space: ! and ? carry meaning, too.
_TOKENS = r"(?u)\w+|[^\w\s]"
_ANALYZERS: dict[Analyzer, dict[str, Any]] = {
    "word": {"analyzer": "word", "ngram_range": (1, 2), "token_pattern": _TOKENS},
    "char": {"analyzer": "char_wb", "ngram_range": (2, 5)},
}


@dataclass(frozen=True)
class TextColumn:
    """Text as TF-IDF: (1 + log count) · idf of each term, scaled to norm 1."""

    name: str
    analyzer: Analyzer
    terms: tuple[str, ...]
    idf: tuple[float, ...]

    kind: ClassVar[Literal["text"]] = "text"

    def __post_init__(self) -> None:
        if not self.terms or len(set(self.terms)) != len(self.terms) or len(self.idf) != len(self.terms):
            raise ValueError("terms must differ, and each must have its idf")
        if not all(map(math.isfinite, self.idf)):
            raise ValueError("the idf of terms must be finite numbers")

    def outputs(self, form: Form) -> list[str]:
        """The names of its inputs."""
        return [f"{self.name}: {term}" for term in self.terms]

    def encode(self, series: pl.Series, form: Form) -> csr_array:
        """Inputs (N, terms)."""
        counts = self._vectorizer.transform(_texts(series))
        counts.data = (1 + np.log(counts.data)) * np.array(self.idf)[counts.indices]
        normalize = require("sklearn.preprocessing", extra="cli").normalize
        return require("scipy.sparse", extra="cli").csr_array(
            normalize(counts, copy=False).astype(np.float32)
        )

    @cached_property
    def _vectorizer(self) -> Any:
        text = require("sklearn.feature_extraction.text", extra="cli")
        return text.CountVectorizer(**_ANALYZERS[self.analyzer], vocabulary=self.terms, dtype=np.float64)

    @property
    def detail(self) -> str:
        """The number and the kind of the terms."""
        what = "words and pairs of words" if self.analyzer == "word" else "pieces of words"
        return f"TF-IDF of {len(self.terms)} {what}"


@dataclass(frozen=True)
class HashedTextColumn:
    """Text as counts of words that share inputs by their hash, scaled to norm 1; nothing is fitted."""

    name: str
    buckets: int

    kind: ClassVar[Literal["text"]] = "text"

    def __post_init__(self) -> None:
        if not 1 <= self.buckets <= MOST_BUCKETS:
            raise ValueError(f"buckets must be from 1 to {MOST_BUCKETS}, got {self.buckets}")

    def outputs(self, form: Form) -> list[str]:
        """The names of its inputs."""
        return [f"{self.name} (hash {bucket})" for bucket in range(self.buckets)]

    def encode(self, series: pl.Series, form: Form) -> csr_array:
        """Inputs (N, buckets)."""
        vectorizer = require("sklearn.feature_extraction.text", extra="cli").HashingVectorizer(
            n_features=self.buckets, alternate_sign=False, dtype=np.float32
        )
        return require("scipy.sparse", extra="cli").csr_array(vectorizer.transform(_texts(series)))

    @property
    def detail(self) -> str:
        """The number of inputs that words share."""
        return f"hashed into {self.buckets} inputs"


def fit_text(series: pl.Series, form: Form, *, analyzer: Analyzer, max_terms: int) -> TextColumn | str:
    """The most frequent terms that two or more rows have, or the reason to leave the column out."""
    vectorizer = require("sklearn.feature_extraction.text", extra="cli").TfidfVectorizer(
        **_ANALYZERS[analyzer],
        min_df=2,
        max_features=min(max_terms, RAW_TERMS) if form == "raw" else max_terms,
    )
    texts = _texts(series)
    try:
        vectorizer.fit(texts)
    except ValueError:  # no term is in two rows
        return NO_TERMS
    terms = tuple(str(term) for term in vectorizer.get_feature_names_out())
    return TextColumn(series.name, analyzer, terms, tuple(vectorizer.idf_.tolist()))


def _texts(series: pl.Series) -> list[str]:
    texts: list[str] = series.cast(require("polars", extra="tables").String).fill_null("").to_list()
    return texts
