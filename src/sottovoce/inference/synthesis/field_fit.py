"""A Markov random field fitted to noisy marginals of any overlap, and draws from its noise-aware posterior.

All of this is post-processing of releases: no privacy rests on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg, sparse

from sottovoce.inference.latent.junction_tree import BucketTree
from sottovoce.inference.synthesis.batched_lbfgs import Metric, minimise
from sottovoce.inference.synthesis.consistency import OverlappingTables
from sottovoce.inference.synthesis.noisy_marginal import NoisyMarginal
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import seeded_rng

__all__ = ["FieldFit"]

_PRIOR_RECORDS = 1.0
"""The weight of the entropy beside the likelihood: that of one record drawn from the uniform law."""
_FIRST, _ROUNDS, _STEPS = 30, 3, 60
"""Steps with a plain metric, how often a better one is learnt, and steps with it, at most."""
_LEARNT, _SHRUNK, _DENSE = 20_000, 0.02, 2500
"""Records that the metric is learnt from, what is added to its diagonal beside each share, and its largest block. They
decide how long it takes, not what comes out."""
_CLOSE = 0.05
"""How near the estimate is come to, in standard deviations of the noise: far less than a posterior's own spread."""
_HELD = 1 << 24
"""Numbers that are held at once."""
_LEAST_VARIANCE = 1e-2
"""No count is known better than this, in records squared: counts that agree by construction may differ by rounding."""


@dataclass(frozen=True, eq=False)
class FieldFit:
    r"""The maximum-entropy field given noisy marginals, :math:`p_\theta(x) \propto \exp \sum_c \theta_c(x_c)`.

    With ñ = nQμ + noise of variance σ², the estimate solves

    .. math:: \min_\mu \; \tfrac12 \sum_k (\tilde n_k - n (Q\mu)_k)^2/\sigma_k^2 - \tau H(\mu)

    over the means μ of one record (McKenna, Sheldon and Miklau 2019; τ one record's entropy), by its smooth dual,
    θ = Q'λ (Dudík, Phillips and Schapire 2007). Noise alone weighs the counts: sampling is common to all of them.

    Draws of the posterior are exact where the model is linear and Gaussian: the estimate given the noisy counts with
    noise of their own law and the sampling deviation of n records of the estimate added (perturb and optimise:
    Papandreou and Yuille 2010; the posterior is that of Räisä, Jälkö, Kaski and Honkela 2023).

    Attributes
    ----------
    sizes
        The categories of every column, by name.
    n
        How many records there are.
    marginals
        What was released.

    Examples
    --------
    >>> table = NoisyMarginal.of_table(("a", "b"), [[410, 195], [88, 303]], 25.0)
    >>> fit = FieldFit({"a": 2, "b": 2}, 1000, (table,))
    >>> fit.tree.split(fit.means)[0].round(2).tolist()
    [[[0.41, 0.2], [0.09, 0.3]]]
    """

    sizes: Mapping[str, int]
    n: int
    marginals: tuple[NoisyMarginal, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "marginals", tuple(self.marginals))
        if self.n < 1:
            raise InvalidValue(f"a field is fitted to at least one record. Got n={self.n}")
        for item in self.marginals:
            if unknown := [name for name in item.clique if name not in self.sizes]:
                raise InvalidData(f"no column is called {unknown[0]!r}")
            if item.place.size != np.prod([self.sizes[name] for name in item.clique]):
                raise InvalidData(f"the clique ({', '.join(item.clique)}) has another number of cells")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns, in order."""
        return tuple(self.sizes)

    @cached_property
    def cliques(self) -> tuple[tuple[str, ...], ...]:
        """The different cliques that were measured; a column in none is one of its own."""
        measured = dict.fromkeys(item.clique for item in self.marginals)
        lone = [(name,) for name in self.names if not any(name in clique for clique in measured)]
        return (*measured, *lone)

    @cached_property
    def tree(self) -> BucketTree:
        """The order in which columns are summed out."""
        number = {name: place for place, name in enumerate(self.names)}
        return BucketTree.of(tuple(self.sizes.values()), [[number[v] for v in clique] for clique in self.cliques])

    @staticmethod
    def widest(sizes: Mapping[str, int], cliques: Sequence[Sequence[str]]) -> int:
        """Return the cells that summing out all columns of a field of these cliques takes."""
        number = {name: place for place, name in enumerate(sizes)}
        lone = [(name,) for name in sizes if not any(name in clique for clique in cliques)]
        tree = BucketTree.of(tuple(sizes.values()), [[number[v] for v in clique] for clique in (*cliques, *lone)])
        return tree.total_cells

    @cached_property
    def _sums(self) -> sparse.csr_matrix:
        """Q: which of the cells of all cliques add to each count, (counts, cells)."""
        cells = [int(np.prod(shape)) for shape in self.tree.shapes]
        starts = dict(zip(self.cliques, np.cumsum([0, *cells[:-1]]).tolist(), strict=True))
        rows, columns, first = [], [], 0
        for item in self.marginals:
            inside = np.flatnonzero(item.place >= 0)
            rows.append(first + item.place[inside])
            columns.append(starts[item.clique] + inside)
            first += item.counts.size
        row, column = np.concatenate([*rows, []]).astype(int), np.concatenate([*columns, []]).astype(int)
        return sparse.csr_matrix((np.ones(row.size), (row, column)), shape=(first, sum(cells)))

    @cached_property
    def _seen(self) -> Floats:
        return np.concatenate([*(item.counts for item in self.marginals), []]) / self.n

    @cached_property
    def _variance(self) -> Floats:
        known = np.concatenate([*(item.variance for item in self.marginals), []])
        return np.asarray(np.maximum(known, _LEAST_VARIANCE) / self.n**2)

    @cached_property
    def _tables(self) -> tuple[list[slice], OverlappingTables]:
        """Which counts are whole tables with one variance, and how these overlap."""
        ends = np.cumsum([0, *(item.counts.size for item in self.marginals)])
        even = [
            (slice(first, last), item)
            for first, last, item in zip(ends[:-1], ends[1:], self.marginals, strict=True)
            if np.array_equal(item.place, np.arange(item.counts.size)) and np.ptp(item.variance) == 0
        ]
        shapes = tuple(tuple(self.sizes[name] for name in item.clique) for _, item in even)
        variances = tuple(float(self._variance[at.start]) for at, _ in even)
        return [at for at, _ in even], OverlappingTables(tuple(item.clique for _, item in even), shapes, variances)

    def agreeing(self, seen: Floats) -> Floats:
        """Return counts of which whole tables agree: the estimate is the same, and far quicker to come to."""
        places, tables = self._tables
        result = seen.copy()
        parts = tables.agreeing([seen[:, at].reshape(-1, *s) for at, s in zip(places, tables.shapes, strict=True)])
        for at, part in zip(places, parts, strict=True):
            result[:, at] = part.reshape(len(seen), -1)
        return result

    @cached_property
    def _usual(self) -> Floats:
        """About the curvature of the dual along each count: its share, or the noise where that is more."""
        return np.clip(self._seen, self._variance**0.5, 1.0) + _PRIOR_RECORDS * self._variance

    def potentials(self, duals: Floats) -> Floats:
        """Return the potentials of all cliques' cells, (draws, cells), of multipliers (draws, counts)."""
        return np.asarray(duals @ self._sums)

    def _objective(self, seen: Floats, duals: Floats) -> tuple[Floats, Floats]:
        mean, log_normalizer = self.tree.marginals(self.potentials(duals))
        pull = _PRIOR_RECORDS * self._variance * duals
        value = log_normalizer - (duals * seen).sum(axis=1) + 0.5 * (pull * duals).sum(axis=1)
        return value, np.asarray(mean @ self._sums.T) - seen + pull

    def _solved(self, seen: Floats, start: Floats, metric: Metric, steps: int) -> Floats:
        """Return the multipliers given counts seen, (draws, counts), beginning at `start`."""
        seen = self.agreeing(seen)
        # A dual that may fall by t leaves a share μ off by about √(2tμ).
        tolerance = _CLOSE**2 / 2 * float(np.sum(self._variance / self._usual))
        block = max(_HELD // max(self.tree.total_cells, self._seen.size, 1), 1)

        def solved(counts: Floats, begun: Floats) -> Floats:
            return minimise(lambda x, rows: self._objective(counts[rows], x), begun, metric, steps, tolerance)

        return np.concatenate(
            [solved(seen[k : k + block], start[k : k + block]) for k in range(0, len(seen), block)],
        )

    @cached_property
    def duals(self) -> Floats:
        """The multipliers of the estimate, (1, counts)."""
        if not self._seen.size:
            return np.zeros((1, 0))
        duals = self._solved(self._seen[None], np.zeros((1, self._seen.size)), lambda g: g / self._usual, _FIRST)
        for _ in range(_ROUNDS):
            duals = self._solved(self._seen[None], duals, self._metric_at(duals), _STEPS)
        return duals

    def _metric_at(self, duals: Floats) -> Metric:
        """Return what multiplies with the inverse of the dual's curvature, Cov(Qf) + τσ², learnt from records drawn."""
        potentials = self.potentials(duals)
        codes = self.tree.sample(potentials[0], _LEARNT, seeded_rng(0))
        starts = np.cumsum([0, *(int(np.prod(shape)) for shape in self.tree.shapes)])
        cells = [
            first + np.ravel_multi_index([codes[v] for v in clique], shape)
            for first, clique, shape in zip(starts[:-1], self.tree.cliques, self.tree.shapes, strict=True)
        ]
        rows = np.tile(np.arange(_LEARNT), len(cells))
        shown = sparse.csr_matrix((np.ones(rows.size), (rows, np.concatenate(cells))), (_LEARNT, starts[-1]))
        counted = shown @ self._sums.T
        mean = np.asarray(self._sums @ self.tree.marginals(potentials)[0][0])
        diagonal = _PRIOR_RECORDS * self._variance + _SHRUNK * mean
        size = self._seen.size
        blocks = [np.arange(size)] if size <= _DENSE else np.array_split(np.arange(size), -(-size // _DENSE))
        factors = []
        for at in blocks:
            part = counted[:, at]
            seen = np.asarray(part.mean(axis=0)).ravel()
            covariance = (part.T @ part).toarray() / _LEARNT - np.outer(seen, seen)
            covariance[np.diag_indices(at.size)] += diagonal[at]
            factors.append((at, linalg.cho_factor(covariance)))

        def metric(gradient: Floats) -> Floats:
            result = np.empty_like(gradient)
            for at, factor in factors:
                result[:, at] = linalg.cho_solve(factor, gradient[:, at].T).T
            return result

        return metric

    @cached_property
    def means(self) -> Floats:
        """The estimated shares of all cliques' cells, (1, cells)."""
        return self.tree.marginals(self.potentials(self.duals))[0]

    def draws(self, count: int, rng: np.random.Generator) -> Floats:
        """Return potentials drawn from the posterior, (draws, cells of all cliques)."""
        if not self._seen.size:
            return np.zeros((count, self._sums.shape[1]))
        noise = np.sqrt(self._variance) * rng.standard_normal((count, self._seen.size))
        records = self.tree.sample_counts(self.potentials(self.duals)[0], self.n, count, rng)
        seen = self._seen + noise + (records / self.n - self.means) @ self._sums.T
        return self.potentials(
            self._solved(seen, np.repeat(self.duals, count, axis=0), self._metric_at(self.duals), _STEPS)
        )
