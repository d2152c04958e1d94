"""Whom a curator protects: rows, or persons with all rows of theirs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import Promise
from sottovoce.records.facts import Facts
from sottovoce.service.curator.readable_records import Records
from sottovoce.service.ledger import Budget

_ROWS = "rows, not persons; say protect='rows' to go on with it, or open one for persons under another name"
_PERSONS = "persons; name the Person in the facts, and leave protect= out"


@dataclass(frozen=True)
class Protected:
    """Who is protected, by what is public of the columns.

    Attributes
    ----------
    facts
        The facts as the questions see them.
    person
        The column of persons, where a record is all that is there of a person.
    rows_of_persons
        Whether rows are protected though the facts say whose they are.
    """

    facts: Facts | None
    person: str | None
    rows_of_persons: bool

    @classmethod
    def of(cls, facts: Facts | None, protect: str | None) -> Self:
        """Return who is protected: persons where the facts name one, unless rows are asked for."""
        if protect not in (None, "persons", "rows"):
            raise InvalidValue(f"protect= is 'persons' or 'rows'. Got {protect!r}")
        person = None if facts is None else facts.person
        if protect == "persons" and person is None:
            raise InvalidValue("protect='persons' needs facts that say whose a row is: Facts(..., patient=Person())")
        if facts is None or person is None or protect != "rows":
            return cls(facts, person, rows_of_persons=False)
        return cls(facts.of_rows(), None, rows_of_persons=True)

    @property
    def unit(self) -> str:
        """What a record is: of a person, all that is there of one."""
        return "record" if self.person is None else "person"

    @property
    def units(self) -> str:
        """Several of them."""
        return f"{self.unit}s"

    def many(self, n: int) -> str:
        """Return so many of them, in words: ``1 person``, ``4,995 persons``."""
        return f"{n:,} {self.unit if n == 1 else self.units}"

    @property
    def sentence(self) -> str:
        """Who is protected: for whoever reads an answer."""
        row = "Protected is a row, not a person"
        return row if self.person is None else "Protected is a person, with all rows of theirs"

    @property
    def asked(self) -> dict[str, Any]:
        """What a table is told of persons, if anything."""
        return {} if self.person is None else {"persons": self.facts}

    def count(self, table: Records) -> int:
        """Return how many there are; asked only where that is public."""
        counted: Any = table
        return int(counted.count() if self.person is None else counted.count(self.person))

    def meant(self, promise: Promise) -> Promise:
        """Return a promise as it is meant here: of a person, where persons are protected."""
        return promise if self.person is None else promise.under(replace(promise.relation, unit=self.unit))

    def check(self, budget: Budget) -> None:
        """Refuse to go on with a budget that is about others."""
        if budget.relation.unit != self.unit:
            whose = _PERSONS if self.person is None else _ROWS
            raise InvalidValue(f"the budget of {budget.dataset!r} was opened for {whose}")
