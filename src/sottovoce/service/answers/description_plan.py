"""How the price of a description is split over its questions, and what each will be worth: free."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sottovoce.inference.cells.noisy_cells import NoisyCells
from sottovoce.inference.cells.questions import Question
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.filter import PrivacyFilter
from sottovoce.privacy.numbers import shown
from sottovoce.privacy.shares import percent
from sottovoce.service.answers.question_parser import parse_question
from sottovoce.service.answers.trade_off import TradeOff

_LEAST_PART = 0.25
"""No question gets less than this part of an even share: a forecast of its width is only a forecast."""
_NORMAL = 1.96
"""So many standard deviations are half of an interval of 95 %."""
_WORDS = re.compile(r"\s*(?:describe|description\s+of)\s+(?=\S)", re.IGNORECASE)


def parse_description(text: object) -> dict[str, object] | None:
    """Return the columns, groups and condition of a description in words; None of other texts.

    >>> parse_description("describe age, smoker by ward where age >= 40")
    {'columns': ('age', 'smoker'), 'by': ('ward',), 'where': 'age >= 40'}
    >>> parse_description("mean of age") is None
    True
    """
    begin = _WORDS.match(text) if isinstance(text, str) else None
    if begin is None or not isinstance(text, str):
        return None
    read = parse_question(f"counts of {text[begin.end() :]}")
    if unknown := set(read) - {"verb", "columns", "by", "where"}:
        raise InvalidValue(
            f"a description takes columns, by and where, not {', '.join(sorted(unknown))}. Got {shown(text)}"
        )
    return {"columns": read["columns"], "by": read.get("by", ()), "where": read.get("where")}


@dataclass(frozen=True)
class DescriptionPlan:
    """What a description will be worth: of each of its questions the share, and half the width of its intervals.

    Attributes
    ----------
    question
        What is described, in words.
    rows
        For each question ``question``, ``share``, ``width`` and ``of``: what is known to ± width.
    """

    question: str
    rows: tuple[dict[str, Any], ...]

    @property
    def share(self) -> float:
        """The share of the budget that all of it takes."""
        return float(sum(row["share"] for row in self.rows))

    def summary(self) -> str:
        """Return the plan as text."""
        lines = [
            f"  {row['question']}: known to ± {row['width']:.3g}{row['of']} for {percent(row['share'])}"
            for row in self.rows
        ]
        return "\n".join(
            [f"{self.question}, for {percent(self.share)} of the budget", *lines, "nothing was read or spent"]
        )

    def __str__(self) -> str:
        return self.summary()

    def to_dict(self) -> dict[str, object]:
        """Return the plan as plain values."""
        return {"question": self.question, "share": self.share, "rows": list(self.rows)}


def equal_widths(widths: Sequence[float], spend: float) -> list[float]:
    """Return the shares of questions, from how wide each would be at an even share beside the spread of its column.

    A width falls about as its share grows, so shares in the proportion of widths leave all about equally wide (rule of
    equal widths); none is below a quarter of an even share.

    >>> [round(share, 3) for share in equal_widths([1.0, 1.0, 2.0], 0.2)]
    [0.05, 0.05, 0.1]
    """
    parts = np.asarray(widths, dtype=np.float64)
    parts = np.maximum(parts / parts.sum(), _LEAST_PART / parts.size) if parts.sum() > 0 else np.ones(parts.size)
    return [float(part) for part in spend * (1 - 1e-12) * parts / parts.sum()]


def width_of(question: Question, n: int, budget: PrivacyFilter, share: float) -> float:
    """Return half the width that a share of the budget buys beside what rows vary by, as far as public things tell.

    Numbers are measured by a quarter of their bounds, counts by the size of an even group.
    """
    if question.cells is None:
        column: Any = question.facts[question.columns_asked[0]]
        return TradeOff(question, n, budget).at(share).width / (float(column.bounds[1] - column.bounds[0]) / 4)
    groups = np.prod([axis.size - axis.missing for axis in question.cells.axes[:-1]])
    return _NORMAL * _deviation(question, n, budget, share) / max(n / float(groups), 1.0)


def foreseen_parts(
    words: str, questions: Sequence[Question], n: int, budget: PrivacyFilter, shares: Sequence[float]
) -> DescriptionPlan:
    """Return what a description will be worth whose questions cost these shares; from public things alone."""
    rows = []
    for question, share in zip(questions, shares, strict=True):
        if question.cells is None:
            offer = TradeOff(question, n, budget).at(share)
            width, of = offer.width, offer.of and f" of {offer.of}"
        else:
            width, of = _NORMAL * _deviation(question, n, budget, share), " records by noise alone"
        rows.append({"question": question.describe(), "share": share, "width": width, "of": of})
    return DescriptionPlan(words, tuple(rows))


def _deviation(question: Question, n: int, budget: PrivacyFilter, share: float) -> float:
    """Return the standard deviation of the noise on counted cells that a share buys."""
    target = budget.share(share)
    known = None if target.relation.hides_n else n
    return float(np.sqrt(NoisyCells.calibrate(question, known, target, price=budget.cost).variance))
