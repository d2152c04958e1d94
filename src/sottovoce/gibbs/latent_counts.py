"""The true counts behind noisy ones, resampled inside a Gibbs sweep: what makes intervals honest.

All of this is post-processing of a release: it costs no privacy, and none rests on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sottovoce.gibbs.log_concave import draw_log_concave
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats

__all__ = ["LatentCounts"]

Integers = NDArray[np.int64]

_NO_END = 2**40
_SHAPES = tuple(2.0 ** (k / 2) for k in range(21))


@dataclass(frozen=True, eq=False)
class LatentCounts:
    r"""Noisy tables of (cells, categories), and the draw of the true ones given everything else.

    In each cell m records were counted in every table, so the true counts of table f are Multinomial(m, θ_f) with
    the cell's probabilities, and the noise has the law it was drawn from. The m of all cells are negative binomial with
    unknown shape and mean. (A flat prior for each m by itself would pull every θ towards the uniform one, the more the
    more cells there are: m is as many unknowns as cells.) One call to `resample` draws from their
    exact conditional laws, one after the other,

    - the shape and the mean of the negative binomial,
    - for random pairs of categories of each table, how the pair's records split between them, and
    - each m, added to or taken from one random category of every table.

    The last two are log-concave on the integers.

    Parameters
    ----------
    noisy
        One array (cells, categories) a table; the cells of all tables are the same.
    noises
        The noise on each table.
    runs
        How many independent runs the cells belong to, one run's cells after the other's.
    shapes
        The shapes that m's negative binomial may have, all >= 1, equally likely.
    odds
        The parameters of the Beta prior on its success probability.

    Examples
    --------
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> latent = LatentCounts((np.array([[31, -2], [4, 9]]),), (IntegerNoise("laplace", 2.0),))
    >>> counts, rng = latent.start(), seeded_rng(1)
    >>> for _ in range(10):
    ...     counts = latent.resample(counts, (np.log([[0.9, 0.1], [0.5, 0.5]]),), rng)
    >>> counts[0].shape, bool(counts[0].min() >= 0)
    ((2, 2), True)
    """

    noisy: tuple[Integers, ...]
    noises: tuple[IntegerNoise, ...]
    runs: int = 1
    shapes: tuple[float, ...] = _SHAPES
    odds: tuple[float, float] = (1.0, 1.0)

    def __post_init__(self) -> None:
        noisy = tuple(np.asarray(table, dtype=np.int64) for table in self.noisy)
        object.__setattr__(self, "noisy", noisy)
        object.__setattr__(self, "noises", tuple(self.noises))
        if not noisy or len(self.noises) != len(noisy) or any(t.ndim != 2 or len(t) != len(noisy[0]) for t in noisy):
            raise InvalidValue("latent counts take one array (cells, categories) and one noise a table, cells alike")
        if len({noise.kind for noise in self.noises}) > 1:
            raise InvalidValue("the noise on all tables must be of one kind, Laplace or Gaussian")
        if self.runs < 1 or len(noisy[0]) % self.runs:
            raise InvalidValue(f"{len(noisy[0])} cells do not fall into {self.runs} runs")
        if not self.shapes or min(self.shapes) < 1 or min(self.odds) <= 0:
            raise InvalidValue("shapes must be >= 1 and odds > 0")

    def start(self) -> tuple[Integers, ...]:
        """Return counts to begin with: whole, none below zero, in every table the same sum in a cell."""
        clipped = [np.maximum(table, 0) for table in self.noisy]
        totals = np.rint(np.mean([table.sum(axis=1) for table in self.noisy], axis=0)).astype(np.int64)
        totals = np.maximum(totals, 0)
        started = []
        for table in clipped:
            counts = table.copy()
            spare = totals - counts.sum(axis=1)
            # What is missing goes to the largest count; what is too much comes off the smallest ones first.
            counts[np.arange(len(counts)), counts.argmax(axis=1)] += np.maximum(spare, 0)
            order = np.argsort(-counts, axis=1, kind="stable")
            ranked = np.take_along_axis(counts, order, axis=1)
            kept = np.minimum(ranked.cumsum(axis=1), totals[:, None])
            np.put_along_axis(counts, order, np.diff(kept, axis=1, prepend=0), axis=1)
            started.append(counts)
        return tuple(started)

    def resample(
        self, counts: Sequence[Integers], log_theta: Sequence[Floats], rng: np.random.Generator
    ) -> tuple[Integers, ...]:
        """Return new true counts given each cell's log-probabilities, one array (cells, categories) a table."""
        if not len(counts[0]):
            return tuple(counts)
        shape, log_q = self._draw_sizes(counts[0].sum(axis=1), rng)
        new = self._split_pairs(counts, log_theta, rng)
        self._move_totals(new, log_theta, (shape, log_q), rng)
        return tuple(new)

    def _draw_sizes(self, totals: Integers, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw the shape (its mean summed out) and log q of m's law, one a run; return one a cell."""
        m = totals.reshape(self.runs, -1)
        cells, sums = m.shape[1], m.sum(axis=1)
        shapes = np.array(self.shapes)
        first, second = self.odds
        logs = np.stack([special.gammaln(m + a).sum(axis=1) - cells * special.gammaln(a) for a in shapes], axis=1)
        logs += special.betaln(first + sums[:, None], second + cells * shapes)
        below = np.exp(logs - logs.max(axis=1, keepdims=True)).cumsum(axis=1)
        pick = (below[:, :-1] < rng.random((self.runs, 1)) * below[:, -1:]).sum(axis=1)
        drawn = shapes[pick]
        up, down = rng.standard_gamma(first + sums), rng.standard_gamma(second + cells * drawn)
        log_q = -np.log1p(down / np.maximum(up, 1e-300))
        return np.repeat(drawn, cells), np.repeat(log_q, cells)

    def _split_pairs(
        self, counts: Sequence[Integers], log_theta: Sequence[Floats], rng: np.random.Generator
    ) -> list[Integers]:
        """Draw how the records of random pairs of categories split; each pair keeps its sum."""
        side_by_side, logs = np.concatenate(counts, axis=1), np.concatenate(log_theta, axis=1)
        left, right, scale = self._pairs(rng)
        row = np.arange(len(side_by_side))[:, None]
        both = (side_by_side[row, left] + side_by_side[row, right]).ravel()
        tilt = (logs[row, left] - logs[row, right]).ravel()
        noisy = np.concatenate(self.noisy, axis=1)
        noisy_left, noisy_right = noisy[row, left].ravel(), noisy[row, right].ravel()
        log_factorial = np.concatenate([[0.0], np.log(np.arange(1.0, both.max() + 2)).cumsum()])

        def log_weight(x: Integers, i: Integers) -> Floats:
            rest = both[i] - x
            return np.asarray(
                x * tilt[i]
                - log_factorial[x]
                - log_factorial[rest]
                + self._log_noise((noisy_left[i] - x) / scale[i])
                + self._log_noise((noisy_right[i] - rest) / scale[i])
            )

        # Near the mode: what the probabilities say and what the noisy counts say, weighed by their precisions.
        share = special.expit(tilt)
        by_theta, by_noise = 1 / (both * share * (1 - share) + 0.5), 2 / (self._spread * scale**2)
        near = by_theta * both * share + by_noise * (noisy_left + both - noisy_right) / 2
        start = np.clip(np.rint(near / (by_theta + by_noise)), 0, both).astype(np.int64)
        drawn = draw_log_concave(log_weight, np.zeros_like(both), both, start, rng)
        side_by_side[row, left] = drawn.reshape(left.shape)
        side_by_side[row, right] = (both - drawn).reshape(left.shape)
        return np.split(side_by_side, np.cumsum([table.shape[1] for table in counts])[:-1], axis=1)

    def _pairs(self, rng: np.random.Generator) -> tuple[Integers, Integers, Floats]:
        """Draw disjoint pairs of categories within each table, by cell: their columns, and the scale of their noise."""
        lefts, rights, scales = [], [], []
        first = 0
        for table, noise in zip(self.noisy, self.noises, strict=True):
            cells, size = table.shape
            order = first + rng.permuted(np.broadcast_to(np.arange(size), (cells, size)), axis=1)
            half = size // 2
            lefts.append(order[:, :half])
            rights.append(order[:, half : 2 * half])
            scales.append(np.full((cells, half), noise.scale))
            first += size
        return np.concatenate(lefts, axis=1), np.concatenate(rights, axis=1), np.concatenate(scales, axis=1).ravel()

    def _log_noise(self, x: Floats) -> Floats:
        """Return log Pr of noise of x scales, up to a constant."""
        return -np.abs(x) if self.noises[0].kind == "laplace" else -x * x / 2

    @property
    def _spread(self) -> float:
        """The variance of the noise in units of its scale squared, about."""
        return 2.0 if self.noises[0].kind == "laplace" else 1.0

    def _move_totals(
        self,
        counts: list[Integers],
        log_theta: Sequence[Floats],
        sizes: tuple[Floats, Floats],
        rng: np.random.Generator,
    ) -> None:
        """Draw each cell's number of records, in place: one random category of every table takes the difference."""
        cells = len(counts[0])
        row = np.arange(cells)
        picked = [rng.integers(0, table.shape[1], cells) for table in counts]
        totals = counts[0].sum(axis=1)
        rests = [totals - table[row, k] for table, k in zip(counts, picked, strict=True)]
        shape, log_q = sizes
        tilt = log_q + np.sum([theta[row, k] for theta, k in zip(log_theta, picked, strict=True)], axis=0)
        noisy = [table[row, k] for table, k in zip(self.noisy, picked, strict=True)]

        def log_weight(m: Integers, i: Integers) -> Floats:
            value = m * tilt[i] + special.gammaln(m + shape[i]) + (len(counts) - 1) * special.gammaln(m + 1.0)
            for rest, seen, noise in zip(rests, noisy, self.noises, strict=True):
                x = m - rest[i]
                value += noise.log_weight(seen[i] - x) - special.gammaln(x + 1.0)
            return np.asarray(value)

        low = np.max(rests, axis=0)
        drawn = draw_log_concave(log_weight, low, np.full(cells, _NO_END), totals, rng)
        for table, k, rest in zip(counts, picked, rests, strict=True):
            table[row, k] = drawn - rest
