"""The two-profile mechanism: one bit, two profiles, the flip probability in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from sottovoce.local.exact import exp_below
from sottovoce.local.graph import ProfileGraph
from sottovoce.local.guarantee import checked_epsilon
from sottovoce.local.mechanism import ProfileMechanism
from sottovoce.local.one_bit import edge_flip_steps, flip_matrices, ones
from sottovoce.privacy.errors import InvalidValue

__all__ = ["TwoProfileOneBit"]


@dataclass(frozen=True, eq=False)
class TwoProfileOneBit(ProfileMechanism):
    """Flip the bit with the least probability that keeps ε between two profiles (Geumlek 2020, Algorithm 6).

    The closed form is worked out in fractions and rounded up to the grid, so no smaller multiple of 2^-53
    would do.

    Examples
    --------
    >>> graph = ProfileGraph.bernoulli({"a": 0.0, "b": 1.0}, [("a", "b")])
    >>> round(TwoProfileOneBit.calibrate(graph, epsilon=1.0).flip, 4)
    0.2689
    """

    word: ClassVar[str] = "two-profile-one-bit"

    @classmethod
    def calibrate(cls, graph: ProfileGraph, epsilon: float) -> Self:
        """Return the mechanism for a graph of two one-bit profiles; never sees a record."""
        ones(graph)
        if graph.k != 2:
            raise InvalidValue(f"this mechanism is for two profiles. Got {graph.k}; use SmoothOneBit or OneBitCluster")
        ratio = exp_below(checked_epsilon(epsilon))
        flip = edge_flip_steps(graph.exact[0], graph.exact[1], ratio) if graph.edges else 0
        return cls(graph, epsilon, flip_matrices([flip, flip]))

    @property
    def flip(self) -> float:
        """The probability of flipping."""
        return float(self.matrices[0, 0, 1])
