"""Whether a question was answered before: told by what was asked, and not by what was paid."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Protocol

from sottovoce.service.ledger import Budget, Entry, Ledger, State

_LATEST = 100
"""Among how many entries a question is looked for that was asked before."""


class AskedQuestion(Protocol):
    """A question or a formula."""

    def to_dict(self) -> dict[str, object]:
        """Return what is asked as plain values."""


class AnsweredQuestions:
    """What a ledger's latest entries answered: an entry that ended is read once, whoever asks how often."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._turn = threading.Lock()
        self._latest: dict[int, list[Entry]] = {}

    def entry(self, budget: Budget, question: AskedQuestion, data: str | None) -> int | None:
        """Return the entry of a budget that answers a question about the data as they are now, if one does."""
        return entry_that_answers(self._entries(budget), question, data)

    def every(self, budget: Budget, question: AskedQuestion, data: str | None) -> list[Entry]:
        """Return all of them, the oldest first."""
        return sorted(entries_that_answer(self._entries(budget), question, data), key=lambda entry: entry.id)

    def _entries(self, budget: Budget) -> list[Entry]:
        """Return the latest entries of a budget as they are now."""
        with self._turn:
            known = [self._ended(budget, entry) for entry in self._latest.get(budget.id, ())]
            new = self._ledger.latest(budget, _LATEST, known[0].id if known else 0)
            latest = self._latest[budget.id] = [*map(_without_answer, new), *known][:_LATEST]
        return latest

    def _ended(self, budget: Budget, entry: Entry) -> Entry:
        """Return an entry as it is now: one that had not ended when it was read may have an answer by now."""
        if entry.state is not State.PENDING:
            return entry
        return _without_answer(self._ledger.find_entry(budget, entry.id) or entry)


def _without_answer(entry: Entry) -> Entry:
    """Return an entry that remembers that it has an answer, and not which: it may be large."""
    return entry if entry.release is None else replace(entry, release="")


def entry_that_answers(entries: Iterable[Entry], question: AskedQuestion, data: str | None) -> int | None:
    """Return the dearest of the entries that answer a question about the data as they are now: it is the nearest."""
    alike = entries_that_answer(entries, question, data)
    return max(alike, key=lambda entry: entry.cost).id if alike else None


def entries_that_answer(entries: Iterable[Entry], question: AskedQuestion, data: str | None) -> list[Entry]:
    """Return those of some entries that answer a question about the data as they are now.

    Bins that nobody named go with the noise, and do not make another question.
    """
    asked = json.loads(json.dumps(question.to_dict()))
    free = () if asked.get("bins") else ("bins",)
    wanted = _without(asked, free)
    shown = [entry for entry in entries if entry.state is State.COMMITTED and entry.release is not None]
    return [
        entry
        for entry in shown
        if entry.request.get("data") == data
        and _without(entry.request.get("mechanism", {}).get("system"), free) == wanted
    ]


def _without(state: object, names: tuple[str, ...]) -> Any:
    return {name: value for name, value in state.items() if name not in names} if isinstance(state, dict) else state
