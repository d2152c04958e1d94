"""The folder of a ledger: one look at it says that no name in it was made, removed or moved since an earlier one."""

from __future__ import annotations

import os
import time
from pathlib import Path

Stamp = tuple[int, int, int]
"""The inode, the device and the last change of a folder."""

_SETTLED = 2 * 10**9
"""Nanoseconds after which no other change of a folder bears the same time: the slowest clocks of file systems tick once
in two seconds."""


class Folder:
    """A folder, which the system says has changed whenever a name in it was made, removed or moved.

    Parameters
    ----------
    path
        Its path, which is looked up each time: a folder in its place is another one.
    """

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._fresh: Stamp | None = None

    @classmethod
    def around(cls, given: Path, real: Path) -> Folder | None:
        """Return a file's folder; None where a name elsewhere leads there, or folders do not tell of changes."""
        return cls(real.parent) if given == real and os.name == "posix" else None

    def look(self) -> Stamp:
        """Return the folder's stamp as it is now."""
        result = os.stat(self._path)  # noqa: PTH116 - with every transaction, and twice as fast as by a path
        return result[1], result[2], result.st_ctime_ns

    def settled(self, stamp: Stamp) -> Stamp | None:
        """Return a stamp, if it is old enough for a later change to have another."""
        return stamp if 0 <= stamp[2] < time.time_ns() - _SETTLED else None

    def tell(self, stamp: Stamp | None) -> None:
        """Leave the stamp of a look that was made just now to whoever would look next."""
        self._fresh = stamp

    def told(self) -> Stamp | None:
        """Return what was left, once: a later look is one's own."""
        stamp, self._fresh = self._fresh, None
        return stamp
