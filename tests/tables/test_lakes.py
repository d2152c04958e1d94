"""Tables of Delta Lake and Iceberg, written by their own libraries: what was deleted is not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sottovoce as sv
from sottovoce.privacy.errors import InvalidData, InvalidValue, SottovoceError, SourceUnavailable
from sottovoce.records.readings import CategoryCounts, ClippedSum
from sottovoce.records.tables import open_table

deltalake = pytest.importorskip("deltalake", reason="the lakes extra is not installed (pip install 'sottovoce[lakes]')")
pytest.importorskip("pyiceberg", reason="the lakes extra is not installed (pip install 'sottovoce[lakes]')")

ROWS = pa.table({"age": [31, 62, 7, None], "ward": ["N", "S", "N", "S"], "smoker": [True, False, None, True]})


class Delta:
    kind = "delta"

    def __init__(self, folder: Path, **options: Any) -> None:
        self.place, self.options = folder / "stays", options

    def append(self, rows: pa.Table) -> None:
        deltalake.write_deltalake(self.place, rows, mode="append", **self.options)

    def delete(self, where: str) -> None:
        deltalake.DeltaTable(self.place).delete(where)

    def version(self) -> int:
        return int(deltalake.DeltaTable(self.place).version())


class Iceberg:
    kind = "iceberg"

    def __init__(self, folder: Path) -> None:
        from pyiceberg.catalog.sql import SqlCatalog

        self._catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
        self._catalog.create_namespace("clinic")
        self.place = folder / "clinic" / "stays"
        self._table: Any = None

    def append(self, rows: pa.Table) -> None:
        self._table = self._table or self._catalog.create_table("clinic.stays", schema=rows.schema)
        self._table.append(rows)

    def delete(self, where: str) -> None:
        self._table.delete(where.replace("=", "=="))

    def version(self) -> int:
        return int(self._table.current_snapshot().snapshot_id)


@pytest.fixture(params=[Delta, Iceberg])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    made = request.param(tmp_path)
    made.append(ROWS)
    made.append(ROWS)
    return made


def known(source: Any) -> tuple[int, float, list[float], float]:
    with open_table(source) as table:
        return (
            table.count(),
            float(table.read(ClippedSum(0, 100), "age").total[0]),
            table.read(CategoryCounts(("N", "S")), "ward").total.tolist(),
            float(table.read(ClippedSum(0, 1, integer=True), "smoker").total[0]),
        )


def test_what_was_deleted_is_not_there(lake: Any) -> None:
    assert known(lake.place) == known(f"{lake.kind}:{lake.place}") == (8, 200.0, [4.0, 4.0], 4.0)
    before = lake.version()
    lake.delete("age = 62")
    assert known(lake.place) == known(str(lake.place)) == (6, 76.0, [4.0, 2.0], 4.0)
    word = "version" if lake.kind == "delta" else "snapshot"
    assert known(f"{lake.kind}:{lake.place}?{word}={before}") == (8, 200.0, [4.0, 4.0], 4.0)
    with pytest.raises(SourceUnavailable, match=f"has no {word} 77"):
        open_table(f"{lake.kind}:{lake.place}?{word}=77")
    with pytest.raises(InvalidValue, match="a version is a number"):
        open_table(f"{lake.kind}:{lake.place}?{word}=last")


def test_its_files_alone_are_refused(lake: Any) -> None:
    some_file = next(path for path in lake.place.rglob("*.parquet"))
    with pytest.raises(InvalidData, match=f"or open {lake.kind}:"):
        open_table(some_file)


def test_a_budget_goes_on_over_versions(lake: Any, tmp_path: Path) -> None:
    facts, ledger = sv.Facts(age=sv.Number(0, 100), smoker=sv.Flag()), tmp_path / "ledger"
    with sv.Curator(lake.place, ledger, sv.ApproxDP(1, 1e-6), facts=facts) as curator:
        assert curator.mean("age", spend=0.1).release.mechanism["n"] == 8
        lake.append(ROWS)
        with pytest.raises(InvalidData, match="written again since it was opened"):
            curator.mean("age", spend=0.1)
        assert curator.share_left() == pytest.approx(0.9, abs=1e-3)
    with sv.Curator(f"{lake.kind}:{lake.place}", ledger, facts=facts, grows=True) as curator:
        assert curator.mean("age", spend=0.1).release.mechanism["n"] == 12
        lake.append(ROWS)
        assert curator.mean("age", spend=0.1).release.mechanism["n"] == 16
        assert curator.share_left() == pytest.approx(0.7, abs=1e-3)
        assert len({entry.request["data"] for entry in curator.history()}) == 3


def test_partitions_have_the_types_of_the_table(tmp_path: Path) -> None:
    lake = Delta(tmp_path, partition_by=["ward"])
    lake.append(ROWS)
    assert known(lake.place) == (4, 100.0, [2.0, 2.0], 2.0)
    with open_table(lake.place) as table:
        assert table.schema == {"age": "int64", "ward": "string", "smoker": "boolean"}


def test_features_that_data_sets_do_not_know_are_read_by_a_query(tmp_path: Path) -> None:
    lake = Delta(tmp_path, configuration={"delta.enableDeletionVectors": "true"})
    lake.append(ROWS)
    lake.delete("age = 62")
    assert known(lake.place) == (3, 38.0, [2.0, 1.0], 2.0)


def test_vectors_of_deleted_records_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Delta(tmp_path, configuration={"delta.enableDeletionVectors": "true"})
    lake.append(ROWS)
    vectors = pa.table({"filepath": ["part-0.parquet"], "selection_vector": [[True, False, True, True]]})
    monkeypatch.setattr(deltalake.DeltaTable, "deletion_vectors", lambda self: vectors)
    with pytest.raises(InvalidData, match="marks records as deleted in vectors"):
        open_table(lake.place)


def test_what_is_no_lake_is_said_in_a_line(tmp_path: Path) -> None:
    for address in (f"delta:{tmp_path}/none", f"iceberg:{tmp_path}/none", "delta:", f"delta:{tmp_path}"):
        with pytest.raises(SottovoceError) as told:
            open_table(address)
        assert "\n" not in str(told.value)
