"""What a data set's budget means, what its answers buy and risk, and its card: from public things and the ledger."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from sottovoce.faces.client.reach import reach
from sottovoce.faces.server.cards import sign_card
from sottovoce.faces.server.datasets import Dataset
from sottovoce.faces.server.regression_plans import Imagining, foreseen
from sottovoce.faces.server.service import Caller, Service
from sottovoce.faces.server.verbs import VerbQuestion
from sottovoce.faces.server.work_queue import apart
from sottovoce.inference.cells.questions import Question
from sottovoce.mechanisms import Mechanism
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.filter import PrivacyFilter
from sottovoce.service.answers.card import card
from sottovoce.service.answers.explanations import explain
from sottovoce.service.answers.repeated_question import repeat_note
from sottovoce.service.answers.trade_off import TradeOff
from sottovoce.service.ledger import Budget
from sottovoce.service.ledger.charging import price
from sottovoce.service.ledger.hash_chain import canonical

_POINTS = 9
_IMAGINED = 10_000
"""Records that are imagined where their number is a secret."""


def explanation(service: Service, caller: Caller, name: str, baseline: float = 0.01) -> dict[str, Any]:
    """Return what the whole budget of a data set means, and how much of it is spent."""
    dataset = service._dataset(caller, "read", name)
    return explain(service.ledger, dataset=dataset.budget.dataset, baseline=baseline).to_dict()


def signed_card(service: Service, caller: Caller, name: str) -> str:
    """Return the signed privacy card of a data set. It names everyone's questions: it takes an administrator."""
    dataset = service._dataset(caller, "admin", name)
    built = card(
        service.ledger,
        dataset.budget.dataset,
        facts=dataset.config.facts,
        issuer=service.config.title,
        title=dataset.config.title or name,
    )
    return sign_card(built, service.signer)


def balance(service: Service, caller: Caller, name: str, text: str, imagining: Imagining) -> dict[str, Any]:
    """Return how the share, the accuracy and the risk of a question go together, for the caller's own budget."""
    dataset = service._dataset(caller, "plan", name)
    if "~" in text:
        raise InvalidValue("each term of a regression has a width of its own: ask for its plan where you would ask it")
    part = dataset.parts.get(caller.analyst)
    budget = dataset.budget if part is None else part
    asked = VerbQuestion.parsed(text)
    question, mechanism = asked.built(dataset.config, dataset.curator, part)
    dataset.curator.check(mechanism, mechanism.columns, where=question.where)
    n = _IMAGINED if dataset.curator.n is None else dataset.curator.n
    purses = [canonical(dict(item.filter)) for item in (budget, dataset.budget)]
    periods = dataset.curator.charged_to(mechanism, question.where).get("periods")
    curve = json.loads(_curve(canonical(question.to_dict()), n, *purses, imagining))
    for offer in curve["curve"]:
        costs = zip((budget, dataset.budget), offer.pop("costs"), strict=True)
        offer["covered"] = all(_covers(service, item, cost, periods) for item, cost in costs)
    return {
        "question": question.describe() + ("" if dataset.curator.n is not None else f", of {n:,} imagined records"),
        "parameter": question.parameter,
        "yours": budget is not dataset.budget,
        **_left(service, caller, dataset),
        **curve,
    }


def regression_plan(
    service: Service,
    caller: Caller,
    name: str,
    question: VerbQuestion,
    imagining: Imagining,
    records: int | None = None,
) -> dict[str, Any]:
    """Return what is expected of each term of a regression, and what it would cost the caller's own budget."""
    dataset = service._dataset(caller, "plan", name)
    part = dataset.parts.get(caller.analyst)
    budget = dataset.budget if part is None else part
    asked, mechanism = question.built(dataset.config, dataset.curator, part)
    dataset.curator.check(mechanism, mechanism.columns, where=asked.where)
    target = dataset.curator.share(question.spend, part)
    n = records or dataset.curator.n or _IMAGINED
    shown: dict[str, Any] = json.loads(foreseen(mechanism, target, n, question.level, imagining))
    claimed = dataset.curator.claimed(mechanism.profile)
    repeated = None if part is None else repeat_note(dataset.curator.answered_before(asked, part))
    if repeated is not None:
        shown["cautions"] = [*shown["cautions"], repeated]
    return shown | {
        "dataset": name,
        "yours": part is not None,
        "share": budget.share(price(budget, claimed)),
        **_left(service, caller, dataset),
        "covered": _paid(service, mechanism, dataset, part, asked.where),
    }


def covered(service: Service, caller: Caller, name: str, question: VerbQuestion) -> bool:
    """Return whether what is left pays for a question: of the caller's part, where they have one, and of the whole."""
    dataset = service._dataset(caller, "ask", name)
    part = dataset.parts.get(caller.analyst)
    asked, mechanism = question.built(dataset.config, dataset.curator, part)
    return _paid(service, mechanism, dataset, part, asked.where)


def _paid(service: Service, mechanism: Mechanism, dataset: Dataset, part: Budget | None, where: str | None) -> bool:
    claimed = dataset.curator.claimed(mechanism.profile)
    budgets = [dataset.budget] if part is None else [part, dataset.budget]
    periods = dataset.curator.charged_to(mechanism, where).get("periods")
    return all(_covers(service, item, price(item, claimed), periods) for item in budgets)


def _covers(service: Service, budget: Budget, cost: float, periods: Iterable[str] | None) -> bool:
    """Return whether what is left of a budget covers a cost: the sum is exact, as it is where it is charged."""
    return math.isfinite(cost) and service.ledger.spent(budget, periods) + Fraction(cost) <= Fraction(budget.limit)


def _left(service: Service, caller: Caller, dataset: Dataset) -> dict[str, Any]:
    """Return the share of their budget that the caller can still spend, and whether the whole is what limits it."""
    share, limited = reach(service._remaining(caller, dataset))
    return {"left": share, "whole_limits": limited}


@functools.lru_cache(maxsize=256)
def _curve(question: str, n: int, purse: str, whole: str, imagining: Imagining) -> str:
    """Return the curve as JSON, each offer with what it costs purse and whole: a text that no caller can change."""
    return str(apart(_make_curve, question, n, purse, whole, imagining))


def _make_curve(question: str, n: int, purse: str, whole: str, imagining: Imagining) -> str:
    asked = Question.from_dict(json.loads(question))
    said = imagining.of(asked.grouped_facts)
    purses = [PrivacyFilter.from_dict(json.loads(item)) for item in (purse, whole)]
    result = TradeOff(asked, n, purses[0], imagined=said)
    offers = []
    for offer in result.curve(points=_POINTS):
        profile = result._mechanism(offer.share).profile
        costs = [item.cost(profile.shown_to(item.budget.relation)) for item in purses]
        offers.append(offer.to_dict() | {"costs": costs})
    return json.dumps({"baseline": result.baseline, "curve": offers, "change": result.change})


def first_question(service: Service, caller: Caller, name: str) -> str:
    """Return a question to begin with: of the first column that one can ask about."""
    for column, fact in service._dataset(caller, "read", name).config.facts.items():
        quoted = column if column.isidentifier() else f"`{column}`"
        if fact.word in ("flag", "category"):
            return f"proportion of {quoted}"
        if fact.word in ("number", "count"):
            return f"mean of {quoted}"
    return ""
