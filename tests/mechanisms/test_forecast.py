"""Forecasts read no data and agree with what happens."""

import functools

import numpy as np
import pytest
from scipy import special

from sottovoce.mechanisms import (
    ConcentratedPosterior,
    DiffusedPosterior,
    DirectPosterior,
    IntegerNoise,
    NoisyStatistics,
    TemperedPosterior,
)
from sottovoce.mechanisms.conjugate import Beta, BetaBernoulli, DirichletCategorical, GammaPoisson, NormalMean
from sottovoce.mechanisms.conjugate.distributions.mixtures import Mixtures
from sottovoce.privacy.errors import InvalidValue


def test_direct_sampling_loses_nothing():
    forecast = DirectPosterior(BetaBernoulli(2, 3), 50).forecast(0.4)
    assert forecast.expected_kl == 0
    assert forecast.interval_width == pytest.approx(forecast.exact_width)
    low, high = Beta(22, 33).interval(0.95)
    assert forecast.exact_width == pytest.approx(high - low)


def test_diffused_by_hand():
    forecast = DiffusedPosterior(BetaBernoulli(2, 3), 50, 0.2).forecast(0.4, level=0.9)
    sampled = Beta(2 + 4, 3 + 6)
    assert forecast.expected_kl == pytest.approx(sampled.kl(Beta(22, 33)))
    low, high = sampled.interval(0.9)
    assert forecast.interval_width == pytest.approx(high - low)


def test_tempered_against_a_fine_integral():
    mech = TemperedPosterior(BetaBernoulli(2, 3), 50, 5.0, truncation=0.1)
    law = mech.system.tempered(mech.see([1] * 20 + [0] * 30), 5.0, 0.1)
    x = np.linspace(0.1, 0.9, 4001)[1:-1]
    density = np.exp(law.log_density(x)) * (x[1] - x[0])
    assert density.sum() == pytest.approx(1, abs=1e-3)
    truth = density @ (law.log_density(x) - Beta(22, 33).log_density(x))
    assert mech.forecast(0.4).expected_kl == pytest.approx(truth, rel=0.03)


def test_tempered_dirichlet_of_two_agrees_with_beta():
    two = TemperedPosterior(DirichletCategorical([3, 2]), 50, 5.0, truncation=0.1).forecast([0.6, 0.4])
    one = TemperedPosterior(BetaBernoulli(2, 3), 50, 5.0, truncation=0.1).forecast(0.4)
    assert two.expected_kl == pytest.approx(one.expected_kl, rel=0.1)
    assert two.interval_width == pytest.approx(one.interval_width, rel=0.05)


def test_noisy_statistics_get_better_with_less_noise():
    kls = [NoisyStatistics(BetaBernoulli(1, 1), 100, "laplace", b).forecast(0.3).expected_kl for b in (0.5, 5.0, 50.0)]
    assert 0 <= kls[0] < kls[1] < kls[2]
    vector = NoisyStatistics(DirichletCategorical([1, 1, 1]), 100, "gaussian", 2.0).forecast([0.2, 0.3, 0.5])
    assert vector.interval_width > vector.exact_width


@pytest.mark.parametrize(
    ("system", "mean"), [(BetaBernoulli(1, 1), 0.3), (GammaPoisson(3, 2, high=3), 2.0)], ids=lambda s: str(s)[:5]
)
def test_the_forecast_is_the_average_over_every_noise(system, mean):
    mech = NoisyStatistics(system, 40, "laplace", 2.0)
    noise = np.arange(-16, 17)  # what lies beyond weighs a thousandth of the tolerance
    chances = np.exp(-np.abs(noise) / 2.0)
    values = [mech.posterior_from(40 * mean + k).noise_aware for k in noise]
    forecast = mech.forecast(mean)
    widths = [np.subtract(*value.interval()[::-1]) for value in values]
    assert forecast.interval_width == pytest.approx(np.average(widths, weights=chances), rel=0.01)
    if isinstance(system, BetaBernoulli):
        exact = Beta(1 + 40 * mean, 1 + 40 * (1 - mean))
        divergences = [value.kl(exact) for value in values]
        assert forecast.expected_kl == pytest.approx(np.average(divergences, weights=chances), rel=0.03)


@pytest.mark.parametrize(
    ("n", "noise", "scale", "mean", "prior"),
    [
        (10, "laplace", 3.0, 0.5, (0.5, 0.5)),
        (200, "laplace", 5.0, 0.05, (1.0, 1.0)),
        (3000, "laplace", 1.0, 0.3, (1.0, 1.0)),
        (1000, "gaussian", 50.0, 0.9, (30.0, 300.0)),
        (10**6, "laplace", 1.0, 0.3, (1.0, 1.0)),
    ],
)
def test_a_proportions_forecast_against_a_fine_integral(n, noise, scale, mean, prior):
    mech = NoisyStatistics(BetaBernoulli(*prior), n, noise, scale)
    forecast, (points, shares) = mech.forecast(mean), mech._steps.nodes(9)
    exact = Beta(prior[0] + n * mean, prior[1] + n * (1 - mean))
    posteriors = [mech.posterior_from(n * mean + point).noise_aware for point in points]
    divergences = []
    for posterior in posteriors:
        # log θ(1-θ) is what an integral over the logit has besides the density
        laws = posterior.components
        centre, spread = np.log(laws.alpha / laws.beta), np.sqrt(1 / laws.alpha + 1 / laws.beta)
        logit = np.linspace((centre - 14 * spread).min(), (centre + 14 * spread).max(), 4001)
        x, slope = 1 / (1 + np.exp(-logit)), -np.logaddexp(0, -logit) - np.logaddexp(0, logit)
        own, other = posterior.log_density(x), exact.log_density(x)
        divergences.append(np.sum(np.exp(own + slope) * (own - other)) * (logit[1] - logit[0]))
    assert forecast.expected_kl == pytest.approx(shares @ divergences, rel=0.015)
    widths = [np.subtract(*posterior.interval()[::-1]) for posterior in posteriors]
    assert forecast.interval_width == pytest.approx(shares @ widths, rel=1e-6)


@pytest.mark.parametrize(("alpha", "heads"), [(0.5, 3), (0.05, 0), (0.01, 3), (0.01, 10)])
def test_a_divergence_beside_poles_of_the_prior_against_a_sum_over_the_logit(alpha, heads):
    """Most of such a posterior lies where no double is: of Beta(10.01, 0.01), 69 % within 2⁻⁵³ of one.

    Its logit has a density that is smooth, and falls as e^(-α|logit|): sums over steps of a quarter are as good as
    integrals, to twelve digits by mpmath.
    """
    k = np.arange(11.0)
    weights = np.exp(-np.abs(k - heads) / 2) + 0.05
    weights /= weights.sum()
    logit, step = np.linspace(-80 / alpha, 80 / alpha, int(640 / alpha) + 1, retstep=True)
    norms = special.betaln(alpha + k, alpha + 10 - k)
    rest = functools.reduce(np.logaddexp, (np.log(weights) - norms)[:, None] + k[:, None] * logit)
    common = alpha * logit - (2 * alpha + 10) * np.logaddexp(0, logit)  # what the densities of all laws have apart
    truth = step * np.exp(common + rest) @ (rest - heads * logit + norms[heads])
    mixtures, exact = Mixtures(Beta(alpha + k, alpha + 10 - k), weights[None]), Beta(alpha + heads, alpha + 10 - heads)
    found = mixtures.mean_kl(exact, np.ones(1))
    assert found == pytest.approx(float(truth), rel=0.01)


def test_a_forecast_beside_a_pole_is_a_number():
    forecast = NoisyStatistics(BetaBernoulli(0.01, 0.01), 50, "laplace", 4.0).forecast(0.0)
    assert np.isfinite(forecast.expected_kl)
    assert forecast.interval_width > 0


@pytest.mark.parametrize(
    "noise", [IntegerNoise("laplace", 0.3), IntegerNoise("laplace", 7.0), IntegerNoise("gaussian", 900.0)]
)
def test_gauss_points_have_the_moments_of_the_noise(noise):
    points, weights = noise.nodes(7)
    k = np.arange(-60 * int(noise.scale + 1), 60 * int(noise.scale + 1) + 1)
    law = np.exp(noise.log_weight(k))
    for power in (0, 1, 2, 4):
        exact = float(law / law.sum() @ (k / noise.scale) ** power)
        assert weights @ (points / noise.scale) ** power == pytest.approx(exact, rel=3e-3, abs=1e-9)


def test_forecast_of_a_vector_and_a_rate():
    ball = ConcentratedPosterior(NormalMean(1, 1, radius=2, dimension=3), 30, 4.0)
    assert ball.forecast([0.1, 0.2, 0.3]).expected_kl > 0
    assert NoisyStatistics(GammaPoisson(1, 1, 5), 30, "laplace", 4.0).forecast(2.0).interval_width > 0


@pytest.mark.parametrize(
    ("system", "mean"),
    [
        (BetaBernoulli(1, 1), 1.5),
        (BetaBernoulli(1, 1), [0.1, 0.2]),
        (BetaBernoulli(1, 1), np.nan),
        (DirichletCategorical([1, 1, 1]), [0.5, 0.6, 0.1]),
        (NormalMean(1, 1, radius=1, dimension=2), [1.0, 1.0]),
    ],
)
def test_impossible_means_raise(system, mean):
    with pytest.raises(InvalidValue):
        DirectPosterior(system, 10).forecast(mean)


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [1e-6, 0.01, 0.02])
def test_next_to_no_noise_is_none(kind, scale):
    forecast = NoisyStatistics(BetaBernoulli(2, 3), 50, kind, scale).forecast(0.4)
    assert forecast.expected_kl == pytest.approx(0, abs=1e-9)
    assert forecast.interval_width == pytest.approx(forecast.exact_width, rel=1e-6)
