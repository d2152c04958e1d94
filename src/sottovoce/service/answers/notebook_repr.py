"""How a curator shows itself in a notebook: the data, what is left of the budget, what was asked last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from sottovoce.privacy.errors import SottovoceError
from sottovoce.privacy.shares import percent
from sottovoce.service.answers.budget_account import BudgetAccount
from sottovoce.service.ledger import State


def asked_in_words(request: Mapping[str, Any]) -> str:
    """Return what an entry of the ledger was asked, in words.

    >>> asked_in_words({"mechanism": {"mechanism": "diffused posterior"}, "column": "smoker", "where": "age > 40"})
    'diffused posterior of smoker where age > 40'
    """
    mechanism = request.get("mechanism", {})
    system = mechanism.get("system")
    if "asked" in request:
        return str(request["asked"])
    if isinstance(system, Mapping) and system.get("system") == "question":
        return _question(system)
    column = request.get("column")
    what = "all records" if column is None else column if isinstance(column, str) else ", ".join(column)
    text = f"{mechanism.get('mechanism', 'a release')} of {what}"
    return text + (f" where {request['where']}" if request.get("where") else "")


def _question(state: Mapping[str, object]) -> str:
    from sottovoce.inference.cells.questions import Question  # noqa: PLC0415 - reads of it are rare

    return Question.from_dict(state).describe()


def curator_html(purse: BudgetAccount, facts: Sequence[tuple[str, str]]) -> str:
    """Return a card: facts as pairs of words, a bar of what is left, and what was asked last with its cost."""
    budget = purse.budget
    try:
        entries = [entry for entry in purse.history() if entry.state is not State.VOID]
        share, remaining = purse.share_left(), purse.left()
    except (SottovoceError, ArithmeticError) as error:  # a curator that was closed still shows what it was
        return _card(purse.dataset, [*facts, ("ledger", str(error))], "", 0.0, [])
    costs = [budget.share(entry.whole_cost or entry.cost) for entry in entries[-5:]]
    asked = [
        (asked_in_words(entry.request), f"{percent(cost)} of the budget")
        for entry, cost in zip(entries[-5:], costs, strict=True)
    ]
    return _card(purse.dataset, facts, remaining, share, asked[::-1])


def _card(
    name: str, facts: Sequence[tuple[str, str]], left: str, share: float, asked: Sequence[tuple[str, str]]
) -> str:
    rows = "".join(
        f'<tr><td style="text-align:left">{escape(what)}</td><td style="text-align:left">{escape(said)}</td></tr>'
        for what, said in facts
    )
    width = round(100 * min(max(share, 0.0), 1.0), 1)
    bar = (
        '<svg width="100%" height="10" style="max-width:28em" role="img" '
        f'aria-label="{escape(left)}"><rect width="100%" height="10" rx="5" fill="#8884"/>'
        f'<rect width="{width}%" height="10" rx="5" fill="#1f5f8b"/></svg>'
    )
    past = "".join(f"<li>{escape(what)} <small>({escape(cost)})</small></li>" for what, cost in asked)
    past = f"<p>Asked last:</p><ul>{past}</ul>" if past else "<p>Nothing was asked yet.</p>"
    return (
        f"<div><p><strong>{escape(name)}</strong></p><table>{rows}</table>"
        f"<p><strong>{escape(left)}</strong><br>{bar}</p>{past}</div>"
    )
