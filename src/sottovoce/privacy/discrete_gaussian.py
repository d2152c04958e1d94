"""Gaussian noise on the integers: the exact curve δ(ε)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy import special

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.lattice import lattice_mu
from sottovoce.privacy.numbers import Floats, ceil_float, real, whole
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.rounding import log_lifted, product_up


@dataclass(frozen=True)
class DiscreteGaussianProfile(Profile):
    r"""Noise k on the integers with Pr[k] ∝ e^{-k²/(2 scale²)}, on one count or two that each move by `sensitivity`.

    The privacy loss rises with the (sum of the) noise S, so with T(y) = Pr[S > y], shift s = cells·sensitivity and
    variance parameter v = cells·scale²

    .. math:: \delta(\varepsilon) = T(x - s) - e^\varepsilon T(x), \qquad x = \varepsilon v/s + s/2

    (Canonne, Kamath and Steinke 2020, Theorem 7, for one count). The sum of two such noises has
    Pr[S] ∝ e^{-S²/(4 scale²)} times a constant for even and another for odd S. The Rényi curve touches the line
    λ·s²/(2v) wherever (λ-1)·sensitivity is whole, and dips below it in between.

    >>> profile = DiscreteGaussianProfile(scale=2.0)
    >>> round(profile.delta(0.5), 6), profile.zcdp()
    (0.054007, 0.125)
    """

    word: ClassVar[str] = "discrete-gaussian"
    scale: float
    sensitivity: int = 1
    cells: int = 1
    basis: Basis = field(default=Basis.EXACT, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", real("scale", self.scale, self.least))
        if self.scale > self.most:
            raise InvalidValue(f"scale must be at most {self.most:g}. Got {self.scale}")
        object.__setattr__(self, "sensitivity", whole("sensitivity", self.sensitivity, 1, self.farthest, floats=True))
        object.__setattr__(self, "cells", whole("cells", self.cells, 1, 2, floats=True))

    most: ClassVar[float] = 2e5
    """The largest scale whose probabilities are summed one by one."""
    least: ClassVar[float] = 1e-70
    """The smallest scale: beyond, squares are no doubles and nothing is hidden."""
    farthest: ClassVar[int] = 10**8
    """The largest move of one count."""

    @cached_property
    def _tails(self) -> Floats:
        """T(k) = Pr[S > k] for k = -reach-1 .. reach."""
        return self._table[0]

    @cached_property
    def _table(self) -> tuple[Floats, float]:
        """The tails, summed from the far end in blocks that round little, and the logarithm of all the weight."""
        k = np.arange(self._reach + 1.0)
        weights = np.exp(-(k * k) / (2 * self.cells * self.scale**2))
        if self.cells == 2:
            near = np.arange(-np.ceil(30 * self.scale), np.ceil(30 * self.scale) + 1)
            even = np.exp(-((near / self.scale) ** 2)).sum()
            odd = np.exp(-(((near - 0.5) / self.scale) ** 2)).sum()
            weights[::2] *= even
            weights[1::2] *= odd
        count = 2 * self._reach + 1  # both sides alike
        block = math.isqrt(count) + 1
        padded = np.concatenate([weights[::-1], weights[1:], np.zeros(-count % block)]).reshape(-1, block)
        sums = np.cumsum(padded, axis=1)
        sums[1:] += np.cumsum(sums[:-1, -1])[:, None]
        tails = sums.ravel()[:count][::-1]
        scale = float(tails[0]) / (min(even, odd) if self.cells == 2 else 1.0)
        return np.append(tails / tails[0], 0.0), math.log(scale)

    @cached_property
    def _reach(self) -> int:
        return int(np.ceil(38.6 * self.scale * np.sqrt(self.cells))) + 2

    def _above(self, y: Floats) -> Floats:
        """Return T(y) for real y."""
        index = np.clip(np.floor(y) + self._reach + 1, 0, len(self._tails) - 1)
        return np.asarray(self._tails[index.astype(np.int64)])

    def _log_above(self, y: Floats) -> Floats:
        """Return log T(y); where the table ends, or underflows, the first term or the integral, which are below it."""
        tails, y = self._above(y), np.floor(y) + 1
        spread = math.sqrt(self.cells) * self.scale
        first, log_total = -((y / spread) ** 2) / 2, self._table[1]
        remainder = special.log_ndtr(-y / spread) + math.log(spread * math.sqrt(2 * math.pi))
        with np.errstate(divide="ignore"):
            return np.where(tails > 1e-290, np.log(tails), np.maximum(first, remainder) - log_total)

    def _log_delta(self, epsilon: Floats) -> Floats:
        shift, spread = self.cells * self.sensitivity, self.cells * self.scale**2
        x = epsilon * (spread / shift) + shift / 2
        best = np.zeros(epsilon.shape)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            # δ is the largest over all thresholds, and x may have been rounded across a whole number: try both sides.
            for y in (x - 1, x, x + 1):
                top = self._above(y - shift)
                # Digits that the exponents and the subtraction can lose are added back.
                lost = (1e-15 * (2 + epsilon - np.log(top)) + 1e-16 * math.sqrt(len(self._tails))) * top
                value = top - np.exp(epsilon + self._log_above(y)) + lost
                best = np.fmax(best, value)
            return log_lifted(np.log(np.clip(best, 5e-324, 1.0)))  # beyond the table is not nowhere

    def _renyi(self, order: Floats) -> Floats:
        line = product_up(order, self.zcdp())
        if self.scale > 3:  # the dip between whole numbers is below e^(-2π²·9)
            return line
        # With o the distance of g = (λ-1)·sensitivity to a whole number and v = scale²,
        # R = λρ + cells·(ln E cosh(ok/v) - o²/2v)/(λ-1). Below g = ½ the square takes
        # λρ down to ρ, and nothing is subtracted.
        gap, v = order - 1, self.scale**2
        g = gap * self.sensitivity
        o = np.abs(g - np.round(g))
        k = np.arange(1.0, np.ceil(40 * self.scale) + 3)
        x = o[..., None] * k / v
        wave = np.sum(np.exp(x - k * k / (2 * v)) * np.expm1(-x) ** 2, axis=-1)
        wave = np.log1p(wave / (1 + 2 * np.exp(-k * k / (2 * v)).sum()))
        with np.errstate(divide="ignore", invalid="ignore"):
            near = self.zcdp() + self.cells * wave / gap
            away = line + self.cells * (wave - o * o / (2 * v)) / gap
        value = np.where(gap == 0, self.zcdp(), np.where(g < 0.5, near, away))
        return np.asarray(np.minimum(value * (1 + 1e-14), line))

    def zcdp(self) -> float:
        """Return ρ = cells·sensitivity²/(2 scale²), rounded up."""
        return ceil_float(self.cells * Fraction(self.sensitivity) ** 2 / (2 * Fraction(self.scale) ** 2))

    def gdp(self) -> float:
        """Return μ, a hair more than that of continuous noise; infinite where the scale is below two or so."""
        return lattice_mu([(self.cells * self.sensitivity**2 / self.scale**2, self.scale)], self.cells)
