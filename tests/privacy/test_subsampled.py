"""The curve of a subsampled release, against enumeration of all parts, quadrature, and dp-accounting."""

from __future__ import annotations

import functools
import math
from itertools import combinations

import mpmath as mp
import numpy as np
import pytest
from scipy import integrate, stats

from sottovoce.privacy import (
    ApproxDP,
    BoundedRangeProfile,
    GaussianProfile,
    LaplaceProfile,
    Profile,
    PureProfile,
    RenyiDP,
    SubsampledProfile,
    ZeroConcentratedProfile,
)
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.losses import Losses
from sottovoce.privacy.subsampled import _Moments

EPSILONS = np.array([0.0, 1e-6, 0.1, 0.5, 1.0, 2.0, 5.0, 40.0])


def _hockey(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


@pytest.mark.parametrize("m", [1, 2, 4])
@pytest.mark.parametrize("noise", [0.6, 2.0])
def test_no_release_from_a_part_exceeds_the_curve_and_one_attains_it(m, noise):
    """A noisy count of the ones in a random part of 5 records: every part is counted over, every neighbour compared."""
    n, k = 5, np.arange(-80, 90)

    def law(records):
        each = []
        for part in combinations(records, m):
            weights = np.exp(-np.abs(k - sum(part)) / noise)
            each.append(weights / weights.sum())
        return np.mean(each, axis=0)

    from sottovoce.privacy import DiscreteLaplaceProfile

    profile = SubsampledProfile(DiscreteLaplaceProfile(noise, 1), m / n)
    worst, far = np.zeros(EPSILONS.size), 0.0
    for ones in range(n):
        first, second = law([1] * ones + [0] * (n - ones)), law([1] * (ones + 1) + [0] * (n - ones - 1))
        for p, q in ((first, second), (second, first)):
            worst = np.maximum(worst, [_hockey(p, q, e) for e in EPSILONS])
            far = max(far, float(np.sum(p**2 / q)))
    claimed = profile.delta(EPSILONS)
    assert np.all(claimed >= worst * (1 - 1e-9) - 1e-15)
    assert profile.renyi(2.0) >= math.log(far) * (1 - 1e-9)
    if m == 1:
        assert claimed[2] == pytest.approx(worst[2], rel=1e-6)


@pytest.mark.parametrize("rate", [1e-12, 0.01, 0.3, 1 - 1e-12])
@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 0.3, 3.0, 29.9, 30.1, 300.0])
def test_the_curve_is_the_formula_in_many_digits(rate, epsilon):
    level = 20.0
    with mp.workdps(60):
        before = mp.log1p(mp.expm1(mp.mpf(epsilon)) / mp.mpf(rate))
        truth = mp.mpf(rate) * max((mp.exp(level) - mp.exp(before)) / (1 + mp.exp(level)), mp.mpf(0))
        claimed = SubsampledProfile(PureProfile(level), rate).delta(epsilon)
        assert claimed >= truth * (1 - mp.mpf(1e-13)) - mp.mpf(1e-300)
        if truth > 1e-30:
            assert claimed <= truth * (1 + 1e-7)


@functools.cache  # the same at every order
def log_mixtures(mu, rate):
    x = np.linspace(-60 - 30 * mu, 60 + 30 * mu, 100_001)
    alone = stats.norm.logpdf(x)
    beside = {
        shift: np.logaddexp(math.log(rate) + stats.norm.logpdf(x, shift), math.log1p(-rate) + alone)
        for shift in (mu / 2, -mu / 2, mu)
    }
    return x, {0.0: alone} | beside


@pytest.mark.parametrize(("mu", "rate"), [(1.0, 0.01), (2.0, 0.1), (0.5, 0.5), (4.0, 0.003)])
@pytest.mark.parametrize("order", [1.0, 1.1, 1.5, 2.0, 8.0, 32.0])
def test_the_renyi_curve_is_above_that_of_a_replaced_record(mu, rate, order):
    """Two mixtures that share all but the record: one puts it at +μ/2, the other at -μ/2, or nowhere."""
    profile = SubsampledProfile(GaussianProfile(mu), rate)
    (x, logs_of), most = log_mixtures(mu, rate), 0.0
    for first, second in ((mu / 2, -mu / 2), (mu, 0.0), (0.0, mu)):
        p, q = logs_of[first], logs_of[second]
        if order == 1:
            truth = integrate.trapezoid(np.exp(p) * (p - q), x)
        else:
            logs = order * p + (1 - order) * q
            truth = (logs.max() + math.log(integrate.trapezoid(np.exp(logs - logs.max()), x))) / (order - 1)
        most = max(most, truth)
    assert profile.renyi(order) >= most * (1 - 1e-7) - 1e-14
    if (mu, rate, order) == (0.5, 0.5, 8.0):
        assert profile.renyi(order) < 1.03 * most  # and hardly above it


def test_dp_accounting_claims_no_less_for_the_same_relation_and_no_more_for_half_of_it():
    dp = pytest.importorskip("dp_accounting")
    from dp_accounting.pld import privacy_loss_distribution as pld
    from dp_accounting.rdp import rdp_privacy_accountant as rdp

    ours = (100 * SubsampledProfile(GaussianProfile(1.0), 0.01)).epsilon(1e-6)
    accountant = rdp.RdpAccountant(range(2, 33), neighboring_relation=dp.NeighboringRelation.REPLACE_ONE)
    accountant.compose(dp.SampledWithoutReplacementDpEvent(1000, 10, dp.GaussianDpEvent(1.0)), 100)
    assert ours < accountant.get_epsilon(1e-6)  # the same promise, by a looser bound
    # Poisson sampling, records added or removed: one direction of the pair at a time, so no more than ours.
    once = pld.from_gaussian_mechanism(1.0, sampling_prob=0.01, value_discretization_interval=1e-3)
    assert 0.7 * ours < once.self_compose(100).get_epsilon_for_delta(1e-6) <= ours
    for epsilon in (0.01, 0.1, 0.5):
        assert SubsampledProfile(GaussianProfile(1.0), 0.01).delta(epsilon) == pytest.approx(
            once.get_delta_for_epsilon(epsilon), rel=2e-2
        )


@pytest.mark.parametrize(
    "one",
    [
        GaussianProfile(1.0),
        PureProfile(3.0),
        BoundedRangeProfile(2.0),
        LaplaceProfile(1.0),
        ZeroConcentratedProfile(0.1),
    ],
)
def test_it_is_a_profile_below_the_part_s_own(one):
    profile = SubsampledProfile(one, 0.2)
    orders = np.array([1.0, 1.05, 1.5, 2.0, 8.0, 64.0])
    assert np.all(profile.delta(EPSILONS) <= one.delta(EPSILONS))
    curve = profile.renyi(orders)
    assert np.all(curve <= one.renyi(orders) * (1 + 1e-9))
    assert np.all(np.diff(curve) >= -1e-12)
    assert profile.pure() <= one.pure()
    again = Profile.from_json(profile.to_json())
    np.testing.assert_array_equal(again.delta(EPSILONS), profile.delta(EPSILONS))
    assert profile.satisfies(ApproxDP(one.epsilon(1e-3), 1e-3))
    assert profile.satisfies(RenyiDP(2.0, float(one.renyi(2.0))))
    np.testing.assert_array_equal(SubsampledProfile(one, 1.0).delta(EPSILONS), one.delta(EPSILONS))


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.1, math.nan, math.inf])
def test_what_is_no_rate_is_refused(rate):
    with pytest.raises(InvalidValue, match="rate"):
        SubsampledProfile(PureProfile(1.0), rate)
    with pytest.raises(InvalidValue, match="profile"):
        SubsampledProfile(3.0, 0.1)  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [0, 1, 63, 64, 200])
@pytest.mark.parametrize("tilt", [1e-9, 0.3, 100 / 63, 1.6, 40.0])
def test_moments_of_a_loss_are_the_sums_in_many_digits(count, tilt):
    rng = np.random.default_rng(count)
    logs = -(rng.uniform(0, 600, count) ** rng.uniform(0.5, 1.0))
    logs[3::7] = -np.inf  # nothing there
    losses = Losses(np.arange(count) - 30, logs, 0.1)
    (found,) = _Moments(losses)(np.array([tilt]))
    with mp.workdps(50):
        terms = [mp.exp(mp.mpf(mass) + mp.mpf(tilt) * (k - 30)) for k, mass in enumerate(logs) if mass > -np.inf]
        exact = mp.log(mp.fsum(terms)) if terms else -mp.inf
        assert found == exact or abs(found - exact) <= 1e-12 * max(1, abs(exact))
