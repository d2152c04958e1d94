"""Numbers between public bounds: their first two moments by class, as whole numbers that can carry noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.mechanisms.integer_noise import IntegerNoise, NoiseKind
from sottovoce.privacy.concentrated import ZeroConcentratedProfile
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, real
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.pure import PureProfile
from sottovoce.readings.columns import as_numbers
from sottovoce.readings.grid import check_span

__all__ = ["Bounded", "moment_draws", "moment_profile", "moment_sensitivity"]

Integers = NDArray[np.int64]

_ONE = 1 << 20
"""Steps of the public grid to one half of the bounds' width."""
_LEAST = 1e-6
"""The least variance, beside the square of half the width."""
_TRIES = 24


@dataclass(frozen=True)
class Bounded:
    r"""A column of numbers with public bounds, modelled as normal within each class.

    A record x becomes t = (2x - low - high)/(high - low) in [-1, 1], rounded to a public grid, and adds (t, t² - ½) to
    the sums of its class. Whole numbers of grid steps add up exactly, so no floating-point error leaks.

    Examples
    --------
    >>> age = Bounded("age", 0, 100)
    >>> sums = age.sums([20.0, 40.0, 300.0], np.array([0, 0, 1]), classes=2)
    >>> mean, variance = age.moments(sums, np.array([2.0, 1.0]))
    >>> mean.round(3), variance.round(1)
    (array([ 30., 100.]), array([100.,   0.]))
    """

    name: str
    low: float
    high: float

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InvalidValue(f"a field's name is the name of a column. Got {self.name!r}")
        for name in ("low", "high"):
            object.__setattr__(self, name, real(name, getattr(self, name), -math.inf))
        check_span(self.low, self.high, f"the bounds of {self.name!r}")

    @property
    def half(self) -> float:
        """Half the width of the bounds: what one unit of t is worth."""
        return (self.high - self.low) / 2

    def centred(self, values: Any) -> Floats:
        """Return t of each value, clipped to the bounds; what is no number counts as 0 cut to them."""
        x = as_numbers(values, f"values of {self.name!r}")
        x = np.clip(np.where(np.isnan(x), 0.0, x), self.low, self.high)
        # Measured from the lower end nothing is rounded past the other: 0 <= x - low <= high - low, also in doubles.
        return np.asarray(2 * ((x - self.low) / (self.high - self.low)) - 1)

    def sums(self, values: Any, codes: Integers, classes: int) -> Integers:
        """Return (Σt, Σ(t² - ½)) of each class in grid steps."""
        t = np.rint(self.centred(values) * _ONE).astype(np.int64)
        square = ((t * t + _ONE // 2) >> 20) - _ONE // 2
        columns = [np.bincount(codes, weights=column.astype(np.float64), minlength=classes) for column in (t, square)]
        return np.rint(np.column_stack(columns)).astype(np.int64)

    def moments(self, sums: Any, sizes: Floats) -> tuple[Floats, Floats]:
        """Return each class's mean and variance, in the column's own unit and kept inside the bounds."""
        mean, variance = _moments(np.asarray(sums, dtype=np.float64), np.asarray(sizes, dtype=np.float64))
        return mean * self.half + (self.low + self.high) / 2, variance * self.half**2

    def to_dict(self) -> dict[str, Any]:
        """Return the field as plain values."""
        return {"name": self.name, "low": self.low, "high": self.high}


def moment_sensitivity(noise: NoiseKind) -> float:
    r"""Return how far one record moves the sums of all classes: L1, or L2 squared for Gaussian noise.

    To another class: 2·(1 + ½) in L1, 2·(1 + ¼) in squares. Within a class (t - t')² + (t² - t'²)² <= 4, at the two
    ends of the bounds; one more step a coordinate covers the rounding.
    """
    return 3.0 * _ONE if noise == "laplace" else 4.0 * _ONE**2 + 8.0 * _ONE


def moment_profile(noise: IntegerNoise) -> Profile:
    """Return what the sums of one column with this noise provably do."""
    moved = moment_sensitivity(noise.kind)
    if noise.kind == "laplace":
        return PureProfile(moved / noise.scale)
    return ZeroConcentratedProfile(moved / (2 * noise.scale**2))


def moment_draws(sums: Any, noise: IntegerNoise | None, sizes: Floats, rng: np.random.Generator) -> Floats:
    """Return draws of (mean, variance) of t for each row of class sizes: (draws, classes, 2).

    The true sums have a flat prior over what can happen; given them the normal has its reference prior.
    """
    shape = (_TRIES, *sizes.shape, 2)
    if noise is None:
        tried = np.broadcast_to(np.asarray(sums, dtype=np.float64), shape)
    else:
        draw = rng.laplace if noise.kind == "laplace" else rng.normal
        tried = sums - draw(0.0, noise.scale, shape)
    first, second = tried[..., 0] / _ONE, tried[..., 1] / _ONE + sizes / 2
    possible = (np.abs(first) <= sizes) & (second <= sizes) & (second * sizes >= first**2)
    pick = np.argmax(possible, axis=0)  # where nothing is possible the first is cut to the bounds
    chosen = np.take_along_axis(tried, pick[None, ..., None], axis=0)[0]
    mean, variance = _moments(chosen, sizes)
    many = np.maximum(sizes, 3.0)
    variance = np.clip(variance * many / rng.chisquare(many - 1), _LEAST, 1.0)
    mean = np.clip(mean + rng.standard_normal(mean.shape) * np.sqrt(variance / many), -1.0, 1.0)
    return np.stack([mean, variance], axis=-1)


def _moments(sums: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    many = np.maximum(sizes, 1.0)
    mean = np.clip(sums[..., 0] / _ONE / many, -1.0, 1.0)
    square = np.where(sizes >= 1, sums[..., 1] / _ONE / many + 0.5, 1.0)
    return mean, np.clip(square - mean**2, _LEAST, 1.0)
