"""A Markov random field fitted to noisy marginals of any overlap, and draws from its noise-aware posterior.

All of this is post-processing of releases: no privacy rests on it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy import sparse, special

from sottovoce.inference.latent.junction_tree import BucketTree
from sottovoce.inference.synthesis.consistency import OverlappingTables
from sottovoce.inference.synthesis.noisy_marginal import NoisyMarginal
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats

__all__ = ["FieldFit"]

_SWEEPS = 40
"""Sweeps through all tables at most."""
_CLOSE = 0.02
"""Counts that no turn of a sweep moves by more, in standard deviations of their noise, are come to: far less than a
posterior's own spread."""
_NEWTON, _EXACT = 100, 1e-12
"""Newton steps for the total of one table, at most, and how near one it is come to."""
_HELD = 1 << 20
"""Numbers that are held at once: what caches hold."""
_LEAST_SHARE = np.finfo(float).tiny
"""What stands for nothing where a logarithm is taken."""
_LEAST_VARIANCE = 1e-2
"""No count is known better than this, in records squared: counts that agree by construction may differ by rounding."""


@dataclass(frozen=True, eq=False)
class FieldFit:
    r"""The maximum-entropy field given noisy marginals, :math:`p_\theta(x) \propto \exp \sum_c \theta_c(x_c)`.

    With ñ = nQμ + noise of variance σ², the estimate is that of maximum likelihood,

    .. math:: \min_\mu \; \tfrac12 \sum_k (\tilde n_k - n (Q\mu)_k)^2/\sigma_k^2,

    over the means μ of one record (McKenna, Sheldon and Miklau 2019), come to from the law of most entropy, θ = Q'λ, by
    proximal steps table by table, which without noise are iterative proportional fitting (Deming and Stephan 1940).
    Steps diminish and end, so that what is far below the noise is left as near to most entropy as it was. Noise alone
    weighs the counts, for sampling is common to all of them.

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
    close
        How near the estimate is come to, in standard deviations of the noise.
    begun
        The multipliers of a field of the first of the marginals, from which those of all are come to sooner.

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
    close: float = _CLOSE
    begun: Floats | None = field(default=None, repr=False)

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
        """Return counts of which whole tables agree, (draws, counts)."""
        places, tables = self._tables
        return self._with(seen, tables.agreeing(self._of_tables(seen)), places)

    def nearest(self, seen: Floats) -> Floats:
        """Return shares of which whole tables agree and none is below zero, (draws, counts).

        The estimate is the same where these are tables of one law, and it is come to in few sweeps: towards tables that
        no law has multipliers grow without end.
        """
        places, tables = self._tables
        return self._with(seen, tables.non_negative(self._of_tables(seen)), places)

    def _of_tables(self, seen: Floats) -> list[Floats]:
        places, tables = self._tables
        return [seen[:, at].reshape(-1, *shape) for at, shape in zip(places, tables.shapes, strict=True)]

    @staticmethod
    def _with(seen: Floats, parts: Sequence[Floats], places: Sequence[slice]) -> Floats:
        result = seen.copy()
        for at, part in zip(places, parts, strict=True):
            result[:, at] = part.reshape(len(seen), -1)
        return result

    def potentials(self, duals: Floats) -> Floats:
        """Return the potentials of all cliques' cells, (draws, cells), of multipliers (draws, counts)."""
        return np.asarray(duals @ self._sums)

    def _solved(self, seen: Floats, start: Floats) -> Floats:
        """Return the multipliers given counts seen, (draws, counts), beginning at `start`."""
        seen = self.nearest(seen)
        block = max(_HELD // max(self.tree.total_cells, self._seen.size, 1), 1)
        parts = [slice(k, k + block) for k in range(0, len(seen), block)]
        return np.concatenate([self._swept(seen[part], start[part]) for part in parts])

    def _swept(self, seen: Floats, start: Floats) -> Floats:
        r"""Return the multipliers by incremental proximal steps (Bertsekas 2011): each table in turn, given all others.

        .. math:: \mu \leftarrow \arg\min_\mu \; \sum_{k \in c} \frac{(\tilde p_k - (Q\mu)_k)^2}{2\sigma_k^2}
            + \tau_t \, \mathrm{KL}(\mu \,\|\, \mu_{\text{before}}), \quad \tau_t = t / \bar\sigma

        With large steps a turn sets a table's law to what was seen, as iterative proportional fitting does, and where
        no law has all tables the last ones win. Steps that diminish weigh each by its noise: in sweep t a typical
        deviation moves a logarithm by 1/t.
        """
        duals, weight = start.copy(), 1 / np.median(np.sqrt(self._variance))
        before, after = np.empty_like(duals), np.empty_like(duals)

        def change(clique: int, law: Floats) -> Floats:
            added = more = np.zeros_like(law)
            for turn, (at, sums) in enumerate(self._turns[clique]):
                if turn:
                    law = special.softmax(np.log(np.maximum(law, _LEAST_SHARE)) + more, axis=1)
                variance, before[:, at] = self._variance[at] * tau, law if sums is None else law @ sums.T
                after[:, at] = _fitted(before[:, at], seen[:, at], variance)
                more = (seen[:, at] - after[:, at]) / variance
                duals[:, at] += more
                more = more if sums is None else more @ sums
                added = added + more
            return added

        potentials = self.potentials(duals)
        for sweep in range(1, _SWEEPS + 1):
            tau = sweep * weight
            potentials = self.tree.sweep(potentials, change)
            if np.all(np.abs(after - before) <= self.close * np.sqrt(self._variance)):
                break
        return duals

    @cached_property
    def _turns(self) -> list[list[tuple[slice, sparse.csr_matrix | None]]]:
        """For each clique the counts of its tables, the best known last, and their cells: None, one each."""
        ends = np.cumsum([0, *(item.counts.size for item in self.marginals)]).tolist()
        cells = np.cumsum([0, *(int(np.prod(shape)) for shape in self.tree.shapes)]).tolist()
        result: list[list[tuple[slice, sparse.csr_matrix | None]]] = [[] for _ in self.cliques]
        for at, item in zip(itertools.starmap(slice, itertools.pairwise(ends)), self.marginals, strict=True):
            place = self.cliques.index(item.clique)
            each = np.array_equal(item.place, np.arange(item.counts.size))
            result[place].append((at, None if each else self._sums[at, cells[place] : cells[place + 1]]))
        for turns in result:
            turns.sort(key=lambda turn: -self._variance[turn[0]].mean())
        return result

    @cached_property
    def duals(self) -> Floats:
        """The multipliers of the estimate, (1, counts)."""
        if not self._seen.size:
            return np.zeros((1, 0))
        duals = np.zeros((1, self._seen.size))
        if self.begun is not None:
            duals[:, : self.begun.size] = self.begun
        return self._solved(self._seen[None], duals)

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
        return self.potentials(self._solved(seen, np.repeat(self.duals, count, axis=0)))


def _fitted(mean: Floats, seen: Floats, variance: Floats) -> Floats:
    r"""Return the shares of one table's cells given all others, (draws, counts).

    They solve :math:`p_k = m_k \exp((\tilde p_k - p_k)/\sigma_k^2 - c)` with `c` such that all shares are
    one in total; each is a Wright omega function (Corless and Jeffrey 2002), and `c` is come to by Newton's method.

    >>> even, seen, variance = np.array([[0.5, 0.5]]), np.array([[0.9, 0.1]]), np.array([1e-6, 1e-6])
    >>> _fitted(even, seen, variance).round(3).tolist()
    [[0.9, 0.1]]
    """
    beside = np.maximum(1 - mean.sum(axis=1), 0.0)
    beside[beside < _EXACT] = 0.0
    before = np.log(np.maximum(mean, _LEAST_SHARE))
    base = before + seen / variance - np.log(variance)
    logs = np.where(beside > 0, np.log(np.where(beside > 0, beside, 1.0)), -np.inf)
    # What it would be if all were as seen, which they are up to a part of the noise.
    weights = np.maximum(seen, _LEAST_SHARE)
    shift = np.maximum((weights * (before - np.log(weights))).sum(axis=1) / weights.sum(axis=1), logs)
    for _ in range(_NEWTON):
        omega = special.wrightomega(base - shift[:, None])
        shares, others = variance * omega, np.exp(logs - shift)
        total = shares.sum(axis=1) + others
        if np.all(np.abs(total - 1) < _EXACT):
            break
        slope = (shares / (1 + omega)).sum(axis=1) + others
        # The total is convex in c: from below the root no step goes past it. What is beside is no more than one there.
        shift = np.maximum(shift + np.where(total < 1, np.log(total) * total, total - 1) / slope, logs)
    return np.asarray(shares)
