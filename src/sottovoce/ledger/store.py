"""The store: a SQLite file or a PostgreSQL database, its transactions, and its troubles in our words.

SQLAlchemy gives the addresses, the dialects, the tables' definitions and the connections; the few statements
of a transaction go straight to the driver: on a fast disk, building them would take longer than the fsync.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sqlite3
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from sottovoce.ledger.chain import EMPTY, Event, Head, next_event
from sottovoce.privacy.errors import InvalidValue, LedgerCorrupt, LedgerUnavailable, SottovoceError

__all__ = ["Kept", "Store", "Transaction", "is_drivers", "read_url"]

_COLUMNS = "sequence, kind, budget, entry, key, spent, body, value, hash"
_INSERT = f"INSERT INTO sottovoce_events ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_SELECT = f"SELECT {_COLUMNS} FROM sottovoce_events"
_NEXT = f"{_SELECT} WHERE sequence > ? ORDER BY sequence LIMIT 2000"

_Place = tuple[int, int]
"""The device and the inode of a file: what stays the same when its names change."""
_SUFFIXES = ("-wal", "-shm")
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


def read_url(url: str | os.PathLike[str]) -> sa.URL:
    """Return the address of a ledger; a bare path is a SQLite file.

    >>> read_url("patients.ledger").render_as_string()
    'sqlite:///patients.ledger'
    >>> read_url("postgresql://curator@db/ledgers").drivername
    'postgresql+psycopg'
    """
    text = os.fspath(url)
    try:
        address = sa.make_url(text) if "://" in text else sa.URL.create("sqlite", database=text)
    except (sa.exc.ArgumentError, ValueError):
        raise InvalidValue("cannot read the ledger's address; write sqlite:///FILE or a path") from None
    if address.drivername in ("postgresql", "postgres"):
        address = address.set(drivername="postgresql+psycopg")
    if address.drivername not in ("sqlite", "postgresql+psycopg"):
        raise InvalidValue(f"a ledger lives in sqlite or postgresql+psycopg. Got {address.drivername!r}")
    if address.drivername == "sqlite" and address.database in (None, "", ":memory:"):
        raise InvalidValue("a ledger must outlive its process: name a file, as in sqlite:///patients.ledger")
    return address


class Kept:
    """What the last transaction of this process left: where the chain ended, and what was spent of budgets by then.

    It counts for as long as the chain ends there: whoever else writes moves the head.
    """

    def __init__(self) -> None:
        self.head, self.totals = EMPTY, dict[int, Fraction]()


class Transaction:
    """One transaction on the driver's own cursor.

    `head` is where the chain ends, once it has been read or locked, and `start` where it ended then. What is appended
    moves `head` at once and the row that holds it when the transaction ends. `totals` is what was spent of budgets up
    to `head`, as far as it is known; what `kept` knows from an earlier transaction counts where nothing was written
    since.
    """

    def __init__(self, cursor: Any, dialect: sa.Dialect, kept: Kept | None = None) -> None:
        self.dialect = dialect
        self.sqlite = dialect.name == "sqlite"
        self.head = self.start = EMPTY
        self.totals: dict[int, Fraction] = {}
        self._kept = Kept() if kept is None else kept
        self._cursor = cursor
        self._locked = False

    def run(self, statement: str, *values: object) -> Any:
        """Run a statement; each `?` stands for a value."""
        return self._cursor.execute(statement if self.sqlite else _with_percents(statement), values)

    def row(self, statement: str, *values: object) -> Any:
        """Return the first row a statement finds; None where it finds none."""
        return self.run(statement, *values).fetchone()

    def lock_head(self, *more: str, values: tuple[object, ...] = ()) -> list[Any]:
        """Keep the head from every other writer until the transaction ends; then as `read_head`."""
        if self._locked:  # by an earlier change of this transaction, which knows the head better than the row
            return list(self.row(f"SELECT {', '.join(more)}", *values)) if more else []
        if not self.sqlite:  # BEGIN IMMEDIATE has locked all of a SQLite file
            self.run("SELECT 1 FROM sottovoce_head FOR UPDATE")
        found = self.read_head(*more, values=values)
        if self._kept.head == self.head:
            self.totals = self._kept.totals
        self._kept.head, self._kept.totals, self._locked = EMPTY, {}, True  # until what changes now is durable
        return found

    def read_head(self, *more: str, values: tuple[object, ...] = ()) -> list[Any]:
        """Read the head into `head`, and return what `more` asks, in the same statement."""
        columns = ", ".join(("count", "hash", *more))
        count, digest, *found = self.row(f"SELECT {columns} FROM sottovoce_head", *values) or (None, None)
        if not isinstance(count, int) or not isinstance(digest, str):
            raise LedgerCorrupt("the ledger's head is missing or damaged")
        self.head = self.start = Head(count, digest)
        return found

    def append(self, kind: str, content: dict[str, Any], **columns: Any) -> Event:
        """Write the event that follows the head, and move the head."""
        event = next_event(self.head, kind, content, **columns)
        if event.budget is not None and event.spent is not None:
            self.totals.pop(event.budget, None)
        self.run(_INSERT, *event)
        self.head = Head(event.sequence, event.hash)
        return event

    def append_total(self, kind: str, content: dict[str, Any], budget: int, total: Fraction, **columns: Any) -> None:
        """Write the event that follows the head, and with which so much is spent of a budget."""
        self.append(kind, content, budget=budget, spent=str(total), **columns)
        self.totals[budget] = total

    def undo(self, head: Head) -> None:
        """Be where the chain ended before a savepoint that was undone."""
        self.head, self.totals = head, {}

    def keep(self) -> None:
        """Keep what is known of totals for the next transaction, now that this one is durable."""
        self._kept.head, self._kept.totals = self.head, self.totals

    def finish(self) -> None:
        """Write where the chain ends now."""
        if self.head != self.start:
            self.run("UPDATE sottovoce_head SET count = ?, hash = ?", self.head.count, self.head.hash)

    def event(self, which: str, *values: object) -> Event | None:
        """Return one event, chosen by the rest of a query."""
        row = self.row(f"{_SELECT} {which}", *values)
        return None if row is None else Event(*row)

    def batches(self, after: int) -> Iterator[list[Event]]:
        """Return every event after one, in order, some thousands at a time: memory does not grow with their number."""
        last = after or -(2**63)  # a forged event before the first is an event too
        while rows := self.run(_NEXT, last).fetchall():
            yield [Event(*row) for row in rows]
            last = rows[-1][0]


@functools.cache
def _with_percents(statement: str) -> str:
    return statement.replace("?", "%s")


class Store:
    """Connections with the rules of a ledger: durable commits, one writer at a time, consistent reads."""

    def __init__(self, url: sa.URL, timeout: float) -> None:
        self.name = url.render_as_string(hide_password=True)
        # SQLite follows symbolic links before it names its log; what lies beside a ledger lies beside the real file.
        given = Path(str(url.database)).absolute()
        self.path = given.resolve() if url.drivername == "sqlite" else None
        # As texts: each transaction looks at these files twice, and paths take longer to make than to look at.
        self._given, self._logs = str(given), [f"{self.path}{suffix}" for suffix in _SUFFIXES]
        self._file: _Place | None = None
        self._swapped: str | None = None
        self._timeout = timeout
        self._process = os.getpid()
        # A pool as plain as can be: SQLAlchemy's own takes as long as a third of a durable transaction.
        self._idle: list[Any] = []
        if self.path is not None:
            self._engine = sa.create_engine("sqlite://", creator=self._sqlite, poolclass=NullPool)
            return
        try:
            arguments = {"connect_timeout": max(2, int(timeout))}
            self._engine = sa.create_engine(url, connect_args=arguments, poolclass=NullPool)
        except ImportError:
            raise InvalidValue("a PostgreSQL ledger needs psycopg; pip install 'sottovoce[postgres]'") from None
        sa.event.listen(self._engine, "connect", self._prepare_postgres)

    def _sqlite(self) -> sqlite3.Connection:
        address = f"file:{quote(str(self.path))}?mode=rw"  # never creates: an absent ledger is no empty ledger
        connection = sqlite3.connect(
            address, uri=True, timeout=self._timeout, isolation_level=None, check_same_thread=False
        )
        try:
            for pragma in ("journal_mode=WAL", "synchronous=FULL", "fullfsync=ON", "cell_size_check=ON"):
                connection.execute(f"PRAGMA {pragma}")
            # From the first read on, the log and its index stay the same files for as long as the connection lives.
            connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare_postgres(self, connection: Any, _: object) -> None:
        # The head's row lock makes writers take turns; each must then see what the last one wrote, whatever
        # the server's defaults.
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED")
            cursor.execute("SET synchronous_commit = on")
            cursor.execute(f"SET lock_timeout = {int(1000 * self._timeout)}")
        connection.commit()

    @contextlib.contextmanager
    def transaction(self, *, write: bool, kept: Kept | None = None) -> Iterator[Transaction]:
        """Run a block as one transaction: durable when it ends well, without effect when it raises."""
        self._leave_parent()
        connection = None
        try:
            connection = self._take()
            cursor = connection.cursor()
            if begin := self._begin(write=write):
                cursor.execute(begin)
            self._check_files(connection, logs=not write)
            transaction = Transaction(cursor, self._engine.dialect, kept)
            yield transaction
            if write:
                transaction.finish()
            cursor.execute("COMMIT")
            if write:  # what was written just now must be what the next one to open the path finds
                self._check_files(connection)
        except BaseException as error:
            if connection is not None:
                self._give_up(connection, sound=isinstance(error, SottovoceError))
            if (ours := self._in_our_words(error)) is not None:
                raise ours from None
            raise
        else:
            self._idle.append(connection)

    def _give_up(self, connection: Any, *, sound: bool) -> None:
        """Undo a transaction. After any error but ours the connection is in doubt and never used again."""
        if sound:
            with contextlib.suppress(Exception):
                connection.cursor().execute("ROLLBACK")
                self._idle.append(connection)
                return
        connection.invalidate()

    def _leave_parent(self) -> None:
        if self._process != os.getpid():
            # A child must not use its parent's connections, not even to close them: it lets them leak.
            _INHERITED.extend(self._idle)
            self._idle, self._process = [], os.getpid()

    def _take(self) -> Any:
        try:
            return self._idle.pop()
        except IndexError:
            connection = self._engine.raw_connection()
            if self.path is not None:
                connection.info["beside"] = self._beside()
                self._file = self._file or _place(_look(self._given))
            return connection

    def _beside(self) -> list[_Place | None]:
        return [_place(_look(log)) for log in self._logs]

    def _check_files(self, connection: Any, *, logs: bool = True) -> None:
        """Refuse to go on where the ledger's path leads to another file than the one that is open.

        An open file outlives its name: what is spent in a file that was removed or replaced is seen by nobody else.
        The same goes for the log, where new transactions are, and for its index, where writers lock each other out;
        whoever writes looks at those once it is durable, before anything is told.
        """
        if self.path is None:
            return
        try:
            found = _look(self._given)
            if self._swapped is None:
                self._swapped = self._swap(connection, found, logs=logs)
        except OSError as error:
            raise LedgerUnavailable(f"the ledger {self.name} cannot be used: {error.strerror}") from None
        if self._swapped is not None:
            raise LedgerCorrupt(
                f"{self._swapped} while it was open; nothing is charged or told until it is opened anew"
            )
        if found is not None and found.st_nlink > 1:
            raise LedgerUnavailable(
                f"the ledger {self.name} has {found.st_nlink} names (hard links), and SQLite keeps a log under each: "
                "what is spent under one is not seen under another. Remove all names but one"
            )

    def _swap(self, connection: Any, found: os.stat_result | None, *, logs: bool) -> str | None:
        """Return what was done to the files under an open connection, if anything."""
        if (place := _place(found)) != self._file:
            return f"the ledger {self.name} was {'removed' if place is None else 'replaced by another file'}"
        if not logs or (beside := self._beside()) == (known := connection.info["beside"]):
            return None
        suffix, log = next((s, now) for s, now, old in zip(_SUFFIXES, beside, known, strict=True) if now != old)
        return f"the file {suffix} of the ledger {self.name} was {'removed' if log is None else 'replaced'}"

    def _begin(self, *, write: bool) -> str | None:
        if self.path is not None:
            return "BEGIN IMMEDIATE" if write else "BEGIN"
        return None if write else "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"

    def _in_our_words(self, error: BaseException) -> SottovoceError | None:
        """Return a driver's error as one clear line; None for an error that is not the driver's."""
        cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        said = str(cause).strip().partition("\n")[0]
        match _leaves_it_sound(cause):
            case True:
                return LedgerUnavailable(f"the ledger {self.name} cannot be used: {said}")
            case False:
                return LedgerCorrupt(f"the ledger {self.name} is damaged, or is no ledger: {said}")
        return None

    def close(self) -> None:
        """Let every connection go."""
        while self._process == os.getpid() and self._idle:
            self._idle.pop().close()


def _look(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116 - twice as fast as by a path
    except (FileNotFoundError, NotADirectoryError):
        return None


def _place(found: os.stat_result | None) -> _Place | None:
    return None if found is None else (found.st_dev, found.st_ino)


_INHERITED: list[Any] = []
"""Connections of a parent process, kept from the garbage collector."""


def is_drivers(error: BaseException) -> bool:
    """Say whether an error is the database's or its driver's own, after which a connection is in doubt."""
    return isinstance(error, sa.exc.DBAPIError) or _leaves_it_sound(error) is not None


def _leaves_it_sound(error: BaseException | None) -> bool | None:
    if isinstance(error, UnicodeError):
        return False  # damaged names, which SQLite puts into its own messages
    if isinstance(error, sqlite3.Error):
        # An error without a code is Python's own: text that is no text, a number too large.
        return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF in _OUTSIDE
    if type(error).__module__.partition(".")[0] == "psycopg":
        # 42: a table or column is missing. XX: the server's own files are damaged. 22, 23: contradictions.
        return str(getattr(error, "sqlstate", None))[:2] not in ("42", "XX", "22", "23")
    return None
