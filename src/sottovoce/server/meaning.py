"""What a data set's budget means, what its answers buy and risk, and its card: from public things and the ledger."""

from __future__ import annotations

import functools
import json
from typing import Any

from sottovoce.answers import parse_question
from sottovoce.answers.balance import Balance
from sottovoce.answers.card import card
from sottovoce.answers.explaining import explain
from sottovoce.answers.questions import Question
from sottovoce.ledger.chain import canonical
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.filter import PrivacyFilter
from sottovoce.server.cards import sign_card
from sottovoce.server.lines import breathe
from sottovoce.server.service import Caller, Service

__all__ = ["balance", "explanation", "first_question", "signed_card"]

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
    made = card(
        service.ledger,
        dataset.budget.dataset,
        facts=dataset.config.facts,
        issuer=service.config.title,
        title=dataset.config.title or name,
    )
    return sign_card(made, service.signer)


def balance(service: Service, caller: Caller, name: str, text: str) -> dict[str, Any]:
    """Return how the share, the accuracy and the risk of a question go together, for the caller's own budget."""
    dataset = service._dataset(caller, "plan", name)
    asked = parse_question(text)
    if asked.get("where") and not dataset.config.conditions:
        raise InvalidValue(f"{name} answers no conditions")
    question = Question(asked.pop("verb"), asked.pop("columns"), dataset.config.facts, **asked)
    budget = dataset.parts.get(caller.analyst, dataset.budget)
    spent = float(service.ledger.spent(budget)) / budget.limit if budget.limit else 1.0
    n = _IMAGINED if dataset.budget.n is None else dataset.budget.n
    curve = json.loads(_curve(canonical(question.to_dict()), n, canonical(dict(budget.filter))))
    return {
        "question": question.describe() + ("" if dataset.budget.n is not None else f", of {n:,} imagined records"),
        "parameter": question.parameter,
        "yours": budget is not dataset.budget,
        "left": max(0.0, 1 - spent),
        **curve,
    }


@functools.lru_cache(maxsize=256)
def _curve(question: str, n: int, purse: str) -> str:
    """Return the curve as JSON: a text that no caller can change."""
    found = Balance(Question.from_dict(json.loads(question)), n, PrivacyFilter.from_dict(json.loads(purse)))
    offers = []
    for offer in found.curve(points=_POINTS):
        breathe()
        offers.append(offer.to_dict())
    return json.dumps({"baseline": found.baseline, "curve": offers})


def first_question(service: Service, caller: Caller, name: str) -> str:
    """Return a question to begin with: of the first column that one can ask about."""
    for column, fact in service._dataset(caller, "read", name).config.facts.to_dict().items():
        quoted = column if column.isidentifier() else f"`{column}`"
        if fact["kind"] in ("flag", "category"):
            return f"proportion of {quoted}"
        if fact["kind"] in ("number", "count"):
            return f"mean of {quoted}"
    return ""
