"""Laplace noise, continuous and on the integers: exact profiles."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np
from scipy import special

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, ceil_float, expm1mx, log1mexp, real, whole
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.pure import PureProfile, atoms_renyi, bounded_renyi, gaussian_margin
from sottovoce.privacy.rounding import UP, epsilon_up, half_gap, lifted, log_lifted, product_up

_LARGEST = 1e150
"""Beyond this the noise is none."""
_UP = 1 + 2.0**-46
"""What a divergence of few terms, or a quantile of the normal law, may have lost, and more."""
_FEW = 2048
"""Up to this many atoms of the privacy loss are summed one by one."""


def _check_level(level: float) -> None:
    if not level < _LARGEST:
        raise InvalidValue(f"sensitivity / scale must be < {_LARGEST:g}. Got {level:g}")


@dataclass(frozen=True)
class LaplaceProfile(Profile):
    r"""Laplace noise of `scale` on a value that moves by at most `sensitivity`; t = sensitivity/scale.

    .. math:: \delta(\varepsilon) = 1 - e^{(\varepsilon-t)/2}, \qquad
              R(\lambda) = \frac{\log\big(\frac{\lambda}{2\lambda-1}e^{(\lambda-1)t}
              + \frac{\lambda-1}{2\lambda-1}e^{-\lambda t}\big)}{\lambda-1}

    (Mironov 2017). It is t-private, (t-1+e^{-t})-zero-concentrated and -2Φ⁻¹(e^{-t/2}/2)-Gaussian.

    >>> LaplaceProfile(scale=2.0).epsilon(0.0)
    0.5
    """

    word: ClassVar[str] = "laplace"
    scale: float
    sensitivity: float = 1.0
    basis: Basis = field(default=Basis.EXACT, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", real("scale", self.scale, above=0.0))
        object.__setattr__(self, "sensitivity", real("sensitivity", self.sensitivity))
        _check_level(self.sensitivity / self.scale)

    def _log_delta(self, epsilon: Floats) -> Floats:
        return log_lifted(log1mexp(half_gap(epsilon, self.pure())))

    def _epsilon(self, log_delta: Floats) -> Floats:
        return epsilon_up(self.pure() + 2 * log1mexp(log_delta), self.pure())

    def _renyi(self, order: Floats) -> Floats:
        t, gap = self.pure(), order - 1
        up, down = order / (2 * order - 1), gap / (2 * order - 1)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            little = up * expm1mx(gap * t) + down * expm1mx(-order * t)
            large = np.logaddexp(np.log(up) + gap * t, np.log(down) - order * t)
            value = lifted(np.where(little < 1, np.log1p(little), large) / gap, _UP)
        return bounded_renyi(value, order, self.zcdp(), t)  # R(λ)/λ only falls

    def pure(self) -> float:
        """Return sensitivity / scale, rounded up."""
        return ceil_float(Fraction(self.sensitivity) / Fraction(self.scale))

    def zcdp(self) -> float:
        """Return t - 1 + e^-t, the divergence at order 1: R(λ)/λ only falls from there."""
        t = self.pure()
        most = product_up(t, t, 0.5)
        return most if t < 1e-100 else min(float(lifted(expm1mx(np.asarray(-t)), _UP)), most)

    def gdp(self) -> float:
        """Return μ; the gap to a Gaussian trade-off is largest at its fixed point."""
        if self.pure() < 1:
            return 2 * gaussian_margin(float(-np.expm1(-self.pure() / 2)))
        return float(lifted(-2 * special.ndtri_exp(-self.pure() / 2 - np.log(2.0)), _UP))


@dataclass(frozen=True)
class DiscreteLaplaceProfile(Profile):
    r"""Noise k on the integers with Pr[k] ∝ e^{-|k|/scale}, on a count that moves by at most `sensitivity`.

    The privacy loss takes the values (Δ-2k)/scale, k = 0..Δ, so every curve is a finite sum. For Δ = 1 it is
    randomized response.

    >>> DiscreteLaplaceProfile(scale=2.0).delta(0.1)
    0.2052...
    """

    word: ClassVar[str] = "discrete-laplace"
    scale: float
    sensitivity: int = 1
    basis: Basis = field(default=Basis.EXACT, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", real("scale", self.scale, above=0.0))
        object.__setattr__(self, "sensitivity", whole("sensitivity", self.sensitivity, 1, floats=True))
        _check_level(self.sensitivity / self.scale)

    def _log_delta(self, epsilon: Floats) -> Floats:
        # A larger t is no more private: what has more noise is what has less, with noise added.
        t, steps = ceil_float(1 / Fraction(self.scale)), self.sensitivity
        last = np.ceil((steps - epsilon / t) / 2) - 1  # the last k whose loss exceeds ε
        best = np.zeros(epsilon.shape)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # δ is the largest over all k, and the last one may have been rounded across a whole number.
            for m in (np.clip(last + k, 0, steps) for k in (-1, 0, 1)):
                value = -np.exp(-t) * np.expm1(-t * m) - np.expm1(epsilon - t * (steps - m))
                best = np.fmax(best, value)
            best = lifted(best + 2.0**-51 * np.minimum(epsilon + t * steps, 1e3))
            return np.where(epsilon < self.pure(), log_lifted(np.log(best) - np.log1p(np.exp(-t))), -np.inf)

    def _renyi(self, order: Floats) -> Floats:
        t, steps = 1 / self.scale, self.sensitivity
        if steps <= _FEW:
            k = np.arange(steps + 1.0)
            log_p = -t * k + np.log(np.tanh(t / 2))
            log_p[[0, -1]] = -np.array([0.0, t * steps]) - np.log1p(np.exp(-t))
            level = self.pure()
            values = atoms_renyi(order, t * (steps - 2 * k), log_p)
            return bounded_renyi(values, order, PureProfile(level).zcdp(), level)
        # The same sum as a geometric series. Its rounding is covered by rounding up.
        mean = t * steps + 2 * t * np.exp(-t) * np.expm1(-t * steps) / -np.expm1(-2 * t)
        lam = np.maximum(order, 1 + 1e-4)
        rate = t * (2 * lam - 1)
        middle = np.log(np.tanh(t / 2)) - rate + log1mexp(-rate * (steps - 1)) - log1mexp(-rate)
        ends = np.logaddexp(0.0, -rate * steps) - np.log1p(np.exp(-t))
        value = t * steps + np.logaddexp(ends, middle) / (lam - 1)
        value = value * (1 + 1e-12) + 1e-14 * (1 + t * steps) / (lam - 1)
        return np.asarray(np.minimum(np.where(order == 1, mean + 4e-15 * t * steps, value), self.pure()))

    def pure(self) -> float:
        """Return sensitivity / scale, rounded up."""
        return ceil_float(Fraction(self.sensitivity) / Fraction(self.scale))

    def zcdp(self) -> float:
        """Return the divergence at order 1: R(λ)/λ only falls from there."""
        return float(self.renyi(1.0))

    def gdp(self) -> float:
        """Return μ; of the knots of the trade-off curve the middle one is the furthest from a Gaussian."""
        t, steps = 1 / self.scale, self.sensitivity
        knots = np.array([(steps + 1) // 2, steps + 1 - (steps + 1) // 2])
        if self.pure() < 1:
            shares = (-np.expm1(-t * knots) - np.exp(-t) * np.expm1(-t * (knots - 1))) / (1 + np.exp(-t))
            return sum(map(gaussian_margin, lifted(shares).tolist())) * UP
        return float(lifted(-special.ndtri_exp(-t * knots - np.log1p(np.exp(-t))).sum(), _UP))
