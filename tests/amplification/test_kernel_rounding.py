"""Kernels to the last digit: what is said of them is never below the truth, and what they draw is exactly rounded."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.pure import PureProfile
from sottovoce.privacy.randomness import SecureGenerator, secure_rng, seeded_rng
from sottovoce.theory.amplification import (
    FiniteKernel,
    LaplaceIntervalKernel,
    TruncatedGaussianKernel,
    amplify,
    lipschitz_gaussian,
    randomized_response,
)

ENDS = [(0.7, -1.0, 2.0), (3.0, 0.0, 1.0), (0.03, 5.0, 6.0), (1.0, 0.0, 1e-9)]


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(80):
        yield


class Scripted(SecureGenerator):
    """A secure generator of which the bits are known."""

    def __init__(self, word: int) -> None:
        super().__init__()
        self._word = word

    def bytes(self, length: int) -> bytes:
        return self._word.to_bytes(length, "big")


def drawn(rows):
    """The probabilities that are drawn: doubles over their exact sum."""
    exact = [list(map(Fraction, row)) for row in rows]
    return [[x / sum(row) for x in row] for row in exact]


def real(x):
    return mp.mpf(x.numerator) / x.denominator


def spread(rows, epsilon):
    """The largest hockey-stick divergence of two rows."""
    scale = mp.exp(epsilon)
    pairs = itertools.permutations(drawn(rows), 2)
    return max(mp.fsum(max(mp.mpf(0), real(a) - scale * real(b)) for a, b in zip(p, q, strict=True)) for p, q in pairs)


def kernels():
    rng = seeded_rng(11)
    made = [randomized_response(d, e) for d, e in ((2, 1e-12), (2, 0.3), (3, 1.1), (5, 20.0), (2, 690.0))]
    for size in ((2, 2), (3, 4), (4, 3), (2, 9)):
        rows = rng.gamma(0.5, size=size) + 1e-6
        made.append(FiniteKernel(rows / rows.sum(axis=1, keepdims=True)))
        near = 1 / size[1] + 1e-13 * rng.random(size)  # hardly to be told apart: sums of rows matter
        made.append(FiniteKernel(near / near.sum(axis=1, keepdims=True)))
    return made


@pytest.mark.parametrize("kernel", kernels(), ids=lambda k: f"{k.matrix.shape} {k.level:.3g}")
def test_coefficients_of_rows_round_up(kernel):
    rows = drawn(kernel.rows)
    level = max(mp.log(real(a / b)) for p, q in itertools.permutations(rows, 2) for a, b in zip(p, q, strict=True))
    assert level <= kernel.level <= level * (1 + mp.mpf(1e-14)) + 1e-15 * len(rows[0])
    assert 1 - mp.exp(-level) <= kernel.ultra_mixing <= 1
    left = 1 - sum(min(column) for column in zip(*rows, strict=True))
    assert left <= kernel.doeblin <= left + Fraction(1, 10**14)
    for part in (0.0, 1e-9, 0.3, 0.9, 1 - 1e-12, 1.0):
        truth, claim = (
            spread(kernel.rows, kernel.level * part),
            float(kernel.spread(np.array([kernel.level * part]))[0]),
        )
        assert truth <= claim <= truth + mp.mpf(10) ** -14


@pytest.mark.parametrize("epsilon", [700.0, 709.0, 709.9, 745.0, 746.0, 1e4, 1e300])
def test_an_answer_of_next_to_no_privacy_is_made_and_claimed(epsilon):
    kernel = randomized_response(3, epsilon)
    (keep, other, _), *_ = drawn(kernel.rows)
    assert other > 0
    assert mp.log(real(keep / other)) <= kernel.level
    assert kernel.level <= epsilon * (1 + 1e-15) or kernel.level <= 745  # of 5e-324 and half of it
    after = amplify(PureProfile(1e4), kernel)
    assert math.isfinite(after.pure())
    assert after.pure() <= kernel.level * (1 + 1e-12)
    assert kernel.sample(np.arange(3), secure_rng()).tolist() == [0, 1, 2]


@pytest.mark.parametrize("width", [1.0000001, 1.7, 5.0, 12.0, 36.0])
def test_wide_normal_kernels_round_up(width):
    kernel = TruncatedGaussianKernel(0.3, -1.0, -1.0 + 0.3 * width)
    w = real((Fraction(kernel.high) - Fraction(kernel.low)) / Fraction(kernel.scale))
    assert kernel.width >= w
    assert kernel.level >= w**2 / 2
    with mp.workdps(400):
        for part in (0.0, 1e-9, 0.01, 0.3, 0.5, 0.9, 1 - 1e-6, 1 - 1e-12):
            epsilon = part * kernel.level
            place = w / 2 - mp.mpf(epsilon) / w
            far = mp.exp(mp.mpf(epsilon)) * (mp.ncdf(place - w) - mp.ncdf(-w))
            truth = (mp.ncdf(place) - mp.mpf(1) / 2 - far) / (mp.ncdf(w) - mp.mpf(1) / 2)
            claim = float(kernel.spread(np.array([epsilon]))[0])
            assert truth <= claim <= truth + 1e-14 * (1 + epsilon)


def cdf(kernel, centre, x):
    """Pr[output <= x], in real numbers."""
    low, high, scale = mp.mpf(kernel.low), mp.mpf(kernel.high), mp.mpf(kernel.scale)

    def below(y):
        z = (y - centre) / scale
        if isinstance(kernel, TruncatedGaussianKernel):
            return mp.ncdf(z)
        return mp.exp(z) / 2 if z < 0 else 1 - mp.exp(-z) / 2

    x = min(max(x, low), high)
    return (below(x) - below(low)) / (below(high) - below(low))


@pytest.mark.parametrize("made", [TruncatedGaussianKernel, LaplaceIntervalKernel])
@pytest.mark.parametrize(
    ("scale", "low", "high"), [(0.7, -1.0, 2.0), (3.0, 0.0, 1.0), (0.02, 5.0, 6.0), (1.0, 0.0, 1e-9)]
)
def test_a_secure_output_is_the_cell_of_a_real_one(made, scale, low, high):
    kernel = made(scale, low, high)
    step = 2.0 ** (math.frexp(min(scale, high - low))[1] - 25)
    for part, word in itertools.product((0.0, 0.3, 1.0), (0, 1, 2**61 + 12345, 2**63, 2**64 - 1)):
        centre = low + part * (high - low)
        out = float(kernel.sample(centre, Scripted(word)))
        assert low <= out <= high
        # The word comes again and again: U is word / (2⁶⁴ - 1).
        u = mp.mpf(word) / (2**64 - 1)
        edge = math.floor(Fraction(out) / Fraction(step)) * mp.mpf(step)
        near = mp.mpf(2) ** -70
        assert cdf(kernel, mp.mpf(centre), edge) - near <= u <= cdf(kernel, mp.mpf(centre), edge + step) + near


@pytest.mark.parametrize("kernel", [TruncatedGaussianKernel(0.4), LaplaceIntervalKernel(0.4)], ids=lambda k: k.word)
def test_what_leaves_lies_in_public_cells_whatever_went_in(kernel):
    step = 2.0 ** (math.frexp(0.4)[1] - 25)
    for rng in (secure_rng(), seeded_rng(1)):
        out = kernel.sample(np.array([0.1, 1 / 3, 0.7, math.pi / 4]), rng)
        assert np.all((out / step - 0.5) % 1 == 0)
    out = kernel.sample(np.full(2000, 0.8), secure_rng())
    grid = np.linspace(0.0, 1.0, 41)
    truth = np.array([float(cdf(kernel, mp.mpf(0.8), mp.mpf(float(x)))) for x in grid])
    assert np.abs(np.searchsorted(np.sort(out), grid) / 2000 - truth).max() < 0.05  # 2.2 standard units


@pytest.mark.parametrize("lipschitz", [1e-120, 0.3, 1.0, 7.0, 1e100])
def test_couplings_of_normal_noise_round_up(lipschitz):
    for unit in (1e-250, 1e-140, 1e-9, 1.0, 1e120):
        for moved, first, second in ((1.0, 3.0, 4.0), (0.7, 0.1, 0.3), (1.1, 1e-3, 50.0)):
            sizes = [Fraction(x * unit) for x in (moved, first, second)]
            exact = sizes[0] ** 2 / (sizes[1] ** 2 + (sizes[2] / Fraction(lipschitz)) ** 2)
            found = lipschitz_gaussian(*map(float, sizes), lipschitz).mu
            assert Fraction(found) ** 2 >= exact > Fraction(math.nextafter(math.nextafter(found, 0.0), 0.0)) ** 2


@pytest.mark.parametrize("made", [TruncatedGaussianKernel, LaplaceIntervalKernel])
def test_kernels_at_the_ends_of_doubles_are_drawn_and_claimed_or_refused(made):
    ends = [
        (1e-100, 0.0, 1.0),
        (1e150, 0.0, 1e-320),
        (1.0, 0.0, 1e-320),
        (1e99, 0.0, 1.0),
        (1e150, -1e150, 1e150),
        (1e-308, -1e-310, 3e-310),
        (5e-324, 0.0, 1e-322),
    ]
    for scale, low, high in ends:
        kernel = made(scale, low, high)
        assert kernel.dobrushin > 0 < kernel.level
        for rng in (secure_rng(), seeded_rng(1)):
            out = kernel.sample(np.array([low, high]), rng)
            assert np.all((out >= low) & (out <= high))
    for scale, low, high in [(1e200, 0.0, 1e-200), (1e-200, 0.0, 1.0), (1.0, -1e308, 1e308), (1e200, -1e200, 1e200)]:
        with pytest.raises(InvalidValue, match="change their unit"):
            made(scale, low, high)
