r"""What may lie in the tail of a column: generalized Pareto laws and lumps, weighed by counts and sums seen with noise.

The tail begins at u and ends at the public bound T; distances from u are cut into octaves. A share Q of the n records
lies there, by a generalized Pareto law (ξ, β) truncated at T, and at most one octave holds a lump of h records more, at
one of a few places of it. All of them are on a grid, with their prior; noisy counts, and noisy sums of positions within
octaves, weigh it. Laws fit no column exactly: an expected count of m may be off by a part τ of it (Pickands 1975 for
the law; the misfit, the priors and the lumps are assumptions, and named so where an answer is told).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sottovoce.privacy.numbers import Floats, Integers, Mask

_SHAPES = np.array([-0.4, -0.2, -0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.05, 1.2, 1.4, 1.6])
"""ξ; never 0 or 1, where the closed forms of the law and of its integral end."""
_SHAPE, _SHAPE_SD = 0.6, 0.5
"""The prior of ξ: tails of durations, costs and sizes mostly have 0.1 to 1.1."""
_MISFIT = 0.15
"""τ: by such a part of itself a count is off what the law expects."""
_LUMP, _LUMP_SEEN, _FADING, _NEAR = 0.5, 0.15, 0.5, 3
"""The prior weight of a lump beside that of none: beyond the last octave seen, within them, and by how much it falls
with each octave further than so many."""
_HEIGHTS, _LARGEST = 16, 8.0
"""How many sizes of a lump are tried; laws less likely than the best by this much of a logarithm have no lumps."""
_PLACES, _LAST_PLACES, _PLACES_UNSEEN = (0.35, 0.85), (0.3, 0.8, 1.0), (1.0,)
"""Where in its octave a lump lies; in the last perhaps at the bound itself."""
_NODES = 400
"""The tail's sum is told by so many quantiles, and four further out."""
_FAINT = 1e-6


@dataclass(frozen=True)
class _Lumps:
    """Laws with a lump in one octave at one place: log weights (heights, laws), and what lumps add to the sum."""

    octave: int | None
    log: Floats
    laws: Integers
    added: Floats
    heights: Floats


@dataclass(frozen=True, eq=False)
class TailModel:
    """The tail beyond u, of which each octave's noisy count is known.

    Attributes
    ----------
    edges
        Distances from u at which octaves end, from 0 to the bound.
    counts, noise
        The noisy count of each octave, and the standard deviation of its noise.
    n, finest
        How many records there are, and the standard deviation of the noise that a later sum will have.
    """

    edges: Floats
    counts: Floats
    noise: float
    n: float
    finest: float

    @property
    def octaves(self) -> int:
        """How many octaves the tail has."""
        return self.counts.size

    @cached_property
    def seen(self) -> int:
        """The last octave that holds records for sure: its count above 3 deviations, or two in a row above 2; or -1."""
        z = self.counts / self.noise
        sure = np.flatnonzero((z > 3) | ((z > 2) & (np.r_[0.0, z[:-1]] > 2)))
        return int(sure.max()) if sure.size else -1

    @cached_property
    def shares(self) -> Floats:
        """Q: the shares of all records that may lie in the tail."""
        total = float(self.counts.sum())
        sd = self.noise * math.sqrt(self.octaves) + math.sqrt(max(total, 1.0))
        high = min(max(total, 0.0) + 3.5 * sd, self.n)
        low = min(max(total - 3.5 * sd, 0.3), high / 2)
        return np.unique(np.r_[np.geomspace(low, high, 12), np.linspace(low, high, 8)]) / self.n

    @cached_property
    def _laws(self) -> tuple[Floats, Floats, Floats]:
        """Survival at each edge and its integral up to there, (edges, ξ, β), and the log prior (ξ, β, Q)."""
        first, last = self.edges[1], self.edges[-1]
        number = max(10, min(26, int(2 * math.log2(last / first * 6)) + 1))
        scale, shape = np.geomspace(first / 6, last, number)[None, :], _SHAPES[:, None]

        def survival(t: float) -> Floats:
            inner = 1 + shape * t / scale
            return np.where(inner > 0, np.maximum(inner, 1e-300) ** (-1 / shape), 0.0)

        def integral(t: float) -> Floats:
            return np.asarray(scale / (1 - shape) * (1 - survival(t) ** (1 - shape)))

        end = survival(float(last))
        survivals = np.stack([(survival(t) - end) / (1 - end) for t in self.edges.tolist()])
        integrals = np.stack([(integral(t) - t * end) / (1 - end) for t in self.edges.tolist()])
        by_share = np.log(np.gradient(self.shares)) - np.log(self.shares) / 2
        by_shape = -(((_SHAPES - _SHAPE) / _SHAPE_SD) ** 2) / 2
        prior = np.broadcast_to(by_shape[:, None, None], (*survivals.shape[1:], by_share.size)) + by_share
        return survivals, integrals, prior

    @cached_property
    def parts(self) -> Floats:
        """Which part of the tail each law expects in each octave, (octaves, ξ, β)."""
        survivals = self._laws[0]
        return np.asarray(np.maximum(survivals[:-1] - survivals[1:], 0.0))

    def positions(self, first: int, middle: float) -> Floats:
        """Return what each law expects of (t - middle)/(end - middle) over the records of every octave from `first`."""
        survivals, integrals, _ = self._laws
        low, high = self.edges[first:-1, None, None], self.edges[first + 1 :, None, None]
        inner = (low - middle) * survivals[first:-1] - (high - middle) * survivals[first + 1 :]
        return np.asarray(np.maximum((inner + integrals[first + 1 :] - integrals[first:-1]) / (high - middle), 0.0))

    def _weighed(self, first: int | None, sums: Floats | None, noise: float, middle: float) -> list[_Lumps]:
        """Return every law without a lump and with one, weighed by counts, and by sums of positions from `first`."""
        prior = self._laws[2]
        means = None if sums is None or first is None else self.positions(first, middle)
        each, seen = [], []
        for k in range(self.octaves):
            expected = self.n * self.shares * self.parts[k][:, :, None]
            y: Floats | float = float(self.counts[k])
            variance: Floats | float = self.noise**2
            if means is not None and sums is not None and first is not None and k >= first:
                # The count, told as a sum of positions, and the sum itself are two looks at one number.
                least = max((self.edges[k] - middle) / (self.edges[k + 1] - middle), 0.25)
                part = means[k - first] / np.maximum(self.parts[k], 1e-12)
                ratio = np.where(self.parts[k] > 1e-9, np.clip(part, least, 1.0), (1 + least) / 2)[:, :, None]
                by_count, by_sum = 1 / (self.noise * ratio) ** 2, 1 / noise**2
                y = (by_count * y * ratio + by_sum * sums[k - first]) / (by_count + by_sum)
                variance, expected = 1 / (by_count + by_sum), self.n * self.shares * means[k - first][:, :, None]
            full = variance + expected + (_MISFIT * expected) ** 2
            each.append(-((y - expected) ** 2) / full / 2 - np.log(full) / 2)
            seen.append((y, variance, expected))
        base = prior + sum(each)
        result = [_Lumps(None, base.reshape(1, -1), np.arange(base.size), np.zeros(1), np.zeros(1))]
        least_height = max(1.0, 0.3 * self.finest)
        heights = np.geomspace(least_height, max(self.n / 4, 4 * least_height), _HEIGHTS)
        for k in range(self.octaves):
            others = (base - each[k]).ravel()
            laws = np.flatnonzero(others > others.max() - _LARGEST)
            y, variance, expected = (np.broadcast_to(part, base.shape).ravel()[laws] for part in seen[k])
            exceeds = means is not None and first is not None and k >= first
            places = _PLACES_UNSEEN if not exceeds else _LAST_PLACES if k == self.octaves - 1 else _PLACES
            beyond = k - self.seen
            weight = _LUMP * _FADING ** max(beyond - _NEAR - 1, 0) if beyond > 0 else _LUMP_SEEN
            for place in places:
                value = self.edges[k] + place * (self.edges[k + 1] - self.edges[k])
                size = (value - middle) / (self.edges[k + 1] - middle) if exceeds else 1.0
                mean = expected + heights[:, None] * size
                full = variance + mean + (_MISFIT * expected) ** 2
                log = others[laws] - (y - mean) ** 2 / full / 2 - np.log(full) / 2
                log = log + math.log(weight / len(places) / heights.size)
                result.append(_Lumps(k, log, laws, heights * (value - middle) * exceeds, heights))
        return result

    def tail_sum(self, first: int, sums: Floats, noise: float, middle: float) -> tuple[Floats, Floats]:
        """Return values and weights of Σ(t - middle) over the records from octave `first` on, given noisy positions."""
        weighed = self._weighed(first, sums, noise, middle)
        survivals, integrals, prior = self._laws
        beyond = integrals[-1] - integrals[first] + (self.edges[first] - middle) * survivals[first]
        smooth = np.broadcast_to(self.n * self.shares * beyond[:, :, None], prior.shape).ravel()
        top, values, weights = max(item.log.max() for item in weighed), [], []
        for item in weighed:
            weight = np.exp(item.log - top)
            height, law = np.nonzero(weight > _FAINT)
            values.append(smooth[item.laws][law] + item.added[height])
            weights.append(weight[height, law])
        value, weight = np.concatenate(values), np.concatenate(weights)
        order = np.argsort(value)
        value, weight = value[order], weight[order] / weight.sum()
        ranks = np.r_[0.0002, 0.001, (np.arange(_NODES) + 0.5) / _NODES, 0.999, 0.9998]
        shown = np.r_[0.0005, 0.001, np.full(_NODES, 0.997 / _NODES), 0.001, 0.0005]
        return np.asarray(np.interp(ranks, np.cumsum(weight) - weight / 2, value)), shown

    @cached_property
    def _by_counts(self) -> tuple[Mask, Floats, Floats]:
        """Which laws are likely by counts alone, how likely, and the expected square of a lump in each octave."""
        weighed = self._weighed(None, None, 1.0, 0.0)
        top = max(item.log.max() for item in weighed)
        weight, squares = np.zeros(self._laws[2].size), np.zeros(self.octaves)
        for item in weighed:
            likely = np.exp(item.log - top)
            weight[item.laws] += likely.sum(axis=0)
            if item.octave is not None:
                squares[item.octave] += float((likely.sum(axis=1) * item.heights**2).sum())
        kept = weight / weight.sum() > _FAINT
        return kept, weight[kept] / weight[kept].sum(), squares / weight.sum()

    def _expected(self, parts: Floats) -> Floats:
        """Return what each likely law expects in octaves, (octaves, laws), of parts of the tail."""
        kept = self._by_counts[0]
        shape = self._laws[2].shape
        return np.stack(
            [self.n * np.broadcast_to(self.shares * part[:, :, None], shape).ravel()[kept] for part in parts]
        )

    @cached_property
    def counts_expected(self) -> Floats:
        """How many records each octave is expected to hold, by counts alone."""
        return np.asarray(self._expected(self.parts) @ self._by_counts[1])

    def variance_left(self, first: int, noise: float, middle: float) -> float:
        """Return the variance that the tail's sum is expected to keep once its positions are seen from `first` on."""
        weight, squares = self._by_counts[1:]
        expected = self._expected(self.positions(first, middle))
        mean = expected @ weight
        off = expected - mean[:, None]
        spread = (off * weight) @ off.T
        spread[np.diag_indices(len(spread))] += squares[first:]
        reach = self.edges[first + 1 :] - middle
        along = spread @ reach
        seen = along @ np.linalg.solve(spread + np.diag(noise**2 + mean), along)
        return float(max(reach @ along - seen, 0.0) + (reach**2 * np.maximum(mean, 0.0)).sum())
