"""What would make a regression's intervals narrower, each with the width that a plan foresees of it: free, for nothing
is read but what was released.
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sottovoce.inference.regression.adaptive_looks import AdaptiveLooks
from sottovoce.inference.regression.coefficients import Coefficients
from sottovoce.inference.regression.formula import Formula
from sottovoce.inference.regression.learned_rows import LearnedRows
from sottovoce.inference.regression.precision_forecast import expected_widths
from sottovoce.mechanisms.mechanism import Mechanism
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.json_values import canonical
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.shares import percent
from sottovoce.records.facts import Facts
from sottovoce.records.facts.assumed_distribution import AssumedDistribution
from sottovoce.records.facts.columns import Column, Count, Number

_TIMES = 2
"""Of so many times the share, or the records, and of bounds as many times as close, it is said what they would do."""
_WORTH = 0.9
"""A way is named where it leaves no more than this part of the width: plans are off by as much."""
_MOST, _MOST_OF_TWO = 6, 12
"""Of more unknowns the forecasts of an answer would take seconds; responses of two values ask for fewer steps."""
_ROOM, _ROOM_OF_COUNTS = 0.25, 0.125
"""Bounds twice as close are named where a number then spreads over no more than this part of them: as it does between
bounds of two standard deviations either way; counts, which lean, of four."""


@dataclass(frozen=True)
class Narrowing:
    """What would narrow the interval of a term: in words, and half the width that is foreseen."""

    way: str
    width: float

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"way": self.way, "width": self.width}


def narrowings(
    posterior: Coefficients,
    mechanism: Mapping[str, Any],
    places: Sequence[int],
    share: float | None = None,
    level: float = 0.95,
) -> dict[int, tuple[Narrowing, ...]]:
    """Return for each of some terms what would narrow it, the cheapest first: closer bounds, fewer terms, the formula
    taken to be right, a larger share of the budget, more records.

    Parameters
    ----------
    posterior, mechanism
        What was released, and by which mechanism, in plain values.
    places
        The terms, by their places.
    share, level
        Which share of the budget was spent, and how often intervals hold.
    """
    rows, formula = posterior.rows, posterior.formula
    most = _MOST_OF_TWO if formula.family in ("logistic", "probit") else _MOST
    if rows is None or formula.dimension > most or not places:
        return {}
    return dict(zip(places, _narrowings(canonical(dict(mechanism)), rows, tuple(places), share, level), strict=True))


@functools.lru_cache(maxsize=64)
def _narrowings(
    mechanism: str, rows: LearnedRows, places: tuple[int, ...], share: float | None, level: float
) -> list[tuple[Narrowing, ...]]:
    looks = Mechanism.from_dict(json.loads(mechanism))
    assert isinstance(looks, AdaptiveLooks)
    formula = looks.system
    now = _widths(looks, rows, level)
    result: list[list[Narrowing]] = [[] for _ in places]

    def say(way: str, wide: Callable[[], Floats], of: Iterable[int], at: int | None = None) -> None:
        """Say of some of the places what a way does, to the term that is at another place then."""
        with contextlib.suppress(InvalidValue, ArithmeticError, np.linalg.LinAlgError):
            widths = wide()
            for which in of:
                place = places[which]
                width = float(widths[place if at is None else at])
                if width < _WORTH * now[place]:
                    result[which].append(Narrowing(way, width))

    for closer, names, of in _closer(formula, rows, places):
        changed, said = replace(formula, facts=closer), _nearer_rows(formula, rows, names)
        way = f"with bounds of {' and '.join(names)} half as wide, which is free"
        say(way, functools.partial(_widths, _of(looks, changed), said, level), of)
    for which, place in enumerate(places):
        if (alone := _alone(formula, place)) is not None:
            said = replace(rows, said=_about(rows, alone[0]))
            say("asked alone", functools.partial(_widths, _of(looks, alone[0]), said, level), [which], alone[1])
    every = range(len(places))
    if formula.misses:
        right = _of(looks, replace(formula, misses=0.0))
        say("with misses=0, if the formula is right", functools.partial(_widths, right, rows, level), every)
    if share is None or share < 1:
        times = _TIMES if share is None else min(_TIMES, 1 / share)
        way = "with twice the budget" if share is None else f"with {percent(times * share)} of the budget"
        say(way, functools.partial(_widths, replace(looks, rho=looks.rho * times), rows, level), every)
    larger = AdaptiveLooks(formula, None if looks.n is None else _TIMES * looks.n, looks.rho)
    twice = replace(rows, records=_TIMES * rows.records)
    say("of twice as many records", functools.partial(_widths, larger, twice, level), every)
    return [tuple(each) for each in result]


def _of(looks: AdaptiveLooks, formula: Formula) -> AdaptiveLooks:
    """Return looks at the same records for the same price, for another formula."""
    return AdaptiveLooks(formula, looks.n, looks.rho)


def _widths(looks: AdaptiveLooks, rows: LearnedRows, level: float) -> Floats:
    """Return half the width of each interval that is foreseen."""
    return expected_widths(looks, rows.imagined(looks.system.facts), rows.records, level)


def _numbers(formula: Formula, place: int) -> list[str]:
    """Return the columns of numbers that a term is made of."""
    encoding = formula.encoding
    factors = encoding.entries[place % encoding.size]
    return list(dict.fromkeys(encoding.names[column] for column, level in factors if level < 0))


def _closer(
    formula: Formula, rows: LearnedRows, places: Sequence[int]
) -> Iterator[tuple[Facts, tuple[str, ...], list[int]]]:
    """Yield facts with closer bounds of numbers that have room for them, and which of the places have these."""
    said, wanted = rows.imagined(formula.facts), dict[tuple[str, ...], list[int]]()
    for which, place in enumerate(places):
        names = tuple(name for name in _numbers(formula, place) if _has_room(formula.facts, name, said))
        if names:
            wanted.setdefault(names, []).append(which)
    for names, of in wanted.items():
        yield Facts(formula.facts.said | {name: _nearer(formula.facts[name]) for name in names}), names, of


def _has_room(facts: Facts, name: str, said: AssumedDistribution) -> bool:
    """Return whether a column of the table may have closer bounds."""
    column = facts[name]
    room = _ROOM_OF_COUNTS if isinstance(column, Count) else _ROOM
    known = isinstance(column, Number | Count) and facts.derivation(name) is None
    return known and _TIMES * said.spread_of(name, column) <= room


def _nearer(column: Column) -> Column:
    """Return a number with bounds closer to their middle, or counts with a closer one."""
    if isinstance(column, Count):
        return replace(column, high=max(column.high // _TIMES, 1))
    assert isinstance(column, Number)
    middle, half = (column.low + column.high) / 2, (column.high - column.low) / 2 / _TIMES
    missing = None if column.missing is None else min(max(column.missing, middle - half), middle + half)
    return Number(middle - half, middle + half, missing)


def _nearer_rows(formula: Formula, rows: LearnedRows, names: Sequence[str]) -> LearnedRows:
    """Return the records as parts of closer bounds; of counts the mean is said, which is the same."""
    said = rows.imagined(formula.facts)
    spreads = {name: _TIMES * said.columns[name] for name in names if isinstance(formula.facts[name], Number)}  # type: ignore[operator]
    return replace(rows, said=tuple(replace(said, columns={**said.columns, **spreads}).texts))


def _alone(formula: Formula, place: int) -> tuple[Formula, int] | None:
    """Return the formula of a term's columns alone, and the term's place in it; None where they stand alone, or where
    several predictors or groups do.
    """
    encoding, terms = formula.encoding, formula.terms
    factors = encoding.entries[place % encoding.size]
    names = list(dict.fromkeys(encoding.names[column] for column, _ in factors))
    if not names or formula.groups or formula.exposure is not None or set(names) == set(encoding.names):
        return None
    text = f"`{formula.parsed.response}` ~ " + "*".join(f"`{name}`" for name in names)
    try:
        changed = replace(formula, text=text, prior=None if formula.prior == formula.usual_prior else formula.prior)
    except InvalidValue:
        return None
    return (changed, changed.terms.index(terms[place])) if terms[place] in changed.terms else None


def _about(rows: LearnedRows, formula: Formula) -> tuple[str, ...]:
    """Return what is said of the columns of a formula."""
    return tuple(text for text in rows.said if any(text.startswith((f"{name}=", f"{name}:")) for name in formula.facts))
