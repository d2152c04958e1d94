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
        self._rng, self.words, self.late = np.random.default_rng(seed), [], []

    def integers(self, low, high, size):
        self.words.append(self._rng.integers(low, high, size))
        return self.words[-1]

    def bytes(self, length):
        self.late.append(self._rng.bytes(length))
        return self.late[-1]


def ideal(tape: Tape, which: int, after: str = "") -> mpmath.mpf:
    """Normal number `which` by Box and Muller, of the bits on a tape, more of them `after` those, and then zeros.

    First come 62 bits of U and of the angle, then the zeros before them; bits that come late are of the only pair.
    """
    heads, zeros = np.asarray(tape.words[0]), np.asarray(tape.words[1]).reshape(2, -1)
    turn, place = divmod(which, heads.shape[1])

    def number(row: int, least: int) -> mpmath.mpf:
        word, coins = int(heads[row, place]), int(zeros[row, place])
        before = (coins & -coins).bit_length() - 1  # coins that fell on tails
        late = "".join(f"{int.from_bytes(part, 'big'):064b}" for part in tape.late[row::2])
        bits = f"1{word >> 10:052b}{late}{after}"
        return mpmath.ldexp(int(bits, 2), 1 - len(bits) - before - least)

    half, octant = int(heads[0, place]) & 1, int(heads[1, place]) & 7
    small = number(0, 2)
    length = mpmath.sqrt(-2 * (mpmath.log(small) if half else mpmath.log1p(-small)))
    across = turn != octant & 1
    angle = mpmath.pi / 4 * number(1, 1)
    sign = -1 if octant & (4 if turn else 2) else 1
    return sign * length * (mpmath.sin(angle) if across else mpmath.cos(angle))


def middle(mean: float, scale: float, z: mpmath.mpf) -> float:
    """What leaves of mean + scale·z: the double nearest to the middle of its cell, whose width is a power of two."""
    width = Fraction(2) ** noise_cells(scale).exponent
    around, steep = Fraction(mean) // width, Fraction(scale) / width
    rest = mpmath.ldexp(int((Fraction(mean) / width - around) * 2**2200), -2200)
    cell = around + int(mpmath.floor(rest + z * steep.numerator / steep.denominator))
    return float((cell + Fraction(1, 2)) * width)


SCALES = [1.5e-280, 1e-150, 1e-9, 0.02, 1.0, 3.0, 1e9, 1e150, 0.9e280]


@pytest.mark.parametrize("scale", SCALES)
def test_the_cell_is_that_of_the_real_number(scale):
    """By the bits that were drawn, in 500 bits: means beside the noise, of next to nothing, and far from it."""
    parts = [0.0, 1 / 3, -2.5e-8, 7.7, -7e9, 2.0**40 / 3, -(2.0**60) / 3, 5e-324 / scale, 1e300 / scale]
    means = [mean for part in parts for mean in 4 * [part * scale] if math.isfinite(mean)]
    tape = Tape(5)
    out = exact_normals(means, scale, tape)
    assert not tape.late  # where doubles do not decide, the bits they had do
    with mpmath.workprec(500):
        for k, mean in enumerate(means):
            ends = [ideal(tape, k, after) for after in ("", "1" * 400)]
            assert {middle(mean, scale, z) for z in ends} == {out[k]}, mean


@pytest.mark.parametrize("scale", SCALES)
def test_a_normal_at_an_edge_is_decided_by_bits_that_are_drawn_late(scale):
    """A mean is chosen so that the sum is at an edge, whatever the first bits were: the next of them puts it aside."""
    width, sides = mpmath.ldexp(1, noise_cells(scale).exponent), set()
    with mpmath.workprec(500):
        for seed in range(12):
            tape = Tape(seed)
            exact_normals([0.0], scale, tape)
            z = scale * ideal(tape, 0, "1")
            mean = float((mpmath.floor(z / width) + 1) * width - z)
            tape = Tape(seed)
            (out,) = exact_normals([mean], scale, tape)
            ends = [middle(mean, scale, ideal(tape, 0, after)) for after in ("", "1" * 400)]
            assert tape.late and ends == [out, out]
            sides.add(out > mean + z)
    assert sides == {False, True}


def test_balls_and_doubles_agree_on_every_draw(monkeypatch):
    """Where doubles are trusted with nothing, the same bits lead to the same cells."""
    means = np.linspace(-40, 40, 400)
    quick = exact_normals(means, 0.7, Tape(8))
    monkeypatch.setattr(room, "_NORMAL", 1.0)
    assert np.array_equal(exact_normals(means, 0.7, Tape(8)), quick)


def test_the_law_is_normal_and_its_tails_are_reached():
    drawn = exact_normals(np.full(200_001, 5.0), 2.0, secure_rng())
    assert stats.kstest((drawn - 5) / 2, "norm").pvalue > 1e-9

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
