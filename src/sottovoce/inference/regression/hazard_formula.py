r"""A hazard regression by its formula: log hazards that are constant between public cuts, and add up over columns.

The hazard of a record x in the j-th interval of time is :math:`e^{\alpha_j + \beta\cdot x}` (piecewise exponential
model: Friedman, Annals of Statistics 10, 1982), so that :math:`e^\beta` are hazard ratios, as of Cox's model with a
baseline of steps.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.inference.regression.formula import Formula
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.json_values import mapping, restoring
from sottovoce.privacy.numbers import Floats
from sottovoce.records.facts import Facts
from sottovoce.records.facts.columns import Count, Flag, Number
from sottovoce.records.facts.encodings import Encoding
from sottovoce.records.facts.time_cuts import rising_times
from sottovoce.records.readings import HazardLook
from sottovoce.records.readings.family import Family
from sottovoce.records.readings.look import fine_bits

__all__ = ["HAZARD_INTERVALS", "HazardFamily", "HazardFormula"]

HAZARD_INTERVALS = 6
"""Into so many intervals of one width the time is cut unless cuts= says otherwise: each is one more unknown."""
_MOST_INTERVALS = 24


@dataclass(frozen=True)
class HazardFamily(Family):
    """What a hazard regression supposes of the time that it explains."""

    word: ClassVar[str] = "hazard"
    wants: ClassVar[str] = "a time, a number or a count from 0 on"
    ratio: ClassVar[str | None] = "hazard ratio"
    missed: ClassVar[float] = 0.0

    def takes(self) -> bool:
        """Say whether the response is of the kind."""
        return isinstance(self.response, Number | Count) and self.response.bounds[0] >= 0

    def mean(self, t: Floats) -> Floats:
        """Return the hazard beside that at a linear predictor of zero."""
        return np.asarray(np.exp(t))

    slope = mean

    @property
    def steepest(self) -> float:
        """No bound is asked for: a look has its own."""
        return np.inf

    def bound(self, reach: Any) -> float:
        """No bound is asked for: a look has its own."""
        del reach
        return np.inf


@dataclass(frozen=True, eq=False)
class HazardFormula(Formula):
    """``days ~ terms`` with an event: hazard ratios.

    Parameters
    ----------
    event
        A flag: whether the time ended in the event. Where it did not, the record is censored then.
    cuts
        The ends of the intervals in which hazards are constant, or into how many of one width the time is cut; 6
        unless given. Whoever is followed beyond the last is censored there.
    start
        A column of numbers or counts: when follow-up began, on the clock of the time; at 0 unless given (left
        truncation). Whoever enters after an interval tells nothing of it.
    text, facts, prior, where
        As of a `Formula`, without groups, splines of the time or an exposure.

    Examples
    --------
    >>> facts = Facts(days=Number(0, 360), died=Flag(), age=Number(18, 100))
    >>> HazardFormula("days ~ age", facts, event="died", cuts=(90, 360)).terms
    ['0 to 90', '90 to 360', 'age']
    """

    word: ClassVar[str] = "hazard formula"
    mechanisms: ClassVar[tuple[str, ...]] = ("hazard looks",)
    event: str = ""
    cuts: tuple[float, ...] = ()
    start: str | None = None

    def __post_init__(self) -> None:
        if self.family not in ("", None, "hazard"):
            raise InvalidValue(f"event= makes a hazard regression, which has no family. Got {self.family!r}")
        if self.exposure is not None or self.misses is not None:
            raise InvalidValue("a hazard regression takes no exposure= and no misses=: its time is what is explained")
        if not isinstance(self.event, str) or self.event not in self.facts:
            raise InvalidValue(f"event= names a flag, such as 'died'; the facts name {', '.join(self.facts)}")
        object.__setattr__(self, "family", "hazard")
        kept = self.facts
        self._check()
        self.model  # noqa: B018 - a response that is no time is refused here
        object.__setattr__(self, "cuts", _cuts(self.parsed.response, self.response, self.cuts))
        super().__post_init__()
        object.__setattr__(self, "misses", 0.0)
        late = [] if self.start is None else [self.start]
        object.__setattr__(self, "facts", kept.about(dict.fromkeys([*self.facts, self.event, *late])))

    def _check(self) -> None:
        flag = self.facts[self.event]
        if not isinstance(flag, Flag):
            raise InvalidValue(f"an event is a flag, yes or no; {self.event!r} is a {flag.word}")
        if self.event in self.parsed.encoding.names:
            raise InvalidValue(f"{self.event!r} is the event, and explains nothing")
        if self.start is not None:
            self._check_start(self.start)
        if self.averaged:
            raise InvalidValue("a hazard is of one record a person: say Person(rows=1), which takes one row")
        if self.groups:
            raise InvalidValue("groups (1 | column) are not offered of hazards; C(column) is")
        if () not in self.parsed.encoding.entries:
            raise InvalidValue("a hazard regression has a baseline of its own: leave out '0 +' and '- 1'")
        if len(self.parsed.encoding.entries) < 2:
            raise InvalidValue("nothing explains the hazard: name a column, or ask for survival instead")

    def _check_start(self, name: str) -> None:
        column = self.facts[name]
        if not isinstance(column, Number | Count) or column.bounds[0] < 0 or name == self.parsed.response:
            raise InvalidValue(
                f"start= names when follow-up began, a number or a count from 0 on. Got {name!r}, {column}"
            )
        if name in self.parsed.encoding.names:
            raise InvalidValue(
                f"{name!r} is when follow-up began, and explains nothing; ask without it or without start="
            )

    @cached_property
    def model(self) -> Family:
        """The family with its response."""
        return HazardFamily(self.response)

    @cached_property
    def encoding(self) -> Encoding:
        """How a record becomes a row; the baseline makes up for a constant."""
        parsed = self.parsed.encoding
        return replace(parsed, entries=tuple(entry for entry in parsed.entries if entry))

    @property
    def baseline(self) -> int:
        """How many coefficients, the first, are log hazards."""
        return len(self.cuts)

    @property
    def nuisance(self) -> tuple[int, ...]:
        """The log hazards, which no table shows: `Regression.baseline` does."""
        return tuple(range(self.baseline))

    @property
    def stated(self) -> float | None:
        """Nothing is allowed for what the formula misses."""
        return 0.0

    @property
    def predicted(self) -> str:
        """What is expected of a row, in words."""
        return f"share without {self.event} at {self.cuts[-1]:g}"

    def expected(self, thetas: Floats, rows: Floats, time: float | None = None) -> Floats:
        """Return the shares still without the event at a time, the last cut unless given, a row for each draw."""
        lived = np.diff(np.minimum([0.0, *self.cuts], self.cuts[-1] if time is None else time))
        gathered = np.exp(thetas[:, : self.baseline]) @ lived
        return np.asarray(np.exp(-gathered[:, None] * np.exp(thetas[:, self.baseline :] @ rows.T)))

    @property
    def dimension(self) -> int:
        """The unknowns: log hazards and slopes."""
        return self.baseline + self.encoding.size

    @property
    def intervals(self) -> list[str]:
        """What the intervals are called."""
        return [f"{low:g} to {high:g}" for low, high in itertools.pairwise((0.0, *self.cuts))]

    @property
    def terms(self) -> list[str]:
        """What the unknowns are called, the intervals first."""
        named = zip(self.parsed.terms, self.parsed.encoding.entries, strict=True)
        return [*self.intervals, *(term for term, entry in named if entry)]

    @property
    def columns(self) -> list[str]:
        """The columns to read, event, time and start last."""
        late = [] if self.start is None else [self.start]
        return [*self.encoding.names, self.event, self.parsed.response, *late]

    @cached_property
    def units(self) -> tuple[Floats, Floats]:
        """The matrix A and the shift b with which θ becomes log hazards per unit of time and slopes of the columns."""
        parsed, entries = self.parsed.units, self.parsed.encoding.entries
        constant = entries.index(())
        slopes = [k for k in range(len(entries)) if k != constant]
        A = np.eye(self.dimension)
        A[self.baseline :, self.baseline :] = parsed[np.ix_(slopes, slopes)]
        A[: self.baseline, self.baseline :] = parsed[constant, slopes]
        return A, np.zeros(self.dimension)

    @property
    def slope_sd(self) -> float:
        """The prior standard deviation of what one column does to the log hazard, over the records."""
        prior = self.prior or 0.0
        return min(prior / 2, prior / float(np.sqrt(self.encoding.size)))

    def hazard_look(
        self, n: int | None, centre: Floats, shape: Floats, about: Floats, constant: float, norm: float, limit: float
    ) -> HazardLook:
        """Return a look at log hazards and slopes, in the coordinates z = T(x − m)."""
        rows = tuple(map(tuple, shape.tolist()))
        places = tuple(centre.tolist()), rows, tuple(about.tolist()), constant, norm, limit
        late = None if self.start is None else self.facts[self.start]
        event, bits = self.facts[self.event], fine_bits(n)
        return HazardLook(self.encoding, event, self.response, self.cuts, *places, bits, start=late)

    def describe(self) -> str:
        """Return the regression in one line."""
        where = "" if self.where is None else f" where {self.where}"
        late = "" if self.start is None else f", from {self.start} on"
        return f"hazard regression {self.text.strip()} (event {self.event}{late}), cut at {self._cuts_in_words}{where}"

    @property
    def _cuts_in_words(self) -> str:
        return ", ".join(f"{cut:g}" for cut in self.cuts)

    def to_dict(self) -> dict[str, Any]:
        """Return the regression as plain values; `from_dict` reads it back."""
        state = {"system": self.word, "formula": self.text, "event": self.event, "cuts": list(self.cuts)}
        state |= {} if self.start is None else {"start": self.start}
        return state | {"prior": self.prior, "where": self.where, "facts": self.facts.to_dict()}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Read a regression from `to_dict`'s form."""
        given = mapping("hazard formula", state)
        with restoring("a hazard formula"):
            asked = {name: given[name] for name in ("prior", "where", "event")} | {"start": given.get("start")}
            return cls(given["formula"], Facts.from_dict(given["facts"]), cuts=tuple(given["cuts"]), **asked)


def _cuts(name: str, column: Any, cuts: Any) -> tuple[float, ...]:
    """Return the ends of the intervals."""
    return rising_times(name, column, cuts, HAZARD_INTERVALS, _MOST_INTERVALS)
