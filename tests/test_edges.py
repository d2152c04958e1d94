"""What an attacker tried: one odd record, one odd argument, one more name for a file."""

from __future__ import annotations

import enum
import os
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sottovoce as sv
from sottovoce.privacy.errors import InvalidData, InvalidValue, LedgerCorrupt
from sottovoce.records.readings import CategoryCounts, ClippedSum
from sottovoce.records.tables import open_table
from sottovoce.records.tables.delimited import cells
from sottovoce.service.ledger import Ledger

WARDS = CategoryCounts(("N", "S"))
FAR = 2**62


class _Ward(str, enum.Enum):  # noqa: UP042 - written as _Ward.S, unlike a StrEnum
    N = "N"
    S = "S"


def _curator(place: Path, **facts: Any) -> sv.Curator:
    frame = pd.DataFrame({"x": np.arange(100.0), "w": ["N", "S"] * 50})
    given = sv.Facts(facts or {"x": sv.Number(0, 100), "w": sv.Category(["N", "S"])})
    return sv.Curator(frame, place / "l.ledger", sv.PureDP(10.0), facts=given, dataset="d")


@pytest.mark.parametrize("cell", [b"S", _Ward.S, "S"])
@pytest.mark.parametrize("odd", [5, b"\xff", "\ud800", None, object()])
def test_one_odd_object_changes_one_record_alone(cell: object, odd: object) -> None:
    for kind in (object, "category"):
        if kind == "category" and isinstance(cell, str) and isinstance(odd, str):
            continue  # pandas itself gives up
        frame = pd.DataFrame({"w": pd.Series([cell] * 9 + [odd], dtype=object).astype(kind)})
        with open_table(frame) as table:
            assert table.schema == {"w": "string"}
            assert table.read(WARDS, "w").total.tolist() == [1, 9]


def test_text_of_pandas_may_hold_half_a_character() -> None:
    words = pd.Series(["S", "N", "\ud800"], dtype=pd.StringDtype("python"))
    with open_table(pd.DataFrame({"w": words})) as table:
        assert table.read(WARDS, "w").total.tolist() == [2, 1]


@pytest.mark.parametrize("kind", [pa.timestamp("ms"), pa.timestamp("ms", "UTC"), pa.duration("s")])
@pytest.mark.parametrize("nested", ["", "struct", "list"])
def test_no_far_moment_is_seen_before_it_is_paid_for(tmp_path: Path, kind: Any, nested: str) -> None:
    def table(last: int) -> pa.Table:
        moments = pa.array([0, 1, last], kind)
        if nested == "struct":
            moments = pa.StructArray.from_arrays([moments], ["a"])
        elif nested:
            moments = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), moments)
        return pa.table({"c": moments, "one": [1, 1, 1]})

    seen = []
    for last in (2, FAR):
        pq.write_table(table(last), tmp_path / "p.parquet")
        for source in (table(last), tmp_path / "p.parquet"):
            with open_table(source) as opened:
                asked = opened.read(ClippedSum(0, 1), "one").total.tolist()
                seen.append((opened.schema, opened.count(), asked))
    assert seen[:2] == seen[2:]


def test_moments_that_are_not_read_are_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    moments = {f"admitted {unit}": pa.array([0, 1], pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")}
    pq.write_table(pa.table(moments | {"age": [1, 1]}), tmp_path / "stays.parquet")
    with open_table(tmp_path / "stays.parquet") as table:
        gone = [name for name in [*moments, "age"] if name not in table.schema]
    (message,) = caplog.messages
    assert gone == ["admitted s", "admitted ms"] and message.startswith("not read: 'admitted s', 'admitted ms', ")


def test_nested_text_that_is_not_utf8_ends_no_query(tmp_path: Path) -> None:
    offsets = pa.py_buffer(np.array([0, 1, 2], np.int32))
    text = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"S\xff")])
    column = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), text)
    pq.write_table(pa.table({"c": column, "one": [1, 1]}), tmp_path / "p.parquet")
    with open_table(tmp_path / "p.parquet") as table:
        assert "c" not in table.schema
        assert table.count() == 2


@pytest.mark.parametrize(
    "content", [b"name,age\rSmith,44\rJones,33\n", b"name,age\rSmith,44\r", "name\nSmith".encode("utf-16")]
)
def test_a_file_of_other_line_ends_names_no_cell(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(InvalidData, match="save it") as refused:
        open_table(tmp_path / "a.csv")
    assert "Smith" not in str(refused.value)


def test_a_line_of_quotes_takes_no_longer_than_another() -> None:
    """In one pass: a look at every pair from every other would not end today."""
    assert cells(b'"' + b'""' * 2_000_000, b",") == [b'"' * 2_000_000]


def test_a_hard_link_is_the_same_data(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n" + "1\n" * 10)
    os.link(tmp_path / "a.csv", tmp_path / "b.csv")
    with sv.Curator(tmp_path / "a.csv", tmp_path / "l.ledger", sv.PureDP(1.0)):
        pass
    with pytest.raises(InvalidValue, match="shares records"):
        sv.Curator(tmp_path / "b.csv", tmp_path / "l.ledger", sv.PureDP(1.0))


@pytest.mark.parametrize("key", [5, "\ud800", "a\x00"])
def test_a_key_that_is_no_text_leaves_the_ledger_whole(tmp_path: Path, key: Any) -> None:
    with _curator(tmp_path) as curator:
        with pytest.raises(InvalidValue, match="idempotency key"):
            curator.mean("x", idempotency_key=key)
        assert not curator.history()


def test_what_is_wrong_is_said_before_it_is_paid_for(tmp_path: Path) -> None:
    wrong: list[dict[str, Any]] = [{"spend": None}, {"by": 3}, {"part": "ada"}, {"draws": 0}, {"draws": "a"}]
    with _curator(tmp_path) as curator:
        for options in [*wrong, {"level": 2}, {"level": "a"}]:
            with pytest.raises(InvalidValue):
                curator.mean("x", **options)
        with pytest.raises(InvalidValue):
            curator.mean(5)  # type: ignore[arg-type]
        with pytest.raises(InvalidValue):
            curator.quantiles("x", bins=2.5)  # type: ignore[arg-type]
        assert not curator.history()
        curator.mean("x", about={"column": "other", "draws": 7})
        assert curator.history()[0].request["column"] == ["x"]


def test_the_share_of_an_only_category_is_refused(tmp_path: Path) -> None:
    with _curator(tmp_path, w=sv.Category(["N"])) as curator:
        with pytest.raises(InvalidValue, match="one category"):
            curator.proportion("w")
        assert not curator.history()


def test_a_damaged_version_is_a_damaged_ledger(tmp_path: Path) -> None:
    with Ledger(tmp_path / "l.ledger", create=True):
        pass
    raw = sqlite3.connect(tmp_path / "l.ledger")
    raw.execute("DROP TABLE sottovoce_version")
    raw.execute("CREATE TABLE sottovoce_version (version)")
    raw.execute("INSERT INTO sottovoce_version VALUES (NULL)")
    raw.commit()
    raw.close()
    with pytest.raises(LedgerCorrupt):
        Ledger(tmp_path / "l.ledger")


def test_a_file_whose_name_is_no_text_is_no_damaged_ledger(tmp_path: Path) -> None:
    place = os.fsdecode(os.fsencode(tmp_path) + b"/q\xff.csv")
    try:
        Path(place).write_text("x\n1\n")
    except OSError:
        pytest.skip("this file system takes no name that is not UTF-8")
    with pytest.raises(InvalidValue, match="name of a data set"):
        sv.Curator(place, tmp_path / "l.ledger", sv.PureDP(1.0))
