"""Totals of clipped records through noise, against convolutions written out and against repeats."""

import numpy as np
import pytest
from scipy import stats

from sottovoce.mechanisms import NoisyStatistics
from sottovoce.mechanisms.conjugate import GammaExponential, GammaPoisson, NormalMean
from sottovoce.mechanisms.conjugate.distributions import Distribution, Gamma, Normal, Tabulated
from sottovoce.privacy.promises import PureDP
from sottovoce.privacy.randomness import seeded_rng

STEPS = 128


def laws_of_record(system, thetas):
    """Return the values and, for each theta, the chances of a clipped record, fractions cut into equal cells."""
    theta = np.asarray(thetas)[:, None]
    if isinstance(system, GammaPoisson):
        values = np.arange(system.high + 1.0)
        return values, np.hstack([stats.poisson.pmf(values[:-1], theta), stats.poisson.sf(system.high - 1, theta)])
    low, high = system.reading.low, system.reading.high
    values = np.linspace(low, high, STEPS + 1)
    law = stats.expon(scale=1 / theta) if isinstance(system, GammaExponential) else stats.norm(theta, 2.0)
    cells = np.diff(law.cdf(values), axis=1)
    chances = np.pad(cells, ((0, 0), (0, 1))) / 2 + np.pad(cells, ((0, 0), (1, 0))) / 2
    chances[:, :1] += law.cdf(low)
    chances[:, -1:] += law.sf(high)
    return values, chances


def totals_by_hand(system, n):
    """Return parameters, totals and their laws under each parameter, by n-fold convolution."""
    thetas = np.linspace(-7, 7, 301) if isinstance(system, NormalMean) else np.geomspace(1e-3, 40, 401)
    values, laws = laws_of_record(system, thetas)
    size = n * (values.size - 1) + 1
    totals = n * values[0] + (values[1] - values[0]) * np.arange(size)
    period = 1 << size.bit_length()
    return thetas, totals, [np.fft.irfft(np.fft.rfft(law, period) ** n, period)[:size] for law in laws]


def distribution_by_hand(system, thetas, totals, laws, noise, scale, noisy):
    """Return the posterior distribution function at the parameters, by the trapezoid rule."""
    gap = (noisy - totals) / scale
    seen = np.exp(-np.abs(gap) if noise == "laplace" else -(gap**2) / 2)
    likelihood = [law @ seen for law in laws]
    if isinstance(system, NormalMean):
        prior = stats.norm(system.prior_mean, system.prior_variance**0.5).pdf(thetas)
    else:
        prior = stats.gamma(system.shape, scale=1 / system.rate).pdf(thetas)
    density = prior * np.array(likelihood)
    area = np.append(0, np.cumsum(np.diff(thetas) * (density[1:] + density[:-1]) / 2))
    return area / area[-1]


@pytest.mark.parametrize(
    ("system", "n", "scale", "noisy"),
    [
        (GammaPoisson(8, 2, high=4), 8, 4.0, 22.0),
        (GammaPoisson(8, 2, high=4), 1, 0.4, 2.0),
        (GammaPoisson(3, 2, high=2), 20, 3.0, 45.0),
        (GammaExponential(2, 1, high=1.0), 6, 0.8, -3.0),
        (GammaExponential(2, 1, high=1.0), 40, 5.0, 30.0),
        (GammaExponential(2, 1, high=1.0), 1, 0.3, 0.8),
        (NormalMean(4.0, 1.0, bounds=(-1, 2)), 5, 3.0, 2.0),
        (NormalMean(4.0, 1.0, bounds=(-1, 2)), 60, 8.0, 80.0),
    ],
    ids=str,
)
def test_posterior_is_bayes_rule_for_clipped_records(system, n, scale, noisy):
    known = totals_by_hand(system, n)
    for noise in ("laplace", "gaussian"):
        value = NoisyStatistics(system, n, noise, scale).posterior_from(noisy)
        exact = distribution_by_hand(system, *known, noise, scale, noisy)
        np.testing.assert_allclose(value.noise_aware.cdf(known[0]), exact, atol=1.5e-3, err_msg=noise)


@pytest.mark.parametrize(
    ("system", "theta", "draw"),
    [
        (GammaPoisson(8, 2, high=4), lambda rng: rng.gamma(8) / 2, lambda rng, theta: rng.poisson(theta, 8)),
        (
            GammaExponential(20, 20, high=0.87),
            lambda rng: rng.gamma(20) / 20,
            lambda rng, t: rng.exponential(1 / t, 1000),
        ),
        (NormalMean(4.0, 1.0, bounds=(-1, 1)), lambda rng: rng.normal(), lambda rng, theta: rng.normal(theta, 2, 400)),
    ],
    ids=lambda s: getattr(s, "word", ""),
)
def test_intervals_cover_though_many_records_are_clipped(system, theta, draw):
    """Of 48 intervals half as wide two in three hold, and 42 or more, as many as pass, once in a thousand times."""
    rng, hits, repeats = seeded_rng(6), 0, 48
    mechanism = NoisyStatistics.calibrate(system, draw(rng, 1.0).size, PureDP(1.0), noise="laplace")
    for _ in range(repeats):
        truth = theta(rng)
        below = mechanism.release(draw(rng, truth), rng).value.noise_aware.cdf(truth)
        hits += 0.025 < below < 0.975
    assert 0.86 <= hits / repeats <= 1.0


def test_a_bound_that_clips_nothing_gives_the_conjugate_posterior():
    poisson = NoisyStatistics(GammaPoisson(3, 2, high=60), 50, "gaussian", 0.05).posterior_from(70.0)
    np.testing.assert_allclose(poisson.interval(), Gamma(73, 52).interval(), rtol=1e-4)
    normal = NoisyStatistics(NormalMean(1, 4, bounds=(-50, 50)), 100, "gaussian", 0.05).posterior_from(30.0)
    spread = 1 / (1 / 4 + 100**2 / (100 + 0.05**2))
    np.testing.assert_allclose(normal.interval(), Normal(30.0 * spread, spread).interval(), rtol=1e-3)


@pytest.mark.parametrize("noisy", [-1e9, 1e9])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize(
    "system",
    [
        GammaPoisson(1e-3, 1e-3, high=1),
        GammaPoisson(1e6, 1e6, high=10**9),
        GammaPoisson(2, 1e-6, high=10**7),
        GammaExponential(1e-2, 1e3, high=1e-6),
        GammaExponential(1e5, 1.0, high=1e6),
        NormalMean(1e-6, 1e6, bounds=(1e6, 1e6 + 1)),
    ],
    ids=str,
)
def test_extreme_systems_and_totals_give_a_finite_posterior(system, noise, noisy):
    for n in (1, 100_000):
        mechanism = NoisyStatistics(system, n, noise, 3.0 * (system.reading.high - system.reading.low))
        low, high = mechanism.posterior_from(noisy).interval()
        assert np.isfinite([low, high]).all()
        assert low <= high


def test_a_table_is_the_density_it_was_made_from():
    points = np.linspace(-9, 9, 2001)
    table, exact = Tabulated(points, -(points**2) / 2), stats.norm()
    x = np.array([-3.0, -0.2, 1.7])
    np.testing.assert_allclose(table.cdf(x), exact.cdf(x), rtol=1e-3)
    np.testing.assert_allclose(table.sf(x), exact.sf(x), rtol=1e-3)
    np.testing.assert_allclose(table.ppf(table.cdf(x)), x, atol=1e-9)
    np.testing.assert_allclose(table.isf(table.sf(x)), x, atol=1e-9)
    np.testing.assert_allclose(table.log_density(x), exact.logpdf(x), atol=1e-4)
    assert table.kl(Normal(1.0, 1.0)) == pytest.approx(0.5, rel=1e-3)
    assert Distribution.from_dict(table.to_dict()) == table


def test_a_table_of_logarithms_is_a_gamma():
    u = np.linspace(-40, 5, 4001)
    table, exact = Tabulated(u, 2.5 * u - 1.5 * np.exp(u), logarithmic=True), stats.gamma(2.5, scale=1 / 1.5)
    assert table.mean == pytest.approx(exact.mean(), rel=1e-4)
    assert table.variance == pytest.approx(exact.var(), rel=1e-3)
    np.testing.assert_allclose(table.interval(), exact.interval(0.95), rtol=1e-3)
    assert table.log_density(0.8) == pytest.approx(exact.logpdf(0.8), abs=1e-3)
    steep = Tabulated([0.0, 1.0, 2.0], [-3000.0, 0.0, -3000.0])
    assert steep.cdf(1.0) == pytest.approx(0.5)
    assert steep.ppf(0.5) == pytest.approx(1.0)
