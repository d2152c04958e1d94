"""The records of a curator: a table that is asked, and read on a grid of time."""

from __future__ import annotations

import contextlib
import logging
import time
import warnings
import weakref
from collections.abc import Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

from sottovoce.privacy.errors import InvalidValue
from sottovoce.records.facts import Facts
from sottovoce.records.readings import Aggregate

_log = logging.getLogger(__name__)


@runtime_checkable
class Records(Protocol):
    """What the curator asks of a table; `sottovoce.records.tables.open_table` returns one."""

    @property
    def schema(self) -> dict[str, str]:
        """The names and types of the columns: public."""

    def count(self) -> int:
        """Return n, the number of records; asked only where it is public. Of persons, ``count(column)`` is asked."""

    def check(self, reading: Any, column: Any = None, *, where: str | None = None, missing: Any = None) -> None:
        """Raise what `read` would raise for this question, without reading a record."""

    def read(self, reading: Any, column: Any = None, *, where: str | None = None, missing: Any = None) -> Aggregate:
        """Return what a reading makes of the records."""

    def close(self) -> None:
        """Let go of the engine."""


@runtime_checkable
class Reachable(Protocol):
    """Records that may go away while they are open, as those of a database or a file may."""

    @property
    def grows(self) -> bool:
        """Whether others may write to the records while they are open."""

    def ensure_available(self) -> bool:
        """Raise `SourceUnavailable` where the records cannot be read now. Reads no record."""


def open_known(
    data: Any, facts: Facts | None, types: Mapping[str, str] | None, opened: contextlib.ExitStack
) -> Records:
    """Open the data that the facts are about, of which columns may be gone. What came open is left open."""
    table: Records = data
    with warnings.catch_warnings():  # polars warns where anything asks a LazyFrame for its schema
        warnings.simplefilter("ignore")
        opened_before = isinstance(data, Records)
    if not opened_before:
        from sottovoce.records.tables import open_table  # noqa: PLC0415 - an extra

        table = opened.enter_context(open_table(data, types=types, facts=facts))
    elif types:
        raise InvalidValue("types= is for data that is not open yet; give it to open_table")
    elif facts is not None and hasattr(table, "knowing"):
        table = table.knowing(facts)
    return table


def check_columns(table: Records, facts: Facts | None) -> None:
    """Refuse facts that name columns which are not there."""
    if facts is not None and (unknown := [name for name in facts.types if name not in table.schema]):
        raise InvalidValue(
            "the facts name columns that are not there, or of a type that cannot be read: "
            f"{', '.join(unknown)}; there are {', '.join(table.schema)}"
        )


class HeldTable:
    """A table, and what came open with it: closed with the curator, or once nobody may read it any more.

    Of data that grow a curator opens one after another; a question that was priced before is read of its own.
    """

    def __init__(self, table: Records, opened: contextlib.ExitStack) -> None:
        self.table = table
        self.close = weakref.finalize(self, opened.close)


def next_tick(taken: float, step: float) -> float:
    """Return the first moment, of `step` seconds and its doubles, that is not before `taken`.

    When an answer leaves tells how long its records took. Of the schedules by which nobody waits for more than twice as
    long as the work took, this one has the fewest moments: to whoever watches, work of up to T seconds is one of
    log₂(T / step) + 1 alike.

    Examples
    --------
    >>> [next_tick(taken, 0.25) for taken in (0.0, 0.001, 0.25, 0.26, 0.6, 1.1)]
    [0.25, 0.25, 0.25, 0.5, 1.0, 2.0]
    """
    tick = step
    while tick < taken:
        tick *= 2
    return tick


@contextlib.contextmanager
def on_the_grid(step: float | None) -> Iterator[None]:
    """Leave at the next of the moments that `next_tick` lists, whether what is inside succeeds or fails."""
    if step is None:
        yield
        return
    start = time.monotonic()
    try:
        yield
    finally:
        taken = time.monotonic() - start
        tick = next_tick(taken, step)
        if tick > step:
            _log.warning(
                "an answer left after %g s: it missed its grid of %g s, and a wider one tells less", tick, step
            )
        time.sleep(tick - taken)
