"""A table that gives statistics and nothing else."""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Self

import ibis.expr.operations as ops
import numpy as np

from sottovoce.privacy.errors import InvalidData, InvalidValue, SourceUnavailable
from sottovoce.records.facts import Facts
from sottovoce.records.facts.condition_parser import columns_of, parse_predicate
from sottovoce.records.readings import CategoryCounts, Reading, Statistics
from sottovoce.records.tables.availability import Link
from sottovoce.records.tables.columns import field, is_text
from sottovoce.records.tables.conditions import condition
from sottovoce.records.tables.derived_columns import with_derived
from sottovoce.records.tables.engine import ENGINES, engine_of, fetch_batches, fetch_row, fetch_rows, guarded
from sottovoce.records.tables.engine_trial import check_engine
from sottovoce.records.tables.named_columns import as_named, compared_as_doubles, named_types
from sottovoce.records.tables.persons import person_of
from sottovoce.records.tables.query_plans import PLANS, KeptPlans, PlannedQuery, QueryPlan
from sottovoce.records.tables.row_per_person import one_a_person, rows_a_person
from sottovoce.records.tables.sql_text import SqlText
from sottovoce.records.tables.table_identity import Origin

_PLANS = 64
"""How many questions to a table are kept as queries."""
_SHARED = KeptPlans(256)
"""Those to tables that we opened, for all of the same columns: their queries name no connection and hold no record."""
_COMPLAINT = "{} cannot be asked this; its engine does not know all of its words"


class Table:
    """Records in some engine, read in one pass into n and ΣS(x); made by `open_table`.

    Every record counts, whatever it holds: a missing number counts as 0 cut to the bounds, a missing
    coordinate as 0, a missing or unknown category as the first one, unless `missing` says otherwise. A number
    outside the bounds, infinities among them, is clipped.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from sottovoce.records.readings import CategoryCounts, ClippedSum
    >>> from sottovoce.records.tables import open_table
    >>> with open_table(pa.table({"age": [31, None, 118], "ward": ["N", "S", "N"]})) as table:
    ...     table.schema, table.count()
    ...     table.read(ClippedSum(0, 100), "age")
    ...     table.read(CategoryCounts(("N", "S")), "ward")
    ...     table.read(ClippedSum(0, 1), where="age > 30 and ward = 'N'")
    ({'age': 'int64', 'ward': 'string'}, 3)
    Statistics(n=3, total=array([131.]))
    Statistics(n=3, total=array([2., 1.]))
    Statistics(n=3, total=array([2.]))
    """

    def __init__(
        self,
        name: str,
        records: Any,
        connection: Any,
        release: Callable[[], object] = lambda: None,
        texts: Any = None,
        untyped: frozenset[str] = frozenset(),
        origin: Origin | None = None,
        counted: Any = None,
        batches: Any = None,
        settle: Callable[[str], None] = lambda _: None,
        link: Link | None = None,
        is_frame: bool = False,
    ) -> None:
        self.name, self.origin, self._settle, self._link = name, origin, settle, link
        self.is_frame = is_frame
        self._records, self._connection, self._release = records, connection, release
        self._texts, self._counted, self._batches = records if texts is None else texts, counted, batches
        self._engine = engine_of(connection, untyped)
        self._held, self._types = (self._records, self._engine), dict[str, str]()
        self._facts: Facts | None = None
        strange = (ops.InMemoryTable, ops.ScalarUDF, ops.AggUDF)
        self._plain = connection.name == "duckdb" and not records.op().find(strange)
        # A caller's table is of a connection, and may hold records.
        shared = all(isinstance(each, ops.UnboundTable) for each in records.op().find(ops.PhysicalTable))
        self._plans = _SHARED if shared and self._plain else KeptPlans(_PLANS)
        self._closed, self._tried = threading.Event(), set[Any]()

    @property
    def schema(self) -> dict[str, str]:
        """The names and types of the columns: public. Of a frame, those that facts name have the types of the facts."""
        held = {name: str(kind.copy(nullable=True)) for name, kind in self._records.schema().items()}
        return {name: self._types.get(name, kind) for name, kind in held.items()}

    @property
    def untyped(self) -> frozenset[str]:
        """The columns of text that is read as numbers where these are asked for, as that of a CSV file is."""
        return self._engine.untyped

    @property
    def grows(self) -> bool:
        """Whether others may write to the table while it is open, as to one in a database."""
        return self._link is not None and self._link.grows

    def ensure_available(self) -> bool:
        """Raise `SourceUnavailable` where the records cannot be read now; connect anew where a connection was lost.

        Whoever charges for a question asks this first: it reads no record. Returns whether it had to connect anew.
        """
        self._check_open()
        if self.origin is not None:
            self.origin.fingerprint()
        return self._link is not None and self._link.ensure_available(self.name)

    @property
    def snapshots(self) -> bool:
        """Whether the records can be read as they were at one moment."""
        return self._link is None or self._link.snapshots

    @contextlib.contextmanager
    def one_moment(self, *, strict: bool) -> Iterator[None]:
        """Show all that is read inside as it was at one moment; where it was not, raise if that is `strict`."""
        with contextlib.nullcontext() if self._link is None else self._link.one_moment(self.name, strict=strict):
            before = None if self.origin is None else self.origin.fingerprint()
            yield
            if strict and self.origin is not None and self.origin.fingerprint() != before:
                raise InvalidData(f"{self.name} was written again before all was read")

    def know(self, facts: Facts | None) -> Self:
        """Take what is public of the columns: text that the facts call a flag is read as one. Returns the table.

        The columns of a frame are then read as what the facts call them, whatever its own types are.
        """
        self._records, engine = self._held
        self._facts = facts
        if facts is not None and self.is_frame:
            self._types = named_types(facts)
            self._records = self._texts = as_named(engine, self._records, facts)
            doubles = compared_as_doubles(facts)
            engine = replace(engine, untyped=engine.untyped.difference(self._types), doubles=doubles)
        flags = {name for name, kind in facts.types.items() if kind == "boolean"} if facts is not None else set()
        texts = (name for name, kind in self._records.schema().items() if kind.is_string())
        self._engine = replace(engine, flags=frozenset(flags.intersection(texts)))
        return self

    def knowing(self, facts: Facts) -> Self:
        """Return the same table, read as the columns are by these facts; closing one closes the other."""
        return copy.copy(self).know(facts)

    def count(self, person: str | None = None) -> int:
        """Return n, the number of records; or, where a column says whose a row is, of persons."""
        self._check_open()
        if person is None:
            plan = self._kept(self._told_apart("records"), lambda: _number_of(self._records))
            return int(plan.decode(fetch_row(self._connection, self._words(plan), self.name)).n)
        self._settle(person)
        whose = guarded(lambda: person_of(self._reading_of([person]), person), f"{self.name} has no such persons")
        return fetch_row(self._connection, whose.nunique().cast("string").name("n").as_table(), self.name)[0]

    def read(
        self,
        reading: Any,
        column: str | Sequence[str] | None = None,
        *,
        where: str | None = None,
        missing: Any = None,
        persons: Facts | None = None,
    ) -> Any:
        """Return what a reading makes of the whole table, computed by one query inside the engine.

        Parameters
        ----------
        reading
            A `Reading`, or a system or mechanism that has one.
        column
            The column to read; for a `BallSum` one column a coordinate, for `CrossCounts` one a list of categories, for
            `Moments` and `ClippedRows` the features and then the label. Without a column a record is 1 where the
            condition `where` holds and 0 elsewhere.
        where
            A condition such as ``"age > 40 and region in ('N', 'S')"``. n is public and counts every record,
            so a record for which the condition does not hold is not left out: it counts as a missing value
            (`CrossCounts` leave it out of every table, and count it in n; in a regression its row is zero).
        missing
            What a missing value counts as, chosen without looking at the data: a number within the bounds (0,
            cut to the bounds, unless given) or one of the categories (the first, unless given).
        persons
            Facts that say whose a row is: a record is then a person. A reading of persons takes their column last; of
            another reading, a person's number is the average of theirs (fractions), or one row of theirs counts, chosen
            by a keyed hash.
        """
        plan = self._plan(reading, column, where, missing, persons)
        try:
            return self._carry_out(plan)
        except InvalidData:  # the same outcome is read again only where the connection was lost, whatever the records
            if not self._is_connected_anew():
                raise
        return self._carry_out(plan)

    def _is_connected_anew(self) -> bool:
        with contextlib.suppress(SourceUnavailable):  # which says that nothing was spent, and this was paid for
            return self.ensure_available()
        return False

    def _carry_out(self, plan: QueryPlan) -> Any:
        if plan.stream:
            return fetch_batches(self._connection, plan.query, self.name, plan.decode)
        fetch = fetch_rows if plan.many else fetch_row
        return plan.decode(fetch(self._connection, self._words(plan), self.name))

    def check(
        self,
        reading: Any,
        column: str | Sequence[str] | None = None,
        *,
        where: str | None = None,
        missing: Any = None,
        persons: Facts | None = None,
    ) -> None:
        """Raise what `read` would raise for this request, from the schema alone: no record is read.

        An engine that we do not know is asked the same of no records, which it may have no words for.
        """
        self._plan(reading, column, where, missing, persons)
        if self._connection.name not in ENGINES:
            self._of_no_records(reading, column, where, missing, persons)

    def _of_no_records(self, reading: Any, *asked: Any) -> None:
        key = None if asked[-1] is not None else self._told_apart(reading, *asked[:-1])
        if key is not None and key in self._tried:
            return
        empty = copy.copy(self)
        empty._records = empty._texts = self._records.limit(0)
        empty._plans, empty._counted, empty._batches = KeptPlans(1), None, None
        as_they_come: Any = list
        plan = replace(empty._plan(reading, *asked), decode=as_they_come)
        try:
            empty._carry_out(plan)
        except InvalidData as error:
            lost = str(error).startswith(f"{self.name} could not")  # which says of files what is not meant here
            refusal = _COMPLAINT.format(self.name) if lost else error
            raise InvalidData(f"{refusal}; nothing was spent. Write the table as Parquet") from None
        self._tried.add(key)

    def check_engine(self) -> None:
        """Raise where the engine adds other sums than ours; no record is read."""
        check_engine(self)

    def close(self) -> None:
        """Let go of the engine; what the caller opened (an Ibis table, a Spark session) stays open."""
        if not self._closed.is_set():
            self._closed.set()
            self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Table({self.name!r}, {len(self.schema)} columns)"

    def _plan(
        self, reading: Any, column: str | Sequence[str] | None, where: str | None, missing: Any, persons: Facts | None
    ) -> QueryPlan:
        self._check_open()
        if persons is not None and persons.person is not None:
            self._settle(persons.person)
        reading = getattr(reading, "reading", reading)
        once = persons is not None or getattr(reading, "passing", False)
        key = None if once else self._told_apart(reading, column, where, missing, self._derivations(column, where))
        return self._kept(key, lambda: self._planned(reading, column, where, missing, persons))

    def _kept(self, key: Any, make: Callable[[], QueryPlan]) -> QueryPlan:
        plan = self._plans.get(key)
        if plan is None:
            plan = guarded(make, f"this question does not fit the columns of {self.name}")
            if key is not None and not (plan.stream and self._plans is _SHARED):  # which reads of this file alone
                self._plans.keep(key, plan)
        return plan

    def _told_apart(self, reading: Any, *asked: Any) -> Any:
        """Return what tells a question to this table from others to this one, and to others of the same columns."""
        key = told_apart(reading, *asked)
        ways = self._records.op(), self._texts.op(), self._counted is None, self._batches is None
        return None if key is None else (key, self._engine, ways)

    def _words(self, plan: QueryPlan) -> Any:
        """Return a plan's query in the engine's own words where these can be kept: putting them together takes 10 ms.

        Tables in memory and functions that a caller has put into an Ibis table must be told to its engine every time.
        """
        if plan.words is None and isinstance(plan.query, SqlText):
            plan.words = guarded(lambda: plan.query.sql(self._connection), _COMPLAINT.format(self.name))
        elif plan.words is None and self._plain:
            plan.words = guarded(lambda: self._connection.compile(plan.query), _COMPLAINT.format(self.name))
        return plan.query if plan.words is None else plan.words

    def _planned(
        self, reading: Any, column: str | Sequence[str] | None, where: str | None, missing: Any, persons: Facts | None
    ) -> QueryPlan:
        if not isinstance(reading, Reading):
            raise InvalidValue(f"expected a reading, or a system that has one. Got a {type(reading).__name__}")
        names, whose = _names(column), None if persons is None else persons.person
        conditions = [] if where is None else list(columns_of(parse_predicate(where)))
        held = [*names, *conditions] if self._facts is None else self._facts.sources([*names, *conditions])
        records = self._reading_of([*held, *([] if whose is None else [whose])])
        records = with_derived(self._engine, records, self._facts, [*names, *conditions])

        def kept(table: Any) -> Any:
            return None if where is None else condition(self._engine, table, where)

        for name in names:
            field(records, name)
        asked = PlannedQuery(self._engine, records, tuple(names), kept(records), missing, self._counted)
        if persons is not None and whose is not None:
            if names == [whose] and isinstance(reading, CategoryCounts) and where is None:
                return rows_a_person(asked, reading)
            if whose in (names[:-1] if reading.persons else names) or whose in conditions:
                raise InvalidValue(f"{whose!r} says whose a row is; nobody is asked about it")
            if not reading.persons:
                return one_a_person(asked, reading, persons, conditions, kept)
        plan: QueryPlan = PLANS[reading.word](asked, reading)
        rows = where is None and missing is None and not reading.persons
        if rows and self._batches is not None and records is self._texts:
            from sottovoce.records.tables.batches import counted  # noqa: PLC0415 - it brings 45 MB along

            plan = counted(self._batches, reading, names) or plan
        return plan

    def _derivations(self, column: str | Sequence[str] | None, where: str | None) -> Any:
        """Return what is public of the derived columns of a question, which its query follows; None where none is."""
        if self._facts is None:
            return None
        names = [*_names(column), *([] if where is None else columns_of(parse_predicate(where)))]
        derived = [name for name in names if isinstance(name, str) and self._facts.derivation(name) is not None]
        return self._facts.about(derived).to_dict() if derived else None

    def _reading_of(self, names: Sequence[str]) -> Any:
        """Return the records as they are read where a question looks at these columns."""
        return self._texts if any(is_text(self._records, name) for name in names) else self._records

    def _check_open(self) -> None:
        if self._closed.is_set():
            raise InvalidData(f"{self.name} is closed")


def _number_of(records: Any) -> QueryPlan:
    return QueryPlan(records.aggregate(n=records.count().cast("string")), lambda row: Statistics(row[0], np.zeros(0)))


def told_apart(reading: Any, *asked: Any) -> Any:
    """Return what tells one question from another; None where it cannot be told by values."""
    try:
        hash(reading)
    except TypeError:
        return None
    # By their looks too: to Python 1, 1.0 and True are the same. A user's function is itself alone, however it looks.
    return reading, repr((reading, *asked)), id(getattr(reading, "function", None))


def _names(column: str | Sequence[str] | None) -> list[str]:
    if column is None:
        return []
    return list(column) if isinstance(column, list | tuple) else [column]  # type: ignore[list-item]
