"""Counts of categories and first two moments of numbers, all by class: what naive Bayes sees of the records."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats, Integers
from sottovoce.records.readings.base import Block, Reading, Sensitivity, Statistics
from sottovoce.records.readings.columns import as_codes, as_numbers, check_public
from sottovoce.records.readings.cross_counts import CrossCounts
from sottovoce.records.readings.grid import check_span

STEPS = 1 << 20
"""Steps of the public grid to one half of a number's width."""
_MOST = 2**33
"""The most records whose sums of steps a double holds exactly."""
_MOVED = Sensitivity(1.0, 0, 0, 4.0 * STEPS**2 + 8.0 * STEPS, 3.0 * STEPS)
"""How far one record moves the sums of one number, in steps, over all classes.

To another class: 2·(1 + ½) in L1, 2·(1 + ¼) in squares. Within a class (t - t')² + (t² - t'²)² <= 4, at the two ends of
the bounds; one more step a coordinate covers the rounding.
"""


@dataclass(frozen=True)
class ClassMoments(Reading):
    r"""S(x) = the cell of x in each table (class, category), then (t, t² - ½) of each number in the row of x's class.

    A record is its class, then one value a list of categories, then one number a pair of bounds. A number becomes
    t = (2x - low - high)/(high - low) in [-1, 1] in steps of 2⁻²⁰: whole numbers add up exactly in any order. Every
    record has a class: one of no known class, or category, counts as `others` says; what is no number counts as 0
    cut to the bounds, or as the bounds' third number.

    Attributes
    ----------
    classes
        The classes, at least two.
    categories
        For each column of categories their list.
    others
        The positions of the class, and of each column's category, that an unknown value counts as.
    bounds
        The lowest and highest value of each number, and what a missing one counts as.

    Examples
    --------
    >>> reading = ClassMoments(("ill", "well"), (("no", "yes"),), (1, 0), ((0.0, 100.0),))
    >>> seen = reading.read([["ill", "well", None], ["yes", "no", "no"], [75.0, 50.0, 0.0]])
    >>> tables, sums = reading.split(seen.total)
    >>> tables[0], sums[0] / STEPS
    (array([[0., 1.],
           [2., 0.]]), array([[ 0.5 , -0.25],
           [-1.  ,  0.  ]]))
    """

    word: ClassVar[str] = "class moments"
    vector: ClassVar[bool] = True
    classes: tuple[Hashable, ...]
    categories: tuple[tuple[Hashable, ...], ...]
    others: tuple[int, ...]
    bounds: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "bounds", tuple(_with_missing(*bounds) for bounds in self.bounds))
        lists = (self.classes, *self.categories)
        if len(self.others) != len(lists) or not all(
            0 <= o < len(values) for o, values in zip(self.others, lists, strict=True)
        ):
            raise InvalidValue("others must say, by position, what a value of no known class or category counts as")

    @property
    def counts(self) -> CrossCounts:
        """The tables (class, category); of the classes alone where there is no category."""
        columns = (self.classes, *self.categories)
        crossed = tuple((0, i) for i in range(1, len(columns))) or ((0,),)
        return CrossCounts(columns, crossed, self.others)

    @property
    def size(self) -> int:
        """The cells of all tables, and two sums a class and number."""
        return self.counts.size + 2 * len(self.classes) * len(self.bounds)

    def split(self, total: object) -> tuple[list[Any], list[Any]]:
        """Return the tables (class, category) and each number's sums (class, 2) of a total."""
        counts, rows = self.counts, len(self.classes)
        ends = np.cumsum([*counts.sizes, *[2 * rows] * len(self.bounds)])[:-1]
        parts = [part.reshape(rows, -1) for part in np.split(np.asarray(total), ends)]
        return parts[: len(counts.tables)], parts[len(counts.tables) :]

    def read(self, records: Any, missing: Any = None, *, public: bool = False) -> Statistics:
        """Return n, the counts and the sums of a list of columns: the class, the categories, the numbers."""
        if missing is not None:
            raise InvalidValue("each list of categories says itself what a missing value counts as")
        count, kinds = 1 + len(self.categories) + len(self.bounds), 1 + len(self.categories)
        if isinstance(records, Mapping) or not hasattr(records, "__len__") or len(records) != count:
            raise InvalidData(f"this reading takes a list of {count} columns, in order")
        seen = self.counts.read(records[:kinds], public=public)
        codes = as_codes(records[0], self.classes, self.others[0])
        sums = []
        for column, bounds in zip(records[kinds:], self.bounds, strict=True):
            numbers = as_numbers(column)
            if numbers.size != seen.n:
                raise InvalidData("every column must have one value a record; these have different lengths")
            check_public(public, bool(np.isnan(numbers).any()))
            sums.append(class_sums(centred(numbers, *bounds), codes, len(self.classes)))
        return Statistics(seen.n, np.concatenate([seen.total, *(s.ravel() for s in sums)]))

    def check_sums(self, n: int) -> None:
        """Raise unless a double holds every sum exactly."""
        self.counts.check_sums(n)
        if self.bounds and n > _MOST:
            raise InvalidValue(f"sums over n={n} records do not fit into a double; at most {_MOST} can be added")

    def check(self, statistics: Statistics) -> Statistics:
        """Return statistics that n records can have."""
        n, total = self._checked_total(statistics)
        self.counts.check(Statistics(n, total[: self.counts.size]))
        sums = np.abs(total[self.counts.size :])
        if np.any(sums > n * STEPS):
            raise self._off()
        return statistics

    def project(self, n: int, total: Floats) -> Floats:
        """Return counts from 0 to n, and sums within n steps of their bounds."""
        size = self.counts.size
        return np.concatenate([self.counts.project(n, total[:size]), np.clip(total[size:], -n * STEPS, n * STEPS)])

    def movement(self, n: int) -> Sensitivity:
        """Return the moves of all tables and sums together."""
        counts, k = self.counts.movement(n), len(self.bounds)
        if not k:
            return counts
        l1 = counts.cells * counts.width
        return Sensitivity(1.0, 0, 0, counts.squares + k * _MOVED.squares, l1 + k * float(_MOVED.total or 0))

    def blocks(self, n: int) -> tuple[Block, ...]:
        """Return one block a table and one a number."""
        return (*self.counts.blocks(n), *(Block(2 * len(self.classes), _MOVED) for _ in self.bounds))

    def middle(self) -> list[float]:
        """Return equal shares in every table, and numbers in the middle of their bounds."""
        share = [0.0, -STEPS / 2 / len(self.classes)] * len(self.classes)
        return self.counts.middle() + share * len(self.bounds)

    def _fits(self, mean: Floats) -> tuple[bool, str]:
        counts, words = self.counts._fits(mean[: self.counts.size])
        sums = mean[self.counts.size :]
        fits = counts and mean.shape == (self.size,) and bool(np.all(np.abs(sums) <= STEPS))
        return fits, f"{words}, then (t, t² - ½) of each number by class in steps of 2^-20"

    def pairs(self, n: int) -> list[tuple[Statistics, Statistics]]:
        """Return a record at one end of everything moved to the other end, into another class or within its own."""
        low, high = [b[0] for b in self.bounds], [b[1] for b in self.bounds]
        kinds = [(c[0], c[-1]) for c in self.categories]
        remainder = [self.classes[0], *(k[0] for k in kinds), *low]
        result = []
        for label in (self.classes[-1], self.classes[0]):
            last = [label, *(k[1] for k in kinds), *high]
            columns = [[[a] * n, [a] * (n - 1) + [b]] for a, b in zip(remainder, last, strict=True)]
            result.append((self.read([c[0] for c in columns]), self.read([c[1] for c in columns])))
        return result

    def apart(self, gap: Floats) -> bool:
        """Say whether at most one record changed its cells, and its numbers by no more than their bounds allow."""
        _, sums = self.split(gap)
        near = all(
            np.abs(part).sum() <= float(_MOVED.total or 0) and (part**2).sum() <= _MOVED.squares for part in sums
        )
        return self.counts.apart(gap[: self.counts.size]) and near

    @classmethod
    def example(cls) -> ClassMoments:
        """Return two classes, one column of three categories and one number."""
        return cls(("p", "q"), (("a", "b", "c"),), (0, 0), ((0.0, 2.0),))

    def typical(self) -> tuple[tuple[Any, ...], ...]:
        """Return the classes, the categories, and numbers at, between and beyond the bounds."""
        ends = [(low, high, (low + high) / 2, -math.inf, high + 3 * (high - low)) for low, high, _ in self.bounds]
        return (self.classes, *self.categories, *ends)


def _with_missing(low: float, high: float, missing: float | None = None) -> tuple[float, float, float]:
    check_span(low, high)
    filler = min(max(0.0, low), high) if missing is None else missing
    if not low <= filler <= high:
        raise InvalidValue(f"a missing value must count as a number from {low} to {high}. Got {missing!r}")
    return float(low), float(high), float(filler)


def centred(values: object, low: float, high: float, missing: float) -> Floats:
    """Return t in [-1, 1] of each value, clipped to the bounds; what is no number counts as `missing`."""
    x = as_numbers(values)
    x = np.clip(np.where(np.isnan(x), missing, x), low, high)
    # Measured from the lower end nothing is rounded past the other: 0 <= x - low <= high - low, also in doubles.
    return np.asarray(2 * ((x - low) / (high - low)) - 1)


def class_sums(t: Floats, codes: Integers, classes: int) -> Integers:
    """Return (Σt, Σ(t² - ½)) of each class in steps."""
    steps = np.rint(t * STEPS).astype(np.int64)
    square = ((steps * steps + STEPS // 2) >> 20) - STEPS // 2
    columns = [np.bincount(codes, weights=c.astype(np.float64), minlength=classes) for c in (steps, square)]
    return np.rint(np.column_stack(columns)).astype(np.int64)
