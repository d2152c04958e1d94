"""Every claimed profile against brute force over all pairs of neighbouring data sets.

The oracle knows nothing of the library: it writes the log-densities down in an unbounded coordinate (logit
or log of the
parameter), where they are smooth, and integrates numerically.
"""

import itertools

import numpy as np
import pytest
from scipy import special

from sottovoce.mechanisms import (
    ConcentratedPosterior,
    DiffusedPosterior,
    DirectPosterior,
    NoisyStatistics,
    StatisticalQuery,
    TemperedPosterior,
)
from sottovoce.mechanisms.conjugate import (
    BetaBernoulli,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    NormalMean,
)
from sottovoce.privacy.profile import Basis

WEIGHTS = [(1.0, 1.0), (0.4, 1.0), (1.0, 2.5)]
ORDERS = np.array([1.0001, 1.2, 1.45])
EPSILONS = np.array([0.0, 0.1, 0.7, 2.0])

GRID = np.arange(-250.0, 250.0, 0.1)
NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(24)
MANY, MANY_WEIGHTS = np.polynomial.legendre.leggauss(200)
PANELS = np.concatenate([[0.0], np.geomspace(1e-2, 400.0, 30)])


def beta(a, b):
    return lambda t: a * special.log_expit(t) + b * special.log_expit(-t) - special.betaln(a, b)


def gamma(k, r):
    return lambda t: k * (t + np.log(r)) - r * np.exp(np.minimum(t, 650.0)) - special.gammaln(k)


def normal(m, v):
    return lambda t: -((t - m) ** 2) / (2 * v) - np.log(2 * np.pi * v) / 2


def both_ways(family, pairs):
    """Log-densities of many pairs of laws at once, a row for each pair and for its converse."""
    first, second = np.array([pair for p, q in pairs for pair in ((p, q), (q, p))]).transpose(1, 2, 0)[..., None]
    return family(*first), family(*second)


def log_sum(logs):
    """SciPy's logsumexp over the last axis, in a third of its time."""
    most = logs.max(axis=-1, keepdims=True)
    return most[..., 0] + np.log(np.exp(logs - most).sum(axis=-1))


def oracle_renyi(p, q, order):
    """Trapezoid on smooth, decaying integrands, of log-densities on the grid: spectrally accurate. The worst pair."""
    f = order * p + (1 - order) * q
    return (log_sum(f).max() + np.log(GRID[1] - GRID[0])) / (order - 1)


def oracle_delta(p, q, epsilon):
    """Integrate p - e^ε q over the side of the threshold where it is positive. The worst pair."""

    def positive(t):
        return p(t) - q(t) - epsilon > 0

    low, high = (np.full_like(p(np.zeros(1)), end) for end in (-300.0, 300.0))
    rising, same = positive(high), positive(low) == positive(high)
    for _ in range(70):
        middle = (low + high) / 2
        upper = positive(middle) == rising
        low, high = np.where(upper, low, middle), np.where(upper, middle, high)
    steps = (np.diff(PANELS)[:, None] / 2 * np.ones_like(NODES)).ravel()
    u = (PANELS[:-1, None] + np.diff(PANELS)[:, None] / 2 * (NODES + 1)).ravel()
    t = (low + high) / 2 + np.where(rising, u, -u)
    found = (np.exp(p(t)) - np.exp(epsilon + q(t))) @ (steps * np.tile(NODE_WEIGHTS, len(PANELS) - 1))
    return float(np.where(same[:, 0], rising[:, 0], found).max())


def beta_neighbours(system, n, w, v):
    def pairs():
        for s in range(n):
            a, b = v * system.alpha + w * s, v * system.beta + w * (n - 1 - s)
            yield (a + w, b), (a, b + w)

    return both_ways(beta, pairs())


def dirichlet_neighbours(system, n, w, v):
    d, seen = len(system.alpha), set()
    for counts in itertools.product(range(n), repeat=d):
        if sum(counts) == n - 1:
            for i, j in itertools.permutations(range(d), 2):
                seen.add((v * system.alpha[i] + w * counts[i], v * system.alpha[j] + w * counts[j]))
    # θ_i/(θ_i+θ_j) ~ Beta carries the whole ratio
    return both_ways(beta, (((a + w, b), (a, b + w)) for a, b in seen))


def poisson_neighbours(system, n, w, v):
    def pairs():
        for rest in range((n - 1) * system.high + 1):
            for x, y in itertools.combinations(range(system.high + 1), 2):
                shape, rate = v * system.shape + w * rest, v * system.rate + w * n
                yield (shape + w * x, rate), (shape + w * y, rate)

    return both_ways(gamma, pairs())


def exponential_neighbours(system, n, w, v):
    def pairs():
        values = np.linspace(0, system.high, 4)
        for rest in np.linspace(0, (n - 1) * system.high, 5):
            for x, y in itertools.combinations(values, 2):
                shape, rate = v * system.shape + w * n, v * system.rate + w * rest
                yield (shape, rate + w * x), (shape, rate + w * y)

    return both_ways(gamma, pairs())


def normal_neighbours(system, n, w, v):
    low, high = system.bounds
    precision = v / system.prior_variance + w * n / system.variance

    def pairs():
        for rest in np.linspace((n - 1) * low, (n - 1) * high, 3):
            for x, y in itertools.combinations(np.linspace(low, high, 4), 2):
                means = [
                    (v * system.prior_mean / system.prior_variance + w * (rest + z) / system.variance) / precision
                    for z in (x, y)
                ]
                yield (means[0], 1 / precision), (means[1], 1 / precision)

    return both_ways(normal, pairs())


CASES = [
    (BetaBernoulli(1.0, 1.0), 1, beta_neighbours),
    (BetaBernoulli(0.6, 2.5), 5, beta_neighbours),
    (BetaBernoulli(6.0, 12.0), 8, beta_neighbours),
    (DirichletCategorical([1.0, 1.0, 1.0]), 4, dirichlet_neighbours),
    (DirichletCategorical([3.0, 0.6, 1.7, 0.9]), 3, dirichlet_neighbours),
    (DirichletCategorical([0.8, 2.0]), 8, dirichlet_neighbours),
    (GammaPoisson(1.5, 2.0, high=3), 3, poisson_neighbours),
    (GammaPoisson(4.0, 0.5, high=2), 8, poisson_neighbours),
    (GammaExponential(0.7, 2.0, high=1.5), 3, exponential_neighbours),
    (GammaExponential(3.0, 5.0, high=2.0), 8, exponential_neighbours),
    (NormalMean(2.0, 3.0, prior_mean=0.3, bounds=(-1.0, 2.0)), 4, normal_neighbours),
]


def mechanism_with(system, n, w, v):
    if w == v == 1:
        return DirectPosterior(system, n)
    return DiffusedPosterior(system, n, w) if v == 1 else ConcentratedPosterior(system, n, v)


@pytest.mark.parametrize(("w", "v"), WEIGHTS)
@pytest.mark.parametrize(("system", "n", "neighbours"), CASES, ids=lambda c: getattr(c, "word", c))
def test_profile_is_the_supremum_over_all_neighbours(system, n, neighbours, w, v):
    profile = mechanism_with(system, n, w, v).profile
    assert profile.basis is Basis.EXACT
    p, q = neighbours(system, n, w, v)
    on_grid = p(GRID), q(GRID)
    for order in ORDERS[profile.pole > ORDERS]:
        assert profile.renyi(order) == pytest.approx(oracle_renyi(*on_grid, order), abs=1e-10, rel=1e-9)
    for epsilon in EPSILONS:
        assert profile.delta(epsilon) == pytest.approx(oracle_delta(p, q, epsilon), abs=1e-10)


def test_four_categories_and_eight_records():
    system, w = DirichletCategorical([0.9, 1.6, 1.1, 2.0]), 0.6
    profile = DiffusedPosterior(system, 8, w).profile
    p, q = dirichlet_neighbours(system, 8, w, 1.0)
    assert p(np.zeros(1)).shape == (2 * 12 * 36, 1)
    assert profile.renyi(2.2) == pytest.approx(oracle_renyi(p(GRID), q(GRID), 2.2), abs=1e-10)
    assert profile.delta(0.4) == pytest.approx(oracle_delta(p, q, 0.4), abs=1e-10)


@pytest.mark.parametrize("system", [case[0] for case in CASES], ids=lambda s: s.word)
def test_worst_pairs_reach_the_renyi_curve(system):
    for w, v in WEIGHTS:
        profile = system.profile(5, w, v)
        order = 1 + 0.6 * min(profile.pole - 1, 5.0)
        reached = max(p.renyi(q, order) for p, q in system.worst_pairs(5, w, v))
        assert reached == pytest.approx(profile.renyi(order), rel=1e-9)


def test_vectors_in_a_ball_move_by_its_diameter():
    system = NormalMean(2.0, 3.0, radius=1.5, dimension=3)
    pairs = system.worst_pairs(4, 0.7, 1.2)
    assert max(p.renyi(q, 3.0) for p, q in pairs) == pytest.approx(system.profile(4, 0.7, 1.2).renyi(3.0), rel=1e-12)
    rng = np.random.default_rng(5)
    for _ in range(200):  # no two records of the ball do worse
        x, y = (z / max(1.0, np.linalg.norm(z) / 1.5) for z in rng.normal(0, 2, (2, 3)))
        mu = 0.7 * np.linalg.norm(x - y) / (2.0 * np.sqrt(1.2 / 3.0 + 0.7 * 4 / 2.0))
        assert mu <= system.profile(4, 0.7, 1.2).mu + 1e-12


def test_three_categories_by_integration_over_the_simplex():
    system = DirichletCategorical([1.5, 1.2, 2.0])
    a, b = np.array([2.5, 1.2, 2.0]), np.array([1.5, 2.2, 2.0])

    # θ₁ = x and θ₂ = (1 - x)·y in the logits of x and y, where a trapezoid is spectrally accurate.
    logits = np.arange(-80.0, 80.0, 0.25)
    (low, high), step = (special.log_expit(-logits), special.log_expit(logits)), 0.25
    x, rest = high[:, None] + np.zeros_like(high), low[:, None] + np.zeros_like(low)
    logs = np.stack([x, rest + high, rest + low])
    jacobian = x + 2 * rest + low + high

    def log_density(alpha):
        return np.tensordot(alpha - 1, logs, axes=1) + special.gammaln(alpha.sum()) - special.gammaln(alpha).sum()

    p, q = log_density(a), log_density(b)
    assert np.exp(p + jacobian).sum() * step**2 == pytest.approx(1, abs=1e-12)
    found = [np.exp(1.5 * one - 0.5 * other + jacobian).sum() * step**2 for one, other in ((p, q), (q, p))]
    assert system.profile(1).renyi(1.5) == pytest.approx(2 * np.log(max(found)), abs=1e-10)


def test_fractions_do_no_worse_than_the_query_claims():
    query = StatisticalQuery(BetaBernoulli(0.7, 1.3), 4, predicate=float, data_weight=0.8)
    w, pairs = 0.8, []
    for rest in np.linspace(0, 3, 31):
        a, b = 0.7 + w * rest, 1.3 + w * (3 - rest)
        pairs += itertools.combinations([(a + w, b), (a, b + w), (a + w / 2, b + w / 2)], 2)
    p, q = both_ways(beta, pairs)
    for epsilon in EPSILONS:
        worst = oracle_delta(p, q, epsilon)
        assert worst - 1e-12 <= query.profile.delta(epsilon) <= worst * (1 + 1e-6) + 1e-12


# Tempered posteriors: exact curves by quadrature on the truncated interval, never above the claim.


def truncated_curves(log_p, log_q, interval, epsilons, orders):
    low, high = interval
    x, weights = low + (MANY + 1) * (high - low) / 2, MANY_WEIGHTS * (high - low) / 2
    log_weights = np.log(weights)
    p = log_p(x) - log_sum(log_p(x) + log_weights)
    q = log_q(x) - log_sum(log_q(x) + log_weights)
    deltas = [float(weights @ np.maximum(np.exp(p) - np.exp(e + q), 0)) for e in epsilons]
    renyi = [log_sum(o * p + (1 - o) * q + log_weights) / (o - 1) for o in orders]
    return np.array(deltas), np.array(renyi), float(np.max(np.abs(p - q)))


TEMPERED = [
    (BetaBernoulli(0.5, 2.0), 0.05, [0, 1]),
    (GammaPoisson(1.5, 2.0, 3), (0.2, 4.0), [0, 1, 2, 3]),
    (GammaExponential(0.7, 2.0, 1.5), (0.2, 4.0), [0.0, 0.7, 1.5]),
    (NormalMean(2.0, 3.0, bounds=(-1.0, 2.0)), (-1.0, 2.0), [-1.0, 0.5, 2.0]),
]


def log_joint(system, n, total):
    match system:
        case BetaBernoulli():
            return lambda t: (system.alpha + total - 1) * np.log(t) + (system.beta + n - total - 1) * np.log1p(-t)
        case GammaPoisson():
            return lambda t: (system.shape + total - 1) * np.log(t) - (system.rate + n) * t
        case GammaExponential():
            return lambda t: (system.shape + n - 1) * np.log(t) - (system.rate + total) * t
        case _:
            return lambda t: -(t**2) / (2 * system.prior_variance) + (total * t - n * t**2 / 2) / system.variance


@pytest.mark.parametrize(("system", "truncation", "records"), TEMPERED, ids=lambda c: getattr(c, "word", ""))
@pytest.mark.parametrize("temperature", [1.0, 6.0])
def test_tempered_never_exceeds_its_claim(system, truncation, records, temperature):
    n = 3
    mech = TemperedPosterior(system, n, temperature, truncation)
    low, high = (truncation, 1 - truncation) if isinstance(truncation, float) else truncation
    orders = np.array([1.5, 3.0, 20.0])
    epsilons = mech.profile.pure() * np.array([0.0, 0.2, 0.6])
    delta = mech.profile.delta(epsilons)
    renyi_claim = np.minimum(mech.profile.renyi(orders), mech.profile.zcdp() * orders)
    largest = 0.0
    for others in itertools.combinations_with_replacement(records, n - 1):
        for x, y in itertools.permutations(records, 2):
            joint_x, joint_y = (log_joint(system, n, sum(others) + z) for z in (x, y))
            deltas, renyi, loss = truncated_curves(
                lambda t, f=joint_x: f(t) / temperature,
                lambda t, f=joint_y: f(t) / temperature,
                (low, high),
                epsilons,
                orders,
            )
            assert loss <= mech.profile.pure() * (1 + 1e-9)
            assert np.all(deltas <= delta + 1e-9)
            assert np.all(renyi <= renyi_claim + 1e-9)
            largest = max(largest, loss)
    assert largest > 0.4 * mech.profile.pure()  # the claim is not idle either


@pytest.mark.parametrize("temperature", [1.0, 5.0])
def test_tempered_dirichlet_never_exceeds_its_claim(temperature):
    alpha, n, floor = np.array([0.6, 1.0, 2.5]), 3, 0.08
    mech = TemperedPosterior(DirichletCategorical(alpha), n, temperature, floor)
    axis = np.linspace(floor, 1 - 2 * floor, 401)
    x, y = np.meshgrid(axis, axis)
    inside = x + y <= 1 - floor
    logs = np.log(np.stack([x[inside], y[inside], 1 - x[inside] - y[inside]]))
    epsilons, orders = mech.profile.pure() * np.array([0.0, 0.3]), np.array([1.5, 5.0])
    deltas, divergences = mech.profile.delta(epsilons), mech.profile.renyi(orders)
    laws = {}
    for counts in itertools.product(range(n + 1), repeat=3):
        if sum(counts) == n:
            joint = (alpha + counts - 1) @ logs / temperature
            laws[counts] = joint - log_sum(joint)
    chances = {counts: np.exp(law) for counts, law in laws.items()}
    largest, pairs = 0.0, 0
    for one, other in itertools.permutations(laws, 2):
        if np.abs(np.subtract(one, other)).sum() != 2:
            continue
        p, q = laws[one], laws[other]
        pairs += 1
        largest = max(largest, float(np.max(np.abs(p - q))))
        for epsilon, claim in zip(epsilons, deltas, strict=True):
            assert np.maximum(chances[one] - np.exp(epsilon) * chances[other], 0).sum() <= claim + 1e-6
        for order, claim in zip(orders, divergences, strict=True):
            assert log_sum(order * p + (1 - order) * q) / (order - 1) <= claim + 1e-6
    assert pairs == 36
    assert 0.4 * mech.profile.pure() < largest <= mech.profile.pure() * (1 + 1e-9)


# Noisy statistics: sums over the outputs themselves.


@pytest.mark.parametrize(("width", "scale"), [(1, 0.7), (1, 3.0), (3, 2.5)])
def test_laplace_counts_match_brute_force(width, scale):
    system = BetaBernoulli(1, 1) if width == 1 else GammaPoisson(1, 1, high=width)
    profile = NoisyStatistics(system, 6, "laplace", scale).profile
    k = np.arange(-400, 401)
    log_p = -np.abs(k) / scale - log_sum(-np.abs(k) / scale)
    for epsilon in EPSILONS:
        worst = 0.0
        for shift in range(-width, width + 1):
            log_q = -np.abs(k - shift) / scale - log_sum(-np.abs(k) / scale)
            worst = max(worst, float(np.maximum(np.exp(log_p) - np.exp(epsilon + log_q), 0).sum()))
        assert profile.delta(epsilon) == pytest.approx(worst, abs=1e-10)
    assert profile.pure() == pytest.approx(width / scale)


def test_laplace_histogram_matches_brute_force():
    scale = 2.0
    profile = NoisyStatistics(DirichletCategorical([1, 1, 1]), 6, "laplace", scale).profile
    k = np.arange(-120, 121)
    one = -np.abs(k) / scale - log_sum(-np.abs(k) / scale)
    up = -np.abs(k - 1) / scale - log_sum(-np.abs(k) / scale)
    down = -np.abs(k + 1) / scale - log_sum(-np.abs(k) / scale)
    log_p, log_q = one[:, None] + one[None, :], up[:, None] + down[None, :]
    for order in (1.5, 2.0, 8.0):
        worst = log_sum((order * log_p + (1 - order) * log_q).ravel()) / (order - 1)
        assert profile.renyi(order) == pytest.approx(worst, abs=1e-10)
    for epsilon in (0.0, 0.4):
        worst = float(np.maximum(np.exp(log_p) - np.exp(epsilon + log_q), 0).sum())
        assert worst - 1e-10 <= profile.delta(epsilon) <= worst + 1e-3


@pytest.mark.parametrize("sigma", [0.6, 1.0, 4.0])
def test_discrete_gaussian_keeps_its_claim(sigma):
    profile = NoisyStatistics(GammaPoisson(1, 1, high=2), 6, "gaussian", sigma).profile
    assert profile.basis is Basis.EXACT
    k = np.arange(-200, 201)
    norm = log_sum(-(k**2) / (2 * sigma**2))
    for shift in (1, 2):
        log_p, log_q = -(k**2) / (2 * sigma**2) - norm, -((k - shift) ** 2) / (2 * sigma**2) - norm
        for order in (1.5, 2.0, 10.0):
            assert log_sum(order * log_p + (1 - order) * log_q) / (order - 1) <= profile.renyi(order) + 1e-12
        for epsilon in (0.1, 1.0, 3.0):
            exact = np.maximum(np.exp(log_p) - np.exp(epsilon + log_q), 0).sum()
            assert exact <= profile.delta(epsilon) + 1e-12
            assert shift < 2 or exact == pytest.approx(profile.delta(epsilon), rel=1e-10, abs=1e-14)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_sums_of_fractions_stay_within_the_sensitivity_of_the_grid(noise):
    system = GammaExponential(1, 1, high=0.3)
    mech = NoisyStatistics(system, 50, noise, scale=1.0)
    rng = np.random.default_rng(3)
    steps = 0
    for _ in range(300):
        x = rng.uniform(0, 0.3, 50)
        y = x.copy()
        x[0], y[0] = 0.0, 0.3
        a, b = (np.rint(system.statistics(rng.permutation(z)).total[0] / mech.grid) for z in (x, y))
        steps = max(steps, abs(a - b))
    claimed = mech.profile.pure() if noise == "laplace" else np.sqrt(2 * mech.profile.zcdp())
    assert steps <= claimed / mech.grid
    assert claimed <= 0.3 * (1 + 1e-5)  # the grid costs next to nothing


def test_a_ball_on_a_grid_stays_within_its_sensitivity():
    system = NormalMean(1.0, 1.0, radius=2.0, dimension=4)
    mech = NoisyStatistics(system, 20, "gaussian", scale=1.0)
    rng = np.random.default_rng(4)
    worst = 0.0
    for _ in range(300):
        x = rng.normal(0, 1, (20, 4))
        y = x.copy()
        y[0] = -5 * x[0]
        x[0] = 5 * x[0]
        a, b = (np.rint(system.statistics(z).total / mech.grid) for z in (x, y))
        worst = max(worst, float(np.linalg.norm(a - b)) * mech.grid)
    assert 3.99 < worst <= np.sqrt(2 * mech.profile.zcdp()) <= 4.0001
