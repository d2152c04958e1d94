"""The distribution of a column that comes with its quantiles, free: all rounds of their search tell of all of it."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.inference.cells.intervals import checked_level
from sottovoce.inference.cells.quantile_posterior import QuantilePosterior
from sottovoce.inference.figures import COLOURS, dates, figure, titled, words
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, real
from sottovoce.service.answers.dated_rows import date_at, days_after
from sottovoce.service.answers.display import shown

if TYPE_CHECKING:
    from sottovoce.mechanisms.release import Release

_NAMED = 12
"""So many groups are named to whoever names none, or one that is not there."""
_CLAIM = re.compile(r"^\s*(?P<column>.+?)\s*(?P<sign>[<>]=?)\s*(?P<value>[-+0-9.eE]+|'[-0-9]+')\s*$")


@dataclass(frozen=True, eq=False)
class DistributionFunction:
    """The share of records below each of some values, with an interval at each: narrow where a quantile was asked for.

    Attributes
    ----------
    column, level
        Whose distribution, and how often each interval holds.
    values
        Where it is known: edges of the cells of all rounds.
    estimate, low, high
        The share below each, and its interval.
    whole
        Whether values are whole numbers.
    first_day
        Where values are days: the day from which they are counted. `rows` tells them as dates.
    """

    column: str
    level: float
    values: Floats = field(repr=False)
    estimate: Floats = field(repr=False)
    low: Floats = field(repr=False)
    high: Floats = field(repr=False)
    whole: bool = False
    first_day: datetime.date | None = None

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The value, and the share below it, with its interval, as plain values."""
        first = self.first_day
        values = self.values.tolist() if first is None else [date_at(value, first) for value in self.values]
        shares = np.column_stack([self.estimate, self.low, self.high]).tolist()
        names = ("value", "estimate", "low", "high")
        return [dict(zip(names, (value, *row), strict=True)) for value, row in zip(values, shares, strict=True)]

    @property
    def table(self) -> Any:
        """A data frame of the rows."""
        import pandas as pd  # noqa: PLC0415 - an extra

        return pd.DataFrame(self.rows).astype({} if self.first_day is None else {"value": "datetime64[s]"})

    def below(self, value: object) -> tuple[float, float, float]:
        """Return the share of records below a value, or before a date, with its interval.

        Within a cell records may lie anywhere.
        """
        if isinstance(value, str | datetime.date) and self.first_day is not None:
            value = days_after(str(value), self.first_day) - 0.5
        at = float(np.clip(real("value", value, -np.inf), self.values[0], self.values[-1]))
        place = int(np.clip(np.searchsorted(self.values, at, side="right") - 1, 0, self.values.size - 2))
        part = (at - self.values[place]) / (self.values[place + 1] - self.values[place])
        share = float((1 - part) * self.estimate[place] + part * self.estimate[place + 1])
        return share, float(self.low[place]), float(self.high[place + (part > 0)])

    def plot(self, ax: object = None) -> Any:
        """Return a figure, or draw into the axes `ax`: the share below each value, and the band of its intervals."""
        drawing, axes = figure(width=6.0, height=3.6, ax=ax)
        values = self.values if self.first_day is None else self.values + dates(self.first_day)
        axes.fill_between(values, self.low, self.high, alpha=0.25, color=COLOURS[0], linewidth=0)
        axes.plot(values, self.estimate, color=COLOURS[0])
        if self.first_day is not None:
            axes.xaxis_date()
        axes.set(xlabel=words(self.column), ylabel="share of records below", ylim=(0, 1))
        titled(drawing, f"distribution of {self.column}", ax)
        return drawing


def distribution_of(posterior: Any, group: tuple[object, ...], level: float) -> DistributionFunction:
    """Return the distribution of the column in a group, by the values that name it."""
    question = _searched(posterior).question
    names = question.groups.labels
    known = posterior.groups[_place(names, group)]
    level = checked_level(level)
    estimate, low, high = known.shares(level)
    return DistributionFunction(
        question.columns_asked[0], level, known.edges, estimate, low, high, question.whole, question.first_day
    )


def _place(names: Sequence[tuple[object, ...]], group: tuple[object, ...]) -> int:
    """Return the place of a group, by its values or as they are shown; refuse one that is not there."""
    plain = [tuple(map(shown, name)) for name in names]
    if (wanted := tuple(map(shown, group))) in plain:
        return plain.index(wanted)
    if plain == [()]:
        raise InvalidValue(f"this answer has no groups; leave the group out. Got {', '.join(wanted)}")
    there = "; ".join(", ".join(map(repr, name)) for name in plain[:_NAMED])
    more = f"; and {len(plain) - _NAMED} more" if len(plain) > _NAMED else ""
    got = f"Got {', '.join(map(repr, wanted))}" if wanted else "Got none"
    raise InvalidValue(f"say of which group, after what is asked: {there}{more}. {got}")


def exceedance(
    posterior: object, claim: str, group: tuple[object, ...] = (), level: float = 0.95
) -> tuple[float, float, float] | None:
    """Return the share of records in a group of which a claim holds, ``"days > 30"``, and its interval.

    It is None where the claim is not about the column.
    """
    read = _CLAIM.match(claim) if isinstance(claim, str) else None
    if read is None or not isinstance(posterior, QuantilePosterior):
        return None
    question = posterior.question
    if read["column"] != question.columns_asked[0]:
        return None
    if question.first_day is not None:
        value: float = days_after(read["value"], question.first_day)
    else:
        try:
            value = float(read["value"])
        except ValueError:
            return None
    sign = read["sign"]
    if question.whole:  # shares below are known halfway between two whole numbers
        value = np.floor(value) + 0.5 if sign in (">", "<=") else np.ceil(value) - 0.5
    share, low, high = distribution_of(posterior, group, level).below(value)
    return (share, low, high) if sign.startswith("<") else (1 - share, 1 - high, 1 - low)


def at_other_quantiles(release: Release, at: Any) -> Release:
    """Return the release with other quantiles asked of it: post-processing."""
    posterior = _searched(release.value)
    return replace(release, value=replace(posterior, question=replace(posterior.question, at=at)))


def _searched(posterior: object) -> QuantilePosterior:
    if not isinstance(posterior, QuantilePosterior):
        raise InvalidValue(
            "only quantiles come with a distribution, and answers of even cells do not; ask for quantiles"
        )
    return posterior
