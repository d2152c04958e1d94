"""Sums over all assignments of a field of cliques, by a tree of buckets: its normalizer, marginals and covariances.

Exact, and as quick as the field is narrow: no step holds more than the largest bucket.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from sottovoce.privacy.numbers import Floats, Integers

__all__ = ["BucketTree"]

_NEVER = -1e30
"""The logarithm of nothing: finite, so that differences of two of them are numbers."""
_FEW = 256
"""Assignments that are listed rather than summed bucket by bucket."""
_AT_ONCE = 1 << 20
"""How many numbers of a bucket are held at a time."""
_UNSEEN = 500.0
"""What is nothing in doubles, e⁻⁷⁰⁸, is still nothing when it is e⁵⁰⁰ times as likely."""


@dataclass(frozen=True)
class BucketTree:
    r"""The order in which variables are summed out, and what each sum touches.

    A bucket holds a variable and all later ones that it meets; its sum goes on to the bucket of the first of those.
    Back from the last to the first, every bucket has its marginal (Shenoy and Shafer 1990).

    Attributes
    ----------
    sizes
        The number of categories of each variable.
    cliques
        The variables of each clique, by number.
    order
        The variables in the order they are summed out: the one that leaves the smallest table, or joins the fewest
        pairs that did not meet, or was given first, first.
    scopes
        The variables of each bucket, in that order.

    Examples
    --------
    >>> ring = BucketTree.of((2, 2, 2, 2), ((0, 1), (1, 2), (2, 3), (3, 0)))
    >>> ring.width, ring.cells
    (2, 8)
    >>> round(float(np.exp(ring.log_normalizer(np.zeros((1, 16)))[0])))
    16
    """

    sizes: tuple[int, ...]
    cliques: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]
    scopes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, sizes: Sequence[int], cliques: Sequence[Sequence[int]]) -> Self:
        """Return the tree of these cliques: of three orders the one with the smallest largest bucket."""

        def cells(v: int, near: Mapping[int, set[int]]) -> tuple[int, ...]:
            return math.prod(sizes[w] for w in near[v]) * sizes[v], v

        def fill(v: int, near: Mapping[int, set[int]]) -> tuple[int, ...]:
            return sum(b not in near[a] for a, b in itertools.combinations(near[v], 2)), *cells(v, near)

        def given(v: int, near: Mapping[int, set[int]]) -> tuple[int, ...]:
            del near
            return (v,)

        return min((cls._ordered(sizes, cliques, rule) for rule in (cells, fill, given)), key=lambda tree: tree.cells)

    @classmethod
    def _ordered(
        cls,
        sizes: Sequence[int],
        cliques: Sequence[Sequence[int]],
        rule: Callable[[int, Mapping[int, set[int]]], tuple[int, ...]],
    ) -> Self:
        near = {v: {w for c in cliques if v in c for w in c} - {v} for v in range(len(sizes))}
        order, scopes = [], []
        while near:
            first = min(near, key=lambda v: rule(v, near))
            met = near.pop(first)
            for w in met:
                near[w] = (near[w] | met) - {first, w}
            order.append(first)
            scopes.append(met)
        place = {v: i for i, v in enumerate(order)}
        sorted_scopes = tuple((v, *sorted(met, key=place.__getitem__)) for v, met in zip(order, scopes, strict=True))
        return cls(tuple(sizes), tuple(map(tuple, cliques)), tuple(order), sorted_scopes)

    @property
    def width(self) -> int:
        """One less than the variables of the largest bucket: of this order, so at least the field's treewidth."""
        return max(map(len, self.scopes)) - 1

    @property
    def cells(self) -> int:
        """The cells of the largest bucket."""
        return max(math.prod(self._shape(i)) for i in range(len(self.scopes)))

    @property
    def total_cells(self) -> int:
        """The cells of all buckets: what a sum over all assignments takes."""
        return sum(math.prod(self._shape(i)) for i in range(len(self.scopes)))

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of each clique's table."""
        return tuple(tuple(self.sizes[v] for v in c) for c in self.cliques)

    @cached_property
    def _home(self) -> tuple[int, ...]:
        """The bucket of each clique: that of its first variable in the order."""
        place = {v: i for i, v in enumerate(self.order)}
        return tuple(min(place[v] for v in c) for c in self.cliques)

    @cached_property
    def _parent(self) -> tuple[int | None, ...]:
        place = {v: i for i, v in enumerate(self.order)}
        return tuple(place[s[1]] if len(s) > 1 else None for s in self.scopes)

    def _shape(self, bucket: int) -> tuple[int, ...]:
        return tuple(self.sizes[v] for v in self.scopes[bucket])

    def _spread(self, table: Floats, variables: Sequence[int], bucket: int) -> Floats:
        """Return a table (draws, variables) laid along the axes of a bucket."""
        scope = self.scopes[bucket]
        inside = [v for v in scope if v in variables]
        table = table.transpose(0, *(1 + variables.index(v) for v in inside))
        return table.reshape(len(table), *(self.sizes[v] if v in variables else 1 for v in scope))

    def split(self, potentials: Floats) -> list[Floats]:
        """Return (draws, cells of all cliques) as one array (draws, categories ...) a clique."""
        parts = np.split(potentials, np.cumsum([math.prod(s) for s in self.shapes])[:-1], axis=1)
        return [part.reshape(-1, *shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def _gather(self, potentials: Floats) -> tuple[list[Floats], list[Floats], Floats]:
        """Return every bucket's table and what it sends on, as logarithms, and the log-normalizer."""
        tables = [np.zeros((len(potentials), *self._shape(i))) for i in range(len(self.scopes))]
        for part, clique, home in zip(self.split(potentials), self.cliques, self._home, strict=True):
            tables[home] += self._spread(part, clique, home)
        sent, total = [], np.zeros(len(potentials))
        for i, parent in enumerate(self._parent):
            message = _log_sum(tables[i], (1,))
            sent.append(message)
            if parent is None:
                total += message
            else:
                tables[parent] += self._spread(message, self.scopes[i][1:], parent)
        return tables, sent, total

    def log_normalizer(self, potentials: Floats) -> Floats:
        """Return log Σ exp Σ_c θ_c(x_c) for potentials (draws, cells of all cliques)."""
        return self._gather(potentials)[2]

    def beliefs(self, potentials: Floats) -> tuple[list[Floats], Floats]:
        """Return the joint law of every bucket's variables, (draws, categories ...) each, and the log-normalizer."""
        tables, sent, total = self._gather(potentials)
        for i in range(len(self.scopes) - 1, -1, -1):  # parents come after their children in the order
            parent = self._parent[i]
            if parent is not None:
                remainder = tuple(1 + k for k, v in enumerate(self.scopes[parent]) if v not in self.scopes[i])
                news = _log_sum(tables[parent], remainder) - sent[i]
                tables[i] = tables[i] + news[:, None]
        return [_normalized(table) for table in tables], total

    def marginals(self, potentials: Floats) -> tuple[Floats, Floats]:
        """Return Pr[x_c] of every clique's cells, (draws, cells of all cliques), and the log-normalizer."""
        tables, total = self.beliefs(potentials)
        result = []
        for clique, home in zip(self.cliques, self._home, strict=True):
            remainder = tuple(1 + k for k, v in enumerate(self.scopes[home]) if v not in clique)
            kept = [v for v in self.scopes[home] if v in clique]
            table = tables[home].sum(axis=remainder)
            result.append(table.transpose(0, *(1 + kept.index(v) for v in clique)).reshape(len(potentials), -1))
        return np.concatenate(result, axis=1), total

    def sweep(self, potentials: Floats, change: Callable[[int, Floats], Floats]) -> Floats:
        """Visit every clique once and return the potentials, (draws, cells), with what each visit adds to its own.

        `change` is called with the place of a clique and its law, (draws, cells), under all changes so far. Messages go
        along the tree from each bucket to the next, so that all visits take little more than one of `marginals`
        (Jiroušek and Přeučil 1995).
        """
        tables, sent, _ = self._gather(potentials)
        added: list[Floats] = [np.empty(0)] * len(self.cliques)
        children: list[list[int]] = [[] for _ in self.scopes]
        for i, parent in enumerate(self._parent):
            if parent is not None:
                children[parent].append(i)

        def visit(i: int, news: Floats | None) -> None:
            """Visit the cliques of a bucket and of those below it, given what is known from above."""
            above = 0.0 if news is None else news[:, None]
            logs = tables[i] + above
            axes = tuple(range(1, logs.ndim))
            law = _normalized(logs)
            inside = [c for c, home in enumerate(self._home) if home == i]
            for c in sorted(inside, key=lambda c: -math.prod(self.shapes[c])):
                clique = self.cliques[c]
                kept = [v for v in self.scopes[i] if v in clique]
                beside = tuple(1 + k for k, v in enumerate(self.scopes[i]) if v not in clique)
                seen = law.sum(axis=beside).transpose(0, *(1 + kept.index(v) for v in clique))
                added[c] = change(c, seen.reshape(len(potentials), -1))
                more = self._spread(added[c].reshape(-1, *self.shapes[c]), clique, i)
                tables[i] += more
                logs = logs + more
                top = more.max(axis=axes, keepdims=True)
                if np.ptp(added[c], axis=1).max() < _UNSEEN:
                    law *= np.exp(more - top)
                    law /= law.sum(axis=axes, keepdims=True)
                else:
                    law = _normalized(logs)
            for child in children[i]:
                others = tuple(1 + k for k, v in enumerate(self.scopes[i]) if v not in self.scopes[child])
                before = sent[child]
                visit(child, _log_sum(logs, others) - before)
                more = self._spread(sent[child] - before, self.scopes[child][1:], i)
                tables[i] += more
                logs = logs + more
            sent[i] = _log_sum(tables[i], (1,))

        for i, parent in enumerate(self._parent):
            if parent is None:
                visit(i, None)
        return potentials + np.concatenate(added, axis=1)

    @cached_property
    def _assignments(self) -> Floats:
        """The cells that each assignment lies in, (assignments, cells of all cliques)."""
        codes = np.indices(self.sizes).reshape(len(self.sizes), -1)
        cells = [np.ravel_multi_index(tuple(codes[list(c)]), s) for c, s in zip(self.cliques, self.shapes, strict=True)]
        return np.concatenate([np.eye(math.prod(s))[i] for s, i in zip(self.shapes, cells, strict=True)], axis=1)

    @cached_property
    def _pairs(self) -> Floats:
        """The pairs of cells that each assignment lies in, (assignments, cells · cells)."""
        return (self._assignments[:, :, None] * self._assignments[:, None, :]).reshape(len(self._assignments), -1)

    def moments(self, potentials: Floats) -> tuple[Floats, Floats]:
        """Return the mean and the covariance of one record's cells: (draws, cells) and (draws, cells, cells).

        A covariance is what it changes to be told that a record lies in a cell; of few assignments, it is a sum.
        """
        if math.prod(self.sizes) <= _FEW:
            logs = potentials @ self._assignments.T
            weight = np.exp(logs - logs.max(axis=1, keepdims=True))
            weight /= weight.sum(axis=1, keepdims=True)
            mean = weight @ self._assignments
            second = (weight @ self._pairs).reshape(*mean.shape, -1)
            second -= mean[:, :, None] * mean[:, None, :]
            return mean, second
        mean, _ = self.marginals(potentials)
        draws, cells = mean.shape
        mine = np.repeat(np.arange(len(self.shapes)), [math.prod(s) for s in self.shapes])
        shown = np.where((mine[:, None] == mine) & ~np.eye(cells, dtype=bool), _NEVER, 0.0)
        covariance = np.empty((draws, cells, cells))
        block = max(_AT_ONCE // (cells * self.cells), 1)
        for first in range(0, draws, block):
            subset = slice(first, first + block)
            given = (potentials[subset, None, :] + shown).reshape(-1, cells)
            after = self.marginals(given)[0].reshape(-1, cells, cells)
            covariance[subset] = mean[subset, :, None] * (after - mean[subset, None, :])
        return mean, (covariance + covariance.transpose(0, 2, 1)) / 2

    def sample_counts(self, potentials: Floats, n: int, draws: int, rng: np.random.Generator) -> Floats:
        """Draw how many of n records under one draw's potentials (cells,) lie in each clique's cells, (draws, cells).

        Down the tree, the records of every assignment of a separator are shared out among its bucket's variable: one
        multinomial draw each, however many records there are.
        """
        block = max(_AT_ONCE // self.total_cells, 1)
        if draws > block:
            blocks = [min(block, draws - first) for first in range(0, draws, block)]
            return np.concatenate([self.sample_counts(potentials, n, size, rng) for size in blocks])
        tables, _, _ = self._gather(potentials[None])
        counts: list[Floats] = [np.empty(0)] * len(self.scopes)
        for i in range(len(self.scopes) - 1, -1, -1):
            parent, logs = self._parent[i], np.moveaxis(tables[i][0], 0, -1)
            chances = np.exp(logs - logs.max(axis=-1, keepdims=True))
            chances /= chances.sum(axis=-1, keepdims=True)
            totals = np.full(draws, n, dtype=np.int64)
            if parent is not None:
                remainder = tuple(1 + k for k, v in enumerate(self.scopes[parent]) if v not in self.scopes[i])
                totals = counts[parent].sum(axis=remainder).astype(np.int64)
            counts[i] = np.moveaxis(rng.multinomial(totals, chances), -1, 1).astype(np.float64)
        result = []
        for clique, home in zip(self.cliques, self._home, strict=True):
            kept = [v for v in self.scopes[home] if v in clique]
            table = counts[home].sum(axis=tuple(1 + k for k, v in enumerate(self.scopes[home]) if v not in clique))
            result.append(table.transpose(0, *(1 + kept.index(v) for v in clique)).reshape(draws, -1))
        return np.concatenate(result, axis=1)

    def sample(self, potentials: Floats, count: int, rng: np.random.Generator) -> dict[int, Integers]:
        """Draw records under one draw's potentials (cells,): the codes of every variable, last summed out first."""
        tables, _, _ = self._gather(potentials[None])
        codes: dict[int, Integers] = {}
        for table, scope in zip(reversed(tables), reversed(self.scopes), strict=True):
            rows = table[0][(slice(None), *(codes[v] for v in scope[1:]))]
            rows = np.broadcast_to(rows[:, None] if rows.ndim == 1 else rows, (len(rows), count))
            below = np.exp(rows - rows.max(axis=0)).cumsum(axis=0)
            codes[scope[0]] = (below[:-1] < rng.random(count) * below[-1]).sum(axis=0)
        return codes


def _normalized(logs: Floats) -> Floats:
    """Return the laws, (draws, ...), of their logarithms."""
    axes = tuple(range(1, logs.ndim))
    law = np.exp(logs - logs.max(axis=axes, keepdims=True))
    law /= law.sum(axis=axes, keepdims=True)
    return np.asarray(law)


def _log_sum(logs: Floats, axes: tuple[int, ...]) -> Floats:
    """Return log Σ exp over these axes."""
    if not axes:
        return logs
    top = logs.max(axis=axes, keepdims=True)
    return np.asarray(np.log(np.exp(logs - top).sum(axis=axes)) + np.squeeze(top, axis=axes))
