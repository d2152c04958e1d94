"""Predictions average their samples; the PAC-Bayes bound is computed right and holds."""

import jax
import numpy as np
import pytest
from scipy import special, stats

from sottovoce.inference.regression.gaussian_posterior import GaussianPosterior
from sottovoce.inference.regression.losses import ComplementaryLogLog, Logistic, Poisson, Probit, SmoothedHinge, Squared
from sottovoce.inference.regression.pac_bayes_bound import pac_bayes
from sottovoce.inference.regression.predictive import posterior_predictive
from sottovoce.mechanisms.jax_compilation import compiler_options
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.randomness import seeded_rng


@pytest.mark.parametrize("loss", [Logistic(), Probit(), ComplementaryLogLog(), Poisson(), Squared()], ids=str)
def test_the_predicted_mean_makes_the_expected_score_vanish(loss):
    # E[∂ℓ/∂t] = 0 at the truth: with two labels, p·ℓ'(t, 1) + (1 - p)·ℓ'(t, -1) = 0; else ℓ'(t, mean) = 0.
    t = 0.4
    mean = posterior_predictive(loss, [[t]], [[1.0]])[0]
    slope = jax.jit(loss.slope, compiler_options=compiler_options(seldom=True))
    labels = ((mean, 1.0), (1 - mean, -1.0)) if loss.binary else ((1.0, mean),)
    assert abs(sum(weight * float(slope(t, label)) for weight, label in labels)) < 1e-6


def test_predictions_average_probabilities_not_parameters():
    got = posterior_predictive(Logistic(), [[-3.0], [1.0]], [[1.0]])[0]
    assert got == pytest.approx((special.expit(-3.0) + special.expit(1.0)) / 2)
    with pytest.raises(InvalidValue, match="no likelihood"):
        posterior_predictive(SmoothedHinge(), [[0.0]], [[1.0]])


def test_pac_bayes_numbers_against_simulation():
    rng = seeded_rng(1)
    X = rng.standard_normal((50, 3))
    y = np.sign(X[:, 0] + 0.3)
    posterior = GaussianPosterior(np.array([1.0, 0.2, -0.1]), np.diag([0.3, 0.1, 0.2]) + 0.05)
    result = pac_bayes(posterior, X, y, prior_precision=0.5)
    W = posterior.sample(200_000, rng)
    assert result.empirical_error == pytest.approx(np.mean(np.sign(X @ W.T) != y[:, None]), abs=2e-3)
    prior = stats.multivariate_normal(np.zeros(3), np.eye(3) / 0.5)
    law = stats.multivariate_normal(posterior.mean, posterior.covariance)
    assert result.divergence == pytest.approx(np.mean(law.logpdf(W) - prior.logpdf(W)), rel=0.02)


def test_pac_bayes_bound_holds_on_fresh_records():
    rng = seeded_rng(2)
    failures = 0
    for _ in range(60):
        w = rng.standard_normal(3)
        X = rng.standard_normal((2300, 3))
        y = np.where(rng.random(2300) < special.expit(2 * X @ w), 1.0, -1.0)
        H = X[:300].T @ X[:300] / 4 + np.eye(3)
        posterior = GaussianPosterior(np.linalg.solve(H, X[:300].T @ y[:300] / 2), np.linalg.inv(H))
        result = pac_bayes(posterior, X[:300], y[:300], prior_precision=1.0, confidence=0.9)
        assert result.bound < 1.0
        fresh = pac_bayes(posterior, X[300:], y[300:], prior_precision=1.0).empirical_error
        failures += fresh > result.bound
    assert failures <= 6


@pytest.mark.parametrize("change", [{"confidence": 1.0}, {"prior_precision": 0.0}, {"inverse_temperature": -1.0}])
def test_senseless_requests_are_refused(change):
    posterior = GaussianPosterior(np.zeros(2), np.eye(2))
    with pytest.raises(InvalidValue):
        pac_bayes(posterior, np.ones((4, 2)), [1, -1, 1, -1], **{"prior_precision": 1.0} | change)
    with pytest.raises(InvalidValue, match="-1"):
        pac_bayes(posterior, np.ones((2, 2)), [0, 1], prior_precision=1.0)
