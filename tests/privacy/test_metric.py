"""Metric privacy against quadrature, brute force over windows, tables and data sets."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.theory.metric.metric import MetricDP, absolute_distance, hamming_distance, squares_distance
from sottovoce.theory.metric.networks import NetworkMetric, network_privacy
from sottovoce.theory.metric.posterior_pairs import BinomialProportion, ExponentialRate, LaplaceScale, NormalPrecision
from sottovoce.theory.metric.relaxed_claims import RefutedClaim, relaxed_counterexamples, relaxed_metric_privacy
from sottovoce.theory.metric.variance_posterior import NormalVariance
from tests.privacy.oracle import quad, renyi

CHAIN, FORK = ((), (0,), (1,)), ((), (0,), (0,))


@pytest.mark.parametrize("metric", [absolute_distance, hamming_distance, squares_distance])
def test_a_distance_is_a_pseudo_metric(metric):
    rng = np.random.default_rng(1)
    for _ in range(300):
        x, y, z = rng.integers(-3, 4, (3, 4)).astype(float)
        assert metric(x, x) == 0
        assert metric(x, y) == metric(y, x) >= 0
        assert metric(x, z) <= metric(x, y) + metric(y, z) + 1e-12


# (family, where the prior is cut off, the parameter's range there, log-likelihood + log-prior, two data sets)
BOUNDED = [
    pytest.param(
        ExponentialRate(2.0),
        3.0,
        (1e-12, 3),
        lambda t, x: len(x) * mp.log(t) - t * sum(x) - 2 * t,
        [0.5, 2.0],
        [0.7, 2.0],
        id="exponential",
    ),
    pytest.param(
        LaplaceScale(0.5, 1.0),
        0.5,
        (1e-12, 2),
        lambda t, x: len(x) * mp.log(t) - t * sum(abs(v - 0.5) for v in x) - t,
        [1.0, -1.0, 0.0],
        [1.0, -2.0, 0.3],
        id="laplace",
    ),
    pytest.param(
        BinomialProportion(2.0, 3.0, trials=4),
        0.1,
        (0.1, 0.9),
        lambda t, x: (1 + sum(x)) * mp.log(t) + (2 + 4 * len(x) - sum(x)) * mp.log(1 - t),
        [3, 1],
        [1, 1],
        id="binomial",
    ),
    pytest.param(
        NormalPrecision(1.5, 1.0),
        0.4,
        (1e-12, 2.5),
        lambda t, x: len(x) / 2 * mp.log(t) - t / 2 * sum((v - 1.5) ** 2 for v in x) - t,
        [1.0, -0.5],
        [1.2, 0.5],
        id="normal precision",
    ),
    pytest.param(
        NormalVariance(1.5, 1.0),
        0.4,
        (0.4, mp.inf),
        lambda t, x: -len(x) / 2 * mp.log(t) - sum((v - 1.5) ** 2 for v in x) / (2 * t) - t,
        [1.0, -0.5],
        [1.2, 0.5],
        id="normal variance",
    ),
]


@pytest.mark.parametrize(("family", "limit", "support", "joint", "x", "y"), BOUNDED)
def test_the_cut_off_posterior_moves_no_more_than_the_theorem_says(family, limit, support, joint, x, y):
    privacy = family.bounded(limit)
    low, high = support
    points = [low, *([2, 10, 40] if high == mp.inf else [(low + high) / 2]), high]

    def log_posterior(data):
        norm = mp.log(mp.quad(lambda t: mp.exp(joint(t, data)), points))
        return lambda t: joint(t, data) - norm

    p, q = log_posterior(x), log_posterior(y)
    grid = [low + 1e-9 + (min(high, 60) - low - 2e-9) * mp.mpf(i) / 200 for i in range(201)]
    losses = [p(t) - q(t) for t in grid]
    bound = privacy.log_ratio_bound(x, y)
    assert max(map(abs, losses)) <= bound  # Theorem 2(i)
    assert max(losses) - min(losses) <= bound * (1 + 1e-9)  # the window
    kl = renyi(p, q, 1, points)
    assert kl <= privacy.kl_bound(x, y) <= bound  # Theorem 1(i), and the sharper form
    total_variation = (
        mp.quad(lambda t: abs(mp.exp(p(t)) - mp.exp(q(t))), sorted([*points, *_crossing(losses, grid)])) / 2
    )
    assert total_variation <= privacy.profile(x, y).delta(0.0)


def _crossing(losses, grid):
    return [grid[i] for i in range(1, len(grid)) if (losses[i] > 0) != (losses[i - 1] > 0)]


def test_the_window_is_as_wide_as_claimed_for_a_bounded_proportion():
    privacy = BinomialProportion(1.0, 1.0).bounded(0.2)
    x, y = [1, 1, 0], [0, 0, 0]
    ends = [sum(x) * math.log(t / (1 - t)) - sum(y) * math.log(t / (1 - t)) for t in (0.2, 0.8)]
    assert privacy.log_ratio_bound(x, y) == pytest.approx(ends[1] - ends[0], rel=1e-12)


def test_the_sum_over_records_keeps_the_constant_of_one_record():
    """Lemma 1 multiplies it by n, for nothing."""
    rng = np.random.default_rng(2)
    for theta in (0.01, 0.7, 3.0):
        x, y = rng.exponential(size=(2, 5))
        moved = abs(theta * (x.sum() - y.sum()))
        assert moved <= theta * absolute_distance(x, y) + 1e-12


@pytest.mark.parametrize("width", [0.02, 0.5, 2.0, 7.0, 25.0])
def test_the_sharp_divergence_is_the_largest_over_all_windows(width):
    privacy = MetricDP(width / 2, absolute_distance)
    top = width * np.arange(1, 4000) / 4000  # the loss is `top` or `top - width`
    p = np.expm1(top - width) / np.expm1(-width)
    best = np.max(p * top + (1 - p) * (top - width))  # off by 1e-16 of the width, and below the largest by far more
    bound = privacy.kl_bound([0.0], [1.0])
    assert best <= bound * (1 + 1e-12)
    assert bound <= min(width, width**2 / 8) * (1 + 1e-12)
    assert bound == pytest.approx(best, rel=1e-2 if width > 6 else 1e-4)


def test_the_central_model_is_the_largest_distance_of_one_record():
    privacy = BinomialProportion(1.0, 1.0).bounded(0.25)
    profile = privacy.within(1.0)
    assert profile.pure() == privacy.log_ratio_bound([1, 0], [0, 0])
    assert profile.zcdp() == pytest.approx(math.log(3) ** 2 / 2)


@pytest.mark.parametrize("parents", [CHAIN, FORK, ((), (), (0, 1)), ((), (), ())])
@pytest.mark.parametrize("categories", [2, 3])
def test_no_network_moves_more_than_its_touched_tables_allow(parents, categories):
    rng = np.random.default_rng(3)
    smallest = 0.05
    privacy = network_privacy(parents, smallest)
    worst = 0.0
    records = list(itertools.product(range(categories), repeat=3))
    distances = {(a, b): privacy.distance([a], [b]) for a, b in itertools.combinations(records, 2)}
    for _ in range(20):
        tables = [
            smallest + (1 - categories * smallest) * rng.dirichlet([0.05] * categories, categories ** len(row))
            for row in parents
        ]
        logs = {}
        for record in records:
            cells = [sum(record[p] * categories**i for i, p in enumerate(row)) for row in parents]
            logs[record] = sum(math.log(tables[k][cells[k], record[k]]) for k in range(3))
        for (a, b), distance in distances.items():
            moved = abs(logs[a] - logs[b])
            assert moved <= privacy.lipschitz * distance + 1e-9
            worst = max(worst, moved / (privacy.lipschitz * distance))
    assert worst > 0.8  # the constant is not far too large


def test_the_lemma_as_stated_counts_too_few_tables():
    """Changing the first variable of a chain moves two factors; ln(1/ε) times one changed variable is too little."""
    e = 0.01
    moved = abs(math.log((e * e) / ((1 - e) * (1 - e))))  # P(a)P(b|a): both factors at their ends
    assert hamming_distance([[0, 0]], [[1, 0]]) == 1
    assert moved > math.log(1 / e)
    privacy = network_privacy(((), (0,)), e)
    assert moved == pytest.approx(privacy.lipschitz * privacy.distance([[0, 0]], [[1, 0]]))


def test_the_network_distance_is_a_pseudo_metric_and_below_the_papers():
    metric, rng = NetworkMetric(((), (0,), (0,), (1, 2))), np.random.default_rng(4)
    for _ in range(200):
        x, y, z = rng.integers(0, 2, (3, 5, 4))
        assert metric(x, z) <= metric(x, y) + metric(y, z)
        assert metric(x, y) == metric(y, x) <= metric.weighted(x, y)
        assert metric(x[:1], y[:1]) <= metric.diameter


def test_the_counterexamples_stand_up_to_quadrature():
    first, second = relaxed_counterexamples(concentration=0.5)
    w = mp.findroot(lambda w: mp.e**w - 2 * w - 1, 1.25)
    kappa = 2 * w / (1 - mp.e**-w) ** 2
    assert first.bound == pytest.approx(float(kappa * 100), rel=1e-12)
    with mp.workdps(30):
        p, q = (lambda t, r=r: 10 * mp.log(t) - r * t - mp.loggamma(11) + 11 * mp.log(r) for r in (0.5, 50.5))
        kl = quad(lambda t: mp.exp(p(t)) * (p(t) - q(t)), [1e-9, 5, 20, 40, 80, 200])
    assert first.truth == pytest.approx(float(kl), rel=1e-9)
    assert first.truth == pytest.approx(11 * (100 - math.log(101)), rel=1e-12)
    assert first.truth > 2 * first.bound
    with mp.workdps(30):
        k, r1, r2 = mp.mpf(10_001), mp.mpf("0.5"), mp.mpf("0.505")
        crossing = k * mp.log(r2 / r1) / (r2 - r1)
        gap = mp.gammainc(k, 0, r2 * crossing, regularized=True) - mp.gammainc(k, 0, r1 * crossing, regularized=True)
    assert second.truth == pytest.approx(float(gap), rel=1e-8)
    assert second.truth > second.bound
    assert second.bound == pytest.approx(math.sqrt(float(kappa) * 0.01 / 2), rel=1e-9)


def test_the_relaxed_bounds_are_refused_with_their_counterexamples():
    with pytest.raises(RefutedClaim, match=r"allows 491.1 and the truth is 1049") as caught:
        relaxed_metric_privacy(concentration=1.0)
    assert all(case.truth > case.bound for case in caught.value.counterexamples)
    with pytest.raises(InvalidValue, match="concentration must be > 0"):
        relaxed_metric_privacy(0.0)


@pytest.mark.parametrize("family", [ExponentialRate(0.7), LaplaceScale(0.0, 0.7)])
def test_the_refuted_assumption_does_hold_for_the_counterexample(family):
    """The prior Exp(c) puts 1 - e^(-cL) on θ <= L, and there the likelihood has the constant L."""
    x, y = [0.0] * 10, [0.0] * 9 + [70.0]
    for limit in (0.1, 1.0, 5.0):
        assert -math.expm1(-0.7 * limit) == pytest.approx(1 - math.exp(-0.7 * limit))
        moved = limit * abs(sum(x) - sum(y))
        assert moved <= ExponentialRate(0.7).bounded(limit).lipschitz * family.metric(x, y)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: MetricDP(-1.0), InvalidValue, "lipschitz must be >= 0"),
        (lambda: MetricDP(math.nan), InvalidValue, "lipschitz must be finite"),
        (lambda: MetricDP(1.0, "hamming"), InvalidValue, "function of two data sets"),
        (lambda: MetricDP(1.0, lambda x, y: -1.0).profile([0], [1]), InvalidValue, "finite and >= 0"),
        (lambda: MetricDP(1.0, lambda x, y: math.nan).profile([0], [1]), InvalidValue, "finite and >= 0"),
        (lambda: MetricDP(1.0, lambda x, y: x[0] - y[0]).profile([2], [1]), InvalidValue, "same both ways"),
        (lambda: MetricDP(1.0).within(-2.0), InvalidValue, "distance must be >= 0"),
        (lambda: absolute_distance([1.0], [1.0, 2.0]), InvalidData, "one shape"),
        (lambda: absolute_distance([1.0], [math.nan]), InvalidData, "finite"),
        (lambda: hamming_distance(["a"], ["b"]), InvalidData, "must be numbers"),
        (lambda: NetworkMetric(((1,), (0,))), InvalidValue, "cycle"),
        (lambda: NetworkMetric(((5,),)), InvalidValue, "one of the 1 variables"),
        (lambda: NetworkMetric(()), InvalidValue, "one of the 0 variables"),
        (lambda: NetworkMetric(CHAIN)([0, 1, 2], [0, 1, 1]), InvalidData, "one row a record"),
        (lambda: network_privacy(CHAIN, 0.0), InvalidValue, "smallest must lie in"),
        (lambda: network_privacy(CHAIN, 0.7), InvalidValue, "smallest must lie in"),
    ],
)
def test_what_makes_no_sense_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_no_records_are_no_distance_apart():
    assert MetricDP(1.0, hamming_distance).profile([], []).pure() == 0
    assert ExponentialRate(1.0).divergence([], []) == 0
