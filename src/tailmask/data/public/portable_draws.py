"""Random integers that are the same on every machine and with every release of NumPy.

NumPy never changes the raw words of PCG64, but it may change the numbers that its `Generator` makes of them.
So the data sets that are constructed here draw from the raw words.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Draws"]


class Draws:
    """A stream of random integers, determined by one or more seeds.

    >>> Draws(0).below(10, (2, 3))
    array([[5, 8, 2],
           [6, 5, 7]])
    >>> Draws(0).permutation(5)
    array([3, 2, 1, 0, 4])
    """

    def __init__(self, *seeds: int) -> None:
        self._words = np.random.PCG64(np.random.SeedSequence(seeds))

    def below(self, limit: int, shape: int | tuple[int, ...]) -> NDArray[np.int64]:
        """Integers from 0 to limit − 1, all equally likely (to within limit / 2⁶³)."""
        words = self._words.random_raw(int(np.prod(shape))) >> np.uint64(1)
        return (words.astype(np.int64) % limit).reshape(shape)

    def permutation(self, number: int) -> NDArray[np.int64]:
        """The integers below `number` in a random order."""
        return np.argsort(self._words.random_raw(number), kind="stable").astype(np.int64)
