"""What a ledger holds, as values: budgets and the entries charged to them."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.filter import PrivacyFilter
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.relation import Relation
from sottovoce.service.ledger.hash_chain import ChainEvent

__all__ = [
    "Budget",
    "DataVersion",
    "Division",
    "Entry",
    "State",
    "check_n",
    "closed_entry",
    "named_division",
    "noted_version",
    "opened_budget",
    "reserved_entry",
]


class State(enum.StrEnum):
    """Where an entry stands. All but `VOID` count as spent."""

    PENDING = "pending"
    """Reserved, and not heard of since: a release under way, or a process that died."""
    COMMITTED = "committed"
    """Released and recorded."""
    VOID = "void"
    """Given up by the process that reserved it, before any data was read."""
    LOST = "lost"
    """Recovered after a crash: nothing was released, and it still counts as spent."""


@dataclass(frozen=True)
class Budget:
    """What may be learnt of one data set, fixed when it was opened.

    Attributes
    ----------
    id
        The number of the event that opened it.
    dataset
        The name of the data set; a ledger holds one budget for each.
    promise
        What all releases together keep.
    n, schema
        The data set's public facts: how many records, and the type of each column. n is None where it is a secret.
    filter
        The privacy filter as it was fixed at opening: its order and its limit.
    who, at
        Who opened it, and when (UTC).
    whole
        For a part of another budget, the number of that one: what a part is charged, its whole is charged too.
    source
        Where the data lay when it was opened, where that is known.
    """

    id: int
    dataset: str
    promise: Promise
    n: int | None
    schema: Mapping[str, str]
    filter: Mapping[str, Any]
    limit: float
    who: str
    at: str
    whole: int | None = None
    source: Mapping[str, Any] | None = None

    @property
    def relation(self) -> Relation:
        """Which data sets are neighbours to all that is charged here."""
        return self.promise.relation

    @property
    def counted(self) -> str:
        """What is added up of every release, in words; fixed when the budget was opened."""
        return PrivacyFilter.from_dict(self.filter).counted

    def share(self, cost: float) -> float:
        """Return what share of the budget, as it was opened, a cost is."""
        return cost / self.limit if self.limit else math.inf

    def facts(self) -> dict[str, Any]:
        """Return all that was fixed at opening, in plain values."""
        facts = {
            "promise": self.promise.to_dict(),
            "n": self.n,
            "schema": dict(self.schema),
            "filter": dict(self.filter),
            "limit": self.limit,
        }
        return facts if self.whole is None else facts | {"whole": self.whole}


@dataclass(frozen=True)
class DataVersion:
    """What is public of a data set that grows, as it was noted at one moment: entries after it are about this version.

    Attributes
    ----------
    number
        The number of the event that noted it.
    n, schema
        How many records there were, None where it is a secret, and the type of each column.
    who, at
        Who noted it, and when (UTC).
    """

    number: int
    n: int | None
    schema: Mapping[str, str]
    who: str
    at: str


@dataclass(frozen=True)
class Division:
    """The periods of a budget: disjoint parts of its records, told by a public column, each with the limit to itself.

    Attributes
    ----------
    number
        The number of the event that named them.
    by
        The column and how it divides the records, such as ``admitted: monthly``.
    names
        What the periods are called; the last has the records that are in no other.
    who, at
        Who named them, and when (UTC).
    home
        Whether all rows of a person lie in one of them, as the owner declared.
    """

    number: int
    by: str
    names: tuple[str, ...]
    who: str
    at: str
    home: bool = False

    @property
    def others(self) -> str:
        """The period of the records that are in no other."""
        return self.names[-1]

    def noted(self, charged: Sequence[str] | None) -> dict[str, object]:
        """Return what a release says of the periods that it is charged to, in plain values."""
        said = {"by": self.by, "charged": list(self.names if charged is None else charged), "of": len(self.names)}
        return said | {"home": True} if self.home else said

    def check_extended(self, by: str, names: Sequence[str], *, home: bool) -> None:
        """Refuse other periods in place of these; there may be more, of records that were in none."""
        if home != self.home:
            said = "in one period" if self.home else "in several periods"
            raise InvalidValue(f"rows of a person were declared to lie {said}, for good (home= of Person)")
        if by != self.by:
            raise InvalidValue(f"the periods were named by {self.by!r}, for good. Got {by!r}")
        if gone := [name for name in self.names if name not in names]:
            raise InvalidValue(f"periods stay what they are, and these would be gone: {', '.join(gone)}")
        if names[-1] != self.others:
            raise InvalidValue(f"what is in no other period stays in {self.others!r}, the last. Got {names[-1]!r}")

    def check(self, periods: Sequence[str]) -> None:
        """Refuse periods that are not among these, or are named twice; a question reads at least one."""
        unknown = sorted(set(periods).difference(self.names))
        if unknown or not periods or len(set(periods)) < len(periods):
            said = f"there is no {unknown[0]!r}" if unknown else "each once, and at least one"
            raise InvalidValue(f"the periods of a question are among those by {self.by}: {said}")


@dataclass(frozen=True)
class Entry:
    """One request charged to a budget.

    Attributes
    ----------
    id
        The number of the event that reserved it.
    request
        The mechanism and what it was asked about, in plain values.
    cost
        What it takes of the budget, in the filter's units.
    basis
        What its profile rests on; `CONVERGENCE` only where the caller accepted an unproven claim.
    release
        The release as JSON, where it was kept; `value_hash` is the SHA-256 of that JSON either way.
    note
        Why it was voided or recovered.
    whole_cost
        Where its budget is a part, what it takes of the whole, in the units of the whole's filter.
    periods
        Where the data have periods, those that it reads and is charged to.
    unread
        Whether it is pending because the records went away before anything of them was read: it can be finished.
    """

    id: int
    budget: int
    dataset: str
    state: State
    profile_state: Mapping[str, Any] = field(repr=False)
    request: Mapping[str, Any]
    cost: float
    basis: Basis
    who: str
    at: str
    key: str | None = None
    closed_at: str | None = None
    value_hash: str | None = None
    release: str | None = field(default=None, repr=False)
    note: str | None = None
    whole_cost: float | None = None
    periods: tuple[str, ...] | None = None
    unread: bool = False

    @property
    def profile(self) -> Profile:
        """What the mechanism provably does."""
        return Profile.from_dict(self.profile_state)

    @property
    def relation(self) -> Relation:
        """Which data sets are neighbours to its claim."""
        return self.profile.relation

    @property
    def counts(self) -> bool:
        """Whether it counts as spent."""
        return self.state is not State.VOID

    def to_dict(self) -> dict[str, object]:
        """Return the entry as plain values, for export."""
        return (
            {
                "entry": self.id,
                "dataset": self.dataset,
                "state": str(self.state),
                "request": dict(self.request),
                "profile": dict(self.profile_state),
                "cost": self.cost,
                "basis": str(self.basis),
                "who": self.who,
                "at": self.at,
                "key": self.key,
                "closed_at": self.closed_at,
                "value_hash": self.value_hash,
                "release": None if self.release is None else json.loads(self.release),
                "note": self.note,
                "whole_cost": self.whole_cost,
            }
            | ({} if self.periods is None else {"periods": list(self.periods)})
            | ({"unread": True} if self.unread else {})
        )


def check_n(n: int | None, promise: Promise) -> None:
    """Refuse a budget that notes a secret n, or keeps a public one to itself."""
    if (n is None) != promise.relation.hides_n:
        said = "a secret, so n is None" if promise.relation.hides_n else "public, so it is noted"
        raise InvalidValue(f"with a promise about {promise.relation} the number of records is {said}")


def opened_budget(event: ChainEvent, content: Mapping[str, Any]) -> Budget:
    """Read a budget from the event that opened it."""
    promise, n = Promise.from_dict(content["promise"]), content["n"]
    check_n(n, promise)
    return Budget(
        id=event.sequence,
        dataset=str(event.key),
        promise=promise,
        n=None if n is None else int(n),
        schema=content["schema"],
        filter=content["filter"],
        limit=float(content["limit"]),
        who=content["who"],
        at=content["at"],
        whole=content.get("whole"),
        source=content.get("source"),
    )


def noted_version(event: ChainEvent, content: Mapping[str, Any], promise: Promise) -> DataVersion:
    """Read what was noted of a data set that grows."""
    n = content["n"]
    check_n(n, promise)
    if n is not None and (type(n) is not int or n < 1):
        raise InvalidValue(f"a data set has at least one record. Got {n!r}")
    return DataVersion(event.sequence, n, dict(content["schema"]), content["who"], content["at"])


def named_division(event: ChainEvent, content: Mapping[str, Any]) -> Division:
    """Read the periods of a budget from the event that named them."""
    by, names = content["by"], content["names"]
    texts = isinstance(names, list) and all(isinstance(name, str) and name for name in names)
    if not isinstance(by, str) or not texts or len(set(names)) < len(names) or len(names) < 2:
        raise InvalidValue("a budget has two periods or more, each with a name of its own")
    return Division(event.sequence, by, tuple(names), content["who"], content["at"], content.get("home") is True)


def reserved_entry(event: ChainEvent, content: Mapping[str, Any], budget: Budget) -> Entry:
    """Read an entry from the event that reserved it."""
    return Entry(
        id=event.sequence,
        budget=budget.id,
        dataset=budget.dataset,
        state=State.PENDING,
        profile_state=content["profile"],
        request=content["request"],
        cost=float(content["cost"]),
        basis=Basis(content["profile"]["basis"]),
        who=content["who"],
        at=content["at"],
        key=event.key,
        periods=None if (periods := content.get("periods")) is None else tuple(periods),
    )


_CLOSED = {"commit": State.COMMITTED, "void": State.VOID, "recover": State.LOST}


def closed_entry(entry: Entry, event: ChainEvent, content: Mapping[str, Any]) -> Entry:
    """Return the entry as the event that closed it left it."""
    return dataclasses.replace(
        entry,
        unread=False,
        state=_CLOSED[event.kind],
        closed_at=content["at"],
        value_hash=content.get("value_hash"),
        release=event.value,
        note=content.get("note"),
    )
