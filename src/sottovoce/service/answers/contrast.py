"""Rows of an answer beside each other, in words: how far apart they are, which is higher, and whether any is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, real
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.privacy.shares import percent
from sottovoce.service.answers.bayes_factors import MEDIUM, AgainstNone, of_difference, of_independence
from sottovoce.service.answers.digits import formatted
from sottovoce.service.answers.display import shown

if TYPE_CHECKING:  # which imports this
    from sottovoce.service.answers.answer import Answer
    from sottovoce.service.answers.comparison import Comparison

__all__ = ["Independence", "RowContrast", "Trend", "contrast", "independence", "trend"]

_COLUMNS = 2
_FEWEST = 3
"""So few groups have a trend."""
_SEED = 1946
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
    bayes_factor: AgainstNone | None = None
    """For a difference against none; None where noise hides one, or no scale of differences is known or stated."""

    def sentences(self) -> list[str]:
        """Return the comparison in words that need no statistics."""
        level = f"{percent(self.difference.level)} range".replace(" %", "\u00a0%")
        said = [f"{self.first} less {self.second}: {_told(self.difference, level)}."]
        if self.factor is not None:
            said.append(f"{self.first} is {_told(self.factor, level)} times {self.second}.")
        return [*said, self._which(), *_said(self.bayes_factor)]

    def __repr__(self) -> str:
        return " ".join(self.sentences()).replace("\u00a0", " ")

    def to_dict(self) -> dict[str, object]:
        """Return the comparison as plain values: difference and factor with their ends, and which row is higher."""
        text: dict[str, object] = {"first": self.first, "second": self.second}
        for name, item in (("difference", self.difference), ("ratio", self.factor)):
            text[name] = None if item is None else item.row
        factor = None if self.bayes_factor is None else self.bayes_factor.log
        return text | {"higher": self.higher, "level": self.difference.level, "log_bayes_factor": factor}

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


@dataclass(frozen=True)
class Trend:
    """How rows go on from group to group: the slope of a straight line through them, one step a group.

    Attributes
    ----------
    of
        The groups from first to last.
    slope
        By how much each group lies above the one before, on average.
    rising
        How likely it rises.
    bayes_factor
        For a trend against none.
    """

    of: tuple[str, ...]
    slope: Comparison
    rising: float
    bayes_factor: AgainstNone | None

    def sentences(self) -> list[str]:
        """Return the trend in words."""
        level = f"{percent(self.slope.level)} range"
        p, way = max((self.rising, "rises"), (1 - self.rising, "falls"))
        sign = "It is practically certain that it" if p >= 0.995 else f"With a probability of {_percent(p)}, it"
        step = f"From {self.of[0]} to {self.of[-1]}, each step: {_told(self.slope, level)}."
        return [step, f"{sign} {way}.", *_said(self.bayes_factor)]

    def __repr__(self) -> str:
        return " ".join(self.sentences()).replace("\u00a0", " ")


@dataclass(frozen=True)
class Independence:
    """Whether two columns go together, of counts of their values.

    Attributes
    ----------
    columns
        The two.
    strength
        Cramér's V: 0 where one says nothing of the other, 1 where it says all.
    bayes_factor
        For columns that go together against independent ones.
    """

    columns: tuple[str, str]
    strength: Comparison
    bayes_factor: AgainstNone

    def sentences(self) -> list[str]:
        """Return in words how closely they go together."""
        level = f"{percent(self.strength.level)} range"
        strength = f"Cramér's V of {self.columns[0]} and {self.columns[1]}: {_told(self.strength, level)}."
        return [strength, self.bayes_factor.sentence()]

    def __repr__(self) -> str:
        return " ".join(self.sentences()).replace("\u00a0", " ")


def contrast(answer: Answer, first: int, second: int, scale: float | None = None) -> RowContrast:
    """Return what two rows of an answer, by their places in its table, say beside each other.

    `scale` is how large differences are believed to be beforehand, if there are any: half of them are smaller.

    >>> from sottovoce.service.answers import Answer, NoisyCells, Question
    >>> from sottovoce.records.facts import Category, Facts, Flag
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> question = Question("proportion", ("smoker",), Facts(smoker=Flag(), ward=Category(["A", "B"])), by=("ward",))
    >>> records = {"smoker": [True] * 600 + [False] * 600, "ward": ["A"] * 500 + ["B"] * 700}
    >>> release = NoisyCells(question, 1200, "gaussian", 3.0).release(records, seeded_rng(1))
    >>> contrast(Answer(release), 0, 1).sentences()[2]
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
    ratios = not hidden and answer.question.first_day is None and min(part.min() for part in draws) > 0
    factor = answer.ratio(item, other) if ratios else None
    if factor is not None and factor.high > _MOST:
        factor = None
    higher = None if hidden else float(np.mean(draws[0] > draws[1]) + np.mean(draws[0] == draws[1]) / 2)
    apart = answer.difference(item, other)
    usual = None if hidden else _scale_of(answer, [first, second], scale)
    bayes = None if usual is None else of_difference(draws[0] - draws[1], usual)
    return RowContrast(first_name, second_name, apart, factor, higher, hidden, bayes)


def trend(answer: Answer, value: object = None, scale: float | None = None) -> Trend:
    """Return how the rows of an answer go on over groups in the order of the facts; of a proportion, of one value.

    The straight line has steps of one from group to group. `scale` is of the difference between first and last.
    """
    names, asked = answer.question.label_names, answer.question
    groups = asked.groups.names
    if len(groups) != 1:
        raise InvalidValue(f"a trend is over one column of groups, in order; this answer has {len(groups)}")
    extra = [place for place, name in enumerate(names) if name not in groups]
    wanted = [
        k
        for k, label in enumerate(asked.labels)
        if value is None or any(shown(label[p]) == shown(value) for p in extra)
    ]
    labels = [asked.labels[k][names.index(groups[0])] for k in wanted]
    if len(set(labels)) < len(labels):
        raise InvalidValue(f"say of which {names[extra[0]]}: trend(value=...)")
    if len(labels) < _FEWEST:
        raise InvalidValue(f"a trend needs {_FEWEST} groups or more. Got {len(labels)}; compare() takes two")
    draws = np.column_stack([answer.draws(*asked.labels[k]) for k in wanted])
    if np.isnan(draws).any():
        raise InvalidValue("noise hides a group, so its trend is not known; spend more, or ask by fewer groups")
    steps = np.arange(len(labels)) - (len(labels) - 1) / 2
    slopes = draws @ (steps / (steps @ steps))
    usual, last = _scale_of(answer, wanted, scale), len(labels) - 1
    bayes = None if usual is None else replace(of_difference(slopes * last, usual), something="a trend")
    slope = answer.comparison(f"{asked.describe()}, each step", slopes)
    return Trend(tuple(map(shown, labels)), slope, float(np.mean(slopes > 0)), bayes)


def independence(answer: Answer) -> Independence:
    """Return whether the two columns of counts go together; records without a value of one are left out."""
    asked = answer.question
    names = asked.label_names
    if asked.verb != "counts" or len(names) != _COLUMNS or asked.pool:
        raise InvalidValue(f"independence is asked of counts of two columns, not pooled. Got {asked.describe()!r}")
    levels = [list(dict.fromkeys(label[k] for label in asked.labels if label[k] is not None)) for k in range(_COLUMNS)]
    if min(map(len, levels)) < _COLUMNS:
        raise InvalidValue("each of the columns needs two values or more")
    every = answer.posterior.draws[:, asked.places]
    table = np.zeros((len(every), *map(len, levels)))
    for k, label in enumerate(asked.labels):
        if None not in label:
            table[:, levels[0].index(label[0]), levels[1].index(label[1])] = every[:, k]
    strength = answer.comparison(f"Cramér's V of {names[0]} and {names[1]}", _cramer(table))
    return Independence((names[0], names[1]), strength, of_independence(table))


def _cramer(table: Floats) -> Floats:
    """Return Cramér's V of the shares that draws of a table lead to, each with the doubt of few records."""
    parts = seeded_rng(_SEED).standard_gamma(np.maximum(table, 0.0) + 1 / table[0].size)
    shares = parts / parts.sum(axis=(1, 2), keepdims=True)
    rows, columns = shares.sum(axis=2, keepdims=True), shares.sum(axis=1, keepdims=True)
    even = np.maximum(rows * columns, 1e-300)
    squares = ((shares - even) ** 2 / even).sum(axis=(1, 2))
    return np.asarray(np.sqrt(squares / (min(table.shape[1:]) - 1)))


def _scale_of(answer: Answer, rows: list[int], scale: float | None) -> float | None:
    """Return the scale of differences beforehand: what is stated, or √½ of how far records spread where it is told."""
    if scale is not None:
        return real("scale", scale, above=0.0)
    if answer.question.pool:  # whose groups are believed to lie around common ones already
        return None
    if answer.question.verb == "proportion":
        share = float(np.mean([np.mean(answer.draws(*answer.question.labels[k])) for k in rows]))
        return MEDIUM * float(np.sqrt(share * (1 - share))) or None
    if answer.question.verb == "mean" and answer.question.tails == "any":
        spreads = [answer.sd().rows[k]["estimate"] for k in rows]
        known = [spread for spread in spreads if spread]
        return MEDIUM * float(np.sqrt(np.mean(np.square(known)))) if known else None
    return None


def _said(factor: AgainstNone | None) -> list[str]:
    return [] if factor is None else [factor.sentence()]


def _percent(chance: float) -> str:
    return percent(chance, whole=True).replace(" %", "\u00a0%")


def _told(one: Comparison, level: str) -> str:
    estimate, low, high = formatted(one.row)
    return f"{estimate} ({level}: {low} to {high})"
