"""What regressions with a baseline tell beside their ratios: hazards, or shares above each cut, and curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from sottovoce.inference.cells.intervals import central, checked_level
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.service.answers.predictions import rows_of_frame

if TYPE_CHECKING:  # the room needs an extra
    from sottovoce.inference.regression.coefficients import Coefficients
    from sottovoce.inference.regression.hazard_formula import HazardFormula

__all__ = ["baseline_rows", "surviving_rows"]


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
) -> list[dict[str, Any]]:
    """Return the share still without the event of each row of a frame at some times, with its interval."""
    formula = _hazards_of(posterior)
    wanted = np.asarray(times, dtype=np.float64).reshape(-1)
    if not wanted.size or not np.all((wanted >= 0) & (wanted <= formula.cuts[-1])):
        raise InvalidValue(f"a curve is known from 0 to the last cut, {formula.cuts[-1]:g}. Got {wanted.tolist()}")
    rows = rows_of_frame(posterior, frame)
    A, b = formula.units
    thetas = np.asarray(np.linalg.solve(A, (posterior.sample(draws, seeded_rng(0)) - b).T).T, dtype=np.float64)
    result = []
    for time in wanted.tolist():
        shares = formula.expected(thetas, rows, time)
        ends, middle = central(shares, checked_level(level)), np.median(shares, axis=0)
        result += [
            {"row": place, "time": time, "estimate": float(middle[place]), "low": low, "high": high}
            for place, (low, high) in enumerate(ends.tolist())
        ]
    return sorted(result, key=lambda row: (row["row"], row["time"]))
