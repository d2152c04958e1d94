"""The looks of one release at a table: taken again where the records went away, given up where they changed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from sottovoce.privacy.errors import InvalidData, SourceLost, SourceUnavailable
from sottovoce.records.readings import Aggregate, ReadableRecords

T = TypeVar("T")
_PATIENCE = 30.0
"""Seconds that a release waits for records that went away while they were read: a database restarts in fewer."""


class TableLooks(ReadableRecords):
    """The records of a table as one question meets them, by what `read` makes of a reading.

    A look that failed because they went away is taken again once they are back: what it reads follows from the records
    alone, and no noise is drawn before it is read. After a first look a release is not made anew, for whether a look
    fails may depend on what the looks before released.
    """

    def __init__(self, read: Callable[[Any], Aggregate], reach: Callable[[], bool] = lambda: False) -> None:
        self._read, self._reach, self._seen = read, reach, False

    def look(self, reading: Any) -> Aggregate:
        """Return what a reading makes of the table."""
        try:
            result = patiently(lambda: self._read(reading), self._reach, seen=self._seen)
        except RecordsChanged as error:
            error.given_back = not self._seen
            raise
        self._seen = True
        return result


class RecordsChanged(InvalidData):
    """The records were counted, and are not as many as the question was priced for.

    Where that was its first look, all that was read is thrown away for a public reason, and nothing was drawn: the
    charge is `given_back`.
    """

    given_back = False


def patiently(work: Callable[[], T], reach: Callable[[], bool], *, seen: bool = False) -> T:
    """Return what is made of records, once they are back where they went away meanwhile.

    Where they stay away and nothing of them was `seen`, that is said.
    """
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            return work()
        except RecordsChanged:
            raise
        except InvalidData as error:
            try:
                if not reach():  # they are there, and it failed
                    raise
            except SourceUnavailable:
                if time.monotonic() > until:
                    raise (error if seen else _unread(error)) from None
        time.sleep(_PATIENCE / 100)


def _unread(error: InvalidData) -> SourceLost:
    return SourceLost(f"{error}; nothing of them was read, and what was paid is not lost: finish it")
