"""One number a record, clipped to public bounds and added on a public grid."""

from __future__ import annotations

import functools
import math
import sys
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats, Integers
from sottovoce.privacy.relation import REPLACE_ONE, Relation
from sottovoce.records.readings.base import Reading, Sensitivity, Statistics, checked_n
from sottovoce.records.readings.columns import as_numbers, check_public
from sottovoce.records.readings.grid import Grid, check_span, exact_sum, noisy_grid, sum_error

_COARSE = 2.0**-17
"""A total by hand may be off by a sixteenth of this much of a record's width: half a step of a noisy sum's grid."""


@functools.lru_cache(maxsize=256)
def _grid_steps(low: float, high: float, *, integer: bool) -> tuple[Grid, int, int]:
    if not (math.isfinite(low) and math.isfinite(high)):
        raise InvalidValue(f"bounds must be finite, the lower one first. Got {low} and {high}")
    grid = Grid(0) if integer else Grid.covering(max(abs(low), abs(high)))
    first, last = grid.inside(low, high)
    if first > last or (first == last and low < high):
        raise InvalidValue(f"the bounds {low} and {high} lie too close together for their size")
    return grid, first, last


def _exactly(x: float) -> Any:
    """Return a double as the very number it is; a whole one, as most are, as an integer, which is quicker."""
    return int(x) if float(x).is_integer() else Fraction(x)


@dataclass(frozen=True)
class ClippedSum(Reading):
    """S(x) = x clipped to [low, high] and put on a public grid; `integer` where records are whole (rounded down).

    >>> ClippedSum(0, 1).read([0.25, 7.0, -3.0, None])
    Statistics(n=4, total=array([1.25]))
    >>> ClippedSum(0, 1).project(10, np.array([-3.5]))
    array([0.])
    """

    word: ClassVar[str] = "clipped sum"
    low: float
    high: float
    integer: bool = False

    @property
    def size(self) -> int:
        """One."""
        return 1

    @property
    def whole(self) -> bool:
        """Whether records are whole numbers."""
        return self.integer

    def read(self, records: object, missing: object = None, *, public: bool = False) -> Statistics:
        """Return n and the sum; what is no number counts as `missing`, 0 cut to the bounds unless given."""
        low, high = self.low, self.high
        default = min(max(0.0, low), high) if missing is None else missing
        if not isinstance(default, int | float) or not low <= default <= high:
            raise InvalidValue(f"a missing value must count as a number from {low} to {high}. Got missing={missing!r}")
        column = as_numbers(records)
        check_public(public, bool(np.isnan(column).any()))
        self.check_sums(column.size)
        grid, first, last = self.grid_steps
        column = np.where(np.isnan(column), default, column)
        total = exact_sum(grid.steps(np.floor(column) if self.integer else column, first, last))
        # Rounded once, from the exact sum: so are the two numbers that a table gives.
        above = float(total / grid.unit - column.size * Fraction(low))
        return Statistics(column.size, np.array([grid.value(total)]), above, (total / grid.unit,))

    @cached_property
    def grid_steps(self) -> tuple[Grid, int, int]:
        """The grid that the bounds choose, and its first and last step within them."""
        return _grid_steps(self.low, self.high, integer=self.integer)

    def check_sums(self, n: int) -> None:
        """Raise unless a double holds the sum, of whole records exactly."""
        self.grid_steps  # noqa: B018 - refuse bounds that no grid serves
        largest, most = max(abs(self.low), abs(self.high)), 2.0**53 if self.integer else sys.float_info.max
        if int(n) * _exactly(largest) > _exactly(most):  # numpy's whole numbers would wrap round
            raise InvalidValue(
                f"the sum of n={n} records of size up to {largest:g} does not fit into a double; "
                "lower the bounds or measure in another unit"
            )

    def check(self, statistics: Statistics) -> Statistics:
        """Return statistics that n records within the bounds can have."""
        n, total = self._checked_total(statistics)
        slack = sum_error(n, max(abs(self.low), abs(self.high)))
        if not n * self.low - slack <= total[0] <= n * self.high + slack:
            raise self._off()
        above = self._above(statistics)
        return Statistics(n, np.clip(total, n * self.low, n * self.high), above, (self._exact(statistics, slack),))

    def _exact(self, statistics: Statistics, slack: float) -> Fraction:
        """Return the sum without rounding, as near as it is known."""
        n, known, low = int(statistics.n), _exactly(statistics.total[0]), _exactly(self.low)
        if statistics.exact is not None and abs(statistics.exact[0] - known) <= slack:
            known = statistics.exact[0]
        elif statistics.above is not None and math.isfinite(statistics.above):
            known = n * low + _exactly(statistics.above)
        return Fraction(min(max(known, n * low), n * _exactly(self.high)))

    def _above(self, statistics: Statistics) -> float:
        """Return Σ(S(x) - low), from 0 to n·(high - low), to more digits than one record moves."""
        n, total = checked_n(statistics.n), float(statistics.total[0])
        low, high = _exactly(self.low), _exactly(self.high)
        error, width = sum_error(n, float(max(abs(low), abs(high)))), high - low
        by_hand = statistics.above is None or not math.isfinite(statistics.above)
        above = _exactly(total) - n * low if by_hand else _exactly(statistics.above or 0)
        if by_hand and low and error > width * _COARSE:
            raise InvalidData(
                "with bounds so far from zero a total has too few digits left to tell one record; "
                "give the records, or what `statistics` reads from them"
            )
        if not -error <= above <= n * width + error or abs(n * low + above - _exactly(total)) > error:
            raise self._off()
        return float(min(max(above, 0), n * width))

    def project(self, n: int, total: Floats) -> Floats:
        """Return the total cut to n·[low, high]."""
        return np.asarray(np.clip(total, n * self.low, n * self.high))

    def movement(self, n: int | None) -> Sensitivity:
        """Return by how much one record moves the sum: its width, one step more where fractions are rounded."""
        if n is None:
            raise InvalidValue("the steps of a clipped sum are as fine as n allows; it must be known")
        if self.integer:
            _, first, last = self.grid_steps
            width = last - first
            return Sensitivity(1.0, 1, width, float(width) ** 2)
        span = check_span(self.low, self.high)
        grid = noisy_grid(n, span, span)
        # Rounding to the grid keeps a distance of whole steps; one more step covers the error of the sum.
        width = math.ceil(span / grid) + 1
        return Sensitivity(grid, 1, width, float(width) ** 2)

    def steps(self, statistics: Statistics) -> Integers:
        """Return the sum in steps above n·low, which keeps its digits far from zero; of whole records, the first."""
        checked = self.check(statistics)
        if self.integer:
            return np.rint(checked.total).astype(np.int64) - checked.n * self.grid_steps[1]
        near = checked.total[0] - checked.n * self.low if checked.above is None else checked.above
        return np.rint(np.atleast_1d(near) / self.movement(checked.n).grid).astype(np.int64)

    def from_steps(self, n: int, steps: Integers) -> Floats:
        """Return n·low and the steps together."""
        if self.integer:
            return np.asarray(steps + float(n * self.grid_steps[1]))
        return np.asarray(steps * self.movement(n).grid + n * self.low)

    def statistics(self, n: int, total: Floats) -> Statistics:
        """Return a total with its part above n·low."""
        return Statistics(n, total, float(total[0] - n * self.low))

    def middle(self) -> float:
        """Return the middle of the bounds."""
        return (self.low + self.high) / 2

    def plausible(self) -> list[float]:
        """Return three means, two of them near the bounds."""
        return [self.low + part * (self.high - self.low) for part in (0.1, 0.5, 0.9)]

    def _fits(self, mean: Floats) -> tuple[bool, str]:
        fits = mean.shape == (1,) and bool(self.low <= mean[0] <= self.high)
        return fits, f"one number between {self.low:g} and {self.high:g}"

    def pairs(self, n: int | None) -> list[tuple[Statistics, Statistics]]:
        """Return all records low but one, and all high but one; where n is None, one record more at either end."""
        width = self.high - self.low
        if n is None:
            return [(self._at(2, above), self._at(1, 0.0)) for above in (0.0, width)]
        ends = [(0.0, width), ((n - 1) * width, n * width)][: 1 if n == 1 else 2]
        return [(self._at(n, a), self._at(n, b)) for a, b in ends]

    def _at(self, n: int, above: float) -> Statistics:
        return Statistics(n, np.array([n * self.low + above]), above)

    @classmethod
    def example(cls) -> Self:
        """Return numbers from 0 to 2."""
        return cls(0.0, 2.0)

    def typical(self) -> tuple[tuple[Any, ...], ...]:
        """Return the ends, the middle, and numbers beyond."""
        return ((self.low, self.high, self.middle(), self.low - 1e300, 4 * self.high - 3 * self.low),)

    def neighbours(self, first: Any, second: Any, relation: Relation = REPLACE_ONE) -> bool:
        """Say whether the sums, to the digits that are known, lie at most a record's width apart."""
        if not relation.hides_n and first.n == second.n and None not in (first.above, second.above):
            return self.apart(np.array([first.above - second.above]))
        return super().neighbours(first, second, relation)

    def beside(self, gap: Floats) -> bool:
        """Say whether the gap, one way or the other, is a record."""
        slack = 1e-9 * max(abs(self.low), abs(self.high))
        return any(self.low - slack <= sign * float(gap[0]) <= self.high + slack for sign in (1, -1))

    def apart(self, gap: Floats) -> bool:
        """Say whether the gap is at most a record's width."""
        return bool(abs(gap[0]) <= (self.high - self.low) * (1 + 1e-9))
