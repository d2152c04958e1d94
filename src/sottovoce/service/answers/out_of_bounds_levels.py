"""Levels of which a linear regression estimates a mean that the public bounds of the response rule out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.records.facts.encodings import levels_of
from sottovoce.service.answers.display import shown

if TYPE_CHECKING:  # the room needs an extra
    from sottovoce.inference.regression.coefficients import Coefficients

_NAMED = 6
"""So many levels are named."""


def beyond_note(posterior: Coefficients) -> str | None:
    """Return which levels have a mean estimated beyond the bounds of the response, in words; None where none has.

    Coefficients have no bounds of their own, but every mean has: that of a level is looked at with the other columns
    at their first value, or in the middle of their bounds.
    """
    formula = posterior.formula
    scale: Any = getattr(formula.model, "scale", None)
    names, rows = _levels(formula.design)
    if formula.family != "linear" or scale is None or not names:
        return None
    A, b = formula.units
    weights = scale.half * np.linalg.solve(A.T, rows.T).T  # of the coefficients, in the mean of a row
    shifts = scale.middle - weights @ b
    means = weights @ posterior.mean + shifts
    far = [
        k
        for k in np.flatnonzero((means < scale.low) | (means > scale.high))
        if not scale.low <= posterior.combined(weights[k])[0] + shifts[k] <= scale.high
    ]
    if not far:
        return None
    more = f" and {len(far) - _NAMED} more" if len(far) > _NAMED else ""
    said = ", ".join(names[k] for k in far[:_NAMED]) + more
    return (
        f"the estimates put the mean {formula.parsed.response} of {said} beyond its bounds, {scale.low:g} to "
        f"{scale.high:g}, which rule that out: noise did, most often with few records. Intervals allow for it, and "
        "what is predicted stays within"
    )


def _levels(encoding: Any) -> tuple[list[str], Any]:
    """Return the levels there are, by their columns, and a row of each."""
    leveled = [
        (place, levels) for place, item in enumerate(encoding.columns) if (levels := levels_of(item)) is not None
    ]
    names = [f"{encoding.names[place]} {shown(level)}" for place, levels in leveled for level in levels]
    values = []
    for place, column in enumerate(encoding.columns):
        if levels_of(column) is not None:
            values.append(np.zeros(len(names)))
        else:
            scale = encoding.scale(place)
            values.append(np.full(len(names), (scale.low + scale.high) / 2))
    starts = np.cumsum([0, *(len(levels) for _, levels in leveled)])
    for (place, levels), start in zip(leveled, starts, strict=False):
        values[place][start : start + len(levels)] = np.arange(len(levels))
    return names, encoding.rows(values, len(names))[0]
