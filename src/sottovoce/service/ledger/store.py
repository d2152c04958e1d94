"""The store: a SQLite file or a PostgreSQL database, its transactions, and its troubles in our words.

SQLAlchemy gives the addresses, the dialects and the tables' definitions; the few statements of a transaction go
straight to the driver: on a fast disk, building them would take longer than the fsync.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from sottovoce.privacy.errors import InvalidValue, LedgerCorrupt, LedgerUnavailable, NotInstalled, SottovoceError
from sottovoce.privacy.numbers import shown
from sottovoce.service.ledger.anchor import Anchor
from sottovoce.service.ledger.files import Files, Opened, advised, real_path
from sottovoce.service.ledger.folder_watch import Folder
from sottovoce.service.ledger.sqlite_write_lock import Turns
from sottovoce.service.ledger.transaction import Kept, Transaction, leaves_it_sound

_LONGEST_NAME = 255
"""Bytes: the longest name that file systems give a file."""


def read_url(url: str | os.PathLike[str]) -> sa.URL:
    """Return the address of a ledger; a bare path is a SQLite file.

    >>> read_url("patients.ledger").render_as_string()
    'sqlite:///patients.ledger'
    >>> read_url("postgresql://curator@db/ledgers").drivername
    'postgresql+psycopg'
    """
    if not isinstance(url, str | os.PathLike) or not isinstance(text := os.fspath(url), str):
        raise InvalidValue(f"a ledger is named by its path or address, a text. Got {shown(url)}")
    if any(len(os.fsencode(part)) > _LONGEST_NAME for part in text.split("/")):
        raise InvalidValue(f"no file has a name as long as {shown(text)}")
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


def told(url: sa.URL) -> str:
    """Return an address as it is told, without its passwords.

    >>> told(read_url("postgresql://ada:secret@db/ledgers?password=secret"))
    'postgresql+psycopg://ada:***@db/ledgers'
    """
    return url.difference_update_query(("password", "sslpassword")).render_as_string(hide_password=True)


class _Connection:
    """A driver's connection with its one cursor, and the files that it opened, if it is one to files."""

    __slots__ = ("_discard", "cursor", "opened", "raw")

    def __init__(self, raw: Any, discard: Callable[[], Any], opened: Opened | None = None) -> None:
        self.raw, self._discard, self.opened = raw, discard, opened
        self.cursor = raw.cursor()

    def close(self) -> None:
        """Let it go."""
        self._end(self.raw.close)

    def discard(self) -> None:
        """Let it go in doubt: nobody may use it again."""
        self._end(self._discard)

    def _end(self, end: Callable[[], Any]) -> None:
        if self.opened is not None:
            self.opened.close()
        end()


class _Block:
    """A block that is one transaction. Who writes takes the turn of this process first, and gives it back, however it
    ends.
    """

    __slots__ = ("_connection", "_kept", "_store", "_transaction", "_write")

    def __init__(self, store: Store, kept: Kept | None, *, write: bool) -> None:
        self._store, self._kept, self._write = store, kept, write
        self._connection: _Connection | None = None

    def __enter__(self) -> Transaction:
        store = self._store
        try:
            if self._write:
                store.turns.take()
            self._connection = connection = store.take()
            store.begin(connection, write=self._write)
        except BaseException as error:
            self.__exit__(None, error, None)
            raise
        self._transaction = transaction = Transaction(connection.cursor, store.dialect, self._kept)
        return transaction

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        try:
            if error is None:
                self._end()
            else:
                self._store.give_up(self._connection, error)
        finally:
            if self._write:
                self._store.turns.give_back()

    def _end(self) -> None:
        try:
            if self._write:
                self._transaction.finish()
            self._store.commit(self._connection, write=self._write)  # type: ignore[arg-type]
        except BaseException as error:
            self._store.give_up(self._connection, error)
            raise


class Store:
    """Connections with the rules of a ledger: durable commits, one writer at a time, consistent reads."""

    def __init__(self, url: sa.URL, timeout: float) -> None:
        self.name = told(url)
        # SQLite follows symbolic links before it names its log; what lies beside a ledger lies beside the real file.
        given = Path(str(url.database)).absolute()
        self.path = real_path(given) if url.drivername == "sqlite" else None
        self._files: Files | None = None
        self._process = os.getpid()
        self.turns = Turns(None if self.path is None else Anchor.beside(self.path).path)
        # A pool as plain as can be: SQLAlchemy's own takes as long as a third of a durable transaction.
        self._idle: list[_Connection] = []
        if self.path is not None:
            self.dialect: sa.Dialect = sqlite.dialect()
            self._first = ("BEGIN", "BEGIN IMMEDIATE")  # of one that reads, and of one that writes
            self._connect: Callable[[], Any] = partial(_connect_sqlite, self.path, timeout)
            self._files = Files(given, self.path, self.name, timeout, self._connect)
            return
        try:
            kind: Any = url.get_dialect()
            self.dialect = kind(dbapi=kind.import_dbapi())
        except ImportError:
            said = "a PostgreSQL ledger needs psycopg: pip install 'sottovoce[postgres]'"
            raise NotInstalled(said, name="psycopg") from None
        self._first = ("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY", "")
        self._connect = partial(_connect_postgres, self.dialect, url, timeout)

    @property
    def folder(self) -> Folder | None:
        """The folder of the ledger's file, where folders tell of changes."""
        return None if self._files is None else self._files.folder

    def transaction(self, *, write: bool, kept: Kept | None = None) -> AbstractContextManager[Transaction]:
        """Run a block as one transaction: durable when it ends well, without effect when it raises."""
        return _Block(self, kept, write=write)

    def begin(self, connection: _Connection, *, write: bool) -> None:
        """Begin a transaction on the files that the path leads to."""
        if first := self._first[write]:
            connection.cursor.execute(first)
        if self._files is not None:
            self._files.check(connection.opened, connection.cursor, first, logs=not write)  # type: ignore[arg-type]

    def commit(self, connection: _Connection, *, write: bool) -> None:
        """Make a transaction durable."""
        connection.cursor.execute("COMMIT")
        if write:  # what was written just now must be what the next one to open the path finds
            self.turns.give_back()  # others need not wait for that
            if self._files is not None:
                self._files.check_after(connection.opened)  # type: ignore[arg-type]
        self._idle.append(connection)

    def give_up(self, connection: _Connection | None, error: BaseException) -> None:
        """Undo a transaction, and raise a driver's error in our words.

        After any error but ours the connection is in doubt and never used again.
        """
        if connection is not None and not (isinstance(error, SottovoceError) and self._undone(connection)):
            connection.discard()
        if (ours := self._in_our_words(error)) is not None:
            raise ours from None

    def _undone(self, connection: _Connection) -> bool:
        with contextlib.suppress(Exception):
            connection.cursor.execute("ROLLBACK")
            self._idle.append(connection)
            return True
        return False

    def _leave_parent(self) -> None:
        # A child must not use its parent's connections, not even to close them: it lets them leak.
        _INHERITED.extend(self._idle)
        self._idle, self._process = [], os.getpid()

    def take(self) -> _Connection:
        """Return a connection of this process that nobody uses."""
        if self._process != os.getpid():
            self._leave_parent()
        try:
            return self._idle.pop()
        except IndexError:
            raw = self._connect()
            if self._files is None:
                return _Connection(raw, raw.close)
            return _Connection(raw, partial(_end, raw), self._files.opened())

    def _in_our_words(self, error: BaseException) -> SottovoceError | None:
        """Return a driver's error as one clear line; None for an error that is not the driver's."""
        said = str(error).strip().partition("\n")[0]
        match leaves_it_sound(error):
            case True:
                return LedgerUnavailable(f"the ledger {self.name} cannot be used: {advised(said)}")
            case False:
                return LedgerCorrupt(f"the ledger {self.name} is damaged, or is no ledger: {said}")
        return None

    def close(self) -> None:
        """Let every connection go."""
        while self._process == os.getpid() and self._idle:
            self._idle.pop().close()
        self.turns.close()

    def __del__(self) -> None:
        # A ledger that nobody closed is no fault of theirs: Python would warn of each connection that it finds open.
        with contextlib.suppress(Exception):  # what was never quite opened, or the interpreter's end
            if self._process != os.getpid():
                self._leave_parent()
            self.close()


def _connect_sqlite(path: Path, timeout: float) -> sqlite3.Connection:
    address = f"file:{quote(str(path))}?mode=rw"  # never creates: an absent ledger is no empty ledger
    connection = sqlite3.connect(address, uri=True, timeout=timeout, isolation_level=None, check_same_thread=False)
    try:
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "fullfsync=ON", "cell_size_check=ON"):
            connection.execute(f"PRAGMA {pragma}")
        # From the first read on, the log and its index stay the same files for as long as the connection lives.
        connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


def _connect_postgres(dialect: sa.Dialect, url: sa.URL, timeout: float) -> Any:
    _, names = dialect.create_connect_args(url)
    names["connect_timeout"] = max(2, int(timeout))
    driver: Any = dialect.dbapi
    # An address says where a ledger is, never how the driver behaves: with ?autocommit=1 there were no transactions.
    address = driver.conninfo.make_conninfo(**{name: value for name, value in names.items() if name != "context"})
    connection = driver.connect(address)
    try:
        # The head's row lock makes writers take turns; each must then see what the last one wrote, whatever
        # the server's defaults.
        connection.cursor().execute(
            "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED; SET synchronous_commit = on; "
            f"SET lock_timeout = {int(1000 * timeout)}"
        )
        connection.commit()
    except BaseException:
        connection.close()
        raise
    return connection


def _end(connection: sqlite3.Connection) -> None:
    """Close a connection in doubt, its transaction first: half read it lives on, and locks, while it is held."""
    with contextlib.suppress(sqlite3.Error):
        connection.rollback()
    connection.close()


_INHERITED: list[object] = []
"""Connections of a parent process, kept from the garbage collector."""
