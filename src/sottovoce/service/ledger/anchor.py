"""Anchors: notes outside a ledger of how far it had come.

SQLite drops a damaged tail of its write-ahead log without a word, and an older copy put in a ledger's place
looks sound in itself; both would give spent budget back. An anchor is rewritten after each durable
transaction, so a ledger that ends before its anchor has lost events. The one beside the ledger travels with it
into backups, and back out of them; only an anchor that lies elsewhere finds a backup that was restored.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from pathlib import Path
from typing import Any, Protocol

from sottovoce.privacy.errors import LedgerCorrupt, LedgerUnavailable
from sottovoce.service.ledger.folder_watch import Folder, Stamp
from sottovoce.service.ledger.hash_chain import EMPTY, Head, digest

_LINE = re.compile(r" *(\d+):([0-9a-f]{64}) ([0-9a-f]{8})\n")
_WIDTH = 100  # one short write of a fixed length, so that a note never keeps a tail of the one before
_PWRITE = getattr(os, "pwrite", None)
_TRIES = 20  # a note caught half written is whole a moment later


class Noting(Protocol):
    """A place to note how far a ledger had come."""

    name: str

    def read(self) -> Head:
        """Return the head last noted; the empty head where there is no note."""

    def write(self, head: Head) -> None:
        """Note that the ledger has come as far as `head`."""

    def close(self) -> None:
        """Let the place go."""


class Anchor:
    """A note in a small file; never ahead of the ledger, behind it only for as long as a write takes.

    It is written without fsync: after a power cut it may be older than the ledger, and then it proves less,
    but it never accuses a sound ledger.

    Parameters
    ----------
    path
        The file. Anything but a plain file is refused, and never waited for.
    needed
        Whether a note that cannot be written is an error. The transaction it notes is durable by then and counts as
        spent, but nobody is told what was made for it.
    folder
        The folder it lies in, where someone else looks at that before each note.
    """

    def __init__(self, path: Path, *, needed: bool = True, folder: Folder | None = None) -> None:
        self.path, self.name = path, path.name
        self._needed, self._folder = needed, folder
        self._stamp: Stamp | None = None  # its folder, when the path was last seen to lead to the file
        self._text_path = str(path)  # looked at with every transaction, and twice as fast as by a path
        self._file: int | None = None
        self._place: tuple[Any, ...] | None = None  # its inode and its device

    @classmethod
    def beside(cls, ledger: Path, folder: Folder | None = None) -> Anchor:
        """Return the anchor ``LEDGER-anchor``, which every SQLite ledger has and can do without for a while."""
        return cls(ledger.with_name(ledger.name + "-anchor"), needed=False, folder=folder)

    def read(self) -> Head:
        """Return the head last noted; the empty head where there is no note."""
        for _ in range(_TRIES):
            try:
                text = self._text()
            except FileNotFoundError:
                return EMPTY
            except OSError as error:
                raise LedgerUnavailable(f"cannot read the anchor {self.path}: {error.strerror}") from None
            if not text:  # just created, or cut off by a power cut: it says nothing
                return EMPTY
            match = _LINE.fullmatch(text)
            if match is not None and (head := Head(int(match[1]), match[2])) and text == _line(head):
                return head
            time.sleep(0.001)
        raise LedgerCorrupt(
            f"the anchor {self.path} is damaged, or is no anchor; once the ledger is known to be whole, remove it"
        )

    def _text(self) -> str:
        file = _opened(self.path, os.O_RDONLY)
        try:
            return os.read(file, _WIDTH + 1).decode("ascii", "replace")
        finally:
            os.close(file)

    def write(self, head: Head) -> None:
        """Note that the ledger has come as far as `head`."""
        note = _line(head).encode()
        try:
            if _PWRITE is None:
                self._write_anew(note)
            else:
                _PWRITE(self._current(), note, 0)
        except OSError as error:
            if self._needed:
                raise LedgerUnavailable(
                    f"cannot write the anchor {self.path}: {error.strerror}; what was charged counts as spent"
                ) from None

    def _write_anew(self, note: bytes) -> None:
        """Write where a file that is open has one place to write at for all threads (Windows): each opens its own."""
        file = _opened(self.path, os.O_WRONLY | os.O_CREAT)
        try:
            os.write(file, note)
        finally:
            os.close(file)

    def _current(self) -> int:
        """Return the file that the path leads to now, opened: a note in a file that was moved away proves nothing."""
        stamp = None if self._folder is None else self._folder.told()
        if self._file is not None and stamp is not None and stamp == self._stamp:
            return self._file
        try:
            if self._file is not None and os.stat(self._text_path)[1:3] != self._place:  # noqa: PTH116
                self.close()
        except FileNotFoundError:
            self.close()
        if self._file is None:
            self._file = _opened(self.path, os.O_WRONLY | os.O_CREAT)
            self._place = os.fstat(self._file)[1:3]
        self._stamp = stamp
        return self._file

    def close(self) -> None:
        """Let the file go."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


_CAREFUL = sum(getattr(os, flag, 0) for flag in ("O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY", "O_BINARY"))
"""Not every system has all of them."""


def _opened(path: Path, flags: int) -> int:
    """Open a plain file for its owner alone; a pipe or a device is refused before it is opened or waited for."""
    with contextlib.suppress(FileNotFoundError):
        _require_plain(path.stat())
    file = os.open(path, flags | _CAREFUL, 0o600)
    try:
        _require_plain(os.fstat(file))
    except OSError:
        os.close(file)
        raise
    return file


def _require_plain(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OSError(0, "it is no plain file")


def _line(head: Head) -> str:
    text = "%d:%s" % head  # noqa: UP031 - twice as fast as by its names
    return f"{text} {digest(text)[:8]}\n".rjust(_WIDTH)
