"""The store: a SQLite file or a PostgreSQL database, its transactions, and its troubles in our words.

SQLAlchemy gives the addresses, the dialects, the tables' definitions and PostgreSQL's connections; the few statements
of a transaction go straight to the driver: on a fast disk, building them would take longer than the fsync.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.pool import NullPool

from sottovoce.ledger.anchor import Anchor
from sottovoce.ledger.folder import Folder, Stamp
from sottovoce.ledger.transaction import Kept, Transaction, leaves_it_sound
from sottovoce.ledger.turns import Turns
from sottovoce.privacy.errors import InvalidValue, LedgerCorrupt, LedgerUnavailable, SottovoceError

__all__ = ["Store", "advised", "read_url"]

_Place = tuple[Any, ...]
"""The inode and the device of a file: what stays the same when its names change."""
_SUFFIXES = ("-wal", "-shm")
_HEADER, _FRAME = 32, 24
"""Bytes of a log before its first page, and before each page."""
_NAP = 0.005
"""Seconds between two looks at a log that someone else copies."""


def advised(said: str) -> str:
    """Return what a system says and, where that is of a disk, what to do: SQLite calls a full one an I/O error."""
    full = any(word in said.lower() for word in ("disk", "space", "too large"))
    return f"{said}; see that its disk has room, then ask again" if full else said


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


class _Copying(LedgerUnavailable):
    """Someone else copies the log into the ledger's file just now, and only one may."""


class _Connection:
    """A driver's connection with its one cursor, and the log and its index as they were when it was opened.

    `log` is that log, opened once more, and `stamp` the ledger's folder as it was when all files in it were last seen
    to be the right ones.
    """

    __slots__ = ("_discard", "beside", "cursor", "log", "raw", "stamp")

    def __init__(
        self, raw: Any, beside: list[_Place | None], discard: Callable[[], Any], log: int | None = None
    ) -> None:
        self.raw, self.beside, self._discard, self.log = raw, beside, discard, log
        self.cursor = raw.cursor()
        self.stamp: Stamp | None = None

    def close(self) -> None:
        """Let it go."""
        self._close_log()
        self.raw.close()

    def discard(self) -> None:
        """Let it go in doubt: nobody may use it again."""
        self._close_log()
        self._discard()

    def _close_log(self) -> None:
        if self.log is not None:  # first: who closes a ledger last removes its log
            os.close(self.log)
            self.log = None


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
        self.name = url.render_as_string(hide_password=True)
        # SQLite follows symbolic links before it names its log; what lies beside a ledger lies beside the real file.
        given = Path(str(url.database)).absolute()
        self.path = given.resolve() if url.drivername == "sqlite" else None
        # As texts: each transaction looks at these files twice, and paths take longer to make than to look at.
        self._given, self._logs = str(given), [f"{self.path}{suffix}" for suffix in _SUFFIXES]
        self.folder = None if self.path is None else Folder.around(given, self.path)
        self._file: _Place | None = None
        self._swapped: str | None = None
        self._length = 0  # of the log, when it was last seen
        self._timeout = timeout
        self._process = os.getpid()
        self.turns = Turns(None if self.path is None else Anchor.beside(self.path).path)
        # A pool as plain as can be: SQLAlchemy's own takes as long as a third of a durable transaction.
        self._idle: list[_Connection] = []
        if self.path is not None:
            self.dialect: sa.Dialect = sqlite.dialect()
            self._first = ("BEGIN", "BEGIN IMMEDIATE")  # of one that reads, and of one that writes
            return
        try:
            arguments = {"connect_timeout": max(2, int(timeout))}
            self._engine = sa.create_engine(url, connect_args=arguments, poolclass=NullPool)
        except ImportError:
            raise InvalidValue("a PostgreSQL ledger needs psycopg; pip install 'sottovoce[postgres]'") from None
        self.dialect = self._engine.dialect
        self._first = ("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY", "")
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

    def transaction(self, *, write: bool, kept: Kept | None = None) -> AbstractContextManager[Transaction]:
        """Run a block as one transaction: durable when it ends well, without effect when it raises."""
        return _Block(self, kept, write=write)

    def begin(self, connection: _Connection, *, write: bool) -> None:
        """Begin a transaction on the files that the path leads to."""
        if first := self._first[write]:
            connection.cursor.execute(first)
        try:
            self._check_files(connection, logs=not write)
        except _Copying:
            self._check_patiently(connection, first, logs=not write)

    def commit(self, connection: _Connection, *, write: bool) -> None:
        """Make a transaction durable."""
        connection.cursor.execute("COMMIT")
        if write:  # what was written just now must be what the next one to open the path finds
            self.turns.give_back()  # others need not wait for that
            self._check_after(connection)
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
            if self.path is None:
                pooled = self._engine.raw_connection()
                return _Connection(pooled, [], pooled.invalidate)
            raw = self._sqlite()
            self._file = self._file or _place(_look(self._given))
            return _Connection(raw, self._beside(), lambda: _end(raw), self._open_log())

    def _open_log(self) -> int | None:
        # SQLite takes no locks on it, which closing it would let go.
        try:
            return None if self.folder is None else os.open(self._logs[0], os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        except OSError:
            return None

    def _beside(self) -> list[_Place | None]:
        return [_place(_look(log)) for log in self._logs]

    def _check_patiently(self, connection: _Connection, first: str = "", *, logs: bool = True) -> None:
        """Check the files while someone else copies the log, in a transaction that was begun with `first`, if any.

        A log that is shorter than it was cannot be checked then: what they may wait for is let go, and all is done
        again.
        """
        end = time.monotonic() + self._timeout
        while True:
            if first:
                connection.cursor.execute("ROLLBACK")
            time.sleep(_NAP)
            if first:
                connection.cursor.execute(first)
            try:
                return self._check_files(connection, logs=logs)
            except _Copying:
                if time.monotonic() > end:
                    raise

    def _check_after(self, connection: _Connection) -> None:
        """Check the files once more; where no name in their folder has changed since they were right, they are."""
        folder, log, stamp = self.folder, connection.log, None
        if folder is not None and log is not None:
            try:
                stamp, length = folder.look(), os.lseek(log, 0, os.SEEK_END)
                if stamp == connection.stamp and length >= self._length:
                    self._length = length
                    folder.tell(stamp)
                    return
            except OSError:
                pass
        try:
            self._check_files(connection)
        except _Copying:
            self._check_patiently(connection)
        if folder is not None and stamp is not None:
            connection.stamp = folder.settled(stamp)
            folder.tell(connection.stamp)

    def _check_files(self, connection: _Connection, *, logs: bool = True) -> None:
        """Refuse to go on where the ledger's path leads to another file than the one that is open.

        An open file outlives its name: what is spent in a file that was removed or replaced is seen by nobody else.
        The same goes for the log, where new transactions are, and for its index, where writers lock each other out;
        whoever writes looks at those once it is durable, before anything is told. Whether the log was cut off is seen
        before anything is written behind the cut.
        """
        if self.path is None:
            return
        try:  # in as few steps as will do: nearly always all is well
            found = os.stat(self._given)  # noqa: PTH116 - paths would be made into texts
            sound = found[1:3] == self._file and found[3] <= 1 and self._swapped is None  # of one name
            if logs or connection.log is None:
                log = os.stat(self._logs[0])  # noqa: PTH116
                sound = sound and (not logs or [log[1:3], os.stat(self._logs[1])[1:3]] == connection.beside)  # noqa: PTH116
                length = log[6]
            else:
                length = os.lseek(connection.log, 0, os.SEEK_END)
            if sound and (length >= self._length or not self._cut()):
                self._length = length
                return
        except OSError:
            pass
        if (refusal := self._refusal(connection)) is not None:
            raise refusal

    def _refusal(self, connection: _Connection) -> SottovoceError | None:
        """Look again, and return what is wrong."""
        try:
            found = _look(self._given)
            if self._swapped is None:
                self._swapped = self._swap(connection, found)
        except OSError as error:
            return LedgerUnavailable(f"the ledger {self.name} cannot be used: {advised(str(error.strerror))}")
        if self._swapped is not None:
            return LedgerCorrupt(
                f"{self._swapped} while it was open; nothing is charged or told until it is opened anew"
            )
        if found is not None and found.st_nlink > 1:
            return LedgerUnavailable(
                f"the ledger {self.name} has {found.st_nlink} names (hard links), and SQLite keeps a log under each: "
                "what is spent under one is not seen under another. Remove all names but one"
            )
        if None in connection.beside:  # a damaged file that says that it keeps no log has none, and never had
            return None
        return LedgerUnavailable(f"the ledger {self.name} cannot be used: its files were changed a moment ago")

    def _swap(self, connection: _Connection, found: os.stat_result | None) -> str | None:
        """Return what was done to the files under an open connection, if anything."""
        if (place := _place(found)) != self._file:
            return f"the ledger {self.name} was {'removed' if place is None else 'replaced by another file'}"
        if (beside := self._beside()) == (known := connection.beside):
            return None
        suffix, log = next((s, now) for s, now, old in zip(_SUFFIXES, beside, known, strict=True) if now != old)
        return f"the file {suffix} of the ledger {self.name} was {'removed' if log is None else 'replaced'}"

    def _cut(self) -> bool:
        """Say whether the log, which seems shorter than it was, may lack what is nowhere else.

        Who has copied all of it into the ledger's file may cut it, and new transactions start at its beginning then.
        SQLite is asked to copy what is not yet there, and fails where it finds less than there should be. What it may
        not copy yet, for someone still reads what was before, is there where the log is long enough for it.
        """
        if os.stat(self._logs[0]).st_size >= self._length:  # noqa: PTH116
            return False  # it grew between the two looks: another thread wrote
        try:
            with contextlib.closing(self._sqlite()) as other:
                busy, held, copied = other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                (page,) = other.execute("PRAGMA page_size").fetchone()
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_IOERR_SHORT_READ:
                raise  # a full disk or too many open files say nothing of the log
            self._swapped = f"the file -wal of the ledger {self.name} was cut off"
            return True
        if busy:
            raise _Copying(f"the ledger {self.name} cannot be used: another process copies its log")
        needed: int = 0 if held == copied else _HEADER + held * (_FRAME + page)
        return os.stat(self._logs[0]).st_size < needed  # noqa: PTH116

    def _in_our_words(self, error: BaseException) -> SottovoceError | None:
        """Return a driver's error as one clear line; None for an error that is not the driver's."""
        cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        said = str(cause).strip().partition("\n")[0]
        match leaves_it_sound(cause):
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


def _end(connection: sqlite3.Connection) -> None:
    """Close a connection in doubt, its transaction first: half read it lives on, and locks, while it is held."""
    with contextlib.suppress(sqlite3.Error):
        connection.rollback()
    connection.close()


def _look(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return None


def _place(found: os.stat_result | None) -> _Place | None:
    return None if found is None else found[1:3]


_INHERITED: list[Any] = []
"""Connections of a parent process, kept from the garbage collector."""
