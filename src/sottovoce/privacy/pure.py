"""Profiles of mechanisms whose privacy loss is bounded: by ε, or inside a window of width η."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from sottovoce.privacy.numbers import Floats, as_floats, expm1mx, log1mexp, round_up
from sottovoce.privacy.profile import Profile

__all__ = ["BoundedRangeProfile", "PureProfile", "atoms_renyi"]


def atoms_renyi(order: Floats, loss: Floats, log_p: Floats) -> Floats:
    r"""Return the Rényi divergence of a finite distribution of privacy losses.

    E exp((λ-1)L) - 1 = Σ p·[E((λ-1)L) + (λ-1)·E(-L)] with E(x) = e^x-1-x, in which every term is positive.
    """
    gap = order[..., None] - 1
    # The sum above keeps its digits when it is small; plain log-sum-exp does when it is large.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        little = np.sum(np.exp(log_p) * (expm1mx(gap * loss) + gap * expm1mx(-loss)), axis=-1)
        large = special.logsumexp(log_p + gap * loss, axis=-1)
        value = np.where(little < 1, np.log1p(little), large) / gap[..., 0]
    mean = np.sum(np.exp(log_p) * expm1mx(-loss), axis=-1)
    return np.where(order == 1, mean, value)


@dataclass(frozen=True)
class PureProfile(Profile):
    r"""Pure ε-privacy: the curve of randomized response, which dominates every ε-private mechanism.

    .. math:: \delta(\varepsilon') = \frac{(e^\varepsilon - e^{\varepsilon'})_+}{1+e^\varepsilon}, \qquad
              \rho = \varepsilon\tanh(\varepsilon/2), \qquad \mu = -2\Phi^{-1}\big(1/(1+e^\varepsilon)\big)

    (Kairouz, Oh and Viswanath 2015). Give ``basis=Basis.EXACT`` when the mechanism is randomized response itself.

    >>> PureProfile(1.0).delta(0.0)
    0.46211715726...
    """

    word: ClassVar[str] = "pure"
    level: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "level", float(as_floats("level", self.level, 0.0)))

    def _log_delta(self, epsilon: Floats) -> Floats:
        return special.log_expit(self.level) + log1mexp(np.minimum(epsilon - self.level, 0.0))

    def _epsilon(self, log_delta: Floats) -> Floats:
        # Kept off zero, where the logarithm would be infinite; that lifts ε, if anything.
        inside = np.log1p(-np.exp(np.minimum(log_delta - special.log_expit(self.level), -2e-16)))
        return round_up(self.level + inside, self.level)

    def _renyi(self, order: Floats) -> Floats:
        loss = np.array([self.level, -self.level])
        return np.minimum(atoms_renyi(order, loss, special.log_expit(loss)), self.level)

    def pure(self) -> float:
        """Return ε."""
        return self.level

    def zcdp(self) -> float:
        """Return ρ = ε·tanh(ε/2), the divergence at order 1."""
        return self.level * float(np.tanh(self.level / 2))

    def gdp(self) -> float:
        """Return μ: the trade-off curve has one knot, so the Gaussian one need only pass below that."""
        return -2 * float(special.ndtri(special.expit(-self.level)))


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
        object.__setattr__(self, "width", float(as_floats("width", self.width, 0.0)))

    def _log_delta(self, epsilon: Floats) -> Floats:
        if self.width == 0:
            return np.full(epsilon.shape, -np.inf)
        inside = log1mexp(np.minimum((epsilon - self.width) / 2, 0.0))
        return np.asarray(2 * inside - log1mexp(np.asarray(-self.width)))

    def _epsilon(self, log_delta: Floats) -> Floats:
        if self.width == 0:
            return np.zeros(log_delta.shape)
        half = (log_delta + log1mexp(np.asarray(-self.width))) / 2
        with np.errstate(divide="ignore"):
            return round_up(self.width + 2 * log1mexp(np.minimum(half, 0.0)), self.width)

    def _renyi(self, order: Floats) -> Floats:
        if self.width == 0:
            return np.zeros(order.shape)
        eta, gap = self.width, np.maximum(order - 1, 1e-12)
        # The worst window [t-η, t] has u = e^t maximising u^(λ-1)·(A - B·u).
        log_a = log1mexp(-eta * (gap + 1))
        log_b = -eta + log1mexp(-eta * gap)
        log_u = np.clip(np.log(gap) + log_a - np.log1p(gap) - log_b, 0.0, eta)
        p = -np.expm1(log_u - eta) / -np.expm1(-eta)
        loss = np.stack([log_u, log_u - eta], axis=-1)
        with np.errstate(divide="ignore"):
            log_p = np.log(np.stack([p, 1 - p], axis=-1))
        values = atoms_renyi(gap + 1, loss, log_p)
        return np.minimum(np.minimum(values, order * eta**2 / 8), eta)

    def pure(self) -> float:
        """Return η."""
        return self.width

    def zcdp(self) -> float:
        """Return ρ = η²/8."""
        return self.width**2 / 8

    def gdp(self) -> float:
        """Return the μ that η-privacy implies."""
        return PureProfile(self.width).gdp()
