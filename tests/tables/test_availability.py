"""Sources that go away: refused before anything is charged, and asked again once they are back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import ibis
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sottovoce.privacy.errors import InvalidData, SourceUnavailable
from sottovoce.privacy.promises import PureDP
from sottovoce.records.facts import Facts, Flag, Number, Person
from sottovoce.records.tables import open_table
from sottovoce.service.curator import Curator
from sottovoce.service.ledger import State

from .conftest import copy_to_postgres

ROWS = 60
FACTS = Facts(patient=Person(), smoker=Flag(), age=Number(0, 100))
PLAIN = Facts(smoker=Flag(), age=Number(0, 100))
_VISITS = "CREATE TABLE visits AS SELECT i % 2 = 0 AS smoker, i::DOUBLE AS age FROM range(40) AS t(i)"


class Clinic:
    """A database of one table, and what its keeper may do to it."""

    def __init__(self, server: Any) -> None:
        self.url = server.url(server.create_database(), scheme="postgresql")
        self.admin = server.url(scheme="postgresql")
        self.database = self.url.rsplit("/", 1)[1]
        ages = [float(place % 90) for place in range(ROWS)]
        columns = {"patient": [place // 2 for place in range(ROWS)], "smoker": [True, False] * (ROWS // 2), "age": ages}
        copy_to_postgres(pa.table(columns), self.url, "visits")
        self.address = f"{self.url}?table=visits"

    def run(self, statement: str) -> None:
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement)

    def end_connections(self) -> None:
        import psycopg

        with psycopg.connect(self.admin, autocommit=True) as connection:
            asked = "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE datname = %s"
            ended = connection.execute(asked, [self.database]).fetchone()
        assert ended is not None and ended[0] > 0

    def let_in(self, yes: bool) -> None:
        import psycopg

        with psycopg.connect(self.admin, autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {self.database} ALLOW_CONNECTIONS {str(yes).lower()}")


@pytest.fixture
def clinic(postgres_server: Any) -> Clinic:
    return Clinic(postgres_server)


@pytest.fixture
def curator(clinic: Clinic, tmp_path: Path) -> Iterator[Curator]:
    with Curator(clinic.address, tmp_path / "visits.ledger", PureDP(10.0), facts=PLAIN) as curator:
        yield curator


def _ask(curator: Curator) -> Any:
    return curator.proportion("smoker", spend=0.01)


def _states(curator: Curator) -> list[State]:
    return [entry.state for entry in curator.history()]


def test_a_connection_that_was_ended_is_made_anew(curator: Curator, clinic: Clinic) -> None:
    """Seven answers of seven had been charged and lost, until the process was started again."""
    for _ in range(3):
        clinic.end_connections()
        _ask(curator)
    assert _states(curator) == [State.COMMITTED] * 3


def test_a_connection_that_ends_after_the_charge_is_made_anew_too(
    curator: Curator, clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = Curator.make_all

    def end_and_make(self: Curator, paid: Any) -> Any:
        clinic.end_connections()
        return make(self, paid)

    monkeypatch.setattr(Curator, "make_all", end_and_make)
    for _ in range(2):
        _ask(curator)
    assert _states(curator) == [State.COMMITTED] * 2


def test_a_database_that_is_down_costs_nothing(curator: Curator, clinic: Clinic) -> None:
    _ask(curator)
    spent = curator.remaining()
    clinic.let_in(False)
    clinic.end_connections()
    for _ in range(3):
        with pytest.raises(
            SourceUnavailable, match=r"cannot be reached \(OperationalError\); nothing was spent"
        ) as told:
            _ask(curator)
        assert "\n" not in str(told.value)
        assert clinic.url.split(":")[2].split("@")[0] not in str(told.value)  # the password
    assert _states(curator) == [State.COMMITTED]
    assert curator.remaining() == spent
    clinic.let_in(True)
    _ask(curator)
    assert _states(curator) == [State.COMMITTED] * 2


@pytest.mark.parametrize(
    ("statement", "complaint"),
    [
        ("DROP TABLE visits", "is not there"),
        ("ALTER TABLE visits DROP COLUMN age", "no longer those it had"),
        ("ALTER TABLE visits ALTER COLUMN age TYPE text", "no longer those it had"),
        ("ALTER TABLE visits RENAME COLUMN smoker TO smokes", "no longer those it had"),
        ("INSERT INTO visits SELECT * FROM visits", "had 60 records when its budget was opened; it changed since"),
        ("DELETE FROM visits WHERE patient = 7", "had 60 records when its budget was opened; it changed since"),
    ],
)
def test_a_table_that_changed_costs_nothing(curator: Curator, clinic: Clinic, statement: str, complaint: str) -> None:
    clinic.run(statement)
    for _ in range(2):
        with pytest.raises((SourceUnavailable, InvalidData), match=complaint) as told:
            _ask(curator)
        assert "\n" not in str(told.value)
    assert _states(curator) == []


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE visits ADD COLUMN ward text",
        "ALTER TABLE visits ALTER COLUMN age SET NOT NULL",
        "CREATE INDEX ON visits (age)",
        "UPDATE visits SET age = 3 WHERE patient = 7",
    ],
)
def test_what_leaves_the_records_where_they_are_is_answered(curator: Curator, clinic: Clinic, statement: str) -> None:
    clinic.run(statement)
    _ask(curator)
    assert _states(curator) == [State.COMMITTED]


def test_a_table_that_may_not_be_read_any_more_costs_nothing(clinic: Clinic, tmp_path: Path) -> None:
    clinic.run("CREATE ROLE reader LOGIN PASSWORD 'secret'; GRANT SELECT ON visits TO reader")
    try:
        place = clinic.address.partition("@")[2]
        with Curator(f"postgresql://reader:secret@{place}", tmp_path / "r.ledger", PureDP(1.0), facts=PLAIN) as curator:
            _ask(curator)
            clinic.run("REVOKE SELECT ON visits FROM reader")
            with pytest.raises(SourceUnavailable, match=r"cannot be read \(InsufficientPrivilege\)"):
                _ask(curator)
            assert _states(curator) == [State.COMMITTED]
    finally:
        clinic.run("DROP OWNED BY reader; DROP ROLE reader")


def test_persons_are_counted_where_they_are_protected(clinic: Clinic, tmp_path: Path) -> None:
    with Curator(clinic.address, tmp_path / "persons.ledger", PureDP(10.0), facts=FACTS) as curator:
        clinic.run("INSERT INTO visits VALUES (7, true, 30)")  # another visit of a patient who is there
        _ask(curator)
        clinic.run("INSERT INTO visits VALUES (700, true, 30)")
        with pytest.raises(InvalidData, match="had 30 persons when its budget was opened; it changed since"):
            _ask(curator)
        assert _states(curator) == [State.COMMITTED]


def test_a_secret_number_of_records_is_not_counted(clinic: Clinic, tmp_path: Path) -> None:
    options: dict[str, Any] = {"facts": PLAIN, "n": "private", "time_grid": 0.001}
    with Curator(clinic.address, tmp_path / "secret.ledger", PureDP(10.0), **options) as curator:
        curator._table.count = None  # type: ignore[assignment,method-assign]  # whoever counts, fails
        clinic.run("INSERT INTO visits SELECT * FROM visits")
        _ask(curator)


def test_a_connection_of_the_callers_is_left_alone(clinic: Clinic, tmp_path: Path) -> None:
    """What their session holds, such as its settings, a new one would not."""
    connection = ibis.connect(clinic.url)
    try:
        data = connection.table("visits")
        with Curator(data, tmp_path / "theirs.ledger", PureDP(1.0), facts=PLAIN, dataset="visits") as curator:
            _ask(curator)
            clinic.end_connections()
            with pytest.raises(
                SourceUnavailable, match=r"does not answer; nothing was spent\. Connect and open it again"
            ):
                _ask(curator)
            assert _states(curator) == [State.COMMITTED]
    finally:
        connection.disconnect()


@pytest.mark.parametrize("gone", ["a file", "the folder"])
def test_a_folder_with_a_file_deleted_costs_nothing(tmp_path: Path, gone: str) -> None:
    folder = tmp_path / "visits"
    folder.mkdir()
    files = [_write(folder / f"{name}.parquet") for name in "ab"]
    with Curator(folder, tmp_path / "visits.ledger", PureDP(1.0), facts=PLAIN) as curator:
        _ask(curator)
        for file in files if gone == "the folder" else files[1:]:
            file.unlink()
        if gone == "the folder":
            folder.rmdir()
        with pytest.raises(SourceUnavailable, match=r"\.parquet is gone.*nothing was spent\. Put it back.*ask again$"):
            _ask(curator)
        assert _states(curator) == [State.COMMITTED]


def test_a_duckdb_file_that_is_deleted_costs_nothing(tmp_path: Path) -> None:
    """An open one can still be read, by this process alone: what is answered then nobody can ever ask again."""
    file = tmp_path / "visits.duckdb"
    with duckdb.connect(file) as connection:
        connection.sql(_VISITS)
    with Curator(f"duckdb://{file}?table=visits", tmp_path / "visits.ledger", PureDP(1.0), facts=PLAIN) as curator:
        _ask(curator)
        file.unlink()
        with pytest.raises(SourceUnavailable, match=r"the file visits\.duckdb is gone.*nothing was spent"):
            _ask(curator)
        assert _states(curator) == [State.COMMITTED]


def test_a_duckdb_table_that_grew_costs_nothing(tmp_path: Path) -> None:
    """Rows that another cursor of the process inserts are seen before the charge, by their number."""
    connection = ibis.duckdb.connect(tmp_path / "visits.duckdb")
    connection.raw_sql(_VISITS)
    with Curator(
        connection.table("visits"), tmp_path / "visits.ledger", PureDP(1.0), facts=PLAIN, dataset="visits"
    ) as curator:
        _ask(curator)
        connection.raw_sql("INSERT INTO visits VALUES (true, 50)")
        for _ in range(2):
            with pytest.raises(InvalidData, match=r"had 40 records when its budget was opened; it changed since"):
                _ask(curator)
        assert _states(curator) == [State.COMMITTED]
    connection.disconnect()


@pytest.mark.parametrize("ending", ["parquet", "csv", "arrow"])
def test_a_file_that_is_deleted_costs_nothing(tmp_path: Path, ending: str) -> None:
    """It had been a FileNotFoundError with the whole path."""
    file = tmp_path / f"visits.{ending}"
    _write(file)
    with Curator(file, tmp_path / "visits.ledger", PureDP(1.0), facts=PLAIN) as curator:
        _ask(curator)
        file.unlink()
        for _ in range(2):
            with pytest.raises(SourceUnavailable, match=rf"the file visits\.{ending} is gone.*nothing was spent"):
                _ask(curator)
        assert _states(curator) == [State.COMMITTED]
    with open_table(_write(file)) as table:
        file.unlink()
        with pytest.raises(SourceUnavailable):
            table.ensure_available()
    with pytest.raises(InvalidData, match="is closed"):
        table.ensure_available()


def _write(file: Path) -> Path:
    table = pa.table({"smoker": [True, False] * 20, "age": [30.0, 40.0] * 20})
    if file.suffix == ".parquet":
        pq.write_table(table, file)
    elif file.suffix == ".csv":
        file.write_text("smoker,age\n" + "true,30\nfalse,40\n" * 20)
    else:
        import pyarrow.feather

        pyarrow.feather.write_feather(table, file)
    return file


def test_a_frame_is_always_there() -> None:
    with open_table(pa.table({"age": [1, 2]})) as table:
        assert not table.ensure_available()
        assert not table.grows


def test_the_same_data_by_another_word_for_postgresql_have_one_budget(clinic: Clinic, tmp_path: Path) -> None:
    with Curator(clinic.address, tmp_path / "one.ledger", PureDP(1.0), facts=PLAIN) as curator:
        name = curator.dataset
    other = clinic.address.replace("postgresql://", "postgres://")
    with Curator(other, tmp_path / "one.ledger", facts=PLAIN) as curator:
        assert curator.dataset == name
        with pytest.raises(Exception, match="read-only"):
            curator._table._connection.raw_sql("DELETE FROM visits")  # type: ignore[attr-defined]
