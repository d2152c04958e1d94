"""One category a record, counted."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, shown
from sottovoce.records.readings.base import Reading, Sensitivity, Statistics
from sottovoce.records.readings.columns import as_codes, check_public


@dataclass(frozen=True)
class CategoryCounts(Reading):
    """S(x) = the indicator of x's category, in the order given. A record of no known category counts as the first.

    >>> CategoryCounts(("a", "b")).read(["b", "b", "a"])
    Statistics(n=3, total=array([1., 2.]))
    >>> CategoryCounts(("a", "b", "c")).project(4, np.array([5.0, 1.0, -2.0]))
    array([4., 0., 0.])
    """

    word: ClassVar[str] = "category counts"
    hides_n: ClassVar[bool] = True
    categories: tuple[Hashable, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.categories, tuple) or not all(isinstance(each, Hashable) for each in self.categories):
            raise InvalidValue(f"categories are a list of texts or numbers. Got {shown(self.categories)}")

    @property
    def size(self) -> int:
        """The number of categories."""
        return len(self.categories)

    def read(self, records: object, missing: object = None, *, public: bool = False) -> Statistics:
        """Return n and the counts; a record of no category counts as `missing`, the first unless given."""
        categories = self.categories
        if missing is not None and missing not in categories:
            raise InvalidValue(f"a missing value must count as one of the categories. Got missing={missing!r}")
        codes = as_codes(records, categories, -1)
        unknown = codes < 0
        check_public(public, bool(unknown.any()))
        codes = np.where(unknown, 0 if missing is None else categories.index(missing), codes)
        return Statistics(codes.size, np.bincount(codes, minlength=len(categories)).astype(np.float64))

    def check_sums(self, n: int) -> None:
        """Raise unless a double holds a count of n exactly."""
        if n > 2**53:
            raise InvalidValue(f"counts of n={n} records do not fit into a double")

    def check(self, statistics: Statistics) -> Statistics:
        """Return counts of n records."""
        n, total = self._checked_total(statistics)
        if not np.all(total >= 0) or abs(total.sum() - n) > (self.size + 2) * 2.0**-52 * n:
            raise self._off()
        return statistics

    def project(self, n: int, total: Floats) -> Floats:
        """Return the nearest counts, none below zero, that sum to n."""
        return nearest_counts(total, float(n))

    def movement(self, n: int | None) -> Sensitivity:
        """Return one record less in one category and one more in another; where n is None, one of the two."""
        return Sensitivity(1.0, 1, 1, 1.0) if n is None else Sensitivity(1.0, 2, 1, 2.0)

    def middle(self) -> list[float]:
        """Return equal shares."""
        return [1 / self.size] * self.size

    def plausible(self) -> list[list[float]]:
        """Return equal shares, and shares that halve from one category to the next, both ways."""
        falling = 0.5 ** np.arange(self.size)
        return [self.middle(), *((item / falling.sum()).tolist() for item in (falling, falling[::-1]))]

    def _fits(self, mean: Floats) -> tuple[bool, str]:
        fits = mean.shape == (self.size,) and bool(np.all(mean >= 0)) and abs(mean.sum() - 1) < 1e-9
        return fits, f"{self.size} proportions that sum to one"

    def pairs(self, n: int | None) -> list[tuple[Statistics, Statistics]]:
        """Return one record in one category or in the next, the others in a third where there is one.

        Where n is None, a record in the first that is there or not, beside one in the last.
        """
        first, last = self._alone(0), self._alone(-1)
        if n is None:
            return [(Statistics(2, first + last), Statistics(1, last))]
        if self.size < 2:
            return [(Statistics(n, n * first), Statistics(n, n * first))]
        second, remainder = self._alone(1), [last] if self.size > 2 else [first, last]
        return [(Statistics(n, (n - 1) * r + first), Statistics(n, (n - 1) * r + second)) for r in remainder]

    def _alone(self, place: int) -> Floats:
        counts = np.zeros(self.size)
        counts[place] = 1.0
        return counts

    @classmethod
    def example(cls) -> Self:
        """Return three categories."""
        return cls(("a", "b", "c"))

    def typical(self) -> tuple[tuple[Any, ...], ...]:
        """Return the categories."""
        return (self.categories,)

    def apart(self, gap: Floats) -> bool:
        """Say whether at most one record changed its category."""
        return bool(np.abs(gap).sum() <= 2)

    def beside(self, gap: Floats) -> bool:
        """Say whether one category has one record more or less."""
        return bool(np.abs(gap).sum() == 1)


def nearest_counts(point: Floats, total: float) -> Floats:
    """Return the nearest point with no negative entry and this sum (Held, Wolfe and Crowder 1974)."""
    point = point - point.max()  # only differences count, and near the largest they keep their digits
    down = np.sort(point)[::-1]
    excess = (np.cumsum(down) - total) / np.arange(1, point.size + 1)
    last = int(np.flatnonzero(down - excess >= 0)[-1])
    return np.asarray(np.maximum(point - excess[last], 0.0))
