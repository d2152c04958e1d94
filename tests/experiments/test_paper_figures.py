"""What the papers saw is seen here, at the quick size; what is not seen is named."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import digamma

from sottovoce.experiments.beta_posteriors import GAUSSIAN, GAUSSIAN_RIGHT, Released
from sottovoce.experiments.held_out import ONE, Panel, losses
from sottovoce.experiments.kl_utility import beta_kl, quadrature_kl
from sottovoce.experiments.registry import Setting, find
from sottovoce.privacy.randomness import seeded_rng

pytest.importorskip("matplotlib", reason="figures need matplotlib")

NOT_SEEN = {
    # Beta(1/m, 1/m) has its mean at ½ whatever m is: a slip of the pen in the appendix.
    "held-out-priors": ["scaled up, the uniform prior becomes concentrated around 0.2 (as printed)"],
}


@pytest.mark.parametrize("name", ["achievable-levels", "kl-utility", "held-out-likelihood", "held-out-priors"])
def test_what_the_papers_saw_is_seen_here(name, tmp_path):
    heard = []
    outcome = find(name).run(Setting(tmp_path, quick=True, advance=heard.append))
    assert len(outcome.findings) >= 3
    assert [finding.claim for finding in outcome.findings if not finding.holds] == NOT_SEEN.get(name, [])
    assert {path.suffix for path in outcome.files} == {".png", ".svg", ".csv"}
    assert all(path.stat().st_size > 500 for path in outcome.files)
    assert heard[-1] == 1.0


def test_quadrature_agrees_with_the_closed_form():
    for q in [(6.0, 12.0), (44.0, 74.0), (300.0, 500.0)]:
        assert quadrature_kl((44.0, 74.0), stats.beta(*q).logpdf) == pytest.approx(beta_kl((44.0, 74.0), q), abs=1e-11)


@pytest.mark.parametrize("epsilon", [1e-4, 0.1, 10.0])
def test_the_baselines_density_is_that_of_its_draws(epsilon):
    made = Released.at(6.0, 12.0, 100, 2.0, epsilon)
    assert made.sigmas[GAUSSIAN] ** 2 == pytest.approx(2 * made.sigmas[GAUSSIAN_RIGHT] ** 2)
    theta = np.linspace(0, 1, 20_001)[1:-1]
    density = np.exp(made.log_density(GAUSSIAN, 38, theta))
    mass = np.cumsum(density) * (theta[1] - theta[0])
    assert mass[-1] == pytest.approx(1.0, abs=1e-6)
    rng = seeded_rng(5)
    draws = rng.beta(*made.parameters(GAUSSIAN, np.full(40_000, 38.0), rng))
    for level in (0.2, 0.5, 0.8):
        at = theta[np.searchsorted(mass, level)]
        assert np.mean(draws < at) == pytest.approx(level, abs=0.01)


def test_the_true_posteriors_loss_is_its_expectation():
    mean, sd = losses(Panel(2.0, 0.5), np.array([0.01]), runs=20_000, seed=2)[ONE]
    k = np.arange(101)
    a, b = 6.0 + k, 112.0 - k
    # E −log p = n(ρ(ψ(a+b) − ψ(a)) + (1−ρ)(ψ(a+b) − ψ(b))), averaged over the binomial number of ones
    expected = stats.binom(100, 0.5).pmf(k) @ (100 * (digamma(a + b) - (digamma(a) + digamma(b)) / 2))
    assert mean[0] == pytest.approx(expected, abs=5 * sd[0] / np.sqrt(20_000))
