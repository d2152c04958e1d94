"""Dummy records: within the facts, whatever the facts are; the same for the same seed; readable as a table."""

import csv
import io
import math

import pytest

from sottovoce.privacy.errors import InvalidValue
from sottovoce.records.facts import (
    Category,
    Count,
    Day,
    Facts,
    Flag,
    Number,
    Person,
    Vector,
    dummy_columns,
    dummy_csv,
)
from sottovoce.records.facts.columns import KINDS, Column

FACTS = Facts(
    {"blood pressure": Number(60, 250)},
    ward=Category(["A", 'B "x", y', "ü"]),
    code=Category([1, 2]),
    visits=Count(3),
    smoker=Flag(),
    admitted=Day("2024-02-28", "2024-03-01"),
    patient=Person(),
    step=Vector(of=["dx", "dy"], radius=2.0),
)


def test_every_kind_is_made_up_within_its_facts():
    made = dummy_columns(FACTS, 500, seed=4)
    assert {column.word for column in FACTS.values()} == set(KINDS) - {"derived"}  # which no table need have
    assert all(len(values) == 500 for values in made.values())
    assert set(made["ward"]) == set(FACTS["ward"].categories) and set(made["code"]) == {1, 2}
    assert set(made["visits"]) == {0, 1, 2, 3} and set(made["smoker"]) == {True, False}
    assert {day.isoformat() for day in made["admitted"]} == {"2024-02-28", "2024-02-29", "2024-03-01"}
    assert len(set(made["patient"])) == 500
    assert all(60 <= value <= 250 for value in made["blood pressure"])
    assert all(math.hypot(x, y) <= 2 + 1e-12 for x, y in zip(made["dx"], made["dy"], strict=True))
    assert max(map(abs, made["dx"])) > 1


@pytest.mark.parametrize(
    "column",
    [Number(0, 1e-300), Number(-1e307, 1e307), Number(1e9, 1e9 + 1), Number(-5e-324, 5e-324), Count(1), Count(2**53)],
)
def test_the_extremes_are_made_up_too(column: Column):
    values = dummy_columns({"x": column}, 50)["x"]
    low, high = getattr(column, "low", 0), column.high
    assert all(low <= value <= high for value in values)
    assert len(set(values)) > 1


def test_the_same_seed_makes_the_same_records_and_another_does_not():
    assert dummy_csv(FACTS, 20, 1) == dummy_csv(FACTS, 20, 1) != dummy_csv(FACTS, 20, 2)


def test_the_file_reads_back_and_missing_values_are_empty():
    rows = list(csv.DictReader(io.StringIO(dummy_csv(FACTS, 400, 3, missing=0.25))))
    assert len(rows) == 400 and {row["smoker"] for row in rows} == {"true", "false", ""}
    assert 60 <= sum(row["ward"] == "" for row in rows) <= 140
    assert all(row["patient"] for row in rows)
    assert dummy_csv(FACTS, 0).count("\n") == 1


def test_a_frame_is_read_by_a_curator(tmp_path):
    from sottovoce.privacy.promises import PureDP
    from sottovoce.service.curator import Curator

    frame = FACTS.dummy(60, seed=2, missing=0.1)
    assert frame.shape == (60, 9)
    with Curator(frame, tmp_path / "x.ledger", PureDP(10.0), facts=FACTS, dataset="dummy") as curator:
        assert len(curator.proportion("smoker", by="ward", spend=0.5).rows) == 3


@pytest.mark.parametrize("wrong", [{"n": -1}, {"n": 2.5}, {"seed": -1}, {"missing": 1.5}, {"missing": float("nan")}])
def test_numbers_that_make_no_sense_are_refused(wrong):
    with pytest.raises(InvalidValue):
        dummy_columns(FACTS, **wrong)
