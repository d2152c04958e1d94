"""The family of counts, cut where noise and what is cut off weigh least."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from scipy import special

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.records.facts.columns import Column, Count
from sottovoce.records.readings.family import FARTHEST, Family

MOST_COUNTED = 120
"""Counts are looked at up to this one at most."""
_LEAST_EXTRA, _MOST_EXTRA = 2.0**-10, 50.0
"""A smaller α is none: 1 + αμ would keep no digit of μ, and where log(1 + αμ)/α is 0 no bound would hold."""


@dataclass(frozen=True)
class PoissonFamily(Family):
    r"""y is a count of mean μ = eᵗ, of which min(y, K) is looked at: its mean given t is known, so nothing is biased.

    Where rates vary between records of the same t, as a gamma law of mean 1 and variance α does, counts follow a
    negative binomial law; α = 0 is Poisson's. With s = μ/(1 + αμ) and e = (1 + αμ)^(−1/α), e^(−μ) where α is 0,

    .. math:: P(y = j) = e s^j \prod_{i<j} \frac{1 + \alpha i}{i + 1}, \qquad
              \frac{d}{dt} E\min(y, K) = e s \sum_{j<K} s^j \prod_{i<j} \frac{1 + \alpha (i + 1)}{i + 1}

    Where `beyond` is above 0, what counts have between it and K is added up as it is, and no mean is taken from it.
    """

    word: ClassVar[str] = "poisson"
    wants: ClassVar[str] = "a count"
    ratio: ClassVar[str | None] = "rate ratio"
    cutting: ClassVar[str] = (
        "counts cut at {:g}; what lies beyond is measured as a whole and allowed for, as far as noise lets it: levels "
        "may be told too low where very few records have much of all that is counted, and slopes wrongly where their "
        "logarithm bends or some kinds of rows have longer tails than others"
    )
    unmeasured: ClassVar[str] = (
        "counts cut at {:g}; what lies beyond is guessed and allowed for: rates may be told too low where few records "
        "have much of all that is counted, and slopes wrongly where their logarithm bends or some kinds of rows have "
        "longer tails than others"
    )
    missed: ClassVar[float] = 0.15
    boundless: ClassVar[bool] = True
    stretch: ClassVar[float] = 2.0
    cap: int = 0
    """K; a third of the column's public `high` where 0."""
    extra: float = 0.0
    """α; 0 where it is too small to matter."""
    beyond: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.extra <= _MOST_EXTRA:
            raise InvalidValue(f"extra must lie from 0 to {_MOST_EXTRA:g}. Got {self.extra!r}")
        if self.extra < _LEAST_EXTRA:
            object.__setattr__(self, "extra", 0.0)

    @classmethod
    def of(cls, response: Column, cap: float, extra: float, beyond: float) -> Self:
        """Return the family of a response, counts cut at `cap`."""
        return cls(response, int(cap), float(extra), int(beyond))

    def takes(self) -> bool:
        """Say whether it is a count."""
        return isinstance(self.response, Count)

    @cached_property
    def most(self) -> int:
        """K."""
        high = int(self.response.high)  # type: ignore[attr-defined]
        if self.beyond:
            return min(high, self.cap)
        return min(high, MOST_COUNTED, self.cap or max(1, -(-high // 3)))

    @property
    def upward(self) -> bool:
        """Whether it is what lies beyond a cut."""
        return self.beyond > 0

    @cached_property
    def powers(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """The coefficients of Σ(K − j)·P(y = j)/e and of the slope's sum, the highest power of s first."""
        if self.beyond:
            return (0.0,), (0.0,)
        mass, slope = self._mass(0), self._mass(1)
        return tuple(reversed([(self.most - j) * part for j, part in enumerate(mass)])), tuple(reversed(slope))

    def _mass(self, off: int) -> list[float]:
        each = [(1 + self.extra * (i + off)) / (i + 1) for i in range(self.most - 1)]
        return list(itertools.accumulate(each, operator.mul, initial=1.0))

    @cached_property
    def farthest(self) -> float:
        """Beyond this t hardly any count lies below K, and t is cut."""
        return _farthest(self.most, bool(self.extra))

    def _places(self, t: Floats) -> tuple[Floats, Floats]:
        """Return s and e."""
        return _places(t, self.farthest, self.extra)

    def uncut(self, values: Floats) -> Floats:
        """Return the count, cut at what the column's facts allow."""
        return np.floor(np.clip(super().outcome(values), 0.0, float(self.response.high)))  # type: ignore[attr-defined]

    def outcome(self, values: Floats) -> Floats:
        """Return the count, cut at K, or what of it lies beyond a lower cut."""
        return np.clip(self.uncut(values), self.beyond, self.most) - self.beyond

    def mean(self, t: Floats) -> Floats:
        """Return the mean of min(y, K)."""
        if self.beyond:
            return np.zeros_like(t)
        s, e = self._places(t)
        return np.asarray(self.most - e * _polynomial(self.powers[0], s))

    def expected(self, t: Floats) -> Floats:
        """Return eᵗ, or the public bound of a count where that is less."""
        return np.minimum(np.exp(np.clip(t, -700.0, 700.0)), float(self.response.high))  # type: ignore[attr-defined]

    def full(self, t: Floats) -> Floats:
        """Return which part of counts is as large as the public bound, or would be larger, or which part of all that is
        counted would lie beyond it where that is more: rates that vary have few counts with much.

        >>> few, varied = (PoissonFamily(Count(15), 15, extra).full(np.array([1.0])) for extra in (0.0, 9.0))
        >>> few.round(3).tolist(), varied.round(3).tolist()
        ([0.0], [0.315])
        """
        high = float(self.response.high)  # type: ignore[attr-defined]
        mean = np.exp(np.clip(t, -FARTHEST, 700.0)).astype(np.float64)
        if not self.extra:
            reach, sizes = (special.gammainc(high - k, mean) for k in (0, 1))
        else:
            part, r = 1 / (1 + 1 / (self.extra * mean)), 1 / self.extra
            reach, sizes = (special.betainc(high - k, r + k, part) if high > k else np.ones_like(mean) for k in (0, 1))
        return np.asarray(np.maximum(reach, sizes - high * reach / mean), dtype=np.float64)

    def slope(self, t: Floats) -> Floats:
        """Return the derivative of the mean of min(y, K)."""
        if self.beyond:
            return np.zeros_like(t)
        s, e = self._places(t)
        return np.asarray(s * e * _polynomial(self.powers[1], s))

    def mean_and_slope(self, t: Floats) -> tuple[Floats, Floats]:
        """Return both, of places found once."""
        if self.beyond:
            return np.zeros_like(t), np.zeros_like(t)
        s, e = self._places(t)
        first, second = (_polynomial(powers, s) for powers in self.powers)
        return np.asarray(self.most - e * first), np.asarray(s * e * second)

    @classmethod
    def moments(cls, families: Sequence[Self], counts: Sequence[int], t: Floats) -> tuple[Floats, Floats]:
        """Return both of several families at once: powers that one does not have are zero times those of others."""
        if len({bool(family.extra) for family in families}) > 1:
            return super().moments(families, counts, t)
        alpha, far, most = (
            np.repeat([getattr(family, name) for family in families], counts)[:, None]
            for name in ("extra", "farthest", "most")
        )
        s, e = _places(t, far, alpha if alpha.any() else 0.0)
        sums = []
        for subset in zip(*(family.powers for family in families), strict=True):
            wide = max(map(len, subset))
            padded = np.array([(0.0,) * (wide - len(part)) + part for part in subset])
            sums.append(_polynomial(np.repeat(padded, counts, axis=0).T[:, :, None], s))
        return np.asarray(most - e * sums[0]), np.asarray(s * e * sums[1])

    def means(self, t: Floats, extras: Floats) -> Floats:
        """Return the means of min(y, K), a row for each of several α; t is alike for all, or a row for each."""
        s, e, powers = self._laws(t, extras)
        return np.asarray(self.most - e * _polynomial(powers, s))

    def means_and_variances(self, t: Floats, extras: Floats) -> tuple[Floats, Floats]:
        """Return the same and the variances, both of what it lies below K."""
        s, e, powers = self._laws(t, extras)
        below = np.arange(1.0, self.most + 1)[:, None, None] * powers
        first, second = e * _polynomial(powers, s), e * _polynomial(below, s)
        return np.asarray(self.most - first), np.asarray(np.maximum(second - first**2, 0.0))

    def _laws(self, t: Floats, extras: Floats) -> tuple[Floats, Floats, Floats]:
        """Return s, e and the coefficients of Σ(K − j)·P(y = j)/e for each of several α, a row each."""
        alpha = np.where(np.asarray(extras) < _LEAST_EXTRA, 0.0, extras)
        none, far = alpha == 0, np.where(alpha > 0, *(_farthest(self.most, more) for more in (True, False)))
        mu = np.exp(np.clip(t, -FARTHEST, far[:, None]))
        more = 1 + alpha[:, None] * mu
        s, e = mu / more, np.exp(np.log(more) / np.where(none, 1.0, -alpha)[:, None])
        e[none] = np.exp(-mu[none])
        each = np.arange(self.most)[:, None]
        mass = np.cumprod(np.concatenate([np.ones((1, len(alpha))), (1 + alpha * each[:-1]) / (each[:-1] + 1)]), axis=0)
        # The highest power, of K - 1, comes first.
        return s, e, np.asarray((self.most - each) * mass, dtype=np.float64)[::-1, :, None]

    def variance(self, t: Floats) -> Floats:
        """Return the variance of min(y, K)."""
        return np.asarray(self.means_and_variances(t, np.array([self.extra]))[1][0])

    def varies(self, t: Floats, slope: Floats) -> Floats:
        """Return by how much min(y, K) varies: by more than its mean rises where rates vary between records."""
        return np.maximum(slope, self.variance(t.ravel()).reshape(t.shape)) if self.extra else slope

    def by_cap(self, t: Floats) -> tuple[Floats, Floats, Floats]:
        """Return means, slopes and variances of counts cut at 1, at 2 and so on up to K, a row each."""
        s, e = self._places(t)
        each, more, slope = np.arange(self.most)[:, None], self._more(s, e), self._falling(s, e, 1)
        mean, square = np.cumsum(more, axis=0), np.cumsum((2 * each + 1) * more, axis=0)
        return mean, s * np.cumsum(slope, axis=0), np.maximum(square - mean**2, 0.0)

    def means_by_cap(self, t: Floats) -> Floats:
        """Return the means alone."""
        return np.cumsum(self._more(*self._places(t)), axis=0)

    def _more(self, s: Floats, e: Floats) -> Floats:
        """Return P(y > j), a row each."""
        return np.asarray(1 - np.cumsum(self._falling(s, e, 0), axis=0))

    def _falling(self, s: Floats, e: Floats, off: int) -> Floats:
        """Return each term of the sums of P(y = j), and of the slope where `off` is 1, a row each."""
        each = np.arange(self.most - 1)[:, None]
        return np.cumprod(np.concatenate([e[None], s * (1 + self.extra * (each + off)) / (each + 1)]), axis=0)

    @cached_property
    def steepest(self) -> float:
        """The largest slope, on a grid and what lies between; K at most."""
        if self.beyond:
            return 1.0
        t = np.linspace(math.log(self.most) - 6.0, self.farthest, 2001)
        return min(float(self.slope(t).max()) * 1.001, float(self.most))

    def bound(self, reach: float) -> float:
        """Return how far a count up to K and its mean can lie apart, or how far beyond the other cut K is."""
        if self.beyond:
            return float(self.most - self.beyond)
        return _bound(self, float(reach))


@functools.lru_cache(maxsize=256)
def _bound(family: PoissonFamily, reach: float) -> float:
    """Return the bound of counts, which a look and how far two contributions lie apart both ask for."""
    low, high = family.mean(np.array([-reach, reach]))
    return float(max(family.most - low, high)) * (1 + 1e-12)


def _farthest(most: int, more: bool) -> float:
    """Return the place beyond which t is cut: a higher one where counts vary `more` than a Poisson law's."""
    return math.log(4.0 * most + 8.0) + (3.0 if more else 0.0)


def _places(t: Floats, farthest: Any, extra: Any) -> tuple[Floats, Floats]:
    """Return s and e, of one α or of several that are all above 0."""
    mu = np.exp(np.clip(t, -FARTHEST, farthest))
    if np.ndim(extra) == 0 and not extra:
        return mu, np.exp(-mu)
    more = 1 + extra * mu
    return mu / more, np.exp(-np.log(more) / extra)


def _polynomial(powers: Sequence[float] | Floats, s: Floats) -> Floats:
    """Return a polynomial's values by Horner's rule, in one array; the highest power first."""
    result = np.full_like(s, powers[0])
    for part in powers[1:]:
        result *= s
        result += part
    return result
