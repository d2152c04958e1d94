"""Noise is exactly rounded: the cell that leaves is that of a real number, which mpmath finds by the same bits."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from sottovoce.mechanisms import exact_normals as room
from sottovoce.mechanisms.exact_normals import exact_normals, noise_cells
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.randomness import secure_rng, seeded_rng


class Tape:
    """A source of bits that can be played again, and that keeps what it gave."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def integers(self, low, high, size):
        return self._rng.integers(low, high, size)

    def bytes(self, length):
        return self._rng.bytes(length)


def by_mpmath(uniforms, place, which, mean, scale, width):
    """The cell of mean + scale·z, z by Box and Muller from the bits on the tape and zeros after them."""
    mpmath.mp.dps = 80

    def number(words, exponents):
        return (1 + mpmath.mpf(int(words[place])) / 2**52) / mpmath.mpf(2) ** int(exponents[place])

    small = number(uniforms.words, uniforms.exponents)
    length = mpmath.sqrt(-2 * mpmath.log(small if uniforms.low[place] else 1 - small))
    angle = mpmath.pi / 4 * number(uniforms.angle_words, uniforms.angle_exponents)
    octant = int(uniforms.octants[place])
    pair = [mpmath.cos(angle), mpmath.sin(angle)]
    if octant & 1:
        pair.reverse()
    sign = -1 if octant & (4 if which else 2) else 1
    return mpmath.floor((mpmath.mpf(mean) + mpmath.mpf(scale) * sign * length * pair[which]) / mpmath.mpf(width))


@pytest.mark.parametrize(("mean", "scale"), [(0.0, 1.0), (1 / 3, 0.02), (-7e9, 3.0), (1e6, 1e-9), (2.5e-300, 1e9)])
def test_the_cell_is_that_of_the_real_number(mean, scale):
    size = 60
    out = exact_normals(np.full(size, mean), scale, Tape(5))
    uniforms = room._Uniforms.draw(Tape(5), size // 2)
    width = 2.0 ** noise_cells(scale).exponent
    for k in range(size):
        cell = by_mpmath(uniforms, k % 30, k // 30, mean, scale, width)
        assert float((Fraction(int(cell)) + Fraction(1, 2)) * Fraction(width)) == out[k], k


def test_balls_and_doubles_agree_on_every_draw(monkeypatch):
    """Where doubles are trusted with nothing, the same bits lead to the same cells."""
    means = np.linspace(-40, 40, 400)
    quick = exact_normals(means, 0.7, Tape(8))
    monkeypatch.setattr(room, "_NORMAL", 1.0)
    assert np.array_equal(exact_normals(means, 0.7, Tape(8)), quick)


def test_a_normal_at_an_edge_is_decided_by_bits_that_are_drawn_late(monkeypatch):
    """An octant's first angle and a chosen mean put the number on an edge up to 2⁻⁵²: only more bits can tell."""
    uniforms = room._Uniforms.draw(Tape(3), 1)
    monkeypatch.setattr(room._Uniforms, "draw", classmethod(lambda cls, rng, pairs: uniforms))
    z = by_mpmath(uniforms, 0, 0, 0.0, 2.0**60, 1.0) / mpmath.mpf(2) ** 60
    width = mpmath.mpf(2) ** noise_cells(1.0).exponent
    mean = float(mpmath.ceil(z / width) * width - z)  # the sum lies at an edge, as near as doubles can say

    class Late:
        def __init__(self, bit):
            self.bit, self.asked = bit, 0

        def bytes(self, length):
            self.asked += 1
            return self.bit * length

    sides = [Late(b"\x00"), Late(b"\xff")]
    found = [exact_normals([mean], 1.0, side)[0] for side in sides]
    assert all(side.asked >= 2 for side in sides)
    assert abs(found[0] - found[1]) <= float(width)
    assert abs(found[0] - (mean + float(z))) <= float(width)


def test_the_law_is_normal_and_its_tails_are_reached():
    drawn = exact_normals(np.full(200_001, 5.0), 2.0, secure_rng())
    assert stats.kstest((drawn - 5) / 2, "norm").pvalue > 1e-6

    class Deep(Tape):
        """Sixty, or six hundred, zeros before the first one of U: once in 2⁶⁰ releases."""

        def __init__(self, zeros):
            super().__init__(1)
            self.zeros, self.calls = zeros, 0

        def integers(self, low, high, size):
            self.calls += 1
            if self.calls == 1:  # the words of U and of the angle; then how many zeros come before them
                return np.ones(size, dtype=np.int64)
            zeros, self.zeros = min(self.zeros, 62), max(self.zeros - 62, 0)
            return np.full(size, 1 << zeros if zeros < 62 else 0)

    for zeros in (58, 600):
        far = float(np.linalg.norm(exact_normals(np.zeros(2), 1.0, Deep(zeros))))
        assert math.isclose(far, math.sqrt(2 * (zeros + 2) * math.log(2)), rel_tol=1e-4)


def test_seeded_noise_uses_the_same_cells_and_odd_numbers_are_refused():
    for rng in (seeded_rng(1), secure_rng()):
        steps = exact_normals(np.zeros((3, 5)), 0.3, rng) / 2.0 ** noise_cells(0.3).exponent
        assert steps.shape == (3, 5)
        assert np.array_equal(steps % 1, np.full((3, 5), 0.5))
    assert exact_normals(np.zeros(0), 1.0, secure_rng()).size == 0
    for mean, scale in ((0.0, 0.0), (0.0, math.inf), (0.0, math.nan), (0.0, -1.0), (math.nan, 1.0), (math.inf, 1.0)):
        with pytest.raises(InvalidValue):
            exact_normals([mean], scale, secure_rng())
