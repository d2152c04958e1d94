"""Fields and grids: what a record may hold. Public, every list written down before any data is read."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, Integers, real
from sottovoce.records.facts import Category, Column, Count, Facts, Flag, Number
from sottovoce.records.readings.class_moments import centred
from sottovoce.records.readings.columns import as_codes
from sottovoce.records.readings.grid import check_span

_SHORT = 1000
"""Counts below this are a list that can be written down."""


@dataclass(frozen=True)
class Field:
    """A column with its public list of categories.

    Parameters
    ----------
    name
        The column's name.
    categories
        Every value a record may hold, chosen without looking at the data.
    other
        The category that any other value, and a missing one, counts as. Without it, records that hold such a value are
        left out of the counts, though they count in n (to refuse them would tell that such a record exists); naive
        Bayes, where every record has its class, then takes the first category.

    Examples
    --------
    >>> severity = Field("severity", ("slight", "serious", "fatal"))
    >>> severity.codes(["fatal", "slight"])
    array([2, 0])
    >>> Field("light", ("day", "dark", "else"), other="else").codes(["dark", "dawn", None])
    array([1, 2, 2])
    >>> severity.codes(["slight", "unheard of"])
    array([ 0, -1])
    """

    name: str
    categories: tuple[Hashable, ...]
    other: Hashable | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InvalidValue(f"a field's name is the name of a column. Got {self.name!r}")
        given: Any = self.categories
        if isinstance(given, str):
            raise InvalidValue(f"the categories of {self.name!r} must be a list of values. Got one text")
        try:
            categories = tuple(c.item() if isinstance(c, np.generic) else c for c in given)
            different = len(set(categories))
        except TypeError:
            raise InvalidValue(f"the categories of {self.name!r} must be a list of texts or numbers") from None
        if not categories or different < len(categories):
            raise InvalidValue(f"the categories of {self.name!r} must be different values, at least one")
        object.__setattr__(self, "categories", categories)
        if self.other is not None and self.other not in categories:
            raise InvalidValue(f"other must be one of the categories of {self.name!r}. Got {self.other!r}")

    @classmethod
    def from_facts(cls, name: str, column: Column) -> Self:
        """Return the field of a column whose facts list its values: categories, yes and no, a count."""
        if isinstance(column, Count) and column.high < _SHORT:
            return cls(name, tuple(range(column.high + 1)), column.missing)
        result = field_of(name, column) if isinstance(column, Category | Flag) else None
        if isinstance(result, cls):
            return result
        raise InvalidValue(f"{name!r} is a {column.word}, whose values are not a short list; count categories or flags")

    @property
    def size(self) -> int:
        """How many categories there are."""
        return len(self.categories)

    @property
    def other_code(self) -> int:
        """The position of `other`, or -1."""
        return -1 if self.other is None else self.categories.index(self.other)

    def codes(self, values: object) -> Integers:
        """Return the position of each value's category; of `other`, or -1, where it has none."""
        return as_codes(values, self.categories, self.other_code, f"values of {self.name!r}")

    def to_dict(self) -> dict[str, object]:
        """Return the field as plain values."""
        plain: dict[str, object] = {"name": self.name, "categories": list(self.categories)}
        return plain if self.other is None else plain | {"other": self.other}

    def complete(self) -> Field:
        """Return the field with a category for whatever fits none, the first unless it has one: every record counts."""
        if self.other_code >= 0:
            return self
        return replace(self, other=next(category for category in self.categories if category is not None))


@dataclass(frozen=True)
class Bounded:
    """A column of numbers with public bounds, to which they are clipped.

    What is no number counts as `missing`, 0 cut to the bounds unless given.

    >>> Bounded("age", 0, 100).centred([25.0, None, 300.0])
    array([-0.5, -1. ,  1. ])
    """

    name: str
    low: float
    high: float
    missing: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InvalidValue(f"a field's name is the name of a column. Got {self.name!r}")
        for name in ("low", "high"):
            object.__setattr__(self, name, real(name, getattr(self, name), -math.inf))
        check_span(self.low, self.high, f"the bounds of {self.name!r}")
        if self.missing is not None and not self.low <= real("missing", self.missing, -math.inf) <= self.high:
            raise InvalidValue(f"missing must lie within the bounds of {self.name!r}. Got {self.missing!r}")

    @property
    def bounds(self) -> tuple[float, float, float]:
        """The lowest and the highest value, and what a missing one counts as."""
        filler = min(max(0.0, self.low), self.high) if self.missing is None else float(self.missing)
        return self.low, self.high, filler

    @property
    def half(self) -> float:
        """Half the width of the bounds: what one unit of t is worth."""
        return (self.high - self.low) / 2

    def centred(self, values: object) -> Floats:
        """Return t = (2x - low - high)/(high - low) of each value, in [-1, 1]."""
        return centred(values, *self.bounds)

    def to_dict(self) -> dict[str, object]:
        """Return the field as plain values."""
        plain: dict[str, object] = {"name": self.name, "low": self.low, "high": self.high}
        return plain if self.missing is None else plain | {"missing": self.missing}


def settings_of(word: str, given: Mapping[str, object], *known: str) -> dict[str, Any]:
    """Return what a question says of a model, columns by their names, or raise `InvalidValue`.

    >>> settings_of("Bayesian network", {"kind": "Bayesian network", "fields": ["a"]}, "fields", "parents")
    {'fields': ['a']}
    """
    settings = {name: value for name, value in given.items() if name not in ("kind", "system") and value is not None}
    if unknown := set(settings) - set(known):
        raise InvalidValue(f"a {word} takes {', '.join(known)}. Got {', '.join(sorted(unknown))}")
    for name in ("fields", "features", "steps"):
        if name in settings and not _are_names(settings[name]):
            raise InvalidValue(f"{name} must be a list of columns by their names")
    for name in ("label", "chains"):
        if name in known and not isinstance(settings.get(name), str):
            raise InvalidValue(f"{name} must be a column by its name")
    return settings


def _are_names(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(name, str) for name in value)


def field_of(name: str, column: Column) -> Field | Bounded:
    """Return a column of a table's facts as a field: categories, yes and no; numbers and counts between their bounds.

    >>> field_of("smoker", Flag())
    Field(name='smoker', categories=(False, True), other=None)
    >>> field_of("visits", Count(20))
    Bounded(name='visits', low=0.0, high=20.0, missing=None)
    """
    match column:
        case Category(categories, missing):
            return Field(name, categories, missing)
        case Flag(missing):
            return Field(name, (False, True), missing)
        case Number(low, high, missing):
            return Bounded(name, low, high, missing)
        case Count(high, missing):
            return Bounded(name, 0, high, missing)
    raise InvalidValue(f"the column {name!r} is a {column.word}; a model takes categories, flags, numbers and counts")


def fields_of(facts: Facts, *names: str) -> tuple[object, ...]:
    """Return the named columns of a table's facts as fields.

    >>> fields_of(Facts(ward=Category(["A", "B"])), "ward")
    (Field(name='ward', categories=('A', 'B'), other=None),)
    """
    return tuple(field_of(name, facts[name]) for name in names)


def field_from(state: Mapping[str, Any]) -> Any:
    """Read a field of either kind from `to_dict`'s form."""
    if "low" in state:
        return Bounded(state["name"], state["low"], state["high"], state.get("missing"))
    return Field(state["name"], tuple(state["categories"]), state.get("other"))


@dataclass(frozen=True)
class ChainGrid:
    """Where and when: one chain a region, one step a month (or whatever your chains and steps are).

    Parameters
    ----------
    chains
        The field that says which chain a record belongs to.
    steps
        The field that says when, or several that do together, the slowest first: ``(year, month)``.

    Examples
    --------
    >>> years, months = Field("year", (2018, 2019)), Field("month", tuple(range(1, 13)))
    >>> grid = ChainGrid(Field("district", ("N", "S", "E")), (years, months))
    >>> grid.shape, grid.step_labels[12]
    ((3, 24), (2019, 1))
    """

    chains: Field
    steps: tuple[Field, ...]

    def __post_init__(self) -> None:
        steps = (self.steps,) if isinstance(self.steps, Field) else tuple(self.steps)
        if not steps or not all(isinstance(f, Field) for f in (self.chains, *steps)):
            raise InvalidValue("a grid takes one Field for its chains and at least one for its steps")
        object.__setattr__(self, "steps", steps)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of the grid, chains first."""
        return (self.chains, *self.steps)

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of chains and of steps."""
        return self.chains.size, math.prod(f.size for f in self.steps)

    @property
    def step_labels(self) -> tuple[Hashable, ...]:
        """The steps in order, named by their category or categories."""
        if len(self.steps) == 1:
            return self.steps[0].categories
        return tuple(itertools.product(*(f.categories for f in self.steps)))
