"""What Algorithms 2 and 3 and the Gaussian baseline release for one proportion, at a given (λ, ε).

The baseline adds N(0, σ²) to the number of ones and projects it back to [0, n]. The paper takes σ² = λ/ε; the
divergence of two Gaussians is λ/2σ², so σ² = λ/2ε is enough.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import special

from sottovoce.mechanisms import ConcentratedPosterior, DiffusedPosterior
from sottovoce.mechanisms.conjugate import BetaBernoulli
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.promises import RenyiDP

__all__ = ["GAUSSIAN", "GAUSSIAN_RIGHT", "ONE", "THREE", "TWO", "Released", "legendre", "log_beta"]

ONE, TWO, THREE = "true posterior", "Algorithm 2 (diffused)", "Algorithm 3 (concentrated)"
GAUSSIAN, GAUSSIAN_RIGHT = "Gaussian, the paper's σ² = λ/ε", "Gaussian, σ² = λ/2ε"


@dataclass(frozen=True)
class Released:
    """The parameters of every mechanism for a Beta(α, β) prior, n records and a promise (λ, ε)."""

    alpha: float
    beta: float
    n: int
    data_weight: float
    prior_weight: float
    sigmas: dict[str, float]

    @classmethod
    @cache
    def at(cls, alpha: float, beta: float, n: int, order: float, epsilon: float) -> Released:
        """Calibrate everything; no record is read."""
        system, target = BetaBernoulli(alpha, beta), RenyiDP(order, epsilon)
        return cls(
            alpha,
            beta,
            n,
            DiffusedPosterior.calibrate(system, n, target).data_weight,
            ConcentratedPosterior.calibrate(system, n, target).prior_weight,
            {GAUSSIAN: math.sqrt(order / epsilon), GAUSSIAN_RIGHT: math.sqrt(order / (2 * epsilon))},
        )

    def parameters(self, mechanism: str, ones: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Return the Beta parameters a mechanism samples from, for data with this many ones."""
        r = self.data_weight if mechanism == TWO else 1.0
        v = self.prior_weight if mechanism == THREE else 1.0
        if mechanism in self.sigmas:
            noise = self.sigmas[mechanism] * rng.standard_normal(np.shape(ones))
            ones = np.clip(ones + noise, 0, self.n)
        return v * self.alpha + r * ones, v * self.beta + r * (self.n - ones)

    def log_density(self, mechanism: str, ones: int, theta: Floats) -> Floats:
        """Return the log density of what is released, the baseline's noise integrated out."""
        if mechanism not in self.sigmas:
            a, b = self.parameters(mechanism, np.array(float(ones)), np.random.default_rng(0))
            return log_beta(theta, a, b)
        weights, at = _projected_normal(ones, self.sigmas[mechanism], self.n)
        inside = log_beta(theta[:, None], self.alpha + at, self.beta + self.n - at)
        return np.asarray(special.logsumexp(inside, axis=1, b=weights))


def log_beta(theta: Floats, a: Floats | float, b: Floats | float) -> Floats:
    """Return the log density of Beta(a, b)."""
    return np.asarray(special.xlogy(a - 1, theta) + special.xlog1py(b - 1, -theta) - special.betaln(a, b))


legendre = cache(np.polynomial.legendre.leggauss)
"""Nodes and weights of Gauss and Legendre, worked out once for each number of them."""


def _projected_normal(mean: float, sigma: float, n: int, nodes: int = 120) -> tuple[Floats, Floats]:
    """Return weights and points of N(mean, σ²) projected to [0, n]: two atoms, and Gauss–Legendre between them."""
    low, high = max(0.0, mean - 10 * sigma), min(float(n), mean + 10 * sigma)
    x, w = legendre(nodes)
    at = (low + high) / 2 + (high - low) / 2 * x
    density = np.exp(-(((at - mean) / sigma) ** 2) / 2) / (sigma * math.sqrt(2 * math.pi))
    atoms = special.ndtr([-mean / sigma, (mean - n) / sigma])
    return np.concatenate([atoms, w * (high - low) / 2 * density]), np.concatenate([[0.0, n], at])
