"""A look at a hazard regression as one query: what each record gathers in every interval is plain SQL of the engine."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Collection

import ibis

from sottovoce.records.facts.encodings import LEAST
from sottovoce.records.readings import HazardLook
from sottovoce.records.readings.family import FARTHEST
from sottovoce.records.tables.look_queries import column_value, entry_of, looked
from sottovoce.records.tables.query_plans import PlannedQuery, QueryPlan
from sottovoce.records.tables.sql_text import SqlText, case, cut, double, ordered, weighed_sum

_ONE, _ZERO = double(1.0), double(0.0)


def hazard_look(asked: PlannedQuery, reading: HazardLook) -> QueryPlan:
    """Plan n and the sums of a look; a record outside of `kept`, or with a missing value, adds nothing but its n."""
    asked.take(len(reading.columns))
    asked.no_missing("each column says itself what a missing value counts as")
    engine, encoding = asked.engine, reading.encoding
    d, J = encoding.size, reading.intervals
    defaults = [reading.default(place) for place in range(len(reading.columns))]
    names = asked.names[: len(reading.columns)]
    values = [column_value(asked, *each) for each in zip(names, reading.columns, defaults, strict=True)]
    known = [
        value.notnull() & ~value.isnan() for value, default in zip(values, defaults, strict=True) if default is None
    ]
    kept = ibis.literal(True) if asked.kept is None else asked.kept
    named = {f"c{k}": value for k, value in enumerate(values)}
    sure = functools.reduce(operator.and_, [kept, *known]).fill_null(False)
    rows = SqlText(engine, engine.stage(asked.records.select(**named, known=sure)))
    entries = {f"x{i}": entry_of(engine, encoding, entry) for i, entry in enumerate(encoding.entries)}
    first = len(encoding.columns)
    outcomes = {name: f"c{first + place}" for place, name in enumerate("ets"[: len(values) - first])}
    times = {name: _near(value, reading) for name, value in outcomes.items() if name != "e"}
    rows = rows.select(entries | {"e": f"{outcomes['e']} <> {_ZERO}"} | times, "known")
    z = [f"z{i}" for i in range(d)]
    turned = {
        name: f"{weighed_sum(weights, entries)} + {double(off)}"
        for name, weights, off in zip(z, reading.shape, reading.offset.tolist(), strict=True)
    }
    rows = rows.select(turned, *outcomes, "known")
    squares, full = ordered(f"{name} * {name}" for name in z), double(reading.norm**2)
    starts = (0.0, *reading.cuts[:-1])
    spans = {
        f"a{j}": f"GREATEST(LEAST(t, {double(end)}) - {_from(double(start), outcomes)}, {_ZERO})"
        for j, (start, end) in enumerate(zip(starts, reading.cuts, strict=True))
    }
    growth = f"EXP({cut(weighed_sum(reading.slopes.tolist(), z), -FARTHEST, FARTHEST)})"
    weight = f"{full} / GREATEST({squares} + {double(reading.constant**2)}, {full})"
    rows = rows.select(spans | {"v": weight, "grows": growth}, *z, *outcomes, "known")
    rates = [double(rate) for rate in reading.hazards.tolist()]
    for j, rate in enumerate(rates):  # each interval goes on from the one before it
        so_far = f"b{j - 1} + " if j else ""
        held = [f"b{k}" for k in range(j)] + [f"a{k}" for k in range(j + 1, J)]
        rows = rows.select({f"b{j}": f"{so_far}{rate} * grows * a{j}"}, *held, "v", "grows", *z, *outcomes, "known")
    limit, last = double(reading.limit), f"b{J - 1}"
    gathered = {f"g{j}": f"LEAST(b{j}, {limit})" for j in range(J)}
    ends = f"known AND e AND t <= {double(reading.cuts[-1])} AND {last} <= {limit}"
    ends += " AND t > s" if "s" in outcomes else ""
    marks = [None, *reading.cuts]
    here = {
        f"h{j}": case(ends + _between("t", low, high), _ONE, _ZERO)
        for j, (low, high) in enumerate(itertools.pairwise(marks))
    }
    happened = {"y": case(ends, _ONE, _ZERO)}
    rows = rows.select(gathered | here | happened, "v", *z, "known")
    lived = {f"l{j}": f"g{j} - g{j - 1}" if j else "g0" for j in range(J)}
    pull, lean = double(reading.factors[0]), double(reading.factors[1] * reading.factors[1])
    weighed = {name: case("known", f"{factor} * v", _ZERO) for name, factor in (("fw", pull), ("fu", lean))}
    hits = [f"h{j}" for j in range(J)]
    rows = rows.select(lived | weighed | {"o": f"y - g{J - 1}", "total": f"g{J - 1}"}, *hits, *z)
    g, square = double(reading.constant), double(reading.constant**2)
    steps = [f"fw * {g} * (h{j} - l{j})" for j in range(J)] + [f"fw * o * {name}" for name in z]
    steps += [f"fu * {square} * l{j}" for j in range(J)] + [f"fu * total * ({name} * {name})" for name in z]
    steps += [f"fu * {g} * l{j} * {name}" for j in range(J) for name in z]
    steps += [f"fu * total * ({left} * {right})" for left, right in itertools.combinations(z, 2)]
    rows = rows.select({f"w{k}": rows.step(value) for k, value in enumerate(steps)})
    return looked(rows, [f"w{k}" for k in range(len(steps))], steps=True)


def _near(time: str, reading: HazardLook) -> str:
    """Return a time within the follow-up or just after it."""
    return case(f"{time} < {double(LEAST * reading.cuts[-1])}", _ZERO, f"LEAST({time}, {double(reading.beyond)})")


def _from(start: str, outcomes: Collection[str]) -> str:
    """Return where follow-up in an interval begins."""
    return f"GREATEST(s, {start})" if "s" in outcomes else start


def _between(value: str, low: float | None, high: float | None) -> str:
    assert high is not None
    below = f" AND {value} <= {double(high)}"
    return below if low is None else f" AND {value} > {double(low)}{below}"
