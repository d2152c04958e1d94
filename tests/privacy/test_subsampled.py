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
from sottovoce.privacy.relation import ADD_REMOVE

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


def poisson_gaussian(mu, rate, order):
    """The Rényi divergence of P = (1-q)Q + q N(mu, 1) from Q = N(0, 1), by the rule of trapezia."""
    x = np.linspace(-40, 40 + order * mu, 100_001)
    excess = np.logaddexp(math.log1p(-rate), math.log(rate) + mu * x - mu * mu / 2)  # log P/Q
    log_density = stats.norm.logpdf(x)
    logs = order * excess + log_density
    large = logs.max() + math.log(integrate.trapezoid(np.exp(logs - logs.max()), x))
    if large > 1:
        return large / (order - 1)
    # E_Q[r^order - 1 - order(r - 1)], in which every term is positive.
    near = order * excess < 1
    plain = np.expm1(order * np.where(near, excess, 0.0)) * np.exp(log_density)
    terms = np.where(near, plain, np.exp(logs) - np.exp(log_density)) - order * (
        np.exp(excess + log_density) - np.exp(log_density)
    )
    return math.log1p(integrate.trapezoid(terms, x)) / (order - 1)


@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("rate", [1e-4, 1e-2, 0.1])
def test_the_renyi_curve_of_a_coin_for_each_record_is_that_of_the_mixture(mu, rate):
    """Poisson sampling of Gaussian noise, for records added or removed: hardly above the truth, and never below it."""
    profile = SubsampledProfile(GaussianProfile(mu, relation=ADD_REMOVE), rate)
    either = SubsampledProfile(GaussianProfile(mu), rate)
    for order in (1.5, 2.0, 3.7, 8.0, 32.0, 200.0):
        truth = poisson_gaussian(mu, rate, order)
        assert truth * (1 - 1e-9) <= profile.renyi(order) <= 1.07 * truth
        assert (
            truth * (1 - 1e-9) <= either.renyi(order) <= 2 * truth
        )  # where one record is replaced both orders cost as much


def test_a_record_less_costs_what_the_densities_say():
    """N(0, 1) against its mixture with N(μ, 1): the hockey-stick itself, which ends where -log(1-q) is passed."""
    for mu, rate in ((1.0, 0.3), (2.0, 0.05), (0.3, 0.9)):
        profile = SubsampledProfile(GaussianProfile(mu, relation=ADD_REMOVE), rate)
        for share in (0.0, 0.2, 0.7, 0.99):
            epsilon = -share * math.log1p(-rate)
            with mp.workdps(30):
                # The mixture grows with x, so N(0, 1) is the likelier one up to a threshold.
                gone = -mp.expm1(-mp.mpf(epsilon)) / mp.mpf(rate)
                edge = (mp.log1p(-gone) + mp.mpf(mu) ** 2 / 2) / mp.mpf(mu)
                p, q = mp.ncdf(edge), mp.ncdf(edge - mp.mpf(mu))
                truth = p - mp.exp(epsilon) * ((1 - mp.mpf(rate)) * p + mp.mpf(rate) * q)
                claimed = mp.exp(mp.mpf(float(profile._log_delta_back(np.array([epsilon]))[0])))
            assert truth * (1 - mp.mpf(1e-14)) <= claimed <= truth * (1 + mp.mpf(1e-9))
        past = np.array([-1.0000001 * math.log1p(-rate), 5.0])
        assert np.all(profile._log_delta_back(past) == -np.inf)


@pytest.mark.parametrize(("level", "rate", "count"), [(1.0, 0.1, 12), (3.0, 0.02, 30), (0.2, 0.5, 20)])
def test_what_is_added_and_what_is_removed_compose_apart(level, rate, count):
    """Responses from a random part, all outcomes counted over: (1-q)A + qB against A, and A against it."""
    yes = 1 / (1 + math.exp(-level))
    without, with_one = (1 - yes, yes), ((1 - rate) * (1 - yes) + rate * yes, (1 - rate) * yes + rate * (1 - yes))
    hits = np.arange(count + 1)
    p, q = (stats.binom.pmf(hits, count, law[0]) for law in (with_one, without))
    profile = count * SubsampledProfile(PureProfile(level, relation=ADD_REMOVE), rate)
    both = count * SubsampledProfile(PureProfile(level), rate)
    for epsilon in (0.0, 0.05, 0.3, 0.8):
        truth = max(_hockey(p, q, epsilon), _hockey(q, p, epsilon))
        assert truth * (1 - 1e-9) <= profile.delta(epsilon) <= truth * 1.02 + 1e-12
        assert profile.delta(epsilon) <= both.delta(epsilon) * (1 + 1e-9)


def test_ten_thousand_minibatches_cost_what_dp_accounting_says():
    pytest.importorskip("dp_accounting")
    from dp_accounting.pld import privacy_loss_distribution as pld

    ours = (10_000 * SubsampledProfile(GaussianProfile(1.0, relation=ADD_REMOVE), 1e-3)).epsilon(1e-6)
    theirs = pld.from_gaussian_mechanism(1.0, sampling_prob=1e-3, value_discretization_interval=1e-4)
    assert ours == pytest.approx(theirs.self_compose(10_000).get_epsilon_for_delta(1e-6), rel=5e-3)
    assert ours == pytest.approx(0.555, abs=2e-3)
    assert (10_000 * SubsampledProfile(GaussianProfile(1.0), 1e-3)).epsilon(1e-6) > 1.2 * ours


def test_a_minibatch_costs_no_more_by_its_renyi_curve_than_by_a_promise():
    """500 steps with a hundredth of the records each: that divergences add must not cost a thousand times ε."""
    steps = 500 * SubsampledProfile(GaussianProfile(0.4), 0.01)
    order = 30.0
    assert steps.renyi(order) < 5 * steps.epsilon(1e-6)
