"""A transaction: the few statements of one, straight on the driver's cursor, with as few of them as will do.

Events are appended in memory and written together, just before something is asked of the database that they may change
and when the transaction ends. What this process wrote last, and nobody else wrote after, is not asked for again.
"""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, TypeVar

import sqlalchemy as sa

from sottovoce.privacy.errors import LedgerCorrupt
from sottovoce.service.ledger.hash_chain import EMPTY, ChainEvent, Head, body_of
from sottovoce.service.ledger.period_totals import PeriodTotals

T = TypeVar("T")

_COLUMNS = "sequence, kind, budget, entry, key, spent, body, value, hash"
_ROW = "(?, ?, ?, ?, ?, ?, ?, ?, ?)"
_SELECT = f"SELECT {_COLUMNS} FROM sottovoce_events"
_NEXT = f"{_SELECT} WHERE sequence > ? ORDER BY sequence LIMIT 2000"
_RESERVE = (
    "INSERT INTO sottovoce_events (sequence, kind, budget, entry, spent, body, hash) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_COMMIT = _RESERVE.replace("spent, body", "body, value")
_MOVE = "UPDATE sottovoce_head SET count = ?, hash = ? WHERE id = 1 AND count = ? AND hash = ?"
_CLOSE = ("commit", "void", "recover")
CLOSES = "kind IN ('commit', 'void', 'recover') AND (kind = 'commit' OR kind = 'void' OR kind = 'recover')"
"""That an event closes an entry, in both of the ways in which ledgers say it of their index of such events: SQLite uses
the index only where a question has the very words."""
_MOST = 64
"""How many rows, or keys, one statement takes: with each, other threads have their turn before this one goes on."""


_Row = tuple[int, str, int | None, int | None, str | None, str | None, str, str | None, str]
"""An event, as `ChainEvent` has it."""


class HeadMoved(LedgerCorrupt):
    """The chain does not end where it was assumed to: what was to follow there must be made anew.

    Only a head that moves while it is locked would make that an error.
    """

    def __init__(self) -> None:
        super().__init__("the ledger's head moved while it was locked")


class Kept:
    """What the last transaction of this process left: where the chain ended, what was spent of budgets by then, and
    which entries, with their budgets, it had reserved and not closed.

    It counts for as long as the chain ends there: whoever else writes moves the head. `seen` is the furthest head that
    this process has seen; the chain never ends before it. `alone` says whether the last transaction found the chain
    where the one before had left it.
    """

    def __init__(self) -> None:
        self.seen, self.alone = EMPTY, False
        self.periods = PeriodTotals()  # which count wherever the chain ends: what came since is read
        self.keep(EMPTY, {}, {})

    def keep(self, head: Head, totals: dict[int, Fraction], open_: dict[int, int]) -> None:
        """Replace what is known."""
        self.head, self.totals, self.open = head, totals, open_


def _check_grown(head: Head, seen: Head) -> None:
    """Refuse a chain that does not reach where it was seen to have come."""
    if head.count < seen.count or (head.count == seen.count and head != seen):
        raise LedgerCorrupt(f"the ledger had come to event {seen.count} and now ends at {head.count}: it was swapped")


class Transaction:
    """One transaction on the driver's own cursor.

    `head` is where the chain ends, once it has been read or locked, and `start` where it ended then. What is appended
    moves `head` at once, and the rows when they are written. `totals` is what was spent of budgets up to `head`, and
    `open` the budgets of entries that are pending, as far as they are known; what `kept` knows from an earlier
    transaction counts where nothing was written since. `unused` are keys that no event bears.
    """

    def __init__(self, cursor: Any, dialect: sa.Dialect, kept: Kept | None = None) -> None:
        self.dialect = dialect
        self.sqlite = dialect.name == "sqlite"
        self.head = self.start = EMPTY
        self.totals: dict[int, Fraction] = {}
        self.open: dict[int, int] = {}
        self.unused: set[str] = set()
        self._kept = Kept() if kept is None else kept
        self.periods = self._kept.periods.copied()
        self._cursor = cursor
        self._locked = self._hopes = self._assumed = False
        self._events: list[_Row] = []
        self._tried: int | None = None  # how many of them came before the change that is being tried
        self._saved = False

    # Asking.

    def run(self, statement: str, *values: object) -> Any:
        """Run a statement; each `?` stands for a value. All that was appended is written first."""
        if self._events:
            self._write_down()
        if self._tried is not None and not statement.startswith("SELECT"):
            self._save()
        return self._execute(statement, values)

    def row(self, statement: str, *values: object) -> Any:
        """Return the first row a statement finds; None where it finds none."""
        return self.run(statement, *values).fetchone()

    def look(self, statement: str, *values: object) -> Any:
        """Return the first row a question finds that nothing appended here has changed."""
        return self._execute(statement, values).fetchone()

    def event(self, which: str, *values: object) -> ChainEvent | None:
        """Return one event, chosen by the rest of a query."""
        row = self.row(f"{_SELECT} {which}", *values)
        return None if row is None else ChainEvent(*row)

    def batches(self, after: int) -> Iterator[list[ChainEvent]]:
        """Return every event after one, in order, some thousands at a time: memory does not grow with their number."""
        last = after or -(2**63)  # a forged event before the first is an event too
        while rows := self.run(_NEXT, last).fetchall():
            yield [ChainEvent(*row) for row in rows]
            last = rows[-1][0]

    def look_up(self, keys: Iterable[str]) -> None:
        """Find out at once which of some keys no event bears."""
        wanted = list(dict.fromkeys(keys))
        for chunk in _chunks(wanted):
            result = self._execute(_keys(len(chunk)), chunk).fetchall()
            self.unused.update(set(chunk).difference(key for (key,) in result))

    def look_for(self, entries: Iterable[int]) -> None:
        """Find out at once which of some entries are pending, where that is not known."""
        wanted = [entry for entry in dict.fromkeys(entries) if entry not in self.open]
        for chunk in _chunks(wanted):
            self.open.update(self._execute(_pending(len(chunk)), chunk).fetchall())

    def _execute(self, statement: str, values: Any) -> Any:
        if self._assumed:
            self.make_sure()
        return self._cursor.execute(statement if self.sqlite else _with_percents(statement), values)

    # The head.

    def lock_head(self) -> None:
        """Read the head into `head`, and keep it from every other writer until the transaction ends."""
        if self._locked:  # by an earlier change of this transaction, which knows the head better than the row
            return
        kept = self._kept
        seen = kept.seen
        if self._hopes and kept.head == seen:
            self._assumed, head = True, seen
        else:
            head = self._locked_head()
            _check_grown(head, seen)
            kept.alone = kept.head == head
        self.head = self.start = head
        if kept.alone:
            self.totals, self.open = kept.totals, kept.open
        kept.keep(EMPTY, {}, {})  # until what changes now is durable
        self._locked = True

    def hope(self) -> None:
        """Where nobody else seems to write, assume that the chain ends where this process left it, without a look.

        Whatever is asked or written makes sure first; where it does not, `HeadMoved` is raised, and all is done anew.
        """
        self._hopes = self._kept.alone

    def make_sure(self) -> None:
        """Raise `HeadMoved` where the chain was assumed to end where it does not."""
        if self._assumed:
            self._assumed = False
            if self._locked_head() != self.start:
                raise HeadMoved

    def read_head(self, seen: Head = EMPTY) -> None:
        """Read the head into `head`; refuse a chain that ends before where it was `seen` to have come."""
        self.head = self.start = self._stored_head()
        _check_grown(self.head, seen)

    def _locked_head(self) -> Head:
        if not self.sqlite:  # BEGIN IMMEDIATE has locked all of a SQLite file
            self._cursor.execute("SELECT 1 FROM sottovoce_head FOR UPDATE")
        return self._stored_head()

    def _stored_head(self) -> Head:
        count, digest = self._cursor.execute("SELECT count, hash FROM sottovoce_head").fetchone() or (None, None)
        if not isinstance(count, int) or not isinstance(digest, str):
            raise LedgerCorrupt("the ledger's head is missing or damaged")
        return Head(count, digest)

    # Writing.

    def append(
        self,
        kind: str,
        content: Mapping[str, object],
        *,
        budget: int | None = None,
        entry: int | None = None,
        key: str | None = None,
        spent: str | None = None,
        value: str | None = None,
    ) -> None:
        """Append the event that follows the head, and move the head."""
        body = body_of(kind, content, self.head.count + 1, budget, entry, key, spent)
        self.append_body(kind, body, budget, entry, key, spent, value)

    def append_body(
        self,
        kind: str,
        body: str,
        budget: int | None,
        entry: int | None,
        key: str | None = None,
        spent: str | None = None,
        value: str | None = None,
    ) -> None:
        """Append the event that follows the head by its body, which says the same, and move the head."""
        self.head = self.head.after(body)
        sequence, seal = self.head
        self._events.append((sequence, kind, budget, entry, key, spent, body, value, seal))
        if spent is not None:
            self.totals.pop(budget, None)  # type: ignore[arg-type]
        if kind == "reserve":
            self.open[sequence] = budget  # type: ignore[assignment]
        elif kind in _CLOSE:
            self.open.pop(entry, None)  # type: ignore[arg-type]
        if key is not None:
            self.unused.discard(key)

    def append_total(
        self,
        kind: str,
        content: Mapping[str, object],
        budget: int,
        total: Fraction,
        *,
        entry: int | None = None,
        key: str | None = None,
    ) -> None:
        """Append the event that follows the head, and with which so much is spent of a budget."""
        self.append(kind, content, budget=budget, entry=entry, key=key, spent=str(total))
        self.totals[budget] = total

    def mentions(self, entry: int) -> bool:
        """Say whether something that is appended and not written is about an entry."""
        return any(row[3] == entry for row in self._events)

    def attempt(self, change: Callable[[Transaction], Any]) -> Any:
        """Return what one of several changes returns; one that raises leaves no trace, unless the driver failed."""
        head, totals, periods = self.head, dict(self.totals), self.periods.copied()
        self._tried, self._saved = len(self._events), False
        try:
            value = change(self)
        except Exception as error:
            if not is_drivers(error):  # else the connection is in doubt, and with it all that went before
                self._undo(head, totals)
                self.periods = periods
            raise
        finally:
            self._tried = None
        if self._saved:
            self._execute("RELEASE SAVEPOINT change", ())
        return value

    def _undo(self, head: Head, totals: dict[int, Fraction]) -> None:
        del self._events[self._tried :]
        if self._saved:
            self._execute("ROLLBACK TO SAVEPOINT change", ())
            self._execute("RELEASE SAVEPOINT change", ())
        if self.head != head:
            self.head, self.totals = head, totals
            self.open = {entry: budget for entry, budget in self.open.items() if entry <= head.count}

    def finish(self) -> None:
        """Write what was appended, and where the chain ends now."""
        if self.head == self.start:
            self.make_sure()
            return
        self._assumed = False
        if self._execute(_MOVE, (*self.head, *self.start)).rowcount != 1:
            raise HeadMoved
        if self._events:
            self._write_down()

    def keep(self) -> None:
        """Keep what is known for the next transaction, now that this one is durable."""
        self._kept.keep(self.head, self.totals, self.open)
        self._kept.periods = self.periods.advanced(self.start.count, self.head.count)

    def _write_down(self) -> None:
        events, self._events = self._events, []
        if self._tried is None:
            self._insert(events)
            return
        before, self._tried = self._tried, 0
        self._insert(events[:before])
        if events[before:]:
            self._save()
            self._insert(events[before:])

    def _save(self) -> None:
        if not self._saved:
            self._execute("SAVEPOINT change", ())
            self._saved = True

    def _insert(self, events: list[_Row]) -> None:
        if len(events) == 1:
            self._execute(*_alone(events[0]))
            return
        for chunk in _chunks(events):
            self._execute(_rows(len(chunk)), [value for event in chunk for value in event])


def _chunks(values: list[T]) -> Iterator[list[T]]:
    """Return values in lots whose sizes are powers of two: few statements to prepare, and few to run."""
    start = 0
    while remainder := len(values) - start:
        size = min(_MOST, 1 << (remainder.bit_length() - 1))
        yield values[start : start + size]
        start += size


def _alone(row: _Row) -> tuple[str, tuple[object, ...]]:
    """Return the statement that inserts one event, and its values; what most have not is not said: None takes time."""
    if row[1] == "reserve" and row[4] is None:
        return _RESERVE, (*row[:4], *row[5:7], row[8])
    if row[1] == "commit" and row[7] is not None:
        return _COMMIT, (*row[:4], *row[6:])
    return _rows(1), row


@functools.cache
def _rows(count: int) -> str:
    return f"INSERT INTO sottovoce_events ({_COLUMNS}) VALUES {', '.join([_ROW] * count)}"


@functools.cache
def _keys(count: int) -> str:
    return f"SELECT DISTINCT key FROM sottovoce_events WHERE key IN ({', '.join('?' * count)})"


@functools.cache
def _pending(count: int) -> str:
    return (
        "SELECT sequence, budget FROM sottovoce_events AS reserved "
        f"WHERE sequence IN ({', '.join('?' * count)}) AND kind = 'reserve' AND NOT EXISTS (SELECT 1 FROM "
        f"sottovoce_events WHERE entry = reserved.sequence AND {CLOSES})"
    )


@functools.cache
def _with_percents(statement: str) -> str:
    return statement.replace("?", "%s")


_OUTSIDE = {  # what keeps a sound ledger from being used; every other SQLite error means that it is not sound
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_AUTH,
}


def is_drivers(error: BaseException) -> bool:
    """Say whether an error is the database's or its driver's own, after which a connection is in doubt."""
    return leaves_it_sound(error) is not None


def leaves_it_sound(error: BaseException | None) -> bool | None:
    """Say whether a driver's error leaves the ledger sound; None for an error that is not the driver's."""
    if isinstance(error, UnicodeError):
        return False  # damaged names, which SQLite puts into its own messages
    if isinstance(error, sqlite3.Error):
        # An error without a code is Python's own: text that is no text, a number too large.
        return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF in _OUTSIDE
    if type(error).__module__.partition(".")[0] == "psycopg":
        # 42: a table or column is missing. XX: the server's own files are damaged. 22, 23: contradictions.
        return str(getattr(error, "sqlstate", None))[:2] not in ("42", "XX", "22", "23")
    return None
