"""Run long, the chains reach the posterior that importance sampling finds on Abalone."""

import math

import numpy as np
from papers.regression_data import load_regression
from scipy import special

from sottovoce.inference.regression.design import Design
from sottovoce.inference.regression.losses import Logistic
from sottovoce.inference.regression.posterior import DiffusedRegression
from sottovoce.privacy.randomness import seeded_rng


def test_mean_and_covariance_on_abalone():
    data = load_regression("abalone")
    X, y = data.X[::24], data.y[::24]
    n, d = X.shape
    weight, m, chains = 0.1, 1e-3 * n, 300
    plain = DiffusedRegression(Design(Logistic(), d, 1.0), n, m, weight)
    short = plain.chain.step / 4  # a shorter step than privacy needs, for a smaller discretisation bias
    chain = DiffusedRegression(
        Design(Logistic(), d, 1.0), n, m, weight, chains, n_steps=plain.chain.n_steps * 5, step=short
    )
    draws = chain.release((X, y), seeded_rng(1)).value

    mode = np.zeros(d)
    for _ in range(50):  # Newton's steps
        p = special.expit(-y * (X @ mode))
        H = m * np.eye(d) + weight * (X.T * (p * (1 - p))) @ X
        mode = mode - np.linalg.solve(H, m * mode - weight * X.T @ (y * p))
    # Draws of a t law of 8 degrees about the mode, and what each of them weighs.
    rng, many = np.random.default_rng(2), 8000
    root = np.linalg.inv(np.linalg.cholesky(H))
    t = rng.standard_normal((many, d)) / np.sqrt(rng.chisquare(8, (many, 1)) / 8)
    theirs = mode + t @ root
    potential = m / 2 * (theirs**2).sum(axis=1) + weight * np.logaddexp(0.0, -y * (theirs @ X.T)).sum(axis=1)
    logs = (8 + d) / 2 * np.log1p((t**2).sum(axis=1) / 8) - potential
    w = np.exp(logs - logs.max())
    w /= w.sum()
    assert 1 / (w @ w) > 0.3 * many

    mean = w @ theirs
    covariance = (theirs - mean).T @ ((theirs - mean) * w[:, None])
    sd = np.sqrt(np.diag(covariance))
    error = math.sqrt(1 / chains + w @ w)
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 4 * sd * error)
    gap = (np.cov(draws.T) - covariance) / np.outer(sd, sd)
    assert np.abs(gap).max() < 4 * math.sqrt(2) * error
