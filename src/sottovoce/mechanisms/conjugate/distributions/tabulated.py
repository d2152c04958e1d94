"""A distribution of one number given by its density at many points: what no family holds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.mechanisms.conjugate.distributions.base import ScalarDistribution, Size, frozen, generator, number
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, as_floats

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(4)
_NODES, _WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2


@dataclass(frozen=True, eq=False)
class Tabulated(ScalarDistribution):
    """A density whose logarithm runs straight between points; distribution function and quantiles are then exact.

    Parameters
    ----------
    points
        Increasing points: of θ itself, or of log θ where `logarithmic`.
    log_heights
        The logarithm of the density of θ (of log θ where `logarithmic`) at each point, up to a constant.
    logarithmic
        Whether the points are logarithms: for rates, whose densities are straight there towards zero.

    Examples
    --------
    >>> flat = Tabulated([0.0, 1.0, 2.0], [0.0, 0.0, 0.0])
    >>> round(flat.mean, 9), round(flat.cdf(0.5), 9), [round(end, 9) for end in flat.interval(0.5)]
    (1.0, 0.25, [0.5, 1.5])
    """

    word: ClassVar[str] = "tabulated"
    points: Any
    log_heights: Any
    logarithmic: bool = False

    def __post_init__(self) -> None:
        points = as_floats("points", self.points, -np.inf)
        heights = as_floats("log_heights", self.log_heights, -np.inf)
        if points.ndim != 1 or points.size < 2 or points.shape != heights.shape or not np.all(np.diff(points) > 0):
            raise InvalidValue(f"a table needs increasing points and one height a point. Got {points.size} points")
        object.__setattr__(self, "points", frozen(points))
        object.__setattr__(self, "log_heights", frozen(heights))
        object.__setattr__(self, "logarithmic", bool(self.logarithmic))

    @cached_property
    def _slopes(self) -> Floats:
        """The rise of the log-density over each piece."""
        return np.diff(self.log_heights)

    @cached_property
    def _masses(self) -> Floats:
        """The mass of each piece, not yet divided by their sum."""
        high = np.maximum(self.log_heights[:-1], self.log_heights[1:]) - self.log_heights.max()
        return np.asarray(np.exp(high) * np.diff(self.points) * _mean_exp(self._slopes))

    @cached_property
    def _below(self) -> Floats:
        """Pr[θ <= point] at each point."""
        total = np.append(0.0, np.cumsum(self._masses))
        return np.asarray(total / total[-1])

    @cached_property
    def _above(self) -> Floats:
        """Pr[θ > point] at each point, with its digits where it is small."""
        total = np.append(np.cumsum(self._masses[::-1])[::-1], 0.0)
        return np.asarray(total / total[0])

    def _outside(self, u: Floats) -> Floats:
        return np.asarray(np.exp(u)) if self.logarithmic else u

    def _inside(self, x: ArrayLike) -> Floats:
        x = np.asarray(x, dtype=np.float64)
        if not self.logarithmic:
            return x
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.maximum(x, 0.0)))

    @cached_property
    def _quadrature(self) -> tuple[Floats, Floats, Floats]:
        """Points within every piece, the log-density at them, and their weights, which sum to one."""
        steps = np.diff(self.points)
        at = self.points[:-1, None] + steps[:, None] * _NODES
        heights = self.log_heights[:-1, None] + self._slopes[:, None] * _NODES
        weights = np.exp(heights - self.log_heights.max()) * steps[:, None] * _WEIGHTS
        return at.ravel(), heights.ravel(), np.asarray(weights / weights.sum()).ravel()

    @cached_property
    def mean(self) -> float:
        """The mean."""
        at, _, weights = self._quadrature
        return float(weights @ self._outside(at))

    @cached_property
    def variance(self) -> float:
        """The variance."""
        at, _, weights = self._quadrature
        return float(weights @ (self._outside(at) - self.mean) ** 2)

    @cached_property
    def _log_norm(self) -> float:
        return float(self.log_heights.max() + np.log(self._masses.sum()))

    def log_density(self, x: ArrayLike) -> Any:
        """Return the logarithm of the density; -inf outside the table."""
        u = self._inside(x)
        body = np.interp(u, self.points, self.log_heights) - self._log_norm - (u if self.logarithmic else 0.0)
        return number(np.where((u >= self.points[0]) & (u <= self.points[-1]), body, -np.inf))

    def _part(self, u: Floats) -> tuple[Any, Floats]:
        """Return the piece that holds each point, and how much of its mass lies below the point."""
        u = np.clip(u, self.points[0], self.points[-1])
        piece = np.clip(np.searchsorted(self.points, u, side="right") - 1, 0, self._slopes.size - 1)
        share = (u - self.points[piece]) / (self.points[piece + 1] - self.points[piece])
        slope = self._slopes[piece]
        fall = np.exp(-np.maximum(slope, 0.0) * (1 - share))
        return piece, np.asarray(fall * share * _mean_exp(slope * share) / _mean_exp(slope))

    def cdf(self, x: ArrayLike) -> Any:
        """Return Pr[θ <= x]."""
        piece, part = self._part(self._inside(x))
        return number(self._below[piece] + part * (self._below[piece + 1] - self._below[piece]))

    def sf(self, x: ArrayLike) -> Any:
        """Return Pr[θ > x]."""
        piece, part = self._part(self._inside(x))
        return number(self._above[piece + 1] + (1 - part) * (self._above[piece] - self._above[piece + 1]))

    def ppf(self, q: ArrayLike) -> Any:
        """Return the quantile of each probability."""
        q = np.asarray(q, dtype=np.float64)
        piece = np.clip(np.searchsorted(self._below, q, side="right") - 1, 0, self._slopes.size - 1)
        mass = self._below[piece + 1] - self._below[piece]
        part = np.clip((q - self._below[piece]) / np.where(mass > 0, mass, 1.0), 0.0, 1.0)
        return number(self._outside(self._at(piece, part)))

    def isf(self, q: ArrayLike) -> Any:
        """Return the point that each probability lies above."""
        q = np.asarray(q, dtype=np.float64)
        down = self._above[::-1]
        piece = self._slopes.size - np.clip(np.searchsorted(down, q, side="left"), 1, self._slopes.size)
        mass = self._above[piece] - self._above[piece + 1]
        part = np.clip((self._above[piece] - q) / np.where(mass > 0, mass, 1.0), 0.0, 1.0)
        return number(self._outside(self._at(piece, part)))

    def _at(self, piece: Any, part: Floats) -> Floats:
        """Return the point below which `part` of the piece's mass lies."""
        slope = self._slopes[piece]
        flat = np.abs(slope) < 1e-9
        safe = np.where(flat, 1.0, slope)
        with np.errstate(divide="ignore"):
            # From whichever end the density is high, so that e^slope cannot overflow.
            up = 1 + np.log1p((1 - part) * np.expm1(-np.abs(safe))) / np.abs(safe)
            down = -np.log1p(part * np.expm1(-np.abs(safe))) / np.abs(safe)
        share = np.where(flat, part, np.where(slope > 0, up, down))
        share = np.clip(share, 0.0, 1.0)
        return np.asarray(self.points[piece] + share * (self.points[piece + 1] - self.points[piece]))

    def sample(self, size: Size = None, rng: np.random.Generator | None = None) -> Any:
        """Return one draw, or an array of `size` of them."""
        return self.ppf(generator(rng).random(size))

    def kl(self, other: Any) -> float:
        """Return the Kullback-Leibler divergence from `other`, by quadrature over every piece."""
        at, heights, weights = self._quadrature
        mine = heights - self._log_norm - (at if self.logarithmic else 0.0)
        kept = weights > 0
        return float(weights[kept] @ (mine[kept] - other.log_density(self._outside(at[kept]))))


def _mean_exp(slope: object) -> Floats:
    """Return (1 - e^-|s|)/|s|, the mean over a piece of a density beside its higher end."""
    slope = np.abs(np.asarray(slope, dtype=np.float64))
    safe = np.where(slope < 1e-9, 1.0, slope)
    return np.asarray(np.where(slope < 1e-9, 1 - slope / 2, -np.expm1(-safe) / safe))
