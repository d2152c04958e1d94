"""A distribution kept to an interval, drawn exactly."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.mechanisms.conjugate.distributions.base import (
    LEVEL_WEIGHTS,
    LEVELS,
    ScalarDistribution,
    Size,
    check_size,
    generator,
    number,
)
from sottovoce.mechanisms.conjugate.exact_posteriors import cut, law_of
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, any_floats

_TINY = 1e-280
"""A tail lighter than this is sampled by rejection: its distribution function has no digits left."""


@dataclass(frozen=True, eq=False)
class Truncated(ScalarDistribution):
    """A scalar distribution conditioned on low <= θ <= high.

    Draws invert the distribution function, from whichever end keeps the digits. Where the interval lies so far in a
    tail that the mass underflows, they come by rejection under the tangent of the log-density: exact all the same.

    Examples
    --------
    >>> from sottovoce.mechanisms.conjugate.distributions import Beta
    >>> kept = Truncated(Beta(1, 1), 0.25, 0.75)
    >>> kept.cdf(0.5), round(kept.mean, 12)
    (0.5, 0.5)
    """

    word: ClassVar[str] = "truncated"
    base: Any
    low: float
    high: float

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            end = any_floats(name, getattr(self, name))
            object.__setattr__(self, name, float(end) if end.ndim == 0 else np.nan)
        if not self.low < self.high:
            raise InvalidValue(f"a truncation needs low < high. Got {self.low} and {self.high}")

    @property
    def law(self) -> Any:
        """The law of the very doubles, within these ends."""
        return cut(law_of(self.base), self.low, self.high)

    @cached_property
    def _upper(self) -> bool:
        """Whether the interval lies mostly above the median, so that survival functions keep the digits."""
        return bool(self.base.cdf(self.low) > 0.5)

    @cached_property
    def _ends(self) -> tuple[float, float]:
        f = self.base.sf if self._upper else self.base.cdf
        return f(self.low), f(self.high)

    @cached_property
    def _mass(self) -> float:
        return abs(self._ends[1] - self._ends[0])

    def cdf(self, x: ArrayLike) -> Any:
        """Return Pr[θ <= x]."""
        x = np.clip(any_floats("x", x), self.low, self.high)
        if self._mass < _TINY:
            return number(self._tail_cdf(x))
        f = self.base.sf if self._upper else self.base.cdf
        return number(np.clip(np.abs(f(x) - self._ends[0]) / self._mass, 0.0, 1.0))

    def sf(self, x: ArrayLike) -> Any:
        """Return Pr[θ > x]."""
        return number(1 - np.asarray(self.cdf(x)))

    def isf(self, q: ArrayLike) -> Any:
        """Return the point that each probability lies above."""
        return self.ppf(1 - any_floats("q", q))

    def ppf(self, q: ArrayLike) -> Any:
        """Return the quantile of each probability."""
        q = any_floats("q", q)
        if self._mass < _TINY:
            grid = self._tail_grid()
            return number(np.interp(q, self._tail_cdf(grid), grid))
        at = self._ends[0] + q * (self._ends[1] - self._ends[0])
        inverse = self.base.isf if self._upper else self.base.ppf
        return number(np.clip(inverse(at), self.low, self.high))

    def sample(self, size: Size = None, rng: np.random.Generator | None = None) -> Any:
        """Return one draw, or an array of `size` of them."""
        rng = generator(rng)
        if self._mass < _TINY:
            count = int(np.prod(() if size is None else check_size(size)))
            draws = self._tail_sample(count, rng)
            return float(draws[0]) if size is None else draws.reshape(size)
        return self.ppf(rng.random(check_size(size)))

    @cached_property
    def log_mass(self) -> float:
        """The logarithm of the mass that the interval has under `base`."""
        return float(np.log(self._mass)) if self._mass >= _TINY else self._tail_log_mass()

    def log_density(self, x: ArrayLike) -> Any:
        """Return the logarithm of the density; -inf outside the interval."""
        x = any_floats("x", x)
        inside = (x >= self.low) & (x <= self.high)
        norm = self.log_mass
        body = self.base.log_density(np.clip(x, self.low, self.high))
        return number(np.where(inside, body - norm, -np.inf))

    @property
    def mean(self) -> float:
        """The mean, by quadrature over quantiles."""
        return float(LEVEL_WEIGHTS @ self.ppf(LEVELS))

    @property
    def variance(self) -> float:
        """The variance, by quadrature over quantiles."""
        return float(LEVEL_WEIGHTS @ (self.ppf(LEVELS) - self.mean) ** 2)

    # The far tail: away from the mode, the log-density falls at least as fast as its tangent at the near
    # edge.

    @property
    def _edge(self) -> tuple[float, float, float]:
        """The near edge, the direction inwards, and the rate at which the envelope falls."""
        near, sign = (self.low, 1.0) if self._upper else (self.high, -1.0)
        return near, sign, -sign * float(self.base.concave_slope(near))

    def _tail_sample(self, count: int, rng: np.random.Generator) -> Floats:
        near, sign, rate = self._edge
        width, kept = self.high - self.low, np.empty(0)
        while kept.size < count:
            step = -np.log1p(rng.random(count) * np.expm1(-rate * width)) / rate
            fall = self.base.log_density(near + sign * step) - self.base.log_density(near) + rate * step
            kept = np.append(kept, step[np.log(rng.random(count)) <= fall])
        return np.asarray(near + sign * kept[:count])

    def _tail_grid(self) -> Floats:
        near, sign, rate = self._edge
        width = min(self.high - self.low, 33 / rate)  # beyond that the density is e^-33 of its height
        return np.asarray(np.sort(near + sign * np.linspace(0, width, 20_001)))

    def _tail_cdf(self, x: Floats) -> Floats:
        grid = self._tail_grid()
        near = self._edge[0]
        height = np.exp(self.base.log_density(grid) - self.base.log_density(near))
        area = np.append(0.0, np.cumsum(np.diff(grid) * (height[1:] + height[:-1]) / 2))
        return np.asarray(np.interp(x, grid, area / area[-1]))

    def _tail_log_mass(self) -> float:
        grid = self._tail_grid()
        top = self.base.log_density(self._edge[0])
        return float(top + np.log(np.trapezoid(np.exp(self.base.log_density(grid) - top), grid)))
