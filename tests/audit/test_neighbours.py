"""The worst pair, against every pair of neighbours there is; claims as curves, against closed forms."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import integrate, stats

import sottovoce as sv
from sottovoce.audit import ApproxProfile, Band, claim_of, trade_off
from sottovoce.records.readings import Statistics


def _hockey_stick(p, q, epsilon: float) -> float:  # type: ignore[no-untyped-def]
    """δ(ε) of two distributions of one number, by quadrature."""

    def height(x: float) -> float:
        return max(0.0, np.exp(p.log_density(x)) - np.exp(epsilon + q.log_density(x)))

    return float(integrate.quad(height, 1e-9, 1 - 1e-9, limit=400, points=[0.1, 0.3, 0.5, 0.7, 0.9])[0])


def test_the_worst_pair_of_a_proportion_is_worst_among_all() -> None:
    system, n = sv.BetaBernoulli(2, 7), 8
    mechanism = sv.DirectPosterior(system, n)
    epsilon = mechanism.profile.epsilon(0.01)
    posteriors = [system.posterior(Statistics(n, np.array([float(s)]))) for s in range(n + 1)]
    leaks = []
    for p, q in itertools.pairwise(posteriors):
        leaks.append(max(_hockey_stick(p, q, epsilon), _hockey_stick(q, p, epsilon)))
    worst = int(np.argmax(leaks))
    assert sorted(float(data.total[0]) for data in mechanism.worst_pair()) == [worst, worst + 1]
    assert max(leaks) == pytest.approx(0.01, rel=1e-4)


def test_the_worst_pair_of_categories_touches_the_two_rarest() -> None:
    mechanism = sv.DirectPosterior(sv.DirichletCategorical([5.0, 1.0, 9.0, 2.0]), 6)
    first, second = mechanism.worst_pair()
    assert (first.total - second.total).tolist() == [0.0, 1.0, 0.0, -1.0]
    assert first.total.sum() == second.total.sum() == 6


@pytest.mark.parametrize(
    "system",
    [
        sv.GammaPoisson(4, 2, 3),
        sv.GammaExponential(2, 6, 2.0),
        sv.NormalMean(variance=1, prior_variance=1, bounds=(-1, 1)),
        sv.NormalMean(variance=1, prior_variance=1, radius=1.0, dimension=2),
    ],
)
def test_worst_pairs_attain_the_systems_own(system) -> None:  # type: ignore[no-untyped-def]
    pair = sv.DirectPosterior(system, 5).worst_pair()
    posteriors = tuple(system.posterior(data) for data in pair)
    known = system.worst_pairs(5)
    kl = max(float(posteriors[0].kl(posteriors[1])), float(posteriors[1].kl(posteriors[0])))
    assert kl == pytest.approx(max(float(p.kl(q)) for p, q in known), rel=1e-9)


def test_the_likelihood_ratio_of_noise_is_that_of_its_probabilities() -> None:
    mechanism = sv.NoisyStatistics(sv.DirichletCategorical([1.0, 1.0]), 3, "laplace", 2.0)
    pair = mechanism.worst_pair()
    ratio = mechanism.log_ratio(pair)
    assert ratio is not None
    for noisy in itertools.product((-1.0, 0.0, 2.0), repeat=2):
        want = sum(abs(np.array(noisy) - pair[1].total) - abs(np.array(noisy) - pair[0].total)) / 2.0
        assert ratio(np.array([noisy]))[0] == pytest.approx(want)


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.5])
def test_the_trade_off_of_a_gaussian_is_its_closed_form(mu: float) -> None:
    alpha = np.array([1e-4, 0.01, 0.1, 0.5, 0.9])
    want = stats.norm.cdf(stats.norm.isf(alpha) - mu)
    got = trade_off(sv.privacy.GaussianProfile(mu), alpha)
    assert np.all(got <= want + 1e-12)
    assert got == pytest.approx(want, rel=2e-3)


def test_a_pair_of_epsilon_and_delta_bounds_the_worst_mechanism_that_keeps_it() -> None:
    """Reveal the record with probability δ, else randomized response: summed over its four outputs."""
    epsilon, delta = 1.0, 0.1
    yes, no = np.exp(epsilon) / (1 + np.exp(epsilon)), 1 / (1 + np.exp(epsilon))
    p = np.array([delta, 0.0, (1 - delta) * yes, (1 - delta) * no])
    q = np.array([0.0, delta, (1 - delta) * no, (1 - delta) * yes])
    claim = claim_of(sv.ApproxDP(epsilon, delta))
    assert isinstance(claim, ApproxProfile)
    for other in (0.0, 0.3, 1.0, 2.0):
        assert claim.delta(other) == pytest.approx(np.maximum(p - np.exp(other) * q, 0).sum())
    assert claim.epsilon(delta) == pytest.approx(epsilon)
    assert claim.epsilon(delta / 2) == np.inf
    assert claim_of(sv.ZeroConcentratedDP(0.5)).zcdp() == 0.5
    assert claim_of(sv.RenyiDP(2.0, 0.5)).renyi(2.0) == 0.5
    assert claim_of(sv.GaussianDP(0.5)).gdp() == 0.5


def test_certified_errors_mix_tests_by_a_coin() -> None:
    point = np.array([0.2])
    band = Band(point, point, point, point, point, point)
    assert band.certified([0.0, 0.1, 0.2, 0.6, 1.0]) == pytest.approx([1.0, 0.6, 0.2, 0.1, 0.0])
    useless = np.array([0.9])
    assert Band(useless, useless, useless, useless, useless, useless).certified(0.5) == pytest.approx(0.5)
