"""A look at a regression as one query: the row, its weight, the residual and all sums are plain SQL of the engine."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import ibis
import numpy as np

from sottovoce.records.facts.columns import Category, Flag
from sottovoce.records.facts.encodings import LEAST, Encoding, Scale
from sottovoce.records.facts.splines import LEAST as SPLINE_LEAST
from sottovoce.records.facts.splines import Spline
from sottovoce.records.readings import Look, Statistics
from sottovoce.records.readings.families import EDGE, FARTHEST, HART
from sottovoce.records.tables.categories import category_code
from sottovoce.records.tables.engine import number
from sottovoce.records.tables.query_plans import PlannedQuery, QueryPlan
from sottovoce.records.tables.sql_text import SqlText, case, cut, double, ordered

_ONE, _ZERO = double(1.0), double(0.0)
_DEEP = 24
"""So many powers are added up in one query: engines, and what reads SQL for them, follow brackets only so deep."""


def look(asked: PlannedQuery, reading: Look) -> QueryPlan:
    """Plan n and the sums of a look; a record outside of `kept`, or with a missing value, adds nothing but its n."""
    asked.take(len(reading.columns))
    rows = contributions(asked, reading)
    return looked(rows, sums_of(reading), steps=True)


def looked(rows: SqlText, sums: Sequence[str], *, steps: bool = False) -> QueryPlan:
    """Plan n and the sums of what each record gives."""
    totals = {f"s{k}": rows.total(value, steps=steps) for k, value in enumerate(sums)}
    query = rows.select({"n": "CAST(COUNT(*) AS TEXT)", **totals})
    return QueryPlan(query, lambda row: Statistics(row[0], np.array(row[1:], dtype=np.float64)))


def contributions(asked: PlannedQuery, reading: Look, *along: str, **carried: object) -> SqlText:
    """Return whole steps of each record (see `_weighed`); what is carried goes along, and `known` if anything does.

    Of a record that is not `known` the factors are zero, and whatever else was made of it is multiplied by them.
    """
    asked.no_missing("each column says itself what a missing value counts as")
    engine, encoding = asked.engine, reading.encoding
    names = asked.names[: len(reading.columns)]
    defaults = [*(encoding.default(k) for k in range(len(encoding.columns))), reading.model.default]
    values = [column_value(asked, *each) for each in zip(names, reading.columns, defaults, strict=True)]
    known = [
        value.notnull() & ~value.isnan() for value, default in zip(values, defaults, strict=True) if default is None
    ]
    kept = ibis.literal(True) if asked.kept is None else asked.kept
    named = {f"c{k}": value for k, value in enumerate(values)}
    sure = functools.reduce(operator.and_, [kept, *known]).fill_null(False)
    rows = SqlText(engine, engine.stage(asked.records.select(**named, known=sure, **carried)))
    along = ("known", *carried)
    entries = {f"x{i}": entry_of(engine, encoding, entry) for i, entry in enumerate(encoding.entries)}
    rows = rows.select(entries | {"y": _outcome(engine, f"c{len(values) - 1}", reading)}, *along)
    x = [f"x{j}" for j in range(encoding.size)]
    rows = rows.packed("xs", x, "y", *along)
    z = {f"z{i}": rows.combined("xs", x, row) for i, row in enumerate(reading.matrix)}
    rows = rows.select(z, "y", *along).packed("zs", list(z), "y", *along)
    t = {f"t{k}": rows.combined("zs", list(z), row) for k, row in enumerate(reading.predictors)}
    c, k, squares = double(reading.norm**2), reading.model.stretch, rows.squares("zs", list(z))
    if k == 1:
        rows = rows.select({"v": f"{c} / GREATEST({squares}, {c})", **t}, *z, "y", *along)
    else:
        rows = rows.select({"part": f"{double(reading.norm)} / SQRT(GREATEST({squares}, {c}))", **t}, *z, "y", *along)
        rows = rows.select({"v": f"part * LEAST({double(k)} * part, {_ONE})"}, *t, *z, "y", *along)
    return _weighed(rows, reading, (*z, *along), along if carried else ())


def column_value(asked: PlannedQuery, name: str, column: object, default: float | None) -> Any:
    """Return a column as doubles, of categories the place of each, and what a missing one counts as in its place."""
    if isinstance(column, Category):
        code = category_code(asked.engine, asked.value(name, column.categories, cut=False), column.categories, -1)
        value = code.nullif(-1).cast("float64")
    else:
        value = asked.value(name, cut=False).cast("float64")
    if default is None:
        return value
    return ibis.cases((value.isnan(), number(default)), (value.notnull(), value), else_=number(default))


def entry_of(engine: object, encoding: Encoding, entry: Sequence[tuple[int, int]]) -> str:
    """Return an entry of a row, a product of scaled numbers, functions of splines and indicators of levels."""
    factors = []
    for place, level in entry:
        column, value = encoding.columns[place], f"c{place}"
        if isinstance(column, Flag):
            value = case(f"{value} <> {_ZERO}", _ONE, _ZERO)
        if level < -1:
            scale = encoding.scale(place)
            part = f"(({cut(value, scale.low, scale.high)} - {double(scale.low)}) / {double(scale.high - scale.low)})"
            factors.append(_curved(engine, part, encoding.spline(place), -2 - level))
        elif level < 0:
            factors.append(_scaled(engine, value, encoding.scale(place)))
        else:
            factors.append(case(f"{value} = {double(float(level))}", _ONE, _ZERO))
    return " * ".join(factors) or _ONE


def _scaled(engine: Any, value: str, scale: Scale) -> str:
    off = f"({cut(value, scale.low, scale.high)} - {double(scale.middle)})"
    if engine.underflows:
        off = case(f"ABS({off}) < {double(LEAST * scale.half)}", _ZERO, off)
    return f"({off} / {double(scale.half)})"


def _curved(engine: Any, part: str, spline: Spline, which: int) -> str:
    """Return a function of a spline, a cubic of the distance from the edge of each piece, held between its bounds."""
    edges, powers = spline.edges.tolist(), spline.coefficients[which].tolist()
    result = ""
    for k, piece in reversed(list(enumerate(powers))):
        off = f"({part} - {double(edges[k])})"
        if engine.underflows:
            off = case(f"{off} < {double(SPLINE_LEAST)}", _ZERO, off)
        value = _polynomial(off, piece[::-1])
        result = case(f"{part} < {double(edges[k + 1])}", value, result) if result else value
    return cut(result, *spline.ends(which))


def _outcome(engine: object, value: str, reading: Look) -> str:
    family: Any = reading.model
    if reading.family in ("logistic", "probit"):
        return case(f"{value} <> {_ZERO}", _ONE, _ZERO)
    if reading.family == "linear":
        return _scaled(engine, value, family.scale)
    if reading.family == "poisson":
        full = f"CAST(FLOOR({cut(value, float(family.beyond), float(family.most))}) AS DOUBLE)"
        return f"({full} - {double(float(family.beyond))})" if family.beyond else full
    return value


def _weighed(rows: SqlText, reading: Look, held: tuple[str, ...], along: tuple[str, ...]) -> SqlText:
    """Return whole steps: w0, w1, … of the score, and u0_0, u0_1, … for each root of the information."""
    d, word = reading.encoding.size, reading.family
    pull, lean = map(double, reading.factors)
    if word == "multinomial":
        return _several(rows, reading, held, along)
    slope, p = _ONE, "t0"
    if word == "logistic":
        rows = rows.select({"p": f"{_ONE} / ({_ONE} + EXP(-{cut('t0', -FARTHEST, FARTHEST)}))"}, *held, "y", "v")
        slope, p = f"p * ({_ONE} - p)", "p"
    elif word == "probit":
        rows = rows.select({"far": f"LEAST(ABS(t0), {double(EDGE)})"}, *held, "y", "v", "t0")
        above, below = (_polynomial("far", part) for part in HART)
        rows = rows.select({"bell": f"EXP(-(far * far) / {double(2.0)})"}, *held, "y", "v", "t0", "far")
        rows = rows.select({"tail": f"bell * {above} / {below}"}, *held, "y", "v", "t0", "bell")
        p = case(f"t0 > {_ZERO}", f"{_ONE} - tail", "tail")
        slope = f"(bell / {double(math.sqrt(2 * math.pi))})"
    elif reading.model.upward:
        slope, p = _ZERO, _ZERO
    elif word == "poisson":
        family: Any = reading.model
        rows = rows.select({"m": f"EXP({cut('t0', -FARTHEST, family.farthest)})"}, *held, "y", "v")
        s, e = "m", "EXP(-m)"
        if family.extra:
            grown = f"({_ONE} + {double(family.extra)} * m)"
            s, e = f"m / {grown}", f"EXP(-LN({grown}) / {double(family.extra)})"
        rows = rows.select({"s": s, "e": e}, *held, "y", "v")
        remainder, so_far = family.powers, ("", "")
        while len(remainder[0]) > _DEEP:
            parts = [_polynomial("s", part[:_DEEP], start) for part, start in zip(remainder, so_far, strict=True)]
            remainder, so_far = tuple(part[_DEEP:] for part in remainder), ("above", "below")
            rows = rows.select(dict(zip(so_far, parts, strict=True)), *held, "y", "v", "s", "e")
        above, below = (_polynomial("s", part, start) for part, start in zip(remainder, so_far, strict=True))
        slope, p = f"(s * e * {below})", f"({double(float(family.most))} - e * {above})"
    off = f"(y - {p})"
    if word == "linear" and reading.cap:
        slope = case(f"ABS({off}) <= {double(reading.cap)}", _ONE, _ZERO)
        off = cut(off, -reading.cap, reading.cap)
        if reading.beyond:
            off = f"({off} - {cut(off, -reading.beyond, reading.beyond)})"
    factors = {"fw": f"{pull} * v * {off}", "fu": f"{lean} * SQRT(v * {slope})"}
    rows = rows.select({name: case("known", value, _ZERO) for name, value in factors.items()}, *held)
    steps = {f"w{i}": rows.step(f"z{i} * fw") for i in range(d)}
    if "information" in reading.parts:
        steps |= {f"u0_{i}": rows.step(f"z{i} * fu") for i in range(d)}
    return rows.select(steps, *along)


def _polynomial(x: str, coefficients: Sequence[float], so_far: str = "") -> str:
    """Return a polynomial by Horner's rule, the highest power first; what is `so_far` of it comes before them."""
    value, *remainder = [so_far] * bool(so_far) + [double(coefficient) for coefficient in coefficients]
    for coefficient in remainder:
        value = f"({value} * {x} + {coefficient})"
    return value


def _several(rows: SqlText, reading: Look, held: tuple[str, ...], along: tuple[str, ...]) -> SqlText:
    """Return the whole steps where there is a linear predictor for each class but the first."""
    d, K = reading.encoding.size, reading.model.outputs
    pull, lean = map(double, reading.factors)
    powers = {f"e{k}": f"EXP({cut(f't{k}', -FARTHEST, FARTHEST)})" for k in range(K)}
    rows = rows.select(powers, *held, "y", "v")
    below = f"({ordered([_ONE, ordered(powers)])})" if K == 1 else f"({_ONE} + ({ordered(powers)}))"
    classes = {f"p{k + 1}": f"e{k} / {below}" for k in range(K)}
    rows = rows.select(classes, *held, "y", "v")
    shares = [f"GREATEST({_ONE} - ({ordered(classes)}), {_ZERO})", *classes]
    factors = {"fw": f"{pull} * v"} | {f"f{k}": f"{lean} * SQRT(v * {share})" for k, share in enumerate(shares)}
    rows = rows.select({name: case("known", value, _ZERO) for name, value in factors.items()}, *held, "y", *classes)

    def hit(k: int) -> str:
        return f"({case(f'y = {double(float(k + 1))}', _ONE, _ZERO)} - p{k + 1})"

    steps = {f"w{k * d + i}": rows.step(f"{hit(k)} * (z{i} * fw)") for k in range(K) for i in range(d)}
    if "information" in reading.parts:
        for m in range(K + 1):
            for k in range(K):
                off = f"({double(1.0 if m == k + 1 else 0.0)} - p{k + 1})"
                steps |= {f"u{m}_{k * d + i}": rows.step(f"{off} * (z{i} * f{m})") for i in range(d)}
    return rows.select(steps, *along)


def sums_of(reading: Look, information: Callable[[int, int], str] | None = None) -> list[str]:
    """Return what is added up, in the order of the blocks: products of whole numbers, which no engine rounds."""
    D, squares = reading.dimension, information or (lambda i, j: product(reading, i, j))
    result = []
    for name in reading.sizes:
        part = name.removesuffix(" off")
        if part == "score":
            result += [f"w{i}" for i in range(D)]
        else:
            pairs = places(D, off=name.endswith(" off"))
            result += [f"w{i} * w{j}" if part == "meat" else squares(i, j) for i, j in pairs]
    return result


def places(D: int, *, off: bool) -> list[tuple[int, int]]:
    """Return the entries of a symmetric matrix on its diagonal, or above it."""
    return [(i, j) for i in range(D) for j in range(i + 1, D)] if off else [(i, i) for i in range(D)]


def product(reading: Look, i: int, j: int) -> str:
    """Return an entry of a record's information: the products of all its roots."""
    roots = 1 if reading.model.outputs == 1 else reading.model.outputs + 1
    return ordered(f"u{m}_{i} * u{m}_{j}" for m in range(roots))
