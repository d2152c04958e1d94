"""Exact divergences of the example families, against quadrature of their densities."""

import functools
import itertools
import math

import mpmath as mp
import numpy as np
import pytest

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.theory.metric.posterior_pairs import BinomialProportion, ExponentialRate, LaplaceScale, NormalPrecision
from sottovoce.theory.metric.variance_posterior import NormalVariance, log_bessel_k
from tests.privacy.oracle import quad, renyi

# (family, likelihood times prior up to a constant, where the integrals break, two data sets)
CASES = [
    pytest.param(
        ExponentialRate(1.5),
        lambda t, x: len(x) * mp.log(t) - t * (1.5 + sum(x)),
        [0, 0.2, 1, 3, 8, 30],
        [0.2, 1.0, 3.0],
        [0.2, 1.0, 2.2],
        id="exponential",
    ),
    pytest.param(
        LaplaceScale(0.5, 1.0),
        lambda t, x: len(x) * mp.log(t) - t * (1 + sum(abs(v - 0.5) for v in x)),
        [0, 0.2, 1, 3, 8, 30],
        [1.0, -1.0],
        [1.0, -2.0],
        id="laplace",
    ),
    pytest.param(
        NormalPrecision(0.5, 1.0),
        lambda t, x: mp.mpf(len(x)) / 2 * mp.log(t) - t * (1 + sum((v - 0.5) ** 2 for v in x) / 2),
        [0, 0.1, 0.5, 1, 3, 8, 40],
        [1.0, -1.0, 0.2],
        [1.0, -1.5, 0.2],
        id="normal precision",
    ),
    pytest.param(
        NormalVariance(0.5, 0.8),
        lambda v, x: -mp.mpf(len(x)) / 2 * mp.log(v) - sum((u - 0.5) ** 2 for u in x) / (2 * v) - mp.mpf("0.8") * v,
        [0.0001, 0.05, 0.3, 1, 3, 10, 60],
        [1.0, -1.0, 0.2],
        [1.0, -1.5, 0.2],
        id="normal variance",
    ),
    pytest.param(
        BinomialProportion(2.0, 3.0, trials=5),
        lambda t, x: (1 + sum(x)) * mp.log(t) + (2 + 5 * len(x) - sum(x)) * mp.log(1 - t),
        [0, 0.2, 0.5, 0.8, 1],
        [3, 1, 2],
        [1, 1, 2],
        id="binomial",
    ),
]


@pytest.mark.parametrize(("family", "joint", "points", "x", "y"), CASES)
def test_divergences_and_total_variation_are_those_of_the_densities(family, joint, points, x, y):
    def density(data):
        norm = mp.log(quad(lambda t: mp.exp(joint(t, data)), points))
        return functools.cache(lambda t: joint(t, data) - norm)  # every integral asks at the same points

    p, q = density(x), density(y)
    inside = [points[0] + mp.mpf(1e-12), *points[1:-1], points[-1] - mp.mpf(1e-12)]
    for first, second, log_p, log_q in ((x, y, p, q), (y, x, q, p)):
        for order in (1.0, 1.3):
            truth = renyi(log_p, log_q, order, inside)
            assert family.divergence(first, second, order) == pytest.approx(float(truth), rel=2e-7)
    grid = [points[0] + (points[-1] - points[0]) * mp.mpf(i) / 300 for i in range(1, 300)]
    above = [p(t) > q(t) for t in grid]
    (k,) = (k for k, (one, other) in enumerate(itertools.pairwise(above)) if one != other)
    crossing = mp.findroot(lambda t: p(t) - q(t), (grid[k], grid[k + 1]), solver="anderson")
    below = [t for t in points if t < crossing] + [crossing]
    truth = abs(mp.quad(lambda t: mp.exp(p(t)) - mp.exp(q(t)), below))
    assert family.total_variation(x, y) == pytest.approx(float(truth), rel=1e-6)
    assert family.total_variation(y, x) == pytest.approx(family.total_variation(x, y), rel=1e-12)


@pytest.mark.parametrize(("family", "joint", "points", "x", "y"), CASES)
def test_the_largest_log_ratio_is_met_or_infinite(family, joint, points, x, y):
    norms = [mp.log(quad(lambda t: mp.exp(joint(t, data)), points)) for data in (x, y)]
    spread = [1e-6, 1 - 1e-6] if isinstance(family, BinomialProportion) else [1e-6, 1e6]
    for first, second, sign in ((x, y, 1), (y, x, -1)):
        claimed = family.max_log_ratio(first, second)
        seen = max(sign * ((joint(mp.mpf(t), x) - norms[0]) - (joint(mp.mpf(t), y) - norms[1])) for t in spread)
        if math.isinf(claimed):
            assert seen > 10
        else:
            assert claimed == pytest.approx(float(seen), rel=1e-3, abs=1e-3)
            assert seen <= claimed * (1 + 1e-9) + 1e-9


def test_the_divergence_is_infinite_beyond_its_pole_and_only_there():
    family = ExponentialRate(1.0)
    x, y = [0.0], [4.0]  # rates 1 and 5: x against y is finite below the order 1 + 1/4
    assert math.isfinite(family.divergence(x, y, 1.249))
    assert math.isinf(family.divergence(x, y, 1.25))
    assert math.isfinite(family.divergence(y, x, 500.0))
    variance = NormalVariance(0.0, 1.0)
    assert math.isinf(variance.divergence([1.0], [3.0], 1.125))
    assert math.isfinite(variance.divergence([1.0], [3.0], 1.12))


@pytest.mark.parametrize(
    ("order", "z"), [(0.0, 1e-6), (0.5, 2.0), (-3.0, 0.01), (40.0, 0.5), (700.0, 3.0), (5.0, 900.0)]
)
def test_the_bessel_function_overflows_nowhere(order, z):
    with mp.workdps(30):
        truth = mp.log(mp.besselk(order, mp.mpf(z)))
    assert log_bessel_k(order, z) == pytest.approx(float(truth), rel=1e-12, abs=1e-12)


def test_a_thousand_records_are_no_harder():
    x = np.random.default_rng(0).normal(size=1000)
    y = x.copy()
    y[0] = 4.0
    near, wide = NormalPrecision(0.0, 1.0), NormalVariance(0.0, 1.0)
    # With so many records both priors are forgotten and the two divergences are one.
    assert wide.divergence(x, y) == pytest.approx(near.divergence(x, y), rel=0.02)
    assert wide.total_variation(x, y) == pytest.approx(near.total_variation(x, y), rel=0.01)


def test_lemma_6_as_stated_fulfils_no_assumption():
    """With v ~ Exp(λ) the prior mass of L(v) = 1/(2v) <= L falls below 1 - e^(-cL) for small L, whatever c."""
    for c in (1e-3, 1.0, 10.0):
        small = min(1e-2, 1e-4 / c)
        assert math.exp(-1 / (2 * small)) < -math.expm1(-c * small)
    # Nor is there one constant for all v: the loss between two tables is unbounded, and ours has no L without a limit.
    family, limits = NormalVariance(0.0, 1.0), (1.0, 1e-3, 1e-6)
    assert family.max_log_ratio([1.0], [3.0]) == math.inf
    assert [family.bounded(v).lipschitz * v for v in limits] == pytest.approx([0.5] * 3)
    # With 1/v ~ Exp(λ) it is 1 - e^(-2λL): the assumption holds with c = 2λ.
    assert all(-math.expm1(-2 * L) >= -math.expm1(-2.0 * L) for L in (0.01, 1.0, 10.0))


@pytest.mark.parametrize(("mean", "limit"), [(0.0, 0.5), (0.3, 2.0), (-2.5, 0.1)])
def test_cut_off_at_a_variance_lemma_6_has_the_constant_of_its_roughest_pair(mean, limit):
    """|log p(x|v) − log p(y|v)| over ρ(x, y) for v ≥ the limit, by brute force: never above L, and as good as L."""
    numbers = np.concatenate([np.linspace(-40, 40, 401), [1e4, -1e4, 1e-4, -1e-4, 0.0]])
    x, y = np.meshgrid(numbers, numbers)
    apart = np.abs(x**2 - y**2) + 2 * np.abs(x - y)  # Lemma 6's ρ
    moved = np.abs((x - mean) ** 2 - (y - mean) ** 2) / (2 * limit)  # largest at the least variance
    ratio = float(np.max(moved[apart > 0] / apart[apart > 0]))
    for family in (NormalVariance(mean, 1.0), NormalPrecision(mean, 1.0)):
        claimed = family.bounded(limit).lipschitz
        assert ratio <= claimed * (1 + 1e-9)
        assert ratio >= 0.99 * claimed


def test_equal_statistics_give_one_posterior():
    family = BinomialProportion(1.0, 1.0)
    assert family.divergence([0, 1], [1, 0], 7.0) == 0
    assert family.profile([0, 1], [1, 0]).delta(0.0) == 0
    assert family.max_log_ratio([0, 1], [1, 0]) == 0
    assert NormalVariance(0.0, 1.0).total_variation([1.0, 2.0], [2.0, 1.0]) == 0


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ExponentialRate(0.0), InvalidValue, "rate must be > 0"),
        (lambda: ExponentialRate(1.0).divergence([-1.0], [1.0]), InvalidData, ">= 0"),
        (lambda: ExponentialRate(1.0).divergence([1.0], [1.0, 2.0]), InvalidData, "n is public"),
        (lambda: ExponentialRate(1.0).divergence([1.0], [math.nan]), InvalidData, "finite"),
        (lambda: ExponentialRate(1.0).divergence(["a"], ["b"]), InvalidData, "one column of numbers"),
        (lambda: ExponentialRate(1.0).divergence([1.0], [2.0], 0.5), InvalidValue, "order must be >= 1"),
        (lambda: ExponentialRate(1.0).bounded(0.0), InvalidValue, "limit must be > 0"),
        (lambda: BinomialProportion(1.0, 1.0, trials=0), InvalidValue, "trials"),
        (lambda: BinomialProportion(1.0, 1.0).divergence([2], [0]), InvalidData, "between 0 and 1"),
        (lambda: BinomialProportion(1.0, 1.0).divergence([0.5], [0]), InvalidData, "whole numbers"),
        (lambda: BinomialProportion(1.0, 1.0).bounded(0.5), InvalidValue, "limit must be < 0.5"),
        (lambda: NormalVariance(0.0, 1.0).divergence([0.0, 0.0], [1.0, 0.0]), InvalidData, "no distribution"),
        (lambda: NormalVariance(0.0, 1.0).bounded(0.0), InvalidValue, "limit must be > 0"),
    ],
)
def test_what_makes_no_sense_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()
