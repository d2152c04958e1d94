"""A question of the demo as it is told: on the terminal, and in the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sottovoce.privacy.errors import BudgetExceeded
from sottovoce.privacy.shares import percent

if TYPE_CHECKING:
    from sottovoce.service.answers import Answer


@dataclass(frozen=True)
class NarratedQuestion:
    """A question with its answer, or with the refusal; the true numbers, which a real curator never prints."""

    title: str
    text: str
    spend: float
    answer: Answer | None
    refusal: str = ""
    truth: tuple[float, ...] = ()
    left: str = ""


def ask(curator: Any, records: Any, title: str, text: str, spend: float) -> NarratedQuestion:
    """Ask a question of public records; a refusal is told too."""
    try:
        answer = curator.ask(text, spend=spend)
    except BudgetExceeded:
        return NarratedQuestion(
            title,
            text,
            spend,
            None,
            f"it would take {percent(spend)} of the budget, and only {curator.left().split(' left')[0]} is left",
        )
    return NarratedQuestion(title, text, spend, answer, truth=_truths(answer, records), left=curator.left())


def _truths(answer: Answer, records: Any) -> tuple[float, ...]:
    """Return the true number of every row. The collisions are public; of private data nobody may see this."""
    question, (column,) = answer.question, answer.question.columns_asked
    frame = records.select([*question.by, column]).to_pandas()
    result = []
    for row in answer.rows:
        values = frame[(frame[list(question.by)] == [row[name] for name in question.by]).all(axis=1)][column]
        result.append(float((values == row[column]).mean() if column in row else values.clip(upper=10).mean()))
    return tuple(result)
