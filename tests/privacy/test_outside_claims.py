"""Claims that an outsider broke once, against closed forms in mpmath and exact fractions; nothing of the library's."""

from __future__ import annotations

import collections
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

import sottovoce as sv
from sottovoce.privacy.risk import predictive_value, success, trade_off
from sottovoce.records.readings import BallSum, CategoryCounts, ClippedSum, Joint

M = mp.mpf


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(220):
        yield


@pytest.mark.parametrize("baseline", [1e-300, 1e-20, 1e-17, 1e-13, 1e-6, 0.3, 0.999])
@pytest.mark.parametrize("level", [1e-6, 1.0, 10.0])
def test_success_of_randomized_response_is_not_below_the_truth(level, baseline):
    truth = min(mp.exp(level) * M(baseline), 1 - (1 - M(baseline)) * mp.exp(-M(level)))
    claim = success(sv.privacy.PureProfile(level), baseline)
    assert truth * (1 - M("1e-15")) <= claim <= truth * (1 + M("1e-9"))
    assert M(trade_off(sv.privacy.PureProfile(level), baseline)) <= 1 - truth + M("1e-16")


def test_a_rare_alarm_is_as_sure_as_it_can_be():
    assert predictive_value(sv.privacy.PureProfile(1.0), 0.5, 1e-20) >= float(1 / (1 + mp.exp(-1))) - 1e-15


@pytest.mark.parametrize("mu", [30.0, 1e4, 1e6, 1e9])
@pytest.mark.parametrize("back", [-7.0, 0.0, 4.5, 5.0, 9.25])
def test_gaussian_delta_at_the_extremes(mu, back):
    epsilon = mu * mu / 2 - back * mu
    a = M(mu) / 2 - M(epsilon) / M(mu)
    t = M(mu) - a
    mills = (
        mp.exp(t * t / 2) * mp.erfc(t / mp.sqrt(2)) * mp.sqrt(mp.pi / 2)
        if t < 1e3
        else (1 - t**-2 + 3 * t**-4 - 15 * t**-6) / t
    )
    truth = mp.ncdf(a) - mp.npdf(a) * mills
    assert truth * (1 - M("1e-12")) <= sv.privacy.GaussianProfile(mu).delta(epsilon) <= 1
    assert 0 <= sv.compose([sv.privacy.GaussianProfile(mu), sv.privacy.PureProfile(1.0)]).delta(epsilon) <= 1


@pytest.mark.parametrize("level", [1e-170, 1e-17, 3.3e-10, 1e-7, 0.01, 0.99, 1.01])
def test_gaussian_level_of_small_losses(level):
    def margin(share):  # minus the normal quantile of (1 - share) / 2
        return mp.findroot(lambda x: (mp.erf(x / mp.sqrt(2)) - share) / share, share * mp.sqrt(mp.pi / 2))

    cases = {
        sv.privacy.PureProfile(level): 2 * margin(mp.tanh(M(level) / 2)),
        sv.privacy.LaplaceProfile(1.0, level): 2 * margin(-mp.expm1(-M(level) / 2)),
    }
    scale = 1 / level
    q = mp.exp(-1 / M(scale))
    cases[sv.privacy.DiscreteLaplaceProfile(scale, 2)] = margin((1 - q) / (1 + q)) + margin(
        (1 - q * q + q - q * q) / (1 + q)
    )
    for profile, truth in cases.items():
        assert truth * (1 - M("3e-16")) <= profile.gdp() <= truth * (1 + M("1e-13"))
        assert profile.zcdp() > 0
        assert sv.privacy.PrivacyFilter(sv.GaussianDP(1.0)).cost(profile) > 0


def test_tiny_zero_concentration_is_not_none():
    delta = sv.privacy.ZeroConcentratedProfile(1e-323).delta(1e-300)
    assert delta > 1e-162  # a Gaussian with that ρ has 1.8e-162


@pytest.mark.parametrize(("rate", "high", "weight"), [(1e4, 1e-8, 1.0), (1e4, 1.0, 2.6e-12), (217.9, 279.4, 1e-3)])
def test_rates_that_lie_close_together(rate, high, weight):
    profile = sv.GammaExponential(1.0, rate, high).profile(2, weight)
    k, p = M(1) + 2 * M(weight), M(rate)
    q = p + M(weight) * M(high)
    for order in (1.5, 2.0):
        left = order * p - (order - 1) * q
        truth = k * (order * mp.log(p) - (order - 1) * mp.log(q) - mp.log(left)) / (order - 1)
        assert profile.renyi(order) >= truth


ODD = [np.array(1.0), np.ma.masked, "x", None, 1.0, True, 10**400]


@pytest.mark.parametrize("container", [list, tuple, collections.deque, collections.UserList])
@pytest.mark.parametrize("kept", ODD, ids=repr)
def test_what_a_record_becomes_is_its_own(container, kept):
    totals = [ClippedSum(0, 1).read(container([kept] * 5 + [last])).total[0] for last in ODD]
    assert max(totals) - min(totals) <= 1
    counts = [CategoryCounts(("a", "1", 1)).read(container([kept] * 5 + [last])).total for last in ODD]
    assert max(np.abs(a - b).sum() for a in counts for b in counts) <= 2


ROWS = [[0.0, 1.0], range(2), "xy", [1, 2, 3], [], np.ma.array([0.0, 1.0], mask=[0, 1]), None, [[0.0, 1.0]]]


@pytest.mark.parametrize("kept", ROWS, ids=repr)
def test_what_a_row_becomes_is_its_own(kept):
    seen = [BallSum(2, 1.0).read([kept] * 5 + [last]) for last in ROWS]
    assert {one.n for one in seen} == {6}
    assert max(np.linalg.norm(a.total - b.total) for a in seen for b in seen) <= 2


def test_whole_records_between_fractions_move_as_far_as_said():
    reading = ClippedSum(0.75, 2.0, integer=True)
    steps = [int(reading.steps(reading.read(data))[0]) for data in ([1, 1], [1, 2], [2, 2])]
    assert max(np.abs(np.diff(steps))) <= reading.movement(2).width == 1
    assert reading.from_steps(2, np.array(steps)).tolist() == [2.0, 3.0, 4.0]


def test_a_joint_reading_far_from_zero_moves_as_far_as_said_or_refuses():
    rng = np.random.default_rng(5)
    for _ in range(300):
        low, width, n = -(10 ** rng.uniform(8, 10.5)), 10 ** rng.uniform(-0.5, 1), int(rng.integers(4, 13))
        reading = Joint((ClippedSum(low, low + width),))
        rest = (low + width * rng.random(n - 1)).tolist()
        try:
            ends = [reading.steps(reading.read([[end, *rest]]))[0] for end in (-math.inf, math.inf)]
        except sv.SottovoceError:
            continue
        assert ends[1] - ends[0] <= reading.movement(n).width


def test_a_delta_too_small_for_a_double_is_not_told_as_none():
    profile = sv.BetaBernoulli(1.0, 2.5).profile(200, 0.35, 5000.0)
    assert profile.log_delta(1.0) < -1000
    assert profile.delta(1.0) > 0
    assert sv.privacy.GaussianProfile(0.01).delta([0.5, 5.0]).min() > 0
    assert sv.privacy.PureProfile(1.0).delta(1.0) == 0


@pytest.mark.parametrize("scale", [0.9, 1.1, 10 / 3, 3.0, 7.0, 49.0])
def test_levels_of_noise_on_whole_numbers_are_rounded_up(scale):
    for system, cells in ((sv.BetaBernoulli(1, 1), 1), (sv.DirichletCategorical([1.0, 1.0, 1.0]), 2)):
        pure = sv.NoisyStatistics(system, 5, "laplace", scale).profile.pure()
        rho = sv.NoisyStatistics(system, 5, "gaussian", scale).profile.zcdp()
        assert 0 <= Fraction(pure) - cells / Fraction(scale) <= Fraction(pure) / 2**50
        assert 0 <= Fraction(rho) - cells / (2 * Fraction(scale) ** 2) <= Fraction(rho) / 2**50
