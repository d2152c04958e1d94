"""Two rows of an answer beside each other, in words: how far apart they are, and which one is higher."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.shares import percent
from sottovoce.service.answers.answer import Answer, Comparison
from sottovoce.service.answers.digits import formatted
from sottovoce.service.answers.display import shown

__all__ = ["RowContrast", "contrast"]

_MOST = 1000.0
"""A factor beyond this tells only that the second row may be nothing."""


@dataclass(frozen=True)
class RowContrast:
    """What can be said of two rows of an answer, free of cost: it follows from what was released.

    Attributes
    ----------
    first, second
        What the rows are called.
    difference
        The first less the second.
    factor
        The first over the second; None where the second may be nothing, either may be below it, or noise hides one.
    higher
        How likely the first is higher; None where noise hides one.
    hidden
        Those of the two that noise hides.
    """

    first: str
    second: str
    difference: Comparison
    factor: Comparison | None
    higher: float | None
    hidden: tuple[str, ...] = ()

    def sentences(self) -> list[str]:
        """Return the comparison in words that need no statistics."""
        level = f"{percent(self.difference.level)} range".replace(" %", "\u00a0%")
        said = [f"{self.first} less {self.second}: {_told(self.difference, level)}."]
        if self.factor is not None:
            said.append(f"{self.first} is {_told(self.factor, level)} times {self.second}.")
        return [*said, self._which()]

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain values: difference and factor with their ends, and which row is higher."""
        text: dict[str, Any] = {"first": self.first, "second": self.second}
        for name, item in (("difference", self.difference), ("ratio", self.factor)):
            text[name] = None if item is None else item.row
        return text | {"higher": self.higher, "level": self.difference.level}

    def _which(self) -> str:
        if self.higher is None:
            return f"The answer does not tell which is higher: noise hides {' and '.join(self.hidden)}."
        name, other, p = self.first, self.second, self.higher
        if p < 0.5:
            name, other, p = other, name, 1 - p
        if p >= 0.995:
            return f"It is practically certain that {name} is higher than {other}."
        if p < 0.75:
            return f"The answer does not tell which is higher: {_percent(p)} for {name}, {_percent(1 - p)} for {other}."
        return f"With a probability of {_percent(p)}, {name} is higher than {other}."


def contrast(answer: Answer, first: int, second: int) -> RowContrast:
    """Return what two rows of an answer, by their places in its table, say beside each other.

    >>> from sottovoce.service.answers import NoisyCells, Question
    >>> from sottovoce.records.facts import Category, Facts, Flag
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> question = Question("proportion", ("smoker",), Facts(smoker=Flag(), ward=Category(["A", "B"])), by=("ward",))
    >>> records = {"smoker": [True] * 600 + [False] * 600, "ward": ["A"] * 500 + ["B"] * 700}
    >>> release = NoisyCells(question, 1200, "gaussian", 3.0).release(records, seeded_rng(1))
    >>> contrast(Answer(release), 0, 1).sentences()[-1]
    'It is practically certain that A is higher than B.'
    """
    labels = answer.question.labels
    if not (0 <= first < len(labels) and 0 <= second < len(labels)) or first == second:
        raise InvalidValue(f"a comparison needs two different rows of the {len(labels)} that this answer has")
    item, other = (labels[place] for place in (first, second))
    first_name, second_name = (" / ".join(map(shown, label)) for label in (item, other))
    draws = [answer.draws(*label) for label in (item, other)]
    names = zip((first, second), (first_name, second_name), strict=True)
    hidden = tuple(name for place, name in names if answer.rows[place]["estimate"] is None)
    factor = answer.ratio(item, other) if not hidden and min(part.min() for part in draws) > 0 else None
    if factor is not None and factor.high > _MOST:
        factor = None
    higher = None if hidden else float(np.mean(draws[0] > draws[1]) + np.mean(draws[0] == draws[1]) / 2)
    return RowContrast(first_name, second_name, answer.difference(item, other), factor, higher, hidden)


def _percent(chance: float) -> str:
    return percent(chance, whole=True).replace(" %", "\u00a0%")


def _told(one: Comparison, level: str) -> str:
    estimate, low, high = formatted(one.row)
    return f"{estimate} ({level}: {low} to {high})"
