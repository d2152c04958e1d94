"""The files of a SQLite ledger: whether its path still leads to those that are open.

An open file outlives its name: what is spent in a file that was removed or replaced is seen by nobody else.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sottovoce.privacy.errors import LedgerCorrupt, LedgerUnavailable, SottovoceError
from sottovoce.service.ledger.folder_watch import Folder, Stamp

_Place = tuple[Any, ...]
"""The inode and the device of a file: what stays the same when its names change."""
_SUFFIXES = ("-wal", "-shm")
_HEADER, _FRAME = 32, 24
"""Bytes of a log before its first page, and before each page."""
_NAP = 0.005
"""Seconds between two looks at a log that someone else copies."""


def real_path(path: Path) -> Path:
    """Return the real file of a path; a path whose links lead round in a circle leads to none."""
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # before Python 3.13 the latter
        raise LedgerUnavailable(f"{path} leads to no file: its links go round in a circle") from None


def advised(said: str) -> str:
    """Return what a system says and, where that is of a disk, what to do: SQLite calls a full one an I/O error."""
    full = any(word in said.lower() for word in ("disk", "space", "too large"))
    return f"{said}; see that its disk has room, then ask again" if full else said


class _Copying(LedgerUnavailable):
    """Someone else copies the log into the ledger's file just now, and only one may."""


class Opened:
    """The log and its index as they were when a connection was opened.

    `log` is that log, opened once more, and `stamp` the ledger's folder as it was when all files in it were last seen
    to be the right ones.
    """

    __slots__ = ("beside", "log", "stamp")

    def __init__(self, beside: list[_Place | None], log: int | None) -> None:
        self.beside, self.log = beside, log
        self.stamp: Stamp | None = None

    def close(self) -> None:
        """Let the log go, before its connection: who closes a ledger last removes its log."""
        if self.log is not None:
            os.close(self.log)
            self.log = None


class Files:
    """The files of a ledger, at which every transaction looks.

    Parameters
    ----------
    given, path
        The ledger's path as it was given, and the real file's: SQLite follows symbolic links before it names its log.
    name
        What the ledger is called.
    timeout
        How many seconds to wait for others.
    connect
        Opens one more opened.
    """

    def __init__(
        self, given: Path, path: Path, name: str, timeout: float, connect: Callable[[], sqlite3.Connection]
    ) -> None:
        # As texts: each transaction looks at these files twice, and paths take longer to make than to look at.
        self._given, self._logs = str(given), [f"{path}{suffix}" for suffix in _SUFFIXES]
        self.folder = Folder.around(given, path)
        self._name, self._timeout, self._connect = name, timeout, connect
        self._file: _Place | None = None
        self._swapped: str | None = None
        self._length = 0  # of the log, when it was last seen

    def opened(self) -> Opened:
        """Return the files as they are now that a connection is open."""
        self._file = self._file or _place(_look(self._given))
        return Opened(self._beside(), self._open_log())

    def _open_log(self) -> int | None:
        # SQLite takes no locks on it, which closing it would let go.
        try:
            return None if self.folder is None else os.open(self._logs[0], os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        except OSError:
            return None

    def _beside(self) -> list[_Place | None]:
        return [_place(_look(log)) for log in self._logs]

    def check(self, opened: Opened, cursor: object = None, first: str = "", *, logs: bool = True) -> None:
        """Refuse to go on where the path leads to other files, in a transaction that was begun with `first`, if any."""
        try:
            self._check(opened, logs=logs)
        except _Copying:
            self._check_patiently(opened, cursor, first, logs=logs)

    def _check_patiently(self, opened: Opened, cursor: Any, first: str, *, logs: bool) -> None:
        """Check the files while someone else copies the log, in a transaction that was begun with `first`, if any.

        A log that is shorter than it was cannot be checked then: what they may wait for is let go, and all is done
        again.
        """
        end = time.monotonic() + self._timeout
        while True:
            if first:
                cursor.execute("ROLLBACK")
            time.sleep(_NAP)
            if first:
                cursor.execute(first)
            try:
                return self._check(opened, logs=logs)
            except _Copying:
                if time.monotonic() > end:
                    raise

    def check_after(self, opened: Opened) -> None:
        """Check the files once more; where no name in their folder has changed since they were right, they are."""
        folder, log, stamp = self.folder, opened.log, None
        if folder is not None and log is not None:
            try:
                stamp, length = folder.look(), os.lseek(log, 0, os.SEEK_END)
                if stamp == opened.stamp and length >= self._length:
                    self._length = length
                    folder.tell(stamp)
                    return
            except OSError:
                pass
        self.check(opened)
        if folder is not None and stamp is not None:
            opened.stamp = folder.settled(stamp)
            folder.tell(opened.stamp)

    def _check(self, opened: Opened, *, logs: bool) -> None:
        """Refuse to go on where the ledger's path leads to another file than the one that is open.

        The same goes for its log, where new transactions are, and for its index, where writers lock each other out;
        whoever writes looks at those once it is durable, before anything is told. Whether the log was cut off is seen
        before anything is written behind the cut.
        """
        try:  # in as few steps as will do: nearly always all is well
            result = os.stat(self._given)  # noqa: PTH116 - paths would be made into texts
            sound = result[1:3] == self._file and result[3] <= 1 and self._swapped is None  # of one name
            if logs or opened.log is None:
                log = os.stat(self._logs[0])  # noqa: PTH116
                sound = sound and (not logs or [log[1:3], os.stat(self._logs[1])[1:3]] == opened.beside)  # noqa: PTH116
                length = log[6]
            else:
                length = os.lseek(opened.log, 0, os.SEEK_END)
            if sound and (length >= self._length or not self._cut()):
                self._length = length
                return
        except OSError:
            pass
        if (refusal := self._refusal(opened)) is not None:
            raise refusal

    def _refusal(self, opened: Opened) -> SottovoceError | None:
        """Look again, and return what is wrong."""
        try:
            result = _look(self._given)
            if self._swapped is None:
                self._swapped = self._swap(opened, result)
        except OSError as error:
            return LedgerUnavailable(f"the ledger {self._name} cannot be used: {advised(str(error.strerror))}")
        if self._swapped is not None:
            return LedgerCorrupt(
                f"{self._swapped} while it was open; nothing is charged or told until it is opened anew"
            )
        if result is not None and result.st_nlink > 1:
            return LedgerUnavailable(
                f"the ledger {self._name} has {result.st_nlink} names (hard links), and SQLite keeps a log under each: "
                "what is spent under one is not seen under another. Remove all names but one"
            )
        if None in opened.beside:  # a damaged file that says that it keeps no log has none, and never had
            return None
        return LedgerUnavailable(f"the ledger {self._name} cannot be used: its files were changed a moment ago")

    def _swap(self, opened: Opened, found: os.stat_result | None) -> str | None:
        """Return what was done to the files under an open connection, if anything."""
        if (place := _place(found)) != self._file:
            return f"the ledger {self._name} was {'removed' if place is None else 'replaced by another file'}"
        if (beside := self._beside()) == (known := opened.beside):
            return None
        suffix, log = next((s, now) for s, now, old in zip(_SUFFIXES, beside, known, strict=True) if now != old)
        return f"the file {suffix} of the ledger {self._name} was {'removed' if log is None else 'replaced'}"

    def _cut(self) -> bool:
        """Say whether the log, which seems shorter than it was, may lack what is nowhere else.

        Who has copied all of it into the ledger's file may cut it, and new transactions start at its beginning then.
        SQLite is asked to copy what is not yet there, and fails where it finds less than there should be. What it may
        not copy yet, for someone still reads what was before, is there where the log is long enough for it.
        """
        if os.stat(self._logs[0]).st_size >= self._length:  # noqa: PTH116
            return False  # it grew between the two looks: another thread wrote
        try:
            with contextlib.closing(self._connect()) as other:
                busy, held, copied = other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                (page,) = other.execute("PRAGMA page_size").fetchone()
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_IOERR_SHORT_READ:
                raise  # a full disk or too many open files say nothing of the log
            self._swapped = f"the file -wal of the ledger {self._name} was cut off"
            return True
        if busy:
            raise _Copying(f"the ledger {self._name} cannot be used: another process copies its log")
        needed: int = 0 if held == copied else _HEADER + held * (_FRAME + page)
        return os.stat(self._logs[0]).st_size < needed  # noqa: PTH116


def _look(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return None


def _place(found: os.stat_result | None) -> _Place | None:
    return None if found is None else found[1:3]
