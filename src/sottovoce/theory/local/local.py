"""Locally private mechanisms: any of them is profile-based private for every graph."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.privacy.errors import InvalidValue, PromiseUnreachable
from sottovoce.privacy.numbers import Floats
from sottovoce.theory.local.exact import GRID, Steps, exp_below, uniform_steps
from sottovoce.theory.local.graph import ProfileGraph
from sottovoce.theory.local.guarantee import checked_epsilon
from sottovoce.theory.local.mechanism import ProfileMechanism

_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class LocalMechanism(ProfileMechanism):
    """A matrix that does not look at the profile and is ε-locally private (Geumlek 2020, Theorem 26).

    Examples
    --------
    >>> graph = ProfileGraph.bernoulli({"a": 0.4, "b": 0.6}, [("a", "b")])
    >>> mechanism = LocalMechanism.from_matrix(graph, 1.0, [[0.7, 0.2, 0.1], [0.4, 0.4, 0.2]], outputs="xyz")
    >>> mechanism.guarantee.local
    True
    """

    word: ClassVar[str] = "local"
    local: ClassVar[bool] = True

    @classmethod
    def from_matrix(
        cls, graph: ProfileGraph, epsilon: float, matrix: ArrayLike, outputs: Iterable[Hashable] | None = None
    ) -> Self:
        """Return the mechanism of an ε-locally private matrix: rows are categories, columns outputs.

        A matrix within 1e-9 of keeping ε, as rounding leaves it, is repaired exactly; any other is refused.
        """
        names = graph.categories if outputs is None else tuple(outputs)
        floats = np.asarray(matrix, dtype=np.float64)
        if floats.shape != (graph.d, len(names)) or not np.all(np.isfinite(floats)):
            raise InvalidValue(f"matrix must be finite, {graph.d} by {len(names)}. Got shape {floats.shape}")
        if floats.min() < 0 or np.abs(floats.sum(axis=1) - 1).max() > _TOLERANCE:
            raise InvalidValue("the rows of matrix must be probabilities that sum to 1")
        epsilon = checked_epsilon(epsilon)
        excess = floats.max(axis=0) * np.exp(-epsilon) - floats.min(axis=0)
        if excess.max() > _TOLERANCE:
            raise PromiseUnreachable(
                f"the matrix is not {epsilon:g}-locally private: output {names[int(excess.argmax())]!r} is "
                f"more than e^{epsilon:g} times likelier from one category than from another"
            )
        weight, steps = 0.0, _rows_on_grid(floats)
        while not _is_local(steps, epsilon):
            weight = min(1.0, max(2.0**-50, 4 * weight))
            steps = _rows_on_grid((1 - weight) * floats + weight / len(names))
            if weight == 1.0:
                steps = np.tile(uniform_steps(len(names)), (graph.d, 1))
        return cls(graph, epsilon, np.broadcast_to(steps, (graph.k, *steps.shape)), names, weight)

    def _check(self) -> None:
        if np.any(self.steps != self.steps[0]) or not _is_local(self.steps[0], self.epsilon):
            raise PromiseUnreachable(
                f"a locally private mechanism has one matrix for all, with columns within e^{self.epsilon:g}"
            )


def _is_local(steps: Steps, epsilon: float) -> bool:
    """Say, in whole numbers, whether every column lies within a factor e^ε."""
    ratio = exp_below(epsilon)
    most, least = steps.max(axis=0).tolist(), steps.min(axis=0).tolist()
    return all(p * ratio.denominator <= q * ratio.numerator for p, q in zip(most, least, strict=True))


def _rows_on_grid(floats: Floats) -> Steps:
    steps = np.rint(floats * GRID).astype(np.int64)
    row = np.arange(len(steps))
    steps[row, steps.argmax(axis=1)] += GRID - steps.sum(axis=1)
    return steps
