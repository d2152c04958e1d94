"""The rivals of the race, each at replace-one and the same (ε, δ), and the settings among which they may choose.

Where accounting leaves a choice they get the better one: Gaussian privacy composed exactly, and for objective
perturbation the loss of the determinant subtracted from ε and the rest spent on one Gaussian.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import optimize, special

from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.promises import ApproxDP

__all__ = ["CLASSIFIERS", "LINES", "adassp", "descent", "mu_of", "objective", "with_intercept"]

INTERCEPT = 0.3


def mu_of(epsilon: float, delta: float) -> float:
    """Return the μ of Gaussian privacy that keeps (ε, δ)."""
    return largest_keeping(GaussianProfile, ApproxDP(epsilon, delta), high=1e3, name="mu")


def with_intercept(X: Floats) -> Floats:
    """Return the rows with one more entry, scaled down to norm 1 where longer."""
    rows = np.hstack([X, np.full((len(X), 1), INTERCEPT)])
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0))


def descent(
    X: Floats, y: Floats, mu: float, rng: np.random.Generator, *, steps: int, rate: float, classes: int = 2
) -> Floats:
    """Return the last iterate of full-batch gradient descent with noise; of more than two classes on the softmax."""
    n, d = X.shape
    if classes == 2:
        w, noise = np.zeros(d), 2 * math.sqrt(steps) / mu
        for _ in range(steps):
            gradient = X.T @ (special.expit(X @ w) - y) + noise * rng.standard_normal(d)
            w = w - rate / n * gradient
        return w
    W, noise, hot = np.zeros((classes, d)), 2 * math.sqrt(2 * steps) / mu, np.eye(classes)[y.astype(int)]
    for _ in range(steps):
        gradient = (special.softmax(X @ W.T, axis=1) - hot).T @ X + noise * rng.standard_normal(W.shape)
        W = W - rate / n * gradient
    return W


def objective(
    X: Floats, y: Floats, epsilon: float, delta: float, rng: np.random.Generator, *, share: float, stiff: float
) -> Floats:
    """Return the minimum of Σℓ + (λ/2)‖w‖² + b·w (Kifer, Smith and Thakurta 2012; Redberg, Koskela and Wang 2023).

    log(1 + ¼/λ) of ε pays for the determinant, the rest for b.
    """
    ridge = stiff * 0.25 / math.expm1(share * epsilon)
    mu = mu_of(epsilon - math.log1p(0.25 / ridge), delta)
    b = 2 / mu * rng.standard_normal(X.shape[1])

    def value(w: Floats) -> tuple[float, Floats]:
        t = X @ w
        slope = X.T @ (special.expit(t) - y) + ridge * w + b
        return float(np.logaddexp(0, t).sum() - y @ t + ridge / 2 * w @ w + b @ w), slope

    start = np.zeros(X.shape[1])
    return np.asarray(optimize.minimize(value, start, jac=True, method="L-BFGS-B", options={"maxiter": 100}).x)


def adassp(X: Floats, y: Floats, mu: float, delta: float, rng: np.random.Generator) -> Floats:
    """Return the ridge regression of y in [−1, 1] by noisy moments, its ridge chosen privately (Wang 2018)."""
    d, part = X.shape[1], mu / math.sqrt(3)
    gram, noise = X.T @ X, math.sqrt(2) / part
    least = float(np.linalg.eigvalsh(gram)[0]) + (rng.standard_normal() - math.sqrt(2 * math.log(6 / delta))) / part
    rough = np.triu(rng.standard_normal((d, d)), 1) / math.sqrt(2)
    rough = rough + rough.T + np.diag(rng.standard_normal(d))
    ridge = max(0.0, math.sqrt(d * math.log(2 * d * d / 0.05)) * noise - max(least, 0.0))
    moment = X.T @ y + 2 / part * rng.standard_normal(d)
    return np.linalg.solve(gram + noise * rough + ridge * np.eye(d), moment)


def clipped_descent(
    X: Floats, y: Floats, mu: float, rng: np.random.Generator, *, steps: int, rate: float, bound: float
) -> Floats:
    """Return the last iterate of full-batch gradient descent on squares, residuals clipped to the bound."""
    n, d = X.shape
    w, noise = np.zeros(d), 2 * bound * math.sqrt(steps) / mu
    for _ in range(steps):
        gradient = X.T @ np.clip(X @ w - y, -bound, bound) + noise * rng.standard_normal(d)
        w = w - rate / n * gradient
    return w


Fit = Callable[..., Any]


def _classifiers() -> dict[str, dict[str, Fit]]:
    found: dict[str, dict[str, Fit]] = {"private descent": {}, "objective perturbation": {}, "AdaSSP": {}}
    for steps in (5, 10, 20, 40):
        for rate in (1.0, 3.0, 10.0):

            def one(X: Floats, y: Floats, e: float, delta: float, rng: Any, s: int = steps, r: float = rate) -> Floats:
                return descent(X, y, mu_of(e, delta), rng, steps=s, rate=r)

            found["private descent"][f"{steps} steps of {rate:g}"] = one
    for share in (0.05, 0.15, 0.4):
        for stiff in (1.0, 4.0):

            def two(
                X: Floats, y: Floats, e: float, delta: float, rng: Any, q: float = share, k: float = stiff
            ) -> Floats:
                return objective(X, y, e, delta, rng, share=q, stiff=k)

            found["objective perturbation"][f"share {share:g}, ridge {stiff:g}"] = two
    for slope in (1.0, 2.0, 4.0):

        def three(X: Floats, y: Floats, e: float, delta: float, rng: Any, s: float = slope) -> Floats:
            return s * adassp(X, 2 * y - 1, mu_of(e, delta), delta, rng)

        found["AdaSSP"][f"slope {slope:g}"] = three
    return found


CLASSIFIERS = _classifiers()
"""For each rival its settings, each a function of rows, classes 0 and 1, ε, δ and a generator that returns w."""


def _lines() -> dict[str, dict[str, Fit]]:
    found: dict[str, dict[str, Fit]] = {"private descent": {}, "AdaSSP": {}}
    for steps in (10, 20, 40):
        for rate in (0.5, 1.0, 2.0):
            for bound in (0.3, 0.6, 1.0):

                def one(
                    X: Floats, y: Floats, e: float, delta: float, rng: Any,
                    s: int = steps, r: float = rate, b: float = bound,
                ) -> Floats:  # fmt: skip
                    return clipped_descent(X, y, mu_of(e, delta), rng, steps=s, rate=r, bound=b)

                found["private descent"][f"{steps} steps of {rate:g}, residuals to {bound:g}"] = one
    found["AdaSSP"][""] = lambda X, y, e, delta, rng: adassp(X, y, mu_of(e, delta), delta, rng)
    return found


LINES = _lines()
"""The same for lines, of responses in [−1, 1]."""
