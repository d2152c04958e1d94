"""Records that go out of reach: questions are refused free of charge, and the server says that it is not well."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sottovoce.faces.server import readiness
from sottovoce.faces.server.config import Config, read_config
from sottovoce.service.curator import Curator
from sottovoce.service.ledger import Ledger
from support.offices import N, bearer, patients, served, token_for, write_office
from support.visitors import Visitor

ANSWERS = "/api/v1/datasets/patients/answers"
ASKED = {"verb": "proportion", "column": "smoker", "spend": 0.01}


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "EVERY", 0.02)


def until(client: httpx.Client, status: int) -> str:
    """Wait until the server says of itself that it is well, or not, and return what it says."""
    deadline = time.monotonic() + 60
    while (health := client.get("/health")).status_code != status:
        assert time.monotonic() < deadline, health.text
        time.sleep(0.01)
    return str(health.json()["status"])


def counter(client: httpx.Client, config: Config, name: str) -> int:
    text = client.get("/metrics", headers=bearer(token_for(config, "ada", "admin"))).text
    return sum(int(value) for value in re.findall(rf"^sottovoce_{name}_total{{.*}} (\d+)\.0$", text, re.M))


def states(config: Config) -> list[str]:
    with Ledger(config.ledger) as ledger:
        return [str(entry.state) for entry in ledger.entries()]


class Database:
    """The patients in PostgreSQL, and what its keeper may do."""

    def __init__(self, server: Any) -> None:
        self._name = server.create_database()
        self.url, self._admin = server.url(self._name, "postgresql"), server.url(scheme="postgresql")
        self._run(self.url, "CREATE TABLE patients (smoker boolean, age double precision)")
        rows = zip(*(patients()[name].to_pylist() for name in ("smoker", "age")), strict=True)
        self._run(self.url, "INSERT INTO patients VALUES " + ",".join(f"({smoker}, {age})" for smoker, age in rows))

    @staticmethod
    def _run(url: str, statement: str) -> None:
        import psycopg

        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(statement)

    def run(self, statement: str) -> None:
        self._run(self.url, statement)

    def end_connections(self) -> None:
        ended = "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE datname = "
        self._run(self._admin, f"{ended}'{self._name}'")

    def let_in(self, yes: bool) -> None:
        self._run(self._admin, f"ALTER DATABASE {self._name} ALLOW_CONNECTIONS {str(yes).lower()}")

    def office(self, folder: Path) -> Config:
        path = write_office(folder).path
        text = path.read_text(encoding="utf-8")
        text = text.replace('source = "patients.parquet"', f'source = "{self.url}?table=patients"')
        kept, _, unkept = text.partition("[datasets.patients.columns.visits]")
        text = kept + unkept[unkept.index("[datasets.staff]") :]
        path.write_text(text, encoding="utf-8")
        return read_config(path)


@pytest.fixture
def database(postgres_server: Any) -> Iterator[Database]:
    made = Database(postgres_server)
    yield made
    made.let_in(True)


def test_a_connection_that_was_ended_is_made_anew_and_nothing_is_lost(database: Database, tmp_path: Path) -> None:
    config = database.office(tmp_path)
    headers = bearer(token_for(config))
    with served(config) as client:
        for _ in range(3):
            database.end_connections()
            assert client.post(ANSWERS, headers=headers, json=ASKED).status_code == 200
        assert until(client, 200) == "ok"
        assert counter(client, config, "answers_lost") == 0
    assert states(config) == ["committed"] * 3


def test_a_database_that_is_down_costs_nothing_and_the_server_says_so(database: Database, tmp_path: Path) -> None:
    config = database.office(tmp_path)
    headers = bearer(token_for(config))
    with served(config) as client:
        first = client.post(ANSWERS, headers=headers | {"Idempotency-Key": "one"}, json=ASKED)
        assert first.status_code == 200
        database.let_in(False)
        database.end_connections()
        refused = client.post(ANSWERS, headers=headers, json=ASKED | {"spend": 0.02})
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
        assert refused.json()["type"] == "urn:sottovoce:source-unavailable"
        said = refused.json()["detail"]
        assert "nothing was charged" in said and "administrator" in said
        assert not any(word in said for word in ("postgres", "127.0.0.1", "sottovoce:", "table"))
        assert until(client, 503) == "the records of a data set are out of reach"
        again = client.post(ANSWERS, headers=headers | {"Idempotency-Key": "one"}, json=ASKED)
        assert (again.status_code, again.json()["entry"]) == (200, first.json()["entry"])
        visitor = Visitor(client)
        visitor.log_in(token_for(config))
        fields = visitor.fields("/data/patients") | {"verb": "proportion", "spend": "1", "level": "95"}
        page = client.post("/data/patients/answer", data=fields)  # was answered before: free, whatever is down
        assert page.status_code == 409 and "This very question was answered before" in page.text
        page = client.post("/data/patients/answer", data=fields | {"anew": "1"})
        assert page.status_code == 503
        assert "nothing was charged" in page.text and "administrator" in page.text
        database.let_in(True)
        until(client, 200)
        assert client.post(ANSWERS, headers=headers, json=ASKED | {"spend": 0.02}).status_code == 200
        assert counter(client, config, "answers_lost") == 0
    assert states(config) == ["committed"] * 2


def test_a_table_that_grew_is_refused_and_costs_nothing(database: Database, tmp_path: Path) -> None:
    config = database.office(tmp_path)
    headers = bearer(token_for(config))
    with served(config) as client:
        database.run("INSERT INTO patients VALUES (true, 30)")
        refused = client.post(ANSWERS, headers=headers, json=ASKED)
        assert refused.status_code == 422
        assert f"had {N} records" in refused.json()["detail"]
        assert states(config) == []


def growing(config: Config) -> Config:
    text = config.path.read_text(encoding="utf-8")
    config.path.write_text(
        text.replace("[datasets.patients]\n", "[datasets.patients]\ngrows = true\n"), encoding="utf-8"
    )
    return read_config(config.path)


def test_a_table_that_was_declared_to_grow_is_asked_as_it_is_now(database: Database, tmp_path: Path) -> None:
    config = growing(database.office(tmp_path))
    headers = bearer(token_for(config))
    with served(config) as client:
        for more in range(3):
            answer = client.post(ANSWERS, headers=headers, json=ASKED)
            assert answer.status_code == 200, answer.json()["detail"]
            assert answer.json()["release"]["mechanism"]["n"] == N + more
            assert client.get("/api/v1/datasets/patients", headers=headers).json()["n"] == N + more
            database.run("INSERT INTO patients VALUES (true, 30)")
        database.end_connections()
        assert client.post(ANSWERS, headers=headers, json=ASKED).status_code == 200
        assert counter(client, config, "answers_lost") == 0
    assert states(config) == ["committed"] * 4


def test_a_file_that_was_declared_to_grow_is_asked_as_it_is_now(tmp_path: Path) -> None:
    config = growing(write_office(tmp_path))
    headers = bearer(token_for(config))
    with served(config) as client:
        first = client.post(ANSWERS, headers=headers, json=ASKED)
        assert first.status_code == 200, first.text
        before = first.json()["release"]["mechanism"]["n"]
        held = pq.read_table(tmp_path / "patients.parquet")
        pq.write_table(pa.concat_tables([held, held.slice(0, 70)]), tmp_path / "patients.parquet")
        until(client, 200)
        second = client.post(ANSWERS, headers=headers, json=ASKED)
        assert second.status_code == 200, second.text
        assert second.json()["release"]["mechanism"]["n"] == before + 70
        plan = client.post(
            "/api/v1/datasets/patients/regressions/plan", headers=headers, json={"formula": "smoker ~ age"}
        )
        assert plan.status_code == 200, plan.text
        again = client.get(f"/api/v1/datasets/patients/answers/{first.json()['entry']}", headers=headers)
        assert again.status_code == 200
    with Ledger(config.ledger) as ledger:
        assert [version.n for version in ledger.versions(ledger.budgets()[0])] in ([before, before + 70],)


def test_the_page_asks_a_file_that_grows_as_soon_as_it_was_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "EVERY", 3600.0)  # nobody else looks whether it was
    config = growing(write_office(tmp_path))
    with served(config) as client:
        visitor = Visitor(client)
        visitor.log_in(token_for(config))
        for more in range(2):
            fields = visitor.fields("/data/patients") | {"verb": "proportion", "spend": "1", "level": "95"}
            page = client.post("/data/patients/answer", data=fields)
            assert page.status_code == 200, page.text
            entries = client.get("/api/v1/datasets/patients/history", headers=bearer(token_for(config))).json()[
                "entries"
            ]
            assert len(entries) == more + 1 and entries[0]["request"]["mechanism"]["n"] == N + more * 70
            held = pq.read_table(tmp_path / "patients.parquet")
            pq.write_table(pa.concat_tables([held, held.slice(0, 70)]), tmp_path / "patients.parquet")


def test_a_file_that_is_gone_costs_nothing_and_the_server_says_so(tmp_path: Path) -> None:
    config = write_office(tmp_path)
    headers = bearer(token_for(config))
    with served(config) as client:
        assert until(client, 200) == "ok"
        file = tmp_path / "patients.parquet"
        file.rename(tmp_path / "elsewhere")
        refused = client.post(ANSWERS, headers=headers, json=ASKED)
        assert refused.status_code == 503
        assert "parquet" not in refused.json()["detail"]
        until(client, 503)
        (tmp_path / "elsewhere").rename(file)
        until(client, 200)
    assert states(config) == []


def test_answers_that_are_lost_are_counted_and_three_in_a_row_make_the_server_unwell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = write_office(tmp_path)
    headers = bearer(token_for(config))
    real: Callable[..., Any] = Curator.make_all

    def broken(*_: Any) -> Any:
        raise ArithmeticError("in vain")

    with served(config) as client:
        monkeypatch.setattr(Curator, "make_all", broken)
        for lost in range(1, 4):
            assert until(client, 200) == "ok"
            refused = client.post(ANSWERS, headers=headers, json=ASKED)
            assert refused.status_code == 500
            assert "each try is charged" in refused.json()["detail"]
            assert counter(client, config, "answers_lost") == lost
        assert until(client, 503) == "the answers of a data set are lost"
        monkeypatch.setattr(Curator, "make_all", real)
        assert client.post(ANSWERS, headers=headers, json=ASKED).status_code == 200
        assert until(client, 200) == "ok"
        monkeypatch.setattr(Curator, "make_all", broken)
        for _ in range(3):
            client.post(ANSWERS, headers=headers, json=ASKED)
        until(client, 503)
        monkeypatch.setattr(readiness, "_RECENT", 0.0)
        assert until(client, 200) == "ok"


def test_records_that_come_after_the_charge_are_refused_and_cost_nothing(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = database.office(tmp_path)
    text = config.path.read_text(encoding="utf-8").replace(
        "[datasets.patients]\n", "[datasets.patients]\ngrows = true\n"
    )
    config.path.write_text(text, encoding="utf-8")
    config, real = read_config(config.path), Curator.make_all
    headers = bearer(token_for(config)) | {"Idempotency-Key": "one"}

    def late(*asked: Any) -> Any:
        database.run("INSERT INTO patients VALUES (true, 40)")
        monkeypatch.undo()
        return real(*asked)

    with served(config) as client:
        monkeypatch.setattr(Curator, "make_all", late)
        refused = client.post(ANSWERS, headers=headers, json=ASKED)
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
        assert "not charged" in refused.json()["detail"]
        assert client.post(ANSWERS, headers=headers, json=ASKED).status_code == 200
        assert counter(client, config, "answers_lost") == 0
    assert states(config) == ["void", "committed"]
