"""Whether the records can be asked for now: found out before anything is charged."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sottovoce.privacy.errors import InvalidData, SourceUnavailable
from sottovoce.records.tables.engine import guarded, run_empty


@dataclass(frozen=True)
class Link:
    """The connection to an engine that is not ours: its server may end it, and others may write to its tables.

    Attributes
    ----------
    connection
        The connection.
    records
        The table that is read through it.
    grows
        Whether others may write to the table while it is open.
    look_up
        Looks the table up anew, by its name; None where it has none.
    """

    connection: Any
    records: Any
    grows: bool = True
    look_up: Callable[[], Any] | None = None

    def ensure_available(self, name: str) -> bool:
        """Return whether the connection had to be made anew; raise `SourceUnavailable` where the table is out of reach.

        No record is read: what is asked for are the columns, and a query of no rows.
        """
        with contextlib.suppress(InvalidData):
            self._try(name)
            return False
        if self.look_up is None:  # a session of the caller's may hold what a new one would not
            raise SourceUnavailable(f"{name} does not answer; nothing was spent. Connect and open it again")
        try:
            guarded(self._reconnect, f"{name} cannot be reached")
            self._try(name)
        except InvalidData as error:
            raise SourceUnavailable(f"{error}; nothing was spent. Ask again when its database answers") from None
        return True

    def _reconnect(self) -> None:
        with contextlib.suppress(Exception):  # of what is lost already nothing more is wanted
            self.connection.disconnect()
        self.connection.reconnect()

    def _try(self, name: str) -> None:
        if self.look_up is not None:
            kinds = {column: kind.copy(nullable=True) for column, kind in self.records.schema().items()}
            there = guarded(self.look_up, f"{name} is not there").schema()
            if any(column not in there or there[column].copy(nullable=True) != kind for column, kind in kinds.items()):
                raise SourceUnavailable(f"the columns of {name} are no longer those it had; open it again")
        run_empty(self.connection, self.records, name)
