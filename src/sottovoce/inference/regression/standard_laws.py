"""Laws as functions of a standard normal variable, with derivatives: what latents of the rows of a regression are."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from sottovoce.privacy.numbers import Floats

__all__ = ["beta_quantile", "log_normal", "log_phi", "log_student"]

_LEAST_SHARE = 1e-9
"""The least part, as a square, of a number that those before it do not explain."""


def log_phi(u: Floats) -> Floats:
    """Return the logarithm of the standard normal density."""
    return np.asarray(-u * u / 2 - 0.5 * math.log(2 * math.pi))


def beta_quantile(u: Floats, b: Floats) -> tuple[Floats, Floats, Floats]:
    """Return r of a Beta(b, b) law on (−1, 1) at normal quantiles, 1 − r² to the last digit, and dr/du."""
    nearer = np.maximum(special.betaincinv(b, b, special.ndtr(-np.abs(u))), _LEAST_SHARE)
    alone = 4 * nearer * (1 - nearer)
    log_density = (b - 1) * np.log(alone / 4) - special.betaln(b, b)
    return np.sign(u) * (1 - 2 * nearer), alone, 2 * np.exp(log_phi(u) - log_density)


def log_student(t: Floats, freedom: int) -> Floats:
    """Return the logarithm of the density of Student's t."""
    of = special.gammaln((freedom + 1) / 2) - special.gammaln(freedom / 2) - math.log(freedom * math.pi) / 2
    return np.asarray(of - (freedom + 1) / 2 * np.log1p(t * t / freedom))


def log_normal(e: Floats, k: float) -> tuple[Floats, Floats, Floats]:
    """Return a standardised shifted log-normal variable, and its derivatives by e and by κ."""
    if abs(k) < 1e-3:  # to the first order: g = e + κ(e² − 1)/2
        return e + k * (e * e - 1) / 2, 1 + k * e, (e * e - 1) / 2
    raised = np.exp(k * e - k * k / 2)
    # The deviation of (raised − 1)/κ is √(e^{κ²} − 1)/|κ|.
    square = math.expm1(k * k)
    scale = math.sqrt(square) * math.copysign(1.0, k)
    g = (raised - 1) / scale
    dk = raised * (e - k) / scale - g * k * math.exp(k * k) / square
    return g, raised * k / scale, dk
