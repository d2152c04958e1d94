"""k-ary randomized response: the local baseline, which treats every two categories alike."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from sottovoce.theory.local.exact import GRID, exp_below, uniform_steps
from sottovoce.theory.local.graph import ProfileGraph
from sottovoce.theory.local.guarantee import checked_epsilon
from sottovoce.theory.local.local import LocalMechanism


@dataclass(frozen=True, eq=False)
class RandomizedResponse(LocalMechanism):
    r"""Keep the category with probability :math:`e^\varepsilon/(e^\varepsilon + d - 1)`, else another.

    Locally private with ε, hence (G, ε)-profile-based private for every graph (Warner 1965; Geumlek 2020,
    Theorem 26).

    Examples
    --------
    >>> graph = ProfileGraph.complete({"a": [0.2, 0.3, 0.5], "b": [0.4, 0.3, 0.3]})
    >>> RandomizedResponse.calibrate(graph, epsilon=1.0).matrix("a")[0].round(4)
    array([0.5761, 0.2119, 0.2119])
    """

    word: ClassVar[str] = "randomized-response"

    @classmethod
    def calibrate(cls, graph: ProfileGraph, epsilon: float) -> Self:
        """Return the mechanism; it reads nothing of the profiles but the number of categories."""
        d = graph.d
        other = math.ceil(GRID / (exp_below(checked_epsilon(epsilon)) + d - 1))
        keep = GRID - (d - 1) * other
        if keep < other:
            steps = np.tile(uniform_steps(d), (d, 1))
        else:
            steps = np.full((d, d), other, dtype=np.int64)
            np.fill_diagonal(steps, keep)
        return cls(graph, epsilon, np.broadcast_to(steps, (graph.k, d, d)))
