r"""Average effects of a regression: what one column does to the expected response, averaged over a population.

Every record of a population is given one value of the column and then another, the rest of it as it is, and the
expected responses are averaged (g-computation: Robins, Mathematical Modelling 7, 1986). Of a number it is the slope,

.. math:: \frac{1}{m} \sum_i \frac{\mathrm E[y \mid x_i + h] - \mathrm E[y \mid x_i - h]}{2 h}.

The population is public: the records that the regression was fitted to are not seen again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.inference.cells.intervals import central, checked_level
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.records.facts.encodings import levels_of
from sottovoce.service.answers.display import shown
from sottovoce.service.answers.predictions import means_of, rows_of_frame

if TYPE_CHECKING:  # the room needs an extra
    from sottovoce.inference.regression.coefficients import Coefficients

__all__ = ["EVEN", "average_effects"]

EVEN = "imagined records, each column spread evenly over its public values and apart from the others"
"""The population where none is given."""
_GIVEN = "the records of over="
_IMAGINED = 512
_STEP = 1e-3
"""Half a step of a number, in parts of its public range."""


def average_effects(
    posterior: Coefficients, column: str, over: object, level: float, draws: int
) -> list[dict[str, object]]:
    """Return rows of what a column does: each value beside the first, or of a number the slope; see `Regression`."""
    encoding = posterior.formula.design
    if column not in encoding.names:
        raise InvalidValue(f"the formula has no column {column!r}; there are {', '.join(encoding.names)}")
    levels = levels_of(encoding.columns[encoding.names.index(column)])
    needed = [name for name in encoding.names if levels is None or name != column]
    people = _imagined(posterior) if over is None else _given(over, needed)
    place, wanted = encoding.names.index(column), checked_level(level)

    def expected(values: object) -> Floats:
        """Return the draws of the mean response, classes last where there are several."""
        given = people | {column: values}
        return np.asarray(means_of(posterior, rows_of_frame(posterior, given), draws).mean(axis=1))

    effects: list[tuple[str, Floats]] = []
    if levels is None:
        scale = encoding.scale(place)
        middle = np.clip(np.asarray(people[column], dtype=np.float64), scale.low, scale.high)
        half = _STEP * (scale.high - scale.low)
        ends = np.clip(middle - half, scale.low, scale.high), np.clip(middle + half, scale.low, scale.high)
        rows = [rows_of_frame(posterior, people | {column: end}) for end in ends]
        gaps = means_of(posterior, rows[1], draws) - means_of(posterior, rows[0], draws)
        steps = (ends[1] - ends[0]).reshape(-1, *([1] * (gaps.ndim - 2)))
        effects.append((f"{column}, per unit", (gaps / steps).mean(axis=1)))
    else:
        first = expected(levels[0])
        effects = [
            (f"{column}: {shown(value)} less {shown(levels[0])}", expected(value) - first) for value in levels[1:]
        ]
    return [row for what, drawn in effects for row in _rows(posterior, what, drawn, wanted, over is not None)]


def _rows(posterior: Coefficients, what: str, drawn: Floats, level: float, given: bool) -> list[dict[str, Any]]:
    """Return the row of an effect, or one for each value of the response."""
    response = posterior.formula.parsed.response
    classes = posterior.formula.values if drawn.ndim > 1 else None
    rows = []
    for k, part in enumerate(drawn.T if classes is not None else [drawn]):
        (low, high), up = central(part[:, None], level)[0].tolist(), float(np.mean(part > 0))
        said: dict[str, object] = {"effect": what} | ({} if classes is None else {response: classes[k]})
        said |= {"estimate": float(np.median(part)), "low": low, "high": high, "probability": max(up, 1 - up)}
        rows.append(said | {"over": _GIVEN if given else EVEN})
    return rows


def _given(over: Any, names: list[str]) -> dict[str, object]:
    """Return the columns of a population, all that are needed."""
    try:
        return {name: over[name] for name in names}
    except (KeyError, TypeError, IndexError, ValueError):
        raise InvalidData(f"over= is a population by its columns {', '.join(names)}") from None


def _imagined(posterior: Coefficients) -> dict[str, Any]:
    """Return the population where none is given, always the same."""
    encoding, rng = posterior.formula.design, np.random.default_rng(1986)
    people: dict[str, object] = {}
    for place, (name, column) in enumerate(zip(encoding.names, encoding.columns, strict=True)):
        levels = levels_of(column)
        if levels is None:
            scale = encoding.scale(place)
            people[name] = rng.permutation(np.linspace(scale.low, scale.high, _IMAGINED))
        else:
            people[name] = [levels[k] for k in rng.permutation(np.arange(_IMAGINED) % len(levels))]
    return people
