"""Diffusion releases: their Gaussian laws, their errors and what several looks at one path cost."""

import numpy as np
import pytest

from sottovoce.mechanisms.mechanism import Mechanism
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.promises import ApproxDP, GaussianDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.readings import BallSum, ClippedSum
from sottovoce.theory.amplification import BoundedMean, OrnsteinUhlenbeck, brownian, calibrated_brownian


def wide(width):
    """Return the mean of one record from 0 to `width`, whole: it moves by exactly that."""
    return BoundedMean(ClippedSum(0, width, integer=True))


def test_the_law_is_that_of_the_stochastic_equation():
    """Small Euler steps of dX = −θX dt + √2·ρ dW, which stay normal: the mean and the variance after each."""
    process, rng = OrnsteinUhlenbeck(wide(1), 1, 0.7, rate=1.3, diffusion=0.6), seeded_rng(1)
    mean, variance, h = 2.0, 0.0, 0.7 / 4000
    for _ in range(4000):
        mean, variance = mean - 1.3 * mean * h, variance * (1 - 1.3 * h) ** 2 + 2 * h * 0.6**2
    assert mean == pytest.approx(2 * process.shrinkage, abs=0.001)
    assert np.sqrt(variance) == pytest.approx(process.noise, rel=0.001)
    drawn = process.path(np.full(50_000, 2.0), [0.2, 0.7], rng)[1]
    assert drawn.mean() == pytest.approx(mean, abs=0.012)
    assert drawn.std() == pytest.approx(np.sqrt(variance), rel=0.015)


def test_profiles_in_closed_form():
    theta, rho, t = 1.3, 0.6, 0.7
    process = OrnsteinUhlenbeck(wide(2), 1, t, theta, rho)
    # Balle et al. 2019: R(α) = αθΔ²/(2ρ²(e^{2θt} − 1)).
    assert process.profile.renyi(3.0) == pytest.approx(3 * theta * 4 / (2 * rho**2 * np.expm1(2 * theta * t)))
    assert brownian(wide(2), 1, 4.0).profile.mu == pytest.approx(1.0)
    nearly = OrnsteinUhlenbeck(wide(2), 1, 4.0, 1e-12, np.sqrt(0.5))
    assert nearly.profile.mu == pytest.approx(1.0)
    # Waiting only helps, and a pulled path forgets faster.
    mus = [process.profile_at(s).mu for s in (0.1, 0.7, 3.0)]
    assert mus == sorted(mus, reverse=True)
    assert process.profile_at(20.0).mu < 1e-10


def test_two_looks_tell_no_more_than_the_first():
    """The likelihood ratio of both looks is that of the earlier one alone: check it from the joint Gaussian law."""
    process, (first, second) = OrnsteinUhlenbeck(wide(1), 1, 0.5, 0.8, 1.1), (0.5, 1.7)
    a, s = process._law(first)
    b, r = process._law(second - first)
    mean = np.array([a, a * b])
    covariance = np.array([[s**2, b * s**2], [b * s**2, b**2 * s**2 + r**2]])
    assert np.sqrt(mean @ np.linalg.solve(covariance, mean)) == pytest.approx(process.profile_at(first).mu)


def test_calibration_keeps_the_promise_and_beats_plain_noise():
    for target in (GaussianDP(0.5), ApproxDP(0.8, 1e-5)):
        for norm, d in ((0.1, 1), (1.0, 20), (50.0, 3)):
            system = BoundedMean(BallSum(d, 0.15 * 7))
            free = calibrated_brownian(system, 7, target)
            pulled = OrnsteinUhlenbeck.calibrate(system, 7, target, norm=norm)
            assert pulled.sensitivity == pytest.approx(0.3, rel=1e-4)
            assert pulled.profile.satisfies(target)
            assert free.profile.satisfies(target)
            assert pulled.profile.mu == pytest.approx(free.profile.mu, rel=1e-9)
            error = pulled.mean_squared_error(norm)
            assert error < free.mean_squared_error(norm)
            assert error < norm**2  # better than saying nothing, too
            for factor in (0.9, 1.1):  # the best pull
                rate = pulled.rate * factor
                left = np.exp(-rate)
                noise = left * pulled.sensitivity / pulled.profile.mu
                assert error <= (1 - left) ** 2 * norm**2 + d * noise**2


def test_the_error_is_what_releases_show():
    process = OrnsteinUhlenbeck.calibrate(BoundedMean(BallSum(4, 2.0)), 4, GaussianDP(1.0), norm=2.0)
    records = np.tile(np.full(4, 1.0), (4, 1))
    draws = process.outputs(process.see(records), seeded_rng(2), 4000)
    assert np.mean(np.sum((draws - 1.0) ** 2, axis=1)) == pytest.approx(process.mean_squared_error(2.0), rel=0.08)
    release = process.release(records)
    assert not release.reproducible
    again = Mechanism.from_dict(release.mechanism)
    assert again.to_dict() == process.to_dict()
    assert again.profile == process.profile


def test_the_pull_is_towards_the_middle_of_the_bounds():
    process = OrnsteinUhlenbeck(BoundedMean(ClippedSum(100.0, 120.0)), 50, time=40.0, rate=1.0, diffusion=1e-3)
    assert process.release(np.full(50, 104.0), seeded_rng(1)).value == pytest.approx(110.0, abs=0.01)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: OrnsteinUhlenbeck(wide(1), 1, 0.0, 1.0), "time must be > 0"),
        (lambda: OrnsteinUhlenbeck(wide(1), 1, 1.0, -1.0), "rate"),
        (lambda: OrnsteinUhlenbeck(wide(1), 1, 1.0, 1.0, 0.0), "diffusion"),
        (lambda: brownian(wide(1), 1, 1.0).profile_at(0.0), "hides nothing"),
        (lambda: brownian(wide(1), 1, 1.0).path(0.0, [2.0, 1.0], seeded_rng(0)), "increasing"),
        (lambda: OrnsteinUhlenbeck.calibrate(wide(1), 1, GaussianDP(1.0), norm=0.0), "norm"),
    ],
)
def test_bad_input_is_refused(make, says):
    with pytest.raises(InvalidValue, match=says):
        make()


def test_bad_values_are_refused():
    with pytest.raises(InvalidData, match="finite"):
        brownian(wide(1), 1, 1.0).path(np.nan, [1.0], seeded_rng(1))
    assert np.isfinite(brownian(wide(1), 1, 1.0).release([np.nan], seeded_rng(1)).value).all()
