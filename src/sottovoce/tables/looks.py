"""A look at a regression as one query: the row, its weight, the residual and all sums are plain SQL of the engine."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import ibis
import numpy as np

from sottovoce.facts.columns import Category, Flag
from sottovoce.facts.encodings import LEAST, Scale
from sottovoce.readings import Look, Statistics
from sottovoce.readings.families import EDGE, FARTHEST, HART
from sottovoce.tables.cross_counts import category_code
from sottovoce.tables.engine import number
from sottovoce.tables.plans import Asked, Plan

__all__ = ["contributions", "look", "looked", "places", "product", "sums_of"]

_LARGEST = float(np.finfo(np.float64).max)


def look(asked: Asked, reading: Look) -> Plan:
    """Plan n and the sums of a look; a record outside of `kept`, or with a missing value, adds nothing but its n."""
    asked.take(len(reading.columns))
    rows = contributions(asked, reading)
    return looked(rows, sums_of(rows, reading), asked.engine.grand)


def looked(rows: Any, sums: Sequence[Any], add: Callable[[Any], Any]) -> Plan:
    """Plan n and the sums of what each record gives."""
    totals = {f"s{k}": add(value) for k, value in enumerate(sums)}
    query = rows.aggregate(n=rows.count().cast("string"), **totals)
    return Plan(query, lambda row: Statistics(row[0], np.array(row[1:], dtype=np.float64)))


def contributions(asked: Asked, reading: Look, **carried: Any) -> Any:
    """Return whole steps of each record (see `_weighed`); what is carried goes along, and `known` if anything does."""
    asked.no_missing("each column says itself what a missing value counts as")
    engine, encoding = asked.engine, reading.encoding
    names = asked.names[: len(reading.columns)]
    values = [_value(asked, name, column) for name, column in zip(names, reading.columns, strict=True)]
    defaults = [*(encoding.default(k) for k in range(len(encoding.columns))), reading.model.default]
    named = {f"c{k}": _filled(value, default) for k, (value, default) in enumerate(zip(values, defaults, strict=True))}
    kept = ibis.literal(True) if asked.kept is None else asked.kept.fill_null(False)
    raw = engine.stage(asked.records.select(**named, kept=kept, **carried))
    known = functools.reduce(operator.and_, [raw.kept, *(raw[name].notnull() for name in named)])
    entries = {
        f"x{i}": ibis.cases((known, _entry(raw, reading, entry)), else_=number(0.0))
        for i, entry in enumerate(encoding.entries)
    }
    outcome = ibis.cases((known, _outcome(raw[f"c{len(values) - 1}"], reading)), else_=number(0.0))
    along = {name: raw[name] for name in carried} | ({"known": known} if carried else {})
    rows = engine.stage(raw.select(**entries, y=outcome, **along))
    z = {f"z{i}": _combined([rows[f"x{j}"] for j in range(encoding.size)], row) for i, row in enumerate(reading.matrix)}
    rows = engine.stage(rows.select(**z, y=rows.y, **{name: rows[name] for name in along}))
    columns = [rows[name] for name in z]
    squares = functools.reduce(operator.add, [column * column for column in columns])
    t = {f"t{k}": _combined(columns, row) for k, row in enumerate(reading.predictors)}
    c = number(reading.norm**2)
    rows = engine.stage(rows.mutate(v=c / ibis.greatest(squares, c), **t))
    return _weighed(engine, rows, reading, tuple(along))


def _value(asked: Asked, name: str, column: Any) -> Any:
    """Return a column as doubles, null where missing: of categories the place of each."""
    if isinstance(column, Category):
        code = category_code(asked.engine, asked.value(name, column.categories, cut=False), column.categories, -1)
        return code.nullif(-1).cast("float64")
    value = asked.value(name, cut=False).cast("float64")
    # NaN goes first, for engines order it differently; what is infinite is cut to the bounds.
    return ibis.cases((value.isnan(), ibis.null("float64")), else_=value)


def _filled(value: Any, default: float | None) -> Any:
    return value if default is None else value.fill_null(number(default))


def _entry(raw: Any, reading: Look, entry: Sequence[tuple[int, int]]) -> Any:
    encoding, factors = reading.encoding, []
    for place, level in entry:
        column, value = encoding.columns[place], raw[f"c{place}"]
        if isinstance(column, Flag):
            value = ibis.cases((value != number(0.0), number(1.0)), else_=number(0.0))
        if level < 0:
            factors.append(_scaled(value, encoding.scale(place)))
        else:
            factors.append(ibis.cases((value == number(float(level)), number(1.0)), else_=number(0.0)))
    return functools.reduce(operator.mul, factors) if factors else number(1.0)


def _scaled(value: Any, scale: Scale) -> Any:
    off = ibis.greatest(ibis.least(value, number(scale.high)), number(scale.low)) - number(scale.middle)
    least = number(LEAST * scale.half)
    return ibis.cases((off.abs() < least, number(0.0)), else_=off) / number(scale.half)


def _outcome(value: Any, reading: Look) -> Any:
    family, word = reading.model, reading.family
    if word in ("logistic", "probit"):
        return ibis.cases((value != number(0.0), number(1.0)), else_=number(0.0))
    if word == "linear":
        return _scaled(value, family.scale)  # type: ignore[attr-defined]
    if word == "poisson":
        return ibis.greatest(ibis.least(value, number(float(family.most))), number(0.0)).floor().cast("float64")  # type: ignore[attr-defined]
    return value


def _combined(columns: Sequence[Any], weights: Sequence[float]) -> Any:
    """Return Σ columns·weights, added from left to right as in memory."""
    parts = [column * number(float(weight)) for column, weight in zip(columns, weights, strict=True) if weight != 0]
    return functools.reduce(operator.add, parts) if parts else number(0.0)


def _cut(value: Any, low: float, high: float) -> Any:
    return ibis.greatest(ibis.least(value, number(high)), number(low))


def _weighed(engine: Any, rows: Any, reading: Look, along: tuple[str, ...]) -> Any:
    """Return whole steps: w0, w1, … of the score, and u0_0, u0_1, … for each root of the information."""
    d, word = reading.encoding.size, reading.family
    pull, lean = map(number, reading.factors)
    z = {name: rows[name] for name in (*(f"z{i}" for i in range(d)), *along)}
    if word == "multinomial":
        return _several(engine, rows, reading, along)
    t = rows.t0
    if word == "logistic":
        rows = engine.stage(
            rows.select(**z, y=rows.y, v=rows.v, p=number(1.0) / (number(1.0) + (-_cut(t, -FARTHEST, FARTHEST)).exp()))
        )
        slope = rows.p * (number(1.0) - rows.p)
    elif word == "probit":
        rows = engine.stage(rows.mutate(size=ibis.least(t.abs(), number(EDGE))))
        above, below = (_polynomial(rows["size"], part) for part in HART)
        bell = (-(rows["size"] * rows["size"]) / number(2.0)).exp()
        rows = engine.stage(rows.mutate(bell=bell, tail=bell * above / below))
        p = ibis.cases((rows.t0 > number(0.0), number(1.0) - rows.tail), else_=rows.tail)
        rows = engine.stage(rows.mutate(p=p))
        slope = rows.bell / number(math.sqrt(2 * math.pi))
    elif word == "poisson":
        family: Any = reading.model
        rows = engine.stage(rows.mutate(m=_cut(t, -FARTHEST, family.farthest).exp()))
        above, below = (_polynomial(rows.m, part) for part in family.powers)
        rows = engine.stage(
            rows.mutate(p=number(float(family.most)) - (-rows.m).exp() * above, s=rows.m * (-rows.m).exp() * below)
        )
        slope = rows.s
    else:
        rows = rows.mutate(p=t)
        slope = number(1.0)
    off = rows.y - rows.p
    if word == "linear" and reading.cap:
        slope = ibis.cases((off.abs() <= number(reading.cap), number(1.0)), else_=number(0.0))
        off = _cut(off, -reading.cap, reading.cap)
    rows = engine.stage(
        rows.select(
            **{name: rows[name] for name in z},
            fw=pull * rows.v * off,
            fu=lean * (rows.v * slope).sqrt(),
        )
    )
    steps = {f"w{i}": engine.step(rows[f"z{i}"] * rows.fw) for i in range(d)}
    if "information" in reading.parts:
        steps |= {f"u0_{i}": engine.step(rows[f"z{i}"] * rows.fu) for i in range(d)}
    return engine.stage(rows.select(**steps, **{name: rows[name] for name in along}))


def _polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    value = number(coefficients[0])
    for coefficient in coefficients[1:]:
        value = value * x + number(coefficient)
    return value


def _several(engine: Any, rows: Any, reading: Look, along: tuple[str, ...]) -> Any:
    """Return the whole steps where there is a linear predictor for each class but the first."""
    d, K = reading.encoding.size, reading.model.outputs
    pull, lean = map(number, reading.factors)
    powers = {f"e{k}": _cut(rows[f"t{k}"], -FARTHEST, FARTHEST).exp() for k in range(K)}
    rows = engine.stage(rows.mutate(**powers))
    below = number(1.0) + functools.reduce(operator.add, [rows[name] for name in powers])
    rows = engine.stage(rows.mutate(**{f"p{k + 1}": rows[f"e{k}"] / below for k in range(K)}))
    classes = [rows[f"p{k + 1}"] for k in range(K)]
    rest = ibis.greatest(number(1.0) - functools.reduce(operator.add, classes), number(0.0))
    shares = [rest, *classes]
    factors = {f"f{k}": lean * (rows.v * share).sqrt() for k, share in enumerate(shares)}
    rows = engine.stage(rows.mutate(fw=pull * rows.v, **factors))

    def hit(k: int) -> Any:
        return ibis.cases((rows.y == number(float(k + 1)), number(1.0)), else_=number(0.0)) - rows[f"p{k + 1}"]

    steps = {f"w{k * d + i}": engine.step(hit(k) * (rows[f"z{i}"] * rows.fw)) for k in range(K) for i in range(d)}
    if "information" in reading.parts:
        for m in range(K + 1):
            for k in range(K):
                off = number(1.0 if m == k + 1 else 0.0) - rows[f"p{k + 1}"]
                steps |= {f"u{m}_{k * d + i}": engine.step(off * (rows[f"z{i}"] * rows[f"f{m}"])) for i in range(d)}
    return engine.stage(rows.select(**steps, **{name: rows[name] for name in along}))


def sums_of(rows: Any, reading: Look, information: Callable[[int, int], Any] | None = None) -> list[Any]:
    """Return what is added up, in the order of the blocks: products of whole numbers, which no engine rounds."""
    D, squares = reading.dimension, information or (lambda i, j: product(rows, reading, i, j))
    found = []
    for name in reading.sizes:
        part = name.removesuffix(" off")
        if part == "score":
            found += [rows[f"w{i}"] for i in range(D)]
        else:
            pairs = places(D, off=name.endswith(" off"))
            found += [rows[f"w{i}"] * rows[f"w{j}"] if part == "meat" else squares(i, j) for i, j in pairs]
    return found


def places(D: int, *, off: bool) -> list[tuple[int, int]]:
    """Return the entries of a symmetric matrix on its diagonal, or above it."""
    return [(i, j) for i in range(D) for j in range(i + 1, D)] if off else [(i, i) for i in range(D)]


def product(rows: Any, reading: Look, i: int, j: int) -> Any:
    """Return an entry of a record's information: the products of all its roots."""
    roots = 1 if reading.model.outputs == 1 else reading.model.outputs + 1
    return functools.reduce(operator.add, [rows[f"u{m}_{i}"] * rows[f"u{m}_{j}"] for m in range(roots)])
