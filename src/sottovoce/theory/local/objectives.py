"""Objectives: what a smooth categorical mechanism tries to keep small."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.theory.local.graph import ProfileGraph
from sottovoce.theory.local.mechanism import profile_weights


class Objective(Protocol):
    """What the programs need to know of an objective."""

    @property
    def minimax(self) -> bool:
        """Whether the largest off-diagonal entry comes first and `costs` only breaks ties."""
        ...

    def costs(self, graph: ProfileGraph) -> Floats:
        """Return the cost of each transition, axes: profile, category, output."""
        ...


@dataclass(frozen=True)
class MaxOffDiagonal:
    """The largest probability of any one alteration, as in (7.7); ties go to the least mean error."""

    minimax: ClassVar[bool] = True

    prior: Mapping[Any, float] | None = None

    def costs(self, graph: ProfileGraph) -> Floats:
        """Return the cost of each transition in the tie-breaking program."""
        return MeanError(self.prior).costs(graph)


@dataclass(frozen=True)
class MeanError:
    r"""The probability that a record is altered, :math:`\sum_i \pi_i \sum_x P_i(x) (1 - A^i_{x,x})`."""

    minimax: ClassVar[bool] = False

    prior: Mapping[Any, float] | None = None
    """π over profiles; equal weights by default."""

    def costs(self, graph: ProfileGraph) -> Floats:
        """Return the cost of each transition."""
        return MeanCost(1.0 - np.eye(graph.d), self.prior).costs(graph)


@dataclass(frozen=True, eq=False)
class MeanCost:
    r"""A mean cost of one's own, :math:`\sum_i \pi_i \sum_{x,y} P_i(x) A^i_{x,y} c(x,y)`.

    Such as |x - y| for ordered categories.
    """

    minimax: ClassVar[bool] = False

    cost: ArrayLike
    """c(x, y): a row for each category, a column for each output."""
    prior: Mapping[Any, float] | None = None

    def costs(self, graph: ProfileGraph) -> Floats:
        """Return the cost of each transition."""
        try:
            cost = np.asarray(self.cost, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidValue("cost must be a square matrix of numbers") from None
        if cost.shape != (graph.d, graph.d) or not np.all(np.isfinite(cost)):
            raise InvalidValue(f"cost must be finite, {graph.d} rows by {graph.d} columns. Got shape {cost.shape}")
        weights = profile_weights(graph, self.prior)
        return np.asarray(weights[:, None, None] * graph.matrix[:, :, None] * cost)
