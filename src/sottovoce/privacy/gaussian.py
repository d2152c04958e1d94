"""The Gaussian profile: N(0,1) against N(μ,1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from scipy import special

from sottovoce.privacy.numbers import Floats, real
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.rounding import product_up

_LARGEST = 1e150
"""Beyond this the square is no double, and nothing is private."""
_ROOT2 = np.sqrt(2.0)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_NEAR = 0.5
"""Up to here sixteen nodes leave no error of their own."""
_LIFT = 2e-14
"""What rounding can take away from log δ, and more: the claim is never below the truth."""


@dataclass(frozen=True)
class GaussianProfile(Profile):
    r"""μ-Gaussian privacy (Dong, Roth and Su 2022).

    .. math:: \delta(\varepsilon) = \Phi(\mu/2-\varepsilon/\mu) - e^\varepsilon \Phi(-\mu/2-\varepsilon/\mu),
              \qquad R(\lambda) = \lambda\mu^2/2

    Examples
    --------
    >>> round(GaussianProfile(1.0).delta(1.0), 4)
    0.1269
    >>> GaussianProfile(3.0) + GaussianProfile(4.0)
    GaussianProfile(basis=<Basis.EXACT: 'exact'>, mu=5.0)
    """

    word: ClassVar[str] = "gaussian"
    mu: float
    basis: Basis = field(default=Basis.EXACT, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", real("mu", self.mu, below=_LARGEST))

    def _log_delta(self, epsilon: Floats) -> Floats:
        if self.mu == 0:
            return np.full(epsilon.shape, -np.inf)
        # Lifted by what its rounding, and that of its square, can take away: as if ε were a hair smaller.
        above, below = self.mu / 2, epsilon / self.mu
        a = np.maximum(above - below + 4e-16 * (above + below), -1e150)  # beyond, the square is no double, and δ zero
        out = np.empty(epsilon.shape)
        tail = a < 4
        # Φ(a) - e^ε Φ(a-μ) = φ(a)·(a difference of Mills ratios): nothing underflows, little cancels.
        x = -a[tail] / _ROOT2
        out[tail] = -(x * x) - np.log(2.0) + np.log(_erfcx_drop(x, self.mu / _ROOT2))
        body = ~tail
        # One less two small numbers: Φ(-a), and e^ε Φ(a-μ) = φ(a)·(a Mills ratio).
        x = a[body] / _ROOT2
        out[body] = np.log1p(-special.ndtr(-a[body]) - np.exp(-x * x) / 2 * special.erfcx(self.mu / _ROOT2 - x))
        return np.minimum(out + _LIFT, 0.0)

    def _renyi(self, order: Floats) -> Floats:
        return product_up(order, self.zcdp())

    def pure(self) -> float:
        """Return infinity, or zero for μ = 0."""
        return 0.0 if self.mu == 0 else np.inf

    def zcdp(self) -> float:
        """Return ρ = μ²/2."""
        return product_up(self.mu, self.mu, 0.5)

    def gdp(self) -> float:
        """Return μ."""
        return self.mu

    def _twice(self) -> Profile:
        return GaussianProfile(2 * self.mu, basis=Basis.weakest([self.basis, Basis.BOUND]))


def _erfcx_drop(x: Floats, h: float) -> Floats:
    """Return erfcx(x) - erfcx(x+h), by quadrature of the derivative where the two nearly agree."""
    if h > _NEAR:
        far = x > 1e3 * h
        if not far.any():
            return np.asarray(special.erfcx(x) - special.erfcx(x + h))
    else:
        far = np.ones(x.shape, dtype=bool)
    out = np.asarray(special.erfcx(x) - special.erfcx(x + h))
    z = x[far, None] + h * (_NODES + 1) / 2
    out[far] = h / 2 * (_erfcx_slope(z) @ _WEIGHTS)
    return out


def _erfcx_slope(z: Floats) -> Floats:
    """Return -erfcx'(z) = 2/√π - 2z·erfcx(z)."""
    with np.errstate(over="ignore", invalid="ignore"):
        plain = 2 / np.sqrt(np.pi) - 2 * z * special.erfcx(z)
    big = z > 12
    if not big.any():
        return np.asarray(plain)
    y = 1 / (2 * np.where(big, z, 12.0) ** 2)
    series, term = np.zeros_like(y), np.ones_like(y)
    for k in range(1, 14):
        term = -term * (2 * k - 1) * y
        series = series - term
    return np.asarray(np.where(big, 2 / np.sqrt(np.pi) * series, plain))
