"""A data set as the server holds it: its curator, the parts of its budget, its public facts."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sottovoce.faces.client.response_bodies import DatasetBody
from sottovoce.faces.server.config import AnalystConfig, DatasetConfig
from sottovoce.faces.server.verbs import verbs_of
from sottovoce.mechanisms.mechanism_choice import CONJUGATE
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import ApproxDP
from sottovoce.records.readings import Aggregate, ClippedRows
from sottovoce.records.tables import open_table
from sottovoce.records.tables.table import told_apart
from sottovoce.service.curator import Curator
from sottovoce.service.ledger import Budget, Ledger

_REMEMBERED = 1024


class _Remembered:
    """A table whose statistics are read once and then known.

    What was paid for once is read once: later answers to the same question take no longer for a longer table, and those
    who ask it at the same time wait for one read. Of a database whose records are corrected and erased while the server
    runs (`is_live`) nothing is known longer than that: it would be of another moment.
    """

    def __init__(self, table: Any, anew: Callable[[contextlib.ExitStack], Any] | None = None) -> None:
        self._anew = anew
        # Two locks: whether a question makes sense is said without waiting for another's read of the records.
        self._table, self._turn, self._checking = table, threading.RLock(), threading.Lock()
        self.schema: dict[str, str] = table.schema
        self.origin = table.origin
        self._checked = functools.lru_cache(maxsize=_REMEMBERED, typed=True)(self._check)
        self._known = functools.lru_cache(maxsize=_REMEMBERED, typed=True)(self._read)
        self._under_way: dict[Any, threading.Lock] = {}

        self._persons: Any = None
        self.is_live = False

    @property
    def snapshots(self) -> bool:
        return bool(self._table.snapshots)

    @contextlib.contextmanager
    def one_moment(self, *, strict: bool) -> Iterator[None]:
        """Show all that is read inside as it was at one moment: nobody else asks the connection meanwhile."""
        with self._turn if self.is_live else contextlib.nullcontext(), self._table.one_moment(strict=strict):
            yield

    @property
    def grows(self) -> bool:
        return bool(self._table.grows)

    def reopened(self, opened: contextlib.ExitStack) -> _Remembered:
        """Return the same data as they are now, of which nothing is known yet."""
        if self._anew is None:
            return self
        result = _Remembered(self._anew(opened), self._anew)
        result.is_live = self.is_live
        return result

    def count(self, person: str | None = None) -> int:
        with self._turn:
            return int(self._table.count(person))

    def ensure_available(self) -> bool:
        with self._turn:
            return bool(self._table.ensure_available())

    def check(
        self, reading: Any, column: Any = None, *, where: str | None = None, missing: Any = None, persons: Any = None
    ) -> None:
        self._persons = persons  # of one data set, always the same
        self._checked(*_asked(reading, column, where, missing))

    def read(
        self, reading: Any, column: Any = None, *, where: str | None = None, missing: Any = None, persons: Any = None
    ) -> Aggregate:
        self._persons = persons
        asked = _asked(reading, column, where, missing)
        if self.is_live or isinstance(asked[0], ClippedRows):  # as large as the table, and let go after each answer
            return self._read(*asked)
        with self._under_way.setdefault(asked, threading.Lock()):
            try:
                return self._known(*asked)
            finally:
                self._under_way.pop(asked, None)  # whoever waits still holds it, whoever comes finds what is known

    def close(self) -> None:
        self._table.close()

    def _check(self, reading: Any, column: Any, where: str | None, missing: Any, _: Any) -> None:
        with self._checking:
            self._table.check(reading, column, where=where, missing=missing, persons=self._persons)

    def _read(self, reading: Any, column: Any, where: str | None, missing: Any, _: Any) -> Aggregate:
        with self._turn:
            result: Aggregate = self._table.read(reading, column, where=where, missing=missing, persons=self._persons)
        return result


def _asked(reading: Any, column: str | Sequence[str] | None, where: str | None, missing: Any) -> tuple[Any, ...]:
    """Return what is asked, and what tells it from another question: readings that Python takes for equal may not be.

    Categories 1 and 2 are not True and 2, nor is one's own function another that looks like it.
    """
    reading = getattr(reading, "reading", reading)
    names = column if column is None or isinstance(column, str) else tuple(column)
    return reading, names, where, missing, told_apart(reading, names, where, missing)


class Dataset:
    """One data set, open for questions."""

    def __init__(self, config: DatasetConfig, ledger: Ledger, analysts: Sequence[AnalystConfig]) -> None:
        self.config = config
        with contextlib.ExitStack() as opened:

            def anew(opened: contextlib.ExitStack) -> Any:
                return opened.enter_context(open_table(config.source, types=config.types, facts=config.facts))

            table = _Remembered(anew(opened), anew)
            _check_columns(config, table.schema)
            options: dict[str, Any] = {"dataset": config.dataset or config.name, "order": config.order, "who": "server"}
            options |= {"facts": config.facts, "n": config.n, "protect": config.protect}
            options |= {"grows": True if config.grows else None, "period": config.period}
            self.curator = opened.enter_context(Curator(table, ledger, config.budget, **options))
            table.is_live = self.curator.grows and table.grows
            self.parts = {
                analyst.name: self._open_part(analyst) for analyst in analysts if config.name in analyst.budgets
            }
            self._opened = opened.pop_all()

    @property
    def budget(self) -> Budget:
        """What all analysts together may learn."""
        return self.curator.budget

    @property
    def grows(self) -> bool:
        """Whether others may write to the records, as in a database."""
        return bool(self.curator.records.grows)

    @property
    def version(self) -> int | None:
        """Of data that grow, which version of them questions are about; None of others."""
        return None if self.curator.version is None else self.curator.version.number

    def ensure_reachable(self) -> None:
        """Raise where no question could be answered: the records are out of reach, or were written again."""
        self.curator.refresh()
        self.curator.records.ensure_available()
        self.curator.check_unchanged()

    def _open_part(self, analyst: AnalystConfig) -> Budget:
        given = analyst.budgets[self.config.name]
        both = all(isinstance(item, ApproxDP) and item.delta > 0 for item in (given, self.config.budget))
        if both and self.config.order is not None:  # one curve is then read at one place
            with contextlib.suppress(InvalidValue):  # unless the part is too small for it
                return self.curator.open_part(analyst.name, given, order=self.config.order)
        try:
            return self.curator.open_part(analyst.name, given)
        except InvalidValue as error:
            raise InvalidValue(f"{self.config.name} in [analysts.{analyst.name}.budgets]: {error}") from None

    def facts(self) -> DatasetBody:
        """Return what anyone may know: nothing in it depends on a record."""
        return {
            "name": self.config.name,
            "title": self.config.title,
            "description": self.config.description,
            "n": self.curator.n,
            "grows": self.curator.grows,
            "period": None if self.curator.periods is None else self.curator.periods.by,
            "periods": None if self.curator.periods is None else list(self.curator.periods.names),
            "unit": self.budget.relation.unit,
            "rows_of_persons": self.curator.protects_rows_of_persons,
            "budget": self.budget.promise.to_dict(),
            "mechanisms": list(self.config.mechanisms or CONJUGATE),
            "conditions": self.config.conditions,
            "verbs": [
                {"verb": verb.word, "title": verb.title, "schema": verb.schema(self.config.facts)}
                for verb in verbs_of(self.config)
            ],
            "columns": [
                {
                    "name": column.name,
                    "title": column.title,
                    "type": self.curator.records.schema.get(
                        column.name, "vector" if column.derived is None else "derived"
                    ),
                    "systems": list(column.systems),
                    "facts": column.said.to_dict(),
                }
                for column in self.config.columns.values()
            ],
        }

    def close(self) -> None:
        """Let go of the table."""
        self._opened.close()


def _check_columns(config: DatasetConfig, schema: dict[str, str]) -> None:
    for column in config.columns.values():
        for name in column.said.columns(column.name):
            if name not in schema:
                raise InvalidValue(
                    f"[datasets.{config.name}.columns] names {name!r}, and {config.source} has no such column"
                )
