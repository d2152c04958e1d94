"""Groups of a question: the columns that it is counted by, as a reading takes them and as people call them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sottovoce.records.facts import Category, Facts
from sottovoce.records.facts.bands import group_axis, value_axis
from sottovoce.records.facts.cells import Axis
from sottovoce.records.readings.bands import Bands


@dataclass(frozen=True)
class Groups:
    """Every combination of the parts that columns are cut into: values of categories and flags, bands of numbers.

    Examples
    --------
    >>> from sottovoce.records.facts import Number
    >>> facts = Facts(age=Number(0, 110), ward=Category(["A", "B"]))
    >>> groups = Groups.named(["ward", "age: under 65, 65+"], facts)
    >>> groups.names, groups.size, groups.labels[1]
    (['ward', 'age'], 4, ('A', '65 and over'))
    """

    axes: tuple[Axis, ...]

    @classmethod
    def named(cls, by: Iterable[str], facts: Facts) -> Self:
        """Return the groups that texts name: columns of categories or flags, and bands of numbers."""
        return cls(tuple(group_axis(text, facts) for text in by))

    def and_values(self, names: Iterable[str], facts: Facts) -> Groups:
        """Return these groups, each with all values of some columns in it."""
        return Groups((*self.axes, *(value_axis(name, facts[name]) for name in names)))

    @property
    def names(self) -> list[str]:
        """The columns."""
        return [axis.name for axis in self.axes]

    @property
    def size(self) -> int:
        """How many groups there are, empty ones among them."""
        return math.prod(axis.size for axis in self.axes)

    @property
    def labels(self) -> list[tuple[Hashable, ...]]:
        """What every group is called, a part a column."""
        return list(itertools.product(*(axis.labels for axis in self.axes)))

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Which columns hold numbers."""
        return tuple(axis.numeric for axis in self.axes)

    @property
    def marks(self) -> tuple[tuple[Any, ...], ...]:
        """For each column its categories, or of numbers the inner edges."""
        return tuple(axis.marks[1:-1] if axis.numeric else axis.marks for axis in self.axes)

    @property
    def kinds(self) -> tuple[Any, ...]:
        """For each column its categories or its `Bands`."""
        return tuple(Bands(axis.marks[1:-1]) if axis.numeric else axis.marks for axis in self.axes)

    @property
    def others(self) -> tuple[int, ...]:
        """For each column the place of what is missing; -1 where it is in no group."""
        return tuple(axis.other for axis in self.axes)

    def within(self, facts: Facts) -> Facts:
        """Return facts in which a column in bands is one of categories: what can be imagined of it."""
        return Facts({**facts, **{axis.name: Category(axis.labels) for axis in self.axes if axis.numeric}})


def shown(value: object) -> str:
    """Return the value of a group as a reader wants it.

    >>> shown(True), shown(0.5), shown("A")
    ('yes', '0.5', 'A')
    """
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
