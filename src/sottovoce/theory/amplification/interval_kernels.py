r"""Kernels on an interval: Gaussian and Laplace noise around the input, conditioned to stay inside.

Both have a log-density that is supermodular in input and output, so that their likelihood ratios are monotone:
tests are thresholds, and the two ends of the interval are the easiest inputs to tell apart (Karlin and Rubin 1956).
The density at an output is least at an end input too, so that the Doeblin coefficient is the Dobrushin one.
"""

from __future__ import annotations

import math
import sys
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from scipy import special

from sottovoce.mechanisms.ball_arithmetic import Ball, BallFunction, ball, ball_function
from sottovoce.mechanisms.conjugate.exact_posteriors import NormalLaw
from sottovoce.mechanisms.lazy_uniform import LazyUniform, find_cell
from sottovoce.mechanisms.rounding_cells import EvenCells
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats, ceil_float
from sottovoce.privacy.randomness import is_secure
from sottovoce.privacy.rounding import LEAST, half_gap, product_up
from sottovoce.theory.amplification.kernels import Kernel, mixing_of

_NARROW = 1.0
"""Up to this width, in units of the noise, sixteen points integrate what is smooth to the last digits."""
_NODES, _WEIGHTS = ((part + shift) / 2 for part, shift in zip(np.polynomial.legendre.leggauss(16), (1, 0), strict=True))
_LARGEST, _WIDEST = 1e150, 1e100
"""The largest number of a kernel, and its interval's largest width beside the noise: their squares stay doubles."""
_ROUND_UP = 1 + 1e-14
_LOST = 2.0**-51
"""What the place where a log-ratio of normal laws falls to ε may have lost, beside the width."""


@dataclass(frozen=True)
class _IntervalKernel(Kernel):
    """Noise of size `scale` around an input in [low, high], conditioned on the interval.

    With a secure generator `sample` draws exactly rounded: what leaves is the cell of a real output, in cells of a
    public width, so that what is said of the kernel holds for the bits. Seeded ones draw doubles into the same cells.
    """

    scale: float
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if not (self.scale > 0 and math.isfinite(self.scale)):
            raise InvalidValue(f"scale must be finite and > 0. Got {self.scale}")
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise InvalidValue(f"an interval needs finite low < high. Got [{self.low}, {self.high}]")
        largest = max(self.scale, abs(self.low), abs(self.high))
        if not (largest <= _LARGEST and self.width <= _WIDEST):
            raise InvalidValue(
                f"numbers of a kernel may be up to {_LARGEST:g}, and its interval {_WIDEST:g} times as wide as its "
                f"noise. Got scale {self.scale:g} on [{self.low:g}, {self.high:g}]; change their unit"
            )

    @cached_property
    def width(self) -> float:
        """How wide the interval is, in units of the noise, rounded up."""
        return ceil_float((Fraction(self.high) - Fraction(self.low)) / Fraction(self.scale))

    @abstractmethod
    def _place(self, epsilon: Floats) -> Floats:
        """Return where the log-ratio of the two ends' densities falls to ε, in units from `low`."""

    @abstractmethod
    def _apart(self, place: Floats) -> Floats:
        """Return D_{e^ε} between the two ends by the place where their log-ratio is ε."""

    def spread(self, epsilon: Floats) -> Floats:
        """Return D_{e^ε} between the two ends, rounded up; 0 where nothing is more than e^ε likelier."""
        with np.errstate(over="ignore"):
            place = np.maximum(self._place(epsilon), 0.0)
        return np.where(place > 0, np.clip(self._apart(place) * _ROUND_UP, sys.float_info.min, 1.0), 0.0)

    @property
    def ultra_mixing(self) -> float:
        """1 − e^{−level}: an output at one end, inputs at both."""
        return mixing_of(self.level)

    @property
    def doeblin(self) -> float:
        """Equal to the Dobrushin coefficient."""
        return self.dobrushin

    def sample(self, inputs: object, rng: np.random.Generator) -> Any:
        """Return one random output for each input: the middle of its cell, never outside of the interval."""
        values = np.asarray(inputs, dtype=np.float64)
        if not np.all(np.isfinite(values)):
            raise InvalidData("the inputs of a kernel must be finite")
        values, cells = np.clip(values, self.low, self.high), EvenCells.beside(min(self.scale, self.high - self.low))
        if is_secure(rng):
            exactly = lru_cache(lambda x: self._exactly(Fraction(x)))  # what draws from one input share is made once
            result = (find_cell(exactly(x), cells, LazyUniform(rng)) for x in values.ravel().tolist())
            out = np.array([cells.value(k) for k in result]).reshape(values.shape)
        else:
            out = cells.round(self.low + self.scale * self._quickly((values - self.low) / self.scale, rng))
        return np.clip(out, self.low, self.high)[()]

    @abstractmethod
    def _exactly(self, centre: Fraction) -> BallFunction:
        """Return the distribution function of the output for an input, in balls."""

    @abstractmethod
    def _quickly(self, x: Floats, rng: np.random.Generator) -> Floats:
        """Return outputs in doubles by inverting the distribution function; both in units from `low`."""


@dataclass(frozen=True)
class TruncatedGaussianKernel(_IntervalKernel):
    r"""N(x, scale²) conditioned on [low, high]; inputs are clipped to the interval.

    The ultra-mixing coefficient is 1 − e^{−w²/2}, w the width in units of the scale.

    >>> round(TruncatedGaussianKernel(scale=1.0).ultra_mixing, 4)
    0.3935
    """

    word: ClassVar[str] = "truncated-gaussian"

    def spread(self, epsilon: Floats) -> Floats:
        """Return D_{e^ε} between the two ends, rounded up."""
        if self.width <= _NARROW:
            return super().spread(epsilon)
        place = self._place(epsilon)
        inside = place > 0  # elsewhere nothing is more than e^ε likelier
        place = np.where(inside, place, self.width / 2)
        epsilon, half = np.where(inside, epsilon, 0.0), special.ndtr(self.width) - 0.5
        near, end = special.log_ndtr(place - self.width), special.log_ndtr(-self.width)
        size = np.exp(epsilon + near) / half
        gap = (special.ndtr(place) - 0.5) / half + size * np.expm1(end - near)
        lost = _LOST * ((8 + epsilon + np.abs(near)) * size + 4)  # exponents round by their size
        return np.where(inside, np.clip(gap + lost, sys.float_info.min, 1.0), 0.0)

    def _apart(self, place: Floats) -> Floats:
        r"""Return it in a narrow interval, where the two laws are so alike that their difference has no digits left.

        It is an integral of a smooth function up to the place p,

        .. math:: \frac{\int_0^p φ(x)\,(1 - e^{-w(p-x)})\,dx}{Φ(w) - ½}
        """
        end = place[..., None]
        x = end * _NODES
        apart = np.exp(-x * x / 2) * -np.expm1(-self.width * (end - x)) * (end * _WEIGHTS)
        below = math.sqrt(math.pi / 2) * math.erf(self.width / math.sqrt(2))
        return np.asarray(apart.sum(axis=-1) / below)

    def _place(self, epsilon: Floats) -> Floats:
        return np.asarray(max(self.width / 2 * (1 + 2 * _LOST), LEAST) - epsilon / self.width)

    @property
    def level(self) -> float:
        """w²/2."""
        return max(product_up(self.width, self.width, 0.5), sys.float_info.min)

    def _exactly(self, centre: Fraction) -> BallFunction:
        return ball_function(NormalLaw(centre, Fraction(self.scale) ** 2, Fraction(self.low), Fraction(self.high)))

    def _quickly(self, x: Floats, rng: np.random.Generator) -> Floats:
        # In the half below zero the distribution function keeps its digits; the other half is its mirror image.
        side = np.where(x > self.width / 2, -1.0, 1.0)
        centre = np.where(side > 0, x, self.width - x)
        first, last = special.ndtr(-centre), special.ndtr(self.width - centre)
        y = centre + special.ndtri(first + rng.random(x.shape) * (last - first))
        return np.where(side > 0, y, self.width - y)


@dataclass(frozen=True)
class LaplaceIntervalKernel(_IntervalKernel):
    r"""Laplace noise around x conditioned on [low, high]; inputs are clipped to the interval.

    The ultra-mixing coefficient is 1 − e^{−w}, w the width in units of the scale.

    >>> round(LaplaceIntervalKernel(scale=1.0).ultra_mixing, 4)
    0.6321
    """

    word: ClassVar[str] = "laplace-interval"

    def _place(self, epsilon: Floats) -> Floats:
        return -half_gap(epsilon, self.width)

    def _apart(self, place: Floats) -> Floats:
        """Return (1 − e^{−p})²/(1 − e^{−w})."""
        return np.asarray(np.expm1(-place) * (np.expm1(-place) / -math.expm1(-self.width)))

    @property
    def level(self) -> float:
        """The width w."""
        return self.width

    def _exactly(self, centre: Fraction) -> BallFunction:
        scale, middle = Fraction(self.scale), float(centre)

        def lower(x: Fraction, bits: int) -> Ball:
            del bits
            tail = ball(-abs(x - centre) / scale).exp() / 2
            return tail if x <= centre else 1 - tail

        def upper(x: Fraction, bits: int) -> Ball:
            return lower(2 * centre - x, bits)

        def inverse(u: float, complement: float) -> float:
            side, tail = (1.0, u) if u <= complement else (-1.0, complement)
            return middle + side * self.scale * math.log(2 * max(tail, sys.float_info.min))

        ends = Fraction(self.low), Fraction(self.high)
        return BallFunction(ends, (None, None), lower, upper, inverse, centre)

    def _quickly(self, x: Floats, rng: np.random.Generator) -> Floats:
        below, above = -np.expm1(-x), -np.expm1(x - self.width)
        u = rng.random(x.shape) * (below + above) - below
        return np.asarray(x + np.where(u < 0, np.log1p(np.minimum(u, 0.0)), -np.log1p(-np.maximum(u, 0.0))))
