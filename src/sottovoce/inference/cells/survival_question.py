"""Survival as a question: a time, a flag that says whether it ended in the event, and public times to cut it at."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.inference.cells.groups import Groups
from sottovoce.inference.cells.questions import Question
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.json_values import mapping, restoring
from sottovoce.privacy.numbers import Floats
from sottovoce.records.facts import Category, Count, Facts, Flag, Number
from sottovoce.records.facts.bands import value_axis
from sottovoce.records.facts.cells import Axis
from sottovoce.records.facts.column_names import quoted
from sottovoce.records.facts.encodings import levels_of
from sottovoce.records.facts.time_cuts import rising_times
from sottovoce.records.readings import GroupMoments

__all__ = ["EVEN_CELLS", "MOST_CELLS", "SurvivalQuestion"]

EVEN_CELLS = 12
"""Into so many cells of one width a time is cut unless cuts= says otherwise: as a year has months."""
MOST_CELLS = 64
"""The most cells of time: the noise of each is borne by all that come after it."""

MOST_ROWS = 2**15
"""The most groups and times together: what a laptop holds of their draws."""


@dataclass(frozen=True, eq=False)
class SurvivalQuestion(Question):
    """How large a share is still without an event at each of some public times.

    Every record is in one cell: its group, whether its time ended in the event or was censored, and between which two
    cuts that was; so all that is read is one histogram. A time on a cut is after it, as a record censored there is.

    Parameters
    ----------
    event
        A flag: whether the time ended in the event. Where it did not, the record is censored then. Or a category that
        says in which of several events, of which one rules the others out (competing risks); the first of its values
        is of those that are censored, as R has it.
    cuts
        The times, rising; or into how many cells of one width the column's bounds are cut, 12 unless given. A time
        beyond the last one is of a record that is then still without the event.

    Examples
    --------
    >>> from sottovoce.records.facts import Category
    >>> facts = Facts(days=Number(0, 360), died=Flag(), ward=Category(["A", "B"]))
    >>> question = SurvivalQuestion("survival", ("days",), facts, by=("ward",), event="died", cuts=(30, 90))
    >>> question.describe(), question.labels
    ('survival of days (event died) at 30, 90 by ward', [('A', 30.0), ('A', 90.0), ('B', 30.0), ('B', 90.0)])
    """

    verbs: ClassVar[tuple[str, ...]] = ("survival",)
    event: str = ""
    cuts: tuple[float, ...] = ()

    def _check_arguments(self) -> None:
        super()._check_arguments()
        if not isinstance(self.event, str) or not self.event:
            raise InvalidValue("survival needs the event: 'survival of days (event died)', or event='died'")
        if self.pool or self.cells is not None:
            raise InvalidValue("survival of groups is not pooled, and its cells are cut by cuts=")

    def _check_columns(self) -> None:
        if len(self.columns_asked) == 1:
            time, flag = self.facts[self.columns_asked[0]], self.facts[self.event]
            if not (isinstance(flag, Flag) or (isinstance(flag, Category) and len(flag.categories) > 1)):
                raise InvalidValue(
                    f"an event is a flag, yes or no, or a category whose first value is censored; {self.event!r} is a "
                    f"{flag.word}"
                )
            if not isinstance(time, Number | Count) or time.bounds[0] < 0:
                got = "may be below 0" if isinstance(time, Number) else f"is a {time.word}"
                raise InvalidValue(f"a time is a number from 0 on; {self.columns_asked[0]!r} {got}")
            object.__setattr__(self, "cuts", cut_times(self.columns_asked[0], time, self.cuts))
        super()._check_columns()

    def _check_groups(self) -> None:
        super()._check_groups()
        if (rows := self.groups.size * len(self.cuts)) > MOST_ROWS:
            raise InvalidValue(
                f"survival has at most {MOST_ROWS} rows, and these are {rows}; ask by fewer groups or cuts"
            )

    @property
    def time(self) -> Number | Count:
        """The facts of the time."""
        column: Any = self.facts[self.columns_asked[0]]
        return column  # type: ignore[no-any-return]

    @property
    def kinds(self) -> tuple[Any, ...]:
        """The kinds of events, one that is True of a flag."""
        flag: Any = self.facts[self.event]
        return tuple((levels_of(flag) or ())[1:])

    @property
    def edges(self) -> Floats:
        """The edges of the cells of time: where it begins, and the cuts."""
        return np.array([self.time.bounds[0], *self.cuts])

    @property
    def single_values(self) -> Any:
        """Which cells hold one whole number alone, so that no event there comes after a censoring."""
        counting = isinstance(self.time, Count)
        return np.diff(self.edges) == 1 if counting else np.zeros(len(self.cuts), dtype=bool)

    @property
    def _asked(self) -> list[str]:
        return [self.event, *self.columns_asked]

    @cached_property
    def reading(self) -> GroupMoments:
        """What is counted: groups, event or not, cells of time, the last one beyond all cuts."""
        name, inner = self.columns_asked[0], self.cuts
        missing = self.time.missing
        other = -1 if missing is None else int(np.searchsorted(inner, missing, side="right"))
        marks = (-math.inf, *inner, math.inf)
        cells = tuple(f"{low:g} to {high:g}" for low, high in itertools.pairwise(marks))
        axes = (value_axis(self.event, self.facts[self.event]), Axis(name, True, marks, cells, other))
        groups = Groups((*self.groups.axes, *axes))
        return GroupMoments(groups.kinds, groups.others)  # of a person one row counts: no average of rows is a record

    def imagined_shares(self, event: float) -> Floats:
        """Return which part of a group's records is in each cell, if times lie evenly and half go on beyond the cuts.

        `event` is the share of the times within the cuts that end in it.
        """
        parts = np.diff(self.edges) / (self.edges[-1] - self.edges[0]) / 2
        each = np.concatenate([event * parts, [0.0]]) / len(self.kinds)
        return np.concatenate([(1 - event) * parts, [0.5], *[each] * len(self.kinds)])

    @property
    def label_names(self) -> list[str]:
        """The columns that name a row of the answer: the groups, and the time."""
        return [*self.groups.names, *self.columns_asked]

    @cached_property
    def _every_label(self) -> list[tuple[Hashable, ...]]:
        counting = isinstance(self.time, Count)
        times = [int(cut) if counting else cut for cut in self.cuts]
        return [(*group, time) for group in self.groups.labels for time in times]

    @property
    def bounded(self) -> str | None:
        """What a row says, and which records count how, in words."""
        name = self.columns_asked[0]
        missing = [item for item in (name, self.event) if getattr(self.facts[item], "missing", None) is None]
        out = f"; records without {' or '.join(missing)} are left out" if missing else ""
        event = self.event if isinstance(self.facts[self.event], Flag) else f"any {self.event}"
        return (
            f"the share still without {event} when {name} reaches each time; whoever is followed beyond "
            f"{self.cuts[-1]:,.12g} is without it there{out}"
        )

    @property
    def parameter(self) -> str:
        """The verb and its column, for names."""
        return f"survival of {self.columns_asked[0]}"

    @property
    def _details(self) -> str:
        event, cells = f" (event {quoted(self.event)})", len(self.cuts)
        if self.cuts == cut_times(self.columns_asked[0], self.time, EVEN_CELLS):
            return event
        if self.cuts == cut_times(self.columns_asked[0], self.time, cells):
            return f"{event} in {cells} cells"
        return f"{event} at {', '.join(repr(cut).removesuffix('.0') for cut in self.cuts)}"

    def to_dict(self) -> dict[str, object]:
        """Return the question as plain values; `from_dict` reads it back."""
        return super().to_dict() | {"event": self.event, "cuts": list(self.cuts)}

    @classmethod
    def from_dict(cls, state: Mapping[str, object]) -> Self:
        """Read a question from `to_dict`'s form."""
        state = mapping("question", state)
        with restoring("a question of survival"):
            return cls(
                "survival",
                tuple(state["columns"]),
                Facts.from_dict(state["facts"]),
                tuple(state["by"]),
                where=state["where"],
                prior=state["prior"],
                event=state["event"],
                cuts=tuple(state["cuts"]),
            )


def cut_times(name: str, column: Number | Count, cuts: object) -> tuple[float, ...]:
    """Return the times at which cells of a column end, from their number or the times themselves."""
    return rising_times(name, column, cuts, EVEN_CELLS, MOST_CELLS)
