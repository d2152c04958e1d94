"""Limits and tables of the documents that no figure shows: Lemma 1, the comparison of §5.2, Doeblin, the blanket."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import special, stats

from sottovoce.inference.regression import Design, Logistic
from sottovoce.inference.regression.posterior import ConcentratedRegression
from sottovoce.mechanisms import NoisyStatistics
from sottovoce.mechanisms.conjugate import BetaBernoulli
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.promises import PureDP
from sottovoce.theory.amplification import FiniteKernel, mixing_bounds, randomized_response


def _beta_kl(a, b, c, d):
    """KL(Beta(a, b) ‖ Beta(c, d)), by its formula."""
    total = (a - c) * special.digamma(a) + (b - d) * special.digamma(b) + (c - a + d - b) * special.digamma(a + b)
    return special.betaln(c, d) - special.betaln(a, b) + total


def test_lemma_one_the_divergence_of_the_noisy_posterior_vanishes():
    """E KL(noisy posterior ‖ posterior) → 0 like 1/n, for Laplace noise of the thesis (projected, plugged in)."""
    found = {}
    for n in (100, 10_000, 1_000_000):
        mech = NoisyStatistics.calibrate(BetaBernoulli(1, 1), n, PureDP(0.1), noise="laplace")
        k = np.arange(-600, 601)
        weights = np.exp(-np.abs(k) / mech.scale)
        weights /= weights.sum()
        s = 0.3 * n
        noisy = np.clip(s + k, 0, n)
        found[n] = float(weights @ _beta_kl(1 + noisy, 1 + n - noisy, 1 + s, 1 + n - s))
    assert found[100] > 10 * found[10_000] > 100 * found[1_000_000]
    assert found[1_000_000] < 2e-3
    # Noise of variance V moves the mean of s by √V beside a posterior variance p(1−p)n: V/(2p(1−p)n) in the limit.
    variance = 2 * math.exp(-0.1) / (1 - math.exp(-0.1)) ** 2
    assert found[1_000_000] == pytest.approx(variance / (2 * 0.21 * 1e6), rel=0.01)


@pytest.mark.parametrize(("n", "rho"), [(100, 1.0), (1000, 0.2)])
def test_up_to_which_order_a_sample_is_the_cheaper_one(n, rho):
    """§5.2: OPS is 4c²ρ/β-private; the exact Rényi bound 2c²ρ²λ/(nβ) is below it for λ ≤ 2n/ρ, and not beyond."""
    c, beta = 1.0, 0.01
    design = Design(Logistic(), dimension=2, data_norm=c)
    exact = ConcentratedRegression(design, n, n * beta, rho)
    curve = exact.exact_profile

    def ours(order):
        return float(curve.renyi(order))

    pure = 4 * c * c * rho / beta
    turn = 2 * n / rho
    assert ours(2.0) == pytest.approx(2 * c**2 * rho**2 * 2.0 / (n * beta), rel=1e-9)
    assert ours(0.999 * turn) < pure < ours(1.001 * turn)


@pytest.mark.parametrize(("mu", "epsilon"), [(0.5, 1.5), (1.0, 1.0), (3.0, 2.0)])
def test_doeblins_condition_lowers_delta_only_below_its_threshold(mu, epsilon):
    """δ' = γ(1 − e^(ε'−ε)(1−δ)) ≤ δ exactly where γ ≤ δe^ε/((1−δ)(e^ε−1)): our bound, for kernels of known γ."""
    before = GaussianProfile(mu)
    delta = stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)
    threshold = delta * math.exp(epsilon) / ((1 - delta) * math.expm1(epsilon))
    lowered = []
    for gamma in np.linspace(0.01, 0.99, 99):
        kernel = FiniteKernel([[gamma, 0.0, 1 - gamma], [0.0, gamma, 1 - gamma]])
        shrunk = math.log1p(gamma * math.expm1(epsilon))
        after = mixing_bounds(before, kernel, shrunk)["doeblin"][0]
        if abs(gamma / threshold - 1) > 1e-6:
            assert (after <= delta) == (gamma <= threshold)
            lowered.append(gamma <= threshold)
    assert mu == 0.5 or any(lowered)  # there the threshold lies below every γ that is tried
    assert not all(lowered) or threshold > 1


def test_the_table_of_figure_six_two():
    """Local privacy, ultra-mixing and the blanket (Doeblin) condition of a kernel, each implying the next."""
    rng = np.random.default_rng(4)
    kernels = [FiniteKernel(rng.dirichlet(np.full(4, a), 3)) for a in (0.5, 1.0, 5.0) for _ in range(20)]
    kernels += [randomized_response(k, e) for k in (2, 3, 5) for e in (0.2, 1.0, 3.0)]
    for kernel in kernels:
        rows = np.asarray(kernel.matrix)
        level = max(float(np.log(a / b).max()) for a, b in itertools.permutations(rows, 2))
        blanket = 1 - float(rows.min(axis=0).sum())  # γ: what no common law covers
        assert kernel.level == pytest.approx(level, rel=1e-9)
        assert kernel.ultra_mixing == pytest.approx(1 - math.exp(-level), rel=1e-9)
        assert kernel.doeblin == pytest.approx(blanket, rel=1e-9, abs=1e-12)
        assert kernel.doeblin <= kernel.ultra_mixing + 1e-12  # ε-LDP gives a blanket of weight e^(-ε) at least


def _exact(n, prior_variance, dimension=1):
    """Return what one exact sample of a logistic regression is charged, rows of norm 1."""
    design = Design(Logistic(), dimension=dimension, data_norm=1.0)
    return ConcentratedRegression(design, n, 1 / prior_variance, 1.0).exact_profile


@pytest.mark.parametrize("variance", [0.1, 1.0])
def test_with_one_coefficient_the_bound_is_tight_in_its_order_and_four_times_the_truth(variance):
    """One row x = 1 with y = ±1: the losses differ by w, a slope of 1 where the bound has 2c. R/(2λσ²) → 1/4."""
    w = np.linspace(-400, 400, 400_001)
    prior = -(w**2) / (2 * variance)
    first, second = prior - np.logaddexp(0, -w), prior - np.logaddexp(0, w)

    def log_sum(logs):
        return special.logsumexp(logs)

    shares = []
    for order in (2.0, 8.0, 32.0, 128.0):
        mixed = log_sum(order * first + (1 - order) * second)
        truth = (mixed - order * log_sum(first)) / (order - 1) + log_sum(second)
        assert truth <= order * variance / 2 * (1 + 1e-9)  # the Gaussian bound with the true slope
        shares.append(truth / float(_exact(1, variance).renyi(order)))
        # Lemma 3 with its middle term halved, divided by the evidences' common factor: a sum of exponentials.
        if order == 8.0:
            terms = [(-1) ** (7 - i) * math.exp(i * i * variance / 2) for i in range(8)]
            lower = math.log(2 * (sum(terms) - terms[0] / 2)) / 7
            assert lower == pytest.approx(truth, rel=1e-6)
            assert lower < 8 * variance / 2 < float(_exact(1, variance).renyi(8.0)) < 6 * lower
    assert np.all(np.diff(shares) > 0) or shares[0] == pytest.approx(0.25, rel=0.05)
    assert shares[-1] == pytest.approx(0.25, rel=0.03)


def test_with_two_coefficients_theorem_sixteen_is_tight():
    """Rows (±cos φ, −sin φ) both labelled 1, the others pushing w₂ far away: both losses are lines, 2cos φ apart."""
    variance, order, phi = 0.05, 2.0, 0.02
    sd = math.sqrt(variance)
    # 4e8 rows (0, t) labelled 1, t = 1e-3 so small that each pushes w₂ by t/2 nearly as hard wherever it lies.
    others, tiny = 4.0e8, 1e-3
    w1 = np.linspace(-12 * sd, 12 * sd, 1201)
    w2 = np.linspace(0.0, 20_000.0, 400_001)
    push = -(w2**2) / (2 * variance) - others * np.logaddexp(0, -tiny * w2)
    centre = w2[int(np.argmax(push))]
    w2 = np.linspace(centre - 12 * sd, centre + 12 * sd, 1201)
    push = -(w2**2) / (2 * variance) - others * np.logaddexp(0, -tiny * w2)
    joint = -(w1[:, None] ** 2) / (2 * variance) + (push - push.max())[None, :]

    def with_row(sign):
        margin = sign * math.cos(phi) * w1[:, None] - math.sin(phi) * w2[None, :]
        return joint - np.logaddexp(0, -margin)

    first, second = with_row(1), with_row(-1)
    mixed = special.logsumexp(order * first + (1 - order) * second)
    truth = (mixed - order * special.logsumexp(first)) / (order - 1) + special.logsumexp(second)
    charged = float(_exact(int(others) + 1, variance, dimension=2).renyi(order))
    assert charged == pytest.approx(2 * order * variance, rel=1e-9)  # 2c²B²λ/(nβ)
    assert 0.999 * charged < truth <= charged
