"""What a profile means for a person, against closed forms, and promises asked for in words."""

import math

import numpy as np
import pytest
from scipy import stats

from sottovoce.mechanisms import DiffusedPosterior, NoisyStatistics
from sottovoce.privacy import (
    ApproxDP,
    GaussianProfile,
    InvalidPromise,
    MaxAdvantage,
    MaxSuccess,
    PrivacyFilter,
    PureProfile,
    compose,
    parse_promise,
)
from sottovoce.privacy.risk import advantage, predictive_value, success, trade_off
from sottovoce.systems import BetaBernoulli

ALPHAS = (1e-6, 0.01, 0.05, 0.5, 0.99)


@pytest.mark.parametrize("mu", [1e-6, 0.1, 1.0, 3.0, 8.0])
def test_the_trade_off_of_a_gaussian(mu):
    truth = stats.norm.cdf(stats.norm.ppf(1 - np.array(ALPHAS)) - mu)
    found = trade_off(GaussianProfile(mu), ALPHAS)
    assert np.all(found <= truth + 1e-12)
    np.testing.assert_allclose(found, truth, atol=1e-7)


@pytest.mark.parametrize("epsilon", [1e-6, 0.5, 3.0, 40.0])
def test_the_trade_off_of_randomized_response(epsilon):
    alphas = np.array(ALPHAS)
    truth = np.maximum(np.maximum(1 - math.exp(epsilon) * alphas, math.exp(-epsilon) * (1 - alphas)), 0)
    np.testing.assert_allclose(trade_off(PureProfile(epsilon), ALPHAS), truth, atol=1e-9)
    assert advantage(PureProfile(epsilon)) == pytest.approx(math.tanh(epsilon / 2), rel=1e-9)


def test_no_attack_on_a_posterior_sample_beats_the_sentence():
    """Among a hundred records, the best test between s = 0 and s = 1 of a Beta posterior, by its likelihood ratio."""
    mechanism = DiffusedPosterior(BetaBernoulli(6, 12), 100, 0.8)
    a, b = 6.0, 12 + 0.8 * 99
    first, second = stats.beta(a, b + 0.8), stats.beta(a + 0.8, b)
    cuts = np.linspace(1e-6, 0.5, 4000)
    for false, hits in ((first.sf(cuts), second.sf(cuts)), (second.cdf(cuts), first.cdf(cuts))):
        for baseline in (0.001, 0.01, 0.2):
            best = float(np.interp(baseline, np.sort(false), np.sort(hits)))
            assert best <= success(mechanism.profile, baseline) + 1e-6


def test_an_alarm_is_as_sure_as_bayes_rule_says():
    assert predictive_value(PureProfile(0.0), 0.3, 0.1) == pytest.approx(0.3)
    hits = 1 - trade_off(GaussianProfile(1.0), 0.05)
    assert predictive_value(GaussianProfile(1.0), 0.3, 0.05) == pytest.approx(0.3 * hits / (0.3 * hits + 0.7 * 0.05))


@pytest.mark.parametrize("promise", [MaxAdvantage(0.1), MaxSuccess(0.05, baseline=0.01)])
def test_promises_in_words_are_parsed_calibrated_and_kept(promise):
    assert parse_promise(str(promise)) == promise
    assert type(promise).from_json(promise.to_json()) == promise
    for mechanism in (
        DiffusedPosterior.calibrate(BetaBernoulli(6, 12), 100, promise),
        NoisyStatistics.calibrate(BetaBernoulli(6, 12), 100, promise, "gaussian"),
        NoisyStatistics.calibrate(BetaBernoulli(6, 12), 100, promise, "laplace"),
    ):
        assert mechanism.profile.satisfies(promise)
        assert abs(mechanism.profile.excess(promise)) < 1e-6 or getattr(mechanism, "data_weight", 0) == 1


@pytest.mark.parametrize(
    "promise", [MaxAdvantage(0.1), MaxAdvantage(0.6), MaxSuccess(0.05, 0.01), MaxSuccess(0.9, 0.5)]
)
def test_what_a_budget_in_words_lets_out_keeps_it(promise):
    purse = PrivacyFilter(promise)
    share = purse.share(0.1)
    mu = math.sqrt(2 * share.epsilon / share.order)
    count = 0
    while purse.can_spend(GaussianProfile(mu)):
        purse.spend(GaussianProfile(mu))
        count += 1
    assert count == 10
    assert compose([GaussianProfile(mu)], [count]).satisfies(promise)
    assert GaussianProfile(mu * math.sqrt(count) * 1.5).excess(promise) > 0  # and is not idle


def test_a_risk_saves_noise_over_the_promise_that_implies_it():
    """(ε, δ) that bounds success at 1 % by 5 % allows e^ε·0.01 + δ: the direct promise allows more."""
    direct = NoisyStatistics.calibrate(BetaBernoulli(1, 1), 1000, MaxSuccess(0.05, 0.01), "gaussian")
    implied = NoisyStatistics.calibrate(BetaBernoulli(1, 1), 1000, ApproxDP(math.log(4.9), 0.001), "gaussian")
    assert direct.scale < 0.9 * implied.scale


@pytest.mark.parametrize("bad", [(0.0,), (1.0,), (-0.1,), ("x",)])
def test_no_such_advantage(bad):
    with pytest.raises(InvalidPromise):
        MaxAdvantage(*bad)


@pytest.mark.parametrize("bad", [(0.01, 0.05), (0.05, 0.0), (1.0, 0.5), (math.nan, 0.5)])
def test_no_such_success(bad):
    with pytest.raises(InvalidPromise):
        MaxSuccess(*bad)
