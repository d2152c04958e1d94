"""Sums of many terms, written out as SQL: an expression tree of thousands of nodes takes seconds to put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from sottovoce.privacy.errors import InvalidData
from sottovoce.records.tables.engine import ROUNDER, Engine

_ROWS = "sottovoce_rows"
_FEW = 3
"""So few terms are added as they stand."""


def double(value: float) -> str:
    """Return a double with every bit intact; see `engine.number`."""
    return f"CAST('{float(value)!r}' AS DOUBLE)"


def case(condition: str, then: str, otherwise: str) -> str:
    """Return one of two values."""
    return f"CASE WHEN {condition} THEN {then} ELSE {otherwise} END"


def cut(value: str, low: float, high: float) -> str:
    """Return a value within bounds; of one that is missing or no number, the higher one."""
    return f"GREATEST(LEAST({value}, {double(high)}), {double(low)})"


def ordered(parts: Iterable[str]) -> str:
    """Return a sum added from left to right, as in memory."""
    return " + ".join(parts) or double(0.0)


def weighed_sum(weights: Sequence[float], columns: Iterable[str]) -> str:
    """Return Σ weights·columns as in memory, added from zero on, from left to right, what weighs nothing left out."""
    return ordered(
        [double(0.0), *(f"{double(weight)} * {name}" for weight, name in zip(weights, columns, strict=True) if weight)]
    )


@dataclass(frozen=True)
class SqlText:
    """Queries nested in one another, the innermost one an expression of Ibis.

    Attributes
    ----------
    engine
        How it rounds, adds and nests.
    base
        The innermost query.
    text
        What is asked of it, in the words of DuckDB.
    """

    engine: Engine
    base: Any
    text: str = f"SELECT * FROM {_ROWS}"

    def select(self, columns: Mapping[str, str], *along: str, tail: str = "") -> Self:
        """Return what is selected from all this, the columns of `along` as they are."""
        shown = ", ".join([*along, *(f"{value} AS {name}" for name, value in columns.items())])
        rows = _ROWS if self.text == SqlText.text else f"({self.text}) AS q"
        # Where an engine copies a nested expression into every place that uses it, a limit stops that.
        stop = f" LIMIT {2**62}" if self.engine.unnests else ""
        return replace(self, text=f"SELECT {shown} FROM {rows}{tail}{stop}")

    def packed(self, name: str, columns: Sequence[str], *along: str) -> Self:
        """Return the same columns and, where the engine adds up lists, a list of them beside."""
        if not self._packs(columns):
            return self
        return self.select({name: f"[{', '.join(columns)}]"}, *columns, *along)

    def combined(self, name: str, columns: Sequence[str], weights: Sequence[float]) -> str:
        """Return Σ columns·weights, added from left to right; `name` is their list.

        Written out, every product and every sum is an operation for which a thread holds numbers; of lists it is one,
        and several times as fast. No column may be null: a list that holds one would end the query.
        """
        terms = [(column, float(weight)) for column, weight in zip(columns, weights, strict=True) if weight != 0]
        if not self._packs(terms):
            return ordered(f"{column} * {double(weight)}" for column, weight in terms)
        constants = ", ".join(double(float(weight)) for weight in weights)
        return f"LIST_INNER_PRODUCT({name}, [{constants}])"

    def squares(self, name: str, columns: Sequence[str]) -> str:
        """Return Σ columns², in the same way."""
        if self._packs(columns):
            return f"LIST_INNER_PRODUCT({name}, {name})"
        return ordered(f"{column} * {column}" for column in columns)

    def _packs(self, terms: Sequence[object]) -> bool:
        return self.engine.lists and len(terms) > _FEW

    def step(self, value: str) -> str:
        """Return the whole number nearest to a double, of the kind that is added fastest."""
        return f"({value} + {double(ROUNDER)}) - {double(ROUNDER)}" if self.engine.adds else self.integer(value)

    def integer(self, value: str) -> str:
        """Return the integer nearest to a double of size up to 2⁵¹."""
        if not self.engine.rounds:
            value = f"({value} + {double(ROUNDER)}) - {double(ROUNDER)}"
        return f"CAST({value} AS BIGINT)"

    def added(self, value: str) -> str:
        """Return the sum of whole numbers as a double: exact below 2⁵³."""
        return f"CAST(SUM({self._wide(value)}) AS DOUBLE)"

    def total(self, value: str, *, steps: bool = False) -> str:
        """Return the exact sum as text, of integers or of `steps`, which an engine may hold as doubles."""
        if steps and self.engine.adds:
            return f"CAST(CAST(SUM({value}) AS BIGINT) AS TEXT)"
        return f"CAST(SUM({self._wide(value)}) AS TEXT)"

    def _wide(self, value: str) -> str:
        return value if self.engine.widens else f"CAST({value} AS DECIMAL(38, 0))"

    def sql(self, connection: Any) -> str:
        """Return the query in the words of a connection's engine."""
        text, base = self.text, connection.compile(self.base)
        if not isinstance(base, str):
            raise InvalidData("this engine takes no SQL, which a regression is asked in")
        if connection.name != "duckdb":
            import sqlglot  # noqa: PLC0415 - Ibis brings it along

            (text,) = sqlglot.transpile(text, read="duckdb", write=connection.dialect)
        return text.replace(f"FROM {_ROWS}", f"FROM ({base}) AS {_ROWS}")
