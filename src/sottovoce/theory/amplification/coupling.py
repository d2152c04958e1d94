r"""Amplification by couplings: noise on top of noise.

For any distribution ω and coupling of ω with μ (Geumlek 2020, Theorem 20),

.. math:: R_\alpha(\mu K\|\nu K) \le R_\alpha(\omega\|\nu) + \sup_x R_\alpha\big((H_\pi K)(x)\,\|\,K(x)\big).

Between two shifted copies of one noise, ω is the copy shifted to a point w between them, and w may be chosen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.laplace import LaplaceProfile
from sottovoce.privacy.numbers import Floats, as_floats, ceil_float, real, sqrt_up
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.root_finding import decreasing_root

_GOLDEN = (math.sqrt(5) - 1) / 2
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_MOST_ORDER = 1e4
"""Beyond this order the Rényi curve is taken at its limit, the pure level."""


def iterated_gaussian(sensitivity: float, first: float, second: float) -> GaussianProfile:
    """Return the profile of Gaussian noise on top of Gaussian noise: μ = Δ/sqrt(σ₁² + σ₂²), exactly (Example 1).

    >>> iterated_gaussian(1.0, 3.0, 4.0).mu
    0.2
    """
    return GaussianProfile(_mu(_size(sensitivity), _scale("first", first), _scale("second", second)))


def lipschitz_gaussian(sensitivity: float, first: float, second: float, lipschitz: float) -> GaussianProfile:
    """Return the profile of Gaussian noise, an L-Lipschitz map, Gaussian noise: μ = Δ/sqrt(σ₁² + σ₂²/L²) (Example 3).

    It is exact for a linear map. L may be above 1: any L < ∞ amplifies.

    >>> round(lipschitz_gaussian(1.0, 3.0, 2.0, lipschitz=0.5).mu, 12)
    0.2
    """
    L = real("lipschitz", lipschitz)
    s1, s2 = _scale("first", first), _scale("second", second)
    mu = _mu(_size(sensitivity), s1, s2, L) if L > 0 else 0.0
    return GaussianProfile(mu, basis=Basis.BOUND)


def _mu(size: float, first: float, second: float, lipschitz: float = 1.0) -> float:
    """Return Δ/sqrt(σ₁² + σ₂²/L²), rounded up."""
    return sqrt_up(Fraction(size) ** 2 / (Fraction(first) ** 2 + (Fraction(second) / Fraction(lipschitz)) ** 2))


def coupled_laplace_renyi(order: ArrayLike, sensitivity: float, first: float, second: float) -> Floats:
    r"""Return the bound (6.2) for Laplace noise on top of Laplace noise, at the best intermediate point w (Example 2).

    .. math:: \min_{0\le w\le\Delta}\; R_\alpha\big(w/\lambda_1\big) + R_\alpha\big((\Delta-w)/\lambda_2\big)

    with R_α(t) the curve of one Laplace mechanism; convex in w, so a golden section finds the best one.

    >>> float(coupled_laplace_renyi(2.0, 1.0, 1.0, 1.0)) < LaplaceProfile(1.0).renyi(2.0)
    True
    """
    alpha = np.atleast_1d(as_floats("order", order, 1.0))
    delta, s1, s2 = _size(sensitivity), _scale("first", first), _scale("second", second)

    def at(w: Floats) -> Floats:
        return _laplace_renyi(alpha, w / s1) + _laplace_renyi(alpha, (delta - w) / s2)

    low, high = np.zeros(alpha.shape), np.full(alpha.shape, delta)
    best = np.minimum(at(low), at(high))
    for _ in range(60):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        f, g = at(left), at(right)
        low, high = np.where(f > g, left, low), np.where(f > g, high, right)
        best = np.minimum(best, np.minimum(f, g))
    return np.asarray(best.reshape(np.shape(order)))


def _laplace_renyi(order: Floats, t: Floats) -> Floats:
    """Return the Rényi curve of Laplace noise at each (order, Δ/scale) pair; see `LaplaceProfile`."""
    gap = order - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        up, down = np.log(order / (2 * order - 1)) + gap * t, np.log(gap / (2 * order - 1)) - order * t
        value = np.logaddexp(up, down) / gap
    # Near order 1 the sum cancels; the curve rises with the order, so that a slightly larger one is safe.
    kl = t + np.expm1(-t)
    near = gap < 1e-6
    if np.any(near):
        value = np.where(near, kl + gap * t * t / 2, value)
    return np.asarray(np.clip(value + 1e-15 * (1 + t) / np.maximum(gap, 1e-6), 0.0, t))


@dataclass(frozen=True)
class IteratedLaplaceProfile(Profile):
    r"""Laplace noise of scale `second` on top of Laplace noise of scale `first`: exact.

    The sum has the density (Geumlek 2020, (6.3)), with λ₁ ≥ λ₂ and e_i = e^{−|x|/λ_i},

    .. math:: \frac14\Big[\frac{e_1+e_2}{\lambda_1+\lambda_2} + \frac{e_1-e_2}{\lambda_1-\lambda_2}\Big]

    which is log-concave: the likelihood ratio of two shifts is monotone and δ(ε) is a difference of two tails.
    There is no gain in pure privacy, Δ/max(λ₁, λ₂) (Lemma 5), only in δ(ε) and in the Rényi curve.

    >>> twice = IteratedLaplaceProfile(1.0, 1.0)
    >>> twice.pure(), twice.delta(0.5) < LaplaceProfile(1.0).delta(0.5)
    (1.0, True)
    """

    word: ClassVar[str] = "iterated-laplace"
    first: float
    second: float
    sensitivity: float = 1.0
    basis: Basis = field(default=Basis.EXACT, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("first", "second"):
            object.__setattr__(self, name, _scale(name, getattr(self, name)))
        object.__setattr__(self, "sensitivity", _size(self.sensitivity))

    @property
    def _scales(self) -> tuple[float, float]:
        return max(self.first, self.second), min(self.first, self.second)

    def _logs(self, x: Floats) -> tuple[Floats, Floats]:
        """Return the logarithms of density and upper tail at x >= 0, both divided by e₁ = e^{−x/λ₁}."""
        first, two = self._scales
        rate = (first - two) / (first * two)
        ratio = np.exp(-rate * x)  # e₂/e₁
        drop = x / (first * two) * special.exprel(-rate * x)  # (1 − e₂/e₁)/(λ₁ − λ₂), also where the two agree
        density = ((1 + ratio) / (first + two) + drop) / 4
        tail = ((first + two * ratio) / (first + two) + 1 + two * drop) / 4
        return np.log(density), np.log(tail)

    def log_density(self, x: ArrayLike) -> Floats:
        """Return the logarithm of the noise's density (6.3)."""
        away = np.abs(np.asarray(x, dtype=np.float64))
        return np.asarray(self._logs(away)[0] - away / self._scales[0])

    def _loss(self, x: Floats) -> Floats:
        """Return log p(x − Δ)/p(x), rising in x, for x >= Δ/2."""
        back = np.abs(x - self.sensitivity)
        return np.asarray(self._logs(back)[0] - self._logs(x)[0] + (x - back) / self._scales[0])

    def _log_delta(self, epsilon: Floats) -> Floats:
        delta, level = self.sensitivity, self.pure()
        flat = np.minimum(epsilon.ravel(), level * (1 - 1e-15))
        low = np.full(flat.shape, delta / 2)
        high = low + self._scales[0]
        for _ in range(60):
            short = self._loss(high) < flat
            if not short.any():
                break
            high = np.where(short, 2 * high, high)
        place = decreasing_root(lambda x: -self._loss(x), -flat, low, high) if delta > 0 else low
        # δ = S(x − Δ) − e^ε·S(x) at the place where the loss is ε, and no other place gives more.
        back = place - delta
        tail = self._logs(np.abs(back))[1] - np.abs(back) / self._scales[0]
        before = np.where(back >= 0, tail, np.log1p(-np.exp(tail)))
        after = self._logs(place)[1] - place / self._scales[0]
        # Rounding may only raise it.
        remainder = np.minimum(flat + after - before, 0.0)
        value = before + np.log(np.minimum(-np.expm1(remainder) + 1e-15 * (1 + np.abs(after)), 1.0))
        return np.where(epsilon >= level, -np.inf, value.reshape(epsilon.shape))

    def _renyi(self, order: Floats) -> Floats:
        bound = np.minimum(coupled_laplace_renyi(order, self.sensitivity, self.first, self.second), self.pure())
        exact = self.exact_renyi(np.clip(order, 1 + 1e-3, _MOST_ORDER))
        # Below the smallest order integrated the curve is smaller still; above the largest the bound stands alone.
        return np.minimum(bound, np.where(order <= _MOST_ORDER, exact, np.inf))

    def exact_renyi(self, order: ArrayLike) -> Floats:
        r"""Return (1/(α−1))·log ∫ p(x−Δ)^α p(x)^{1−α} dx by quadrature, for 1 < α ≤ 10⁴.

        Panels shrink towards the two kinks, 0 and Δ. A relative 1e-9 is added for what the quadrature may miss.
        """
        alpha = as_floats("order", order, 1 + 1e-9, below=_MOST_ORDER * (1 + 1e-9))
        if self.sensitivity == 0:
            return np.zeros(alpha.shape)
        x, w = self._quadrature(float(np.max(alpha)))
        p, q = self.log_density(x - self.sensitivity), self.log_density(x)
        gap = alpha[..., None] - 1
        value = special.logsumexp(p + gap * (p - q) + np.log(w), axis=-1) / gap[..., 0]
        return np.asarray(np.maximum(value, 0.0) * (1 + 1e-9) + 1e-14 / gap[..., 0])

    def _quadrature(self, order: float) -> tuple[Floats, Floats]:
        first, two = self._scales
        delta = self.sensitivity
        fine = min(two, delta) * 1e-5
        # The integrand may peak as far as sqrt(αΔλ₁) beyond Δ, with a width of about sqrt(distance·λ₁).
        top = 64 + 4 * math.sqrt(order * delta / first)
        doubling = fine * 2.0 ** np.arange(0, 1 + math.ceil(math.log2(max(first, delta) / fine)), 0.5)
        out = np.unique(
            np.concatenate([[0.0], doubling, first * (np.arange(math.ceil(2 * math.sqrt(top)) + 1) / 2) ** 2])
        )
        half = np.append(out[out < delta / 2], delta / 2)
        edges = np.unique(np.concatenate([-out, half, delta - half, delta + out]))
        middle, reach = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
        return (middle[:, None] + reach[:, None] * _NODES).ravel(), (reach[:, None] * _WEIGHTS).ravel()

    def pure(self) -> float:
        """Return Δ/max(λ₁, λ₂): iterated Laplace noise gains nothing here (Lemma 5)."""
        return ceil_float(Fraction(self.sensitivity) / Fraction(self._scales[0]))

    def zcdp(self) -> float:
        """Return the least ρ that a coupling proves: the sum of two Laplace mechanisms' at the best w."""
        split = self.sensitivity * np.linspace(0.0, 1.0, 257)
        t1, t2 = split / self.first, (self.sensitivity - split) / self.second
        return float(np.min(t1 + np.expm1(-t1) + t2 + np.expm1(-t2)))

    def gdp(self) -> float:
        """Return the μ of the larger of the two noises alone; the other is post-processing."""
        return LaplaceProfile(self._scales[0], self.sensitivity).gdp()


def _size(sensitivity: float) -> float:
    return real("sensitivity", sensitivity)


def _scale(name: str, value: float) -> float:
    scale = real(name, value)
    if scale == 0:
        raise InvalidValue(f"{name} is the size of a noise and must be > 0. Got 0.0")
    return scale
