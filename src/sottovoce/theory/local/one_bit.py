"""One-bit mechanisms: turn a bit as often as it takes for two Bernoulli profiles to look alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, as_floats
from sottovoce.theory.local.exact import GRID, Steps, exp_below, repair
from sottovoce.theory.local.graph import ProfileGraph
from sottovoce.theory.local.guarantee import checked_epsilon
from sottovoce.theory.local.linear_program import LEAST_EPSILON, ConstraintRows, solve
from sottovoce.theory.local.mechanism import ProfileMechanism, profile_weights

__all__ = ["OneBitCluster", "SmoothOneBit", "TwoProfileOneBit", "flip_probability"]

_SLACK = 1e-9


def flip_probability(p: ArrayLike, q: ArrayLike, epsilon: ArrayLike) -> Floats:
    r"""Return the least flip probability that keeps ε between Bernoulli(p) and Bernoulli(q).

    .. math:: \alpha = \frac{N}{2N + e^\varepsilon - 1}, \quad
        N = \max\{0,\; p_j - e^\varepsilon p_i,\; (1-p_i) - e^\varepsilon (1-p_j)\}, \quad p_i \le p_j

    This is (7.8) of Geumlek 2020 without the terms above one half, which its printed form lets in where their
    constraint is slack: there (7.8) gives α > 1 for p = 0.1, 0.12 and ε = 1, although no flip is needed.

    Examples
    --------
    >>> float(flip_probability(0.0, 1.0, 1.0)) == 1 / (1 + np.e)
    True
    >>> float(flip_probability(0.1, 0.12, 1.0))
    0.0
    """
    p, q = as_floats("p", p, 0.0), as_floats("q", q, 0.0)
    if max(p.max(initial=0.0), q.max(initial=0.0)) > 1:
        raise InvalidValue("p and q must be in [0, 1]")
    spread = np.expm1(np.minimum(as_floats("epsilon", epsilon, 0.0), 700.0))
    low, high = np.minimum(p, q), np.maximum(p, q)
    need = np.maximum(high - low - spread * low, high - low - spread * (1 - high))
    need = np.maximum(need, 0.0)
    with np.errstate(invalid="ignore"):
        return np.where(need > 0, need / (2 * need + spread), 0.0)


def edge_flip_steps(first: Sequence[Fraction], second: Sequence[Fraction], ratio: Fraction) -> int:
    """Return the least number of grid steps of flipping that keeps the ratio between one-bit profiles."""
    low, high = sorted((first[1], second[1]))
    need = max(Fraction(0), high - ratio * low, (1 - low) - ratio * (1 - high))
    return math.ceil(GRID * need / (2 * need + ratio - 1)) if need else 0


def flip_matrices(flips: Sequence[int]) -> Steps:
    """Return the matrices that flip profile i's bit with probability flips[i] / 2^53."""
    turn = np.asarray(flips, dtype=np.int64)
    return np.stack([np.stack([GRID - turn, turn], axis=1), np.stack([turn, GRID - turn], axis=1)], axis=1)


def ones(graph: ProfileGraph) -> Floats:
    """Return each profile's probability of the second category, or raise if there are not two categories."""
    if graph.d != 2:
        raise InvalidValue(f"a one-bit mechanism needs exactly two categories. Got {graph.d}; use SmoothCategorical")
    return graph.matrix[:, 1]


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


class _Flips(ProfileMechanism):
    """A mechanism that turns each profile's bit with a probability of its own."""

    @property
    def flips(self) -> Floats:
        """Each profile's probability of flipping."""
        return self.matrices[:, 0, 1]


@dataclass(frozen=True, eq=False)
class OneBitCluster(_Flips):
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


@dataclass(frozen=True, eq=False)
class SmoothOneBit(_Flips):
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


def _least_flips(graph: ProfileGraph, epsilon: float, weights: Floats) -> Floats:
    """Return the flips of least maximum, and among those of least weighted mean."""
    p, k = ones(graph), graph.k
    shrink = np.exp(-epsilon)  # constraints are divided by e^ε: coefficients stay near one
    edges = graph.edge_indices
    i, j = np.vstack([edges, edges[:, ::-1]]).T
    row, each = np.arange(i.size), np.arange(k)
    slope = 1.0 - 2.0 * p
    rows = ConstraintRows(columns=k + 1)
    rows.add(i.size, (row, i, shrink * slope[i]), (row, j, -slope[j]))
    rows.add(i.size, (row, i, -shrink * slope[i]), (row, j, slope[j]))
    rows.add(k, (each, each, 1.0), (each, k, -1.0))
    limits = np.concatenate([p[j] - shrink * p[i], (1 - p[j]) - shrink * (1 - p[i]), np.zeros(k)])
    low, high = np.zeros(k + 1), np.full(k + 1, 0.5)
    best = solve(np.r_[np.zeros(k), 1.0], rows, low, high, limits=limits)[k]
    high[k] = min(0.5, best + _SLACK)
    return solve(np.r_[weights, 0.0], rows, low, high, limits=limits)[:k]
