"""One calibration routine for every mechanism and every promise."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.mechanisms import (
    ConcentratedPosterior,
    DiffusedPosterior,
    DirectPosterior,
    NoisyStatistics,
    StatisticalQuery,
    TemperedPosterior,
)
from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.conjugate import (
    BetaBernoulli,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    NormalMean,
)
from sottovoce.privacy.errors import PromiseUnreachable
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.promises import ApproxDP, GaussianDP, PureDP, RenyiDP, ZeroConcentratedDP

SYSTEMS = [
    BetaBernoulli(6, 12),
    DirichletCategorical([2, 3, 4]),
    GammaPoisson(3, 2, high=4),
    GammaExponential(3, 5, high=2.0),
    NormalMean(1.0, 2.0, bounds=(-1, 1)),
]


@pytest.mark.parametrize(
    ("order", "epsilon", "r", "m"),
    [(2, 0.05, 0.5028255169, 0.2536161523), (15, 0.1, 0.2278734087, 0.05782745247), (2, 0.3, 1.0, 1.0)],
)
def test_worked_calibrations(order, epsilon, r, m):
    system, target = BetaBernoulli(6, 12), RenyiDP(order, epsilon)
    assert DiffusedPosterior.calibrate(system, 100, target).data_weight == pytest.approx(r, rel=1e-9)
    assert 1 / ConcentratedPosterior.calibrate(system, 100, target).prior_weight == pytest.approx(m, rel=1e-9)


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda s: s.word)
@pytest.mark.parametrize("target", [ApproxDP(0.5, 1e-5), RenyiDP(3, 0.02), RenyiDP(1, 0.001)], ids=str)
def test_the_answer_keeps_the_promise_and_a_hair_more_breaks_it(system, target):
    diffused = DiffusedPosterior.calibrate(system, 60, target)
    assert diffused.profile.satisfies(target)
    if diffused.data_weight < 1:
        assert not DiffusedPosterior(system, 60, diffused.data_weight * (1 + 1e-10)).profile.satisfies(target)
    concentrated = ConcentratedPosterior.calibrate(system, 60, target)
    assert concentrated.profile.satisfies(target)
    if concentrated.prior_weight > 1:
        smaller = max(concentrated.prior_weight * (1 - 1e-10), 1.0)
        assert not ConcentratedPosterior(system, 60, smaller).profile.satisfies(target)


@pytest.mark.parametrize(
    "target", [PureDP(0.5), ApproxDP(0.5, 1e-6), RenyiDP(4, 0.1), ZeroConcentratedDP(0.02), GaussianDP(0.4)], ids=str
)
@pytest.mark.parametrize("system", SYSTEMS, ids=lambda s: s.word)
def test_noise_and_temperature_reach_every_promise(system, target):
    noisy = NoisyStatistics.calibrate(system, 60, target)
    assert noisy.profile.satisfies(target)
    truncation = (0.5, 2.0) if isinstance(system, GammaPoisson | GammaExponential) else None
    tempered = TemperedPosterior.calibrate(system, 60, target, truncation)
    assert tempered.profile.satisfies(target)
    if tempered.temperature > 1:
        hotter = TemperedPosterior(system, 60, tempered.temperature * (1 - 1e-9), truncation)
        assert not hotter.profile.satisfies(target)


def test_tempered_temperature_is_twice_delta_over_epsilon():
    mech = TemperedPosterior.calibrate(BetaBernoulli(1, 1), 50, PureDP(0.8), truncation=0.05)
    assert mech.temperature == pytest.approx(2 * math.log(0.95 / 0.05) / 0.8, rel=1e-9)
    three = TemperedPosterior.calibrate(DirichletCategorical([1, 1, 1]), 50, PureDP(0.8), truncation=0.05)
    assert three.temperature == pytest.approx(2 * math.log(0.9 / 0.05) / 0.8, rel=1e-9)
    assert TemperedPosterior.calibrate(BetaBernoulli(1, 1), 50, PureDP(50.0)).temperature == 1


@pytest.mark.parametrize("system", [BetaBernoulli(1, 1), DirichletCategorical([1, 1, 1])], ids=lambda s: s.word)
@pytest.mark.parametrize(("epsilon", "delta"), [(1e-3, 0.5), (50.0, 1e-6), (0.1, 1e-200), (5.0, 0.9), (1e-6, 1e-3)])
def test_gaussian_noise_is_the_least_wherever_a_rough_bound_says_to_look(system, epsilon, delta):
    target = ApproxDP(epsilon, delta)
    found = NoisyStatistics.calibrate(system, 10, target, "gaussian")
    assert found.profile.satisfies(target)
    if found.scale > 0.0101:  # the search begins there
        assert not NoisyStatistics(system, 10, "gaussian", found.scale * (1 - 1e-6)).profile.satisfies(target)


def test_pure_noise_has_the_textbook_scale():
    assert NoisyStatistics.calibrate(BetaBernoulli(1, 1), 9, PureDP(0.5)).scale == pytest.approx(2.0, rel=1e-9)
    assert NoisyStatistics.calibrate(GammaPoisson(1, 1, 7), 9, PureDP(0.5)).scale == pytest.approx(14.0, rel=1e-9)
    assert NoisyStatistics.calibrate(DirichletCategorical([1, 1, 1]), 9, PureDP(0.5)).scale == pytest.approx(
        4.0, rel=1e-9
    )
    mean = NoisyStatistics.calibrate(NormalMean(1, 1, bounds=(0, 3)), 9, ZeroConcentratedDP(0.02), noise="gaussian")
    assert mean.scale == pytest.approx(3 / math.sqrt(0.04), rel=1e-5)


@pytest.mark.parametrize("target", [PureDP(1.0), ZeroConcentratedDP(1.0), GaussianDP(1.0)], ids=str)
def test_promises_a_beta_posterior_never_keeps_are_refused_with_the_reason(target):
    for kind in (DirectPosterior, DiffusedPosterior, ConcentratedPosterior):
        with pytest.raises(PromiseUnreachable, match="infinite"):
            kind.calibrate(BetaBernoulli(6, 12), 100, target)


def test_direct_sampling_is_taken_or_left():
    system = NormalMean(1.0, 2.0, bounds=(-1, 1))
    assert DirectPosterior.calibrate(system, 400, GaussianDP(0.1)).profile.satisfies(GaussianDP(0.1))
    with pytest.raises(PromiseUnreachable, match="more privacy than the mechanism gives"):
        DirectPosterior.calibrate(system, 400, GaussianDP(0.09))


def test_calibration_reads_no_record():
    class Records:
        def __array__(self, *args, **kwargs):
            raise AssertionError("calibration looked at the data")

        __iter__ = __len__ = __array__

    with pytest.raises(TypeError):
        DiffusedPosterior.calibrate(BetaBernoulli(1, 1), 10, ApproxDP(1, 1e-3), Records())
    query = StatisticalQuery.calibrate(BetaBernoulli(1, 1), 10, ApproxDP(1, 1e-3), predicate=Records().__array__)
    assert query.profile.satisfies(ApproxDP(1, 1e-3))


@pytest.mark.parametrize("top", [1e-9, 0.3, 1.0, 977.0, 1e12])
def test_the_search_ends_wherever_it_starts(top):
    answer = largest_keeping(lambda w: GaussianProfile(w / top * 5), GaussianDP(1e-3), high=top, name="w")
    assert answer == pytest.approx(2e-4 * top, rel=1e-10)
    with pytest.raises(PromiseUnreachable):
        largest_keeping(lambda w: GaussianProfile(1 + w), GaussianDP(0.5), high=top, name="w")
    assert largest_keeping(lambda w: GaussianProfile(w), GaussianDP(2e12), high=top, name="w") == top


def test_an_approximate_promise_is_not_met_through_renyi():
    system, target = BetaBernoulli(6, 12), ApproxDP(1.0, 1e-6)
    exact = DiffusedPosterior.calibrate(system, 100, target).data_weight

    def through_renyi(w):
        orders = np.linspace(1.01, min(1 + 6 / w, 400) - 1e-3, 4000)
        values = system.profile(100, w).renyi(orders)
        logs = (orders - 1) * (values - 1.0) + (orders - 1) * np.log1p(-1 / orders) - np.log(orders)
        return np.exp(logs.min())

    assert through_renyi(exact) > 1e-6  # the exact curve allows more data than any order does


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    alpha=st.floats(0.05, 200),
    beta=st.floats(0.05, 200),
    n=st.integers(1, 10**7),
    epsilon=st.floats(0.01, 8),
    log_delta=st.floats(-40, -1),
    order=st.floats(1.0, 60),
    renyi=st.booleans(),
)
def test_any_beta_system_and_promise(alpha, beta, n, epsilon, log_delta, order, renyi):
    target = RenyiDP(order, epsilon) if renyi else ApproxDP(epsilon, math.exp(log_delta))
    mech = DiffusedPosterior.calibrate(BetaBernoulli(alpha, beta), n, target)
    assert mech.profile.satisfies(target)
    if mech.data_weight < 1:
        more = min(mech.data_weight * (1 + 1e-7), 1.0)  # a pole may be that near
        assert not DiffusedPosterior(mech.system, n, more).profile.satisfies(target)
