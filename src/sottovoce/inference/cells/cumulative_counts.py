r"""The cumulative counts of a group behind several noisy histograms with different edges, and tests of its quantiles.

The latent numbers are F(x), the records below x, at every edge of any round. A noisy count of the cell [l, r) is an
observation of F(r) - F(l), so all rounds together are one linear Gaussian model: its information matrix is the
Laplacian of the graph whose nodes are the edges and whose arcs are the cells, grounded at F(low) = 0. Every round is a
path from low to high, so the graph is connected and the matrix positive definite: no prior and no ridge is needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize, special, stats

from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.numbers import Floats, Mask

Places = NDArray[np.int64]

_FEW = 5.0
"""Of fewer records than so many on either side of a quantile their binomial law is convolved with the noise; of more it
is normal (the usual rule for a test of a proportion)."""
_SHARES = 2001
"""So many shares from 0 to 1 are tested as the share of records below an edge."""
EXCESS = {"gaussian": 0.0, "laplace": 3.0}
"""Excess kurtosis of a kind of noise."""


@dataclass(frozen=True, eq=False)
class RoundCounts:
    """One round of one group: edges, noisy counts of the cells between them, and their noise."""

    edges: Floats
    counts: Floats
    noise: IntegerNoise


@dataclass(frozen=True, eq=False)
class CumulativeCounts:
    """What noisy counts tell of F at every edge, given each other.

    Attributes
    ----------
    edges
        All edges, from the least to the greatest.
    mean
        F at each; 0 at the first.
    root
        The lower Cholesky factor of the information on F at every edge but the first.
    up, down
        The edges between which every observation counts records, by their places.
    variances
        Of the noise of every observation.
    excess
        Of the kurtosis of the noise.

    Examples
    --------
    >>> noise = IntegerNoise("gaussian", 2.0)
    >>> rounds = [RoundCounts(np.array([0.0, 1.0, 2.0]), np.array([40.0, 60.0]), noise)]
    >>> known = CumulativeCounts.of(rounds)
    >>> known.mean.round().tolist(), known.interval(0.2), known.interval(0.5)
    ([0.0, 40.0, 100.0], (0.0, 1.0), (0.0, 2.0))
    """

    edges: Floats
    mean: Floats
    root: Floats
    up: Places
    down: Places
    variances: Floats
    excess: float

    @classmethod
    def of(
        cls, rounds: Sequence[RoundCounts], total: int | None = None, outside: Sequence[float] = ()
    ) -> CumulativeCounts:
        """Return what rounds tell of one group by weighted least squares, each as exact as it is.

        Parameters
        ----------
        rounds
            Of one group.
        total, outside
            Where there is one group alone, of `total` records in and out of it, and each round's noisy count of those
            out of it: then F(high) is total less those.
        """
        edges = np.unique(np.concatenate([released.edges for released in rounds]))
        size, above, below, seen, variances = edges.size - 1, [], [], [], []
        for released in rounds:
            places = np.searchsorted(edges, released.edges)
            above.append(places[1:])
            below.append(places[:-1])
            seen.append(released.counts)
            variances.append(np.full(released.counts.size, released.noise.variance))
        if total is not None:
            above.append(np.full(len(outside), size))
            below.append(np.zeros(len(outside), dtype=np.int64))
            seen.append(total - np.asarray(outside, dtype=np.float64))
            variances.append(np.array([released.noise.variance for released in rounds]))
        up, down, values, spread = (np.concatenate(part) for part in (above, below, seen, variances))
        spread = np.maximum(spread, 1e-12)  # next to no noise
        unit = spread.min()
        information = np.zeros((size + 1, size + 1))  # the Laplacian of the graph, in units of its largest weight
        weight = unit / spread
        for first, second, sign in ((up, up, 1), (down, down, 1), (up, down, -1), (down, up, -1)):
            np.add.at(information, (first, second), sign * weight)
        root = linalg.cholesky(information[1:, 1:], lower=True) / math.sqrt(unit)
        scores = np.bincount(up, values / spread, size + 1) - np.bincount(down, values / spread, size + 1)
        mean = np.concatenate([[0.0], linalg.cho_solve((root, True), scores[1:])])
        return cls(edges, mean, root, up, down, spread, EXCESS[rounds[0].noise.kind])

    @cached_property
    def covariance(self) -> Floats:
        """The covariance of F at every edge but the first, by the noise alone."""
        return np.asarray(linalg.cho_solve((self.root, True), np.eye(len(self.root))))

    @cached_property
    def weights(self) -> Floats:
        """From every observation to F at each edge but the first: rows are edges."""
        full = np.concatenate([np.zeros((len(self.covariance), 1)), self.covariance], axis=1)
        return np.asarray((full[:, self.up] - full[:, self.down]) / self.variances)

    @cached_property
    def rising(self) -> Floats:
        """F at every edge, made to rise and nowhere below zero: the nearest such curve, by how sure F is at each.

        Weights matter: of cells of different rounds some are counted with far more noise, and would move the others.
        """
        curve = optimize.isotonic_regression(self.mean[1:], weights=1 / self.covariance.diagonal()).x
        return np.concatenate([[0.0], np.maximum(curve, 0.0)])

    @property
    def size(self) -> float:
        """About how many records the group has."""
        return float(self.rising[-1])

    @cached_property
    def _moments(self) -> tuple[Floats, Floats]:
        """Sums over observations of w_i^(k - j) w_n^j v^(k/2), at every edge i but the first: for k = 2, and for k = 4.

        The second and fourth moments of the noise of F(x) - pF(high) are polynomials in p with these coefficients; the
        fourth is needed where noise has another kurtosis than a normal law.
        """
        second = np.stack(
            [self.covariance.diagonal(), self.covariance[:, -1], np.full(len(self.covariance), self.covariance[-1, -1])]
        )
        if not self.excess:
            return second, np.zeros((5, len(self.covariance)))
        rows, last, v = self.weights, self.weights[-1], self.variances
        squares, cross = rows**2, last**2
        fourth = [squares**2 @ v**2, (squares * rows) @ (last * v**2), squares @ (cross * v**2)]
        fourth += [rows @ (cross * last * v**2), np.full(len(rows), cross**2 @ v**2)]
        return second, np.stack(fourth)

    def _gaps(self, p: float) -> tuple[Floats, Floats, Floats]:
        """Return D(x) = F(x) - pF(high) at every edge, the standard deviation of its noise and its excess kurtosis."""
        second, fourth = self._moments
        variance = np.maximum(np.array([1.0, -2 * p, p**2]) @ second, 0.0)
        fourths = self.excess * np.maximum(np.array([1.0, -4 * p, 6 * p**2, -4 * p**3, p**4]) @ fourth, 0.0)
        first = p**2 * self.covariance[-1, -1]  # F(low) is 0
        noise = np.sqrt(np.append(first, variance))
        excess = np.append(self.excess * p**4 * fourth[4, 0], fourths) / np.maximum(noise**4, 1e-300)
        return self.rising - p * self.size, noise, np.minimum(excess, self.excess)  # a sum has no more than its parts

    def accepted(self, p: float, level: float) -> Mask:
        """Return of each cell [l, r) whether the p-quantile may lie in it.

        It does not where F(l) is too large for at most np records below l, or F(r) too small for at least np below r.
        """
        gaps, noise, excess = self._gaps(p)
        chance = (1 - level) / 2
        farther = stretch(excess, chance)
        size = max(round(self.size), 0)
        if size * min(p, 1 - p) < _FEW:
            k = np.arange(size + 1)
            law, scale = stats.binom.pmf(k, size, p), np.maximum(noise * farther, 1e-9)
            off = (k - size * p - gaps[:, None]) / scale[:, None]
            far_above, far_below = special.ndtr(off) @ law < chance, special.ndtr(-off) @ law < chance
        else:
            variance = noise**2 + size * p * (1 - p)
            farther = stretch(excess * noise**4 / variance**2, chance)
            limit = -special.ndtri(chance) * farther * np.sqrt(variance) + 0.5  # records are whole
            far_above, far_below = gaps > limit, gaps < -limit
        return np.asarray(~(far_above[:-1] | far_below[1:]))

    def statistic(self, p: float, level: float) -> Floats:
        """Return the statistic of the test of the p-quantile at every edge, cut where the level rejects; it rises."""
        gaps, noise, _ = self._gaps(p)
        scaled = gaps / np.sqrt(np.maximum(noise**2 + self.size * p * (1 - p), 1e-12))
        most = -float(special.ndtri((1 - level) / 2))
        return np.asarray(np.maximum.accumulate(np.clip(scaled, -most, most)))

    def interval(self, p: float, level: float = 0.95) -> tuple[float, float]:
        """Return the hull of the cells that a test does not reject, or all of the range where it rejects every one."""
        kept = np.flatnonzero(self.accepted(p, level))
        if not kept.size:
            return float(self.edges[0]), float(self.edges[-1])
        return float(self.edges[kept[0]]), float(self.edges[kept[-1] + 1])

    def shares(self, level: float = 0.95) -> tuple[Floats, Floats, Floats]:
        """Return the share of records below every edge, and the least and the most that the test does not reject.

        A share p below x is rejected where x is rejected as the p-quantile: shares and quantiles agree.
        """
        p = np.linspace(0.0, 1.0, _SHARES)
        covariance = np.zeros((self.edges.size, self.edges.size))
        covariance[1:, 1:] = self.covariance
        noise = covariance.diagonal()[:, None] - 2 * np.outer(covariance[:, -1], p) + covariance[-1, -1] * p**2
        size, chance = max(self.size, 0.0), (1 - level) / 2
        reach = -special.ndtri(chance) * np.sqrt(np.maximum(noise, 0.0) + size * p * (1 - p)) + 0.5
        kept = np.abs(self.rising[:, None] - size * p) <= reach
        kept[0], kept[-1] = p == 0, p == 1  # below the least value there is nothing, and all below the greatest
        low, high = p[kept.argmax(axis=1)], p[::-1][kept[:, ::-1].argmax(axis=1)]
        none = ~kept.any(axis=1)
        low, high = np.where(none, 0.0, low), np.where(none, 1.0, high)
        middle = np.clip(self.rising / max(size, 1e-300), 0.0, 1.0)
        middle[-1] = 1.0
        return middle, np.minimum(low, middle), np.maximum(high, middle)

    def sampling_part(self, p: float) -> float:
        """Return which part of the variance of F at the p-quantile is there without noise."""
        gaps, noise, _ = self._gaps(p)
        sampling = self.size * p * (1 - p)
        return float(sampling / max(sampling + noise[int(np.argmin(np.abs(gaps)))] ** 2, 1e-300))

    def population(self, count: int, prior: float, rng: np.random.Generator) -> Floats:
        """Return draws of the distribution function at every edge: true counts behind the noise, then shares of them.

        The shares are of a Dirichlet law whose prior counts for half of so many records.
        """
        counts = self.draws(count, rng)
        parts = rng.standard_gamma(counts + prior / 2 / counts.shape[1]) + 1e-300
        heights = np.zeros((count, self.edges.size))
        np.cumsum(parts, axis=1, out=heights[:, 1:])
        return heights / heights[:, -1:]

    def draws(self, count: int, rng: np.random.Generator) -> Floats:
        """Return draws of the true counts of the cells, (draws, cells), none below zero.

        Cumulative curves are drawn and made to rise: halfway between the least rising curve above and the greatest
        below, so that neither end gathers what is cut off.
        """
        noise = linalg.solve_triangular(self.root, rng.standard_normal((len(self.root), count)), trans="T", lower=True)
        curves = self.mean[1:] + noise.T
        above = np.maximum.accumulate(curves, axis=1)
        below = np.minimum.accumulate(curves[:, ::-1], axis=1)[:, ::-1]
        rising = np.maximum((above + below) / 2, 0.0)
        return np.diff(rising, axis=1, prepend=0.0)


def stretch(excess: Floats, chance: float) -> Floats:
    """Return how many times as far as a normal law a law with this excess kurtosis reaches (Cornish and Fisher 1938).

    Never farther than a Laplace law of the same variance, whose excess is 3 and of which such noise is a sum.
    """
    z = -float(special.ndtri(chance))
    if z <= math.sqrt(3):
        return np.ones_like(excess)
    laplace = -math.log(2 * chance) / math.sqrt(2)
    return np.minimum(1 + (z**2 - 3) * excess / 24, max(laplace / z, 1.0))
