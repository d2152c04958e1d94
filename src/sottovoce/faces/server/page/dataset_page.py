"""What the two pages of a data set have in common: its facts, its budgets, its history, and refusals in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sottovoce.faces.client.errors import AnswerLost, NotAllowed, NotFound, ServerStopping, TooManyRequests
from sottovoce.faces.client.reach import reach
from sottovoce.faces.client.response_bodies import RemainingBody
from sottovoce.faces.client.wire import KEY
from sottovoce.faces.server.page.views import gauges, history_rows, spending
from sottovoce.faces.server.service import Caller, Service
from sottovoce.privacy.errors import InvalidValue, LedgerCorrupt, LedgerUnavailable, SottovoceError, SourceUnavailable
from sottovoce.privacy.promises import Promise
from sottovoce.service.answers.explanations import explain

NOTHING: dict[str, Any] = {
    "answer": None,
    "refusal": None,
    "repeated": None,
    "problem": None,
    "fault": None,
    "foreseen": None,
    "described": None,
}
_SHOWN = 200
"""Entries of the history on one page."""


class DatasetPage:
    """What one caller sees of one data set."""

    def __init__(self, service: Service, caller: Caller, name: str) -> None:
        self._service, self._caller, self._name = service, caller, name
        self._facts = service.dataset(caller, name)
        self._config = service.config.datasets[name]

    async def _remaining(self) -> RemainingBody:
        result: RemainingBody = await self._service.run(self._service.remaining, self._caller, self._name)
        return result

    async def _budgets(self, remaining: RemainingBody) -> dict[str, Any]:
        """Return what is left, in pictures and in words, and what the budget means."""
        words = await self._service.run(self._service.left, self._caller, self._name)
        meaning = await self._service.run(_meanings, remaining)
        words_left = {"left_words": words["yours"] or words["whole"], "own_left": reach(remaining)[0]}
        return words_left | {"gauges": gauges(remaining, words), "meaning": meaning}

    async def history(self) -> dict[str, Any]:
        """Return the entries that the caller may see, and how they spent the budget."""
        everyone = "admin" in self._caller.scopes
        entries = await self._service.run(self._service.history, self._caller, self._name)
        rows = history_rows(entries, await self._remaining(), everyone=everyone)
        return {"history": rows[:_SHOWN], "spending": spending(rows), "everyone": everyone}


def _meanings(remaining: RemainingBody) -> list[dict[str, object]]:
    """Return what each budget bounds, and the answers of whom: the whole first, then the caller's part of it."""
    whose = (
        (remaining["whole"], "All answers together, whoever asked:"),
        (remaining["yours"], "Your own answers, by your part of the budget:"),
    )
    promises = [(words, Promise.from_dict(status["budget"])) for status, words in whose if status is not None]
    return [
        {"whose": words, "promise": str(promise), "sentences": explain(promise).sentences[:2]}
        for words, promise in promises
    ]


def outcome_of(error: SottovoceError) -> tuple[dict[str, object], int]:
    """Return a refusal as the page says it, and its status; raise again what is not about the question."""
    if isinstance(error, ServerStopping | TooManyRequests | LedgerUnavailable | LedgerCorrupt):
        raise error
    if isinstance(error, AnswerLost):
        return {"fault": str(error)}, 500
    if isinstance(error, SourceUnavailable):
        return {"problem": str(error)}, 503
    if isinstance(error, NotAllowed | NotFound | InvalidValue):
        return {"problem": str(error)}, 403 if isinstance(error, NotAllowed) else 422
    return {"problem": str(error)}, 422


def key_of(values: Mapping[str, str]) -> str | None:
    """Return the name that the form gives this very question, so that sending it twice pays once."""
    key = values.get("key") or None
    if key is not None and not KEY.fullmatch(key):
        raise InvalidValue("the form's key is not one that this page gives; open the page again")
    return key
