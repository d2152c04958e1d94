"""Turns: processes that write to one SQLite ledger take them without sleeping while it is free.

SQLite lets one process write at a time, and makes the others sleep for longer and longer before they try again. A lock
on the file beside the ledger is tried again at once. It decides nothing: who cannot have it goes to SQLite all the
same.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

try:
    import fcntl
except ImportError:  # not every system has it
    fcntl = None  # type: ignore[assignment]

__all__ = ["Turns"]

_PATIENCE = 0.25
"""Seconds, after which SQLite is asked to wait."""
_NAP = 0.0002
_AT_ONCE = 0 if fcntl is None else fcntl.LOCK_EX | fcntl.LOCK_NB


class Turns:
    """The turns of one process among those that write to a ledger.

    Parameters
    ----------
    beside
        The file that all of them know; None where the database sees to turns itself.
    """

    def __init__(self, beside: Path | None) -> None:
        self._beside = None if beside is None or fcntl is None else str(beside)
        self._file: int | None = None
        self._process, self._taken = 0, False

    def take(self) -> None:
        """Wait until it is this process's turn, or for long enough."""
        if self._beside is None:
            return
        if self._file is None or self._process != os.getpid():
            self._open()
        if self._file is not None:
            self._taken = True
            try:
                fcntl.flock(self._file, _AT_ONCE)
            except BlockingIOError:
                _wait(self._file)
            except OSError:  # no such locks here
                pass

    def give_back(self) -> None:
        """Let another process have its turn, where this one has not done so yet."""
        if self._taken and self._file is not None:
            self._taken = False
            try:  # noqa: SIM105 - `suppress` takes as long as the lock
                fcntl.flock(self._file, fcntl.LOCK_UN)
            except OSError:
                pass

    def _open(self) -> None:
        """Open the file, once in each process, for a child's lock would be its parent's; None while there is none."""
        self._file, self._process = None, os.getpid()
        with contextlib.suppress(OSError):
            self._file = os.open(str(self._beside), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)

    def close(self) -> None:
        """Let the file go."""
        if self._file is not None and self._process == os.getpid():
            os.close(self._file)
        self._file = None


def _wait(file: int) -> None:
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end and not _locked(file):
        time.sleep(_NAP)


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, _AT_ONCE)
    except OSError:
        return False
    return True
