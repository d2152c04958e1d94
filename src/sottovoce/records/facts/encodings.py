"""Public encodings: how the columns of a record become the row of a regression, by the facts alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.json_values import mapping, restoring
from sottovoce.privacy.numbers import Mask
from sottovoce.records.facts.columns import Category, Column, Count, Flag, Number
from sottovoce.records.facts.splines import Spline

__all__ = ["LEAST", "Encoding", "Scale", "levels_of", "scale_of"]

Floats = NDArray[np.float64]
LEAST = 2.0**-60
"""A number nearer to its middle than this part of its half width is the middle: no product of such is too small."""


@dataclass(frozen=True)
class Scale:
    """A number cut to its public bounds and measured as (x − middle)/half, within −1 and 1."""

    low: float
    high: float
    middle: float
    half: float

    def __call__(self, values: Floats) -> Floats:
        """Return the numbers scaled; NaN stays NaN."""
        off = np.clip(values, self.low, self.high) - self.middle
        return np.asarray(np.where(np.abs(off) < LEAST * self.half, 0.0 * off, off) / self.half)


def scale_of(column: Column, *, centred: bool) -> Scale:
    """Return the scale of a number, a count or a flag; from the middle of its bounds where `centred`, else from 0."""
    if isinstance(column, Flag):
        return Scale(0.0, 1.0, 0.0, 1.0)
    low, high = column.bounds  # type: ignore[attr-defined]
    middle = low + (high - low) / 2 if centred else 0.0
    return Scale(low, high, middle, max(abs(high - middle), abs(low - middle)))


def levels_of(column: Column) -> tuple[Any, ...] | None:
    """Return the public values of a flag or a category, None of other kinds."""
    if isinstance(column, Flag):
        return (False, True)
    return column.categories if isinstance(column, Category) else None


@dataclass(frozen=True)
class Encoding:
    """Each entry of a row is a product of numbers, scaled by their public bounds, and indicators of public levels.

    Attributes
    ----------
    names, columns
        The columns that are read, and what is public of each.
    entries
        For each entry of a row its factors, (place of the column, level): the level's indicator, or where the level
        is −1 the number itself, and from −2 downwards the functions of its spline. No factor makes the 1 of an
        intercept.
    centred
        For each column, whether it is measured from the middle of its bounds.
    splines
        For each column its spline, where it has one; nothing where none has.

    A record in which a column of the encoding is missing, and whose facts do not say what that counts as, is left out:
    its row is zero.

    Examples
    --------
    >>> encoding = Encoding(("age", "ward"), (Number(0, 100), Category(["A", "B"])), ((), ((0, -1),), ((1, 1),)))
    >>> rows, known = encoding.rows([np.array([75.0, np.nan]), np.array([1, 0])])
    >>> rows.tolist(), known.tolist()
    ([[1.0, 0.5, 1.0], [0.0, 0.0, 0.0]], [True, False])
    """

    names: tuple[str, ...]
    columns: tuple[Column, ...]
    entries: tuple[tuple[tuple[int, int], ...], ...]
    centred: tuple[bool, ...] = ()
    splines: tuple[Spline | None, ...] = ()

    def __post_init__(self) -> None:
        if not self.centred:
            object.__setattr__(self, "centred", (True,) * len(self.columns))
        if not self.entries or not len(self.names) == len(self.columns) == len(self.centred):
            raise InvalidValue("an encoding names each of its columns once and has at least one entry")
        for column in self.columns:
            if not isinstance(column, Number | Count | Flag | Category):
                raise InvalidValue(f"a regression takes numbers, counts, flags and categories. Got a {column.word}")
        for entry in self.entries:
            for place, level in entry:
                named = self.columns[place] if 0 <= place < len(self.columns) else None
                levels = None if named is None else levels_of(named)
                number = level == -1 and isinstance(named, Number | Count | Flag)
                number |= isinstance(named, Number | Count) and -2 >= level >= -1 - self._functions(place)
                if not (number or (levels is not None and 0 <= level < len(levels))):
                    raise InvalidValue(f"no column of the encoding has the factor {(place, level)}")

    def _functions(self, place: int) -> int:
        spline = self.splines[place] if self.splines else None
        return 0 if spline is None else spline.df

    def spline(self, place: int) -> Spline:
        """Return the spline of a column that has one."""
        spline = self.splines[place]
        assert spline is not None
        return spline

    def unit(self, place: int, scaled: Floats) -> Floats:
        """Return scaled numbers as parts of the way from the lower bound to the upper one, as a spline takes them."""
        scale = self.scale(place)
        return np.clip((scaled * scale.half + (scale.middle - scale.low)) / (scale.high - scale.low), 0.0, 1.0)

    @property
    def size(self) -> int:
        """The entries of a row."""
        return len(self.entries)

    @cached_property
    def ones(self) -> Mask:
        """Which entries are zero in some rows and one in all others: flags, levels and products of them."""
        flags = [levels_of(column) is not None for column in self.columns]
        return np.array([bool(entry) and all(flags[place] for place, _ in entry) for entry in self.entries])

    @cached_property
    def wholes(self) -> list[list[int]]:
        """Entries that add up to one in every row: the intercept, all levels of a column; nothing if there are none."""
        wholes = [[i] for i, entry in enumerate(self.entries) if not entry]
        for place, column in enumerate(self.columns):
            levels = levels_of(column) or ()
            alone = [((place, level),) for level in range(len(levels))]
            if levels and set(alone) <= set(self.entries):
                wholes.append([self.entries.index(entry) for entry in alone])
        return wholes

    @cached_property
    def empty(self) -> Floats:
        """Combinations of entries that are zero in every row, one a row: what adds up to one, less what does too."""
        ones = np.zeros((len(self.wholes), self.size))
        for row, full in zip(ones, self.wholes, strict=True):
            row[full] = 1.0
        return ones[1:] - ones[:1] if len(ones) > 1 else np.zeros((0, self.size))

    @cached_property
    def numbers(self) -> Mask:
        """Which entries have a number in them."""
        return np.array([any(level < 0 for _, level in entry) for entry in self.entries])

    @cached_property
    def ends(self) -> tuple[Floats, Floats]:
        """The least and the largest value of every entry, a product of numbers within their bounds and of levels."""
        result = np.array([self._ends(entry) for entry in self.entries])
        return result[:, 0], result[:, 1]

    def _ends(self, entry: tuple[tuple[int, int], ...]) -> tuple[float, float]:
        low = high = 1.0
        for place, level in entry:
            first, last = 0.0, 1.0
            if level == -1:
                scale = self.scale(place)
                first, last = ((end - scale.middle) / scale.half for end in (scale.low, scale.high))
            elif level < -1:
                first, last = self.spline(place).ends(-2 - level)
            corners = [item * other for item in (low, high) for other in (first, last)]
            low, high = min(corners), max(corners)
        return low, high

    def scale(self, place: int) -> Scale:
        """Return how a number is scaled."""
        return scale_of(self.columns[place], centred=self.centred[place])

    def default(self, place: int) -> float | None:
        """Return what a missing value counts as, a number or a level's place; None where its record is left out."""
        column = self.columns[place]
        missing = getattr(column, "missing", None)
        if missing is None:
            return None
        return float(column.categories.index(missing)) if isinstance(column, Category) else float(missing)

    def rows(self, values: Sequence[Floats], n: int | None = None) -> tuple[Floats, Mask]:
        """Return the n rows and which of them are known, from one array a column.

        Numbers are NaN where missing, the places of categories −1.
        """
        n = (len(values[0]) if values else 0) if n is None else n
        known = np.ones(n, dtype=bool)
        full: list[Floats] = []
        for place, (column, given) in enumerate(zip(self.columns, values, strict=True)):
            result = np.asarray(given, dtype=np.float64)
            absent = result < 0 if isinstance(column, Category) else np.isnan(result)
            default = self.default(place)
            if default is None:
                known &= ~absent
            result = np.where(absent, 0.0 if default is None else default, result)
            full.append((result != 0).astype(np.float64) if isinstance(column, Flag) else result)
        rows = np.ones((self.size, n)).T  # every entry's numbers side by side
        scaled = {place: self.scale(place)(full[place]) for entry in self.entries for place, k in entry if k == -1}
        curved = {place: self._parts(place, full[place]) for entry in self.entries for place, k in entry if k < -1}
        for i, entry in enumerate(self.entries):
            for place, level in entry:
                if level < -1:
                    rows[:, i] *= self.spline(place).values(curved[place], -2 - level)
                else:
                    rows[:, i] *= scaled[place] if level < 0 else full[place] == level
        rows[~known] = 0.0
        return rows, known

    def _parts(self, place: int, values: Floats) -> Floats:
        """Return numbers, cut to their bounds, as parts of the way between these."""
        scale = self.scale(place)
        return np.asarray((np.clip(values, scale.low, scale.high) - scale.low) / (scale.high - scale.low))

    def samples(self, count: int) -> Floats:
        """Return rows of imagined records, every column spread evenly and independently over its public values."""
        rng = np.random.default_rng(0)
        values = []
        for column in self.columns:
            levels = levels_of(column)
            if levels is not None:
                values.append(rng.integers(len(levels), size=count).astype(np.float64))
            else:
                scale = scale_of(column, centred=True)
                values.append(rng.uniform(scale.low, scale.high, count))
        return self.rows(values, count)[0]

    def to_dict(self) -> dict[str, object]:
        """Return the encoding as plain values; `from_dict` reads it back."""
        return {
            "names": list(self.names),
            "columns": [column.to_dict() for column in self.columns],
            "entries": [[list(factor) for factor in entry] for entry in self.entries],
            "centred": list(self.centred),
        } | ({"splines": [it and [it.kind, it.df] for it in self.splines]} if any(self.splines) else {})

    @classmethod
    def from_dict(cls, state: Mapping[str, object]) -> Encoding:
        """Read an encoding from `to_dict`'s form."""
        given = mapping("encoding", state)
        with restoring("an encoding"):
            return cls(
                tuple(given["names"]),
                tuple(map(Column.from_dict, given["columns"])),
                tuple(tuple((int(a), int(b)) for a, b in entry) for entry in given["entries"]),
                tuple(map(bool, given["centred"])),
                tuple(None if it is None else Spline(str(it[0]), int(it[1])) for it in given.get("splines", ())),
            )
