r"""Worst neighbouring pairs of posteriors whose log-ratio is monotone in one scalar.

Where the log-ratio L of P and Q is monotone, the best test is a threshold, so the exact curve is

.. math:: \delta(\varepsilon) = P(L > \varepsilon) - e^\varepsilon Q(L > \varepsilon),

a difference of two incomplete beta or gamma functions. Where the two nearly cancel or underflow it is
integrated instead, with every term positive. The documentation page `Where the supremum sits` proves that
these pairs are the worst ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import (
    Floats,
    log1pmx,
    log_gamma_gap,
    log_gamma_step,
    mixed,
    real,
    slip,
    whole,
)
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.tail_integrals import BetaTail, Curved, GammaTail, Gap, Linear, log_integral

__all__ = [
    "BetaPairs",
    "GammaRatePairs",
    "GammaShapePairs",
    "LikelihoodRatioProfile",
    "Pairs",
    "pairs_from_dict",
    "rate_renyi",
]

_LIFT = 1e-12  # more than the relative error of a quadrature
_UP = 1 + 1e-12  # more than the relative error of a Rényi divergence
_MOST = 1e100  # a larger ε is answered with the δ of this one
_PLAIN = 1e3  # the largest shape for which the incomplete functions are fast, and right to a relative 2e-13


class Pairs(Protocol):
    """A set of ordered neighbouring pairs, closed under swapping, with its exact curves."""

    @property
    def pole(self) -> float:
        """The order from which the Rényi divergence is infinite."""

    @property
    def sharp(self) -> bool:
        """Whether δ(ε) is the supremum itself, to a relative 1e-8; where it is not, it is an upper bound."""

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


def _ordinary(step: float, *shapes: float) -> bool:
    """Say whether the rounding that is allowed for stays small beside the log-ratio itself."""
    return min(step, *shapes) >= 1e-12 and max(step, *shapes) <= 1e12


def _hopeless(step: float, *shapes: float) -> bool:
    """Say whether a number lies where a double's range ends: then nothing is claimed, δ = 1 and an infinite curve."""
    return min(step, *shapes) < 1e-100 or max(step, *shapes) > 1e100


def _slack(x: Floats, step: float, value: Floats) -> Floats:
    """Return a bound on the error of `log_gamma_step`: the log-ratio is lifted by it, which only adds to δ."""
    parts = np.abs(special.gammaln(x)) + np.abs(special.gammaln(x + step))
    return np.asarray(1e-15 * (np.abs(value) + np.where(step > 0.1 * x, parts, 0.0)))


def _log_tail(
    log_p: Floats, log_q: Floats, epsilon: Floats, trusted: NDArray[np.bool_], integral: Callable[[Any], Floats]
) -> Floats:
    """Return log(P - e^ε Q), by `integral` where digits are gone, lifted by what rounding can take away."""
    with np.errstate(all="ignore"):
        out = log_p + np.log(-np.expm1(np.minimum(epsilon + log_q - log_p, 0.0)))
        lost = ~(trusted & (out > log_p - 5.0))
        lift = 2e-13 * np.exp(np.where(lost, 0.0, log_p - out))
    if lost.any():
        out[lost] = integral(lost)
    out = np.maximum(out, -1e307)
    return np.minimum(out + (_LIFT + lift + 4e-15 * np.abs(out)), 0.0)


@dataclass(frozen=True)
class BetaPairs:
    r"""Beta(a+ws+w, b+w(N-s)) against Beta(a+ws, b+w(N-s)+w), both ways, for every s in 0..N.

    a, b are the weighted prior parameters, w = `step` the data weight, N = `others` how many other records sit in the
    two touched cells: n-1 for one proportion, 0 for three categories or more. With ``whole=False`` records may be
    fractions, so may N, and s runs over the interval [0, N]; the bound is then above the supremum, by less than a
    relative 1e-6.
    """

    family: ClassVar[str] = "beta"
    a: float
    b: float
    step: float
    others: float = 0
    whole: bool = True

    def __post_init__(self) -> None:
        _positive(self, "a", "b", "step")
        others = real("others", self.others)
        if self.whole or others.is_integer():
            others = whole("others", self.others, floats=True)
        object.__setattr__(self, "others", others)

    @property
    def sharp(self) -> bool:
        """True for whole records and numbers that double precision serves well."""
        return (self.whole or self.others == 0) and _ordinary(self.step, self.a, self.b)

    @property
    def pole(self) -> float:
        """1 + min(a, b) / w."""
        return 1 + min(self.a, self.b) / self.step

    def to_dict(self) -> dict[str, Any]:
        """Return the pairs as a plain dictionary."""
        return {"family": self.family} | asdict(self)

    def renyi(self, order: Floats) -> Floats:
        """Return the divergence, which is convex in s: one of the two ends has the largest."""
        if _hopeless(self.step, self.a, self.b):
            return np.full(order.shape, np.inf)
        w, n = self.step, self.others
        ends = {(self.a, self.b + w * n), (self.a + w * n, self.b)}
        a, b = np.array(sorted(ends | {(b, a) for a, b in ends})).T[..., None]
        lead, step = np.concatenate([b, a + w]), np.repeat([w, -w], len(a))[:, None]
        gaps = log_gamma_gap(lead, step, order.ravel())
        return np.asarray((gaps[: len(a)] + gaps[len(a) :]).max(axis=0).reshape(order.shape)) * _UP

    def log_delta(self, epsilon: Floats) -> Floats:
        """Return log δ(ε) by branch and bound over s.

        A pair with more data in either cell is a blurred copy of one with less (data processing), so the pair
        (a+ws₁, b+w(N-s₂)) bounds every s in [s₁, s₂]. The ends nearly always win at once, so they go first: of what
        cannot reach them a rough bound will do.
        """
        if _hopeless(self.step, self.a, self.b):
            return np.zeros(epsilon.shape)
        flat = np.minimum(epsilon.ravel(), _MOST)
        low, high = self._blocks()
        single = low == high
        best = self._at(low[single], high[single], flat).max(axis=0)
        low, high = low[~single], high[~single]
        for _ in range(40 if low.size else 0):
            bound = self._at(low, high, flat, best)
            best = np.maximum(best, bound[low == high].max(axis=0, initial=-np.inf))
            # A fraction may come as near an end as it likes: there the bound itself is the answer.
            fine = high - low < (0.5 if self.whole else 1e-7)
            open_ = (bound > best + (1e-12 if self.whole else 5e-10)).any(axis=1) & ~fine
            best = np.maximum(best, bound[~open_].max(axis=0, initial=-np.inf))
            if not open_.any() or open_.sum() > 2048:
                best = np.maximum(best, bound.max(axis=0))
                break
            low, high = self._split(low[open_], high[open_])
        return np.asarray(best.reshape(epsilon.shape))

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

    def _at(self, low: Floats, high: Floats, epsilon: Floats, floor: float | Floats = -np.inf) -> Floats:
        """Return, for each block and ε, the larger log δ of the two directions of its bounding pair."""
        a, b = self.a + self.step * low, self.b + self.step * (self.others - high)
        up = _beta_log_delta(np.append(a, b)[:, None], np.append(b, a)[:, None], self.step, epsilon[None, :], floor)
        return np.maximum(up[: a.size], up[a.size :])


def _beta_log_delta(a: Floats, b: Floats, w: float, epsilon: Floats, floor: float | Floats) -> Floats:
    """Return log δ(ε) of P = Beta(a+w, b) against Q = Beta(a, b+w), where L = w·logit θ + constant.

    Below `floor`, any number from it to the floor may come instead.
    """
    rise, fall = log_gamma_step(a, w), log_gamma_step(b, w)
    lifted = epsilon * (1 - 1e-15) - _slack(a, w, rise) - _slack(b, w, fall)
    a, b, epsilon, x = np.broadcast_arrays(a, b, epsilon, (lifted - fall + rise) / w)  # x: the threshold of logit θ
    trusted = (np.maximum(a, b) + w <= _PLAIN) & (np.abs(x) < 600.0)
    log_p, log_q = np.full(x.shape, -np.inf), np.full(x.shape, -np.inf)
    # A threshold is stationary: what rounding 1 - θ does to it changes δ by a square. Far below it is no longer small.
    up, down = trusted & (x > -8.0), trusted & (x <= -8.0)
    with np.errstate(divide="ignore"):
        for out, p, q in ((log_p, a + w, b), (log_q, a, b + w)):
            out[up] = np.log(special.betainc(q[up], p[up], special.expit(-x[up])))
            out[down] = np.log1p(-special.betainc(p[down], q[down], special.expit(x[down])))
    # The complement has absolute digits only.
    trusted = (up & (log_p > -50.0)) | (down & (log_p > -4.0) & (epsilon < 4.0))

    def integral(at: NDArray[np.bool_]) -> Floats:
        p, q = a[at][:, None] + w, b[at][:, None]
        least = np.broadcast_to(floor, at.shape)[at]
        return log_integral(BetaTail.of(p, q, x[at][:, None]), Linear(np.full(p.shape, w)), least)

    return _log_tail(log_p, log_q, epsilon, trusted, integral)


@dataclass(frozen=True)
class GammaShapePairs:
    """Gamma(shape + step) against Gamma(shape), of one rate, both ways."""

    family: ClassVar[str] = "gamma-shape"
    shape: float
    step: float

    def __post_init__(self) -> None:
        _positive(self, "shape", "step")

    @property
    def sharp(self) -> bool:
        """True for numbers that double precision serves well."""
        return _ordinary(self.step, self.shape)

    @property
    def pole(self) -> float:
        """1 + shape / step."""
        return 1 + self.shape / self.step

    def to_dict(self) -> dict[str, Any]:
        """Return the pairs as a plain dictionary."""
        return {"family": self.family} | asdict(self)

    def renyi(self, order: Floats) -> Floats:
        """Return the larger divergence of the two directions."""
        if _hopeless(self.step, self.shape):
            return np.full(order.shape, np.inf)
        a, w = self.shape, self.step
        return np.maximum(log_gamma_gap(a, w, order), log_gamma_gap(a + w, -w, order)) * _UP

    def log_delta(self, epsilon: Floats) -> Floats:
        """Return the larger log δ(ε) of the two directions."""
        if _hopeless(self.step, self.shape):
            return np.zeros(epsilon.shape)
        flat, a, w = np.minimum(epsilon.ravel(), _MOST), self.shape, self.step
        step = log_gamma_step(a, w)
        lifted = flat * (1 - 1e-15) - _slack(np.asarray(a), w, step)
        x = np.minimum((lifted + step) / w, 700.0)  # upwards: L = w·log θ - step; beyond, nothing is left
        y = (step - lifted) / w  # downwards: L = step - w·log θ
        gap = Linear(np.full((flat.size, 1), w))
        up = _gamma_log_delta(a + w, a, x, x, flat, 1.0, gap)
        down = _gamma_log_delta(a, a + w, y, y, flat, -1.0, gap)
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
    def sharp(self) -> bool:
        """True for numbers that double precision serves well."""
        return _ordinary((self.high - self.low) / self.low, self.shape)

    @property
    def pole(self) -> float:
        """1 + low / (high - low)."""
        return 1 + self.low / (self.high - self.low)

    def to_dict(self) -> dict[str, Any]:
        """Return the pairs as a plain dictionary."""
        return {"family": self.family} | asdict(self)

    def renyi(self, order: Floats) -> Floats:
        """Return the larger divergence of the two directions."""
        if _hopeless((self.high - self.low) / self.low, self.shape):
            return np.full(order.shape, np.inf)
        one, other = (rate_renyi(self.shape, *rates, order) for rates in ((self.low, self.high), (self.high, self.low)))
        return np.maximum(one, other) * _UP

    def log_delta(self, epsilon: Floats) -> Floats:
        """Return the larger log δ(ε) of the two directions."""
        if _hopeless((self.high - self.low) / self.low, self.shape):
            return np.zeros(epsilon.shape)
        flat, k, span = np.minimum(epsilon.ravel(), _MOST), self.shape, self.high - self.low
        ratio = k * float(np.log1p(span / self.low))
        lifted = flat - 1e-15 * (flat + ratio)
        low, high = np.log(self.low / span), np.log(self.high / span)
        up = lifted + ratio  # upwards, P has the low rate: L = span·θ - ratio
        best = _gamma_log_delta(k, k, low + np.log(up), high + np.log(up), flat, 1.0, Curved(up[:, None], 1.0))
        reach = lifted < ratio  # downwards L = ratio - span·θ never passes ratio
        if reach.any():
            left = (ratio - lifted)[reach]
            gap = Curved(left[:, None], -1.0)
            down = _gamma_log_delta(k, k, high + np.log(left), low + np.log(left), flat[reach], -1.0, gap)
            best[reach] = np.maximum(best[reach], down)
        return best.reshape(epsilon.shape)


def rate_renyi(shape: float, p: float, q: float, order: Floats) -> Floats:
    """Return the Rényi divergence of Gamma(shape, rate p) from Gamma(shape, rate q)."""
    step = q - p
    x = np.asarray(step / p)
    left = mixed(np.asarray(p), np.asarray(step), order, slip(q, -p, step)) / p
    y = (1 - order) * x
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.where(y < -0.5, np.log(left) - y, log1pmx(y)) / (order - 1)
    return np.where(left > 0, -shape * (np.where(order == 1, 0.0, first) + log1pmx(x)), np.inf)


def _gamma_log_delta(k: float, j: float, x: Floats, y: Floats, epsilon: Floats, sign: float, gap: Gap) -> Floats:
    """Return log δ(ε) of P against Q, which are Gamma(k) beyond the threshold log θ = x and Gamma(j) beyond y."""
    trusted = (max(k, j) <= _PLAIN) & (np.maximum(np.abs(x), np.abs(y)) < 600.0)
    beyond = special.gammaincc if sign > 0 else special.gammainc
    with np.errstate(divide="ignore", over="ignore"):
        log_p, log_q = np.log(beyond(k, np.exp(x))), np.log(beyond(j, np.exp(y)))

    def integral(at: NDArray[np.bool_]) -> Floats:
        edge = x[at][:, None]
        return log_integral(GammaTail.of(np.full(edge.shape, k), edge, sign), gap.take(at))

    return _log_tail(log_p, log_q, epsilon, trusted & (log_p > -50.0), integral)


_FAMILIES: dict[str, Callable[..., Pairs]] = {p.family: p for p in (BetaPairs, GammaShapePairs, GammaRatePairs)}


def pairs_from_dict(state: Mapping[str, Any]) -> Pairs:
    """Read pairs from their `to_dict` form."""
    rest = dict(state)
    family = rest.pop("family", None)
    if family not in _FAMILIES:
        raise InvalidValue(f"no pairs are called {family!r}; known: {', '.join(_FAMILIES)}")
    return _FAMILIES[family](**rest)


@dataclass(frozen=True)
class LikelihoodRatioProfile(Profile):
    """The supremum over a finite set of worst neighbouring pairs, at every ε and every order.

    δ(ε) and the Rényi curve are rounded up. Pairs that are bounds only (fractions of records, or parameters at the edge
    of double precision) make the basis `BOUND`.

    Examples
    --------
    One posterior sample of a proportion, prior Beta(6, 12), n = 100 records:

    >>> profile = LikelihoodRatioProfile((BetaPairs(6, 12, step=1, others=99),))
    >>> print(f"{profile.delta(1.0):.4g} {profile.renyi(2):.4g} {profile.pole:g}")
    0.005117 0.1913 7
    """

    word: ClassVar[str] = "likelihood-ratio"
    pairs: tuple[Pairs, ...]
    basis: Basis = field(default=Basis.EXACT, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pairs", tuple(self.pairs))
        if not self.pairs:
            raise InvalidValue("a likelihood-ratio profile needs at least one set of pairs")
        if not all(p.sharp for p in self.pairs):
            object.__setattr__(self, "basis", Basis.weakest([self.basis, Basis.BOUND]))

    @property
    def pole(self) -> float:
        """The order from which the Rényi curve is infinite."""
        return min(p.pole for p in self.pairs)

    def _log_delta(self, epsilon: Floats) -> Floats:
        values = np.max([p.log_delta(epsilon) for p in self.pairs], axis=0)
        # δ falls in ε; where it hardly does, the last digits need not, and the larger number is the safe one.
        falling = np.argsort(-epsilon, axis=None)
        values.ravel()[falling] = np.maximum.accumulate(values.ravel()[falling])
        return np.asarray(values)

    def _renyi(self, order: Floats) -> Floats:
        return np.asarray(np.max([p.renyi(order) for p in self.pairs], axis=0))

    def _state(self) -> dict[str, Any]:
        return {"pairs": [p.to_dict() for p in self.pairs]}

    @classmethod
    def _from_state(cls, state: dict[str, Any], basis: Basis) -> Self:
        return cls(tuple(pairs_from_dict(p) for p in state["pairs"]), basis=basis)
