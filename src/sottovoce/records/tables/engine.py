"""What differs between engines, and the one way a query is run: one row of integers comes back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.errors import InvalidData, SottovoceError
from sottovoce.records.tables.duckdb_threads import narrowed

try:
    import ibis
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError("reading tables needs Ibis: pip install 'sottovoce[data]'", name="ibis") from missing

__all__ = [
    "ENGINES",
    "Engine",
    "engine_of",
    "fetch_batches",
    "fetch_row",
    "fetch_rows",
    "guarded",
    "number",
    "run_empty",
]

T = TypeVar("T")

_COMPLAINT = "{} could not be read to its end; the file is damaged, or its engine failed"

ROUNDER = 1.5 * 2.0**52
"""Adding and taking away this constant rounds a double of size up to 2⁵¹ to the nearest integer, ties to
even."""


@dataclass(frozen=True)
class Engine:
    """How an engine rounds, adds and nests.

    Attributes
    ----------
    rounds
        A cast from double to integer rounds to nearest, ties to even (elsewhere it may truncate).
    widens
        The sum of 64-bit integers is wider than 64 bits (elsewhere the integers become decimals first).
    unnests
        The planner copies a nested expression into every place that uses it, which a limit on the nested
        query stops.
    searches
        Finding a text in a list is far quicker than comparing it with one after the other.
    opens
        So is finding it as a key of JSON, where the list is long.
    underflows
        A product too small for a double is an error.
    adds
        A sum of doubles adds them as they are, so that whole numbers below 2⁵³ in all are added exactly; it is several
        times as fast as a sum of integers.
    skips
        The greatest and the least of several values pass over null.
    small
        Whole numbers may be of 8 bits, by which records are grouped fastest.
    tries
        A cast can be tried: what does not fit becomes null. Of doubles, those that no whole number is near to do, and
        the others are rounded to nearest, ties to even.
    lists
        The products of two lists are added up in one operation, from left to right.
    copies
        A nested query is computed anew wherever it is used, from the records on.
    untyped
        The columns of this table whose type nobody gave, all of them text: they are read as numbers where a question
        asks for numbers.
    flags
        Its columns of text that the facts call flags: they are read as truth values.
    doubles
        Its columns of whole numbers that are compared as doubles, which they would be in a frame with a missing number.
    """

    rounds: bool = False
    widens: bool = False
    unnests: bool = False
    searches: bool = False
    opens: bool = False
    underflows: bool = True
    adds: bool = False
    skips: bool = False
    small: bool = False
    tries: bool = False
    lists: bool = False
    copies: bool = False
    untyped: frozenset[str] = frozenset()
    flags: frozenset[str] = frozenset()
    doubles: frozenset[str] = frozenset()

    @property
    def loose(self) -> frozenset[str]:
        """The columns of text that are texts or numbers, as a question takes them."""
        return self.untyped | self.flags

    def integer(self, value: Any, kind: str = "int64") -> Any:
        """Return the integer nearest to a double of size up to 2⁵¹."""
        if not self.rounds:
            value = (value + number(ROUNDER)) - number(ROUNDER)
        return value.cast(kind)

    def total(self, steps: Any) -> Any:
        """Return the exact sum of integers as text, which no driver can round."""
        if not self.widens:
            steps = steps.cast("decimal(38, 0)")
        return steps.sum().cast("string")

    def added(self, steps: Any) -> Any:
        """Return the sum of integers as a double: exact below 2⁵³."""
        return (steps if self.widens else steps.cast("decimal(38, 0)")).sum().cast("float64")

    def stage(self, table: Any) -> Any:
        """Return a nested query whose columns are computed once a record."""
        return table.limit(2**62) if self.unnests else table


ENGINES = {
    "duckdb": Engine(
        rounds=True,
        widens=True,
        searches=True,
        underflows=False,
        adds=True,
        skips=True,
        small=True,
        tries=True,
        lists=True,
    ),
    "postgres": Engine(rounds=True, widens=True, unnests=True, opens=True),
    "pyspark": Engine(searches=True, copies=True),
}


def engine_of(connection: Any, untyped: frozenset[str] = frozenset()) -> Engine:
    """Return the traits of a connection's engine; the careful ones where it is not known."""
    return dataclasses.replace(ENGINES.get(connection.name, Engine()), untyped=untyped)


def number(value: float) -> Any:
    """Return a double literal with every bit intact.

    Written as a number, 0.1234567890123456789 is a decimal to most engines, and they differ in how they
    convert it. Text is parsed to the nearest double by all.
    """
    return ibis.literal(repr(float(value))).cast("float64")


def guarded(work: Callable[[], T], complaint: str) -> T:
    """Return the outcome of `work`; where the engine fails, raise `InvalidData` with our words instead of its
    own.

    An engine's message may quote a private value ("could not convert 'Smith' to INT"), so neither it nor the
    exception that carries it goes any further than its class. An interruption stays one.
    """
    try:
        return work()
    except (MemoryError, SottovoceError):
        raise
    except Exception as failure:  # every driver has its own family
        kind = type(failure).__name__
        interrupted = _interrupts(failure)
    if interrupted:
        raise KeyboardInterrupt
    raise InvalidData(f"{complaint} ({kind})")


def _interrupts(failure: BaseException) -> bool:
    """Return whether an engine failed because someone pressed Ctrl-C: some wrap that in an error of their own."""
    links = (failure, failure.__cause__, failure.__context__)
    said = str(failure).rstrip()
    starts, ends = said.startswith(("Query interrupted", "KeyboardInterrupt")), said.endswith("\nKeyboardInterrupt")
    return starts or ends or any(isinstance(link, KeyboardInterrupt) for link in links)


def fetch_row(connection: Any, query: Any, name: str) -> tuple[int, ...]:
    """Run an aggregate, an expression or the engine's own words, and return its one row; a sum of no records is 0."""

    def row() -> list[Any]:
        if connection.name == "pyspark":  # straight from the driver: Ibis would go through pandas
            return list(_by_spark(connection, query).collect()[0])
        if isinstance(query, str) and connection.name in ENGINES:
            return _told(connection, query, lambda found: list(found.fetchone()))
        return list(_arrow(connection, query).to_pylist()[0].values())

    # What is no whole number stays in here too: a complaint of it would quote a sum that no noise has met.
    return guarded(lambda: tuple(0 if cell is None else int(cell) for cell in row()), _COMPLAINT.format(name))


def _by_spark(connection: Any, query: Any) -> Any:
    """Return Spark's own frame of a query, each text of which stays as it is: ``${x}`` would be a setting's value."""
    text = query if isinstance(query, str) else connection.compile(query)
    return connection.raw_sql(text.replace("${", r"\u0024{"))


def _told(connection: Any, text: str, fetch: Callable[[Any], T]) -> T:
    """Return what is fetched from a query in the engine's own words."""
    if connection.name == "duckdb":  # whose cursor is the connection itself
        with narrowed(connection, text):
            return fetch(connection.raw_sql(text))
    result = connection.raw_sql(text)
    try:
        return fetch(result)
    finally:
        result.close()


def _arrow(connection: Any, query: Any) -> Any:
    """Return all rows of an expression, or of words, which Ibis takes for one of any engine that it knows."""
    if isinstance(query, str) and connection.name == "datafusion":  # of whose words Ibis would make a view first
        return connection.raw_sql(query).to_arrow_table()
    asked = connection.sql(query) if isinstance(query, str) else query
    return connection.to_pyarrow_batches(asked).read_all()


def _rows_of(cursor: Any) -> Any:
    """Return all rows of DuckDB's cursor, by the name that its release has for it."""
    return (getattr(cursor, "to_arrow_table", None) or cursor.fetch_arrow_table)()


def run_empty(connection: Any, records: Any, name: str) -> None:
    """Run a query of all columns and no rows: it fails where a table is gone or may not be read."""
    query = records.limit(0)
    if connection.name == "pyspark":
        guarded(lambda: _by_spark(connection, query).collect(), f"{name} cannot be read")
    else:
        guarded(lambda: connection.to_pyarrow_batches(query).read_all(), f"{name} cannot be read")


def fetch_rows(connection: Any, query: Any, name: str) -> NDArray[np.int64]:
    """Run an aggregate of several rows of integers, an expression or words, and return them as an array."""

    def run() -> NDArray[np.int64]:
        if connection.name == "pyspark":
            rows = _by_spark(connection, query).collect()
            return np.array([[int(cell) for cell in row] for row in rows], dtype=np.int64)
        if isinstance(query, str) and connection.name in ENGINES:
            result = _told(connection, query, _rows_of)
        else:
            result = _arrow(connection, query)
        return np.stack([column.cast("int64").to_numpy() for column in result.columns], axis=1)

    return guarded(run, _COMPLAINT.format(name))


def fetch_batches(connection: Any, query: Any, name: str, decode: Callable[[Any], T]) -> T:
    """Run a query of records and return what `decode` makes of its Arrow batches, one after the other."""

    def run() -> T:
        if not isinstance(query, ibis.Expr):
            return decode(iter(query()))
        if connection.name == "pyspark":  # Ibis would go through pandas, whose types depend on the records
            return decode(iter(_by_spark(connection, query).toArrow().to_batches()))
        return decode(iter(connection.to_pyarrow_batches(query)))

    return guarded(run, _COMPLAINT.format(name))
