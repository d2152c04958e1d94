"""What noisy counts tell of sums of cells by themselves: unbiased, before any is kept from falling below zero."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import stats

from sottovoce.inference.synthesis.field_fit import FieldFit
from sottovoce.privacy.numbers import Floats, Integers
from sottovoce.privacy.randomness import seeded_rng

__all__ = ["LinearEvidence", "non_negative_interval", "share_interval"]

_DRAWS = 1000
"""Draws that intervals are made of."""
_SPANNED = 2048
"""Of cliques up to so many cells sums of coarser counts are weighed against each other."""
_EXACT = 1e-6
"""What a sum may be off by as a combination of counts."""
_KNOWN = 1e-3
"""The standard deviation, in records, that how many there are in all is given beside noisy counts: none to speak of."""
_FARTHEST = -30.0
"""Standard deviations below zero from which intervals are no shorter."""


@dataclass(frozen=True, eq=False)
class LinearEvidence:
    r"""Draws of sums of cells, centred at the best unbiased estimate from noisy counts.

    A field keeps all shares from falling below zero, which lifts the rare ones and lowers all others; a count by itself
    knows of no such thing. With :math:`a = Q'w` the estimate is :math:`w'\tilde n`, by generalized least squares in
    the clique, of tables that agree with all others and with the number of records. The draws add the noise, as the
    estimate passes it on, and the sampling deviation of n records of the field.

    Attributes
    ----------
    fit
        The field of all that was released.

    Examples
    --------
    >>> from sottovoce.inference.synthesis.noisy_marginal import NoisyMarginal
    >>> table = NoisyMarginal.of_table(("a", "b"), [[610, 395], [-12, 7]], 100.0)
    >>> evidence = LinearEvidence(FieldFit({"a": 2, "b": 2}, 1000, (table,)), seed=1)
    >>> draws = evidence.draws(("a", "b"), np.array([0, 1, 2, 2]), 3)
    >>> [10 * int(low / 10) for low in non_negative_interval(draws, 0.95)[0]]
    [570, 360, 0]
    """

    fit: FieldFit
    seed: int

    @cached_property
    def _drawn(self) -> tuple[Floats, Floats]:
        """Return draws of all counts as tables that agree, and of the sampling deviation of all cliques' cells."""
        fit, rng = self.fit, seeded_rng(self.seed)
        spread = np.sqrt(np.concatenate([item.variance for item in fit.marginals]))
        seen = np.concatenate([item.counts for item in fit.marginals])
        noisy = fit.agreeing(seen + spread * rng.standard_normal((_DRAWS, seen.size)))
        for at, _ in self._places:
            noisy[:, at] += (fit.n - noisy[:, at].sum(axis=1, keepdims=True)) / (at.stop - at.start)
        records = fit.tree.sample_counts(fit.potentials(fit.duals)[0], fit.n, _DRAWS, rng)
        return noisy, records - fit.n * fit.means

    @cached_property
    def _places(self) -> list[tuple[slice, tuple[str, ...]]]:
        """Where the counts of each table of all cells stand, and its clique."""
        ends = np.cumsum([0, *(item.counts.size for item in self.fit.marginals)]).tolist()
        spans = zip(ends[:-1], ends[1:], self.fit.marginals, strict=True)
        return [
            (slice(first, last), item.clique)
            for first, last, item in spans
            if np.array_equal(item.place, np.arange(item.counts.size)) and np.ptp(item.variance) == 0
        ]

    def draws(self, clique: Sequence[str], place: Integers, size: int) -> Floats | None:
        """Return draws of the counts of the cells that a clique's cells add to, or None where counts do not tell them.

        Parameters
        ----------
        clique
            The columns, one or all of those of a clique that was measured.
        place, size
            For each cell, the last column fastest, what it adds to, and how many of these there are.
        """
        noisy, deviations = self._drawn
        homes = sorted((c for c in self.fit.cliques if set(clique) <= set(c)), key=self._cells)
        for home in homes:
            into = self._spread(clique, place, home)
            weights = self._weights(home, into, size)
            if weights is not None:
                at, matrix, constant = weights
                part = self.fit.tree.split(deviations)[self.fit.cliques.index(home)].reshape(_DRAWS, -1)
                return np.asarray(noisy[:, at] @ matrix.T + constant + part @ _sums(into, size).T)
        return None

    def _cells(self, clique: Sequence[str]) -> int:
        return math.prod(self.fit.sizes[name] for name in clique)

    def _spread(self, clique: Sequence[str], place: Integers, home: Sequence[str]) -> Integers:
        """Return for each cell of a clique what it adds to, given so for the cells of some of its columns."""
        codes = np.indices([self.fit.sizes[name] for name in home])
        cells = np.ravel_multi_index(
            [codes[list(home).index(name)].ravel() for name in clique], [self.fit.sizes[name] for name in clique]
        )
        return np.asarray(np.asarray(place)[cells])

    def _weights(self, home: tuple[str, ...], into: Integers, size: int) -> tuple[Integers, Floats, Floats] | None:
        """Return which counts tell sums of a clique's cells, with what weights, and what is added."""
        for at, clique in self._places:
            if clique == home:
                return np.arange(at.start, at.stop), _sums(into, size), np.zeros(size)
        if self._cells(home) > _SPANNED:
            return None
        wanted = _sums(into, size)
        rows, spread, places, first = [np.ones((1, into.size))], [np.array([_KNOWN])], [], 0
        for item in self.fit.marginals:
            if set(item.clique) <= set(home):
                rows.append(_sums(self._spread(item.clique, item.place, home), item.counts.size))
                spread.append(np.sqrt(np.maximum(item.variance, _KNOWN**2)))
                places.append(first + np.arange(item.counts.size))
            first += item.counts.size
        seen = np.concatenate(rows) / np.concatenate(spread)[:, None]
        weights = wanted @ np.linalg.pinv(seen, rcond=_EXACT**2)
        if np.abs(weights @ seen - wanted).max() > _EXACT**0.5:
            return None
        weights = weights / np.concatenate(spread)
        return np.concatenate(places), weights[:, 1:], weights[:, 0] * self.fit.n


def _sums(place: Integers, size: int) -> Floats:
    """Return which cells add to each of some sums, (sums, cells)."""
    return np.asarray(np.asarray(place) == np.arange(size)[:, None], dtype=np.float64)


def non_negative_interval(draws: Floats, level: float) -> tuple[Floats, Floats]:
    """Return the ends of intervals for what is not below zero, given unbiased draws of it, (draws, values).

    They are the usual ends with nothing below zero, and reach up at least to what is most plausible of a normal law
    that is cut at zero (Roe and Woodroofe 1999): no interval is empty, and each holds as often as the usual one.

    >>> low, high = non_negative_interval(np.random.default_rng(0).normal(-50, 10, (4000, 1)), 0.95)
    >>> float(low[0]), bool(4 < high[0] < 7)
    (0.0, True)
    """
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    centre, spread = draws.mean(axis=0), np.maximum(draws.std(axis=0), np.finfo(float).tiny)
    away = np.maximum(centre / spread, _FARTHEST)
    plausible = spread * (away + stats.norm.isf((1 - level) * stats.norm.cdf(away)))
    return np.maximum(low, 0.0), np.maximum(np.maximum(high, plausible), 0.0)


def share_interval(shares: Floats, level: float) -> tuple[Floats, Floats]:
    """Return the ends of intervals for shares, which are neither below zero nor above one.

    >>> low, high = share_interval(np.random.default_rng(0).normal(1.02, 0.01, (4000, 1)), 0.95)
    >>> bool(0.98 < low[0] < 1), float(high[0])
    (True, 1.0)
    """
    low, high = non_negative_interval(shares, level)
    _, beside = non_negative_interval(1 - shares, level)
    return np.clip(np.minimum(low, 1 - beside), 0, 1), np.clip(high, 0, 1)
