"""A look at an ordinal regression as one query: every cut's score and information side by side in a record's row."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Iterable

import ibis

from sottovoce.records.facts.columns import Category
from sottovoce.records.readings import OrdinalLook
from sottovoce.records.readings.family import FARTHEST
from sottovoce.records.tables.look_queries import column_value, entry_of, looked
from sottovoce.records.tables.query_plans import PlannedQuery, QueryPlan
from sottovoce.records.tables.sql_text import SqlText, case, cut, double, ordered, weighed_sum

_ONE, _ZERO = double(1.0), double(0.0)


def ordinal_look(asked: PlannedQuery, reading: OrdinalLook) -> QueryPlan:
    """Plan n and the sums of a look; a record outside of `kept`, or with a missing value, adds nothing but its n."""
    asked.take(len(reading.columns))
    asked.no_missing("each column says itself what a missing value counts as")
    engine, encoding, cuts = asked.engine, reading.plain, range(reading.cuts)
    defaults = [*(encoding.default(k) for k in range(len(encoding.columns))), reading.default()]
    names = asked.names[: len(reading.columns)]
    values = [column_value(asked, *each) for each in zip(names, reading.columns, defaults, strict=True)]
    known = [
        value.notnull() & ~value.isnan() for value, default in zip(values, defaults, strict=True) if default is None
    ]
    kept = ibis.literal(True) if asked.kept is None else asked.kept
    sure = functools.reduce(operator.and_, [kept, *known]).fill_null(False)
    named = {f"c{k}": value for k, value in enumerate(values)}
    rows = SqlText(engine, engine.stage(asked.records.select(**named, known=sure)))
    last = f"c{len(values) - 1}"
    place = last if isinstance(reading.response, Category) else f"FLOOR({cut(last, 0.0, float(reading.cuts))})"
    entries = {f"x{i}": entry_of(engine, encoding, entry) for i, entry in enumerate(encoding.entries)}
    inside = {name: case("known", value, _ZERO) for name, value in (entries | {"y": place}).items()}
    rows = rows.select(inside, "known")
    D, d = range(reading.dimension), encoding.size
    plain = {f"b{i}": weighed_sum(weights[:d], entries) for i, weights in enumerate(reading.matrix.tolist())}
    rows = rows.select(plain, "y", "known")
    offsets = reading.offsets.tolist()
    z = {f"z{k}_{i}": f"b{i} + {double(offsets[k][i])}" for k in cuts for i in D}
    rows = rows.select(z, "y", "known")
    each = [[f"z{k}_{i}" for i in D] for k in cuts]
    full, theta = double(reading.norm**2), reading.predictors[0].tolist()
    weights = {f"v{k}": f"{full} / GREATEST({ordered(f'{name} * {name}' for name in each[k])}, {full})" for k in cuts}
    chances = {
        f"p{k}": f"{_ONE} / ({_ONE} + EXP(-{cut(weighed_sum(theta, each[k]), -FARTHEST, FARTHEST)}))" for k in cuts
    }
    rows = rows.select(weights | chances, *z, "y", "known")
    pull, lean = double(reading.factors[0] / reading.cuts), double(reading.factors[1] ** 2 / reading.cuts)
    above = {k: case(f"y > {double(float(k))}", _ONE, _ZERO) for k in cuts}
    pulls = {f"f{k}": case("known", f"{pull} * v{k} * ({above[k]} - p{k})", _ZERO) for k in cuts}
    leans = {f"h{k}": case("known", f"{lean} * v{k} * (p{k} * ({_ONE} - p{k}))", _ZERO) for k in cuts}
    rows = rows.select(pulls | leans, *z)
    pairs = [*((i, i) for i in D), *itertools.combinations(D, 2)]
    steps = [_total(f"f{k} * z{k}_{i}" for k in cuts) for i in D]
    steps += [_total(f"h{k} * (z{k}_{i} * z{k}_{j})" for k in cuts) for i, j in pairs]
    rows = rows.select({f"w{k}": rows.step(value) for k, value in enumerate(steps)})
    return looked(rows, [f"w{k}" for k in range(len(steps))], steps=True)


def _total(parts: Iterable[str]) -> str:
    """Return a sum added from zero on, in brackets."""
    return f"({ordered([_ZERO, *parts])})"
