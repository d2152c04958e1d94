"""Worst neighbouring pairs of Gamma posteriors: of one rate, or of one shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, Mask, log1pmx, log_gamma_gap, log_gamma_step, mixed, slip
from sottovoce.privacy.pair_curves import PLAIN, ThresholdPairs, log_tail, slack
from sottovoce.privacy.tail_integrals import Curved, GammaTail, Gap, Linear, log_integral

_SERIES_ULP = 1024
"""More than twice what SciPy's series of the incomplete gamma function loses next to the shape 1/2, its worst."""


@dataclass(frozen=True)
class GammaShapePairs(ThresholdPairs):
    """Gamma(shape + step) against Gamma(shape), of one rate, both ways."""

    family: ClassVar[str] = "gamma-shape"
    shape: float
    step: float

    def __post_init__(self) -> None:
        self._check_positive("shape", "step")

    @property
    def _extent(self) -> tuple[float, ...]:
        return self.step, self.shape

    @property
    def pole(self) -> float:
        """1 + shape / step."""
        return 1 + self.shape / self.step

    def _renyi(self, order: Floats) -> Floats:
        a, w = self.shape, self.step
        return np.maximum(log_gamma_gap(a, w, order), log_gamma_gap(a + w, -w, order))

    def _log_delta(self, epsilon: Floats) -> Floats:
        a, w = self.shape, self.step
        step = log_gamma_step(a, w)
        lifted = epsilon * (1 - 1e-15) - slack(np.asarray(a), w, step)
        x = np.minimum((lifted + step) / w, 700.0)  # upwards: L = w·log θ - step; beyond, nothing is left
        y = (step - lifted) / w  # downwards: L = step - w·log θ
        gap = Linear(np.full((epsilon.size, 1), w))
        up = _gamma_log_delta(a + w, a, x, x, epsilon, 1.0, gap)
        down = _gamma_log_delta(a, a + w, y, y, epsilon, -1.0, gap)
        return np.maximum(up, down)


@dataclass(frozen=True)
class GammaRatePairs(ThresholdPairs):
    """Gamma(shape, rate low) against Gamma(shape, rate high), both ways."""

    family: ClassVar[str] = "gamma-rate"
    shape: float
    low: float
    high: float

    def __post_init__(self) -> None:
        self._check_positive("shape", "low", "high")
        if self.low >= self.high:
            raise InvalidValue(f"low must be < high. Got {self.low} and {self.high}")

    @property
    def _extent(self) -> tuple[float, ...]:
        return (self.high - self.low) / self.low, self.shape

    @property
    def pole(self) -> float:
        """1 + low / (high - low)."""
        return 1 + self.low / (self.high - self.low)

    def _renyi(self, order: Floats) -> Floats:
        first, other = (
            rate_renyi(self.shape, *rates, order) for rates in ((self.low, self.high), (self.high, self.low))
        )
        return np.maximum(first, other)

    def _log_delta(self, epsilon: Floats) -> Floats:
        k, span = self.shape, self.high - self.low
        ratio = k * float(np.log1p(span / self.low))
        lifted = epsilon - 1e-15 * (epsilon + ratio)
        low, high = self.low / span, self.high / span
        up = lifted + ratio  # upwards, P has the low rate: L = span·θ - ratio
        best = _gamma_log_delta(k, k, np.log(low * up), np.log(high * up), epsilon, 1.0, Curved(up[:, None], 1.0))
        reach = lifted < ratio  # downwards L = ratio - span·θ never passes ratio
        if reach.any():
            remaining = (ratio - lifted)[reach]
            gap = Curved(remaining[:, None], -1.0)
            down = _gamma_log_delta(k, k, np.log(high * remaining), np.log(low * remaining), epsilon[reach], -1.0, gap)
            best[reach] = np.maximum(best[reach], down)
        return best


def rate_renyi(shape: float, p: float, q: float, order: Floats) -> Floats:
    """Return the Rényi divergence of Gamma(shape, rate p) from Gamma(shape, rate q)."""
    step = q - p
    x = np.asarray(step / p)
    remaining = mixed(np.asarray(p), np.asarray(step), order, slip(q, -p, step)) / p
    y = (1 - order) * x
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.where(y < -0.5, np.log(remaining) - y, log1pmx(y)) / (order - 1)
    return np.where(remaining > 0, -shape * (np.where(order == 1, 0.0, first) + log1pmx(x)), np.inf)


def _gamma_log_delta(k: float, j: float, x: Floats, y: Floats, epsilon: Floats, sign: float, gap: Gap) -> Floats:
    """Return log δ(ε) of P against Q, which are Gamma(k) beyond the threshold log θ = x and Gamma(j) beyond y."""
    trusted = (max(k, j) <= PLAIN) & (np.maximum(np.abs(x), np.abs(y)) < 600.0)
    beyond = special.gammaincc if sign > 0 else special.gammainc
    with np.errstate(divide="ignore", over="ignore"):
        log_p, log_q = np.log(beyond(k, np.exp(x))), np.log(beyond(j, np.exp(y)))
    error = np.maximum(_incomplete_error(k, x), _incomplete_error(j, y))

    def integral(at: Mask) -> Floats:
        return log_integral(GammaTail.of(np.array(k), x[at][:, None], sign), gap.take(at))

    return log_tail(log_p, log_q, epsilon, trusted & (log_p > -50.0), error, integral)


def _incomplete_error(k: float, x: Floats) -> Floats:
    """Return what rounding may take from an incomplete gamma function at θ = e^x, relative to its value.

    The prefix e^(kx - θ - lnΓ(k)) loses an ulp of each term of its exponent, and the threshold, rounded by 2 + |x| ulp,
    moves the value by at most k + θ times as much.
    """
    with np.errstate(over="ignore"):
        return np.asarray(2.0**-52 * (_SERIES_ULP + (k + np.exp(x)) * (2 + np.abs(x)) + abs(float(special.gammaln(k)))))
