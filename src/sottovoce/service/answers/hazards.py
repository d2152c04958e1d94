"""What regressions with a baseline tell beside their ratios: hazards, or shares above each cut, and curves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from sottovoce.inference.cells.intervals import central, checked_level
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts.condition_parser import parse_predicate
from sottovoce.records.facts.condition_tree import And, Compare, Literal
from sottovoce.service.answers.predictions import rows_of_frame, thetas_of

if TYPE_CHECKING:  # the room needs an extra
    from sottovoce.inference.regression.coefficients import Coefficients
    from sottovoce.inference.regression.hazard_formula import HazardFormula

__all__ = ["baseline_rows", "changed_rows", "surviving_rows"]

_TIMES = ("times", "times_low", "times_high")
"""By how many times a hazard ratio changed, and its interval."""


def _hazards_of(posterior: Coefficients) -> HazardFormula:
    formula: Any = posterior.formula
    if formula.family != "hazard":
        raise InvalidValue(f"curves are of a hazard regression, event='...'. Got a {formula.family} one")
    return formula  # type: ignore[no-any-return]


def baseline_rows(posterior: Coefficients, level: float) -> list[dict[str, Any]]:
    """Return the hazard of each interval per unit of time, or of an ordered response the share above each cut, where
    all columns are at zero or at their first value.
    """
    formula: Any = posterior.formula
    scaled: Callable[[Floats], Floats]
    if formula.family == "ordinal":
        (what, said), names, scaled = ("cut", "share"), formula.cut_names, special.expit
    elif formula.family == "hazard":
        (what, said), names, scaled = ("time", "hazard"), formula.intervals, np.exp
    else:
        raise InvalidValue(f"a baseline is of a hazard or an ordinal regression. Got a {formula.family} one")
    places = list(formula.nuisance)
    ends, middle = scaled(posterior.interval(checked_level(level))[places]), scaled(posterior.median[places])
    rows = zip(names, middle.tolist(), ends.tolist(), strict=True)
    return [{what: name, said: value, "low": low, "high": high} for name, value, (low, high) in rows]


def surviving_rows(
    posterior: Coefficients, frame: object, times: Sequence[float], level: float, draws: int
) -> list[dict[str, object]]:
    """Return the share still without the event of each row of a frame at some times, with its interval."""
    formula = _hazards_of(posterior)
    wanted = np.asarray(times, dtype=np.float64).reshape(-1)
    if not wanted.size or not np.all((wanted >= 0) & (wanted <= formula.cuts[-1])):
        raise InvalidValue(f"a curve is known from 0 to the last cut, {formula.cuts[-1]:g}. Got {wanted.tolist()}")
    rows = rows_of_frame(posterior, frame)
    thetas = thetas_of(posterior, draws)
    result = []
    for time in wanted.tolist():
        shares = formula.expected(thetas, rows, time)
        ends, middle = central(shares, checked_level(level)), np.median(shares, axis=0)
        result += [
            {"row": place, "time": time, "estimate": float(middle[place]), "low": low, "high": high}
            for place, (low, high) in enumerate(ends.tolist())
        ]
    return sorted(result, key=lambda row: (row["row"], row["time"]))


def changed_rows(late: Coefficients, early: Coefficients, level: float, draws: int) -> list[dict[str, Any]]:
    """Return by how much each log hazard ratio of later times differs from that of earlier ones, and e to that.

    Events of the two are others, and so is their noise: given the law of each subject, what one regression tells is
    independent of what the other does (increments of a martingale), and variances add up.
    """
    first, second = _hazards_of(early), _hazards_of(late)
    wanted, end = checked_level(level), first.cuts[-1]
    time, slopes = first.parsed.response, slice(first.baseline, None)
    if (time, first.event, first.terms[slopes]) != (
        second.parsed.response,
        second.event,
        second.terms[second.baseline :],
    ):
        raise InvalidValue("two hazard regressions are compared of one time, one event and the same terms")
    if end not in second.cuts or not _begins_after(second.where, time, end):
        raise InvalidValue(
            f'later times begin where the earlier ones end: ask them where "{time} > {end:g}", with {end:g} among '
            f"their cuts. Got {second.describe()}"
        )
    ahead, behind = late.sample(draws, seeded_rng(0)), early.sample(draws, seeded_rng(1))
    off = ahead[:, second.baseline :] - behind[:, slopes]
    ends, middle, up = central(off, wanted), np.median(off, axis=0), (off > 0).mean(axis=0)
    return [
        {"term": term, "estimate": float(middle[k]), "low": low, "high": high}
        | {"probability": float(max(up[k], 1 - up[k]))}
        | {name: float(np.exp(value)) for name, value in zip(_TIMES, (middle[k], low, high), strict=True)}
        for k, (term, (low, high)) in enumerate(zip(first.terms[slopes], ends.tolist(), strict=True))
    ]


def _begins_after(where: str | None, time: str, end: float) -> bool:
    """Say whether a condition keeps only records whose time lies beyond an end."""
    if where is None:
        return False
    condition = parse_predicate(where)
    for part in condition.parts if isinstance(condition, And) else (condition,):
        if (
            isinstance(part, Compare)
            and part.sign == ">"
            and part.left.name == time
            and isinstance(part.right, Literal)
        ):
            return isinstance(part.right.value, int | float) and part.right.value >= end
    return False
