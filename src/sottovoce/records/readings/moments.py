"""The moments of a regression: X'X, X'y, X'1 and y'y, each added exactly on a public grid."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import ClassVar, Self

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.records.readings.ball_sum import ball_limit
from sottovoce.records.readings.base import Sensitivity, Statistics
from sottovoce.records.readings.design_rows import TINY, RowReading
from sottovoce.records.readings.grid import Grid, exact_sum, noisy_grid


@dataclass(frozen=True)
class Moments(RowReading):
    """S(x, y) = (xx', yx, x, y²): the upper triangle of X'X row by row, then X'y, X'1 and y'y.

    >>> Moments(2, 2.0, intercept=1.0, binary=False).read(([[0.5], [-0.25]], [1.0, 9.0])).total.tolist()
    [0.3125, 0.25, 2.0, 0.25, 2.0, 0.25, 2.0, 2.0]
    """

    word: ClassVar[str] = "moments"

    @property
    def size(self) -> int:
        """The entries of all four."""
        return self.dimension * (self.dimension + 1) // 2 + 2 * self.dimension + 1

    @property
    def places(self) -> list[tuple[int, int]]:
        """The upper triangle of X'X, in order."""
        return list(combinations_with_replacement(range(self.dimension), 2))

    @property
    def largest(self) -> float:
        """The largest |y|."""
        return max(map(abs, self.labels))

    def bounds(self) -> tuple[float, float, float, float]:
        """Return how large an entry of each of the four can be for one record."""
        c, Y = self.data_norm, self.largest
        return c * c, c * Y, c, Y * Y

    def split(self, total: object) -> tuple[Floats, Floats, Floats, float]:
        """Return X'X, X'y, X'1 and y'y."""
        d, total = self.dimension, np.asarray(total, dtype=np.float64)
        upper, moment, ones, square = np.split(total, np.cumsum([len(self.places), d, d]))
        gram = np.zeros((d, d))
        rows, columns = np.array(self.places).T
        gram[rows, columns] = gram[columns, rows] = upper
        return gram, moment, ones, float(square[0])

    def join(self, rows: Floats, labels: Floats) -> Floats:
        """Return the total of a few rows as plain floating-point sums, for imagined records."""
        gram = rows.T @ rows
        upper = np.array([gram[place] for place in self.places])
        return np.concatenate([upper, rows.T @ labels, rows.sum(axis=0), [labels @ labels]])

    def read(self, records: object, missing: object = None, *, public: bool = False) -> Statistics:
        """Return n and the moments of records in memory, given as (X, y): the numbers that an engine would find."""
        del public
        rows, labels = self.records(records, missing)
        mantissa, exponent = math.frexp(self.data_norm)
        with np.errstate(over="ignore", under="ignore"):
            size = np.abs(np.ldexp(rows, -exponent))
        tame = np.where(size >= TINY, np.minimum(size, 2.0**300), 0.0) * np.sign(rows)
        squares = np.zeros(len(tame))
        for column in tame.T:
            squares = squares + column * column
        limit = ball_limit(self.dimension, mantissa)
        w = (tame * (limit / np.maximum(np.sqrt(squares), limit))[:, None]).T
        label_size, up = math.frexp(self.largest)
        y = np.ldexp(labels, -up)
        y = np.where(np.abs(y) >= TINY * label_size, y, 0.0)
        parts: list[tuple[float, int, Iterable[Floats]]] = [
            (mantissa * mantissa, 2 * exponent, (w[i] * w[j] for i, j in self.places)),
            (mantissa * label_size, exponent + up, (column * y for column in w)),
            (mantissa, exponent, w),
            (label_size * label_size, 2 * up, [y * y]),
        ]
        return Statistics(len(rows), np.concatenate([_totals(*part) for part in parts]))

    def check_sums(self, n: int) -> None:
        """Raise unless doubles hold the sums."""
        if not all(math.isfinite(4 * n * bound) for bound in self.bounds()):
            raise InvalidValue(f"the moments of n={n} such records do not fit into doubles; measure in another unit")

    def check(self, statistics: Statistics) -> Statistics:
        """Return moments that n records within the bounds can have."""
        n, total = self._checked_total(statistics)
        gram, moment, ones, square = self.split(total)
        sizes = [*(float(np.linalg.norm(part)) for part in (gram, moment, ones)), abs(square)]
        if any(size > n * bound * (1 + 1e-9) for size, bound in zip(sizes, self.bounds(), strict=True)):
            raise self._off()
        return statistics

    def project(self, n: int, total: Floats) -> Floats:
        """Return each of the four scaled down to what n records can have."""
        sizes = np.cumsum([len(self.places), self.dimension, self.dimension])
        parts = np.split(np.asarray(total, dtype=np.float64), sizes)
        lengths = [
            float(np.linalg.norm(part)) for part in (self.split(total)[0], *parts[1:])
        ]  # X'X with both triangles
        most = [n * bound for bound in self.bounds()]
        return np.concatenate([p * min(1.0, m / max(size, m)) for p, size, m in zip(parts, lengths, most, strict=True)])

    def sensitivity(self) -> float:
        """Return how far one replaced record moves them all, in Euclidean norm, X'X counted with both triangles.

        (X'y, X'1) is the sum of x⊗(y, 1), so that `joint_sensitivity` holds with |(y, 1)| in place of |y|.
        """
        low, high = self.labels
        squares = 0.0 if low <= 0 <= high else min(low * low, high * high)
        spread = 0.0 if self.binary and -low == high else self.largest**2 - squares
        return math.hypot(joint_sensitivity(self.data_norm, math.hypot(self.largest, 1.0), 1.0), spread)

    def movement(self, n: int) -> Sensitivity:
        """Return the squared move, with what rounding adds: half a step an entry, twice."""
        width = self.sensitivity()
        grid = noisy_grid(n, width, max(self.bounds()))
        return Sensitivity(grid, 0, 0, (width / grid + 2 * math.sqrt(self.size)) ** 2)

    def middle(self) -> list[float]:
        """Return the moments of rows that are zero."""
        return [0.0] * (self.size - 1) + [self.neutral**2]

    def _fits(self, mean: Floats) -> tuple[bool, str]:
        fits = mean.shape == (self.size,) and np.array_equal(self.project(1, mean), mean)
        return bool(fits), f"{self.size} moments of records within the bounds"

    @classmethod
    def example(cls) -> Self:
        """Return two numbers and one to be explained."""
        return cls(2, 1.0, binary=False)

    def pairs(self, n: int) -> list[tuple[Statistics, Statistics]]:
        """Return the two records that are farthest apart, the others zero."""
        return [self.pair(n, math.hypot(self.largest, 1.0), -1.0)]

    def pair(self, n: int, response: float, turn: float) -> tuple[Statistics, Statistics]:
        """Return one record replaced by another as long, x·z as `joint_sensitivity` has it, of sign `turn`."""
        c = self.data_norm * (1 - 1e-12)
        inner = min(response**2 / 2, c * c) / c
        x, z = np.zeros((2, self.dimension))
        x[0], z[0] = c, turn * (inner if self.dimension > 1 else c)
        if self.dimension > 1:
            z[1] = math.sqrt(max(c * c - inner * inner, 0.0))
        low, high = self.labels
        end = high if turn < 0 else low  # a turned row or a turned label moves X'y alike
        remainder = (n - 1) * np.array([0.0] * (self.size - 1) + [self.neutral**2])
        first, second = self.join(x[None], np.array([high])), self.join(z[None], np.array([end]))
        return Statistics(n, first + remainder), Statistics(n, second + remainder)

    def apart(self, gap: Floats) -> bool:
        """Say whether one record can have moved the moments this far."""
        gram, moment, ones, square = self.split(gap)
        move = math.sqrt(float((gram**2).sum() + moment @ moment + ones @ ones) + square**2)
        return move <= self.sensitivity() * (1 + 1e-9)


def joint_sensitivity(data_norm: float, response: float, balance: float) -> float:
    r"""Return how far one replaced record moves (X'X, α·X'ỹ), X'X in Frobenius norm, for |ỹ| ≤ Y.

    With ‖x‖ = ‖z‖ = c and g = x·z the square is 2c⁴ − 2g² + 2α²Y²(c² + |g|), largest at |g| = min(α²Y²/2, c²).

    .. math:: \Delta = \sqrt2\,(c^2 + \alpha^2Y^2/2) \text{ if } \alpha Y \le \sqrt2 c,
              \text{ else } 2\alpha Yc
    """
    pull = balance * response
    if pull**2 <= 2 * data_norm**2:
        return math.sqrt(2) * (data_norm**2 + pull**2 / 2)
    return 2 * pull * data_norm


def _totals(bound: float, exponent: int, columns: Iterable[Floats]) -> Floats:
    """Return the exact sums of columns within ±bound, times 2^exponent; each is made when its turn comes."""
    grid, most = Grid.covering(bound), 1 << 52
    scale = Fraction(2) ** exponent / grid.unit
    return np.array([float(exact_sum(grid.steps(column, -most, most)) * scale) for column in columns])
