"""The number of tries of a search: drawn as a real law says, to the last bit."""

import mpmath
import numpy as np
import pytest
from scipy import stats

from sottovoce.inference.regression.random_stopping import drawn
from sottovoce.privacy.best_of import TRIES, RandomStopping
from sottovoce.privacy.randomness import seeded_rng


class Bits:
    """The bits of given numbers below 1, each of 512 bits, in the order in which eight bytes of them are asked for."""

    def __init__(self, *numbers):
        self._parts = [list(number.to_bytes(64, "big")) for number in numbers]
        self._asked = 0

    def bytes(self, length):
        # The first words of U and V are asked for in turn; what is asked for later is V's, then U's, zeros at the end.
        place, self._asked = self._asked, self._asked + 1
        part = self._parts[place] if place < len(self._parts) else self._parts[-1]
        found, part[:length] = bytes(part[:length]), []
        return found.ljust(length, b"\0")


def expected(tries, u, v):
    """Return K by U and V of 512 bits, with 400 digits."""
    with mpmath.workdps(400):
        gamma = mpmath.mpf(tries.gamma)
        q = 1 - (gamma if tries.law == "geometric" else gamma ** (mpmath.mpf(v) / 2**512))
        return int(mpmath.floor(mpmath.log1p(-mpmath.mpf(u) / 2**512) / mpmath.log(q))) + 1


@pytest.mark.parametrize("law", sorted(TRIES))
@pytest.mark.parametrize("mean", [1.0 + 1e-9, 2.0, 10.0, 1e6])
def test_it_is_the_number_that_long_arithmetic_finds(law, mean):
    """Also far in the tail, where U is so near 1 that a double would be 1."""
    tries, rng = RandomStopping(mean, law), seeded_rng(5)
    for _ in range(20):
        v = int.from_bytes(rng.bytes(8), "big") << 448 | 1 << 440
        for u in (0, int.from_bytes(rng.bytes(8), "big") << 448, (1 << 512) - (1 << 449)):
            numbers = (u,) if law == "geometric" else (u, v)
            assert drawn(tries, Bits(*numbers)) == expected(tries, u, v & ~((1 << 448) - 1) | 1 << 440)


@pytest.mark.parametrize("law", sorted(TRIES))
def test_draws_follow_the_law(law):
    tries, rng = RandomStopping(5.0, law), seeded_rng(7)
    found = np.array([drawn(tries, rng) for _ in range(2000)])
    edges = np.array([1, 2, 3, 4, 6, 9, 14, 25])
    below = np.array([tries.probability(np.arange(1, edge + 1)).sum() for edge in edges])
    cells = np.diff(below, prepend=0.0, append=1.0)
    counts = np.bincount(np.searchsorted(edges, found), minlength=cells.size)
    assert stats.chisquare(counts, 2000 * cells).pvalue > 1e-4


def test_one_try_needs_no_chance():
    assert drawn(RandomStopping(1.0), Bits()) == 1
