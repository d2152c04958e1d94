"""X'X and X'y in one query, for generalized linear models that need no more of the data than these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import ibis
import numpy as np

from sottovoce.privacy.numbers import Floats
from sottovoce.readings import ClippedSum
from sottovoce.tables.ball import Ball
from sottovoce.tables.columns import numeric
from sottovoce.tables.engine import Engine, number
from sottovoce.tables.grid import Grid
from sottovoce.tables.sums import clipped

__all__ = ["QuadraticStatistics", "quadratic_sums"]


@dataclass(frozen=True, eq=False)
class QuadraticStatistics:
    """The number of records n, X'X (`gram`, d × d) and X'y (`moment`, d)."""

    n: int
    gram: Floats
    moment: Floats


def quadratic_sums(
    engine: Engine,
    table: Any,
    columns: Sequence[str],
    target: str,
    *,
    data_norm: float,
    target_bounds: tuple[float, float],
    intercept: bool,
) -> tuple[Any, Callable[[tuple[int, ...]], QuadraticStatistics]]:
    """Return one query for n, X'X and X'y, and what its integers mean.

    Each row, the intercept's 1 (last) included, is scaled down to `data_norm`; each target is clipped to its
    bounds.
    """
    parts = [numeric(engine, table, name) for name in columns] + [ibis.literal(1)] * intercept
    ball = Ball(len(parts), data_norm)
    low, high = target_bounds
    size = max(abs(low), abs(high))
    goal, goal_grid = clipped(engine, numeric(engine, table, target).cast("float64"), ClippedSum(low, high), None)
    squares, crosses = Grid.covering(data_norm * data_norm), Grid.covering(data_norm * size)
    rows = ball.project(engine, table, parts, y=goal)
    pairs = list(combinations_with_replacement(range(len(parts)), 2))
    unit = number(crosses.scale / goal_grid.scale)
    sums = {f"g{i}_{j}": rows[f"w{i}"] * rows[f"w{j}"] * number(squares.scale) for i, j in pairs}
    sums |= {f"m{i}": rows[f"w{i}"] * rows.y.cast("float64") * unit for i in range(len(parts))}
    totals = {name: engine.total(engine.integer(value)) for name, value in sums.items()}
    query = rows.aggregate(n=rows.count().cast("string"), **totals)

    def decode(row: tuple[int, ...]) -> QuadraticStatistics:
        gram = np.zeros((len(parts), len(parts)))
        for (i, j), steps in zip(pairs, row[1:], strict=False):
            gram[i, j] = gram[j, i] = squares.value(steps)
        return QuadraticStatistics(row[0], gram, np.array([crosses.value(s) for s in row[1 + len(pairs) :]]))

    return query, decode
