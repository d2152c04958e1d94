"""The anchor: a note beside a SQLite ledger of how far it had come.

SQLite drops a damaged tail of its write-ahead log without a word, and an older copy put in a ledger's place
looks sound in itself; both would give spent budget back. The anchor is rewritten after each durable
transaction, so a ledger that ends before its anchor has lost events.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path

from sottovoce.ledger.chain import EMPTY, Head, digest
from sottovoce.privacy.errors import LedgerCorrupt, LedgerUnavailable

__all__ = ["Anchor"]

_LINE = re.compile(r" *(\d+):([0-9a-f]{64}) ([0-9a-f]{8})\n")
_WIDTH = 100  # one short write of a fixed length, so that a note never keeps a tail of the one before
_TRIES = 20  # a note caught half written is whole a moment later


class Anchor:
    """The file `<ledger>-anchor`; never ahead of the ledger, behind it only for as long as a write takes.

    It is written without fsync: after a power cut it may be older than the ledger, and then it proves less,
    but it never accuses a sound ledger.
    """

    def __init__(self, ledger: Path) -> None:
        self.path = ledger.with_name(ledger.name + "-anchor")
        self._file: int | None = None

    def read(self) -> Head:
        """Return the head last noted; the empty head where there is no note."""
        for _ in range(_TRIES):
            try:
                text = self.path.read_bytes().decode("ascii", "replace")
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
        raise LedgerCorrupt(f"the anchor {self.path} is damaged; once the ledger is known to be whole, remove it")

    def write(self, head: Head) -> None:
        """Note that the ledger has come as far as `head`."""
        # The transaction is durable by now: an anchor that cannot be written weakens a check, no more.
        with contextlib.suppress(OSError):
            if self._file is None:
                self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
            os.pwrite(self._file, _line(head).encode(), 0)

    def close(self) -> None:
        """Let the file go."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _line(head: Head) -> str:
    return f"{head} {digest(str(head))[:8]}\n".rjust(_WIDTH)
