"""Profiles of mechanisms whose privacy loss is bounded: by ε, by ε but for a part δ, or inside a window of width η."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from sottovoce.privacy.numbers import Floats, expm1mx, log1mexp, real
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.rounding import LEAST, epsilon_up, half_gap, lifted, log_lifted, product_up

_LITTLE = 1e-17
"""Losses times orders up to here have divergences that are λρ to the last digit."""
_NARROW = 1e-3
"""Windows up to here are so narrow that a slope in the middle is a difference, to eight digits and more."""
_SUM_UP = 1 + 2.0**-46
"""What a sum of the terms of a divergence may have lost, and more."""


def atoms_renyi(order: Floats, loss: Floats, log_p: Floats) -> Floats:
    r"""Return the Rényi divergence of a finite distribution of privacy losses.

    E exp((λ-1)L) - 1 = Σ p·[E((λ-1)L) + (λ-1)·E(-L)] with E(x) = e^x-1-x, in which every term is positive. Rounded up;
    losses so small that their squares are no doubles are left to the caller.
    """
    gap = order[..., None] - 1
    # The sum above keeps its digits when it is small; plain log-sum-exp does when it is large.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        # p·e^(-L) is the other law's probability, at most one, however large e^(-L) is.
        mass, grown = np.exp(log_p), gap * loss
        far = np.exp(log_p - loss) + mass * (loss - 1)
        each = np.where(loss < -1, far, mass * expm1mx(-loss))
        little = np.sum(mass * expm1mx(grown) + gap * each, axis=-1)
        exponents = log_p + grown
        top = np.max(exponents, axis=-1, keepdims=True)
        top = np.where(np.isfinite(top), top, 0.0)
        large = top[..., 0] + np.log(np.sum(np.exp(exponents - top), axis=-1))
        value = np.where(little < 1, np.log1p(little), large) / gap[..., 0]
    return lifted(np.where(order == 1, np.sum(each, axis=-1), value), _SUM_UP)


def gaussian_margin(share: float) -> float:
    """Return -Φ⁻¹((1 - share)/2), which keeps its digits for a small share, rounded up."""
    return float(lifted(np.sqrt(2.0) * special.erfinv(share)))


def bounded_renyi(values: Floats, order: Floats, rho: float, most: float) -> Floats:
    """Return divergences of a loss of at most `most`: never above that nor λρ, which little ones are."""
    known = np.where(order * most < _LITTLE, np.inf, values)  # squares of less may be no doubles
    return np.asarray(np.fmin(known, np.minimum(product_up(order, rho), most)))


def _less(most: float, log_share: Floats, log_delta: Floats, log_whole: Floats, times: int) -> Floats:
    """Return most + times·log(1 - share), rounded up, of a logarithm that was made of two others."""
    fine = log_share - 2.0**-51 * (np.abs(log_delta) + np.abs(log_whole))  # a smaller share takes less away
    with np.errstate(divide="ignore", invalid="ignore"):
        return epsilon_up(most + times * log1mexp(np.minimum(fine, 0.0)), most)


def _log_sinhc(x: Floats) -> Floats:
    """Return log(sinh(x)/x), to full relative precision near zero."""
    small = x < 0.1
    y = np.where(small, x, 0.0) ** 2
    series = y * (1 / 6 - y * (1 / 180 - y * (1 / 2835 - y * (1 / 37800 - y / 467775))))
    return np.where(small, series, x + log1mexp(-2 * x) - np.log(2 * x))


def _slope_left(x: Floats) -> Floats:
    """Return 1 + 1/x - coth(x), what the slope of log(sinh(x)/x) lacks to one."""
    y = np.where(x < 0.1, x, 0.1)
    near = 1 - y / 3 * (1 - y * y / 15 * (1 - 2 * y * y / 21 * (1 - y * y / 10)))
    return np.where(x < 0.1, near, 1 / x - 2 / np.expm1(2 * x))


@dataclass(frozen=True)
class PureProfile(Profile):
    r"""Pure ε-privacy: the curve of randomized response, which dominates every ε-private mechanism.

    .. math:: \delta(\varepsilon') = \frac{(e^\varepsilon - e^{\varepsilon'})_+}{1+e^\varepsilon}, \qquad
              \rho = \varepsilon\tanh(\varepsilon/2), \qquad \mu = -2\Phi^{-1}\big(1/(1+e^\varepsilon)\big)

    (Kairouz, Oh and Viswanath 2015). Give ``basis=Basis.EXACT`` when the mechanism is randomized response itself.

    >>> round(PureProfile(1.0).delta(0.0), 4)
    0.4621
    """

    word: ClassVar[str] = "pure"
    level: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "level", real("level", self.level))

    def _log_delta(self, epsilon: Floats) -> Floats:
        return log_lifted(special.log_expit(self.level) + log1mexp(np.minimum(epsilon - self.level, 0.0)))

    def _epsilon(self, log_delta: Floats) -> Floats:
        share = np.asarray(special.log_expit(self.level))
        return _less(self.level, log_delta - share, log_delta, share, 1)

    def _renyi(self, order: Floats) -> Floats:
        loss = np.array([self.level, -self.level])
        return bounded_renyi(atoms_renyi(order, loss, special.log_expit(loss)), order, self.zcdp(), self.level)

    def pure(self) -> float:
        """Return ε."""
        return self.level

    def zcdp(self) -> float:
        """Return ρ = ε·tanh(ε/2), the divergence at order 1."""
        share = min(float(lifted(np.tanh(self.level / 2))), 1.0)
        return min(product_up(self.level, share) or LEAST, self.level)

    def gdp(self) -> float:
        """Return μ: the trade-off curve has one knot, so the Gaussian one need only pass below that."""
        if self.level < 1:
            return 2 * gaussian_margin(float(np.tanh(self.level / 2)))
        if self.level < 700:
            return float(lifted(-2 * special.ndtri(special.expit(-self.level)), _SUM_UP))
        return float(lifted(-2 * special.ndtri_exp(-self.level), _SUM_UP))

    def _twice(self) -> Profile:
        return PureProfile(2 * self.level, basis=self.basis)


@dataclass(frozen=True)
class BoundedRangeProfile(Profile):
    r"""Privacy loss inside some interval of width η: η-private, and η²/8-zero-concentrated.

    .. math:: \delta(\varepsilon) = \frac{(1-e^{(\varepsilon-\eta)/2})^2}{1-e^{-\eta}}, \quad 0\le\varepsilon\le\eta

    the largest over all places of the window (Dong, Durfee and Rogers 2020; Cesar and Rogers 2021). Every
    exponential mechanism has one: a posterior under a likelihood with |log p(x|θ) - log p(x'|θ)| <= B has η = 2B.

    >>> BoundedRangeProfile(1.0).zcdp()
    0.125
    """

    word: ClassVar[str] = "bounded-range"
    width: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", real("width", self.width))

    def _log_delta(self, epsilon: Floats) -> Floats:
        if self.width == 0:
            return np.full(epsilon.shape, -np.inf)
        inside = log1mexp(half_gap(epsilon, self.width))
        return log_lifted(2 * inside - log1mexp(np.asarray(-self.width)))

    def _epsilon(self, log_delta: Floats) -> Floats:
        if self.width == 0:
            return np.zeros(log_delta.shape)
        share = log1mexp(np.asarray(-self.width))
        return _less(self.width, (log_delta + share) / 2, log_delta, share, 2)

    def _renyi(self, order: Floats) -> Floats:
        if self.width == 0:
            return np.zeros(order.shape)
        eta, gap = self.width, order - 1
        # The worst window [t-η, t] has u = e^t maximising u^(λ-1)·(A - B·u), at t = η - v. With x = η(λ-1), half of η
        # is taken out of v where x is small, and ln(1 + 1/(λ-1)) where it is large, so that its digits are kept.
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            near = eta / 2 + _log_sinhc(eta * gap / 2) - _log_sinhc(eta * order / 2)
            away = np.log1p(1 / gap) + log1mexp(-eta * gap) - log1mexp(-eta * order)
            if eta < _NARROW:  # the two logarithms share their digits: their slope in the middle
                near = away = eta / 2 * _slope_left(eta * (order + gap) / 4)
            v = np.clip(np.where(eta * gap < 1, near, away), 0.0, eta)
            share = np.log(np.stack([np.expm1(-v), np.exp(-v) * np.expm1(v - eta)], axis=-1) / np.expm1(-eta))
            values = atoms_renyi(order, np.stack([eta - v, -v], axis=-1), share)
            return bounded_renyi(values, order, self.zcdp(), eta)

    def pure(self) -> float:
        """Return η."""
        return self.width

    def zcdp(self) -> float:
        """Return ρ = η²/8."""
        return product_up(self.width, self.width, 0.125)

    def gdp(self) -> float:
        """Return the μ that η-privacy implies."""
        return PureProfile(self.width).gdp()


@dataclass(frozen=True)
class ApproxProfile(Profile):
    r"""All that one pair (ε, δ) says of the other pairs.

    .. math:: \delta(\varepsilon') = \delta + (1-\delta)\frac{(e^\varepsilon - e^{\varepsilon'})_+}{1+e^\varepsilon}

    (Kairouz, Oh and Viswanath 2015, Theorem 3.3: the worst pair reveals the record with probability δ and is
    randomized response otherwise).

    >>> round(ApproxProfile(1.0, 1e-3).delta(0.0), 6)
    0.462655
    """

    word: ClassVar[str] = "approx"
    level: float
    slack: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "level", real("level", self.level))
        object.__setattr__(self, "slack", real("slack", self.slack, below=1.0))

    def _log_delta(self, epsilon: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return log_lifted(np.log(self._delta(epsilon)))

    def _delta(self, epsilon: Floats) -> Floats:
        inside = PureProfile(self.level)._delta(epsilon)
        return np.where(inside > 0, np.minimum(lifted(self.slack + (1 - self.slack) * inside), 1.0), self.slack)

    def _of_delta(self, delta: Floats) -> Floats:
        # The pair itself, which rounding up would else put a hair beyond its own δ. Below that there is no ε, though
        # logarithms may be the same.
        result = np.where(delta < self.slack, np.inf, self.level)
        remainder = (delta > self.slack) | (self.slack == 0)
        if remainder.any():
            result[remainder] = super()._of_delta(delta[remainder])
        return result

    def _renyi(self, order: Floats) -> Floats:
        return PureProfile(self.level)._renyi(order) if self.slack == 0 else np.full(order.shape, np.inf)

    def pure(self) -> float:
        """Return ε where δ = 0, else infinity."""
        return self.level if self.slack == 0 else np.inf
