"""What a profile means for a person, against closed forms, and promises asked for in words."""

import functools
import math

import numpy as np
import pytest
from scipy import spatial, special, stats

from sottovoce.mechanisms import DiffusedPosterior, NoisyStatistics
from sottovoce.mechanisms.conjugate import BetaBernoulli
from sottovoce.privacy import (
    ApproxDP,
    GaussianDP,
    GaussianProfile,
    InvalidPromise,
    InvalidValue,
    LaplaceProfile,
    MaxAdvantage,
    MaxSuccess,
    PrivacyFilter,
    PureDP,
    PureProfile,
    RenyiDP,
    RenyiProfile,
    ZeroConcentratedDP,
    ZeroConcentratedProfile,
    compose,
    parse_promise,
)
from sottovoce.privacy.risk import (
    advantage,
    how_sure,
    inferred,
    predictive_value,
    reconstructed,
    singled_out,
    success,
    trade_off,
)

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
    laws, cuts = ((a, b + 0.8), (a + 0.8, b)), np.linspace(1e-6, 0.5, 4000)
    above = [special.betainc(q, p, 1 - cuts) for p, q in laws]  # on ARM SciPy's upper tails take a hundredfold
    below = [special.betainc(p, q, cuts) for p, q in laws]
    for false, hits in (above, below[::-1]):
        for baseline in (0.001, 0.01, 0.2):
            best = float(np.interp(baseline, np.sort(false), np.sort(hits)))
            assert best <= success(mechanism.profile, baseline) + 1e-6


@pytest.mark.parametrize(("records", "weight"), [(1, 1.0), (12, 1.0), (12, 0.3)])
def test_the_curve_of_posterior_samples_is_that_of_brute_force(records, weight):
    """Every pair of neighbours, both ways round: likelihood-ratio tests of Beta laws, and coins between two of them."""
    prior = (2.0, 3.0)
    profile = DiffusedPosterior(BetaBernoulli(*prior), records, weight).profile
    false, hits = [np.array([0.0, 1.0])], [np.array([0.0, 1.0])]
    rough, fine = (np.linspace(1e-9, 1 - 1e-9, points) for points in (101, 3000))
    for ones in range(records):
        low = prior[0] + weight * ones, prior[1] + weight * (records - ones)
        high = prior[0] + weight * (ones + 1), prior[1] + weight * (records - ones - 1)
        # Any cuts will do; these lie about as close by where either law has its weight.
        cuts = np.concatenate([np.interp(fine, rough, special.betaincinv(*law, rough)) for law in (high, low)])
        below = [special.betainc(*law, cuts) for law in (low, high)]
        above = [special.betainc(b, a, 1 - cuts) for a, b in (low, high)]
        false += [above[0], below[1]]
        hits += [above[1], below[0]]
    hull = _upper_hull(np.concatenate(false), np.concatenate(hits))
    for alpha in (1e-3, 0.01, 0.1, 0.5, 0.9):
        truth = float(np.interp(alpha, *hull))
        assert truth - 1e-9 <= success(profile, alpha) <= truth + 1e-6


def _upper_hull(x, y):
    corners = spatial.ConvexHull(np.column_stack([x, y])).vertices
    points = sorted(zip(x[corners].tolist(), y[corners].tolist(), strict=True))
    hull = []
    for point in points:
        while len(hull) > 1 and _turns_left(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    return np.array(hull).T


def _turns_left(a, b, c):
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]) >= 0


KEEPERS = [GaussianProfile(mu) for mu in (1e-3, 0.1, 0.5, 1.0, 2.0, 5.0)]
KEEPERS += [PureProfile(level) for level in (1e-3, 0.1, 0.7, 1.6, 4.0)]
KEEPERS += [compose([PureProfile(0.3), LaplaceProfile(3.0)], [2, 3]), GaussianProfile(0.2) + PureProfile(0.4)]
PROMISES = [MaxAdvantage(0.05), MaxAdvantage(0.5), ApproxDP(1.0, 0.01), PureDP(0.7), RenyiDP(2, 0.3)]
PROMISES += [MaxSuccess(0.05, 0.01), MaxSuccess(0.6, 0.5), MaxSuccess(0.9, 0.3), MaxSuccess(0.999, 0.001)]
PROMISES += [ZeroConcentratedDP(0.2), GaussianDP(1.0)]
BASELINES = (0.0, 1e-12, 1e-3, 0.01, 0.3, 0.5, 0.9, 1 - 1e-9, 1.0)


@functools.cache  # the same beside every promise
def reached(keeper: int) -> tuple[float, list[float]]:
    profile = KEEPERS[keeper]
    together = (1 - trade_off(profile, BASELINES)).tolist()
    assert together[3] == pytest.approx(success(profile, BASELINES[3]), rel=1e-6)
    return advantage(profile), together


@pytest.mark.parametrize("promise", PROMISES, ids=str)
def test_what_keeps_a_promise_never_goes_beyond_what_the_promise_leaves(promise):
    left = advantage(promise), [success(promise, baseline) for baseline in BASELINES]
    kept = [k for k, profile in enumerate(KEEPERS) if profile.satisfies(promise)]
    assert kept
    for k in kept:
        most, chances = reached(k)
        assert most <= left[0] + 1e-12
        for chance, largest in zip(chances, left[1], strict=True):
            assert chance <= largest + 1e-12


@pytest.mark.parametrize(("most", "known"), [(0.05, 0.01), (0.6, 0.5), (0.9, 0.3), (0.999, 0.001), (0.02, 1e-12)])
def test_what_a_success_leaves_elsewhere_is_reached(most, known):
    """Between the promised point and its mirror image by a pure curve, outside by one of total variation."""
    promise = MaxSuccess(most, known)
    steep = PureProfile(math.log(most / known) if most + known <= 1 else math.log((1 - known) / (1 - most)))
    assert success(steep, known) == pytest.approx(most, rel=1e-9)
    for baseline in np.linspace(min(known, 1 - most), max(known, 1 - most), 7):
        assert success(promise, baseline) == pytest.approx(success(steep, baseline), rel=1e-9)
    assert advantage(promise) == pytest.approx(advantage(steep), rel=1e-9)
    for baseline in (min(known, 1 - most) / 2, (1 + max(known, 1 - most)) / 2):
        assert success(promise, baseline) == pytest.approx(min(1.0, baseline + most - known), rel=1e-9)


@pytest.mark.parametrize(
    "claim",
    [
        GaussianProfile(0.0),
        GaussianProfile(1e-300),
        GaussianProfile(1e100),
        PureProfile(0.0),
        PureProfile(1e-300),
        PureProfile(1e300),
        PureDP(1e308),
        ApproxDP(800.0, 1e-6),
        ApproxDP(0.0, 1 - 1e-16),
        MaxAdvantage(1e-300),
        MaxAdvantage(1 - 1e-16),
        MaxSuccess(1 - 1e-16, 1e-300),
        RenyiProfile((2.0,), (800.0,)),
        compose([GaussianProfile(0.01), PureProfile(30.0), LaplaceProfile(1e-3)], [1, 2, 1]),
    ],
    ids=str,
)
def test_at_the_edges_a_chance_is_a_chance(claim):
    edges = np.array([0.0, 1e-300, 1e-12, 0.5, 1 - 1e-12, 1.0])
    most, alarm = advantage(claim), success(claim, 0.01)
    assert 0 <= most <= 1
    missed = trade_off(claim, edges)
    assert np.all(missed >= 0) and np.all(missed <= 1 - edges)
    for baseline in edges.tolist():
        found = success(claim, baseline)
        assert baseline <= found <= 1
        assert found <= baseline + most * (1 + 1e-9) + 1e-14
        assert baseline <= how_sure(alarm, baseline, 0.01) <= 1
    assert predictive_value(claim, 0.5, 0.01) == how_sure(alarm, 0.5, 0.01)


def test_no_chance_is_lost_in_the_digits():
    assert success(ApproxDP(800.0, 1e-6), 1e-310) == 1.0
    assert success(PureDP(1e-20), 1e-18) >= 1e-18
    assert success(GaussianProfile(100.0), 0.0) == 0.0  # with no false alarm at all, no true one
    assert success(GaussianProfile(1e-12), 1e-9) == pytest.approx(1e-9, rel=1e-2)


def test_three_ways_to_be_harmed_are_one_bound():
    for claim in (GaussianProfile(1.0), ApproxDP(1.0, 1e-6)):
        assert singled_out(claim, 500) == success(claim, 1 / 500)
        assert inferred(claim, 2) == success(claim, 0.5)
        assert reconstructed(claim, 10**6) == success(claim, 1e-6)
    with pytest.raises(InvalidValue):
        singled_out(PureDP(1.0), 0)


@pytest.mark.parametrize("order", [1.001, 2.0, 30.0, 1000.0])
@pytest.mark.parametrize(
    ("most", "known"), [(0.05, 0.01), (0.5 + 1e-12, 0.5), (0.01 + 1e-9, 0.01), (2e-12, 1e-12), (1 - 1e-12, 1e-12)]
)
def test_the_allowance_of_a_success_against_mpmath(most, known, order):
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(80):
        p, q, a = mpmath.mpf(most), mpmath.mpf(known), mpmath.mpf(order)
        truth = max(
            mpmath.log(x**a * y ** (1 - a) + (1 - x) ** a * (1 - y) ** (1 - a)) / (a - 1) for x, y in ((p, q), (q, p))
        )
        found = MaxSuccess(most, known).allowance(order)
        assert truth * (1 - mpmath.mpf("1e-7")) <= found <= truth


@pytest.mark.parametrize("most", [1e-12, 1e-6, 0.5, 1 - 1e-9])
def test_a_budget_of_any_advantage_is_kept(most):
    purse = PrivacyFilter(MaxAdvantage(most))
    mu = math.sqrt(2 * purse.limit / purse.order)
    assert advantage(GaussianProfile(mu)) <= most
    assert advantage(GaussianProfile(2.6 * mu)) > most * 0.99


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


@pytest.mark.parametrize("promise", [MaxSuccess(0.05, 0.01), MaxSuccess(0.2, 0.01), MaxSuccess(0.9, 0.5)])
def test_all_that_a_budget_in_words_covers_says_the_same_words(promise):
    """The divergence that a budget allows leaves to a guess just what the budget promises, not a hair more."""
    purse = PrivacyFilter(promise)
    spent = RenyiProfile((purse.order,), (purse.limit,))
    assert success(spent, promise.baseline) == pytest.approx(promise.success, rel=1e-6)
    assert spent.excess(promise) <= 1e-6


@pytest.mark.parametrize("rho", [0.01, 0.125, 0.5])
@pytest.mark.parametrize("alpha", [0.001, 0.01, 0.1, 0.5])
def test_a_curve_of_divergences_allows_the_coin_that_it_just_allows(rho, alpha):
    """At each of many orders the likeliest heads whose divergence from heads with chance α is ρλ, by bisection."""
    order = 1 + np.geomspace(1e-2, 50, 400)

    def within(p):
        both = []
        for a, b in ((p, alpha), (alpha, p)):
            first = order * np.log(a) + (1 - order) * np.log(b)
            second = order * np.log1p(-a) + (1 - order) * np.log1p(-b)
            both.append(np.logaddexp(first, second) / (order - 1))
        return np.maximum(*both) <= rho * order

    low, high = np.full(order.shape, alpha), np.full(order.shape, 1 - 1e-9)
    for _ in range(60):
        middle = (low + high) / 2
        inside = within(middle)
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    truth = low.min()
    assert truth * (1 - 1e-4) <= success(ZeroConcentratedProfile(rho), alpha) <= truth * (1 + 1e-4)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("chance", [0.01, 0.3, 0.9])
def test_what_a_pure_promise_leaves_to_a_guess_is_what_its_profile_does(epsilon, chance):
    """The least of e^ε·α and 1 − e^(−ε)(1 − α): randomized response, by hand."""
    truth = min(math.exp(epsilon) * chance, 1 - math.exp(-epsilon) * (1 - chance))
    assert success(PureDP(epsilon), chance) == pytest.approx(truth, rel=1e-12)
    assert success(PureDP(epsilon), chance) >= truth
