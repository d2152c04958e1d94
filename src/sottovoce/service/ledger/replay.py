"""Replay: what a chain of events means, and proof that it obeys the rules."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from sottovoce.privacy.errors import LedgerCorrupt, SottovoceError
from sottovoce.privacy.relation import REPLACE_ONE, Relation
from sottovoce.service.ledger.hash_chain import EMPTY, ChainEvent, Head, digest, unsealed
from sottovoce.service.ledger.period_totals import begun
from sottovoce.service.ledger.records import (
    Budget,
    DataVersion,
    Division,
    Entry,
    State,
    closed_entry,
    named_division,
    noted_version,
    opened_budget,
    reserved_entry,
)

__all__ = ["Replay"]

_OWED = ("charge", "refund")


class Replay:
    """The state of a ledger, rebuilt from its events one by one.

    Each event must fit the hash of the one before, and must have been allowed: budgets are never overspent,
    what a part is charged its whole is charged at once, an entry closes once, only the holder of a
    reservation voids it. The first that breaks a rule raises `LedgerCorrupt` and says which event it was.

    Parameters
    ----------
    forget
        Whether to forget each entry once it has ended, so that memory does not grow with the chain. Whether a key was
        used before must then be asked of the database; see `verification`.
    """

    def __init__(self, *, forget: bool = False) -> None:
        self.head: Head = EMPTY
        self.version = 0
        self.layout: str | None = None
        self.budgets: dict[int, Budget] = {}
        self.entries: dict[int, Entry] = {}
        self.spent: dict[int, Fraction] = {}
        self.versions: dict[int, list[DataVersion]] = {}
        """Of each data set that grows, what was noted of it; the last alone where what has ended is forgotten."""
        self.divisions: dict[int, Division] = {}
        self.by_period: dict[int, dict[str, Fraction]] = {}
        """Of each budget that has periods, and of its parts, what was spent of each; `spent` is that of the fullest."""
        self.owed: tuple[str, int, int] | None = None
        """What the next event must be, where a part was charged or refunded: its kind, entry and budget."""
        self.leaned_on: dict[int, ChainEvent] = {}
        """The events that later ones lean on: each that opened a budget, those of each entry that is pending,
        the last version of each data set that grows, and the last note of each other ledger."""
        self.unread: dict[int, int] = {}
        """The entries under which the records went away before anything was read, and the events that say so."""
        self.forget = forget
        self._guards: dict[int, str] = {}
        self._keys: dict[tuple[int, str], int] = {}
        self._notes: dict[str | None, int] = {}

    def state(self) -> dict[str, object]:
        """Return all that the events to come lean on, in plain values."""
        return {
            "head": [self.head.count, self.head.hash],
            "version": self.version,
            "layout": self.layout,
            "events": [list(event) for event in self.leaned_on.values()],
            "spent": {str(budget): str(total) for budget, total in self.spent.items()},
            "periods": {
                str(budget): {name: str(total) for name, total in totals.items()}
                for budget, totals in self.by_period.items()
            },
        }

    @classmethod
    def resumed(cls, state: Mapping[str, Any]) -> Replay:
        """Return the replay that had come to a state, ready for the event that follows; it forgets what has ended."""
        replay = cls(forget=True)
        for event in (ChainEvent(*row) for row in state["events"]):
            replay.leaned_on[event.sequence] = event
            content = json.loads(event.body)
            match event.kind:
                case "open":
                    replay.budgets[event.sequence] = opened_budget(event, content)
                case "reserve":
                    replay._enter(event, content, replay.budgets[int(event.budget or 0)])
                case "charge":
                    replay._charge_whole(event, content)
                case "grow":
                    replay._grow(event, content)
                case "periods":
                    replay.divisions[int(event.budget or 0)] = named_division(event, content)
                case "unread":
                    replay.unread[int(event.entry or 0)] = event.sequence
                case "note":
                    replay._notes[event.key] = event.sequence
        replay.head = Head(*state["head"])
        replay.version, replay.layout = state["version"], state["layout"]
        replay.spent = {int(budget): Fraction(total) for budget, total in state["spent"].items()}
        for budget, totals in state.get("periods", {}).items():
            replay.by_period[int(budget)] = {name: Fraction(total) for name, total in totals.items()}
        replay.owed = None
        return replay

    def feed(self, event: ChainEvent) -> None:
        """Take the next event in."""
        content = unsealed(self.head, event)
        owed, self.owed = self.owed, None
        try:
            if (owed or event.kind in _OWED) and owed != (event.kind, event.entry, event.budget):
                raise _BrokenRuleError("a part and its whole are charged and refunded together")
            match event.kind:
                case "create" | "migrate":
                    self._schema(event, content)
                case "open":
                    self._open(event, content)
                case "reserve":
                    self._reserve(event, content)
                case "commit" | "void" | "recover":
                    self._close(event, content)
                case "unread" | "resume":
                    self._pause(event)
                case "charge" | "refund":
                    self._whole(event, content)
                case "grow":
                    self._grow(event, content)
                case "periods":
                    self._divide(event, content)
                case "note":
                    self._note(event, content)
                case _:
                    raise _BrokenRuleError(f"there is no event of kind {event.kind!r}")
        except (SottovoceError, KeyError, TypeError, ValueError, ArithmeticError) as error:
            said = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
            raise LedgerCorrupt(f"event {event.sequence} ({event.kind}) breaks the rules: {said}") from None
        self.head = Head(event.sequence, event.hash)

    def _note(self, event: ChainEvent, content: dict[str, Any]) -> None:
        earlier = self._notes.get(event.key)
        before = 0 if earlier is None else json.loads(self.leaned_on.pop(earlier).body)["count"]
        _require(content["count"] > before, "another ledger only grows too")
        self._notes[event.key] = event.sequence
        self.leaned_on[event.sequence] = event

    def _grow(self, event: ChainEvent, content: dict[str, object]) -> None:
        budget = self.budgets[self._budget_of(event)]
        _require(budget.whole is None and event.key == budget.dataset, "a data set grows under its own name")
        known = self.versions.setdefault(budget.id, [])
        if self.forget and known:
            self.leaned_on.pop(known.pop().number, None)
        known.append(noted_version(event, content, budget.promise))
        self.leaned_on[event.sequence] = event

    def _divide(self, event: ChainEvent, content: dict[str, object]) -> None:
        budget = self.budgets[self._budget_of(event)]
        _require(budget.whole is None and event.key == budget.dataset, "periods are named of a data set, not of a part")
        division, before = named_division(event, content), self.divisions.get(budget.id)
        if before is not None:
            before.check_extended(division.by, division.names, home=division.home)
            del self.leaned_on[before.number]
        self.divisions[budget.id], self.leaned_on[event.sequence] = division, event
        for part in self.budgets.values():
            if budget.id in (part.id, part.whole):
                self.by_period[part.id] = begun(division, self.by_period.get(part.id), self.spent[part.id])
        _require(event.spent == str(self.spent[budget.id]), "the running total is wrong")

    def _schema(self, event: ChainEvent, content: dict[str, Any]) -> None:
        _require((event.kind == "create") == (event.sequence == 1), "a ledger is created once, first of all")
        _require(content["version"] > self.version, f"its schema is no newer than version {self.version}")
        self.version, self.layout = content["version"], content["layout"]

    def _open(self, event: ChainEvent, content: dict[str, object]) -> None:
        _require(event.budget == event.sequence and event.spent == "0", "a budget opens with nothing spent")
        _require(all(b.dataset != event.key for b in self.budgets.values()), "the data has a budget already")
        budget = opened_budget(event, content)
        if budget.whole is not None:
            _require(budget.whole in self.budgets, f"there is no budget {budget.whole} to be a part of")
            _require(self.budgets[budget.whole].whole is None, "a part has no parts")
            _require(budget.relation == self.budgets[budget.whole].relation, "a part is about its whole's neighbours")
        self.budgets[event.sequence] = budget
        self.spent[event.sequence] = Fraction(0)
        if budget.whole in self.divisions:
            self.by_period[budget.id] = begun(self.divisions[budget.whole], None, Fraction(0))
        self.leaned_on[event.sequence] = event

    def _reserve(self, event: ChainEvent, content: dict[str, Any]) -> None:
        budget = self.budgets[self._budget_of(event)]
        _require(event.entry == event.sequence, "an entry bears the number of its event")
        said = _relation(content["profile"].get("relation", str(REPLACE_ONE)))
        _require(said == budget.relation, "its claim is about other neighbours than its budget")
        division, periods = self.divisions.get(budget.whole or budget.id), content.get("periods")
        _require((division is None) == (periods is None), "an entry says its periods where its data have any")
        if division is not None and periods is not None:
            division.check(periods)
        self._spend(event, budget, _cost(content), periods)
        _require(self.spent[budget.id] <= _exact(budget.limit), "the budget is overspent")
        if event.key is not None and not self.forget:
            earlier = self._keys.get((budget.id, event.key))
            _require(earlier is None or not self.entries[earlier].counts, "its key was used already")
            self._keys[budget.id, event.key] = event.sequence
        self._enter(event, content, budget)

    def _enter(self, event: ChainEvent, content: dict[str, Any], budget: Budget) -> None:
        self._guards[event.sequence] = content["guard"]
        self.entries[event.sequence] = reserved_entry(event, content, budget)
        self.leaned_on[event.sequence] = event
        if budget.whole is not None:
            self.owed = "charge", event.sequence, budget.whole

    def _pause(self, event: ChainEvent) -> None:
        entry = self.entries[event.entry]  # type: ignore[index]
        _require(entry.state is State.PENDING, f"entry {entry.id} is {entry.state} already")
        _require(event.budget == entry.budget, f"entry {entry.id} belongs to budget {entry.budget}")
        unread = event.kind == "unread"
        _require((entry.id in self.unread) != unread, "what was not read is taken up once, and then left again")
        if unread:
            self.unread[entry.id], self.leaned_on[event.sequence] = event.sequence, event
        else:
            del self.leaned_on[self.unread.pop(entry.id)]
        self.entries[entry.id] = dataclasses.replace(entry, unread=unread)

    def _whole(self, event: ChainEvent, content: dict[str, object]) -> None:
        entry, budget = self.entries[event.entry], self.budgets[self._budget_of(event)]  # type: ignore[index]
        if event.kind == "refund":
            self._spend(event, budget, -_exact(entry.whole_cost or 0.0), entry.periods)
            if self.forget:
                del self.entries[entry.id]
            return
        self._spend(event, budget, _cost(content), entry.periods)
        _require(self.spent[budget.id] <= _exact(budget.limit), "the whole budget is overspent")
        self._charge_whole(event, content)

    def _charge_whole(self, event: ChainEvent, content: dict[str, Any]) -> None:
        entry = self.entries[event.entry]  # type: ignore[index]
        self.entries[entry.id] = dataclasses.replace(entry, whole_cost=float(content["cost"]))
        self.leaned_on[event.sequence] = event

    def _close(self, event: ChainEvent, content: dict[str, Any]) -> None:
        entry = self.entries[event.entry]  # type: ignore[index]  # a missing number is a missing entry
        _require(entry.state is State.PENDING, f"entry {entry.id} is {entry.state} already")
        _require(event.budget == entry.budget, f"entry {entry.id} belongs to budget {entry.budget}")
        guard, budget = self._guards.pop(entry.id), self.budgets[entry.budget]
        for number in (entry.id, *([] if budget.whole is None else [entry.id + 1])):
            del self.leaned_on[number]
        if (paused := self.unread.pop(entry.id, None)) is not None:
            del self.leaned_on[paused]
        if event.kind == "void":
            _require(digest(content["token"]) == guard, "only its holder may void")
            self._spend(event, budget, -_exact(entry.cost), entry.periods)
            if budget.whole is not None:
                self.owed = "refund", entry.id, budget.whole
        if not self.forget or self.owed is not None:
            self.entries[entry.id] = closed_entry(entry, event, content)
        else:
            del self.entries[entry.id]

    def _budget_of(self, event: ChainEvent) -> int:
        _require(event.budget in self.budgets, f"there is no budget {event.budget}")
        return int(event.budget)  # type: ignore[arg-type]

    def _spend(self, event: ChainEvent, budget: Budget, cost: Fraction, periods: Iterable[str] | None) -> None:
        totals = self.by_period.get(budget.id)
        if totals is None:
            self.spent[budget.id] += cost
        else:
            charged = totals if periods is None else periods
            for name in charged:
                totals[name] += cost
            # The fullest of all is looked for only where it may have become less full.
            most = max(totals[name] for name in charged) if cost >= 0 else Fraction(0)
            self.spent[budget.id] = max(most, self.spent[budget.id]) if cost >= 0 else max(totals.values())
        _require(event.spent == str(self.spent[budget.id]), "the running total is wrong")


class _BrokenRuleError(SottovoceError):
    """A rule that an event breaks."""


def _cost(content: dict[str, Any]) -> Fraction:
    cost = float(content["cost"])
    _require(
        0 <= cost < math.inf,
        f"it was charged {cost:g}, and a cost is a number from 0 on: a profile was wrong, and everything the budget "
        "granted from here on is in doubt",
    )
    return _exact(cost)


# The same few costs, limits and relations come again and again.
_exact = functools.lru_cache(maxsize=1024)(Fraction)
_relation = functools.lru_cache(maxsize=64)(Relation.parse)


def _require(rule: bool, said: str) -> None:
    if not rule:
        raise _BrokenRuleError(said)
