"""What a frame's records make of its types decides nothing: by brute force over neighbours."""

from __future__ import annotations

import datetime as dt
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sottovoce as sv
from sottovoce.privacy.errors import SottovoceError
from sottovoce.records.readings import CategoryCounts, ClippedSum
from sottovoce.records.tables import open_table

STAMP = pd.Timestamp
COLUMNS: dict[str, list[Any]] = {
    "smoker": [True, False, True, False, True, True],
    "length": [1.5, 2.25, 3.0, 40.0, 5.5, 6.0],
    "visits": [1, 2, 3, 40, 5, 6],
    "ward": ["A", "B", "A", "B", "A", "A"],
    "code": [1, 2, 1, 2, 1, 1],
    "label": [1, 2, 1, 2, 1, 1],
    "seen": [STAMP("2024-01-01"), STAMP("2024-01-02"), STAMP("2024-02-01 12:00"), *[STAMP("2024-05-05")] * 3],
    "left": [dt.date(2024, 1, 1)] * 3 + [dt.date(2024, 3, 1)] * 3,
}
FACTS = sv.Facts(
    smoker=sv.Flag(),
    length=sv.Number(0, 50),
    visits=sv.Count(50),
    ward=sv.Category(["A", "B"]),
    code=sv.Category([1, 2]),
    label=sv.Category(["1", "2"]),
    seen=sv.Day("2024-01-01", "2024-12-31"),
    left=sv.Day("2024-01-01", "2024-12-31"),
)


class Odd:
    """A value that cannot even be compared or written."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    def __str__(self) -> str:
        raise RuntimeError

    __hash__ = None  # type: ignore[assignment]


CELLS = [None, math.nan, pd.NaT, "x", "1", "true", "2024-02-02", 7, 2**70, 1e300, math.inf, 3.5, np.float32(0.1)]
CELLS += [True, 1 + 2j, b"\xff", [1], Odd(), STAMP("2024-01-01", tz="Europe/Berlin"), dt.datetime(9999, 12, 31)]
TEMPLATES = ["{}", "not {}", "{} is null", "{} = true", "{} > 3", "{} in (1, 40)", "{} = '1'", "{} >= '2024-02-01'"]
TEMPLATES += ["{} = 9007199254740993"]
WHERE = [text.format(name) for name in COLUMNS for text in TEMPLATES] + [
    "seen > left",
    "visits > length",
    "ward = label",
]
READINGS = [ClippedSum(0, 50), CategoryCounts(("A", "B")), CategoryCounts((1, 2)), CategoryCounts((False, True))]


def outcomes(frame: Any) -> dict[str, Any]:
    """Return what the facts make of a frame: for every question its refusal, or its statistic."""
    with open_table(frame, facts=FACTS) as table:
        asked = {f"{where}": (None, ClippedSum(0, 1), where) for where in WHERE}
        asked |= {f"{reading} of {name}": (name, reading, None) for name in COLUMNS for reading in READINGS}
        found: dict[str, Any] = {"schema": str(table.schema)}
        for text, (name, reading, where) in asked.items():
            try:
                found[text] = table.read(reading, name, where=where).total
            except SottovoceError as error:
                found[text] = f"{type(error).__name__}: {error}"
    return found


def pandas(columns: dict[str, list[Any]]) -> Any:
    return pd.DataFrame({name: pd.Series(values) for name, values in columns.items()})


@pytest.fixture(scope="module")
def before() -> dict[str, Any]:
    return outcomes(pandas(COLUMNS))


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{type(cell).__name__}")
def test_a_neighbour_is_refused_what_the_data_are_refused_and_moves_by_one_record(
    cell: Any, before: dict[str, Any]
) -> None:
    """One record of every column holds something else: so many dtypes change, and no refusal, schema or other record.

    A record counts up to 50 in the first reading, and 1 in all others.
    """
    after = outcomes(pandas({name: [*values[:-1], cell] for name, values in COLUMNS.items()}))
    for text, here in before.items():
        there = after[text]
        if isinstance(here, str) or isinstance(there, str):
            assert here is there or here == there, text
        else:
            assert np.abs(here - there).max() <= (50 if text.startswith("ClippedSum") else 1), text


def test_the_neighbours_are_of_many_types() -> None:
    """Else the test above would compare a frame with itself."""
    kinds = {name: {str(pd.Series([*held[:-1], cell]).dtype) for cell in CELLS} for name, held in COLUMNS.items()}
    assert len(kinds["smoker"]) >= 2
    assert len(kinds["visits"]) >= 4
    assert len(kinds["seen"]) >= 2


@pytest.mark.parametrize(
    "build",
    [pandas, pa.table, pl.DataFrame, pl.LazyFrame, lambda held: pl.DataFrame(held).to_arrow().to_reader()],
    ids=["pandas", "arrow", "polars", "lazy", "stream"],
)
def test_a_frame_of_missing_values_alone_is_refused_what_the_data_are_refused(build: Any) -> None:
    """Arrow and Polars give such columns the type null."""
    here = outcomes(build(COLUMNS))
    there = outcomes(build({name: [None] * 6 for name in COLUMNS}))
    refused = [{text: said for text, said in found.items() if isinstance(said, str)} for found in (here, there)]
    if build is not pandas:  # days and moments are two types there, and both are declared
        refused = [{text: said for text, said in found.items() if text != "seen > left"} for found in refused]
    assert refused[0] == refused[1]


def test_a_lazy_frame_is_given_to_a_curator_without_a_warning_of_polars(tmp_path: Path) -> None:
    frame = pl.LazyFrame({"age": [30, 40] * 50})
    facts = sv.Facts(age=sv.Number(0, 100))
    with sv.Curator(frame, tmp_path / "l", sv.PureDP(1), facts=facts, dataset="d") as curator:
        assert curator.n == 100


def test_facts_that_the_curator_alone_is_told_hold_for_an_open_table(tmp_path: Path) -> None:
    frame = pandas({name: [*values[:-1], "x"] for name, values in COLUMNS.items()})
    question = sv.PureDP(1.0)
    with open_table(frame) as table:
        assert table.schema["smoker"] == "string"
        with sv.Curator(table, tmp_path / "l", sv.PureDP(9), facts=FACTS, dataset="d") as curator:
            assert curator.budget.schema["smoker"] == "boolean"
            assert not math.isnan(curator.proportion("smoker", where="visits > 2", spend=question).rows[0]["low"])
        assert table.schema["smoker"] == "string"  # whoever opened it still reads it as it was
        table.close()
        with (
            pytest.raises(SottovoceError, match="closed"),
            sv.Curator(table, tmp_path / "m", sv.PureDP(9), facts=FACTS, dataset="d"),
        ):
            pass


@pytest.mark.parametrize("cell", [None, "x", 3.5])
def test_a_budget_goes_on_whatever_one_record_makes_of_the_types(cell: Any, tmp_path: Path) -> None:
    for facts in (FACTS, None):
        name = "with" if facts else "without"
        sv.Curator(pandas(COLUMNS), tmp_path / name, sv.PureDP(9), facts=facts, dataset="d").close()
        other = pandas({name: [*values[:-1], cell] for name, values in COLUMNS.items()})
        sv.Curator(other, tmp_path / name, facts=facts, dataset="d").close()
        sv.Curator(other.assign(more=1), tmp_path / name, facts=facts, dataset="d").close()
        with pytest.raises(SottovoceError, match="a budget goes on with the columns it had"):
            sv.Curator(other.rename(columns={"visits": "more"}), tmp_path / name, facts=None, dataset="d")


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_moments_of_a_frame_are_the_same_in_every_unit_and_zone(unit: str, zone: str | None) -> None:
    moments = [dt.datetime(2024, 1, 31, 23, 30), dt.datetime(1969, 12, 31, 23, 59, 59), None, dt.datetime(2024, 2, 1)]
    series = pd.Series(pd.DatetimeIndex(moments).tz_localize("UTC" if zone else None)).dt.as_unit(unit)
    series = series.dt.tz_convert(zone) if zone else series
    for cells in (series, series.astype(object)):
        with open_table(pd.DataFrame({"seen": cells}), facts=FACTS.about(["seen"])) as table:
            for where, count in (("seen >= '2024-02-01'", 1), ("seen <= '1969-12-31'", 1), ("seen is null", 1)):
                assert table.read(ClippedSum(0, 1), where=where).total == [count], (where, str(cells.dtype))


def test_moments_too_far_for_microseconds_count_as_the_last_ones() -> None:
    far = np.array([2**62, -(2**62), 0, np.iinfo(np.int64).min], dtype="datetime64[s]")
    with open_table(pd.DataFrame({"seen": far}), facts=FACTS.about(["seen"])) as table:
        found = [table.read(ClippedSum(0, 1), where=f"seen {sign} '2000-01-01'").total[0] for sign in "<>"]
    assert found == [2, 1]
