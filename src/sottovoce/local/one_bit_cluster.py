"""The one-bit cluster mechanism: one flip probability for each connected component."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from sottovoce.local.exact import exp_below
from sottovoce.local.graph import ProfileGraph
from sottovoce.local.guarantee import checked_epsilon
from sottovoce.local.mechanism import ProfileMechanism
from sottovoce.local.one_bit import edge_flip_steps, flip_matrices, ones
from sottovoce.privacy.numbers import Floats

__all__ = ["OneBitCluster"]


@dataclass(frozen=True, eq=False)
class OneBitCluster(ProfileMechanism):
    """Flip with the largest probability any edge of the component needs (Geumlek 2020, Algorithm 7).

    Examples
    --------
    >>> graph = ProfileGraph.bernoulli({"a": 0.1, "b": 0.5, "c": 0.9}, [("a", "b")])
    >>> OneBitCluster.calibrate(graph, epsilon=1.0).flips.round(4)
    array([0.1049, 0.1049, 0.    ])
    """

    word: ClassVar[str] = "one-bit-cluster"

    @classmethod
    def calibrate(cls, graph: ProfileGraph, epsilon: float) -> Self:
        """Return the mechanism for a graph of one-bit profiles; never sees a record."""
        ones(graph)
        ratio = exp_below(checked_epsilon(epsilon))
        needs = [edge_flip_steps(graph.exact[a], graph.exact[b], ratio) for a, b in graph.edge_indices]
        flips = np.zeros(graph.k, dtype=np.int64)
        for component in graph.components:
            inside = np.isin(graph.edge_indices[:, 0], component)
            flips[list(component)] = max(np.array(needs, dtype=np.int64)[inside], default=0)
        return cls(graph, epsilon, flip_matrices(flips.tolist()))

    @property
    def flips(self) -> Floats:
        """Each profile's probability of flipping."""
        return self.matrices[:, 0, 1]
