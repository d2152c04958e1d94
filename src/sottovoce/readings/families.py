"""Families of a regression: the mean of the response given t = x·θ, its slope, and how far one record can pull.

For every family Σ v(x)·x·(y − μ(t)) has mean zero at the truth, whatever the public weights v(x) are.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sottovoce.facts.columns import Category, Column, Count, Flag, Number
from sottovoce.facts.encodings import Scale, scale_of
from sottovoce.privacy.errors import InvalidValue

__all__ = ["EDGE", "FAMILIES", "FARTHEST", "HART", "MOST_COUNTED", "Family", "family_of", "normal_cdf"]

Floats = NDArray[np.float64]
FARTHEST = 30.0
"""|t| is cut to this: e^30 and e^-30 are numbers to every engine, and no probability beyond is told from 0 or 1."""
HART = (
    (
        *(0.0352624965998911, 0.700383064443688, 6.37396220353165, 33.912866078383, 112.079291497871),
        *(221.213596169931, 220.206867912376),
    ),
    (
        *(0.0883883476483184, 1.75566716318264, 16.064177579207, 86.7807322029461, 296.564248779674),
        *(637.333633378831, 793.826512519948, 440.413735824752),
    ),
)
"""Hart's rational form of the normal law's tail for |t| < 7.07 (West 2009), off by 1e-12 at most: plain arithmetic and
one exponential, as every engine has them."""
MOST_COUNTED = 120
"""Counts are looked at up to this one at most."""
_LEAST_EXTRA, _MOST_EXTRA = 2.0**-10, 50.0
"""A smaller α is none: 1 + αμ would keep no digit of μ, and where log(1 + αμ)/α is 0 no bound would hold."""
_MOST_CLASSES = 1000
"""With more classes a residual is taken to be as long as any: below, B(s·u)/s is sure to fall."""
_ANGLES, _SIDES = 1441, 91
EDGE = 7.07106781186547


def normal_cdf(t: Floats) -> Floats:
    """Return Φ(t) by plain arithmetic, the same on every engine but for the last digits of an exponential.

    >>> normal_cdf(np.array([0.0, 1.96])).round(6).tolist()
    [0.5, 0.975002]
    """
    size = np.minimum(np.abs(t), EDGE)
    above, below = (np.polyval(part, size) for part in HART)
    tail = np.exp(-size * size / 2) * above / below
    return np.asarray(np.where(t > 0, 1 - tail, tail))


@dataclass(frozen=True)
class Family(ABC):
    """What a regression supposes of its response; `response` is what is public of that column."""

    word: ClassVar[str]
    wants: ClassVar[str]
    ratio: ClassVar[str | None] = None
    """What e^coefficient is called."""
    curved: ClassVar[bool] = True
    """Whether the mean bends, so that a look must be taken near the answer."""
    stretch: ClassVar[float] = 1.0
    """k: rows from c to k·c long pull as far as any row may, those beyond less and less."""
    response: Column

    def __post_init__(self) -> None:
        if not self.takes():
            raise InvalidValue(f"a {self.word} regression explains {self.wants}. Got a {self.response.word}")

    @abstractmethod
    def takes(self) -> bool:
        """Say whether the response is of the kind."""

    @property
    def outputs(self) -> int:
        """How many linear predictors there are."""
        return 1

    @property
    def default(self) -> float | None:
        """What a missing response counts as, None where its record is left out."""
        missing = getattr(self.response, "missing", None)
        if missing is None:
            return None
        if isinstance(self.response, Category):
            return float(self.response.categories.index(missing))
        return float(missing)

    def outcome(self, values: Floats) -> Floats:
        """Return what the response counts as: NaN where missing; categories come as places, −1 where missing."""
        found = np.where(values < 0, np.nan, values) if isinstance(self.response, Category) else values
        default = self.default
        return found if default is None else np.where(np.isnan(found), default, found)

    def uncut(self, values: Floats) -> Floats:
        """Return what the response counts as before any cap of a look."""
        return self.outcome(values)

    @abstractmethod
    def mean(self, t: Floats) -> Floats:
        """Return the mean of the outcome at each linear predictor."""

    @abstractmethod
    def slope(self, t: Floats) -> Floats:
        """Return the derivative of the mean."""

    def residual(self, y: Floats, t: Floats) -> Floats:
        """Return what a record pulls with."""
        return np.asarray(y - self.mean(t))

    def steepness(self, y: Floats, t: Floats) -> Floats:
        """Return how much less a record pulls as t grows."""
        del y
        return self.slope(t)

    def expected(self, t: Floats) -> Floats:
        """Return the mean of the response itself, for predictions."""
        return self.mean(t)

    @property
    @abstractmethod
    def steepest(self) -> float:
        """κ: the largest slope."""

    def reach(self, predictors: Floats, norm: float) -> Any:
        """Return the largest |t| of a row of length `norm`, by the public centre."""
        return norm * float(np.linalg.norm(predictors, axis=1).max()) * (1 + 1e-12)

    @abstractmethod
    def bound(self, reach: Any) -> float:
        """B: the largest |y − μ(t)| over outcomes and |t| ≤ reach. s ↦ B(s·u)/s must fall."""

    def apart(self, near: Any, far: Any) -> float:
        """Return how far two contributions can lie apart, in units of c, 2B at most.

        They are x(y − μ(x·θ)), with |x·θ| ≤ near where ‖x‖ ≤ 1; longer rows pull no farther, with |x·θ| ≤ far.
        """
        del near
        return 2 * self.bound(far)


class _Binary(Family):
    wants = "a flag, or a category of two values"

    def takes(self) -> bool:
        return isinstance(self.response, Flag) or (
            isinstance(self.response, Category) and len(self.response.categories) == 2
        )

    peak: ClassVar[float]
    """Where u(1 − μ(u)) is largest."""

    def outcome(self, values: Floats) -> Floats:
        """Return 0 or 1."""
        found = super().outcome(values)
        return np.where(np.isnan(found), np.nan, (found != 0).astype(np.float64))

    def apart(self, near: float, far: float) -> float:
        r"""Return the diameter of all contributions x(1 − μ(x·θ)): −x with y = 0 gives what x with 1 does.

        About θ the set is round, so a plane shows it: the ray at angle a to θ ends where s(1 − μ(s·near·cos a)) is
        largest over s ≤ 1, or at 1 − μ(far·cos a) where that grows with the row. The ends are taken on a grid of
        angles, and what lies between two of them is added.
        """
        return min(_diameter(self, float(near), float(far)), 2 * self.bound(far))


@functools.lru_cache(maxsize=4096)
def _diameter(family: _Binary, near: float, far: float) -> float:
    angles = np.linspace(0.0, math.pi, _ANGLES)
    along = np.cos(angles) * np.where(np.cos(angles) > 0, near, far)
    s = np.where(along > family.peak, family.peak / np.maximum(along, family.peak), 1.0)
    ends = s * (1 - family.mean(s * along))
    # The diameter is the largest width; a width is the sum of how far the set goes in a direction and in its opposite.
    sides = np.linspace(0.0, math.pi, _SIDES)
    goes = np.concatenate([ends, ends])[:, None] * np.cos(np.concatenate([angles, -angles])[:, None] - sides)
    width = goes.max(axis=0) - goes.min(axis=0)
    # The nearest direction tried is half a step off, and an end moves by no more than 1 + far·κ a radian.
    between = (1 + far * family.steepest) * math.pi / (_ANGLES - 1)
    return float(width.max() + between) / math.cos(math.pi / (_SIDES - 1) / 2)


@dataclass(frozen=True)
class LogisticFamily(_Binary):
    """y is 1 with probability 1/(1 + e⁻ᵗ)."""

    word: ClassVar[str] = "logistic"
    ratio: ClassVar[str | None] = "odds ratio"

    def mean(self, t: Floats) -> Floats:
        """Return 1/(1 + e⁻ᵗ)."""
        return np.asarray(1 / (1 + np.exp(-np.clip(t, -FARTHEST, FARTHEST))))

    def slope(self, t: Floats) -> Floats:
        """Return p(1 − p)."""
        p = self.mean(t)
        return p * (1 - p)

    steepest = 0.25
    peak: ClassVar[float] = 1.2784645427610738

    def bound(self, reach: float) -> float:
        """Return the probability at the far end; ½ at t = 0."""
        return 1 / (1 + math.exp(-min(reach, FARTHEST)))


@dataclass(frozen=True)
class ProbitFamily(_Binary):
    """y is 1 with probability Φ(t); records are weighed alike, which loses little and bounds them all."""

    word: ClassVar[str] = "probit"
    stretch: ClassVar[float] = 2.0

    def mean(self, t: Floats) -> Floats:
        """Return Φ(t)."""
        return normal_cdf(t)

    def slope(self, t: Floats) -> Floats:
        """Return φ(t)."""
        size = np.minimum(np.abs(t), EDGE)
        return np.asarray(np.exp(-size * size / 2) / math.sqrt(2 * math.pi))

    steepest = 1 / math.sqrt(2 * math.pi)
    peak: ClassVar[float] = 0.7517915247

    def bound(self, reach: float) -> float:
        """Return the probability at the far end; ½ at t = 0."""
        return float(normal_cdf(np.array([reach]))[0]) * (1 + 1e-12)


@dataclass(frozen=True)
class LinearFamily(Family):
    """y is t and noise of unknown variance; y is measured in half widths of its public bounds, from their middle.

    Where `cap` is above 0, what lies farther from t than that pulls as if it lay there (Huber 1964).
    """

    word: ClassVar[str] = "linear"
    wants: ClassVar[str] = "a number or a count"
    curved: ClassVar[bool] = False
    cap: float = 0.0

    def takes(self) -> bool:
        """Say whether it is a number."""
        return isinstance(self.response, Number | Count)

    @property
    def scale(self) -> Scale:
        """How the response is measured."""
        return scale_of(self.response, centred=True)

    def outcome(self, values: Floats) -> Floats:
        """Return the response between −1 and 1."""
        return self.scale(super().outcome(values))

    def mean(self, t: Floats) -> Floats:
        """Return t."""
        return t

    def expected(self, t: Floats) -> Floats:
        """Return t in the units of the response, within its public bounds."""
        return np.clip(self.scale.middle + self.scale.half * t, self.scale.low, self.scale.high)

    def slope(self, t: Floats) -> Floats:
        """Return 1."""
        return np.ones_like(t)

    def residual(self, y: Floats, t: Floats) -> Floats:
        """Return y − t, cut at the cap."""
        return np.clip(y - t, -self.cap, self.cap) if self.cap else y - t

    def steepness(self, y: Floats, t: Floats) -> Floats:
        """Return 1, or 0 beyond the cap."""
        return (np.abs(y - t) <= self.cap).astype(np.float64) if self.cap else np.ones_like(t)

    steepest = 1.0

    def bound(self, reach: float) -> float:
        """Return 1 + reach, or the cap."""
        return min(1.0 + reach, self.cap or math.inf)


@dataclass(frozen=True)
class PoissonFamily(Family):
    r"""y is a count of mean μ = eᵗ, of which min(y, K) is looked at: its mean given t is known, so nothing is biased.

    Where rates vary between records of the same t, as a gamma law of mean 1 and variance α does, counts follow a
    negative binomial law; α = 0 is Poisson's. With s = μ/(1 + αμ) and e = (1 + αμ)^(−1/α), e^(−μ) where α is 0,

    .. math:: P(y = j) = e s^j \prod_{i<j} \frac{1 + \alpha i}{i + 1}, \qquad
              \frac{d}{dt} E\min(y, K) = e s \sum_{j<K} s^j \prod_{i<j} \frac{1 + \alpha (i + 1)}{i + 1}
    """

    word: ClassVar[str] = "poisson"
    wants: ClassVar[str] = "a count"
    ratio: ClassVar[str | None] = "rate ratio"
    stretch: ClassVar[float] = 2.0
    cap: int = 0
    """K; a third of the column's public `high` where 0."""
    extra: float = 0.0
    """α; 0 where it is too small to matter."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.extra <= _MOST_EXTRA:
            raise InvalidValue(f"extra must lie from 0 to {_MOST_EXTRA:g}. Got {self.extra!r}")
        if self.extra < _LEAST_EXTRA:
            object.__setattr__(self, "extra", 0.0)

    def takes(self) -> bool:
        """Say whether it is a count."""
        return isinstance(self.response, Count)

    @property
    def most(self) -> int:
        """K."""
        high = int(self.response.high)  # type: ignore[attr-defined]
        return min(high, MOST_COUNTED, self.cap or max(1, -(-high // 3)))

    @property
    def powers(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """The coefficients of Σ(K − j)·P(y = j)/e and of the slope's sum, the highest power of s first."""
        mass, slope = self._mass(0), self._mass(1)
        return tuple(reversed([(self.most - j) * part for j, part in enumerate(mass)])), tuple(reversed(slope))

    def _mass(self, off: int) -> list[float]:
        each = [(1 + self.extra * (i + off)) / (i + 1) for i in range(self.most - 1)]
        return list(itertools.accumulate(each, operator.mul, initial=1.0))

    @property
    def farthest(self) -> float:
        """Beyond this t hardly any count lies below K, and t is cut."""
        return math.log(4.0 * self.most + 8.0) + (3.0 if self.extra else 0.0)

    def _places(self, t: Floats) -> tuple[Floats, Floats]:
        """Return s and e."""
        mu = np.exp(np.clip(t, -FARTHEST, self.farthest))
        if not self.extra:
            return mu, np.exp(-mu)
        return mu / (1 + self.extra * mu), np.exp(-np.log(1 + self.extra * mu) / self.extra)

    def uncut(self, values: Floats) -> Floats:
        """Return the count, cut at what the column's facts allow and at what is looked at of any count."""
        most = min(int(self.response.high), MOST_COUNTED)  # type: ignore[attr-defined]
        return np.floor(np.clip(super().outcome(values), 0.0, most))

    def outcome(self, values: Floats) -> Floats:
        """Return the count, cut at K."""
        return np.minimum(self.uncut(values), self.most)

    def mean(self, t: Floats) -> Floats:
        """Return the mean of min(y, K)."""
        s, e = self._places(t)
        return np.asarray(self.most - e * np.polyval(self.powers[0], s))

    def expected(self, t: Floats) -> Floats:
        """Return eᵗ, or the public bound of a count where that is less."""
        return np.minimum(np.exp(np.clip(t, -700.0, 700.0)), float(self.response.high))  # type: ignore[attr-defined]

    def slope(self, t: Floats) -> Floats:
        """Return the derivative of the mean of min(y, K)."""
        s, e = self._places(t)
        return np.asarray(s * e * np.polyval(self.powers[1], s))

    def variance(self, t: Floats) -> Floats:
        """Return the variance of min(y, K): of what it lies below K."""
        s, e = self._places(t)
        below, squares = ((self.most - np.arange(self.most)) ** power for power in (1, 2))
        mass = np.array(self._mass(0))
        first, second = (e * np.polyval((part * mass)[::-1], s) for part in (below, squares))
        return np.asarray(np.maximum(second - first**2, 0.0))

    @property
    def steepest(self) -> float:
        """The largest slope, on a grid and what lies between; K at most."""
        t = np.linspace(math.log(self.most) - 6.0, self.farthest, 2001)
        return min(float(self.slope(t).max()) * 1.001, float(self.most))

    def bound(self, reach: float) -> float:
        """Return how far a count up to K and its mean can lie apart."""
        low, high = self.mean(np.array([-reach, reach]))
        return float(max(self.most - low, high)) * (1 + 1e-12)


@dataclass(frozen=True)
class MultinomialFamily(Family):
    """y is class k with probability ∝ e^{tₖ}; the first class is the one the others are compared with, t₀ = 0."""

    word: ClassVar[str] = "multinomial"
    wants: ClassVar[str] = "a category of three values or more"
    ratio: ClassVar[str | None] = "odds ratio"

    def takes(self) -> bool:
        """Say whether it is a category."""
        return isinstance(self.response, Category) and len(self.response.categories) >= 3

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return len(self.response.categories)  # type: ignore[attr-defined]

    @property
    def outputs(self) -> int:
        """One predictor for each class but the first."""
        return self.classes - 1

    def mean(self, t: Floats) -> Floats:
        """Return the probabilities of the classes but the first, from t of shape (..., classes − 1)."""
        powers = np.exp(np.clip(t, -FARTHEST, FARTHEST))
        return np.asarray(powers / (1 + powers.sum(axis=-1, keepdims=True)))

    def slope(self, t: Floats) -> Floats:
        """Return diag(p) − pp'."""
        p = self.mean(t)
        return p[..., :, None] * (np.eye(self.outputs) - p[..., None, :])

    steepest = 0.5

    def reach(self, predictors: Floats, norm: float) -> Any:
        """Return how far the predictors of any two classes can lie apart, as a matrix; the first class' is zero."""
        whole = np.concatenate([np.zeros((1, predictors.shape[1])), predictors])
        return norm * np.linalg.norm(whole[:, None] - whole[None], axis=2) * (1 + 1e-12)

    def bound(self, reach: Any) -> float:
        r"""Return the most that ‖e_y − p‖ can be; never above √2.

        A probability pₖ = 1/Σⱼ exp(tⱼ − tₖ) lies between 1/Σⱼ exp(Rₖⱼ) and 1/Σⱼ exp(−Rₖⱼ). Of the m classes other than
        y and the first, whose probabilities add up to S at most and of which none is above u, Σp² ≤ min(uS, S², mu²).
        """
        if self.classes > _MOST_CLASSES:
            return math.sqrt(2.0) * (1 + 1e-12)
        far = np.minimum(reach, 2 * FARTHEST)
        least, most = 1 / np.exp(far).sum(axis=1), 1 / np.exp(-far).sum(axis=1)
        order = np.argsort(most[1:]) + 1
        u = np.where(np.arange(self.classes) == order[-1], most[order[-2]], most[order[-1]])
        S = 1 - least[0] - np.where(np.arange(self.classes) > 0, least, 0.0)
        m = np.where(np.arange(self.classes) > 0, self.classes - 2, self.classes - 1)
        squares = np.where(np.arange(self.classes) > 0, (1 - least) ** 2, 0.0) + np.minimum(
            np.minimum(u * S, S * S), m * u * u
        )
        return min(math.sqrt(float(squares.max())), math.sqrt(2.0)) * (1 + 1e-12)


_KINDS: tuple[type[Any], ...] = (LogisticFamily, ProbitFamily, LinearFamily, PoissonFamily, MultinomialFamily)
FAMILIES: dict[str, type[Any]] = {kind.word: kind for kind in _KINDS}
"""Every family by its word."""


def family_of(word: Any, response: Column, cap: float = 0, extra: float = 0.0) -> Any:
    """Return a family by its word, or raise `InvalidValue`.

    `cap` is where counts or residuals are cut, `extra` how much more counts vary than a Poisson law's.
    """
    if not isinstance(word, str) or word not in FAMILIES:
        raise InvalidValue(f"family must be one of {', '.join(FAMILIES)}. Got {word!r}")
    if word == "linear":
        return LinearFamily(response, float(cap))
    return PoissonFamily(response, int(cap), float(extra)) if word == "poisson" else FAMILIES[word](response)
