"""Noise on the integers, and posteriors that know of it."""

import itertools
import tracemalloc

import numpy as np
import pytest
from papers.coverage import cover_commonest
from scipy import special, stats

from sottovoce.mechanisms import IntegerNoise, NoisyStatistics
from sottovoce.mechanisms.conjugate import (
    BetaBernoulli,
    Dirichlet,
    DirichletCategorical,
    Distribution,
    NormalMean,
)
from sottovoce.mechanisms.noisy_histogram import NoisyHistogram
from sottovoce.privacy.errors import PromiseUnreachable
from sottovoce.privacy.promises import PureDP, ZeroConcentratedDP
from sottovoce.privacy.randomness import secure_rng, seeded_rng
from sottovoce.records.readings import BallSum, CategoryCounts


@pytest.mark.parametrize("rng", [seeded_rng(1), secure_rng()], ids=["seeded", "secure"])
@pytest.mark.parametrize("noise", [IntegerNoise("laplace", 1.7), IntegerNoise("gaussian", 1.3)], ids=str)
def test_both_samplers_follow_the_same_law(noise, rng):
    count = 12_000
    draws = noise.add(np.zeros(count, dtype=np.int64), rng)
    k = np.arange(-60, 61)
    weights = np.exp(noise.log_weight(k))
    weights /= weights.sum()
    inner = np.abs(k) <= 4
    observed = np.append([np.sum(draws == j) for j in k[inner]], np.sum(np.abs(draws) > 4))
    expected = count * np.append(weights[inner], weights[~inner].sum())
    # A false alarm once in a thousand million runs, for the secure sampler cannot be seeded.
    assert stats.chisquare(observed, expected).pvalue > 1e-9
    assert noise.variance == pytest.approx(float(k * k @ weights), rel=1e-9)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize(("n", "noisy", "scale"), [(12, 7.0, 2.5), (300, -20.0, 40.0), (1000, 1003.0, 12.0)])
def test_noise_aware_posterior_is_bayes_rule_over_every_total(noise, n, noisy, scale):
    value = NoisyStatistics(BetaBernoulli(0.5, 2.0), n, noise, scale).posterior_from(noisy)
    totals = np.arange(n + 1)
    gap = (noisy - totals) / scale
    log_weights = stats.betabinom(n, 0.5, 2.0).logpmf(totals) - (np.abs(gap) if noise == "laplace" else gap**2 / 2)
    weights = np.exp(log_weights - special.logsumexp(log_weights))
    ends = np.array(value.interval(0.95))
    exact = weights @ stats.beta(0.5 + totals[:, None], 2.0 + n - totals[:, None]).cdf(ends)
    np.testing.assert_allclose(exact, [0.025, 0.975], atol=1e-9)


def test_a_million_records_need_no_loop():
    system, n = BetaBernoulli(1, 1), 10**6
    value = NoisyStatistics(system, n, "laplace", 10.0).posterior_from(300_000.0)
    s = np.arange(299_000, 301_001)
    log_weights = stats.betabinom(n, 1, 1).logpmf(s) - np.abs(s - 300_000) / 10
    weights = np.exp(log_weights - special.logsumexp(log_weights))
    assert value.mean == pytest.approx(float(weights @ ((1 + s) / (2 + n))), rel=1e-10)
    wide = NoisyStatistics(system, n, "laplace", 5000.0).posterior_from(300_000.0)
    s = np.arange(n + 1)
    log_weights = -np.abs(s - 300_000) / 5000
    weights = np.exp(log_weights - special.logsumexp(log_weights))
    p = (1 + s) / (2 + n)
    spread = float(weights @ (p * (1 - p) / (n + 3) + p**2) - (weights @ p) ** 2)
    assert wide.mean == pytest.approx(float(weights @ p), rel=1e-6)
    assert wide.variance == pytest.approx(spread, rel=1e-3)


def test_gaussian_noise_on_a_normal_mean_stays_conjugate_where_nothing_is_clipped():
    system, n, scale = NormalMean(2.0, 3.0, prior_mean=0.5, bounds=(-40, 40)), 9, 4.0
    value = NoisyStatistics(system, n, "gaussian", scale).posterior_from(5.0)
    spread = n * 2.0 + scale**2
    precision = 1 / 3 + n * n / spread
    assert value.mean == pytest.approx((0.5 / 3 + n * 5.0 / spread) / precision, rel=1e-4)
    assert value.variance == pytest.approx(1 / precision, rel=1e-3)
    ball = NoisyStatistics(NormalMean(2.0, 3.0, radius=2.0, dimension=2), n, "gaussian", scale).posterior_from(
        [1.0, 3.0]
    )
    np.testing.assert_allclose(ball.mean, n * np.array([1.0, 3.0]) / spread / precision)


def test_latent_counts_match_bayes_rule_over_every_histogram():
    alpha, n, scale = np.array([0.8, 1.0, 2.0]), 6, 1.5
    noisy = np.array([4.0, 3.0, -2.0])
    mech = NoisyStatistics(DirichletCategorical(alpha), n, "laplace", scale)
    value = mech.posterior_from(noisy, seeded_rng(9))
    counts = np.array([c for c in itertools.product(range(n + 1), repeat=3) if sum(c) == n])
    log_w = (special.gammaln(alpha + counts) - special.gammaln(counts + 1) - np.abs(noisy - counts) / scale).sum(axis=1)
    weights = np.exp(log_w - special.logsumexp(log_w))
    posterior = (alpha + counts) / (alpha.sum() + n)
    np.testing.assert_allclose(value.mean, weights @ posterior, rtol=1e-9)
    exact_variance = (
        weights @ (posterior * (1 - posterior) / (alpha.sum() + n + 1) + posterior**2) - (weights @ posterior) ** 2
    )
    np.testing.assert_allclose(value.variance, exact_variance, rtol=1e-9)
    low, high = value.interval(0.9)
    for k, (first, last) in enumerate(zip(low, high, strict=True)):
        a, b = alpha[k] + counts[:, k], alpha.sum() - alpha[k] + n - counts[:, k]
        assert weights @ special.betainc(a, b, first) == pytest.approx(0.05, rel=1e-7)
        assert weights @ special.betainc(a, b, last) == pytest.approx(0.95, rel=1e-7)
    joint = value.noise_aware.joint  # the draws that samples are made from
    np.testing.assert_allclose(joint.mean, value.mean, atol=0.02)
    np.testing.assert_allclose(joint.variance, value.variance, rtol=0.12)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize(("least", "scale"), [(1e-6, 0.3), (1e-2, 3.0), (1.0, 40.0), (1e4, 3.0)])
def test_every_marginal_of_a_noisy_histogram_is_the_mixture_that_its_counts_make(noise, least, scale):
    noisy = np.array([0.0, -5.0, 3.0, 60.0, 2.0])
    alpha = least * np.array([1.0, 2.0, 1.0, 5.0, 1.0])
    known = NoisyHistogram(alpha, noisy, 57, noise, scale)
    low, high = known.interval(0.95)
    for k in range(5):
        marginal = known.marginal(k)
        assert marginal.mean == pytest.approx(known.mean[k], rel=1e-9)
        assert marginal.variance == pytest.approx(known.variance[k], rel=1e-9)
        # What is worth less than half a record reaches as far up as if it were worth that.
        raised = NoisyHistogram(np.where(np.arange(5) == k, np.maximum(alpha, 0.5), alpha), noisy, 57, noise, scale)
        higher = min((marginal, raised.marginal(k)), key=lambda law: law.cdf(high[k]))
        # The law may jump, or lie below the least number or beside 1.
        for law, q, x in ((marginal, 0.025, low[k]), (higher, 0.975, high[k])):
            assert law.cdf(x * (1 - 1e-9)) <= q + 1e-8 or x < 1e-20
            assert law.cdf(x * (1 + 1e-9)) >= q - 1e-8
    assert known == Distribution.from_dict(known.to_dict())
    assert known.mean.sum() == pytest.approx(1.0)


def test_the_divergence_of_a_noisy_histogram_agrees_with_draws_of_the_whole():
    counts = np.array([20.0, 11, 30, 39])
    known = NoisyHistogram(np.ones(4), counts + np.array([2, -3, 1, 0]), 100, "gaussian", 3.0)
    exact = Dirichlet(1 + counts)
    assert known.kl(exact) == pytest.approx(known.mixture(3000).kl(exact, 4000), rel=0.25)


@pytest.mark.parametrize("cells", [2**22, 64], ids=["exact", "coarse and moved"])
def test_latent_counts_move_however_loud_the_noise(monkeypatch, cells):
    monkeypatch.setattr("sottovoce.mechanisms.latent_histogram._CELLS", cells)
    alpha, n = np.full(4, 0.25), 40
    value = NoisyStatistics(DirichletCategorical(alpha), n, "laplace", 400.0).posterior_from([90, -70, 30, 900.0])
    counts = np.array([c for c in itertools.product(range(n + 1), repeat=3) if sum(c) <= n])
    counts = np.column_stack([counts, n - counts.sum(axis=1)])
    gap = np.array([90, -70, 30, 900.0]) - counts
    log_w = (special.gammaln(alpha + counts) - special.gammaln(counts + 1) - np.abs(gap) / 400).sum(axis=1)
    weights = np.exp(log_w - special.logsumexp(log_w))
    shares = (alpha + counts) / (1 + n)
    np.testing.assert_allclose(value.mean, weights @ shares, atol=0.05)
    spread = weights @ (shares * (1 - shares) / (n + 2) + shares**2) - (weights @ shares) ** 2
    np.testing.assert_allclose(value.variance, spread, rtol=0.2)
    assert len(np.unique(value.noise_aware.joint.components.alpha, axis=0)) > 100


def test_latent_counts_of_a_million_records_and_of_many_categories():
    noisy = np.append(900_000.0, np.full(9, 11_000.0))
    value = NoisyStatistics(DirichletCategorical(np.full(10, 0.1)), 10**6, "laplace", 2e4).posterior_from(noisy)
    drawn = value.noise_aware.joint.components.alpha - 0.1
    np.testing.assert_allclose(drawn.sum(axis=1), 10**6)
    assert abs(value.mean[0] - 0.9) < 0.1
    many = NoisyStatistics(DirichletCategorical(np.full(300, 1 / 300)), 900, "gaussian", 5.0).posterior_from(
        np.full(300, 3.0)
    )
    np.testing.assert_allclose(many.noise_aware.joint.components.alpha.sum(axis=1), 901)


@pytest.mark.parametrize(("n", "epsilon"), [(50, 0.5), (200, 0.5)])
def test_the_commonest_of_ten_categories_is_covered(n, epsilon):
    assert cover_commonest(n, epsilon, 0.1, repeats=80, seed=4) >= 0.88


def test_fractions_between_zero_and_one_get_noise_on_a_grid():
    mech = NoisyStatistics(BetaBernoulli(1, 1, whole=False), 20, "laplace", 1.5)
    value = mech.release(np.linspace(0, 1, 20), seeded_rng(4)).value
    assert value.noisy[0] % 1 != 0
    assert abs(value.mean - 0.5) < 0.35
    whole = NoisyStatistics(BetaBernoulli(1, 1), 20, "laplace", 1.5).posterior_from(10.0)
    fractions = mech.posterior_from(10.0)
    assert fractions.mean == pytest.approx(whole.mean, abs=0.01)
    assert fractions.variance == pytest.approx(whole.variance, rel=0.1)


def test_two_categories_agree_with_one_proportion():
    # A histogram of two counts carries two noises; with the second noise huge it is the Beta case.
    one = NoisyStatistics(BetaBernoulli(1, 1), 50, "gaussian", 3.0).posterior_from(20.0)
    two = NoisyStatistics(DirichletCategorical([1, 1]), 50, "gaussian", 3.0 * np.sqrt(2)).posterior_from(
        [30.0, 20.0], seeded_rng(2)
    )
    assert two.mean[1] == pytest.approx(one.mean, abs=0.01)
    assert two.variance[1] == pytest.approx(one.variance, rel=0.15)


def test_projection_is_the_nearest_feasible_point():
    rng = np.random.default_rng(6)
    reading = CategoryCounts(("a", "b", "c"))
    for _ in range(20):
        point = rng.normal(2, 4, 3)
        nearest = reading.project(6, point)
        assert nearest.sum() == pytest.approx(6)
        assert nearest.min() >= 0
        others = rng.dirichlet(np.ones(3), 500) * 6
        assert np.linalg.norm(point - nearest) <= np.linalg.norm(point - others, axis=1).min() + 1e-12
    np.testing.assert_allclose(BallSum(2, 1.0).project(2, np.array([3.0, 4.0])), [1.2, 1.6])


def test_noise_aware_is_wider_and_centres_where_the_plug_in_cannot():
    value = NoisyStatistics(BetaBernoulli(1, 1), 10, "laplace", 10.0).posterior_from(-9.0)
    assert value.plug_in.mean == pytest.approx(1 / 12)
    assert value.variance > value.plug_in.variance
    assert value.interval(0.95)[1] > value.plug_in.interval(0.95)[1]


def test_a_ball_takes_gaussian_noise_or_none():
    ball = NormalMean(1, 1, radius=2.0, dimension=3)
    mech = NoisyStatistics.calibrate(ball, 50, ZeroConcentratedDP(0.02))
    assert mech.noise == "gaussian"
    assert mech.scale == pytest.approx(4 / np.sqrt(0.04), rel=1e-4)
    assert mech.release(np.zeros((50, 3))).value.mean.shape == (3,)
    with pytest.raises(PromiseUnreachable):
        NoisyStatistics.calibrate(ball, 50, PureDP(1.0))


def test_the_quieter_noise_is_chosen():

    system = NormalMean(1, 1, bounds=(0, 1))
    assert NoisyStatistics.calibrate(system, 50, PureDP(1.0)).noise == "laplace"
    assert NoisyStatistics.calibrate(system, 50, ZeroConcentratedDP(0.01)).noise == "gaussian"


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_secure_noise_is_the_claimed_noise(noise):
    mech = NoisyStatistics(BetaBernoulli(1, 1), 4, noise, 50.0)
    seen = np.array([mech.release([0, 1, 1, 1]).value.noisy[0] for _ in range(60)])
    assert np.all(seen == np.rint(seen))
    spread = 50 * np.sqrt(2) if noise == "laplace" else 50
    assert abs(seen.mean() - 3) < 7 * spread / np.sqrt(60)
    assert 0.3 < seen.std() / spread < 3


def test_worst_pairs_of_many_categories_take_no_square_of_them():
    reading, system = CategoryCounts(tuple(range(10_000))), DirichletCategorical(np.ones(10_000))
    tracemalloc.start()
    pairs = [*reading.pairs(50), *reading.pairs(None), *system.worst_data(None)]
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 10e6
    assert [np.abs(first.total - second.total).sum() for first, second in pairs] == [2.0, 1.0, 1.0]
