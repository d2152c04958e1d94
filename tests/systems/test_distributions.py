"""Distributions against mpmath, scipy.stats and their own definitions."""

import json
import tracemalloc

import mpmath
import numpy as np
import pytest
from scipy import stats

from sottovoce.mechanisms.conjugate import (
    Beta,
    Dirichlet,
    DirichletMixture,
    Distribution,
    Gamma,
    Mixture,
    Normal,
    NormalVector,
    Truncated,
)
from sottovoce.mechanisms.conjugate.distributions.mixtures import Mixtures
from sottovoce.mechanisms.conjugate.distributions.truncated_dirichlet import TruncatedDirichlet
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.randomness import seeded_rng

SCALARS = [
    (Beta(0.6, 2.5), stats.beta(0.6, 2.5)),
    (Beta(40.0, 3.0), stats.beta(40.0, 3.0)),
    (Gamma(0.7, 2.0), stats.gamma(0.7, scale=0.5)),
    (Gamma(30.0, 4.0), stats.gamma(30.0, scale=0.25)),
    (Normal(-1.0, 2.5), stats.norm(-1.0, np.sqrt(2.5))),
]


@pytest.mark.parametrize(("ours", "theirs"), SCALARS, ids=lambda d: str(d)[:12])
def test_scalar_families_agree_with_scipy(ours, theirs):
    x = theirs.ppf([0.03, 0.4, 0.9])
    assert ours.mean == pytest.approx(theirs.mean())
    assert ours.variance == pytest.approx(theirs.var())
    np.testing.assert_allclose(ours.log_density(x), theirs.logpdf(x), rtol=1e-10)
    np.testing.assert_allclose(ours.cdf(x), theirs.cdf(x), rtol=1e-12)
    np.testing.assert_allclose(ours.sf(x), theirs.sf(x), rtol=1e-12)
    np.testing.assert_allclose(ours.ppf([0.03, 0.4, 0.9]), x, rtol=1e-10)
    np.testing.assert_allclose(ours.isf([0.03, 0.4]), theirs.isf([0.03, 0.4]), rtol=1e-10)
    np.testing.assert_allclose(ours.interval(0.9), theirs.interval(0.9), rtol=1e-10)


PAIRS = [
    (Beta(2.0, 3.0), Beta(2.5, 2.0), (0, 1)),
    (Gamma(2.0, 3.0), Gamma(2.5, 2.5), (0, mpmath.inf)),
    (Gamma(2.0, 3.0), Gamma(2.0, 3.5), (0, mpmath.inf)),
    (Normal(0.5, 1.0), Normal(-0.2, 1.3), (-mpmath.inf, mpmath.inf)),
]


def mp_density(d, x):
    if isinstance(d, Beta):
        return x ** (d.alpha - 1) * (1 - x) ** (d.beta - 1) / mpmath.beta(d.alpha, d.beta)
    if isinstance(d, Gamma):
        return mpmath.mpf(d.rate) ** d.shape * x ** (d.shape - 1) * mpmath.exp(-d.rate * x) / mpmath.gamma(d.shape)
    return mpmath.npdf(x, d.centre, mpmath.sqrt(d.spread))


@pytest.mark.parametrize(("p", "q", "support"), PAIRS, ids=str)
@pytest.mark.parametrize("order", [1.0, 1.5, 3.0])
def test_renyi_divergence_against_mpmath(p, q, support, order):
    if order == 1:
        exact = mpmath.quad(lambda x: mp_density(p, x) * mpmath.log(mp_density(p, x) / mp_density(q, x)), support)
        assert p.kl(q) == pytest.approx(float(exact), rel=1e-9)
    else:
        exact = mpmath.quad(lambda x: mp_density(p, x) ** order * mp_density(q, x) ** (1 - order), support)
        exact = mpmath.log(exact) / (order - 1)
    assert p.renyi(q, order) == pytest.approx(float(exact), rel=1e-8)


def test_renyi_is_infinite_exactly_outside_the_normalizable_set():
    assert np.isinf(Beta(1.0, 2.0).renyi(Beta(2.0, 1.0), 2.0))
    assert np.isfinite(Beta(1.0, 2.0).renyi(Beta(2.0, 1.0), 1.999))
    assert np.isinf(Gamma(1.0, 1.0).renyi(Gamma(1.0, 2.0), 2.0))
    assert np.isfinite(Gamma(1.0, 1.0).renyi(Gamma(1.0, 2.0), 1.99))
    assert np.isinf(Normal(0.0, 2.0).renyi(Normal(0.0, 1.0), 2.0))


def test_log_partition_gives_the_textbook_renyi_divergence():
    order = 1.7
    for p, q, mix in [
        (Beta(2.0, 3.0), Beta(2.5, 2.0), lambda s, t: Beta(s * 2.0 + t * 2.5, s * 3.0 + t * 2.0)),
        (Gamma(2.0, 3.0), Gamma(2.5, 2.5), lambda s, t: Gamma(s * 2.0 + t * 2.5, s * 3.0 + t * 2.5)),
        (
            Dirichlet([2.0, 1.0, 3.0]),
            Dirichlet([1.0, 2.0, 3.0]),
            lambda s, t: Dirichlet([s * 2.0 + t, s + t * 2.0, 3.0]),
        ),
    ]:
        mixed = mix(order, 1 - order).log_partition
        textbook = (mixed - order * p.log_partition) / (order - 1) + q.log_partition
        assert p.renyi(q, order) == pytest.approx(textbook, rel=1e-10)
    same = Normal(0.5, 2.0), Normal(1.5, 2.0)
    mixed = Normal(order * 0.5 + (1 - order) * 1.5, 2.0).log_partition
    textbook = (mixed - order * same[0].log_partition) / (order - 1) + same[1].log_partition
    assert same[0].renyi(same[1], order) == pytest.approx(textbook)


def test_dirichlet_agrees_with_scipy_and_its_marginals():
    d, theirs = Dirichlet([0.7, 2.0, 4.0]), stats.dirichlet([0.7, 2.0, 4.0])
    np.testing.assert_allclose(d.mean, theirs.mean())
    np.testing.assert_allclose(d.variance, theirs.var())
    assert d.log_density([0.2, 0.3, 0.5]) == pytest.approx(theirs.logpdf([0.2, 0.3, 0.5]))
    np.testing.assert_allclose(d.interval(0.9)[0][1], d.marginal(1).interval(0.9)[0])
    assert d.kl(d) == 0
    assert d.renyi(Dirichlet([1.7, 1.0, 4.0]), 2.0) == pytest.approx(Beta(0.7, 2.0).renyi(Beta(1.7, 1.0), 2.0))


def test_normal_vector_sums_over_coordinates():
    p, q = NormalVector([0.0, 1.0], 2.0), NormalVector([1.0, 1.0], 3.0)
    each = [Normal(a, 2.0).renyi(Normal(b, 3.0), 1.5) for a, b in ((0.0, 1.0), (1.0, 1.0))]
    assert p.renyi(q, 1.5) == pytest.approx(sum(each))
    assert p.log_density([0.3, 0.4]) == pytest.approx(
        Normal(0.0, 2.0).log_density(0.3) + Normal(1.0, 2.0).log_density(0.4)
    )
    assert p.sample(5, seeded_rng(0)).shape == (5, 2)


@pytest.mark.parametrize(
    ("base", "low", "high"),
    [
        (Beta(0.5, 9.0), 0.05, 0.95),
        (Beta(300.0, 2.0), 0.05, 0.95),
        (Beta(1.0, 20_000.0), 0.05, 0.95),
        (Beta(0.6, 20_000.0), 0.05, 0.95),
        (Beta(20_000.0, 1.0), 0.05, 0.95),
        (Gamma(2000.0, 1.0), 0.5, 3.0),
        (Normal(0.0, 1e-4), 0.5, 1.0),
    ],
    ids=str,
)
def test_truncated_draws_follow_the_truncated_law_even_in_far_tails(base, low, high):
    kept = Truncated(base, low, high)
    draws = kept.sample(100_000, seeded_rng(7))
    assert draws.min() >= low
    assert draws.max() <= high
    # An oracle that never forms the mass: the density on a fine mesh, heaped up.
    near = low if base.mean < low else high
    scale = 1 / abs(base.concave_slope(near)) if not low < base.mean < high else (high - low) / 40
    offsets = np.linspace(0, min(60 * scale, high - low), 200_001)
    mesh = near + offsets if near == low else near - offsets[::-1]
    if low < base.mean < high:
        mesh = np.linspace(low, high, 200_001)
    height = np.exp(base.log_density(mesh) - np.max(base.log_density(mesh)))
    area = np.concatenate([[0.0], np.cumsum((height[1:] + height[:-1]) / 2)])
    oracle = stats.kstest(draws, lambda x: np.interp(x, mesh, area / area[-1]))
    assert oracle.pvalue > 1e-3 / 7
    assert kept.mean == pytest.approx(draws.mean(), abs=5 * draws.std() / np.sqrt(draws.size) + 1e-12)
    np.testing.assert_allclose(kept.cdf(kept.ppf([0.2, 0.7])), [0.2, 0.7], atol=1e-3)


def test_truncated_density_and_divergence():
    far = Truncated(Beta(1.0, 20_000.0), 0.05, 0.95)  # its mass is about e^-1026
    grid = 0.05 + np.linspace(0, 0.003, 20_001)
    assert np.trapezoid(np.exp(far.log_density(grid)), grid) == pytest.approx(1.0, abs=1e-4)
    near, flat = Truncated(Beta(3.0, 2.0), 0.2, 0.7), Truncated(Beta(1.0, 1.0), 0.2, 0.7)
    grid = np.linspace(0.2, 0.7, 20_001)
    p = np.exp(near.log_density(grid))
    assert near.kl(flat) == pytest.approx(np.trapezoid(p * np.log(p * 0.5), grid), rel=1e-4)
    assert near.renyi(flat, 2.0) == pytest.approx(np.log(np.trapezoid(p**2 * 0.5, grid)), rel=1e-4)
    assert near.renyi(flat, 1.0) == near.kl(flat)
    assert near.sf(0.5) == pytest.approx(1 - near.cdf(0.5))


def marginal(alpha, floor, k, grid):
    """The distribution function of θ_k under three categories: two of them share the rest by a Beta integral."""
    others = [a for i, a in enumerate(alpha) if i != k]
    rest = np.maximum(1 - grid, 2 * floor)
    # The upper tail is the lower one of the other category: on ARM SciPy's own takes a hundred times as long.
    share, other = stats.beta(*others), stats.beta(*others[::-1])
    with np.errstate(divide="ignore"):
        height = (alpha[k] - 1) * np.log(grid) + (sum(others) - 1) * np.log(rest)
        ends = floor / rest, 1 - floor / rest
        below, above = np.diff(share.cdf(ends), axis=0)[0], np.diff(other.cdf(ends), axis=0)[0]
        height += np.log(np.maximum(below, above))
    height = np.exp(height - height.max())
    area = np.append(0.0, np.cumsum((height[1:] + height[:-1]) / 2 * np.diff(grid)))
    return area / area[-1]


@pytest.mark.parametrize(
    ("alpha", "floor"),
    [
        ([1.0, 1.0, 1.0], 0.1),
        ([0.6, 5.0, 9.0], 0.05),
        ([1.0, 400.0, 600.0], 0.1),
        ([0.2, 0.5, 0.9], 0.001),
        ([1.0, 3.0, 5e3], 0.01),
        ([2.0, 2.0, 2.0], 0.33),
    ],
    ids=str,
)
def test_truncated_dirichlet_has_the_marginals_of_its_density(alpha, floor):
    draws = TruncatedDirichlet(alpha, floor).sample(20_000, seeded_rng(11))
    assert draws.min() >= floor
    np.testing.assert_allclose(draws.sum(axis=1), 1.0)
    for k in range(3):
        body = np.linspace(max(floor, draws[:, k].min() - 0.01), min(1 - 2 * floor, draws[:, k].max() + 0.01), 8_001)
        grid = np.union1d(body, np.clip(floor * np.geomspace(1, 10, 4_001), floor, 1 - 2 * floor))
        law = marginal(alpha, floor, k, grid)
        assert stats.kstest(draws[:, k], lambda x, grid=grid, law=law: np.interp(x, grid, law)).pvalue > 1e-3


@pytest.mark.parametrize("alpha", [[2.0, 3.0, 4.0, 5.0], [0.3, 0.4, 0.5, 0.6], [0.5, 1.5, 0.7, 3.0]], ids=str)
def test_truncated_dirichlet_follows_plain_rejection(alpha):
    draws = TruncatedDirichlet([alpha, alpha[::-1]], 0.03).sample(10_000, seeded_rng(5))
    plain = np.random.default_rng(6).dirichlet(alpha, 200_000)
    plain = plain[plain.min(axis=1) >= 0.03]
    assert len(plain) > 1000
    for k in range(4):
        assert stats.ks_2samp(draws[:, 0, k], plain[:, k]).pvalue > 1e-3
        assert stats.ks_2samp(draws[:, 1, 3 - k], plain[:, k]).pvalue > 1e-3


@pytest.mark.parametrize(
    ("alpha", "floor"),
    [([5000.0] * 20, 0.01), ([1.0] * 40 + [1e6], 0.001), ([1.0] * 50, 0.019), ([1.0] * 19 + [1e5], 0.0499)],
    ids=("peaked", "one large", "tight", "deep"),
)
def test_truncated_dirichlet_keeps_a_share_of_its_proposals_wherever_it_lies(alpha, floor):
    law = TruncatedDirichlet(alpha, floor)
    _, kept = law._propose(np.zeros(1, dtype=int), 2000, seeded_rng(3))
    assert kept.mean() > 0.3 / np.sqrt(len(alpha))


@pytest.mark.parametrize(
    ("alpha", "floor"),
    [([1e7] * 3, 0.1), ([1e9] * 3, 0.333333), ([1e-3, 1e-3, 1e9], 0.3333), ([1e12, 1e12, 1e6], 1e-9), ([1e6] * 9, 0.1)],
)
def test_truncated_dirichlet_keeps_a_share_of_its_proposals_beside_very_many_records(alpha, floor):
    """A rate off by a small part of itself is many deviations off, and would keep none in a lifetime."""
    _, kept = TruncatedDirichlet(np.array(alpha), floor)._propose(np.zeros(1, dtype=int), 4000, seeded_rng(3))
    assert kept.mean() > 0.05


def test_truncated_dirichlet_mass_matches_the_regularised_beta_function():
    law = TruncatedDirichlet([2.0, 30.0], 0.1)
    exact = stats.beta(2.0, 30.0)
    mass = np.log(exact.cdf(0.9) - exact.cdf(0.1)) + Beta(2.0, 30.0).log_partition
    assert law.log_mass(40_000, seeded_rng(1)) == pytest.approx(mass, abs=0.03)
    small = stats.beta(0.2, 0.6)
    mass = np.log(small.cdf(0.95) - small.cdf(0.05)) + Beta(0.2, 0.6).log_partition
    assert TruncatedDirichlet([0.2, 0.6], 0.05).log_mass(40_000, seeded_rng(1)) == pytest.approx(mass, abs=0.03)
    with pytest.raises(InvalidValue, match="one vector"):
        TruncatedDirichlet([[1.0, 2.0], [2.0, 1.0]], 0.1).log_mass(10)


def test_mixture_matches_its_definition():
    parts = [Beta(2.0, 8.0), Beta(9.0, 3.0), Beta(1.0, 1.0)]
    weights = np.array([0.2, 0.5, 0.3])
    blend = Mixture(Beta([2.0, 9.0, 1.0], [8.0, 3.0, 1.0]), weights)
    assert blend.mean == pytest.approx(sum(w * p.mean for w, p in zip(weights, parts, strict=True)))
    draws = blend.sample(100_000, seeded_rng(5))
    assert stats.kstest(draws, blend.cdf).pvalue > 1e-3
    assert blend.variance == pytest.approx(draws.var(), rel=0.02)
    assert blend.cdf(0.3) == pytest.approx(sum(w * p.cdf(0.3) for w, p in zip(weights, parts, strict=True)))
    np.testing.assert_allclose(blend.cdf(blend.ppf([0.01, 0.5, 0.99])), [0.01, 0.5, 0.99], rtol=1e-7)
    assert np.exp(blend.log_density(0.4)) == pytest.approx(
        sum(w * np.exp(p.log_density(0.4)) for w, p in zip(weights, parts, strict=True))
    )
    exact = mpmath.quad(
        lambda x: (
            float(np.exp(blend.log_density(float(x))))
            * (blend.log_density(float(x)) - Beta(2, 2).log_density(float(x)))
        ),
        np.linspace(1e-9, 1 - 1e-9, 9).tolist(),
    )
    assert blend.kl(Beta(2, 2)) == pytest.approx(float(exact), abs=0.01)


@pytest.mark.parametrize(
    "parts", [Normal([-400.0, 6e5], [700.0, 4e-8]), Beta([2e8, 7e8], [8e8, 3e8]), Gamma([1e6, 1e8], [1e6, 1e6])]
)
def test_quantiles_of_parts_with_nothing_between_them_are_those_of_the_parts(parts):
    blend = Mixture(parts, [0.4, 0.6])
    first, second = parts.take(0), parts.take(1)
    levels = np.array([1e-9, 0.025, 0.2, 0.399, 0.401, 0.5, 0.975, 1 - 1e-6])
    low, high = levels[:4] / 0.4, (levels[4:] - 0.4) / 0.6
    np.testing.assert_allclose(blend.ppf(levels), [*first.ppf(low), *second.ppf(high)], rtol=1e-9)
    assert blend.interval() == pytest.approx((first.ppf(0.025 / 0.4), second.ppf(0.575 / 0.6)), rel=1e-9)


def test_many_quantiles_of_many_parts_take_no_more_memory_than_few():
    blend = Mixture(Normal(np.linspace(0.0, 1.0, 3000), np.ones(3000)), np.ones(3000))
    tracemalloc.start()
    found = blend.ppf(np.linspace(0.001, 0.999, 400))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 2**24 and np.all(np.diff(found) > 0)


@pytest.mark.parametrize(
    "components",
    [
        Normal([-1e7, -2.0, 3e6, 3e6 + 5.0], [1.0, 1e-3, 4.0, 1.0]),
        Gamma([0.5, 3.0, 1e6, 4e4], [1e-3, 1e3, 1.0, 1.0]),
        Beta([0.5, 1e6, 4e5, 1.0], [3.0, 9e6, 4e5, 0.5]),
    ],
)
def test_mixture_finds_quantiles_between_and_beyond_components_far_apart(components):
    """Where no component has any density there is nothing for a step to go by."""
    blend = Mixture(components, [0.2, 0.3, 0.5, 0.0])
    levels = [1e-9, 1e-3, 0.1, 0.201, 0.4, 0.499, 0.501, 0.9, 1 - 1e-9]
    found = blend.ppf(levels)
    np.testing.assert_allclose(blend.cdf(found), levels, rtol=1e-6)
    np.testing.assert_allclose([blend.ppf(level) for level in levels], found, rtol=1e-9)


@pytest.mark.parametrize(
    "value",
    [
        Beta(2.0, 3.0),
        Gamma([1.0, 2.0], [2.0, 2.0]),
        Dirichlet([1.0, 2.0]),
        NormalVector([0.0, 1.0], 2.0),
        Truncated(Gamma(2.0, 1.0), 0.5, 2.0),
        Mixture(Beta([1.0, 2.0], [2.0, 1.0]), [0.25, 0.75]),
        DirichletMixture(Dirichlet([[1.0, 2.0], [2.0, 1.0]]), [0.5, 0.5]),
    ],
    ids=lambda d: d.word,
)
def test_distributions_read_back_from_json(value):
    assert Distribution.from_dict(json.loads(value.to_json())) == value


@pytest.mark.parametrize(
    ("shared", "apart"),
    [
        (Normal([0.0, 1.0], 2.0), Normal([0.0, 1.0], [2.0, 2.0])),
        (Beta([1.0, 2.0], 3.0), Beta([1.0, 2.0], [3.0, 3.0])),
        (Gamma(2.0, [1.0, 3.0]), Gamma([2.0, 2.0], [1.0, 3.0])),
    ],
    ids=lambda d: d.word,
)
def test_components_may_share_a_parameter(shared, apart):
    one, other = (Mixture(parts, [0.25, 0.75]) for parts in (shared, apart))
    assert one.interval() == other.interval()
    assert np.array_equal(one.sample(5, seeded_rng(1)), other.sample(5, seeded_rng(1)))
    assert shared.take(1) == apart.take(1)


def test_widths_of_parts_far_apart_are_those_of_each_mixture():
    parts, weights = Normal([-1e6, 0.0, 1e6], [1e-6, 1.0, 100.0]), np.array([[0.3, 0.1, 0.6], [0.05, 0.75, 0.2]])
    for level in (0.2, 0.5, 0.95):
        each = [np.subtract(*Mixture(parts, row).interval(level)[::-1]) for row in weights]
        assert Mixtures(parts, weights).widths(level) == pytest.approx(each, rel=1e-4)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Beta(0.0, 1.0),
        lambda: Gamma(1.0, np.nan),
        lambda: Dirichlet([1.0]),
        lambda: Truncated(Beta(1, 1), 0.5, 0.5),
        lambda: Mixture(Beta([1.0, 2.0], [2.0, 1.0]), [1.0]),
        lambda: TruncatedDirichlet([1.0, 1.0], 0.6),
        lambda: Beta(1.0, 1.0).interval(1.0),
        lambda: Distribution.from_dict({"distribution": "cauchy"}),
    ],
)
def test_bad_parameters_raise(make):
    with pytest.raises(InvalidValue):
        make()
