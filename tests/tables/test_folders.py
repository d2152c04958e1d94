"""Folders of files: lakes are refused in words, hidden files skipped, and Hive partitions are columns of text."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from sottovoce.privacy.errors import InvalidData, SottovoceError
from sottovoce.privacy.promises import PureDP
from sottovoce.records.facts import Category, Day, Facts, Flag, Number, Person
from sottovoce.records.readings import CategoryCounts, ClippedSum, CrossCounts
from sottovoce.records.tables import open_table
from sottovoce.service.curator import Curator

RECORDS = pa.table({"age": [1, 2, 3], "name": ["a", "b", "b"]})


def _write(path: Path, records: pa.Table = RECORDS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".arrow":
        pyarrow.feather.write_feather(records, str(path))
    else:
        pq.write_table(records, path)
    return path


def _delta(folder: Path) -> None:
    """Write what Delta Lake writes: the first file was removed, and its records are in the second one again."""
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    done = [
        {"add": {"path": "part-0.parquet"}},
        {"remove": {"path": "part-0.parquet"}},
        {"add": {"path": "part-1.parquet"}},
    ]
    (log / "00000000000000000000.json").write_text("\n".join(map(json.dumps, done)))


def _iceberg(folder: Path) -> None:
    (folder / "metadata").mkdir(parents=True)
    (folder / "metadata" / "v1.metadata.json").write_text("{}")


def _hudi(folder: Path) -> None:
    (folder / ".hoodie").mkdir(parents=True)


@pytest.mark.parametrize(("lake", "kind"), [(_delta, "Delta Lake"), (_iceberg, "Iceberg"), (_hudi, "Hudi")])
@pytest.mark.parametrize(
    "asked", [".", "*.parquet", "**/*.parquet", "part-0.parquet", "ward=A", "ward=A/part-2.parquet"]
)
def test_a_table_with_a_log_of_its_own_is_refused_however_it_is_named(
    tmp_path: Path, lake: Callable[[Path], None], kind: str, asked: str
) -> None:
    """A deleted record counted, and nine copies of one moved an answer nine times."""
    folder = tmp_path / "lake"
    for name in ("part-0.parquet", "part-1.parquet", "ward=A/part-2.parquet"):
        _write(folder / name)
    lake(folder)
    if asked == "." and kind != "Hudi":  # read by its own library, and this one's log is none
        with pytest.raises(SottovoceError):
            open_table(folder)
    else:
        with pytest.raises(InvalidData, match=rf"lake is an? {kind} table, whose files hold deleted"):
            open_table(folder if asked == "." else str(folder / asked))
    with pytest.raises(InvalidData, match="folder of its own"):  # from above as well
        open_table(tmp_path)
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(SottovoceError):  # and by a link
        open_table(tmp_path / "link")


def test_a_lake_without_files_is_called_what_it_is(tmp_path: Path) -> None:
    _delta(tmp_path / "lake")
    with pytest.raises(SottovoceError, match="lake cannot be read as Delta Lake"):
        open_table(tmp_path / "lake")


def test_a_folder_called_metadata_is_no_iceberg_table(tmp_path: Path) -> None:
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "codebook.pdf").write_text("")
    with open_table(_write(tmp_path / "people.parquet")) as table:
        assert table.count() == 3


def test_hidden_files_hold_no_records(tmp_path: Path) -> None:
    """As pyarrow has it, which is asked for the same records."""
    _write(tmp_path / "part-0.parquet")
    _write(tmp_path / "more" / "part-1.pq")
    for name in ("_part-2.parquet", ".part-3.parquet", "_temporary/0/part-4.parquet", ".trash/part-5.parquet"):
        _write(tmp_path / name)
    assert ds.dataset(tmp_path, format="parquet").count_rows() == 6
    with open_table(tmp_path) as table:
        assert table.count() == 6
    with open_table(str(tmp_path / "**" / "*.parquet")) as table:
        assert table.count() == 3
    with open_table(str(tmp_path / "_*.parquet")) as table:  # asked for by name
        assert table.count() == 3
    with open_table(tmp_path / "_temporary") as table:
        assert table.count() == 3


@pytest.fixture
def wards(tmp_path: Path) -> Path:
    """Forty records in folders by ward, by a flag and by day, as pyarrow writes them."""
    n = 40
    columns: dict[str, Any] = {
        "age": [place % 9 for place in range(n)],
        "note": [None if place % 5 == 0 else "xy"[place % 2] for place in range(n)],
        "ward": [None if place % 10 == 9 else ["A B", "C/D", "7"][place % 3] for place in range(n)],
        "ill": ["true" if place % 4 == 0 else "false" for place in range(n)],
        "day": [f"2024-0{1 + place % 2}-15" for place in range(n)],
    }
    hive = ds.partitioning(
        pa.schema([("ward", pa.string()), ("ill", pa.string()), ("day", pa.string())]), flavor="hive"
    )
    ds.write_dataset(pa.table(columns), tmp_path / "wards", format="parquet", partitioning=hive)
    return tmp_path / "wards"


def test_partitions_are_columns_of_text(wards: Path) -> None:
    facts = Facts(
        ward=Category(["A B", "C/D", "7"]), ill=Flag(), age=Number(0, 10), day=Day("2024-01-01", "2024-12-31")
    )
    rows = [(place, ["A B", "C/D", "7"][place % 3] if place % 10 != 9 else None) for place in range(40)]
    for source in (wards, str(wards / "**" / "*.parquet")):
        with open_table(source, facts=facts) as table:
            assert table.schema == {
                "age": "int64",
                "note": "string",
                "ward": "string",
                "ill": "string",
                "day": "string",
            }
            assert table.count() == 40
            expected = [sum(ward == each for _, ward in rows) for each in ("A B", "C/D", "7")]
            assert table.read(CategoryCounts(("A B", "C/D", "7", "?")), "ward", missing="?").total.tolist() == [
                *expected,
                4,
            ]
            ages = sum(place % 9 for place, ward in rows if ward == "A B")
            assert table.read(ClippedSum(0, 10), "age", where="ward = 'A B'").total.tolist() == [ages]
            assert table.read(ClippedSum(0, 1), where="ill").total.tolist() == [10]
            assert table.read(ClippedSum(0, 1), where="day > '2024-01-31'").total.tolist() == [20]
            assert table.read(ClippedSum(0, 1), where="ward = 7").total.tolist() == [expected[2]]  # text of no type
            crossed = table.read(CrossCounts((("A B", "C/D"), ("x", "y")), ((0, 1),), (-1, -1)), ["ward", "note"]).total
            assert crossed.sum() == sum(ward in ("A B", "C/D") and place % 5 != 0 for place, ward in rows)


def test_a_partition_of_numbers_is_text_until_a_question_asks_for_numbers(tmp_path: Path) -> None:
    """A type read off the folders' names would be one read off the records."""
    for year in (2019, 2020):
        _write(tmp_path / f"year={year}" / "0.parquet")
    with open_table(tmp_path, facts=Facts(year=Number(2000, 2030))) as table:
        assert table.schema["year"] == "string"
        assert table.read(ClippedSum(2000, 2030), "year").total.tolist() == [3 * 2019 + 3 * 2020]
        assert table.read(ClippedSum(0, 1), where="year > 2019").total.tolist() == [3]
        assert table.read(ClippedSum(0, 1), where="year = '2019'").total.tolist() == [3]


def test_persons_may_lie_in_folders_of_their_own(tmp_path: Path) -> None:
    for who in ("ann", "bea"):
        _write(tmp_path / "data" / f"who={who}" / "0.parquet")
    facts = Facts(who=Person(), age=Number(0, 10))
    with Curator(tmp_path / "data", tmp_path / "l.ledger", PureDP(1.0), facts=facts) as curator:
        assert curator.budget.n == 2
        curator.mean("age", spend=0.5)


def test_partitions_of_arrow_files_are_columns_too(tmp_path: Path) -> None:
    for ward in ("A", "B"):
        _write(tmp_path / f"ward={ward}" / "0.arrow")
    with open_table(str(tmp_path / "*" / "*.arrow")) as table:
        assert table.read(CategoryCounts(("A", "B")), "ward").total.tolist() == [3, 3]
    with open_table(tmp_path / "ward=A" / "0.arrow") as table:
        assert "ward" not in table.schema  # a file that is named by itself is what it holds


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        (["ward=A/0.parquet", "1.parquet"], "some files lie in folders such as ward=A, and others do not"),
        (["ward=A/0.parquet", "region=N/1.parquet"], "some files lie in folders"),
        (["age=1/0.parquet"], "names a column twice"),
        (["AGE=1/0.parquet"], "names a column twice"),
        (["a=1/b=2/0.parquet", "b=2/a=1/0.parquet"], "or in another order"),
    ],
)
def test_folders_that_say_no_one_thing_are_refused(tmp_path: Path, names: list[str], complaint: str) -> None:
    for name in names:
        _write(tmp_path / name)
    with pytest.raises(InvalidData, match=complaint) as told:
        open_table(tmp_path)
    assert "\n" not in str(told.value)


def test_partitions_of_csv_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "ward=A").mkdir()
    (tmp_path / "ward=A" / "0.csv").write_text("age\n1\n")
    with pytest.raises(InvalidData, match=r"lie in folders such as ward=\.\.\., .* write ward as a column"):
        open_table(str(tmp_path / "*" / "*.csv"))
    with open_table(tmp_path / "ward=A" / "0.csv") as table:
        assert table.count() == 1


@pytest.mark.parametrize("value", ["50%", "%00", "", "a=b", "=", "é", "ⅷ", "a" * 200, "'", '"'])
def test_no_name_of_a_folder_makes_a_question_fail(tmp_path: Path, value: str) -> None:
    _write(tmp_path / f"ward={value}" / "0.parquet")
    _write(tmp_path / "ward=A" / "0.parquet")
    with open_table(tmp_path) as table:
        seen = table.read(CategoryCounts(("A", "?")), "ward", missing="?")
        assert seen.n == 6
        assert seen.total[0] == 3
        assert table.read(ClippedSum(0, 9), "age", where="ward != 'A'").total.tolist() in ([6], [0])
