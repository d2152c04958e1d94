"""What a regression expects of new rows: made of its posterior and public bounds alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.inference.cells.intervals import checked_level
from sottovoce.inference.figures import COLOURS, figure, titled, words
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.privacy.shares import percent
from sottovoce.records.facts.columns import Category, Column, Flag
from sottovoce.records.facts.encodings import Scale, levels_of, scale_of
from sottovoce.records.facts.row_parser import parse_row, refuse_unknown
from sottovoce.records.readings.columns import as_codes, as_numbers
from sottovoce.service.answers.digits import formatted
from sottovoce.service.answers.display import shown

if TYPE_CHECKING:  # the room needs an extra
    from sottovoce.inference.regression.coefficients import Coefficients
    from sottovoce.inference.regression.formula import Formula

Row = str | Mapping[str, Any]
"""What to predict for, in words or by name."""

_DRAWS = 2000
_ROW, _BESIDE, _LEGEND = 0.32, 0.16, 1.6
"""Inches of a row of a figure, of one beside it for another class, and of what says which is which."""
_BY = "by"
_LOT = 16
"""So many rows are predicted at a time: their draws, 16 × 2000 doubles, stay in a cache."""


def predict(posterior: Coefficients, frame: object, level: float, draws: int = _DRAWS) -> Any:
    """Return the expected response of each row of a frame, see `Regression.predict`."""
    every, held = _rows(posterior, frame)
    rows, place = np.unique(every, axis=0, return_inverse=True)  # of most tables few rows differ
    summary = _summed_up(posterior, rows, checked_level(level), draws)[place.ravel()]
    import pandas as pd  # noqa: PLC0415 - an extra

    table = dict(zip(("estimate", "low", "high"), np.moveaxis(summary, -1, 0), strict=True))
    note: dict[str, Any] = {"held": held} if any(held) else {}
    if summary.ndim == 2:
        return pd.DataFrame(table | note)
    n, levels = summary.shape[:2]
    names = posterior.formula.values
    assert names is not None
    which = {"row": np.repeat(np.arange(n), levels), posterior.formula.parsed.response: list(names) * n}
    note = {name: np.repeat(said, levels) for name, said in note.items()}
    return pd.DataFrame(which | {name: value.ravel() for name, value in table.items()} | note)


def _summed_up(posterior: Coefficients, rows: Floats, level: float, draws: int) -> Floats:
    """Return of each row, and class, the mean of what is expected, and the ends of its interval; where that has no
    bounds the median in place of the mean.

    Rows go in lots that stay near the processor, each row's draws side by side: there a sort takes less time than a
    partition.
    """
    thetas, place, result = thetas_of(posterior, draws), [(1 - level) / 2, 0.5, (1 + level) / 2], []
    for lot in np.split(rows, range(_LOT, len(rows), _LOT)):
        drawn = np.ascontiguousarray(np.moveaxis(_means(posterior, thetas, lot), 0, -1))
        middle = drawn.mean(axis=-1)
        drawn.sort(axis=-1)
        at, part = np.divmod(np.array(place) * (draws - 1), 1.0)
        below = at.astype(np.intp)
        low, median, high = np.moveaxis(
            drawn[..., below] * (1 - part) + drawn[..., np.minimum(below + 1, draws - 1)] * part, -1, 0
        )
        result.append(np.stack([median if posterior.formula.model.boundless else middle, low, high], axis=-1))
    return np.concatenate(result)


def parse_rows(formula: Formula, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the rows to predict for, or raise what is wrong with one: what they are of is public, so before payment.

    Words and names are those of `parse_row`.
    """
    named = _columns(formula)
    short = {name: column for name, column in named.items() if name != formula.exposure}
    # Where no exposure is said, a rate per unit of it is expected.
    return [parse_row(row, named if formula.exposure and formula.exposure in row else short) for row in rows]


def _columns(formula: Formula) -> dict[str, Column]:
    """Return the columns of which a row is made, an exposure as itself."""
    named = dict(zip(formula.design.names, formula.design.columns, strict=True))
    if formula.exposure is None:
        return named
    named = {name: column for name, column in named.items() if name != formula.log_exposure}
    return named | {formula.exposure: formula.facts[formula.exposure]}


def expected(posterior: Coefficients, rows: Sequence[Row], level: float) -> list[dict[str, Any]]:
    """Return what is expected of each row, as plain values: ``row`` in words, and ``expected``, one a class."""
    given = parse_rows(posterior.formula, rows)
    if not given:
        return []
    names = list(_columns(posterior.formula))
    result = predict(posterior, {n: [row.get(n, 1.0) for row in given] for n in names} if names else given, level)
    text = [
        {name: value for name, value in item.items() if name != "row" and (name != "held" or value)}
        for item in result.to_dict("records")
    ]
    each = len(text) // len(given)
    return [{"row": _in_words(row), "expected": text[each * i : each * (i + 1)]} for i, row in enumerate(rows)]


def _in_words(row: Row) -> str:
    return row.strip() if isinstance(row, str) else ", ".join(f"{name}={shown(value)}" for name, value in row.items())


def sentence(response: str, level: float, said: Mapping[str, Any]) -> str:
    """Return what is expected of a row (`expected`), with its interval, in words."""
    text = []
    for row in said["expected"]:
        estimate, low, high = formatted(row)
        name = f"{response} {shown(row[response])}" if response in row else response
        text.append(f"{name} {estimate} ({percent(level)} interval {low} to {high})")
    held = said["expected"][0].get("held")
    return f"{said['row'] or 'any row'}: expected {', '.join(text)}" + (f"; with {held}" if held else "")


def means_of(posterior: Coefficients, rows: Floats, draws: int) -> Floats:
    """Return the mean response: draws first, then rows, then classes where there are several."""
    return _means(posterior, thetas_of(posterior, draws), rows)


def thetas_of(posterior: Coefficients, draws: int) -> Floats:
    """Return draws of θ, always the same, so that an answer does not flicker."""
    A, b = posterior.formula.units
    return np.asarray(np.linalg.solve(A, (posterior.sample(draws, seeded_rng(0)) - b).T).T, dtype=np.float64)


def _means(posterior: Coefficients, thetas: Floats, rows: Floats) -> Floats:
    family = posterior.formula.model
    if family.outputs == 1:
        return posterior.formula.expected(thetas, rows)
    t = np.einsum("skd,nd->snk", thetas.reshape(len(thetas), family.outputs, -1), rows, optimize=True)
    remainder = family.mean(t)
    return np.concatenate([1 - remainder.sum(axis=-1, keepdims=True), remainder], axis=-1)


def rows_of_frame(posterior: Coefficients, frame: object) -> Floats:
    """Return the rows that the columns of a frame make."""
    return _rows(posterior, frame)[0]


def _rows(posterior: Coefficients, frame: Any) -> tuple[Floats, list[str]]:
    """Return the rows of a frame, and of each what is held at its public bounds."""
    encoding = posterior.formula.design
    named = getattr(frame, "column_names", getattr(frame, "columns", ()))  # as Arrow and as pandas call them
    named = frame if isinstance(frame, Mapping) else named
    refuse_unknown(named, _columns(posterior.formula))
    values: list[Any] = []
    ones: list[bool] = []
    for name, column in _columns(posterior.formula).items():
        try:
            given = 1.0 if name == posterior.formula.exposure and name not in named else frame[name]
        except (KeyError, TypeError, IndexError, ValueError):
            raise InvalidData(f"to predict, give the columns {', '.join(_columns(posterior.formula))}") from None
        ones.append(given is None or isinstance(given, str | int | float | np.generic))
        given = [given] if ones[-1] else given
        values.append(as_codes(given, column.categories, -1) if isinstance(column, Category) else as_numbers(given))
    if not values:
        count = max(len(frame) if hasattr(frame, "__len__") else 1, 1)
        return encoding.rows([], count)[0], [""] * count
    sizes = {name: len(v) for name, v, item in zip(encoding.names, values, ones, strict=True) if not item}
    if len(set(sizes.values())) > 1:
        said = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise InvalidData(f"to predict, give columns of one length, or one value for all rows. Got {said}")
    n = next(iter(sizes.values()), 1)
    values = [np.repeat(v, n) if item else v for v, item in zip(values, ones, strict=True)]
    if posterior.formula.exposure is not None:
        values[-1] = _log_of(posterior.formula.exposure, values[-1])
        place = encoding.names.index(posterior.formula.log_exposure)
        values.insert(place, values.pop())
    rows, known = encoding.rows(values)
    if not known.all():
        where = _first(encoding, values)
        raise InvalidData(f"a row to predict for has a value that the facts do not allow, or none: {where}")
    if (offset := posterior.formula.offset) is not None:  # rates are proportional to it, also beyond its bounds
        scale = encoding.scale(place)
        rows[:, offset] = (values[place] - scale.middle) / scale.half
    return rows, _held(posterior, values)


def _log_of(name: str, exposures: Floats) -> Floats:
    """Return the logarithms of exposures to predict for."""
    if not np.all(np.isfinite(exposures) & (exposures > 0)):
        raise InvalidData(f"to predict, give an exposure {name} above zero, or none for a rate per unit")
    return np.asarray(np.log(exposures))


def _first(encoding: Any, values: list[Floats]) -> str:
    """Return the place of the first value that stands for nothing, in words."""
    for place, (name, column) in enumerate(zip(encoding.names, encoding.columns, strict=True)):
        absent = values[place] < 0 if isinstance(column, Category) else np.isnan(values[place])
        if encoding.default(place) is None and absent.any():
            levels = f"; there are {', '.join(map(str, column.categories))}" if isinstance(column, Category) else ""
            return f"{name} of row {int(np.argmax(absent))}{levels}"
    raise AssertionError("every value is known")


def _held(posterior: Coefficients, values: list[Floats]) -> list[str]:
    """Return for each row which columns are held at which bound: nothing, where none is."""
    encoding = posterior.formula.design
    said = [""] * len(values[0])
    for place, (name, column) in enumerate(zip(encoding.names, encoding.columns, strict=True)):
        if levels_of(column) is not None or name == posterior.formula.log_exposure:
            continue
        scale = encoding.scale(place)
        for row in np.flatnonzero((values[place] < scale.low) | (values[place] > scale.high)):
            end = scale.low if values[place][row] < scale.low else scale.high
            said[row] += f"{', ' if said[row] else ''}{name} at {end:g}"
    return said


def effect(posterior: Coefficients, column: str, at: Mapping[str, object], level: float) -> Any:
    """Return what one column does, see `Regression.effect`."""
    import pandas as pd  # noqa: PLC0415 - an extra

    encoding, columns = posterior.formula.design, _columns(posterior.formula)
    if column not in columns:
        raise InvalidValue(f"the formula has no column {column!r}; there are {', '.join(columns)}")
    if (by := _by(columns, at)) is not None:
        others = {name: value for name, value in at.items() if name != _BY}
        values = levels_of(columns[by]) or () if by in columns else ()
        if not values or by == column:
            raise InvalidValue(f"by= names another category or flag of the formula. Got {shown(by)}")
        apart = [effect(posterior, column, others | {by: value}, level) for value in values]
        for value, table in zip(values, apart, strict=True):
            table.insert(1, by, value)
        return pd.concat(apart, ignore_index=True)
    if unknown := [name for name in at if name not in columns or name == column]:
        raise InvalidValue(f"the formula has no column {unknown[0]!r} to be held")
    held: dict[str, Any] = {}
    for name, fact in columns.items():
        if name == posterior.formula.exposure and name != column:
            held[name] = at.get(name, 1.0)  # a rate per unit of it
            continue
        levels = levels_of(fact)
        span = None if levels is not None else _span(encoding, name, fact)
        if name == column:
            held[name] = list(levels) if levels is not None else np.linspace(span.low, span.high, 41).tolist()  # type: ignore[union-attr]
        elif name in at:
            held[name] = at[name]
        else:
            held[name] = levels[0] if levels is not None else (span.low + span.high) / 2  # type: ignore[union-attr]
    size = len(held[column])
    result = predict(posterior, held, level)
    given = np.array(held[column], dtype=object)
    times = len(result) // size
    result.insert(0, column, pd.Series(np.repeat(given, times)).infer_objects())
    return result.drop(columns=["row"], errors="ignore")


def _by(columns: Mapping[str, Column], at: Mapping[str, object]) -> Any:
    """Return the column whose values are set apart, if any; a column of the formula may be called so itself."""
    return None if _BY in columns else at.get(_BY)


def _span(encoding: Any, name: str, column: Column) -> Scale:
    """Return the bounds of a number, an exposure's among them."""
    if name in encoding.names:
        result: Scale = encoding.scale(encoding.names.index(name))
        return result
    return scale_of(column, centred=True)


def plot_effect(posterior: Coefficients, column: str, at: Mapping[str, object], level: float, ax: object = None) -> Any:
    """Return a figure of `effect`: a curve over the range of a number, and a row for each level of other columns."""
    result = effect(posterior, column, at, level)
    response, named = posterior.formula.parsed.response, f"expected {words(posterior.formula.predicted)}"
    by = _by(_columns(posterior.formula), at)
    if by is not None and response in result:
        raise InvalidValue(
            f"{response!r} has several values, each a curve of its own: hold {by} at one value, {by}=…, in place of by="
        )
    apart = by if by is not None else response
    groups = [(None, result)] if apart not in result else list(result.groupby(apart, sort=False))
    numbers, levels = not isinstance(posterior.formula.facts[column], Category | Flag), len(groups[0][1])
    row = _ROW + _BESIDE * (len(groups) - 1)
    wide = 5.6 + _LEGEND * (len(groups) > 1)
    drawing, axes = figure(width=wide, height=3.6 if numbers else max(2.0, 1.0 + row * levels), ax=ax)
    for k, (name, part) in enumerate(groups):
        colour = COLOURS[k % len(COLOURS)]
        if numbers:
            x = part[column].to_numpy(dtype=float)
            axes.fill_between(x, part["low"], part["high"], color=colour, alpha=0.2)
            axes.plot(x, part["estimate"], color=colour, label=words(name))
        else:
            off = np.maximum([part["estimate"] - part["low"], part["high"] - part["estimate"]], 0)
            places = np.arange(levels)[::-1] - (k - (len(groups) - 1) / 2) * _BESIDE / row
            axes.errorbar(part["estimate"], places, xerr=off, fmt="o", color=colour, capsize=3, label=words(name))
    if len(groups) > 1:  # beside the axes, where it hides nothing
        axes.legend(title=words(apart), loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    if numbers:
        axes.set_xlabel(words(column))
        axes.set_ylabel(named)
    else:
        axes.set_yticks(np.arange(levels)[::-1], [words(value) for value in groups[0][1][column]])
        axes.set_ylim(-0.7, levels - 0.3)
        axes.set_xlabel(named)
        axes.set_ylabel(words(column))
    titled(drawing, f"{posterior.formula.describe()} ({percent(level)} intervals)", ax)
    return drawing
