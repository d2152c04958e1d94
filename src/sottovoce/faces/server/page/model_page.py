"""The page of a data set's models: the form by system and mechanism, the plan for what it says, the answer."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from sottovoce.faces.server.page.dataset_page import NOTHING, DatasetPage, key_of, outcome_of
from sottovoce.faces.server.page.forms import (
    first_values,
    imagined_mean,
    likely_system,
    prior_fields,
    prior_values,
    purse_of,
    question_of,
    several_systems,
)
from sottovoce.faces.server.page.planner import QUICK, cheaper, plan_view, shortfalls
from sottovoce.faces.server.page.views import PROMISES, answered
from sottovoce.faces.server.questions import ServerQuestion, mechanism_name, model_of
from sottovoce.mechanisms.conjugate.named_systems import SYSTEMS, column_systems
from sottovoce.mechanisms.mechanism import MECHANISMS
from sottovoce.mechanisms.mechanism_choice import known_names
from sottovoce.privacy.errors import BudgetExceeded, LedgerCorrupt, LedgerUnavailable, SottovoceError
from sottovoce.privacy.promises import Promise


class ModelPage(DatasetPage):
    """What one caller sees of one data set when asking by system and mechanism."""

    async def values(
        self, values: Mapping[str, str], outcome: Mapping[str, object] | None = None, *, quick: bool = False
    ) -> dict[str, Any]:
        """Return all that the page shows but the history; a quick plan leaves out what is slow to forecast.

        With an outcome no plan is made: whoever asked does not wait for one.
        """
        facts, remaining = self._facts, await self._remaining()
        yours = remaining["yours"] is not None
        filled = first_values(facts, share=yours) | dict(values)
        asked = [column for column in facts["columns"] if column["systems"]]
        several = await self._service.run(several_systems)
        used = {word for column in asked for word in column["systems"]} | {likely_system(None)}
        return {
            "facts": facts,
            "values": filled,
            "columns": asked,
            "priors": {column["name"]: prior_values(column) for column in asked},
            "alone": {"likely": likely_system(None), "prior": prior_values(None)},
            "systems": [(word, kind.title or word) for word, kind in column_systems().items() if word in used]
            + [(item["word"], item["word"]) for item in several],
            "several": several,
            "mechanisms": await self._service.run(_mechanisms, self._config.mechanisms),
            "not_installed": await self._service.run(_not_installed),
            "promises": [p for p in PROMISES if p[0] != "share" or yours],
            "likely": {column["name"]: likely_system(column) for column in asked},
            "prior_fields": prior_fields(),
            "key": f"page-{secrets.token_hex(16)}",
            "may_ask": "ask" in self._caller.scopes and yours,
            **NOTHING,
            **(outcome or {}),
            **await self._budgets(remaining),
            **({"plan": None, "plan_error": None} if outcome else await self._plan(filled, remaining, quick=quick)),
        }

    async def _plan(self, values: Mapping[str, str], remaining: Mapping[str, object], *, quick: bool) -> dict[str, Any]:
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

    def _planned(self, question: ServerQuestion, mean: object, only: set[str] | None, quick: bool) -> dict[str, Any]:
        plan = self._service.plan(self._caller, self._facts["name"], question, mean, only)
        return plan_view(plan, question, self._config, quick)

    def _question(self, values: Mapping[str, str], remaining: Mapping[str, Any]) -> ServerQuestion:
        yours = remaining["yours"]
        asked = question_of(values, purse_of(yours) if yours else None, self._service.config.limits.draws)
        if asked.mechanism is not None:
            return asked
        system = model_of(asked.system, asked.column, asked.where, self._config).system
        budget = Promise.from_dict((yours or remaining["whole"])["budget"])
        return replace(asked, mechanism=mechanism_name(asked, system, self._config, budget))

    async def ask(self, values: Mapping[str, str]) -> tuple[dict[str, Any], int]:
        """Ask what the form says; return the answer or the refusal as the page shows it, and the status."""
        remaining = await self._remaining()
        try:
            question, key = self._question(values, remaining), key_of(values)
            answer = await self._service.ask(self._caller, self._facts["name"], question, key)
        except BudgetExceeded as error:
            shown = (error, question, values, remaining)
            return {"refusal": await self._service.planning(self._caller, self._refusal, *shown)}, 409
        except SottovoceError as error:
            return outcome_of(error)
        return {"answer": await self._service.run(answered, answer, question, answer["remaining"])}, 200

    def _refusal(
        self, error: Exception, question: ServerQuestion, values: Mapping[str, str], remaining: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return why a budget does not cover a question, and what it would cover instead."""
        names = {"yours": "your budget", "whole": "everyone's budget"}
        purses = {names[word]: purse_of(status) for word, status in remaining.items() if status is not None}
        about = (question, self._config, self._facts["n"])
        result, short = cheaper(*about, list(purses.values())), shortfalls(*about, purses)
        weaker = None
        if result is not None:
            factor = result["factor"]
            if values.get("promise", "share") == "share" and remaining["yours"]["budget"]["promise"] == "gaussian":
                factor = factor**2  # a share of a Gaussian budget is a share of μ²
            strength = f"{float(values['strength']) * factor:.4g}"
            fields = {name: text for name, text in values.items() if name != "key"} | {"strength": strength}
            weaker = {"target": result["target"], "fields": fields}
        return {"short": short, "message": str(error), "weaker": weaker, "draws": question.draws}


@lru_cache
def _not_installed() -> tuple[str, ...]:
    """Return what to install for the models and mechanisms that are not offered here, each sentence once."""
    missing = [error for registry in (SYSTEMS, MECHANISMS) for error in registry.not_installed().values()]
    return tuple(dict.fromkeys(map(str, missing)))


@lru_cache
def _mechanisms(allowed: tuple[str, ...] | None) -> tuple[str, ...]:
    return known_names() if allowed is None else allowed
