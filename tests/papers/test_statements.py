"""Statements of the documents that the inventory calls true, loose or false, each by quadrature or brute force."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, special, stats

from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.subsampled import subsampled_epsilon
from sottovoce.theory.local import ProfileGraph, TwoProfileOneBit
from sottovoce.theory.local.one_bit import flip_probability
from sottovoce.theory.metric.distinguishability import histogram_answers, theorem_three_answers
from sottovoce.theory.metric.networks import network_privacy
from sottovoce.theory.metric.posterior_pairs import BinomialProportion


def _renyi(log_p, log_q, order, grid):
    p, q = (f - special.logsumexp(f) for f in (log_p(grid), log_q(grid)))
    return float(special.logsumexp(order * p + (1 - order) * q) / (order - 1))


# Not false: what is said holds, though a proof may not, or a constant may be too large.


def test_observation_ten_holds_though_its_value_is_no_solution():
    """The least α that is feasible for (7.5), from its linear constraints, is never above the largest term of (7.8)."""
    checked, infeasible = 0, 0
    for epsilon in (0.1, 0.5, 1.0, 2.0):
        e = math.exp(epsilon)
        for low, high in itertools.combinations_with_replacement(np.linspace(0.0, 1.0, 81), 2):
            # a + bα for each bit and order: e^ε·P_i(out) − P_j(out) ≥ 0 is linear in α, and slack at α = ½.
            needed = 0.0
            for p, q in ((low, high), (high, low), (1 - low, 1 - high), (1 - high, 1 - low)):
                at_none, at_half = e * q - p, (e - 1) / 2
                if at_none < 0:
                    needed = max(needed, -at_none / (at_half - at_none) / 2)
            tops = (high - e * low, low - e * high + e - 1)
            bottoms = (2 * (high - e * low) - (1 - e), 2 * (low - e * high) + e - 1)
            if min(map(abs, bottoms)) < 1e-12:
                continue
            printed = max(0.0, *(top / bottom for top, bottom in zip(tops, bottoms, strict=True)))
            assert needed <= printed + 1e-12
            assert float(flip_probability(low, high, epsilon)) == pytest.approx(needed, abs=1e-12)
            checked += 1
            infeasible += printed > 0.5
    assert checked > 10_000
    assert infeasible > 100  # its proof says that the printed value is feasible, and a flip above ½ is not
    graph = ProfileGraph.bernoulli({"i": 0.1, "j": 0.12}, [("i", "j")])
    assert TwoProfileOneBit.calibrate(graph, 1.0).flip == 0


@pytest.mark.parametrize(("sigma", "order"), [(2.0, 3.0), (0.7, 1.5)])
def test_the_gaussian_baseline_is_valid_and_twice_the_truth(sigma, order):
    """§5.1's λΔ²/σ² for Δ = 1, by quadrature, beside ours."""
    truth = _renyi(stats.norm(0, sigma).logpdf, stats.norm(1, sigma).logpdf, order, np.linspace(-60, 60, 400_001))
    assert order / sigma**2 == pytest.approx(2 * truth, rel=1e-6)
    assert float(GaussianProfile(1 / sigma).renyi(order)) == pytest.approx(truth, rel=1e-6)


# False as printed.


def _random_scan(log_odds, size):
    """Return the law of a scan that redraws one of `size` bits, all 0 and public: stay, or bit k becomes 1."""
    turns = special.expit(log_odds) / size
    return np.array([1 - turns.sum(), *turns])


def test_a_random_scan_over_latents_is_not_amplified():
    """§4.4.1: a changed bit was picked for certain. N = 10, Q = 1, Δ = ½ a record: ε is ½, and not 4ΔQ/N."""
    size, step = 10, 0.5
    odds, other = np.zeros(size), np.zeros(size)
    odds[0], other[0] = step, -step  # log Pr moves by Δ = ½ under either value of the record's bit
    laws = _random_scan(odds, size), _random_scan(other, size)
    truth = float(np.abs(np.log(laws[0] / laws[1])).max())
    assert truth == pytest.approx(step, rel=1e-12)
    printed, of_records = 4 * step / size, subsampled_epsilon(2 * step, 1 / size)
    assert printed == pytest.approx(0.2)
    assert of_records == pytest.approx(0.159, abs=5e-4)  # right where a part of the *records* is drawn in secret
    assert max(printed, of_records) < truth
    # Where the bit is rare under both records all of an update's own 2Δ is left.
    rare = [_random_scan(each - 20.0, size) for each in (odds, other)]
    assert np.abs(np.log(rare[0] / rare[1])).max() == pytest.approx(2 * step, rel=1e-6)


@pytest.mark.parametrize(("mu", "share"), [(1.0, 0.1), (0.3, 0.5)])
def test_what_a_random_scan_does_scale(mu, share):
    """δ = γδ₁(ε) and e^((λ−1)R) = 1 − γ + γe^((λ−1)R₁), by quadrature: a Gaussian update, picked and seen or not."""
    grid = np.linspace(-15, 15, 200_001)
    log_p, log_q = stats.norm.logpdf(grid, mu, 1), stats.norm.logpdf(grid, 0, 1)
    step, one = grid[1] - grid[0], GaussianProfile(mu)
    for epsilon in (0.2, 1.0):
        picked = step * np.maximum(np.exp(log_p) - np.exp(epsilon + log_q), 0).sum()
        unpicked = max(1 - share - math.exp(epsilon) * (1 - share), 0.0)  # seen as such: the old value stands
        assert share * picked + unpicked == pytest.approx(share * float(one.delta(epsilon)), rel=1e-4)
    for order in (2.0, 5.0):
        moment = 1 - share + share * step * np.exp(order * log_p + (1 - order) * log_q).sum()
        ours = 1 - share + share * math.exp((order - 1) * float(one.renyi(order)))
        assert moment == pytest.approx(ours, rel=1e-6)


def test_lemma_seventeen_of_the_thesis_fails_below_order_two():
    """Its segment η_P + x(η_P − η_Q), |x| ≤ λ − 1, leaves η_Q out where λ < 2, and the Hessian may be large there."""
    order, p, q = 1.05, (1.01, 30.0), (0.01, 31.0)

    def beta_log(a, b):
        return special.gammaln(a) + special.gammaln(b) - special.gammaln(a + b)

    mixed = [order * x + (1 - order) * y for x, y in zip(p, q, strict=True)]
    truth = (beta_log(*mixed) - order * beta_log(*p)) / (order - 1) + beta_log(*q)
    logit = np.linspace(-4000, 60, 2_000_001)  # the density of the logit, where no end is cut off

    def log_density(a, b):
        return lambda t: -a * np.logaddexp(0, -t) - b * np.logaddexp(0, t)

    assert _renyi(log_density(*p), log_density(*q), order, logit) == pytest.approx(truth, rel=1e-6)
    # In the thesis' coordinates (α, α + β) the step is (1, 0); the Hessian of C along the segment, in closed form.
    norms = []
    for x in np.linspace(1 - order, order - 1, 101):
        a, total = p[0] + x, 31.01
        tri = [float(special.polygamma(1, v)) for v in (a, total - a, total)]
        hessian = np.array([[tri[0] + tri[1], -tri[1]], [-tri[1], tri[1] - tri[2]]])
        norms.append(np.linalg.norm(hessian, 2))
    claimed = max(norms) * order
    assert truth == pytest.approx(4.10, abs=0.01)
    assert claimed == pytest.approx(1.87, abs=0.01)


def test_lemma_eight_of_the_thesis_needs_half_the_square():
    """B(η) = η²/2, the normal mean: KL = ½γ², within ½D‖γ‖² and above D‖γ‖ as soon as γ > 2."""
    gamma, largest = 4.0, 1.0
    grid = np.linspace(-30, 40, 400_001)
    p, q = stats.norm.logpdf(grid, gamma), stats.norm.logpdf(grid, 0.0)
    divergence = integrate.trapezoid(np.exp(p) * (p - q), grid)
    assert divergence == pytest.approx(largest * gamma**2 / 2, rel=1e-9)
    assert divergence > 1.5 * largest * gamma


@pytest.mark.parametrize("alpha", [4.0, 64.0, 1024.0])
def test_lemma_five_has_a_c_that_grows_with_the_square_root(alpha):
    """The largest c with Pr(|logit θ| ≤ L) ≥ 1 − e^(−cL) for every L, θ ~ Beta(α, α): about √(α/π)."""
    lengths = np.geomspace(1e-6, 60, 4000)
    outside = 2 * stats.beta.cdf(special.expit(-lengths), alpha, alpha)
    near = lengths < 1e-2  # there the mass is its own density, and a difference from 1 would lose it
    inside = 2 * lengths * np.exp(-alpha * math.log(4) - special.betaln(alpha, alpha))
    with np.errstate(divide="ignore"):
        c = np.where(near & (inside < 1e-2), inside, -np.log(outside)) / lengths
    largest = float(c.min())
    assert largest == pytest.approx(math.sqrt(alpha / math.pi), rel=0.2 / alpha + 0.01)
    assert largest < 0.6 * alpha


def test_theorem_three_says_only_if_and_not_if():
    """[0, 1] and [1, 0] are at distance 2 and have one posterior: no number of answers tells them apart."""
    family = BinomialProportion(1.0, 1.0)
    asked = theorem_three_answers(family.bounded(0.2), [0, 1], [1, 0], 0.01)
    theta = np.linspace(0, 1, 10_001)
    posteriors = [np.prod([theta if x else 1 - theta for x in data], axis=0) for data in ([0, 1], [1, 0])]
    assert math.isfinite(asked)
    assert np.array_equal(*posteriors)
    assert histogram_answers(family.total_variation([0, 1], [1, 0]), 0.01) == math.inf


def test_lemma_seven_with_the_plain_distance_forgets_the_children():
    """Two bits, the second a copy but for a chance ε: the first changes, and both factors move by about log 1/ε."""
    least = 0.01
    first = {0: 1 - least, 1: least}

    def log_probability(record):
        second = 1 - least if record[1] == record[0] else least
        return math.log(first[record[0]]) + math.log(second)

    moved = abs(log_probability((0, 0)) - log_probability((1, 0)))
    printed = math.log(1 / least)  # L·ρ with one place changed
    assert moved == pytest.approx(2 * math.log((1 - least) / least), rel=1e-12)
    assert moved > 1.9 * printed
    privacy = network_privacy(((), (0,)), least)
    assert privacy.lipschitz * privacy.distance([[0, 0]], [[1, 0]]) >= moved
