"""The page of a data set: its budgets, the form, the plan for what the form says, the answer, the history."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import Any

from sottovoce.privacy.errors import BudgetExceeded, InvalidValue, LedgerCorrupt, LedgerUnavailable, SottovoceError
from sottovoce.server.errors import AnswerLost, NotAllowed, NotFound, ServerStopping, TooManyRequests
from sottovoce.server.page.forms import (
    first_values,
    imagined_mean,
    likely_system,
    prior_fields,
    prior_values,
    purse_of,
    question_of,
)
from sottovoce.server.page.planner import QUICK, cheaper, plan_view, shortfalls
from sottovoce.server.page.views import (
    PROMISES,
    answered,
    gauges,
    history_rows,
    spending,
)
from sottovoce.server.questions import Question
from sottovoce.server.service import Caller, Service
from sottovoce.systems.naming import column_systems

__all__ = ["DatasetPage"]

_NOTHING: dict[str, Any] = {"answer": None, "refusal": None, "problem": None, "fault": None}
_KEY = re.compile(r"[!-~]{1,200}")
_SHOWN = 200
"""Entries of the history on one page."""


class DatasetPage:
    """What one caller sees of one data set."""

    def __init__(self, service: Service, caller: Caller, name: str) -> None:
        self._service, self._caller = service, caller
        self._facts = service.dataset(caller, name)
        self._config = service.config.datasets[name]

    async def _remaining(self) -> dict[str, Any]:
        found: dict[str, Any] = await self._service.run(self._service.remaining, self._caller, self._facts["name"])
        return found

    async def values(
        self, values: Mapping[str, str], outcome: Mapping[str, Any] | None = None, *, quick: bool = False
    ) -> dict[str, Any]:
        """Return all that the page shows but the history; a quick plan leaves out what is slow to forecast."""
        facts, remaining = self._facts, await self._remaining()
        own = remaining["yours"] is not None
        filled = first_values(facts, share=own) | dict(values)
        asked = [column for column in facts["columns"] if column["systems"]]
        used = {word for column in asked for word in column["systems"]} | {likely_system(None)}
        return {
            "facts": facts,
            "values": filled,
            "columns": asked,
            "priors": {column["name"]: prior_values(column) for column in asked},
            "alone": {"likely": likely_system(None), "prior": prior_values(None)},
            "systems": [(word, kind.title or word) for word, kind in column_systems().items() if word in used],
            "promises": [p for p in PROMISES if p[0] != "share" or own],
            "likely": {column["name"]: likely_system(column) for column in asked},
            "prior_fields": prior_fields(),
            "key": f"page-{secrets.token_hex(16)}",
            "gauges": gauges(remaining),
            "may_ask": "ask" in self._caller.scopes and own,
            **_NOTHING,
            **(outcome or {}),
            **await self._plan(filled, remaining, quick=quick),
        }

    async def history(self) -> dict[str, Any]:
        """Return the entries that the caller may see, and how they spent the budget."""
        everyone = "admin" in self._caller.scopes
        entries = await self._service.run(self._service.history, self._caller, self._facts["name"])
        rows = history_rows(entries, await self._remaining(), everyone=everyone)
        return {"history": rows[:_SHOWN], "spending": spending(rows), "everyone": everyone}

    async def _plan(self, values: Mapping[str, str], remaining: Mapping[str, Any], *, quick: bool) -> dict[str, Any]:
        if "plan" not in self._caller.scopes:
            return {"plan": None, "plan_error": "Your token does not reach to plans."}
        try:
            question = self._question(values, remaining)
            only = {*QUICK, question.mechanism} if quick else None
            asked = (question, imagined_mean(values), only, quick)
            view = await self._service.planning(self._caller, self._planned, *asked)
        except (LedgerUnavailable, LedgerCorrupt):
            raise
        except SottovoceError as error:
            return {"plan": None, "plan_error": str(error)}
        return {"plan": view, "plan_error": None}

    def _planned(self, question: Question, mean: Any, only: set[str] | None, quick: bool) -> dict[str, Any]:
        plan = self._service.plan(self._caller, self._facts["name"], question, mean, only)
        return plan_view(plan, question, self._config, quick)

    def _question(self, values: Mapping[str, str], remaining: Mapping[str, Any]) -> Question:
        own = remaining["yours"]
        return question_of(values, purse_of(own) if own else None, self._service.config.limits.draws)

    async def ask(self, values: Mapping[str, str]) -> tuple[dict[str, Any], int]:
        """Ask what the form says; return the answer or the refusal as the page shows it, and the status."""
        remaining = await self._remaining()
        try:
            question, key = self._question(values, remaining), _key(values)
            answer = await self._service.ask(self._caller, self._facts["name"], question, key)
        except BudgetExceeded as error:
            told = (error, question, values, remaining)
            return {"refusal": await self._service.planning(self._caller, self._refusal, *told)}, 409
        except AnswerLost as error:
            return {"fault": str(error)}, 500
        except (NotAllowed, NotFound, InvalidValue) as error:
            return {"problem": str(error)}, 403 if isinstance(error, NotAllowed) else 422
        except (ServerStopping, TooManyRequests, LedgerUnavailable, LedgerCorrupt):
            raise
        except SottovoceError as error:
            return {"problem": str(error)}, 422
        return {"answer": answered(answer, question, answer["remaining"])}, 200

    def _refusal(
        self, error: Exception, question: Question, values: Mapping[str, str], remaining: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return why a budget does not cover a question, and what it would cover instead."""
        names = {"yours": "your budget", "whole": "everyone's budget"}
        purses = {names[word]: purse_of(status) for word, status in remaining.items() if status is not None}
        about = (question, self._config, self._facts["n"])
        found, short = cheaper(*about, list(purses.values())), shortfalls(*about, purses)
        weaker = None
        if found is not None:
            factor = found["factor"]
            if values.get("promise", "share") == "share" and remaining["yours"]["budget"]["promise"] == "gaussian":
                factor = factor**2  # a share of a Gaussian budget is a share of μ²
            strength = f"{float(values['strength']) * factor:.4g}"
            fields = {name: text for name, text in values.items() if name != "key"} | {"strength": strength}
            weaker = {"target": found["target"], "fields": fields}
        return {"short": short, "message": str(error), "weaker": weaker, "draws": question.draws}


def _key(values: Mapping[str, str]) -> str | None:
    """Return the name that the form gives this very question, so that sending it twice pays once."""
    key = values.get("key") or None
    if key is not None and not _KEY.fullmatch(key):
        raise InvalidValue("the form's key is not one that this page gives; open the page again")
    return key
