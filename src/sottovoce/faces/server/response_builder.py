"""Telling: what is said of an answer that was recorded, with its signed receipt.

Most of it is the same whenever a question is asked again. It is made once, as JSON, and the rest of an answer is
written around it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NotRequired, TypedDict

from sottovoce.faces.client.response_bodies import BudgetBody, ReceiptBody
from sottovoce.faces.server.datasets import Dataset
from sottovoce.faces.server.plans import summary_of
from sottovoce.faces.server.receipts import Signer, receipt_of
from sottovoce.service.ledger import Budget, Entry
from sottovoce.service.ledger.charging import what_is_left
from sottovoce.service.ledger.hash_chain import SealedText, canonical, canonical_object

Spent = Fraction | Mapping[str, Fraction]
"""What was spent of a budget, or of each period of one."""


class ResponseBuilder:
    """What is said of the answers to one question, and its receipts.

    Parameters
    ----------
    signer, issuer
        Who vouches for it.
    dataset, analyst
        What was asked, and by whom.
    entry
        An entry of the question; others differ from it in their number, moments and value alone.
    """

    def __init__(self, signer: Signer, issuer: str, dataset: Dataset, analyst: str, entry: Entry) -> None:
        self._signer = signer
        part = dataset.parts[analyst]
        receipt = receipt_of(entry, part, dataset.budget, issuer=issuer, analyst=analyst)
        self._receipt = {name: SealedText(canonical(value)) for name, value in receipt.items()}
        self._budgets = {"yours": _Left(part), "whole": _Left(dataset.budget)}
        self._fixed = {
            "dataset": dataset.config.name,
            "summary": SealedText(summary_of(canonical(entry.profile_state))),
            "cost": self._receipt["cost"],
        }

    def receipt(self, entry: Entry) -> ReceiptBody:
        """Return the signed receipt of an entry."""
        statement = {"entry": entry.id, "at": entry.at, "value_hash": entry.value_hash, "state": str(entry.state)}
        return self._signer.sign(self._receipt | statement)

    def told(self, entry: Entry, release: str, spent: Sequence[Spent]) -> dict[str, Any]:
        """Return all that is said of an answer; what is JSON already stays so (`SealedText`).

        `spent` is what is spent of the part and of the whole.
        """
        remaining = {word: item.text(total) for (word, item), total in zip(self._budgets.items(), spent, strict=True)}
        return self._fixed | {
            "entry": entry.id,
            "at": entry.at,
            "release": SealedText(release),
            "remaining": SealedText(canonical_object(remaining)),
            "receipt": self.receipt(entry),
        }


class _Left:
    """What is left of a budget, as JSON. All whose answers are recorded together are told the same of it."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        fixed = left_of(budget, Fraction(0))
        self._fixed: dict[str, object] = {name: SealedText(canonical(fixed[name])) for name in ("budget", "filter")}
        self._last: tuple[Spent | None, SealedText] = None, SealedText("")

    def text(self, spent: Spent) -> SealedText:
        known, text = self._last
        if known is None or spent != known:
            text = SealedText(canonical_object({**self._fixed, **_changing(self._budget, spent)}))
            self._last = spent, text
        return text


def left_of(budget: Budget, spent: Spent) -> BudgetBody:
    """Return what is left of a budget, in plain values; of one with periods, of the one that has most, and of each."""
    return {"budget": budget.promise.to_dict(), "filter": dict(budget.filter), **_changing(budget, spent)}


class _Changing(TypedDict):
    """What differs from answer to answer."""

    remaining: dict[str, Any]
    spent: float
    periods: NotRequired[dict[str, float]]


def _changing(budget: Budget, spent: Spent) -> _Changing:
    if not isinstance(spent, Fraction):
        each = {name: float(total) / budget.limit if budget.limit else 1.0 for name, total in spent.items()}
        return {**_changing(budget, min(spent.values())), "periods": each}
    share = float(spent) / budget.limit if budget.limit else 1.0
    return {"remaining": what_is_left(budget, spent).to_dict(), "spent": share}
