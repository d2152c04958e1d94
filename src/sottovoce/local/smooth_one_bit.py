"""The smooth one-bit mechanism: a flip probability for each profile, by linear programming."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.local.exact import repair
from sottovoce.local.graph import ProfileGraph
from sottovoce.local.guarantee import checked_epsilon
from sottovoce.local.linear_program import LEAST_EPSILON, Rows, solve
from sottovoce.local.mechanism import ProfileMechanism, profile_weights
from sottovoce.local.one_bit import ones
from sottovoce.privacy.numbers import Floats

__all__ = ["SmoothOneBit"]

_SLACK = 1e-9


@dataclass(frozen=True, eq=False)
class SmoothOneBit(ProfileMechanism):
    r"""Flip profile i's bit with probability α_i, where max α_i is as small as can be (Geumlek 2020, (7.6)).

    With :math:`L_i = p_i + (1-2p_i)\alpha_i`, every edge keeps :math:`L_i \le e^\varepsilon L_j` and
    :math:`1-L_i \le e^\varepsilon(1-L_j)`, both ways. Many answers share the best maximum; a second
    program takes the one with the least mean, profiles weighted by a prior.

    Examples
    --------
    >>> graph = ProfileGraph.chain({"a": [1.0, 0.0], "b": [0.5, 0.5], "c": [0.0, 1.0]})
    >>> SmoothOneBit.calibrate(graph, epsilon=1.0).flips.round(4)
    array([0.1839, 0.    , 0.1839])
    """

    word: ClassVar[str] = "smooth-one-bit"

    @classmethod
    def calibrate(cls, graph: ProfileGraph, epsilon: float, prior: Mapping[Any, float] | None = None) -> Self:
        """Solve (7.6), break ties by the prior-weighted mean, repair exactly; never sees a record."""
        ones(graph)
        weights = profile_weights(graph, prior)
        turn = np.zeros(graph.k)
        epsilon = checked_epsilon(epsilon)
        if epsilon >= LEAST_EPSILON:
            turn = _least_flips(graph, epsilon, weights)
        matrices = np.stack([np.stack([1 - turn, turn], axis=1), np.stack([turn, 1 - turn], axis=1)], axis=1)
        steps, weight = repair(graph, matrices, epsilon)
        return cls(graph, epsilon, steps, repair_weight=weight)

    @property
    def flips(self) -> Floats:
        """Each profile's probability of flipping."""
        return self.matrices[:, 0, 1]


def _least_flips(graph: ProfileGraph, epsilon: float, weights: Floats) -> Floats:
    """Return the flips of least maximum, and among those of least weighted mean."""
    p, k = ones(graph), graph.k
    shrink = np.exp(-epsilon)  # constraints are divided by e^ε: coefficients stay near one
    edges = graph.edge_indices
    i, j = np.vstack([edges, edges[:, ::-1]]).T
    row, each = np.arange(i.size), np.arange(k)
    slope = 1.0 - 2.0 * p
    rows = Rows(columns=k + 1)
    rows.add(i.size, (row, i, shrink * slope[i]), (row, j, -slope[j]))
    rows.add(i.size, (row, i, -shrink * slope[i]), (row, j, slope[j]))
    rows.add(k, (each, each, 1.0), (each, k, -1.0))
    limits = np.concatenate([p[j] - shrink * p[i], (1 - p[j]) - shrink * (1 - p[i]), np.zeros(k)])
    low, high = np.zeros(k + 1), np.full(k + 1, 0.5)
    best = solve(np.r_[np.zeros(k), 1.0], rows, low, high, limits=limits)[k]
    high[k] = min(0.5, best + _SLACK)
    return solve(np.r_[weights, 0.0], rows, low, high, limits=limits)[:k]
