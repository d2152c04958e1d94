"""Flip probabilities: how often a bit must be turned so that two Bernoulli profiles look alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.local.exact import GRID, Steps
from sottovoce.local.graph import ProfileGraph
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, as_floats

__all__ = ["edge_flip_steps", "flip_matrices", "flip_probability", "ones"]


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
