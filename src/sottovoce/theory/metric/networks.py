"""Discrete Bayesian networks: which tables of the network a change of the data touches (Lemma 7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats, log_up, real, shown
from sottovoce.theory.metric.metric import MetricDP


@dataclass(frozen=True)
class NetworkMetric:
    r"""How many conditional probabilities of a discrete Bayesian network differ between two data sets.

    .. math:: \rho(x, y) = \sum_t \Big|\bigcup_{k:\,x_{tk}\ne y_{tk}} \{k\} \cup \mathrm{children}(k)\Big|

    A variable that changes moves its own factor of the likelihood and those of its children. The paper counts one
    factor for each child of each changed variable (`weighted`), which is never less. Its Lemma 7 as stated counts no
    children at all, which holds only where the variables are independent.

    Parameters
    ----------
    parents
        For each variable the positions of its parents; the graph must have no cycle.

    Examples
    --------
    A chain of three variables, one record, the first variable changed: its own table and the next one are touched.

    >>> metric = NetworkMetric(parents=((), (0,), (1,)))
    >>> metric([[0, 0, 0]], [[1, 0, 0]]), metric([[0, 0, 0]], [[1, 1, 1]])
    (2.0, 3.0)
    >>> metric.weighted([[0, 0, 0]], [[1, 1, 1]])
    5.0
    """

    parents: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        try:
            parents = tuple(tuple(int(p) for p in row) for row in self.parents)
        except (TypeError, ValueError):
            raise InvalidValue("parents must hold, for each variable, the positions of its parents") from None
        object.__setattr__(self, "parents", parents)
        outside = [p for row in parents for p in row if not 0 <= p < len(parents)]
        if outside or not parents:
            raise InvalidValue(f"a parent must be one of the {len(parents)} variables. Got position {outside[:1]}")
        if any(len(set(row)) != len(row) for row in parents):
            raise InvalidValue("a variable lists the same parent twice")
        placed: set[int] = set()
        while ready := {k for k, row in enumerate(parents) if k not in placed and placed.issuperset(row)}:
            placed |= ready
        if len(placed) < len(parents):
            raise InvalidValue(
                f"the graph has a cycle through the variables {sorted(set(range(len(parents))) - placed)}"
            )

    def _touches(self) -> Floats:
        """Return the matrix with a one where a change of the row's variable moves the column's factor."""
        out = np.eye(len(self.parents))
        for child, row in enumerate(self.parents):
            out[list(row), child] = 1.0
        return out

    def __call__(self, x: object, y: object) -> float:
        """Return how many factors of the likelihood differ between two data sets, one row a record."""
        changed = self._changed(x, y)
        return float(np.count_nonzero(changed @ self._touches()))

    def weighted(self, x: object, y: object) -> float:
        """Return the paper's distance: 1 + the number of its children for each changed variable of each record."""
        return float((self._changed(x, y) @ self._touches()).sum())

    @property
    def diameter(self) -> float:
        """The largest distance that one record replaced can make: every factor of it."""
        return float(len(self.parents))

    def _changed(self, x: object, y: object) -> NDArray[np.float64]:
        first, second = np.asarray(x), np.asarray(y)
        if first.ndim != 2 or first.shape != second.shape or first.shape[1] != len(self.parents):
            raise InvalidData(
                f"both data sets must have one row a record and {len(self.parents)} columns. "
                f"Got {first.shape} and {second.shape}"
            )
        return np.asarray(first != second, dtype=np.float64)


def network_privacy(parents: Sequence[Sequence[int]], smallest: float) -> MetricDP:
    """Return the metric privacy of a network whose conditional probabilities are all at least `smallest` (Lemma 7).

    No probability can then exceed 1 - `smallest`, so one factor moves by at most L = ln((1-ε)/ε), a little less than
    the paper's ln(1/ε). The prior must put all its mass on such tables.

    >>> privacy = network_privacy(parents=((), (0,)), smallest=0.1)
    >>> round(privacy.log_ratio_bound([[0, 0]], [[1, 0]]), 4)
    8.7889
    """
    least = real("smallest", smallest)
    if not 0 < least <= 0.5:
        raise InvalidValue(
            f"smallest must lie in (0, 0.5]: two categories already share a probability of 1. Got {least}"
        )
    try:
        rows = tuple(tuple(row) for row in parents)
    except TypeError:
        raise InvalidValue(f"parents are a sequence of nodes for each node. Got {shown(parents)}") from None
    return MetricDP(log_up(1 - Fraction(least), Fraction(least)), NetworkMetric(rows))
