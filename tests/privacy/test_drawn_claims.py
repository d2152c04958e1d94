"""Claims at parameters that are drawn, from the least doubles up to the largest: never below exact oracles."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import mpmath as mp
import pytest

from sottovoce.privacy.composition import compose
from sottovoce.privacy.concentrated import RenyiProfile
from sottovoce.privacy.discrete_gaussian import DiscreteGaussianProfile
from sottovoce.privacy.laplace import LaplaceProfile
from sottovoce.privacy.promises import ApproxDP, MaxSuccess, PureDP
from sottovoce.privacy.pure import ApproxProfile, BoundedRangeProfile, PureProfile
from sottovoce.privacy.risk import advantage, success
from sottovoce.privacy.subsampled import SubsampledProfile
from sottovoce.privacy.subsampling import subsampled_epsilon
from sottovoce.theory.metric.distinguishability import best_guess
from sottovoce.theory.metric.networks import network_privacy
from sottovoce.theory.metric.posterior_pairs import BinomialProportion, ExponentialRate, LaplaceScale, NormalPrecision

LEAST = 5e-324


@pytest.fixture
def draw():
    return random.Random(20)


def size(draw, low=-320.0, high=3.0):
    """Return a number of any order of magnitude."""
    return max(10 ** draw.uniform(low, high), LEAST)


def share(draw):
    """Return a probability, near nothing or near one as often as between."""
    some = draw.choice([draw.random(), 10 ** draw.uniform(-320, 0), 1 - 10 ** draw.uniform(-15, 0)])
    return min(max(some, LEAST), 1 - 2.0**-53)


def test_no_delta_below_its_own_has_an_epsilon(draw):
    """The logarithms of a δ and of the double below it are often the same double."""
    for _ in range(30):
        level, delta = size(draw), share(draw)
        profile, less = ApproxProfile(level, delta), math.nextafter(delta, 0.0)
        assert profile.epsilon(delta) == level
        assert profile.epsilon([less, delta]).tolist() == [math.inf, level]


def test_the_chances_that_promises_leave_round_up(draw):
    with mp.workdps(400):
        for level in [LEAST, 1e-323, 2.5e-315, *(size(draw, -320, 2) for _ in range(60))]:
            delta, chance = share(draw), draw.choice([0.0, LEAST, 2e-315, share(draw)])
            e, d, a = map(mp.mpf, (level, delta, chance))
            assert advantage(PureDP(level)) >= mp.tanh(e / 2)
            assert advantage(ApproxDP(level, delta)) >= d + (1 - d) * mp.tanh(e / 2)
            pure = min(mp.mpf(1), mp.exp(e) * a, 1 - mp.exp(-e) * (1 - a))
            both = min(mp.mpf(1), mp.exp(e) * a + d, 1 - mp.exp(-e) * (1 - d - a))
            for claim, truth in ((PureDP(level), pure), (PureProfile(level), pure), (ApproxDP(level, delta), both)):
                found = success(claim, chance)
                assert found >= truth
                assert found <= truth * (1 + 1e-12) + 4 * mp.mpf(LEAST) or not isinstance(claim, PureDP)


def test_the_advantage_that_a_success_leaves_is_exact(draw):
    for _ in range(100):
        low = draw.uniform(0.001, 0.999)
        high = min(low * (1 + 10 ** draw.uniform(-15, 0)), 1 - 2.0**-53)
        b, s = Fraction(low), Fraction(high)
        if low < high:
            exact = (s - b) / min(s + b, 2 - s - b)
            assert exact <= Fraction(advantage(MaxSuccess(high, low))) <= exact * (1 + Fraction(1, 2**52))


def test_curves_round_up_where_half_a_gap_is_no_double():
    with mp.workdps(700):
        for level, epsilon in ((4.76881e-318, 6.0383e-319), (1.5e-323, 0.0), (2.5e-323, 5e-324), (1e-323, 5e-324)):
            gap = mp.mpf(epsilon) - mp.mpf(level)
            window = 2 * mp.log(-mp.expm1(gap / 2)) - mp.log(-mp.expm1(-mp.mpf(level)))
            assert LaplaceProfile(1.0, level).log_delta(epsilon) >= mp.log(-mp.expm1(gap / 2))
            assert BoundedRangeProfile(level).log_delta(epsilon) >= window


def test_lines_of_discrete_gaussian_noise_round_up(draw):
    for scale, move, order in ((7.486766445033267, 7, 1.011335049378462), (2.7888910884167637, 2, 17.870447633092827)):
        profile = DiscreteGaussianProfile(scale, move)
        with mp.workdps(60):
            v, rate = mp.mpf(scale) ** 2, mp.mpf(order)
            off = (1 - rate) * move
            off -= mp.nint(off)
            places = range(-int(30 * scale), int(30 * scale) + 1)
            ratio = mp.fsum(mp.exp(-((k - off) ** 2) / (2 * v)) for k in places)
            ratio /= mp.fsum(mp.exp(-mp.mpf(k * k) / (2 * v)) for k in places)
            truth = rate * move**2 / (2 * v) + mp.log(ratio) / (rate - 1)
            assert truth <= profile.renyi(order) <= truth * (1 + mp.mpf(1e-13))


def test_the_distance_that_a_divergence_allows_rounds_up(draw):
    for _ in range(60):
        order, value = 1 + 10 ** draw.uniform(-6, 9), 10 ** draw.uniform(-16, 1.5)
        profile = RenyiProfile((order,), (value,))
        with mp.workdps(60):
            truth = mp.log(1 - mp.exp(-mp.mpf(value))) / 2
            assert abs(profile.log_delta(0.0) - truth) < 1e-13 or profile.log_delta(0.0) < truth - 1e-9
            if abs(profile.log_delta(0.0) - truth) < 1e-13:
                assert profile.log_delta(0.0) >= truth


def test_divergences_of_a_part_round_up(draw):
    for _ in range(100):
        rate, value, order = share(draw), size(draw, -320, 1), draw.choice([1.0, 1 + 1e-9, 1.5, 2.0, 10.0])
        with mp.workdps(700):
            q, r, gap = mp.mpf(rate), mp.mpf(value), mp.mpf(order) - 1
            truth = mp.log1p(q * mp.expm1(gap * r)) / gap if gap else q * r
            found = SubsampledProfile(RenyiProfile((order,), (value,)), rate).renyi(order)
            assert truth <= found <= truth * (1 + mp.mpf(3e-12)) + 4 * mp.mpf(LEAST)
            level = mp.log1p(q * mp.expm1(r))
            assert level <= subsampled_epsilon(value, rate) <= level * (1 + mp.mpf(1e-14)) + 4 * mp.mpf(LEAST)


def test_chords_between_the_least_doubles_round_up(draw):
    for _ in range(100):
        first = 1 + 10 ** draw.uniform(-6, 1)
        last, low = first + 10 ** draw.uniform(-5, 1), size(draw, -323, 2)
        orders, values = (first, last), (low, low * draw.uniform(1, 2))
        order = min(max(first + (last - first) * draw.random(), first), last)
        a, b, g = (Fraction(x) - 1 for x in (first, last, order))
        start, end = a * Fraction(values[0]), b * Fraction(values[1])
        exact = min((start + (end - start) * (g - a) / (b - a)) / g, Fraction(values[1]))
        assert Fraction(float(RenyiProfile(orders, values).renyi(order))) >= exact
    assert RenyiProfile((2.0, 3.0), (1e308, 1.7e308)).renyi(2.5) >= 1e308
    assert RenyiProfile((2.0, 3.0), (0.0, 0.0)).renyi(2.5) == 0


def test_metric_privacy_rounds_up(draw):
    for _ in range(40):
        x, y = ([draw.uniform(-9, 9) for _ in range(3)] for _ in range(2))
        cut = draw.uniform(1e-9, 0.49)
        pairs = [(Fraction(a), Fraction(b)) for a, b in zip(x, y, strict=True)]
        gaps, squares = (sum(abs(a**k - b**k) for a, b in pairs) for k in (1, 2))
        binomial, precision = BinomialProportion(1.0, 1.0).bounded(cut), NormalPrecision(0.3, 1.0).bounded(cut)
        assert Fraction(LaplaceScale(0.0, 1.0).bounded(cut).lipschitz) >= 1 / Fraction(cut)
        with mp.workdps(60):
            assert binomial.lipschitz >= mp.log(1 / mp.mpf(cut) - 1)
            assert network_privacy(((),), cut).lipschitz >= mp.log(1 / mp.mpf(cut) - 1)
        for claim, distance in ((binomial, gaps), (precision, squares + 2 * gaps)):
            exact = 2 * Fraction(claim.lipschitz) * distance
            assert exact <= Fraction(claim.profile(x, y).pure()) <= exact * (1 + Fraction(1, 2**50))
        step = draw.uniform(0, 9)
        assert Fraction(binomial.within(step).pure()) >= 2 * Fraction(binomial.lipschitz) * Fraction(step)
        profile = PureProfile(draw.uniform(0, 3))
        assert Fraction(best_guess(profile)) >= (1 + Fraction(profile.delta(0.0))) / 2


@pytest.mark.parametrize("size", [1.0, 1e8, 1e12, 1e16])
def test_data_sets_with_nearly_the_same_sum_are_told_apart(size):
    """In doubles their sums were the same, and they were said to be told apart by nothing."""
    x, y, family = [size, 0.1, 0.0], [size, 0.1, 0.05], ExponentialRate(0.7)
    p, q = (Fraction(0.7) + sum(map(Fraction, records)) for records in (y, x))
    with mp.workdps(80):
        ratio = mp.mpf(p.numerator) / p.denominator / (mp.mpf(q.numerator) / q.denominator)
        assert family.max_log_ratio(y, x) >= 4 * mp.log(ratio)
        assert family.divergence(y, x) >= 4 * (mp.log(ratio) + 1 / ratio - 1) * (1 - mp.mpf(1e-12))
    assert family.total_variation(x, y) > 0
    assert family.profile(x, [0.0, size, 0.1]).pure() == 0


def test_parts_cost_the_same_in_any_order(draw):
    parts = [
        PureProfile(0.16017151134102478),
        PureProfile(3.5989053898035968),
        LaplaceProfile(2.0),
        ApproxProfile(0.1, 1e-9),
    ]
    first = compose(parts)
    for _ in range(2):
        draw.shuffle(parts)
        again = compose(parts)
        assert again.delta([0.0, 0.1]).tolist() == first.delta([0.0, 0.1]).tolist()
        assert compose(parts[:3]).renyi(2.0) == compose(parts[2::-1]).renyi(2.0)
