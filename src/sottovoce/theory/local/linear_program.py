"""Linear programs: sparse rows collected piece by piece, solved by HiGHS."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog

from sottovoce.privacy.errors import PromiseUnreachable
from sottovoce.privacy.numbers import Floats

_TOLERANCE = 1e-10
LEAST_EPSILON = 1e-6
"""Below this a solver cannot tell e^ε from 1, and its answer would not survive the repair."""


@dataclass
class ConstraintRows:
    """A block of sparse constraint rows under construction."""

    columns: int
    count: int = 0
    _parts: list[tuple[NDArray[np.intp], NDArray[np.intp], Floats]] = field(default_factory=list)

    def add(self, count: int, *terms: tuple[ArrayLike, ArrayLike, ArrayLike]) -> None:
        """Append `count` rows; each term gives row offsets, columns and coefficients."""
        for rows, columns, values in terms:
            at, column, value = np.broadcast_arrays(np.asarray(rows), np.asarray(columns), np.asarray(values))
            self._parts.append((at.ravel() + self.count, column.ravel(), value.ravel().astype(np.float64)))
        self.count += count

    def matrix(self) -> sp.csr_array:
        """Return the rows as one sparse matrix."""
        if not self._parts:
            return sp.csr_array((self.count, self.columns))
        rows, columns, values = (np.concatenate(part) for part in zip(*self._parts, strict=True))
        return sp.csr_array((values, (rows, columns)), shape=(self.count, self.columns))


def solve(
    cost: Floats,
    at_most: ConstraintRows,
    low: Floats,
    high: Floats,
    *,
    limits: Floats | None = None,
    zero: ConstraintRows | None = None,
) -> Floats:
    """Return x in [low, high] of least cost·x with `at_most`·x <= limits (by default 0), `zero`·x = 0.

    Raises
    ------
    PromiseUnreachable
        If neither the simplex nor the interior-point method of HiGHS finds an answer, which only bad scaling
        (probabilities or costs of very unlike size) brings about.
    """
    problem: dict[str, Any] = {
        "A_ub": at_most.matrix(),
        "b_ub": np.zeros(at_most.count) if limits is None else limits,
        "bounds": np.column_stack([low, high]),
    }
    if zero is not None:
        problem |= {"A_eq": zero.matrix(), "b_eq": np.zeros(zero.count)}
    problem["options"] = {
        "primal_feasibility_tolerance": _TOLERANCE,
        "dual_feasibility_tolerance": _TOLERANCE,
    }
    for method in ("highs-ds", "highs-ipm"):
        answer = linprog(cost, method=method, **problem)
        if answer.status == 0:
            return np.asarray(answer.x)
    raise PromiseUnreachable(f"the linear program could not be solved: {answer.message}")
