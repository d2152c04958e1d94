r"""Worst neighbouring pairs of posteriors whose log-ratio is monotone in one scalar.

Where the log-ratio L of P and Q is monotone, the best test is a threshold, so the exact curve is

.. math:: \delta(\varepsilon) = P(L > \varepsilon) - e^\varepsilon Q(L > \varepsilon),

a difference of two incomplete beta or gamma functions. Where the two nearly cancel or underflow it is
integrated instead, with every term positive. The documentation page `Where the supremum sits` proves that
these pairs are the worst ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from scipy import special

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, log1pmx, log_gamma_gap, log_gamma_step, real, whole

__all__ = ["BetaPairs", "GammaRatePairs", "GammaShapePairs", "Pairs", "pairs_from_dict"]

_T = np.linspace(-4.6, 4.6, 231)
_U = np.exp(_T - np.exp(-_T))  # a double-exponential rule for integrals over (0, ∞) that decay
_DU = _U * (1 + np.exp(-_T)) * (_T[1] - _T[0])


class Pairs(Protocol):
    """A set of ordered neighbouring pairs, closed under swapping, with its exact curves."""

    @property
    def pole(self) -> float:
        """The order from which the Rényi divergence is infinite."""

    def log_delta(self, epsilon: Floats) -> Floats:
        """Return log δ(ε), the supremum over the pairs."""

    def renyi(self, order: Floats) -> Floats:
        """Return the Rényi divergence at each order >= 1, the supremum over the pairs."""

    def to_dict(self) -> dict[str, Any]:
        """Return the pairs as a plain dictionary."""


def _positive(owner: object, *names: str) -> None:
    for name in names:
        value = real(name, getattr(owner, name))
        if value == 0:
            raise InvalidValue(f"{name} must be > 0. Got {value}")
        object.__setattr__(owner, name, value)


def _log_tail(
    log_p: Floats, log_q: Floats, epsilon: Floats, integral: Callable[[np.ndarray[Any, Any]], Floats]
) -> Floats:
    """Return log(P - e^ε Q), by `integral` at the places where the digits are gone."""
    with np.errstate(invalid="ignore", divide="ignore"):
        out = log_p + np.log(-np.expm1(np.minimum(epsilon + log_q - log_p, 0.0)))
        lost = ~(out > log_p - 5.0) | (log_p < -600.0)
    if lost.any():
        out[lost] = integral(lost)
    return out


def _log_integral(
    log_height: Floats, rate: Floats, change: Callable[[Floats], Floats], gap: Callable[[Floats], Floats]
) -> Floats:
    """Return log of ∫ exp(log_height + change(u)) (1 - e^(-gap(u))) du over u > 0.

    `rate` is about one over the distance on which the integrand lives.
    """
    u = _U / rate[:, None]
    with np.errstate(over="ignore", invalid="ignore"):
        terms = np.exp(change(u)) * -np.expm1(-gap(u))
    total = np.nan_to_num(terms, nan=0.0) @ _DU / rate
    with np.errstate(divide="ignore"):
        return np.asarray(log_height + np.log(total))


@dataclass(frozen=True)
class BetaPairs:
    r"""Beta(a+ws+w, b+w(N-s)) against Beta(a+ws, b+w(N-s)+w), both ways, for every s in 0..N.

    a, b are the weighted prior parameters, w = `step` the data weight, N = `others` how many other records sit in the
    two touched cells: n-1 for one proportion, 0 for three categories or more. With ``whole=False`` records may be
    fractions and s runs over the interval [0, N]; the bound is then above the supremum, by less than a relative 1e-6.
    """

    family: ClassVar[str] = "beta"
    a: float
    b: float
    step: float
    others: int = 0
    whole: bool = True

    def __post_init__(self) -> None:
        _positive(self, "a", "b", "step")
        object.__setattr__(self, "others", whole("others", self.others, floats=True))

    @property
    def pole(self) -> float:
        """1 + min(a, b) / w."""
        return 1 + min(self.a, self.b) / self.step

    def to_dict(self) -> dict[str, Any]:
        """Return the pairs as a plain dictionary."""
        return {"family": self.family} | asdict(self)

    def renyi(self, order: Floats) -> Floats:
        """Return the divergence, which is convex in s: one of the two ends has the largest."""
        w, n = self.step, self.others
        ends = {(self.a, self.b + w * n), (self.a + w * n, self.b)}
        a, b = np.array(sorted(ends | {(b, a) for a, b in ends})).T[..., None]
        lead, step = np.concatenate([b, a + w]), np.repeat([w, -w], len(a))[:, None]
        gaps = log_gamma_gap(lead, step, order.ravel())
        return np.asarray((gaps[: len(a)] + gaps[len(a) :]).max(axis=0).reshape(order.shape))

    def log_delta(self, epsilon: Floats) -> Floats:
        """Return log δ(ε) by branch and bound over s.

        A pair with more data in either cell is a blurred copy of one with less (data processing), so the pair
        (a+ws₁, b+w(N-s₂)) bounds every s in [s₁, s₂]. The ends nearly always win at once.
        """
        flat = epsilon.ravel()
        best = np.full(flat.shape, -np.inf)
        low, high = self._blocks()
        for _ in range(40):
            bound = self._at(low, high, flat)
            best = np.maximum(best, bound[low == high].max(axis=0, initial=-np.inf))
            # A fraction may come as near an end as it likes: there the bound itself is the answer.
            fine = high - low < (0.5 if self.whole else 1e-7)
            open_ = (bound > best + (1e-12 if self.whole else 5e-10)).any(axis=1) & ~fine
            best = np.maximum(best, bound[~open_].max(axis=0, initial=-np.inf))
            if not open_.any() or open_.sum() > 2048:
                best = np.maximum(best, bound.max(axis=0))
                break
            low, high = self._split(low[open_], high[open_])
        return best.reshape(epsilon.shape)

    def _blocks(self) -> tuple[Floats, Floats]:
        """Cut [0, N] into its ends and blocks that grow away from them."""
        n = float(self.others)
        if n == 0 or (n < 2 and self.whole):
            return np.array([0.0, n]), np.array([0.0, n])
        half = np.ceil(n / 2) if self.whole else n / 2
        tiny = 1.0 if self.whole else min(1e-11, n / 4)
        growth = 2.0 if self.whole else 1.6
        edges = tiny * growth ** np.arange(int(np.log(half / tiny) / np.log(growth)) + 1)
        if self.whole:
            low, high = np.append(0.0, edges), np.concatenate([[0.0], edges[1:] - 1, [half]])
        else:
            low, high = np.concatenate([[0.0, 0.0], edges]), np.concatenate([[0.0], edges, [half]])
        return np.concatenate([low, n - high]), np.concatenate([high, n - low])

    def _split(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        middle = (low + high) / 2
        if self.whole:
            middle = np.floor(middle)
            return np.concatenate([low, middle + 1]), np.concatenate([middle, high])
        return np.concatenate([low, middle]), np.concatenate([middle, high])

    def _at(self, low: Floats, high: Floats, epsilon: Floats) -> Floats:
        """Return, for each block and ε, the larger log δ of the two directions of its bounding pair."""
        a, b = self.a + self.step * low, self.b + self.step * (self.others - high)
        up = _beta_log_delta(np.append(a, b)[:, None], np.append(b, a)[:, None], self.step, epsilon[None, :])
        return np.maximum(up[: a.size], up[a.size :])


def _beta_log_delta(a: Floats, b: Floats, w: float, epsilon: Floats) -> Floats:
    """Return log δ(ε) of P = Beta(a+w, b) against Q = Beta(a, b+w), where L = w·logit θ + constant."""
    x = (epsilon - log_gamma_step(b, w) + log_gamma_step(a, w)) / w  # the threshold of logit θ
    a, b, epsilon = np.broadcast_arrays(a, b, epsilon)
    miss = special.expit(-x)
    with np.errstate(divide="ignore"):
        log_p = np.log(special.betainc(b, a + w, miss))
        log_q = np.log(special.betainc(b + w, a, miss))

    def integral(at: np.ndarray[Any, Any]) -> Floats:
        p, q, t = a[at] + w, b[at], x[at]
        hit = special.expit(t)
        height = p * t - (p + q) * np.logaddexp(0, t) - _log_beta(p, q)
        rate = np.maximum((p + q) * hit - p, 0.0) + np.sqrt((p + q) * hit * special.expit(-t)) + 1e-300
        p, total = p[:, None], (p + q)[:, None]
        log_hit, log_miss = special.log_expit(t)[:, None], special.log_expit(-t)[:, None]
        return _log_integral(
            height,
            rate,
            lambda u: p * u - total * np.logaddexp(log_miss, log_hit + u),
            lambda u: w * u,
        )

    return _log_tail(log_p, log_q, epsilon, integral)


def _log_beta(p: Floats, q: Floats) -> Floats:
    small, large = np.minimum(p, q), np.maximum(p, q)
    return np.asarray(special.gammaln(small) - log_gamma_step(large, small))


@dataclass(frozen=True)
class GammaShapePairs:
    """Gamma(shape + step) against Gamma(shape), of one rate, both ways."""

    family: ClassVar[str] = "gamma-shape"
    shape: float
    step: float

    def __post_init__(self) -> None:
        _positive(self, "shape", "step")

    @property
    def pole(self) -> float:
        """1 + shape / step."""
        return 1 + self.shape / self.step

    def to_dict(self) -> dict[str, Any]:
        """Return the pairs as a plain dictionary."""
        return {"family": self.family} | asdict(self)

    def renyi(self, order: Floats) -> Floats:
        """Return the larger divergence of the two directions."""
        a, w = self.shape, self.step
        return np.maximum(log_gamma_gap(a, w, order), log_gamma_gap(a + w, -w, order))

    def log_delta(self, epsilon: Floats) -> Floats:
        """Return the larger log δ(ε) of the two directions."""
        flat, a, w = epsilon.ravel(), self.shape, self.step
        step = float(log_gamma_step(a, w))
        with np.errstate(divide="ignore"):
            x = np.minimum((flat + step) / w, 700.0)  # upwards: L = w·log θ - step; beyond, nothing is left
            up = _log_tail(
                np.log(special.gammaincc(a + w, np.exp(x))),
                np.log(special.gammaincc(a, np.exp(x))),
                flat,
                lambda at: _log_gamma_integral(a + w, x[at], 1.0, lambda u: w * u),
            )
            y = (step - flat) / w  # downwards: L = step - w·log θ
            down = _log_tail(
                np.log(special.gammainc(a, np.exp(y))),
                np.log(special.gammainc(a + w, np.exp(y))),
                flat,
                lambda at: _log_gamma_integral(a, y[at], -1.0, lambda u: w * u),
            )
        return np.maximum(up, down).reshape(epsilon.shape)


@dataclass(frozen=True)
class GammaRatePairs:
    """Gamma(shape, rate low) against Gamma(shape, rate high), both ways."""

    family: ClassVar[str] = "gamma-rate"
    shape: float
    low: float
    high: float

    def __post_init__(self) -> None:
        _positive(self, "shape", "low", "high")
        if self.low >= self.high:
            raise InvalidValue(f"low must be < high. Got {self.low} and {self.high}")

    @property
    def pole(self) -> float:
        """1 + low / (high - low)."""
        return 1 + self.low / (self.high - self.low)

    def to_dict(self) -> dict[str, Any]:
        """Return the pairs as a plain dictionary."""
        return {"family": self.family} | asdict(self)

    def renyi(self, order: Floats) -> Floats:
        """Return the larger divergence of the two directions."""
        return np.maximum(self._renyi(order, self.low, self.high), self._renyi(order, self.high, self.low))

    def _renyi(self, order: Floats, p: float, q: float) -> Floats:
        x = (q - p) / p
        y = (1 - order) * x
        with np.errstate(divide="ignore", invalid="ignore"):
            first = np.where(order == 1, 0.0, log1pmx(y) / (order - 1))
        return np.where(y > -1, -self.shape * (first + log1pmx(np.asarray(x))), np.inf)

    def log_delta(self, epsilon: Floats) -> Floats:
        """Return the larger log δ(ε) of the two directions."""
        flat, k = epsilon.ravel(), self.shape
        span, ratio = self.high - self.low, k * float(np.log1p((self.high - self.low) / self.low))
        with np.errstate(divide="ignore", invalid="ignore"):
            t = (flat + ratio) / span  # upwards, P has the low rate: L = span·θ - ratio
            up = _log_tail(
                np.log(special.gammaincc(k, self.low * t)),
                np.log(special.gammaincc(k, self.high * t)),
                flat,
                lambda at: _log_gamma_integral(
                    k, np.log(self.low * t[at]), 1.0, lambda u: span * t[at, None] * np.expm1(u)
                ),
            )
            reach = flat < ratio  # downwards L = ratio - span·θ never passes ratio
            s = np.where(reach, ratio - flat, ratio) / span
            down = _log_tail(
                np.log(special.gammainc(k, self.high * s)),
                np.log(special.gammainc(k, self.low * s)),
                flat,
                lambda at: _log_gamma_integral(
                    k, np.log(self.high * s[at]), -1.0, lambda u: span * s[at, None] * -np.expm1(-u)
                ),
            )
        return np.maximum(up, np.where(reach, down, -np.inf)).reshape(epsilon.shape)


def _log_gamma_integral(k: float, x: Floats, sign: float, gap: Callable[[Floats], Floats]) -> Floats:
    """Integrate (1 - e^-gap) over log θ from x in the direction `sign`, θ ~ Gamma(k)."""
    theta = np.exp(x)
    rate = np.maximum(sign * (theta - k), 0.0) + np.sqrt(theta) * (sign > 0) + np.sqrt(k) + 1e-300
    return _log_integral(
        k * x - theta - float(special.gammaln(k)),
        rate,
        lambda u: sign * k * u - theta[:, None] * np.expm1(sign * u),
        gap,
    )


_FAMILIES: dict[str, Callable[..., Pairs]] = {p.family: p for p in (BetaPairs, GammaShapePairs, GammaRatePairs)}


def pairs_from_dict(state: Mapping[str, Any]) -> Pairs:
    """Read pairs from their `to_dict` form."""
    rest = dict(state)
    family = rest.pop("family", None)
    if family not in _FAMILIES:
        raise InvalidValue(f"no pairs are called {family!r}; known: {', '.join(_FAMILIES)}")
    return _FAMILIES[family](**rest)
