"""Exact draws behind noisy tables: sums of parts against enumeration, posteriors against enumeration."""

import itertools
import math

import numpy as np
import pytest
from scipy import special, stats

from sottovoce.inference.latent.class_draws import draw_classes
from sottovoce.inference.latent.conditional_sums import Parts
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.randomness import seeded_rng


def by_hand(numbers, total):
    """Every way to add up to the total, with its weight, by enumeration."""
    lists = [[(first + i, w) for i, w in enumerate(weights)] for first, weights in numbers]
    ways = {}
    for way in itertools.product(*lists):
        if sum(x for x, _ in way) == total:
            ways[tuple(x for x, _ in way)] = math.prod(math.exp(w) for _, w in way)
    return ways


@pytest.mark.parametrize("total", [4, 9, 14])
def test_parts_have_the_weights_and_the_draws_of_enumeration(total):
    rng = seeded_rng(3)
    numbers = [(0, rng.normal(0, 2, 5)), (1, rng.normal(0, 2, 6)), (-1, rng.normal(0, 2, 7)), (2, rng.normal(0, 2, 2))]
    ways = by_hand(numbers, total)
    parts = Parts.near(numbers, total, most=20)
    assert parts.log_weight(np.array([total]))[0] == pytest.approx(math.log(sum(ways.values())), rel=1e-12)
    drawn, seen = np.unique(parts.draw(np.full(20_000, total), rng), axis=0, return_counts=True)
    assert {tuple(row) for row in drawn.tolist()} <= set(ways)
    expected = 20_000 * np.array([ways[tuple(row)] for row in drawn.tolist()]) / sum(ways.values())
    large = expected > 5
    assert stats.chisquare(seen[large], expected[large] * seen[large].sum() / expected[large].sum()).pvalue > 1e-3


def test_long_lists_are_convolved_as_short_ones_are():
    """Geometric numbers: the sum of two is negative binomial, on a list that the Fourier transform takes."""
    x = np.arange(4000)
    pair = Parts.near([(0, -x / 200)] * 2, 300, most=4000)
    np.testing.assert_allclose(pair.log_weight(x[:2000]), np.log1p(x[:2000]) - x[:2000] / 200, atol=1e-9)
    drawn = pair.draw(np.full(5000, 300), seeded_rng(1))[:, 0]  # given the sum, uniform
    assert stats.kstest((drawn + seeded_rng(2).random(5000)) / 301, "uniform").pvalue > 1e-3


@pytest.mark.parametrize(("total", "a"), [(700, 0.01), (700, 1.5), (60, 0.01)])
def test_long_lists_that_fall_steeply_are_split_by_their_weights(total, a):
    """Weights Γ(x+a)/x!, which for a tiny a put all but a trace on 0: each split against its own product."""
    x = np.arange(900)
    steep, level = special.gammaln(x + a) - special.gammaln(x + 1.0), -np.abs(x - 400) / 300
    exact = np.exp((steep + level)[: total + 1] + (steep - x / 500)[total::-1])
    numbers = [(0, steep + level), (0, steep - x / 500)]
    for first in (0, 1):
        parts = Parts.near(numbers[:: 1 - 2 * first], total, most=1000)
        drawn = parts.draw(np.full(20_000, total), seeded_rng(4))
        assert np.all(drawn.sum(axis=1) == total)
        expected = 20_000 * exact / exact.sum()
        seen, large = np.bincount(drawn[:, first], minlength=total + 1), expected > 8
        groups = np.append(seen[large], seen[~large].sum()), np.append(expected[large], expected[~large].sum())
        assert stats.chisquare(groups[0], groups[1] * 20_000 / groups[1].sum()).pvalue > 1e-3


def test_a_tilt_reaches_a_sum_that_nobody_expected():
    """Normal weights about 1,000 that must add up to 4,000: e^-10000 without a tilt, and no digit of it is lost."""
    x = np.arange(5001)
    numbers = [(0, -0.5 * ((x - 1000) / 10) ** 2)] * 2
    parts = Parts.near(numbers, 4000, most=5000)
    exact = -0.25 * 200.0**2 + math.log(10 * math.sqrt(math.pi))  # the sum has variance 200
    assert parts.log_weight(np.array([4000]))[0] == pytest.approx(exact, rel=1e-10)
    drawn = parts.draw(np.full(4000, 4000), seeded_rng(1))[:, 0]
    assert abs(drawn.mean() - 2000) < 0.5
    assert drawn.std() == pytest.approx(10 / math.sqrt(2), rel=0.05)


def test_a_sum_out_of_reach_has_no_weight():
    assert not Parts.near([(0, np.zeros(3))] * 2, 9, most=20).trusts(np.array([9]))


NOISY = (np.array([[3, -1], [0, 2], [1, -4]]), np.array([[9, 0, -7], [-3, -3, 1], [0, 0, 2]]))


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize(("scale", "priors", "class_prior"), [(1.5, (1.0, 0.4), 0.7), (0.3, (1e-6, 30.0), 1e-6)])
def test_class_sizes_have_the_law_of_enumeration(kind, scale, priors, class_prior):
    """Three classes, two tables, four records: every true table, weighed with nothing but gamma functions."""
    n, noise = 4, IntegerNoise(kind, scale)

    def row(seen, m, a):
        total = 0.0
        for cells in itertools.product(range(m + 1), repeat=len(seen)):
            if sum(cells) == m:
                logs = sum(math.lgamma(x + a) - math.lgamma(x + 1) - math.lgamma(a) for x in cells)
                logs += sum(-abs(s - x) / scale if kind == "laplace" else -(((s - x) / scale) ** 2) / 2
                            for s, x in zip(seen, cells, strict=True))  # fmt: skip
                total += math.exp(logs)
        a *= len(seen)
        return total * math.exp(math.lgamma(m + 1) + math.lgamma(a) - math.lgamma(m + a))

    law = {}
    for sizes in itertools.product(range(n + 1), repeat=3):
        if sum(sizes) == n:
            weight = math.prod(math.exp(math.lgamma(m + class_prior) - math.lgamma(m + 1)) for m in sizes)
            for table, a in zip(NOISY, priors, strict=True):
                weight *= math.prod(row(table[c], m, a) for c, m in enumerate(sizes))
            law[sizes] = weight
    total = sum(law.values())
    draws = 20_000
    found = draw_classes(NOISY, (noise, noise), n, class_prior, priors, draws, seeded_rng(5))
    assert found.convergence is None
    for sizes, weight in law.items():
        p = weight / total
        seen = np.mean(np.all(found.sizes == sizes, axis=1))
        assert abs(seen - p) < 4.5 * math.sqrt(p * (1 - p) / draws) + 1e-9


@pytest.mark.parametrize("n", [0, 1, 50])
def test_every_draw_is_a_table_that_can_happen(n):
    for scale, prior in itertools.product((1e-6, 0.5, 40.0, 1e9), (1e-6, 0.5, 1e4)):
        noisy = (np.array([[n, -(10**9)], [10**9, 0]]), np.array([[-5, 3, n // 2], [0, 0, -(10**6)]]))
        for kind in ("laplace", "gaussian"):
            found = draw_classes(noisy, (IntegerNoise(kind, scale),) * 2, n, prior, (prior, prior), 16, seeded_rng(1))
            assert found.convergence is None
            assert np.all(found.sizes >= 0)
            assert np.all(found.sizes.sum(axis=1) == n)
            for theta in (found.classes, *found.features):
                assert np.all(theta > 0)
                np.testing.assert_allclose(theta.sum(axis=-1), 1)


def test_loud_noise_on_many_columns_needs_no_chain():
    """As many columns as a mushroom has, and noise of a twentieth of all records in every cell."""
    rng, n = seeded_rng(2), 8124
    noise = IntegerNoise("laplace", 440.0)
    true = [rng.multinomial(m, np.full(k, 1 / k), 1) for k in (2, 4, 9) for m in (4200, 3924)]
    tables = [np.concatenate(true[i : i + 2]) for i in (0, 2, 4)] * 3
    noisy = [t + np.rint(rng.laplace(0, 440.0, t.shape)).astype(int) for t in tables]
    found = draw_classes(noisy, [noise] * 9, n, 0.5, [1 / t.shape[1] for t in tables], 256, rng)
    assert found.convergence is None
    low, high = np.quantile(found.sizes[:, 0], [0.001, 0.999])
    assert low < 4200 < high


@pytest.mark.parametrize(("kind", "scale"), [("gaussian", 0.04), ("laplace", 0.02)])
def test_next_to_no_noise_needs_no_chain_and_shows_the_counts(kind, scale):
    """Beside it every other count weighs nothing: a list of one place, with nothing cut that matters."""
    true, narrow = np.array([[9000, 50, 3], [400, 7000, 3547]]), np.array([[9053, 0], [1, 10_946]])
    noises = (IntegerNoise(kind, scale),) * 2
    found = draw_classes((true, narrow), noises, 20_000, 0.5, (1 / 3, 1 / 2), 300, seeded_rng(3))
    assert found.convergence is None
    assert np.all(found.sizes == [9053, 10_947])
    for theta, counts, prior in zip(found.features, (true, narrow), (1 / 3, 1 / 2), strict=True):
        alpha = counts + prior
        np.testing.assert_allclose(theta.mean(axis=0), alpha / alpha.sum(axis=1, keepdims=True), atol=2e-3)


def test_a_million_records_are_drawn_about_what_was_seen():
    noisy = (np.array([[500_010, 99_990], [199_950, 200_075]]),)
    found = draw_classes(noisy, (IntegerNoise("laplace", 40.0),), 10**6, 1.0, (0.5,), 200, seeded_rng(1))
    assert found.convergence is None
    np.testing.assert_allclose(found.sizes.mean(axis=0), [600_000, 400_000], atol=100)
    assert 20 < found.sizes[:, 0].std() < 120


def test_wide_noise_on_many_records_is_left_to_the_chains():
    noisy = (np.full((2, 2), 1_500_000),)
    found = draw_classes(noisy, (IntegerNoise("laplace", 1e5),), 6_000_000, 1.0, (1.0,), 8, seeded_rng(1))
    assert found.convergence is not None
    assert found.classes.shape == (8, 2)
