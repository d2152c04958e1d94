"""Rows of a regression: public encodings of the columns, each row scaled into a ball, each label put in its range."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.records.facts.columns import Category, Column, Count, Flag, Number
from sottovoce.records.readings.base import Aggregate, Reading, Sensitivity, Statistics, checked_n
from sottovoce.records.readings.cells import cells_of, class_places, column_of, fill, finite, missing_values, table_of
from sottovoce.records.readings.columns import as_numbers

__all__ = ["ClippedRows", "RowReading", "Rows", "scale_down"]

_INSIDE = 16
"""How far inside the bound a row that was too long is put, in units of the last place of the type it will have."""
_LARGEST = 1e100
"""Bounds beyond this, or below one over it, are not of this world, and their squares leave the range of doubles."""
TINY = 2.0**-100
"""Numbers below this part of their bound count as 0: some engines raise an error where a product underflows."""


@dataclass(frozen=True, eq=False)
class Rows(Aggregate):
    """What chains and SGD see: rows X, none longer than the bound, and labels y in the loss's range."""

    X: Floats
    y: Floats


@dataclass(frozen=True)
class RowReading(Reading):
    """How a record, features then label, becomes a row x with ‖x‖ ≤ c and a label; the fields of its two kinds.

    Attributes
    ----------
    dimension
        The entries of a row, the intercept's among them.
    data_norm
        c: a longer row is scaled down to it, the intercept's entry with the others.
    labels, binary
        The range of the labels; of a binary loss only its two ends.
    intercept
        The last entry of every row; 0 for none.
    features
        What is public of each column: numbers and counts become −1 to 1, a flag 0 or 1, a category one entry for each
        value but the first. Where empty, columns are numbers and taken as they are.
    label
        What is public of the label's column: two categories or a flag of a binary loss, a category whose places run
        through `labels`, else a number or a count whose range becomes `labels`. Where None, labels are in their range
        already.
    missing
        What a cell that holds no number counts as where `features` is empty: one number, or one a column.
    """

    dimension: int
    data_norm: float
    labels: tuple[float, float] = (-1.0, 1.0)
    binary: bool = True
    intercept: float = 0.0
    features: tuple[Column, ...] = ()
    label: Column | None = None
    missing: Any = 0.0

    def __post_init__(self) -> None:
        checked_n(self.dimension)
        if not 1 / _LARGEST <= self.data_norm <= _LARGEST:
            raise InvalidValue(f"data_norm must lie between {1 / _LARGEST:g} and {_LARGEST:g}. Got {self.data_norm}")
        for column in self.features:
            if not isinstance(column, Number | Count | Flag | Category):
                raise InvalidValue(f"a feature is a number, a count, a flag or a category. Got a {column.word}")
        if self.features and sum(map(width_of, self.features)) + bool(self.intercept) != self.dimension:
            raise InvalidValue(f"these features and intercept make no row of {self.dimension} entries")
        if self.inputs < 1:
            raise InvalidValue("a regression needs at least one feature")
        self._check_label()
        object.__setattr__(self, "labels", tuple(map(float, self.labels)))
        values = missing_values(self.missing, self.inputs)
        object.__setattr__(self, "missing", float(values) if values.ndim == 0 else tuple(values.tolist()))

    def _check_label(self) -> None:
        if self.label is None:
            return
        several = isinstance(self.label, Category) and self.labels == (0, len(self.label.categories) - 1)
        if several and not self.binary:
            return
        two = isinstance(self.label, Flag) or (isinstance(self.label, Category) and len(self.label.categories) == 2)
        if not (two if self.binary else isinstance(self.label, Number | Count)):
            wanted = "a flag, or a category of two values" if self.binary else "a number or a count"
            raise InvalidValue(f"the label of this loss is {wanted}. Got {self.label}")

    @property
    def inputs(self) -> int:
        """How many columns the features are read from."""
        return len(self.features) or self.dimension - bool(self.intercept)

    def typical(self) -> tuple[tuple[Any, ...], ...]:
        """Return numbers within, at and beyond the bound or the facts of each feature, and the ends of the labels."""
        c = self.data_norm
        rows = [_values(fact) for fact in self.features] or [(0.0, c, -c, 0.3 * c, 1e150)] * self.inputs
        return (*rows, self.labels if self.label is None else _values(self.label))

    def arranged(self, records: Sequence[tuple[object, ...]]) -> Any:
        """Return (X, y): the last cell of a record is its label."""
        return [list(record[:-1]) for record in records], [record[-1] for record in records]

    @property
    def neutral(self) -> float:
        """The label of a record that the question is not about; its row is zero."""
        return self.labels[0] if self.binary else float(np.clip(0.0, *self.labels))

    @property
    def whole(self) -> bool:
        """Rows are fractions."""
        return False

    # The public map, from columns of numbers (or places of categories) to rows and labels.

    def records(self, records: object, missing: object) -> tuple[Floats, Floats]:
        """Return rows and labels of records in memory, given as (X, y): rows encoded but not yet clipped."""
        if missing is not None:
            raise InvalidValue("the facts of a feature say what a missing cell counts as; leave missing out")
        if not (isinstance(records, tuple) and len(records) == 2):
            raise InvalidData("the records of a regression are given as (X, y)")
        X, y = records
        if self.features:
            values = [number_or_place(fact, c) for fact, c in zip(self.features, self._columns(X), strict=True)]
        else:
            table = table_of(X, self.inputs)
            if table.shape[1] != self.inputs:
                raise InvalidData(f"X must have {self.inputs} columns. Got {table.shape[1]}")
            values = list(finite(table).T)
        labels = column_of(y) if self.label is None else number_or_place(self.label, y)
        if len(labels) != len(values[0]):
            raise InvalidData(f"every row has one label. Got {len(values[0])} rows and {len(labels)} labels")
        return self.encode(values), self.responses(labels)

    def _columns(self, X: object) -> list[Any]:
        if hasattr(X, "columns") and hasattr(X, "__getitem__"):  # a data frame, with a type a column
            columns = [X[name] for name in X.columns]
        elif isinstance(X, list | tuple):
            rows = [list(r) if isinstance(r, list | tuple | np.ndarray) else [] for r in X]
            columns = [[r[k] if k < len(r) else None for r in rows] for k in range(self.inputs)]
        else:
            columns = list(np.atleast_2d(np.asarray(X)).T)
        if len(columns) != self.inputs:
            raise InvalidData(f"X must have {self.inputs} columns. Got {len(columns)}")
        return columns

    def entries(self, X: object) -> Floats:
        """Return columns, with facts, in units of their own: numbers within their bounds, a category's entries."""
        parts = []
        for fact, cells in zip(self.features, self._columns(X), strict=True):
            values = number_or_place(fact, cells)
            parts.append(inside(fact, values)[:, None] if isinstance(fact, Number | Count) else encoded(fact, values))
        return np.concatenate(parts, axis=1)

    def encode(self, values: list[Floats]) -> Floats:
        """Return one row a record, the intercept last, from one array a column."""
        if self.features:
            parts = [encoded(fact, column) for fact, column in zip(self.features, values, strict=True)]
        else:
            filler = np.broadcast_to(self.missing, (self.inputs,))
            parts = [fill(column, filler[k])[:, None] for k, column in enumerate(values)]
        if self.intercept:
            parts.append(np.full((len(parts[0]), 1), float(self.intercept)))
        return np.concatenate(parts, axis=1)

    def responses(self, values: Floats) -> Floats:
        """Return labels in their range; of a binary loss what is not the second counts as the first."""
        low, high = self.labels
        if self.binary:
            yes = values == high if self.label is None else values == 1
            return np.where(yes, high, low)
        if self.label is None or isinstance(self.label, Category):
            return np.clip(fill(values, self.neutral), low, high)
        return np.clip(low + (scaled(self.label, values) + 1) * ((high - low) / 2), low, high)

    def clip(self, rows: object, dtype: object = np.float64) -> Floats:
        """Return rows scaled down to `data_norm` where they are longer, as `scale_down` does."""
        return scale_down(fill(finite(rows), 0.0), self.data_norm, dtype)

    def _checked(self, rows: Floats, labels: Floats) -> tuple[Floats, Floats]:
        rows, labels = np.asarray(rows), np.asarray(labels)
        if rows.ndim != 2 or rows.shape[1] != self.dimension or labels.shape != (len(rows),):
            raise InvalidData(f"expected rows of {self.dimension} entries with one label each. Got shape {rows.shape}")
        low, high = self.labels
        inside = np.where(labels == high, high, low) if self.binary else np.clip(fill(labels, self.neutral), low, high)
        return self.clip(rows), inside

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> RowReading:
        state["features"] = tuple(map(Column.from_dict, state.get("features", ())))
        if state.get("label") is not None:
            state["label"] = Column.from_dict(state["label"])
        built = super()._from_state(state)
        assert isinstance(built, RowReading)
        return built


@dataclass(frozen=True)
class ClippedRows(RowReading):
    """The rows and labels themselves, clipped: for mechanisms that look at every record many times.

    Unlike sums they leave the engine and are held in the curator's process.

    >>> ClippedRows(2, 1.0).read(([[0.3, "0.4"], [3.0, 4.0], [None, 1e999]], [1, -1, "?"])).X.round(6).tolist()
    [[0.3, 0.4], [0.6, 0.8], [0.0, 0.0]]
    """

    word: ClassVar[str] = "clipped rows"

    @property
    def size(self) -> int:
        """The entries of a row and its label."""
        return self.dimension + 1

    def read(self, records: object, missing: object = None, *, public: bool = False) -> Rows:  # type: ignore[override]
        """Return the rows and labels of records in memory, given as (X, y)."""
        del public  # what is odd in a public record is read as in a private one
        rows, labels = self.records(records, missing)
        return Rows(len(rows), self.clip(rows), labels)

    def seen(self, values: list[Floats], labels: Floats, kept: Any = None) -> Rows:
        """Return what is seen of one array a column; a record outside of `kept` as a row of zeros."""
        rows, marks = self.clip(self.encode(values)), self.responses(labels)
        if kept is not None:
            rows, marks = np.where(kept[:, None], rows, 0.0), np.where(kept, marks, self.neutral)
        return Rows(len(rows), rows, marks)

    @classmethod
    def example(cls) -> Self:
        """Return two numbers and a label."""
        return cls(2, 1.0)

    def check(self, rows: Any) -> Any:
        """Return rows and labels brought within their bounds again."""
        X, y = self._checked(rows.X, rows.y)
        return Rows(len(X), X, y)

    def pairs(self, n: int) -> list[Any]:
        """Return n equal rows as long as any, of which the last label is the one or the other end."""
        X = np.zeros((n, self.dimension))
        X[:, 0] = self.data_norm
        low, high = self.labels
        return [tuple(Rows(n, self.clip(X), np.append(np.full(n - 1, high), last)) for last in (high, low))]

    def apart(self, gap: Floats) -> bool:
        """Say whether a row can have moved this far."""
        return bool(np.linalg.norm(gap) <= 2 * self.data_norm * (1 + 1e-9))

    # Rows are no sum: nothing is added, and no noise put on them.

    def check_sums(self, n: int) -> None:
        """Do nothing: rows are not added."""

    def project(self, n: int, total: Floats) -> Floats:
        """Refuse: rows have no total."""
        raise self._no_sum()

    def movement(self, n: int) -> Sensitivity:
        """Refuse: rows have no total."""
        raise self._no_sum()

    def middle(self) -> Any:
        """Refuse: rows have no total."""
        raise self._no_sum()

    def _fits(self, mean: Floats) -> tuple[bool, str]:
        raise self._no_sum()

    def statistics(self, n: int, total: Floats) -> Statistics:
        """Refuse: rows have no total."""
        raise self._no_sum()

    @staticmethod
    def _no_sum() -> InvalidValue:
        return InvalidValue("this mechanism sees rows, which have no sum to put noise on or to forecast from")


def _values(column: Any) -> tuple[object, ...]:
    """Return some values of a column whose facts are known."""
    if isinstance(column, Category):
        return tuple(column.categories)
    return (False, True) if isinstance(column, Flag) else (column.low, column.high, 3 * column.high)


def width_of(column: Column) -> int:
    """Return how many entries of a row a feature takes."""
    return len(column.categories) - 1 if isinstance(column, Category) else 1


def number_or_place(column: Column, cells: object) -> Floats:
    """Return a column in memory as numbers, NaN where there is none; of categories the place of each."""
    if not isinstance(column, Category):
        return as_numbers(cells)
    places = class_places(cells_of(cells), [_Nothing(), *column.categories]) - 1
    return np.where(places < 0, default_place(column), places).astype(np.float64)


def default_place(column: Category) -> int:
    """Return the place of the category that a missing or unknown value counts as."""
    return 0 if column.missing is None else column.categories.index(column.missing)


def encoded(column: Column, values: Floats) -> Floats:
    """Return the entries of a feature, every one between −1 and 1."""
    if isinstance(column, Category):
        return np.asarray(np.eye(len(column.categories))[values.astype(np.intp)][:, 1:])
    if isinstance(column, Flag):
        return np.asarray((fill(values, float(bool(column.missing))) != 0).astype(np.float64)[:, None])
    return scaled(column, values)[:, None]


def inside(column: Column, values: Floats) -> Floats:
    """Return a number or a count within its bounds, what is missing as the middle (of a count, as 0)."""
    low, high, filler = span(column)
    with np.errstate(all="ignore"):
        tame = np.where(np.abs(values) >= TINY * max(abs(low), abs(high)), values, 0.0)
        return np.clip(np.where(np.isnan(values), filler, tame), low, high)


def scaled(column: Column, values: Floats) -> Floats:
    """Return a number or a count as −1 to 1, what is missing as the middle (of a count, as 0)."""
    low, high, _ = span(column)
    with np.errstate(all="ignore"):
        return np.clip(2 * ((inside(column, values) - low) / (high - low)) - 1, -1.0, 1.0)


def span(column: Column) -> tuple[float, float, float]:
    """Return the bounds of a number or a count, and what a missing one counts as."""
    assert isinstance(column, Number | Count)
    low, high = column.bounds
    usual = 0.0 if isinstance(column, Count) else low + (high - low) / 2
    return low, high, usual if column.missing is None else float(column.missing)


def scale_down(rows: Floats, norm: float, dtype: Any = np.float64) -> Floats:
    """Return the rows, those longer than `norm` scaled to a few units in the last place inside it.

    The length is taken of a row whose largest entry is 1, so that no square overflows.
    """
    if math.isinf(norm):
        return rows
    limit = norm * (1 - _INSIDE * float(np.finfo(dtype).eps))
    largest = np.max(np.abs(rows), axis=-1, keepdims=True, initial=0.0)
    shape = rows / np.where(largest > 0, largest, 1.0)
    length = np.sqrt(np.einsum("...j,...j->...", shape, shape))[..., None]
    scale = limit / np.where(length > 0, length, 1.0)
    return np.where((length > 0) & (largest > scale), shape * scale, rows)


class _Nothing:
    """What no cell is."""

    def __str__(self) -> str:
        return f"\0nothing at {id(self)}"
