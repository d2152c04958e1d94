"""Whether the records can be asked for now: found out before anything is charged."""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sottovoce.privacy.errors import InvalidData, SourceUnavailable
from sottovoce.records.tables.engine import guarded, run_empty

_MOMENT = "sottovoce.moment"
"""A setting of PostgreSQL's that we set for a transaction alone."""


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
    _anew: list[Callable[[], None]] = field(default_factory=list, init=False, repr=False, compare=False)
    """What begins a snapshot again on a new connection, while one is wanted."""
    _turn: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)

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
            for begin in self._anew:
                guarded(begin, f"{name} does not answer")
        except InvalidData as error:
            raise SourceUnavailable(f"{error}; nothing was spent. Ask again when its database answers") from None
        return True

    @property
    def snapshots(self) -> bool:
        """Whether the engine can show the records as they were at one moment, whoever writes meanwhile."""
        return not self.grows or self.connection.name == "postgres"

    @contextlib.contextmanager
    def one_moment(self, name: str, *, strict: bool) -> Iterator[None]:
        """Show all that is read inside as it was at one moment; where it was not, raise if that is `strict`.

        PostgreSQL takes one snapshot for a transaction that is "repeatable read". A setting that ends with it tells
        whether it lasted.
        """
        if not self.grows or not self.snapshots:
            yield
            return
        token = secrets.token_hex(8)

        def begin() -> None:
            self.connection.con.rollback()
            self.connection.con.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            self.connection.con.execute("SELECT set_config(%s, %s, true)", [_MOMENT, token])

        def lasted() -> bool:
            known = self.connection.con.execute("SELECT current_setting(%s, true)", [_MOMENT]).fetchone()
            return bool(known == (token,))

        with self._turn:  # a connection has one transaction
            guarded(begin, f"{name} does not answer")
            self._anew[:] = [] if strict else [begin]
            try:
                yield
                if strict and not guarded(lasted, f"{name} does not answer"):
                    raise InvalidData(f"the connection to {name} was lost before all was read")
            finally:
                self._anew.clear()
                with contextlib.suppress(Exception):  # a connection that is gone is found gone by the next question
                    self.connection.con.rollback()

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
