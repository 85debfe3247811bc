"""The long tail's counts, against high-precision arithmetic and the published totals."""

from __future__ import annotations

from decimal import Decimal, getcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailmask.data.public.longtail import long_tail_counts
from tailmask.data.public.portable_draws import Draws

getcontext().prec = 60


@given(
    largest=st.integers(1, 6000),
    num_classes=st.integers(2, 120),
    rho=st.integers(4, 4000).map(lambda n: n / 4),
)
def test_counts_are_the_formula_rounded_down(largest: int, num_classes: int, rho: float) -> None:
    counts = long_tail_counts(largest, num_classes, rho)
    assert counts[0] == largest
    assert counts == sorted(counts, reverse=True)
    for c, count in enumerate(counts):
        exact = largest * Decimal(rho) ** (-Decimal(c) / (num_classes - 1))
        assert count <= exact + Decimal("1e-40")
        assert count + 1 > exact - Decimal("1e-40")


@pytest.mark.parametrize(
    ("largest", "num_classes", "totals"),
    [
        (5000, 10, {1: 50000, 10: 20431, 20: 17023, 50: 13996, 100: 12406, 200: 11203}),
        (500, 100, {1: 50000, 10: 19573, 20: 15907, 50: 12608, 100: 10847, 200: 9502}),
        (5923, 10, {100: 14694}),
    ],
)
def test_published_totals(largest: int, num_classes: int, totals: dict[int, int]) -> None:
    assert {rho: sum(long_tail_counts(largest, num_classes, rho)) for rho in totals} == totals


def test_whole_numbers_are_met_exactly() -> None:
    assert long_tail_counts(500, 100, 100)[-1] == 5
    assert long_tail_counts(5000, 10, 20)[-1] == 250
    assert long_tail_counts(1000, 4, 1000) == [1000, 100, 10, 1]


def test_one_class_and_bad_imbalance() -> None:
    assert long_tail_counts(7, 1, 100) == [7]
    for rho in (0.5, float("nan")):
        with pytest.raises(ValueError, match="rho must be 1 or more"):
            long_tail_counts(10, 3, rho)


def test_draws_are_uniform_and_pinned() -> None:
    values = Draws(3).below(10, 100_000)
    counts = [int((values == digit).sum()) for digit in range(10)]
    assert max(abs(count - 10_000) for count in counts) < 400  # about four standard deviations
    assert sorted(Draws(3).permutation(1000).tolist()) == list(range(1000))
    assert Draws(3).below(1000, 5).tolist() != Draws(4).below(1000, 5).tolist()
    assert Draws(1, 2).below(1000, 5).tolist() == [841, 285, 336, 699, 105]
    assert Draws(7).permutation(6).tolist() == [3, 4, 0, 2, 5, 1]
