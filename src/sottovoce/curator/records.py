"""The records of a curator: a table that is asked, and read on a grid of time."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from sottovoce.facts import Facts
from sottovoce.privacy.errors import InvalidValue
from sottovoce.readings import Looks, Seen

__all__ = ["Records", "TableLooks", "on_the_grid", "open_records"]


@runtime_checkable
class Records(Protocol):
    """What the curator asks of a table; `sottovoce.tables.open_table` returns one."""

    @property
    def schema(self) -> dict[str, str]:
        """The names and types of the columns: public."""

    def count(self) -> int:
        """Return n, the number of records; asked only where it is public. Of persons, ``count(column)`` is asked."""

    def check(self, reading: Any, column: Any = None, *, where: str | None = None, missing: Any = None) -> None:
        """Raise what `read` would raise for this question, without reading a record."""

    def read(self, reading: Any, column: Any = None, *, where: str | None = None, missing: Any = None) -> Seen:
        """Return what a reading makes of the records."""

    @property
    def grows(self) -> bool:
        """Whether others may write to the records while they are open."""

    def ensure_available(self) -> bool:
        """Raise `SourceUnavailable` where the records cannot be read now. Reads no record."""

    def close(self) -> None:
        """Let go of the engine."""


def open_records(
    data: Any, facts: Facts | None, types: Mapping[str, str] | None, opened: contextlib.ExitStack
) -> Records:
    """Open the data that the facts are about. What came open is left open."""
    table: Records = data
    if not isinstance(data, Records):
        from sottovoce.tables import open_table  # noqa: PLC0415 - an extra

        table = opened.enter_context(open_table(data, types=types, facts=facts))
    elif types:
        raise InvalidValue("types= is for data that is not open yet; give it to open_table")
    if facts is not None and (unknown := [name for name in facts.types if name not in table.schema]):
        raise InvalidValue(
            "the facts name columns that are not there, or of a type that cannot be read: "
            f"{', '.join(unknown)}; there are {', '.join(table.schema)}"
        )
    return table


@dataclass(frozen=True)
class TableLooks(Looks):
    """The records of a table as one question meets them, by what `read` makes of a reading."""

    read: Callable[[Any], Seen]

    def look(self, reading: Any) -> Seen:
        """Return what a reading makes of the table."""
        return self.read(reading)


@contextlib.contextmanager
def on_the_grid(step: float | None) -> Iterator[None]:
    """Leave at the first whole multiple of `step` seconds, at least one, whether what is inside succeeds or fails."""
    if step is None:
        yield
        return
    start = time.monotonic()
    try:
        yield
    finally:
        taken = time.monotonic() - start
        time.sleep(max(1, math.ceil(taken / step)) * step - taken)
