"""What a question reads of other periods than it is charged to, by brute force: nothing.

Every mechanism is run with the same random numbers on two tables that differ in other periods alone, in whatever their
records hold and, of persons, in whose they are and how many: all that it reads, round by round, is the same.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sottovoce as sv
from sottovoce.privacy.errors import SottovoceError
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.tables import open_table
from sottovoce.service.curator.table_looks import TableLooks

COLUMNS: dict[str, Any] = {
    "admitted": sv.Day("2024-01-15", "2024-03-31", missing="2024-02-15"),
    "discharged": sv.Day("2024-01-01", "2024-04-30"),
    "age": sv.Number(0, 100, missing=40),
    "visits": sv.Count(9),
    "smoker": sv.Flag(missing=True),
    "ward": sv.Category(["A", "B"], missing="A"),
    "stay": sv.Derived("clip(discharged - admitted, 0, 60)"),
}
FEBRUARY = "admitted >= '2024-02-01' and not admitted > '2024-02-29' and admitted is not null"
CONDITIONS = [FEBRUARY, f"({FEBRUARY}) and (age > 30 or ward != 'A' or stay < 9 or month(discharged) in (2, 3))"]
QUESTIONS: list[tuple[str, Any, dict[str, Any]]] = [
    ("mean", "age", {}),
    ("mean", "age", {"by": "ward"}),
    ("mean", "stay", {"by": "month(discharged)"}),
    ("mean", "age", {"tails": "smooth"}),
    ("mean", "age", {"by": "month(admitted)", "pool": "time"}),
    ("proportion", "smoker", {"by": ("ward", "age: 3 bands"), "pool": True}),
    ("counts", ("ward", "smoker"), {}),
    ("total", "log(1 + stay)", {"by": "ward"}),
    ("quantiles", "age", {"at": [0.5]}),
    ("quantiles", "stay", {"at": [0.1, 0.9], "by": "ward"}),
    ("sd", "age", {"by": "weekday(admitted)"}),
    ("rate", "visits", {"exposure": "stay"}),
    ("survival", "stay", {"event": "smoker", "by": "ward"}),
]
FORMULAS: list[tuple[str, Any, dict[str, Any]]] = [
    ("regress", formula, {}) for formula in ("smoker ~ age + ward", "age ~ stay + ward", "visits ~ age")
]
PERSONS = {"records": None, "averages": sv.Person(), "one row": sv.Person(rows=1), "three rows": sv.Person(rows=3)}


def table(seed: int, outside: int) -> pd.DataFrame:
    """Return stays of which those in February follow from one seed and the others from another, as many of each."""

    def part(months: list[Any], rng: np.random.Generator) -> pd.DataFrame:
        size = len(months)
        day = [None if month is None else f"2024-{month:02}-{rng.integers(1, 29):02}" for month in months]
        admitted = pd.Series(pd.to_datetime(pd.Series(day, dtype="object")))
        frame = pd.DataFrame(
            {
                "admitted": admitted.dt.date,
                "discharged": (admitted + pd.to_timedelta(rng.integers(-3, 30, size), unit="D")).dt.date,
                "age": rng.choice([*range(20, 90), np.nan, np.inf, -5], size),
                "visits": rng.poisson(2, size),
                "smoker": rng.random(size) < rng.random(),
                "ward": rng.choice(["A", "B", "Z", None], size),
                "patient": rng.integers(0, 40, size),
            }
        )
        return frame.where(frame.notna(), None)

    february = part([2] * 120, np.random.default_rng(seed))
    others = part([1] * 50 + [3] * 40 + [6] * 8 + [None] * 12, np.random.default_rng(outside))
    everybody = part([1] * 40, np.random.default_rng(0)).assign(patient=range(40))  # so that no person is lost
    return pd.concat([february, others, everybody], ignore_index=True)


def transcript(mechanism: Any, where: str, records: Any, asked: dict[str, Any]) -> list[str]:
    """Return all that a mechanism reads of some records, one reading after another."""
    result = []

    def read(reading: Any) -> Any:
        seen = records.read(reading, mechanism.columns, where=where, **asked)
        kept = {name: np.asarray(value).tolist() for name, value in vars(seen).items() if value is not None}
        result.append(json.dumps(kept, default=repr))
        return seen

    mechanism.releases(TableLooks(read), 1, seeded_rng(7), draws=1)
    return result


@pytest.fixture(params=PERSONS)
def stays(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Any, list[Any]]]:
    """A curator whose budget has a period for each month, and its records beside others of other months."""
    person = PERSONS[request.param]
    facts = sv.Facts(COLUMNS | ({} if person is None else {"patient": person}))
    frames = [table(1, other) for other in (2, 3)]
    options: dict[str, Any] = {"facts": facts, "dataset": "stays", "period": "admitted: monthly"}
    with sv.Curator(frames[0], tmp_path / "ledger", sv.ApproxDP(4, 1e-6), **options) as curator:
        yield curator, [open_table(frame, facts=facts) for frame in [*frames, table(5, 2)]]


def test_other_periods_change_nothing_that_is_read(stays: tuple[Any, list[Any]]) -> None:
    curator, tables = stays
    narrow, rounds, names = 0, 0, curator.periods.names
    for (verb, column, more), where in zip([*QUESTIONS, *FORMULAS], itertools.cycle(CONDITIONS)):
        try:
            if verb == "regress":
                mechanism = curator.looks_for(curator.formula(column, where=where), 0.3)
            else:
                mechanism = curator.mechanism_for(curator.question(verb, column, where=where, **more), 0.1)
        except SottovoceError:
            continue  # not of persons
        if (charged := curator.charged_to(mechanism, where)["periods"]) == names:
            continue
        assert charged == ("2024-02",)
        told = [
            transcript(mechanism, where, records, curator._protected.asked) for records in tables[: 2 + (not narrow)]
        ]
        assert told[0] == told[1], mechanism
        assert narrow or told[2] != told[1]  # the comparison can tell: another February is seen
        narrow, rounds = narrow + 1, rounds + (len(told[0]) > 1)
    assert narrow >= (1 if curator.facts.person and curator.facts.persons.rows else 6)
    assert rounds >= 2 or curator.facts.person
