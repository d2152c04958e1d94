"""Public groups, and in each the number of its records and the sums of what they hold."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.records.readings.bands import Bands, kind_of, places_of
from sottovoce.records.readings.base import Block, Reading, Sensitivity, Statistics
from sottovoce.records.readings.category_counts import nearest_counts
from sottovoce.records.readings.columns import as_numbers, check_public
from sottovoce.records.readings.grid import check_span

STEPS = 2**20
"""A measure t in [-1, 1] is a whole number of steps of 1/STEPS, and so is its square, rounded."""
_MOST_CELLS = 2**20


@dataclass(frozen=True)
class MomentScale:
    """From a number within public bounds to t in [-1, 1], in whole steps: the same doubles on every engine.

    >>> MomentScale(60, 250).steps(np.array([60.0, 155.0, 1e9]))
    array([-1048576,        0,  1048576])
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        check_span(self.low, self.high)

    @property
    def middle(self) -> float:
        """The number that is t = 0."""
        return (self.low + self.high) / 2

    @property
    def half(self) -> float:
        """How much of the number is a t of one."""
        return (self.high - self.low) / 2

    @property
    def factor(self) -> float:
        """Steps a unit of the number."""
        return STEPS / self.half

    @property
    def least(self) -> float:
        """What lies nearer to the middle is 0 steps off; no product is so small that an engine balks at it."""
        return self.half * 2.0**-22

    def steps(self, numbers: Floats) -> Any:
        """Return t in steps, of numbers that are none missing."""
        off = np.clip(numbers, self.low, self.high)
        off -= self.middle  # and on in place: fresh memory costs more than the work
        off[np.abs(off) < self.least] = 0.0
        off *= self.factor
        np.rint(off, out=off)
        return np.clip(off, -STEPS, STEPS, out=off).astype(np.int64)


def squares(steps: Any, *, half: bool = False) -> Any:
    """Return t² in steps, or (t/2)²: a product of two doubles below 2⁵³, which no engine rounds, and never halfway."""
    squared = steps.astype(np.float64)
    squared *= squared
    squared *= 1 / (4 * STEPS if half else STEPS)  # a power of two
    return np.rint(squared, out=squared).astype(np.int64)


@dataclass(frozen=True)
class GroupMoments(Reading):
    """S(x) = 1 in the cell of x, t in the cell of x for each measure, and t² of the first, or products of two.

    A cell is one combination of the categories of all `groups`, and of the bins between `edges` where there are
    some; the last one runs fastest. A record of an unknown group, or with a missing number, is in no cell: it counts
    in the last place of the counts and adds zeros elsewhere, so n never changes.

    Attributes
    ----------
    groups, others
        The categories of each group column, or its `Bands`, and the position of the one that an unknown value counts
        as, or -1.
    edges
        Bounds of the bins of the next column, from its low to its high; none where no column is cut into bins.
    measures
        Low and high of every further column; what lies outside is cut.
    fillers
        What a missing number counts as, for the binned column and each measure; None where its record is in no cell.
    squared
        Whether t² of the first measure is added too.
    crossed
        Whether so are u² of the second and ((t - u)/2)²: with t² they tell every product of the two.
    counted
        Whether records are counted. If not, there is one cell, and all n records are in it.

    Examples
    --------
    >>> reading = GroupMoments((("A", "B"),), (-1,), measures=((0.0, 2.0),), fillers=(None,))
    >>> (reading.read([["A", "B", "A", "?"], [2.0, 0.0, None, 1.0]]).total / [1, 1, 1, STEPS, STEPS]).tolist()
    [1.0, 1.0, 2.0, 1.0, -1.0]
    """

    word: ClassVar[str] = "group moments"
    vector: ClassVar[bool] = True
    fine: ClassVar[int] = 1
    """How many steps a count of one has."""
    hides_n: ClassVar[bool] = True
    groups: tuple[tuple[Hashable, ...] | Bands, ...]
    others: tuple[int, ...]
    edges: tuple[float, ...] = ()
    measures: tuple[tuple[float, float], ...] = ()
    fillers: tuple[float | None, ...] = ()
    squared: bool = False
    counted: bool = True
    crossed: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.others) != len(self.groups) or len(self.fillers) != bool(self.edges) + len(self.measures):
            raise InvalidValue("every group needs its other, and every column of numbers its filler")
        for kind in self.groups:
            if not isinstance(kind, Bands) and (not kind or len(set(kind)) < len(kind)):
                raise InvalidValue("the categories of a group must be a list of different values")
        if self.edges and (len(self.edges) < 2 or not np.all(np.diff(self.edges) > 0)):
            raise InvalidValue("edges must rise")
        if self.edges:
            check_span(self.edges[0], self.edges[-1])
        if self.squared and not self.measures:
            raise InvalidValue("there is nothing to square")
        if self.crossed and not (self.squared and len(self.measures) == 2):
            raise InvalidValue("two measures are crossed, whose squares are added")
        if not self.counted and (self.cells > 1 or not self.measures):
            raise InvalidValue("groups are counted")
        if self.cells > _MOST_CELLS:
            raise InvalidValue(f"at most {_MOST_CELLS} cells are counted at once. Got {self.cells}")
        self.scales  # noqa: B018 - bounds that cannot be are refused here

    @property
    def scales(self) -> tuple[MomentScale, ...]:
        """How each measure becomes t."""
        return tuple(MomentScale(low, high) for low, high in self.measures)

    @property
    def columns(self) -> int:
        """How many columns are read."""
        return len(self.groups) + len(self.fillers)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the table of cells."""
        return tuple(len(c) for c in self.groups) + ((len(self.edges) - 1,) if self.edges else ())

    @property
    def cells(self) -> int:
        """The number of cells."""
        return math.prod(self.shape)

    @property
    def moments(self) -> int:
        """How many sums a cell has beside its count."""
        return len(self.measures) + self.squares

    @property
    def squares(self) -> int:
        """How many of these are of squares."""
        return self.squared + 2 * self.crossed

    def places(self, n: int) -> int:
        """Return what the counts of n records add up to."""
        return n

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many numbers each part of the total has: the counts, then each sum."""
        return ((self.cells + 1,) if self.counted else ()) + (self.cells,) * self.moments

    @property
    def size(self) -> int:
        """The number of counts and sums."""
        return sum(self.sizes)

    def read(self, records: object, missing: object = None, *, public: bool = False) -> Statistics:
        """Return n and the sums of a list of columns, in order: groups, the binned one, measures."""
        inside, codes, numbers = self.placed(records, missing, public=public)
        if self.edges:
            codes.append(np.searchsorted(self.edges[1:-1], numbers.pop(0), side="right"))
        cell = codes[0] if codes else np.zeros(int(inside.sum()), dtype=np.int64)
        for code, size in zip(codes[1:], self.shape[1:], strict=True):
            cell = cell * size + code
        return self.added(inside.size, cell, [s.steps(column) for s, column in zip(self.scales, numbers, strict=True)])

    def placed(self, records: Any, missing: Any = None, *, public: bool = False) -> tuple[Any, list[Any], list[Any]]:
        """Return which records are in a cell, and of those the place in every group and every number, none missing."""
        if missing is not None:
            raise InvalidValue("each column says itself what a missing value counts as")
        wanted = len(self.groups) + len(self.fillers)
        if isinstance(records, Mapping) or not hasattr(records, "__len__") or len(records) != wanted:
            raise InvalidData(f"this reading takes a list of {self.columns} columns, in order")
        names = list(records)
        codes = [places_of(c, g, o) for c, g, o in zip(names, self.groups, self.others, strict=False)]
        numbers = [as_numbers(column) for column in names[len(self.groups) :]]
        lengths = {len(column) for column in (*codes, *numbers)}
        if len(lengths) > 1:
            raise InvalidData("every column must have one value a record; these have different lengths")
        numbers = [
            column if filler is None else np.where(np.isnan(column), filler, column)
            for column, filler in zip(numbers, self.fillers, strict=True)
        ]
        inside = np.ones(lengths.pop() if lengths else 0, dtype=bool)
        for code in codes:
            inside &= code >= 0
        for column in numbers:
            inside &= ~np.isnan(column)
        check_public(public, not bool(inside.all()))
        return inside, [code[inside] for code in codes], [column[inside] for column in numbers]

    def added(self, n: int, cell: Any, steps: Sequence[Any]) -> Statistics:
        """Return the statistics of n records, of which these are in a cell, with their measures in steps."""
        if self.squared:
            steps = [*steps, *self.products(steps)]
        counts = np.bincount(cell, minlength=self.cells)
        return self.gathered(n, counts, [_added(cell, part, self.cells) for part in steps])

    def products(self, steps: Sequence[Any]) -> list[Any]:
        """Return the squares, in steps, of measures in steps."""
        if not self.crossed:
            return [squares(steps[0])]
        return [squares(steps[0]), squares(steps[1]), squares(steps[0] - steps[1], half=True)]

    def gathered(self, n: int, counts: Any, sums: Any) -> Statistics:
        """Return statistics from the counts and sums of the cells."""
        counts = np.asarray(counts, dtype=np.float64)
        parts = [counts, [n - counts.sum()]] if self.counted else []
        return Statistics(n, np.concatenate([*parts, *(np.asarray(s, dtype=np.float64) for s in sums)]))

    def for_size(self, n: int | None) -> GroupMoments:
        """Return the reading for n records: where n is a secret, they are counted, so that it is noised too."""
        return self if n is not None or self.counted else replace(self, counted=True)

    def split(self, total: object) -> list[Any]:
        """Return the parts of a total: the counts (the records in no cell last), then each sum."""
        return np.split(np.asarray(total), np.cumsum(self.sizes)[:-1])

    def check_sums(self, n: int) -> None:
        """Raise unless a double holds every sum exactly."""
        if n * (STEPS if self.measures else 1) > 2**53:
            raise InvalidValue(f"the sums of n={n} records do not fit into a double")

    def check(self, statistics: Statistics) -> Statistics:
        """Return sums that n records can have."""
        n, total = self._checked_total(statistics)
        parts = self.split(total)
        counts = parts.pop(0) if self.counted else np.full(self.cells, float(n))
        slack = 1 + (self.size + 2) * 2.0**-52  # of what was projected, the sum is rounded
        if self.counted and (not np.all(counts >= 0) or not n / slack <= counts.sum() <= n * slack):
            raise self._off()
        most = counts[: self.cells] * STEPS
        for i, part in enumerate(parts):
            least = 0.0 if i >= len(self.measures) else -most
            if not (np.all(part >= least) and np.all(part <= most)):
                raise self._off()
        return statistics

    def project(self, n: int, total: Floats) -> Floats:
        """Return the nearest counts of n records, and the sums cut to what so many can have."""
        parts = self.split(np.asarray(total, dtype=np.float64))
        counts = nearest_counts(parts.pop(0), float(n)) if self.counted else np.full(self.cells, float(n))
        most = counts[: self.cells] * STEPS
        sums = [np.clip(part, 0.0 if i >= len(self.measures) else -most, most) for i, part in enumerate(parts)]
        return np.concatenate([counts, *sums] if self.counted else sums)

    def movement(self, n: int | None) -> Sensitivity:
        """Return how far one record moves everything, in squares; `blocks` tell more."""
        if not self.measures:
            return self.blocks(n)[0].movement
        return Sensitivity(1.0, 0, 0, sum(block.movement.squares for block in self.blocks(n)))

    def blocks(self, n: int | None) -> tuple[Block, ...]:
        """Return the counts and each sum, every one as far as it can move alone.

        One record more adds one to one count, and at most one, in size, to each sum of its cell.
        """
        if n is None:
            if not self.counted:
                raise InvalidValue("where n is a secret, records are counted")
            item = Sensitivity(1.0, 1, STEPS, float(STEPS) ** 2)
            moves = [Sensitivity(1.0, 1, 1, 1.0), *[item] * self.moments]
            return tuple(Block(size, move) for size, move in zip(self.sizes, moves, strict=True))
        moves = [Sensitivity(1.0, 2, 1, 2.0)] if self.counted else []
        moves += [Sensitivity(1.0, 0, 0, 4.0 * STEPS**2)] * len(self.measures)
        moves += [Sensitivity(1.0, 0, 0, 2.0 * STEPS**2)] * self.squares
        return tuple(Block(size, move) for size, move in zip(self.sizes, moves, strict=True))

    def middle(self) -> list[float]:
        """Return equal shares, with every measure in the middle."""
        counts = [1 / self.size_counted] * self.size_counted if self.counted else []
        return counts + [0.0] * (self.cells * self.moments)

    @property
    def size_counted(self) -> int:
        """How many counts there are."""
        return self.cells + 1 if self.counted else 0

    def _fits(self, mean: Floats) -> tuple[bool, str]:
        fits = mean.shape == (self.size,)
        if fits and self.counted:
            shares = mean[: self.size_counted]
            fits = bool(np.all(shares >= 0)) and abs(float(shares.sum()) - 1) < 1e-9
        return fits, f"{self.size} numbers, the shares of the cells first"

    def pairs(self, n: int | None) -> list[tuple[Statistics, Statistics]]:
        """Return the first record in another cell, and at the other end of every measure.

        Where n is None, one record more, at either end of every measure or in no cell at all.
        """
        last = self.cells - 1
        if n is None:
            remainder = [(last, 1), (last, -1)]
            return [(self._of([item, *remainder]), self._of(remainder)) for item in ((0, 1), (0, -1), (-1, 1))]
        remainder = [(last, -1)] * (n - 1)
        moved = (self._of([(0, 1), *remainder]), self._of([(last if self.cells > 1 else -1, 1), *remainder]))
        turned = (self._of([(0, 1), *remainder]), self._of([(0, -1), *remainder]))
        return [moved, turned] if self.measures and self.counted else [turned] if self.measures else [moved]

    def _of(self, placed: list[tuple[int, int]]) -> Statistics:
        counts, sums = np.zeros(self.cells), np.zeros((self.moments, self.cells))
        for cell, sign in placed:
            if cell >= 0:
                counts[cell] += 1
                turns = [sign, -sign if self.crossed else sign]  # where two are crossed, all squares are full
                sums[: len(self.measures), cell] += STEPS * np.resize(turns, len(self.measures))
                sums[len(self.measures) :, cell] += STEPS
        return self.gathered(len(placed), counts, sums)

    @classmethod
    def example(cls) -> GroupMoments:
        """Return two groups, a column cut into bins and a measure with its squares."""
        return cls((("A", "B"),), (-1,), (0.0, 1.0, 2.0), ((0.0, 2.0),), (0.5, None), squared=True)

    def typical(self) -> tuple[tuple[Any, ...], ...]:
        """Return the categories of each group and none, and numbers at, between and beyond the bounds."""
        ends = ([(self.edges[0], self.edges[-1])] if self.edges else []) + list(self.measures)
        numbers = [(low, high, (low + high) / 2, high + 3 * (high - low), None) for low, high in ends]
        kinds = (kind.typical if isinstance(kind, Bands) else kind for kind in self.groups)
        return (*((*values, None) for values in kinds), *numbers)

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Reading:
        return super()._from_state(state | {"groups": tuple(map(kind_of, state["groups"]))})

    def apart(self, gap: Floats) -> bool:
        """Say whether one record can have moved every part this far."""
        parts = self.split(gap)
        counts = np.abs(parts.pop(0)).sum() <= 2 if self.counted else True
        return bool(counts) and all(np.abs(part).sum() <= 2 * STEPS for part in parts)

    def beside(self, gap: Floats) -> bool:
        """Say whether one record more or less can have moved every part this far."""
        parts = self.split(gap)
        counts = np.abs(parts.pop(0)).sum() == 1 if self.counted else True
        return bool(counts) and all(np.abs(part).sum() <= STEPS for part in parts)


def _added(cell: Any, steps: Any, cells: int) -> Any:
    """Return the sum of whole numbers in every cell: doubles add them exactly below 2⁵³."""
    return np.bincount(cell, weights=steps.astype(np.float64), minlength=cells)
