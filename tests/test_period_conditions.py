"""Random conditions in the whole grammar, on sources that compare as they like: who fulfils one was charged for it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import sottovoce as sv
from sottovoce.privacy.errors import InvalidValue, SottovoceError
from sottovoce.records.facts.condition_parser import KEYWORDS
from sottovoce.records.facts.periods import NO_PERIOD, parse_periods
from sottovoce.records.readings import CategoryCounts
from sottovoce.records.tables import open_table

DAYS = ["2024-01-01", "2024-01-31", "2024-02-01", "2024-02-29", "2024-03-15", "2024-03-31", "2024-04-30"]
ODD_DAYS = ["2024-02-30", "20240201", "2024-W06-1", "2024-2-1", "0001-01-01", "9999-12-31", "infinity", "", "a day"]
NUMBERS = ["18", "17.5", "18.0", "-0.0", "0.3", "0.30000001", "0.30000001192092896", "1e300", "true"]
LARGE = [2**53, 2**53 + 1, 2]
TEXTS = ["'A'", "'a'", "'A '", "' a'", "'B'", "'1'", "'1.0'", "''", "'none'", "1"]


def _condition(draw: random.Random, columns: dict[str, list[str]], depth: int = 2) -> str:
    """Return a condition at random: columns by name, each with values that it may be compared with."""
    if depth and draw.random() < 0.6:
        parts = [_condition(draw, columns, depth - 1) for _ in range(2)]
        return draw.choice(["", "not "]) + f"({parts[0]} {draw.choice(['and', 'or'])} {parts[1]})"
    name = draw.choice(list(columns))
    a, b, c = draw.choices(columns[name], k=3)
    sign = draw.choice(["=", "!=", "<", "<=", ">", ">=", "<>", "=="])
    leaves = [f"{name} {sign} {a}"] * 3 + [f"{a} {sign} {name}", f"{name} {sign} {draw.choice(list(columns))}"]
    leaves += [f"{name} in ({a}, {b})", f"{name} not in ({a}, {b}, {c})", f"{name} is null", f"{name} is not null"]
    leaves += [f"{name} between {a} and {b}", f"{name} not between {a} and {b}", name]
    return draw.choice(["", "not "]) + draw.choice(leaves)


def _days() -> tuple[Any, ...]:
    """Days as texts in a frame, of which a missing one counts as a day of February in what is derived."""
    held = [*DAYS, "2023-12-31", "2030-01-01", "2024-02-30", "soon", None]
    months = [None if text is None else text[:7] for text in held]
    there = [NO_PERIOD if m not in ("2024-01", "2024-02", "2024-03", "2024-04") else m for m in months]
    there[held.index("2024-02-30")] = NO_PERIOD
    fact = sv.Day("2024-01-15", "2024-04-10", missing="2024-02-15")
    days = [f"'{day}'" for day in DAYS * 3 + ODD_DAYS]
    columns = {"x": days, "`x`": days, "shifted": days, "month(x)": ["1", "2", "3"], "y": ["0", "1"]}
    return held, there, fact, "x: monthly", columns, {"shifted": sv.Derived("coalesce(x, '2024-03-01')")}


def _large() -> tuple[Any, ...]:
    """Categories that are one number as doubles: they are told apart by none of the periods."""
    held = [*LARGE, 2**53 + 2, 0, None]
    there = [str(value) if value in LARGE else NO_PERIOD for value in held]
    values = [*map(str, LARGE), f"{2**53}.0", str(2**53 + 2), "2.0", "0"]
    return held, there, sv.Category(LARGE), "x", {"x": values, "y": ["0", "1"]}, {}


def _bands() -> tuple[Any, ...]:
    """Numbers in a CSV file, among them texts."""
    held = [17.5, 18, 17.999, 0.3, 0.30000001192092896, -1, 1e300, "inf", "none", None, -0.0]
    numbers = [None if value in ("none", None) else float(value) for value in held]  # type: ignore[arg-type]
    names = ["under 0.3", "0.3 to under 18", "18 and over"]
    there = [NO_PERIOD if v is None else names[(v >= 0.3) + (v >= 18)] for v in numbers]
    by = "x: under 0.3, 0.3 to under 18, 18+"
    return held, there, sv.Number(0, 110), by, {"x": [*NUMBERS, "'none'"], "sqrt(x)": NUMBERS, "y": ["0", "1"]}, {}


def _texts() -> tuple[Any, ...]:
    """Categories of text, beside others like them."""
    held = ["A", "B", "a", "A ", "1", "", None]
    there = [value if value in ("A", "B") else NO_PERIOD for value in held]
    return held, there, sv.Category(["A", "B"], missing="A"), "x", {"x": TEXTS, "y": ["0", "1"]}, {}


@pytest.mark.parametrize("make", [_days, _large, _bands, _texts])
def test_whoever_fulfils_a_condition_is_in_a_period_that_is_charged(make: Any, tmp_path: Path) -> None:
    held, there, fact, by, columns, derived = make()
    names = [f"r{place}" for place in range(len(held))]
    frame = pd.DataFrame({"x": pd.Series(held, dtype="object"), "y": [place % 2 for place in range(len(held))]})
    frame["id"] = names
    source: Any = frame
    if make is _bands:
        source = str(tmp_path / "records.csv")
        frame.to_csv(source, index=False)
    facts = sv.Facts({"x": fact, "y": sv.Count(1), "id": sv.Category(["nobody", *names])} | derived)
    periods, draw, asked, exact = parse_periods(by, facts), random.Random(1), 0, 0
    with open_table(source, facts=facts) as table:
        simple = [f"x in ({value})" for value in columns["x"]] + [f"not x != {value}" for value in columns["x"]]
        for where in [*dict.fromkeys(simple), *(_condition(draw, columns) for _ in range(60))]:
            try:
                inside = table.read(CategoryCounts(("nobody", *names)), "id", where=where).total[1:]
            except SottovoceError:
                continue  # it makes no sense, and is refused by its types alone
            try:
                reached = set(periods.reached(where))
            except InvalidValue:
                reached = set()
            seen = {period for period, count in zip(there, inside, strict=True) if count}
            assert seen <= reached, where
            asked, exact = asked + 1, exact + (seen == reached)
    assert asked >= 25 and exact >= asked / 8


@pytest.mark.parametrize("name", [*sorted(KEYWORDS), "Between", "where", "day of stay", "a-b", "2nd", "zürich"])
def test_the_condition_of_a_period_is_read_again_whatever_its_column_is_called(name: str) -> None:
    periods = parse_periods(f"{name}: monthly", sv.Facts({name: sv.Day("2024-01-01", "2024-03-31")}))
    assert [periods.reached(periods.where(month)) for month in periods.names] == [(month,) for month in periods.names]
