"""Log-linear models: the natural parameters of a field of cliques, as effects that sum to zero."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sottovoce.inference.latent.junction_tree import BucketTree
from sottovoce.privacy.numbers import Floats


@dataclass(frozen=True)
class LogLinear:
    r"""p(x) ∝ exp Σ_T e_T(x_T), one effect for every set T of variables inside a clique, zero-sum along each of them.

    Potentials of cliques are no parameters: a constant may go from one to another unseen. Effects are. They are
    spanned by orthonormal contrasts, so that independent normal coefficients treat all categories alike.

    Examples
    --------
    >>> pair = LogLinear(BucketTree.of((2, 2), ((0, 1),)))
    >>> pair.terms
    ((0,), (1,), (0, 1))
    >>> (pair.basis @ np.array([0.0, 0.0, 2.0])).round(12).tolist()
    [1.0, -1.0, -1.0, 1.0]
    """

    tree: BucketTree

    @cached_property
    def terms(self) -> tuple[tuple[int, ...], ...]:
        """Every set of variables inside a clique, small ones first."""
        inside = {
            part
            for clique in self.tree.cliques
            for size in range(1, len(clique) + 1)
            for part in itertools.combinations(sorted(clique), size)
        }
        return tuple(sorted(inside, key=lambda part: (len(part), part)))

    @cached_property
    def contrasts(self) -> tuple[Floats, ...]:
        """What the coefficients of each term are multiplied with: (cells of the term, coefficients)."""
        result = []
        for term in self.terms:
            block: Floats = np.ones((1, 1))
            for v in term:
                block = np.asarray(np.kron(block, _contrasts(self.tree.sizes[v])), dtype=np.float64)
            result.append(block)
        return tuple(result)

    @cached_property
    def basis(self) -> Floats:
        """The potentials of all cliques' cells, of each coefficient: (cells, coefficients)."""
        columns: list[list[Floats]] = [[] for _ in self.tree.cliques]
        for term, block in zip(self.terms, self.contrasts, strict=True):
            home = next(i for i, clique in enumerate(self.tree.cliques) if set(term) <= set(clique))
            for i, (clique, shape) in enumerate(zip(self.tree.cliques, self.tree.shapes, strict=True)):
                if i != home:
                    columns[i].append(np.zeros((math.prod(shape), block.shape[1])))
                    continue
                # The clique's variables may stand in another order than the term's.
                table = block.reshape(*(self.tree.sizes[v] for v in term), -1)
                order = [v for v in clique if v in term]
                table = table.transpose(*(term.index(v) for v in order), table.ndim - 1)
                table = table.reshape(*(self.tree.sizes[v] if v in term else 1 for v in clique), -1)
                columns[i].append(np.broadcast_to(table, (*shape, block.shape[1])).reshape(-1, block.shape[1]))
        return np.concatenate([np.concatenate(row, axis=1) for row in columns])

    def effects(self, coefficients: Floats) -> tuple[Floats, ...]:
        """Return each term's table, zero-sum along every variable, of coefficients (draws, coefficients)."""
        parts = np.split(coefficients, np.cumsum([block.shape[1] for block in self.contrasts])[:-1], axis=1)
        shapes = [[self.tree.sizes[v] for v in term] for term in self.terms]
        return tuple(
            (part @ block.T).reshape(-1, *shape)
            for part, block, shape in zip(parts, self.contrasts, shapes, strict=True)
        )


def _contrasts(size: int) -> Floats:
    """Return orthonormal columns (size, size - 1) that sum to zero (Helmert's)."""
    columns = np.zeros((size, size - 1))
    for k in range(1, size):
        columns[:k, k - 1] = 1.0
        columns[k, k - 1] = -k
        columns[:, k - 1] /= math.sqrt(k * (k + 1))
    return columns
