"""(ε, δ) under a metric, near neighbours, and Le Cam for sets: against brute force over distances, data and weights."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import special, stats

from sottovoce.mechanisms.conjugate import (
    BetaBernoulli,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    NormalMean,
)
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import ApproxDP
from sottovoce.theory.metric.approximate import ApproximateMetricDP, normal_mean_metric, profile_within
from sottovoce.theory.metric.distinguishability import guess_error
from sottovoce.theory.metric.le_cam import guess_error_of_sets, table_error
from sottovoce.theory.metric.metric import absolute_distance

NORMAL = NormalMean(variance=2.0, prior_variance=3.0, bounds=(-5, 5))


@pytest.mark.parametrize(("n", "epsilon", "weight"), [(10, 0.5, 1.0), (50, 0.2, 1.0), (10, 1e-3, 0.1), (3, 3.0, 1.0)])
def test_a_normal_mean_keeps_definition_two_at_every_distance(n, epsilon, weight):
    privacy = normal_mean_metric(NORMAL, n, epsilon, largest=12.0, data_weight=weight)
    precision = 1 / 3.0 + weight * n / 2.0
    worst = 0.0
    for rho in np.concatenate([np.geomspace(1e-9, 1e-3, 30), np.linspace(0.01, 12.0, 400)]):
        mu = weight * rho / 2.0 / math.sqrt(precision)
        truth = stats.norm.cdf(mu / 2 - epsilon * rho / mu) - math.exp(epsilon * rho) * stats.norm.cdf(
            -mu / 2 - epsilon * rho / mu
        )
        assert truth <= privacy.delta * rho * (1 + 1e-6) + 1e-16
        worst = max(worst, truth / rho)
    assert privacy.delta <= worst * 1.01  # and no more than it takes


def test_a_promise_between_two_data_sets():
    privacy = ApproximateMetricDP(0.5, 1e-6, absolute_distance, largest=3.0)
    found = privacy.between([0.0, 1.0], [2.0, 1.0])
    assert found.epsilon == pytest.approx(1.0)
    assert found.delta == pytest.approx(2e-6)
    assert privacy.within(0.0) == ApproxDP(0.0, 0.0)
    with pytest.raises(InvalidValue, match="up to a distance"):
        privacy.within(3.5)
    with pytest.raises(InvalidValue, match="nothing is promised"):
        ApproximateMetricDP(0.5, 0.6).within(2.0)
    for wrong in ({"epsilon": -1.0, "delta": 0.0}, {"epsilon": 1.0, "delta": math.nan}):
        with pytest.raises(InvalidValue):
            ApproximateMetricDP(**wrong)
    with pytest.raises(InvalidValue, match="largest"):
        ApproximateMetricDP(1.0, 0.1, largest=0.0)
    with pytest.raises(InvalidValue, match="bounds"):
        normal_mean_metric(NormalMean(1.0, 1.0, radius=1.0, dimension=2), 5, 0.5, 1.0)


@pytest.mark.parametrize("distance", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("system", [GammaExponential(shape=3.0, rate=6.0, high=4.0), GammaPoisson(9.0, 2.0, 4), NORMAL])
def test_near_neighbours_by_brute_force(system, distance):
    n, order = 3, 1.4
    reading = system.reading
    values = np.arange(5.0) if isinstance(system, GammaPoisson) else np.linspace(reading.low, reading.high, 9)
    worst = 0.0
    for rest in itertools.combinations_with_replacement(values[:: len(values) - 1], n - 1):
        posteriors = {z: system.posterior(system.statistics([*rest, z])) for z in values}
        for x, y in itertools.product(values, repeat=2):
            if abs(x - y) <= distance + 1e-12:
                worst = max(worst, float(posteriors[x].renyi(posteriors[y], order)))
    claimed = profile_within(system, n, distance).renyi(order)
    assert claimed >= worst * (1 - 1e-9)
    assert claimed <= system.profile(n).renyi(order) * (1 + 1e-12)
    if distance == 1.0 and not isinstance(system, NormalMean):
        assert claimed == pytest.approx(worst, rel=1e-6)


def test_categories_are_near_or_not():
    for system in (BetaBernoulli(2, 2), DirichletCategorical([1.0, 2.0, 3.0])):
        assert profile_within(system, 5, 0.5).pure() == 0.0
        assert profile_within(system, 5, 1.0).delta(0.5) == system.profile(5).delta(0.5)
    assert profile_within(NormalMean(1.0, 1.0, radius=2.0, dimension=3), 5, 1.0).gdp() == pytest.approx(
        NormalMean(1.0, 1.0, radius=2.0, dimension=3).profile(5).gdp() / 4
    )
    with pytest.raises(InvalidValue, match="nobody has worked out"):
        profile_within("a stranger's system", 5, 0.5)


@pytest.mark.parametrize("distance", [1e-3, 0.2, 0.3, 1.0, 7.0])
@pytest.mark.parametrize(
    ("a", "b", "n", "w", "v"), [(2.0, 3.0, 3, 1.0, 1.0), (0.5, 40.0, 10, 0.7, 2.0), (1e-3, 1.0, 1, 1.0, 1.0)]
)
def test_near_shares_by_brute_force(distance, a, b, n, w, v):
    """Every place of the rest and of the record, R and δ by textbook formulas: never above, and reached."""
    system = BetaBernoulli(a, b, whole=False)
    claim = profile_within(system, n, distance, w, v)
    step = w * min(distance, 1.0)
    rest = w * n - step
    t = np.concatenate([[0.0, rest], np.linspace(0, rest, 41)])
    order = 1 + 0.4 * (v * min(a, b)) / step
    worst, curve = 0.0, np.zeros(2)
    eps = np.array([0.0, 0.5 * float(claim.renyi(order))])
    for low, high in ((v * a + t, v * b + rest - t), (v * b + t, v * a + rest - t)):
        p, q = (low + step, high), (low, high + step)
        for (p1, p2), (q1, q2) in ((p, q), (q, p)):
            mixed = special.betaln(order * p1 + (1 - order) * q1, order * p2 + (1 - order) * q2)
            worst = max(
                worst, float(np.max((mixed - order * special.betaln(p1, p2)) / (order - 1) + special.betaln(q1, q2)))
            )
        # log P/Q = c + step·logit θ rises: δ is a difference of two tails.
        c = special.betaln(*q) - special.betaln(*p)
        for k, e in enumerate(eps):
            other = special.expit((c - e) / step)
            value = special.betainc(p[1], p[0], other) - math.exp(e) * special.betainc(q[1], q[0], other)
            curve[k] = max(curve[k], float(np.nanmax(value)))
    assert claim.renyi(order) >= worst * (1 - 1e-9)
    assert np.all(claim.delta(eps) >= curve * (1 - 1e-7))
    assert claim.renyi(order) == pytest.approx(worst, rel=1e-6)
    assert claim.renyi(1.01) <= system.profile(n, w, v).renyi(1.01) * (1 + 1e-9)


def test_no_record_and_no_distance_cost_nothing():
    system = BetaBernoulli(2.0, 2.0, whole=False)
    assert profile_within(system, 0, 0.5).pure() == profile_within(system, 9, 0.0).pure() == 0.0
    tiny = profile_within(system, 10**6, 1e-6)
    assert 0 < tiny.delta(0.0) < 1e-6


def test_hulls_are_nearer_than_points_and_no_adversary_does_better():
    rng = np.random.default_rng(3)
    first, second = rng.dirichlet(np.ones(5), 3), rng.dirichlet(np.ones(5), 4)
    bound, hulls = guess_error_of_sets(2.0, first, second)
    for p, q in itertools.product(first, second):
        assert bound >= guess_error(2.0, float(np.abs(p - q).sum() / 2)) - 1e-9
    for _ in range(2000):  # brute force over mixtures
        p, q = rng.dirichlet(np.ones(3)) @ first, rng.dirichlet(np.ones(4)) @ second
        assert np.abs(p - q).sum() / 2 >= hulls.total_variation - 1e-9
    # Every guess, between any point of the one and any of the other set, by enumeration of deterministic guesses.
    least = min(
        max(*(float(law @ np.array(guess)) for law in first), *(float(law @ (1 - np.array(guess))) for law in second))
        for guess in itertools.product((0.0, 1.0), repeat=5)
    )
    assert bound <= 2.0 * least + 1e-9
    assert guess_error_of_sets(1.0, [[1.0, 0.0]], [[0.0, 1.0]])[0] == 0.0
    for wrong in ([[0.5, 0.6]], [[0.2, 0.3, 0.5]], [[-0.5, 1.5]]):
        with pytest.raises(InvalidValue):
            guess_error_of_sets(1.0, wrong, [[0.5, 0.5]])


@pytest.mark.parametrize("flips", [0.05, 0.3, 0.5])
def test_no_guess_at_a_whole_table_beats_le_cam_with_mixtures(flips):
    """A noisy sum of four tossed records: the best guess of each of them by enumeration, and the worst neighbours."""
    n, outcomes = 4, np.arange(-12, 17)
    tables = list(itertools.product((0, 1), repeat=n))
    laws = np.array([np.exp(-np.abs(outcomes - sum(table)) / (2 * flips)) for table in tables])
    laws /= laws.sum(axis=1, keepdims=True)
    apart = max(
        np.abs(laws[i] - laws[j]).sum() / 2
        for i, x in enumerate(tables)
        for j, y in enumerate(tables)
        if sum(a != b for a, b in zip(x, y, strict=True)) == 1
    )
    ones = np.array(tables, dtype=float)
    # The best guess names, for every outcome, the likelier value of each record.
    wrong = sum(
        np.minimum((ones[:, [k]] * laws).sum(axis=0), ((1 - ones[:, [k]]) * laws).sum(axis=0)) for k in range(n)
    )
    least = float(np.sum(wrong)) / len(tables)
    assert table_error(n, apart) <= least * (1 + 1e-12)
    assert table_error(n, apart) > guess_error(1.0, apart)
    # Two records released as they are: everything is right, and nothing is claimed.
    assert table_error(n, 1.0) == table_error(0, 0.3) == 0.0
    with pytest.raises(InvalidValue):
        table_error(3, 1.5)
