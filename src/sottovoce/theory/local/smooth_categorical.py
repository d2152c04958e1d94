"""The smooth categorical mechanism: a transition matrix for each profile, by linear programming."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np

from sottovoce.privacy.numbers import Floats
from sottovoce.theory.local.exact import repair
from sottovoce.theory.local.graph import ProfileGraph
from sottovoce.theory.local.guarantee import checked_epsilon
from sottovoce.theory.local.linear_program import LEAST_EPSILON, ConstraintRows, solve
from sottovoce.theory.local.mechanism import ProfileMechanism
from sottovoce.theory.local.objectives import MaxOffDiagonal, Objective

_SLACK = 1e-9
_NOTHING = 1e-13
_SCALE_MAX = 1e7  # optima below 1e-7 are beneath what the solver can resolve


@dataclass(frozen=True, eq=False)
class SmoothCategorical(ProfileMechanism):
    r"""Alter records by matrices A^i, as little as the promise allows (Geumlek 2020, (7.7)).

    .. math:: \min_{A^1 \dots A^k} \max_{i, x \ne y} A^i_{x,y} \quad\text{with}\quad
        P_iA^i \le e^\varepsilon P_jA^j \text{ both ways along every edge}

    Below ε = 1e-6 profiles that differ along an edge are released as pure noise, and the rest untouched.
    Other objectives take the place of the maximum; see `objectives`. Each connected component is a program of
    its own.

    Examples
    --------
    >>> graph = ProfileGraph.chain({"a": [0.2, 0.3, 0.5], "b": [0.4, 0.3, 0.3], "c": [0.6, 0.3, 0.1]})
    >>> mechanism = SmoothCategorical.calibrate(graph, epsilon=0.5)
    >>> round(mechanism.max_error(), 4), bool(mechanism.edge_losses().max() <= 0.5)
    (0.0662, True)
    """

    word: ClassVar[str] = "smooth-categorical"

    objective: Objective = field(default_factory=MaxOffDiagonal)

    @classmethod
    def calibrate(cls, graph: ProfileGraph, epsilon: float, objective: Objective | None = None) -> Self:
        """Solve (7.7), break ties by a second program, repair exactly; never sees a record."""
        objective = MaxOffDiagonal() if objective is None else objective
        epsilon = checked_epsilon(epsilon)
        costs = objective.costs(graph)
        programs = [
            _Component(graph, component, epsilon)
            for component in graph.components
            if graph.d > 1 and epsilon >= LEAST_EPSILON and (len(component) > 1 or not objective.minimax)
        ]
        cap = None
        if objective.minimax:
            cap = max((program.least_maximum() for program in programs), default=0.0)
        matrices = np.tile(np.eye(graph.d), (graph.k, 1, 1))
        for program in programs:
            matrices[program.members] = program.least_mean(costs[program.members], cap)
        steps, weight = repair(graph, matrices, epsilon)
        return cls(graph, epsilon, steps, repair_weight=weight, objective=objective)

    def objective_value(self) -> float:
        """Return the objective reached by the matrices that are drawn from."""
        if self.objective.minimax:
            return self.max_error()
        return float(np.sum(self.objective.costs(self.graph) * self.matrices))


class _Component:
    r"""The program of one component, in the off-diagonal entries B of its matrices.

    The diagonal is one minus the rest of the row, so :math:`P_iA^i = P_i + Z_i` with
    :math:`Z_i(y) = \sum_{x \ne y} (P_i(x) B_{x,y} - P_i(y) B_{y,x})`.
    Columns: B, then Z, then a scale τ, then (for a complete component) floors.

    With B = C/τ and 0 <= C <= 1 the largest entry is 1/τ, and the constraints, times τ, are linear in
    (C, τ): maximising τ needs no row for each entry. Rows need not be told to stay below one, the optimum
    being at most 1/d.
    """

    def __init__(self, graph: ProfileGraph, component: Sequence[int], epsilon: float) -> None:
        self.members = list(component)
        self.P = graph.matrix[self.members]
        place = {i: n for n, i in enumerate(self.members)}
        inside = graph.edge_indices[np.isin(graph.edge_indices[:, 0], self.members)]
        self.edges = np.array([(place[a], place[b]) for a, b in inside.tolist()], dtype=np.intp).reshape(-1, 2)
        self.shrink = float(np.exp(-epsilon))
        k, d = self.P.shape
        self.x, self.y = np.nonzero(~np.eye(d, dtype=bool))
        self.entries = k * self.x.size
        self.tau = self.entries + k * d
        complete = k > 2 and len(self.edges) == k * (k - 1) // 2
        self.columns = self.tau + 1 + (d if complete else 0)
        self.zero, self.at_most = ConstraintRows(self.columns), ConstraintRows(self.columns)
        self._add_balance()
        if complete:
            self._add_floors()
        else:
            self._add_edges()

    def _add_balance(self) -> None:
        """Z_i(y) is what flows into y less what flows out."""
        k, d = self.P.shape
        entry, i = np.arange(self.entries), np.repeat(np.arange(k), self.x.size)
        x, y = np.tile(self.x, k), np.tile(self.y, k)
        flow, cell = self.P[i, x], np.arange(k * d)
        self.zero.add(k * d, (cell, self.entries + cell, 1.0), (i * d + y, entry, -flow), (i * d + x, entry, flow))

    def _add_edges(self) -> None:
        """e^-ε (τP_i + Z_i) <= τP_j + Z_j, both ways along each edge."""
        d = self.P.shape[1]
        both = np.vstack([self.edges, self.edges[:, ::-1]])
        i, j = np.repeat(both, d, axis=0).T
        y, row = np.tile(np.arange(d), len(both)), np.arange(i.size)
        self.at_most.add(
            i.size,
            (row, self.entries + i * d + y, self.shrink),
            (row, self.entries + j * d + y, -1.0),
            (row, self.tau, self.shrink * self.P[i, y] - self.P[j, y]),
        )

    def _add_floors(self) -> None:
        """All pairs at once: e^-ε (τP_i + Z_i) <= floor <= τP_i + Z_i needs 2k rows an output, not k²."""
        k, d = self.P.shape
        cell, floor = np.arange(k * d), self.tau + 1 + np.tile(np.arange(d), k)
        for scale in (self.shrink, -1.0):
            self.at_most.add(
                k * d,
                (cell, self.entries + cell, scale),
                (cell, self.tau, scale * self.P.ravel()),
                (cell, floor, -np.sign(scale)),
            )

    def _box(self, cap: float, tau: tuple[float, float]) -> tuple[Floats, Floats]:
        low, high = np.full(self.columns, -np.inf), np.full(self.columns, np.inf)
        low[: self.entries] = 0.0
        # A category that never occurs stays as it is.
        high[: self.entries] = np.where(self.P[:, self.x] > 0, cap, 0.0).ravel()
        low[self.tau], high[self.tau] = tau
        return low, high

    def least_maximum(self) -> float:
        """Return the least possible largest off-diagonal entry."""
        i, j = np.vstack([self.edges, self.edges[:, ::-1]]).T
        if np.max(self.shrink * self.P[i] - self.P[j], initial=0.0) <= _NOTHING:
            return 0.0
        cost = np.zeros(self.columns)
        cost[self.tau] = -1.0
        answer = solve(cost, self.at_most, *self._box(1.0, (0.0, _SCALE_MAX)), zero=self.zero)
        return float(1.0 / answer[self.tau])

    def least_mean(self, costs: Floats, cap: float | None) -> Floats:
        """Return matrices of least total cost, with off-diagonal entries up to `cap` where there is one."""
        k, d = self.P.shape
        if cap is None:
            entry = np.arange(self.entries)
            row = np.repeat(np.arange(k), self.x.size) * d + np.tile(self.x, k)
            self.at_most.add(k * d, (row, entry, 1.0), (np.arange(k * d), self.tau, -1.0))
        extra = costs[:, self.x, self.y] - costs[:, self.x, self.x]
        weights = np.zeros(self.columns)
        # Scaled so that the solver's absolute tolerance means the same for any units of cost.
        weights[: self.entries] = extra.ravel() / max(np.abs(extra).max(), _NOTHING)
        box = self._box(1.0 if cap is None else cap + _SLACK, (1.0, 1.0))
        entries = solve(weights, self.at_most, *box, zero=self.zero)[: self.entries].reshape(k, -1)
        matrices = np.zeros((k, d, d))
        matrices[:, self.x, self.y] = np.clip(entries, 0.0, 1.0)
        diagonal = np.arange(d)
        matrices[:, diagonal, diagonal] = 1.0 - matrices.sum(axis=2)
        return matrices
