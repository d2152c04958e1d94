"""One vector a record, projected onto a ball and added on a public grid."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.records.readings.base import Reading, Sensitivity, Statistics
from sottovoce.records.readings.columns import as_rows, check_public
from sottovoce.records.readings.grid import Grid, exact_sums, noisy_grid, sum_error


@dataclass(frozen=True)
class BallSum(Reading):
    """S(x) = x projected onto the ball of `radius` around the origin in `dimension` coordinates.

    >>> BallSum(2, 1.0).read([[0.5, 0.0], [30.0, 40.0]]).total.round(9)
    array([1.1, 0.8])
    """

    word: ClassVar[str] = "ball sum"
    vector: ClassVar[bool] = True
    dimension: int
    radius: float

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return self.dimension

    @property
    def whole(self) -> bool:
        """Coordinates are fractions."""
        return False

    def read(self, records: object, missing: object = None, *, public: bool = False) -> Statistics:
        """Return n and the sum of the rows; a missing coordinate counts as 0."""
        if missing is not None:
            raise InvalidValue("a missing coordinate counts as 0; a ball takes no other value for it")
        rows = as_rows(records, self.dimension)
        check_public(public, bool(np.isnan(rows).any()))
        self.check_sums(len(rows))
        mantissa, exponent = math.frexp(self.radius)
        # Beside a radius of about 1 no square overflows or underflows; scaling by a power of two is exact.
        with np.errstate(over="ignore", under="ignore"):
            size = np.abs(np.ldexp(rows, -exponent))
        signs = np.sign(np.where(np.isnan(rows), 0.0, rows))
        tame = np.where(size >= 2.0**-100, np.minimum(size, 2.0**300), 0.0) * signs
        squares = np.zeros(len(tame))
        for column in tame.T:
            squares = squares + column * column
        limit = ball_limit(self.dimension, mantissa)
        shrink = limit / np.maximum(np.sqrt(squares), limit)
        grid = Grid.covering(mantissa)
        most = 1 << 52
        steps = exact_sums(grid.steps(tame * shrink[:, None], -most, most))
        scale = Fraction(2) ** exponent / grid.unit
        exact = tuple(step * scale for step in steps)
        return Statistics(len(rows), np.array([float(entry) for entry in exact]), exact=exact)

    def check_sums(self, n: int) -> None:
        """Raise unless a double holds the sum."""
        if Fraction(n) * Fraction(self.radius) > Fraction(sys.float_info.max):
            raise InvalidValue(
                f"the sum of n={n} records of size up to {self.radius:g} does not fit into a double; "
                "lower the bounds or measure in another unit"
            )

    def check(self, statistics: Statistics) -> Statistics:
        """Return a sum that n records in the ball can have."""
        n, total = self._checked_total(statistics)
        length, most = _norm(total), n * self.radius
        if length > most + math.sqrt(self.dimension) * sum_error(n, self.radius):
            raise self._off()
        if statistics.exact is not None and all(map(operator.eq, map(float, statistics.exact), total.tolist())):
            return statistics  # added without rounding, of rows short of the radius
        return Statistics(n, total * (most / length)) if length > most else Statistics(n, total)

    def project(self, n: int, total: Floats) -> Floats:
        """Return the sum scaled down into n balls where it lies outside."""
        length = float(np.linalg.norm(total))
        return np.asarray(total if length <= n * self.radius else total * (n * self.radius / length))

    def movement(self, n: int) -> Sensitivity:
        """Return the squared diameter, with what rounding adds: half a step a coordinate, twice."""
        grid = noisy_grid(n, 2 * self.radius, self.radius)
        # Rounding moves each coordinate by at most half a step, and so does the error of the sum.
        return Sensitivity(grid, 0, 0, (2 * self.radius / grid + 2 * math.sqrt(self.dimension)) ** 2)

    def middle(self) -> list[float]:
        """Return the origin."""
        return [0.0] * self.dimension

    def _fits(self, mean: Floats) -> tuple[bool, str]:
        fits = mean.shape == (self.dimension,) and bool(np.linalg.norm(mean) <= self.radius)
        return fits, f"{self.dimension} coordinates within the radius {self.radius:g}"

    def pairs(self, n: int) -> list[tuple[Statistics, Statistics]]:
        """Return one record at either end of an axis, the others at the origin."""
        end = np.eye(self.dimension)[0] * self.radius
        return [(Statistics(n, -end), Statistics(n, end))]

    @classmethod
    def example(cls) -> Self:
        """Return points of a disc."""
        return cls(2, 1.5)

    def typical(self) -> tuple[tuple[Any, ...], ...]:
        """Return the ends of an axis, the origin, and points outside."""
        return ((-self.radius, self.radius, 0.0, 0.3 * self.radius, 1e200 * self.radius),) * self.dimension

    def arranged(self, records: Sequence[tuple[object, ...]]) -> Any:
        """Return one row a record."""
        return [list(record) for record in records]

    def apart(self, gap: Floats) -> bool:
        """Say whether the gap is at most a diameter."""
        return bool(np.linalg.norm(gap) <= 2 * self.radius * (1 + 1e-9))


def ball_limit(dimension: int, radius: float) -> float:
    """Return the norm that rows are scaled to: short of `radius` by more than all rounding can add.

    The norm of d doubles is off by a relative (d + 2)·2⁻⁵³ at most, the scaled coordinates by two more roundings, and
    putting them, or their products, on a grid of 2⁻⁵¹ moves a row by √d·2⁻⁵¹ (a matrix by d·2⁻⁵¹).
    """
    return radius * (1 - (dimension + 8) * 2.0**-49)


def _norm(vector: Floats) -> float:
    """Return the length of a vector whose squares may overflow."""
    largest = float(np.abs(vector).max(initial=0.0))
    return largest * float(np.linalg.norm(vector / largest)) if 0 < largest < math.inf else largest
