"""A database that goes away: nothing is charged without an answer that can be had."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import psycopg
import pytest
from typer.testing import CliRunner

from sottovoce.faces.cli import application
from sottovoce.privacy.errors import InvalidData, InvalidValue, SourceLost, SourceUnavailable
from sottovoce.privacy.promises import ApproxDP, PureDP
from sottovoce.records.facts import Count, Derived, Facts, Flag, Number
from sottovoce.service.curator import Curator, table_looks
from sottovoce.service.ledger import Ledger, State
from support.postgres import PostgresServer, running_server, why_no_server

FACTS = Facts(smoker=Flag(), age=Number(0, 100))
ROWS = 300


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> float:
    """Wait for a database for a moment only, unless a test says more; return how long it would be waited for."""
    result = table_looks._PATIENCE
    monkeypatch.setattr(table_looks, "_PATIENCE", 0.2)
    return result


@pytest.fixture(scope="module")
def clinic() -> Iterator[PostgresServer]:
    """A server of one's own, that may be stopped."""
    if reason := why_no_server():
        pytest.skip(reason)
    with running_server() as server:
        yield server


@pytest.fixture
def visits(clinic: PostgresServer) -> str:
    url = clinic.url(clinic.create_database(), scheme="postgresql")
    _run(url, "CREATE TABLE visits (smoker boolean, age double precision)")
    _insert(url, ROWS)
    return url


def _run(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)


def _insert(url: str, rows: int) -> None:
    _run(url, f"INSERT INTO visits SELECT i % 3 = 0, i % 90 FROM generate_series(1, {rows}) AS t(i)")


def _end_connections(clinic: PostgresServer, url: str) -> None:
    with psycopg.connect(clinic.url(scheme="postgresql"), autocommit=True) as connection:
        asked = "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE datname = %s"
        connection.execute(asked, [url.rsplit("/", 1)[1]])


def _after_charging(curator: Curator, monkeypatch: pytest.MonkeyPatch, then: Callable[[], None]) -> None:
    """Do something once, when the next question is charged and not read."""
    reserve = curator._ledger.reserve

    def charged(*given: Any, **options: Any) -> Any:
        result = reserve(*given, **options)
        monkeypatch.setattr(curator._ledger, "reserve", reserve)
        then()
        return result

    monkeypatch.setattr(curator._ledger, "reserve", charged)


def test_sixty_questions_to_a_database_that_is_ended_stopped_and_written_to(
    clinic: PostgresServer, visits: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, budget = tmp_path / "ledger", ApproxDP(1, 1e-6)
    answered, rows, finished, refused = 0, ROWS, 0, 0
    with Curator(f"{visits}?table=visits", place, budget, facts=FACTS, grows=True) as curator:
        for number in range(60):
            if number % 5 == 1:
                _end_connections(clinic, visits)
            elif number % 5 == 2:
                _after_charging(curator, monkeypatch, lambda: _end_connections(clinic, visits))
            elif number % 15 == 3:  # stopped between questions: refused, free
                clinic.stop()
                before = len(curator.history())
                with pytest.raises((SourceUnavailable, InvalidData)):
                    curator.proportion("smoker", spend=0.01)
                assert len(curator.history()) == before
                refused += 1
                clinic.start()
            elif number % 15 == 13:  # stopped during a question
                _after_charging(curator, monkeypatch, clinic.stop)
                with pytest.raises(SourceLost, match="finish"):
                    curator.proportion("smoker", spend=0.01)
                (waiting,) = curator._ledger.pending()
                assert waiting.unread
                with pytest.raises((SourceUnavailable, InvalidData)):
                    curator.finish(waiting.id)
                clinic.start()
                answer = curator.finish(waiting.id)
                assert answer.release.mechanism["n"] == rows
                finished += 1
                answered += 1
                continue
            answer = curator.proportion("smoker", spend=0.01)
            assert answer.release.mechanism["n"] == rows
            answered += 1
            if number % 6 == 0:
                _insert(visits, 50)
                rows += 50
        assert (answered, finished, refused, rows) == (60, 4, 4, ROWS + 500)
        entries = curator.history()
        assert len(entries) == 60 and all(entry.state is State.COMMITTED for entry in entries)
        assert str(curator.left()).startswith("40 %")
    with Ledger(place) as ledger:
        ledger.verify()


def test_another_process_finishes_it_and_a_key_takes_it_up(
    clinic: PostgresServer, visits: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "ledger"
    address = f"{visits}?table=visits"
    with Curator(address, place, ApproxDP(1, 1e-6), facts=FACTS) as curator:
        _after_charging(curator, monkeypatch, clinic.stop)
        with pytest.raises(SourceLost):
            curator.mean("age", spend=0.1, idempotency_key="a")
        entry = curator._ledger.pending()[0].id
        with pytest.raises(SourceUnavailable):
            curator.mean("age", spend=0.1, idempotency_key="a")
        clinic.start()
    with Curator(address, place, facts=FACTS) as curator:
        with pytest.raises(InvalidValue, match="finish"):
            curator.again(entry)
        assert curator.mean("age", spend=0.1, idempotency_key="a").entry == entry
        assert [item.state for item in curator.history()] == [State.COMMITTED]
        with pytest.raises(InvalidValue, match="committed"):
            curator.finish(entry)
        _after_charging(curator, monkeypatch, clinic.stop)
        with pytest.raises(SourceLost):
            curator.regress("smoker ~ age", spend=0.2)
        clinic.start()
        entry = curator._ledger.pending()[0].id
    facts = tmp_path / "facts.toml"
    facts.write_text('[smoker]\nkind = "flag"\n[age]\nkind = "number"\nlow = 0\nhigh = 100\n', encoding="utf-8")
    arguments = ["finish", address, str(entry), "--facts", str(facts), "--ledger", str(place), "--json"]
    told = CliRunner().invoke(application("finish"), arguments, catch_exceptions=False).stdout
    assert json.loads(told)["entry"] == entry
    with Curator(address, place, facts=FACTS) as curator:
        assert str(curator.left()).startswith("70 %")
        curator._ledger.verify()


def test_what_changed_meanwhile_is_not_finished_and_stays_spent(
    clinic: PostgresServer, visits: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Curator(f"{visits}?table=visits", tmp_path / "ledger", PureDP(1.0), facts=FACTS, grows=True) as curator:
        _after_charging(curator, monkeypatch, clinic.stop)
        with pytest.raises(SourceLost):
            curator.proportion("smoker", spend=0.1)
        clinic.start()
        _insert(visits, 1)
        entry = curator._ledger.pending()[0].id
        with pytest.raises(InvalidData, match="others now"):
            curator.finish(entry)
        curator.proportion("smoker", spend=0.1)
        with pytest.raises(InvalidValue, match="another version"):
            curator.finish(entry)
        assert str(curator.left()).startswith("80 %")
        curator._ledger.recover(entry, note="the data changed")
        with pytest.raises(InvalidValue, match="lost"):
            curator.finish(entry)
        curator._ledger.verify()


def test_one_of_two_takes_it_up(tmp_path: Path, clinic: PostgresServer, visits: str, monkeypatch: Any) -> None:
    """Else the faster of two drafts would be told, and how fast it was may depend on what it drew."""
    with Curator(f"{visits}?table=visits", tmp_path / "ledger", PureDP(1.0), facts=FACTS) as curator:
        _after_charging(curator, monkeypatch, clinic.stop)
        with pytest.raises(SourceLost):
            curator.proportion("smoker", spend=0.1)
        clinic.start()
        entry = curator._ledger.pending()[0].id
        resume = curator._ledger.resume
        taken: list[Any] = []

        def twice(*given: Any, **options: Any) -> Any:
            taken.append(resume(*given, **options))
            return resume(*given, **options)

        monkeypatch.setattr(curator._ledger, "resume", twice)
        with pytest.raises(InvalidValue, match="under way"):
            curator.finish(entry)
        assert len(taken) == 1 and not curator._ledger.pending()[0].unread


def test_a_look_waits_for_a_database_that_restarts(
    clinic: PostgresServer, visits: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patience: float
) -> None:
    """What is stopped before or after the first look of several is answered, for one charge."""
    monkeypatch.setattr(table_looks, "_PATIENCE", patience)
    with Curator(f"{visits}?table=visits", tmp_path / "ledger", ApproxDP(1, 1e-6), facts=FACTS, grows=True) as curator:
        for stopped_after in (0, 1, 2):
            looks, back = [0], threading.Timer(1.0, clinic.start)

            def read(
                *asked: Any, looks: list[int] = looks, back: Any = back, at: int = stopped_after, **more: Any
            ) -> Any:
                if looks[0] == at:
                    clinic.stop()
                    back.start()
                looks[0] += 1
                return table_read(*asked, **more)

            table_read = curator._table.read
            curator._table.read = read
            curator.quantiles("age", at=[0.5], spend=0.25)
            curator._table.read = table_read
            back.join()
            assert looks[0] > stopped_after + 1  # the look that failed was taken again
        assert [entry.state for entry in curator.history()] == [State.COMMITTED] * 3
        monkeypatch.setattr(table_looks, "_PATIENCE", 0.5)
        reads: list[int] = []

        def stopped(*asked: Any, **more: Any) -> Any:
            if len(reads) == 1:
                clinic.stop()
            reads.append(1)
            return table_read(*asked, **more)

        monkeypatch.setattr(curator._table, "read", stopped)
        with pytest.raises(InvalidData) as lost:
            curator.quantiles("age", at=[0.5], spend=0.1)
        assert not isinstance(lost.value, SourceLost)  # something was read: it cannot be finished
        clinic.start()
        assert curator.history()[-1].state is State.LOST


def test_looks_that_must_be_at_one_moment_are(
    clinic: PostgresServer, visits: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that is corrected between the looks of a smooth mean, into another group, would be paid for once."""
    facts = Facts(smoker=Flag(), age=Number(0, 1000))
    with Curator(f"{visits}?table=visits", tmp_path / "ledger", ApproxDP(8, 1e-6), facts=facts, grows=True) as curator:
        table_read, looks = curator._table.read, [0]

        def corrected(*asked: Any, **more: Any) -> Any:
            result = table_read(*asked, **more)
            looks[0] += 1
            if looks[0] == 1:
                _run(visits, "UPDATE visits SET age = 800")
            return result

        monkeypatch.setattr(curator._table, "read", corrected)
        before = curator.mean("age", tails="smooth", spend=0.4)
        assert looks[0] > 1 and before.rows[0]["high"] < 200
        monkeypatch.undo()
        assert curator.mean("age", spend=0.2).rows[0]["low"] > 600

        def ended(*asked: Any, **more: Any) -> Any:
            _end_connections(clinic, visits)
            monkeypatch.undo()
            return table_read(*asked, **more)

        monkeypatch.setattr(curator._table, "read", ended)
        with pytest.raises(InvalidData, match="lost before all was read"):
            curator.mean("age", tails="smooth", spend=0.1)
        _after_charging(curator, monkeypatch, lambda: _end_connections(clinic, visits))
        curator.mean("age", tails="smooth", spend=0.1)
        assert curator.history()[-1].state is State.COMMITTED


def test_an_engine_without_snapshots_takes_no_such_looks(tmp_path: Path) -> None:
    import ibis

    connection = ibis.duckdb.connect()
    connection.raw_sql("CREATE TABLE visits AS SELECT i % 90 AS age FROM range(900) AS t(i)")
    facts = Facts(age=Number(0, 1000))
    options: dict[str, Any] = {"facts": facts, "dataset": "visits"}
    with Curator(connection.table("visits"), tmp_path / "ledger", ApproxDP(1, 1e-6), **options, grows=True) as curator:
        with pytest.raises(InvalidValue, match="one moment"):
            curator.mean("age", tails="smooth", spend=0.1)
        assert curator.history() == []
    with Curator(connection.table("visits"), tmp_path / "still", ApproxDP(1, 1e-6), **options) as curator:
        curator.mean("age", tails="smooth", spend=0.1)  # data that are said to stay as they are


def test_rows_that_come_between_two_looks_are_of_the_next_answer(
    clinic: PostgresServer, visits: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release reads one snapshot, also where its connection was made anew before its first look."""
    with Curator(f"{visits}?table=visits", tmp_path / "ledger", ApproxDP(1, 1e-6), facts=FACTS, grows=True) as curator:
        table_read, looks = curator._table.read, [0]

        def read(*asked: Any, **more: Any) -> Any:
            if not looks[0]:
                _end_connections(clinic, visits)
            result = table_read(*asked, **more)
            _insert(visits, 10)
            looks[0] += 1
            return result

        monkeypatch.setattr(curator._table, "read", read)
        answer = curator.quantiles("age", at=[0.5], spend=0.3)
        monkeypatch.undo()
        assert looks[0] > 1 and answer.release.mechanism["n"] == ROWS
        assert curator.proportion("smoker", spend=0.1).release.mechanism["n"] == ROWS + 10 * looks[0]


def test_a_column_that_is_derived_otherwise_meanwhile_is_not_told_under_its_old_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, ledger = tmp_path / "stays.parquet", tmp_path / "ledger"
    pd.DataFrame({"nights": [3] * ROWS}).to_parquet(place)

    def opened(high: int, definition: str) -> Curator:
        facts = Facts(nights=Count(high), stay=Derived(definition))
        return Curator(place, ledger, PureDP(1e6), facts=facts, grows=True)

    def fail(error: Exception) -> Callable[..., Any]:
        def failing(*_: Any, **__: Any) -> Any:
            raise error

        return failing

    as_it_was = (60, "clip(nights, 0, 10)")
    for asked in ("stay", "I(nights * 2)"):
        with opened(*as_it_was) as curator, monkeypatch.context() as lost:
            lost.setattr(curator, "_read", fail(InvalidData("gone")))
            lost.setattr(curator, "_reach", fail(SourceUnavailable("gone")))
            with pytest.raises(SourceLost):
                curator.mean(asked, spend=0.1)
            entry = curator.pending()[0].id
        for others in ((2, as_it_was[1]), (60, "clip(nights * 3, 0, 10)")):
            if asked == "stay" or others[0] == 2:
                with opened(*others) as curator, pytest.raises(InvalidValue, match="facts as they were, and finish it"):
                    curator.finish(entry)
        with opened(*as_it_was) as curator:
            answer = curator.finish(entry)
            assert float(answer.rows[0]["estimate"]) == pytest.approx(3 if asked == "stay" else 6, abs=0.5)
            curator._ledger.verify()
