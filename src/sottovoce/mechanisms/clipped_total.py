r"""The likelihood of a noisy total of clipped records, and the posterior that follows from it.

Clipping changes the law of a record. A total of n clipped records has the characteristic function φ_θ(t)ⁿ, φ_θ
that of one clipped record; inverting it against the noise gives the likelihood of what was released,

.. math::

    P(\hat s \mid \theta) = \frac{1}{M} \sum_j \varphi_\theta(t_j)^n
        \sum_x e^{-i t_j x} \Pr[\text{noise} = \hat s - x],

the inner sum (an integral for fractions) in closed form. Nothing is approximated by a normal law, so n may be
one, and it costs the same for n in the millions. All of this is post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from sottovoce.mechanisms.conjugate.distributions import Tabulated
from sottovoce.mechanisms.conjugate.system import ClippedSystem
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.numbers import Floats
from sottovoce.records.readings import ClippedSum

_DIGITS = 1e-13
"""Likelihoods below this part of a law's height have no digits left."""
_REACH = 8.0
"""Beyond this many standard deviations a normal law has nothing left (1e-15)."""
_BLOCK = 32
"""Parameters that share one set of frequencies."""
_FEW = 64
"""Up to so many records, totals of clipped ones alone are counted apart: points have no density to add up."""
_CHUNK = 64
_MOST = 512
"""Frequencies are added by the chunk until they carry nothing, at most so many."""
_DEPTH = 36.0
"""e^-36 of the largest density is dropped."""


@dataclass(frozen=True)
class ClippedTotal:
    """The total of n clipped records of a system, seen through noise.

    Attributes
    ----------
    system, reading, n
        Whose records, how they are clipped, how many.
    noise, grid
        The noise, in steps of the grid.
    """

    system: ClippedSystem
    reading: ClippedSum
    n: int
    noise: IntegerNoise
    grid: float

    @property
    def scale(self) -> float:
        """The noise's own scale in the statistic's unit."""
        return self.noise.scale * self.grid

    def within_reach(self, noisy: object) -> Floats:
        """Return noisy totals, moved to where n records and the noise can bring them.

        Laplace noise tells all totals below the least one alike, exactly; Gaussian noise hardly ever (1e-9) goes
        further.
        """
        slack = 0.0 if self.noise.kind == "laplace" else 6 * self.scale
        low, high = self.n * self.reading.low - slack, self.n * self.reading.high + slack
        return np.clip(np.atleast_1d(np.asarray(noisy, dtype=np.float64)), low, high)

    def rough(self, u: Floats, noisy: Floats) -> Floats:
        """Return the log-likelihood as if the total were normal: right about where the mass is, good to start from."""
        mean, spread = self._normal(u)
        gap = noisy - mean[:, None]
        spread = spread[:, None]
        if self.noise.kind == "gaussian":
            total = spread**2 + self.noise.variance * self.grid**2
            return np.asarray(-(gap**2) / (2 * total) - np.log(total) / 2)
        # A normal plus a Laplace variable: two tails of the normal law, each tilted.
        tilt, z = spread / self.scale, gap / spread
        left = tilt**2 / 2 - tilt * z + special.log_ndtr(z - tilt)
        right = tilt**2 / 2 + tilt * z + special.log_ndtr(-z - tilt)
        return np.asarray(np.logaddexp(left, right) - np.log(2 * self.scale))

    def _normal(self, u: Floats) -> tuple[Floats, Floats]:
        """Return the mean and the standard deviation of the total, the latter never quite zero."""
        mean, variance = self.system.clipped_moments(u)
        width = self.reading.high - self.reading.low
        return self.n * mean, np.sqrt(np.maximum(self.n * variance, (1e-6 * width) ** 2))

    def log_likelihood(self, u: Floats, noisy: Floats) -> Floats:
        """Return log P(ŝ | u), a row for each u and a column for each noisy total, up to one constant."""
        noisy = self.within_reach(noisy)
        order = np.argsort(u)
        exact = np.empty((u.size, noisy.size))
        for first in range(0, u.size, _BLOCK):
            subset = order[first : first + _BLOCK]
            exact[subset] = self._block(u[subset], noisy)
        # A likelihood that rounding has eaten is taken from the normal law; where a total has hardly any digits at
        # all (a prior and data at odds by more than six standard deviations), all of its are.
        _, spread = self._normal(u)
        floor = (_DIGITS + 4e-16 * self.n) / (2.5 * (spread + self.scale))[:, None]
        lost = np.all(exact <= 1e4 * floor, axis=0)
        with np.errstate(divide="ignore"):
            return np.where((exact <= floor) | lost, self.rough(u, noisy), np.log(exact))

    def _block(self, u: Floats, noisy: Floats) -> Floats:
        lattice = self.reading.integer
        mean, spread = self._normal(u)
        width = self.reading.high - self.reading.low
        # Bernstein: a sum of bounded records leaves this window with probability below 1e-14; and clipping brings
        # records no further apart than they were.
        unclipped, tail = self.system.unclipped_spread(u)
        half = min(
            _REACH * float(spread.max()) + 22 * width,
            _REACH * float(np.sqrt(self.n) * unclipped.max()) + 25 * float(tail.max()),
            self.n * width + 1,
        )
        gaussian = self.noise.kind == "gaussian"
        if gaussian:
            half += _REACH * max(self.scale, self.grid)
        half = np.ceil(half) if lattice else half
        centre = np.rint(mean) if lattice else mean
        period = 2 * half + 1 if lattice else 2 * half
        gap = noisy - centre[:, None]
        # Records of few values bring their law back at frequencies of 2π/width: look that far when n is small.
        least = 4 * half / width if self.n <= 64 else 0.0
        most = int(min(half, 16 * _MOST)) if lattice else _MOST
        ends = self._ends(u)
        total = self._all_clipped(ends, noisy) * period
        for first in range(0, most + 1, _CHUNK):
            j = np.arange(first, min(first + _CHUNK, most + 1))
            t = 2 * np.pi * j / period
            powers = self._power(self.system.characteristic(u, t), centre, t)
            if ends.any():
                waves = np.exp(1j * np.multiply.outer([self.reading.low, self.reading.high], t))
                powers = powers - self._power(ends.T @ waves, centre, t)
            twice = np.where(j == 0, 1.0, 2.0)
            if gaussian:
                powers = powers * (twice * self._normal_factor(t))
                shape = np.exp(-1j * gap[:, :, None] * t)
            else:
                powers = powers * twice
                shape = self._laplace_factor(gap, t, half)
            total += np.einsum("gt,gkt->gk", powers, shape).real
            damped = 1.0 if gaussian else 1 + (self.scale * t[-1]) ** 2
            if np.abs(powers).max(axis=0)[-8:].max() * j[-1] < 1e-9 * damped and j[-1] >= least:
                break
        if gaussian:
            total[np.abs(gap) > half] = 0.0
        return np.maximum(total / period, 0.0)

    def _power(self, one: object, centre: Floats, t: Floats) -> Any:
        """Return the n-th power of a characteristic function, about the centre of the total."""
        base = one * np.exp(-1j / self.n * centre[:, None] * t)
        # What is negligible is dropped before it is squared: numbers next to zero are slow.
        base = np.where(base.real**2 + base.imag**2 > np.exp(-120 / self.n), base, 0.0)
        power = base.copy()
        for digit in bin(self.n)[3:]:
            power *= power
            if digit == "1":
                power *= base
        return power

    def _ends(self, u: Floats) -> Floats:
        """Return the chances that a fraction is clipped to the low and to the high bound; zero where n is large."""
        if self.reading.integer or self.n > _FEW:
            return np.zeros((2, u.size))
        return np.array(self.system.clipped_chances(u))

    def _all_clipped(self, ends: Floats, noisy: Floats) -> Floats:
        """Return the part of the likelihood in which every record is clipped: these totals are points."""
        if not ends.any():
            return np.zeros((ends.shape[1], noisy.size))
        k = np.arange(self.n + 1)
        with np.errstate(divide="ignore"):
            chances = np.exp(
                special.gammaln(self.n + 1)
                - special.gammaln(k + 1)
                - special.gammaln(self.n - k + 1)
                + special.xlogy(self.n - k, ends[0][:, None])
                + special.xlogy(k, ends[1][:, None])
            )
        totals = (self.n - k) * self.reading.low + k * self.reading.high
        kernel = np.exp(self.noise.log_weight((noisy - totals[:, None]) / self.grid))
        laplace = self.noise.kind == "laplace"
        return np.asarray(chances @ kernel / (self.scale * (2.0 if laplace else np.sqrt(2 * np.pi))))

    def _normal_factor(self, t: Floats) -> Floats:
        """Return the characteristic function of Gaussian noise, of the discrete one on a lattice."""
        if not self.reading.integer:
            return np.exp(-((self.scale * t) ** 2) / 2)
        turns = 2 * np.pi * np.arange(-3, 4)[:, None]
        if self.noise.scale < 1:
            k = np.arange(-40, 41)
            weights = np.exp(self.noise.log_weight(k))
            return np.asarray(weights / weights.sum() @ np.cos(k[:, None] * t))
        return np.asarray(
            np.exp(-((self.scale * (t + turns)) ** 2) / 2).sum(axis=0) / np.exp(-((self.scale * turns) ** 2) / 2).sum()
        )

    def _laplace_factor(self, gap: Floats, t: Floats, half: float) -> Any:
        """Return Σ_x e^(-itx) e^(-|gap - x|/b) / (normalisation) over the window, an integral for fractions."""
        rate, gap = 1 / self.scale, gap[:, :, None]
        item = 1.0 if self.reading.integer else 0.0
        at = np.clip(gap, -half - item, half)
        at = np.floor(at) if item else at
        if item:
            left, right = -np.expm1(1j * t - rate), -np.expm1(-1j * t - rate)
            level = np.tanh(rate / 2)
        else:
            left, right = rate - 1j * t, rate + 1j * t
            level = rate / 2
        # Geometric sums from the noisy total outwards, less what lies beyond the window.
        # Beyond the window one of the sums is empty: both its terms are then the same.
        near = np.exp(np.minimum(-rate * (gap - at), 0.0)) / left
        near = near + np.exp(np.minimum(rate * (gap - at - item), 0.0)) * (np.exp(-1j * item * t) / right)
        far = np.exp(np.minimum(-rate * (gap + half + item), 0.0)) * (np.exp(1j * (half + item) * t) / left)
        far = far + np.exp(np.minimum(rate * (gap - half - item), 0.0)) * (np.exp(-1j * (half + item) * t) / right)
        return level * (np.exp(-1j * t * at) * near - far)

    def posterior(self, noisy: float, *, points: int = 256) -> Tabulated:
        """Return what is known of the parameter from one noisy total."""
        at = self.within_reach(noisy)
        low, high = self._range(at[0])
        for _ in range(4):
            u = self._nodes(low, high, at, points)
            table = self._table(u, self.log_likelihood(u, at)[:, 0])
            if table.points[-1] - table.points[0] > 0.4 * (high - low):
                break
            low, high = float(table.points[0]), float(table.points[-1])
        return table

    def posteriors(self, noisy: Floats) -> list[Tabulated]:
        """Return what is known from each of several noisy totals, their likelihoods computed together."""
        at = self.within_reach(noisy)
        ranges = [self._range(total) for total in at]
        u = self._nodes(min(low for low, _ in ranges), max(high for _, high in ranges), at, 256)
        u = np.unique(np.concatenate([u, *(np.linspace(*ends, 64) for ends in ranges)]))
        likelihoods = self.log_likelihood(u, at)
        return [self._table(u, column) for column in likelihoods.T]

    def without_noise(self, total: float, beside: list[Tabulated]) -> Tabulated:
        """Return what the total itself would tell, by the least noise that leaves a likelihood to compute.

        The table reaches as far as those it is to be compared with.
        """
        if self.reading.integer:
            quiet = 0.05
        else:
            centre = self.posterior(total).mean
            _, spread = self._normal(np.array([np.log(centre) if self.system.logarithmic else centre]))
            quiet = float(spread[0]) * (0.1 if self.n <= _FEW else 0.02) / self.grid
        hushed = replace(self, noise=IntegerNoise("gaussian", quiet))
        u = hushed.posterior(total).points
        low, high = min(table.points[0] for table in beside), max(table.points[-1] for table in beside)
        u = np.unique(np.concatenate([u, np.linspace(min(low, u[0]), max(high, u[-1]), 512)]))
        heights = self.system.log_prior(u) + hushed.log_likelihood(u, np.array([total]))[:, 0]
        return Tabulated(u, heights - heights.max(), self.system.logarithmic)

    def _table(self, u: Floats, log_likelihood: Floats) -> Tabulated:
        heights = self.system.log_prior(u) + log_likelihood
        kept = np.flatnonzero(heights > heights.max() - _DEPTH)
        subset = slice(max(kept[0] - 1, 0), min(kept[-1] + 2, u.size))
        return Tabulated(u[subset], np.maximum(heights[subset] - heights.max(), -200.0), self.system.logarithmic)

    def _range(self, noisy: float) -> tuple[float, float]:
        """Return where the rough posterior is within e^-40 of its top, narrowed step by step: it has one mode."""
        low, high = self.system.span()
        for _ in range(12):
            u = np.linspace(low, high, 129)
            heights = self.system.log_prior(u) + self.rough(u, np.array([noisy]))[:, 0]
            kept = np.flatnonzero(heights > heights.max() - _DEPTH - 4)
            first, last = max(kept[0] - 1, 0), min(kept[-1] + 1, u.size - 1)
            done = u[last] - u[first] > 0.6 * (high - low)
            low, high = float(u[first]), float(u[last])
            if done:
                break
        return low, high

    def _nodes(self, low: float, high: float, noisy: Floats, points: int) -> Floats:
        """Return points over a range, denser where the mean total passes the noisy one: there the likelihood bends."""
        u = np.linspace(low, high, points)
        mean, spread = self._normal(u)
        gap = (noisy[:, None] - mean) / spread
        near = np.flatnonzero(np.any(np.abs(gap) < 8, axis=0) | np.any(np.diff(np.sign(gap), append=0.0) != 0, axis=0))
        if near.size == 0 or near.size > points // 2:
            return u
        # Few points see the bend: put as many more there.
        dense = np.linspace(u[max(near[0] - 1, 0)], u[min(near[-1] + 2, points - 1)], points)
        return np.unique(np.concatenate([u, dense]))
