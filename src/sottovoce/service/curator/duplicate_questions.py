"""Whether a question was answered before: told by what was asked, and not by what was paid."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Protocol

from sottovoce.service.ledger import Entry, State

__all__ = ["AskedQuestion", "entry_that_answers"]


class AskedQuestion(Protocol):
    """A question or a formula."""

    def to_dict(self) -> dict[str, Any]:
        """Return what is asked as plain values."""


def entry_that_answers(entries: Iterable[Entry], question: AskedQuestion, data: str | None) -> int | None:
    """Return the dearest of the entries that answer a question about the data as they are now: it is the nearest.

    Bins that nobody named go with the noise, and do not make another question.
    """
    asked = json.loads(json.dumps(question.to_dict()))
    free = () if asked.get("bins") else ("bins",)
    wanted = _without(asked, free)
    shown = [entry for entry in entries if entry.state is State.COMMITTED and entry.release is not None]
    alike = [
        entry
        for entry in shown
        if entry.request.get("data") == data
        and _without(entry.request.get("mechanism", {}).get("system"), free) == wanted
    ]
    return max(alike, key=lambda entry: entry.cost).id if alike else None


def _without(state: Any, names: tuple[str, ...]) -> Any:
    return {name: value for name, value in state.items() if name not in names} if isinstance(state, dict) else state
