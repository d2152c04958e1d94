"""Tables that grow: one budget goes on over all versions, each answer is about the records of its moment."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import ibis
import numpy as np
import pandas as pd
import pytest

import sottovoce as sv
from sottovoce.faces.cli import application
from sottovoce.privacy.errors import BudgetExceeded, InvalidData, InvalidValue, LedgerCorrupt
from sottovoce.service.ledger import Ledger

FACTS = sv.Facts(age=sv.Number(0, 100), smoker=sv.Flag())
BUDGET = sv.ApproxDP(1.0, 1e-6)


def write(place: Path, n: int, *, seed: int = 0, **more: Any) -> None:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.integers(18, 90, n), "smoker": rng.random(n) < 0.3} | more)
    frame.to_csv(place, index=False) if place.suffix == ".csv" else frame.to_parquet(place)


@pytest.fixture(params=["parquet", "csv"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    where: Path = tmp_path / f"stays.{request.param}"
    write(where, 500)
    return where


def test_the_same_file_with_more_rows_goes_on(place: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    with sv.Curator(place, ledger, BUDGET, facts=FACTS, grows=True) as curator:
        first = curator.proportion("smoker", spend=0.1)
        assert (curator.n, curator.grows) == (500, True)
    write(place, 800)
    with sv.Curator(place, ledger, facts=FACTS) as curator:  # what grows is known from the ledger
        assert (curator.n, curator.grows) == (800, True)
        second = curator.proportion("smoker", spend=0.1)
        assert curator.share_left() == pytest.approx(0.8, abs=1e-3)
        assert [entry.request["mechanism"]["n"] for entry in curator.history()] == [500, 800]
        stamps = {entry.request["data"] for entry in curator.history()}
        assert len(stamps) == 2
        assert curator.again(second.entry).rows == second.rows
        assert curator.again(first.entry).rows == first.rows
        asked_before = curator.answered_before(curator.question("proportion", "smoker"))
        assert asked_before == second.entry  # and not that about other records
    with Ledger(ledger) as kept:
        kept.verify()
        budget = kept.budgets()[0]
        assert [version.n for version in kept.versions(budget)] == [500, 800]
        assert kept.version(budget) == kept.versions(budget)[-1]


def test_an_open_curator_takes_what_was_written_since(place: Path, tmp_path: Path) -> None:
    with sv.Curator(place, tmp_path / "ledger", BUDGET, facts=FACTS, grows=True) as curator:
        curator.proportion("smoker", spend=0.05)
        write(place, 700, seed=1, new=np.arange(700))
        before = curator.share_left()
        stale = sv.NoisyStatistics.calibrate(sv.BetaBernoulli(1, 1), 500, sv.PureDP(0.01))
        with pytest.raises(InvalidData, match="written again since it was opened"):
            curator.release(stale, "smoker")
        assert curator.share_left() == before
        assert curator.mean("age", spend=0.05).release.mechanism["n"] == 700
        with pytest.raises(InvalidValue, match="has 700 records; calibrate it for n=700"):
            curator.release(stale, "smoker")
        assert "new" in curator.version.schema  # type: ignore[union-attr]
        write(place, 300, seed=2)  # erased on request
        assert curator.plan("smoker ~ age", spend=0.2).n == 300
        assert curator.regress("smoker ~ age", spend=0.2).release.mechanism["n"] == 300
        curator._ledger.verify()


def test_nothing_is_paid_for_what_shrank_to_nothing(tmp_path: Path) -> None:
    place = tmp_path / "stays.parquet"
    write(place, 50)
    with sv.Curator(place, tmp_path / "ledger", BUDGET, facts=FACTS, grows=True) as curator:
        write(place, 0)
        with pytest.raises(InvalidData, match="has no records now"):
            curator.mean("age", spend=0.05)
        assert curator.share_left() == 1


def test_an_open_budget_can_be_declared_to_grow_and_never_back(place: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    with sv.Curator(place, ledger, BUDGET, facts=FACTS) as curator:
        curator.proportion("smoker", spend=0.3)
    write(place, 600)
    with pytest.raises(InvalidData, match=r"had 500 records when its budget was opened. Got 600; say grows=True"):
        sv.Curator(place, ledger, facts=FACTS)
    with sv.Curator(place, ledger, facts=FACTS, grows=True) as curator:
        assert curator.share_left() == pytest.approx(0.7, abs=1e-3)  # what was spent stays spent
        curator.proportion("smoker", spend=0.3)
        with pytest.raises(BudgetExceeded):
            curator.proportion("smoker", spend=0.5)
    with pytest.raises(InvalidValue, match="declared to grow, for good"):
        sv.Curator(place, ledger, facts=FACTS, grows=False)
    with pytest.raises(InvalidValue, match="grows= is True where"):
        sv.Curator(place, ledger, facts=FACTS, grows="yes")  # type: ignore[arg-type]


def test_other_records_of_the_same_number_are_another_version_of_a_file(place: Path, tmp_path: Path) -> None:
    with sv.Curator(place, tmp_path / "ledger", BUDGET, facts=FACTS, grows=True) as curator:
        entry = curator.proportion("smoker", spend=0.05).entry
        assert curator.answered_before(curator.question("proportion", "smoker")) == entry
        write(place, 500, seed=9)  # corrections
        curator.refresh()
        assert curator.answered_before(curator.question("proportion", "smoker")) is None


def test_a_secret_n_is_noted_nowhere(place: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    with sv.Curator(place, ledger, BUDGET, facts=FACTS, grows=True, n="private", time_grid=0.01) as curator:
        curator.proportion("smoker", spend=0.05)
        write(place, 777)
        curator.proportion("smoker", spend=0.05)
        assert curator.n is None
    with contextlib.closing(sqlite3.connect(ledger)) as kept:
        said = " ".join(row[0] for row in kept.execute("SELECT body FROM sottovoce_events"))
    assert "777" not in said.replace("0.777", "") or '"n":777' not in said


def test_persons_are_counted_anew(tmp_path: Path) -> None:
    place = tmp_path / "stays.parquet"
    facts = sv.Facts(patient=sv.Person(), age=sv.Number(0, 100))
    pd.DataFrame({"patient": np.repeat(np.arange(100), 2), "age": 50}).to_parquet(place)
    with sv.Curator(place, tmp_path / "ledger", BUDGET, facts=facts, grows=True) as curator:
        assert curator.n == 100
        pd.DataFrame({"patient": np.repeat(np.arange(130), 3), "age": 50}).to_parquet(place)
        assert curator.mean("age", spend=0.1).release.mechanism["n"] == 130


def test_parts_go_on_too(place: Path, tmp_path: Path) -> None:
    with sv.Curator(place, tmp_path / "ledger", BUDGET, facts=FACTS, grows=True) as curator:
        part = curator.open_part("ada", 0.5)
        curator.proportion("smoker", spend=0.1, part=part)
        write(place, 640)
        answer = curator.proportion("smoker", spend=0.1, part=part)
        assert answer.release.mechanism["n"] == 640
        assert curator.open_part("ada", 0.5) == part
        assert curator.share_left(part) == pytest.approx(0.8, abs=1e-3)
        with pytest.raises(InvalidValue, match="is a part; what grows is the data set of its whole"):
            curator._ledger.grow(part, n=3, schema={})


def test_a_live_database_that_grew_is_counted_before_it_is_charged(tmp_path: Path) -> None:
    engine = duckdb.connect(tmp_path / "live.duckdb")
    engine.execute("CREATE TABLE stays AS SELECT range % 90 AS age, range % 3 = 0 AS smoker FROM range(400)")
    engine.close()
    address = f"duckdb://{tmp_path}/live.duckdb?table=stays"
    with sv.Curator(address, tmp_path / "ledger", BUDGET, facts=FACTS, grows=True) as curator:
        curator.proportion("smoker", spend=0.05)
        curator._table._connection.con.execute("INSERT INTO stays SELECT 40, true FROM range(100)")  # type: ignore[attr-defined]
        curator._table._connection.con.execute("ALTER TABLE stays ADD COLUMN ward VARCHAR")  # type: ignore[attr-defined]
        before = curator.share_left()
        answer = curator.proportion("smoker", spend=0.05)
        assert answer.release.mechanism["n"] == 500
        assert curator.share_left() == pytest.approx(before - 0.05, abs=1e-3)
        assert {entry.state for entry in curator.history()} == {"committed"}


def test_frames_grow_from_one_curator_to_the_next(tmp_path: Path) -> None:
    for n in (100, 150):
        frame = pd.DataFrame({"age": np.arange(n) % 90, "smoker": np.arange(n) % 3 == 0})
        with sv.Curator(frame, tmp_path / "ledger", BUDGET, facts=FACTS, dataset="stays", grows=True) as curator:
            assert curator.proportion("smoker", spend=0.05).release.mechanism["n"] == n
            assert curator.answered_before(curator.question("proportion", "smoker")) == curator.history()[-1].id
    engine = ibis.duckdb.connect()
    engine.raw_sql("CREATE TABLE t AS SELECT range AS age, true AS smoker FROM range(160)")
    with sv.Curator(engine.table("t"), tmp_path / "ledger", facts=FACTS, dataset="stays") as curator:
        assert curator.n == 160


def test_a_column_that_changed_its_type_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    place, ledger = tmp_path / "stays.parquet", tmp_path / "ledger"
    write(place, 50, other=np.arange(50))
    sv.Curator(place, ledger, BUDGET, facts=FACTS, grows=True).close()
    write(place, 60, other=["x"] * 60)
    sv.Curator(place, ledger, facts=FACTS).close()
    assert "columns of" in caplog.text and "other (int64, now string)" in caplog.text
    with sv.Curator(place, ledger, facts=FACTS) as curator:  # one that is open says so, too
        caplog.clear()
        write(place, 70, other=np.arange(70))
        curator.refresh()
        assert curator.n == 70 and "other (string, now int64)" in caplog.text


def test_a_version_that_was_altered_is_told(place: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    for checkpoint in (False, True):
        with sv.Curator(place, ledger, BUDGET, facts=FACTS, grows=True) as curator:
            write(place, 510 + checkpoint)
            curator.refresh()
        if checkpoint:
            with Ledger(ledger) as kept:
                kept.leave_checkpoint()
    with contextlib.closing(sqlite3.connect(ledger)) as kept, kept:
        kept.execute("DROP TRIGGER sottovoce_no_update")
        kept.execute("UPDATE sottovoce_events SET body = replace(body, '\"n\":511', '\"n\":512') WHERE kind = 'grow'")
    with pytest.raises(LedgerCorrupt):
        Ledger(ledger)


def test_rules_of_versions(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger", create=True) as ledger:
        budget = ledger.open_budget("stays", sv.PureDP(1), n=5, schema={})
        assert ledger.version(budget) is None
        for n in (0, -3, None, 2.5, True):
            with pytest.raises((InvalidValue, LedgerCorrupt)):
                ledger.grow(budget, n=n, schema={})  # type: ignore[arg-type]
        assert ledger.version(budget) is None
        first = ledger.grow(budget, n=7, schema={"a": "int64"}, who="ada")
        assert ledger.grow(budget, n=7, schema={"a": "int64"}) == first  # no news
        secret = ledger.open_budget("secret", sv.PureDP(1).under(sv.ADD_REMOVE), n=None, schema={})
        with pytest.raises(InvalidValue):
            ledger.grow(secret, n=7, schema={})
        ledger.verify()


def test_the_command_line(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from typer.testing import CliRunner

    (tmp_path / f"{place.stem}.facts.toml").write_text(
        '[age]\nkind = "number"\nlow = 0\nhigh = 100\n\n[smoker]\nkind = "flag"\n'
    )
    run = CliRunner()
    ask = ["ask", str(place), "proportion of smoker", "--json"]
    assert run.invoke(application("ask"), [*ask, "--budget", "approx:1,1e-6"]).exit_code == 0
    write(place, 900)
    refused = run.invoke(application("ask"), ask)
    assert refused.exit_code != 0
    assert run.invoke(application("ask"), [*ask, "--grows"]).exit_code == 0
    write(place, 950)
    assert run.invoke(application("ask"), ask).exit_code == 0
    kept = str(next(tmp_path.glob("*.ledger")))
    shown = json.loads(run.invoke(application("ledger"), ["ledger", "show", kept, "--json"]).stdout)
    assert [version["n"] for version in shown["budgets"][0]["versions"]] == [900, 950]
    wide = os.environ | {"COLUMNS": "300", "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-m", "sottovoce", "ledger", "show", kept]
    said = subprocess.run(command, env=wide, capture_output=True, check=True, encoding="utf-8").stdout
    assert "500 → 950" in said


# One filter over all versions, by brute force.


def trajectories(times: int) -> list[tuple[int | None, ...]]:
    """Every life of a record: at each time it is not there yet, or holds 0 or 1, which may be corrected."""
    every = itertools.product((None, 0, 1), repeat=times)
    return [life for life in every if all(b is not None or a is None for a, b in itertools.pairwise(life))]


def chance(
    history: Sequence[tuple[int | None, ...]], strategy: tuple[int, ...], transcript: tuple[int, ...]
) -> Fraction:
    """How likely a transcript is: at each time a randomised response, which costs log 2, to "more ones than asked?".

    How many are asked about depends on all that was answered before, as the strategy says.
    """
    odds = Fraction(1)
    for time, answer in enumerate(transcript):
        asked = strategy[(1 << time) - 1 + sum(bit << k for k, bit in enumerate(transcript[:time]))]
        ones = sum(life[time] or 0 for life in history)
        odds *= Fraction(2, 3) if answer == (ones > asked) else Fraction(1, 3)
    return odds


def test_the_transcript_of_a_growing_table_keeps_the_sum_of_what_was_paid() -> None:
    times, people = 2, 2
    histories = list(itertools.product(trajectories(times), repeat=people))
    pairs = [
        (first, second)
        for first, second in itertools.product(histories, repeat=2)
        if sum(a != b for a, b in zip(first, second, strict=True)) == 1
        and all(sum(a[t] is None for a in first) == sum(b[t] is None for b in second) for t in range(times))
    ]
    assert len(pairs) > 100
    worst = max(
        chance(first, strategy, said) / chance(second, strategy, said)
        for strategy in itertools.product((0, 1), repeat=2**times - 1)
        for first, second in pairs
        for said in itertools.product((0, 1), repeat=times)
    )
    assert worst == 2**times  # reached, and never exceeded


@pytest.mark.parametrize("kind", ["parquet", "csv", "frame"])
def test_a_column_that_is_gone_takes_no_other_question_along(kind: str, tmp_path: Path) -> None:
    place, ledger = tmp_path / f"stays.{kind}", tmp_path / "ledger"

    def written(n: int, *names: str) -> Any:
        frame = pd.DataFrame({"age": np.arange(n) % 90, "smoker": np.arange(n) % 3 == 0})[list(names)]
        if kind == "frame":
            return frame
        frame.to_csv(place, index=False) if kind == "csv" else frame.to_parquet(place)
        return place

    with sv.Curator(written(300, "age", "smoker"), ledger, BUDGET, facts=FACTS, dataset="stays", grows=True) as curator:
        curator.mean("age", spend=0.1)
        without = written(310, "smoker")
        if kind != "frame":
            curator.proportion("smoker", spend=0.1)
    with sv.Curator(without, ledger, facts=FACTS, dataset="stays") as curator:
        curator.proportion("smoker", spend=0.1)
        spent = curator.share_left()
        for ask in (
            lambda: curator.mean("age", spend=0.1),
            lambda: curator.plan("mean of age", spend=0.1),
            lambda: curator.proportion("smoker", where="age > 3", spend=0.1),
        ):
            with pytest.raises(InvalidData, match="there is no column 'age'"):
                ask()
        assert curator.share_left() == spent
    with sv.Curator(written(320, "age", "smoker"), ledger, facts=FACTS, dataset="stays") as curator:
        assert curator.mean("age", spend=0.1).release.mechanism["n"] == 320


def test_facts_of_other_columns_open_no_budget(tmp_path: Path) -> None:
    frame, ledger = pd.DataFrame({"smoker": [True, False]}), tmp_path / "ledger"
    for _ in range(2):  # in a ledger that is not there, and in one that is
        with pytest.raises(InvalidValue, match=r"not there.*age"):
            sv.Curator(frame, ledger, BUDGET, facts=FACTS, dataset="stays", grows=True)
        if not ledger.exists():
            sv.Curator(frame, ledger, BUDGET, dataset="others").close()
        with Ledger(ledger) as opened:
            assert [budget.dataset for budget in opened.budgets()] == ["others"]


def test_versions_that_nobody_reads_any_more_are_closed(tmp_path: Path) -> None:
    place = tmp_path / "stays.parquet"
    write(place, 100)
    with sv.Curator(place, tmp_path / "ledger", BUDGET, facts=FACTS, grows=True) as curator:
        tables = [curator.records]
        question = curator.question("proportion", "smoker")
        priced = curator.price(curator.mechanism_for(question, 0.01))
        for night in range(4):
            os.utime(place, (night, night))
            curator.refresh()
            tables.append(curator.records)
        assert len({id(table) for table in tables}) == 5
        first, *others = tables
        assert first.count() == 100, "what was priced is read of its own table"
        assert [_is_open(table) for table in others] == [False, False, True, True]
        del priced
        assert not _is_open(first)
    assert not any(map(_is_open, tables))


def _is_open(table: Any) -> bool:
    with contextlib.suppress(InvalidData):
        return bool(table.count())
    return False


def test_to_take_up_what_was_written_ends_on_the_grid_of_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "stays.parquet"
    write(place, 100)
    waits: list[float | None] = []

    @contextlib.contextmanager
    def noted(step: float | None) -> Any:
        waits.append(step)
        yield

    monkeypatch.setattr("sottovoce.service.curator.curator.on_the_grid", noted)
    with sv.Curator(place, tmp_path / "ledger", BUDGET, facts=FACTS, grows=True, time_grid=0.25) as curator:
        curator.refresh()
        assert waits == []  # nothing was written: nothing is counted
        write(place, 120)
        curator.refresh()
        assert waits == [0.25] and curator.n == 120


@pytest.mark.parametrize(("n", "state"), [(500, "committed"), (700, "void")])
def test_what_is_written_over_between_the_charge_and_the_read(
    n: int, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "stays.parquet"
    write(place, 500)
    with sv.Curator(place, tmp_path / "ledger", BUDGET, facts=FACTS, grows=True) as curator:
        make = curator.make_all

        def late(paid: Any) -> Any:
            write(place, n, seed=1)
            return make(paid)

        monkeypatch.setattr(curator, "make_all", late)
        with contextlib.nullcontext() if n == 500 else pytest.raises(InvalidData, match="had 500 records a moment ago"):
            curator.proportion("smoker", spend=0.1)
        monkeypatch.undo()
        assert [str(entry.state) for entry in curator.history()] == [state]
        assert curator.share_left() == pytest.approx(0.9 if n == 500 else 1.0, abs=1e-3)
        assert curator.proportion("smoker", spend=0.1).release.mechanism["n"] == n
        curator._ledger.verify()


def test_columns_may_come_without_a_declaration_and_facts_may_change(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """New columns of the same records, wider and narrower facts: all under one budget; one that is gone is refused."""
    frame = pd.DataFrame({"age": [20.0, 30.0, 40.0] * 50, "smoker": [True, False, False] * 50})
    place, data = tmp_path / "ledger", {"dataset": "stays"}
    old = sv.Facts(age=sv.Number(0, 110))
    with sv.Curator(frame, place, "approx:9,1e-6", facts=old, **data) as curator:
        curator.mean("age", spend=0.1)
    more = frame.assign(cost=[5.0, 6.0, 7.0] * 50)
    new = sv.Facts(age=sv.Number(18, 90), smoker=sv.Flag(), cost=sv.Number(1, 10), log_cost=sv.Derived("log(cost)"))
    with sv.Curator(more, place, facts=new, **data) as curator:
        assert "new since its budget was opened: cost" in caplog.text
        assert curator.mean("log_cost", by="smoker", spend=0.1).rows
        assert curator.mean("age", spend=0.1).entry  # narrower bounds are another question, and no error
        assert str(curator.left()).startswith("70 %")
    with pytest.raises(InvalidData, match="and with more"):
        sv.Curator(frame.drop(columns="age"), place, facts=sv.Facts(smoker=sv.Flag()), **data)


def test_records_that_are_erased_are_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    place, ledger = tmp_path / "stays.parquet", tmp_path / "ledger"
    write(place, 500)
    with sv.Curator(place, ledger, BUDGET, facts=FACTS, grows=True) as curator:
        assert curator.proportion("smoker", spend=0.1).release.mechanism["n"] == 500
        write(place, 480)
        assert curator.proportion("smoker", spend=0.1).release.mechanism["n"] == 480
        write(place, 490)
        curator.refresh()
        write(place, 470)
    (said,) = (record.message for record in caplog.records if "fewer" in record.message)
    assert "has 20 fewer than in its version before (500, now 480)" in said
    with sv.Curator(place, ledger, facts=FACTS) as curator:
        assert curator.n == 470
    assert sum("(490, now 470)" in record.message for record in caplog.records) == 1
    with sv.Curator(place, ledger, facts=FACTS):
        pass
    assert sum("fewer" in record.message for record in caplog.records) == 2


def test_records_that_come_between_two_looks_stay_paid_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "stays.parquet"
    write(place, 500)
    with sv.Curator(place, tmp_path / "ledger", BUDGET, facts=FACTS, grows=True) as curator:
        read = curator._table.read

        def late(*asked: Any, **more: Any) -> Any:
            result = read(*asked, **more)
            write(place, 700)
            return result

        monkeypatch.setattr(curator._table, "read", late)
        with pytest.raises(InvalidData, match="had 500 records a moment ago"):
            curator.quantiles("age", at=[0.5], spend=0.1)
        assert [str(entry.state) for entry in curator.history()] == ["lost"]  # noise was drawn once


def test_a_file_that_is_written_again_between_looks_that_must_be_at_one_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "stays.parquet"
    write(place, 500)
    with sv.Curator(place, tmp_path / "ledger", sv.ApproxDP(4, 1e-6), facts=FACTS, grows=True) as curator:
        read = curator._table.read

        def late(*asked: Any, **more: Any) -> Any:
            result = read(*asked, **more)
            write(place, 500, seed=1)
            return result

        monkeypatch.setattr(curator._table, "read", late)
        with pytest.raises(InvalidData, match="written again before all was read"):
            curator.mean("age", tails="smooth", spend=0.1)
        monkeypatch.undo()
        assert [str(entry.state) for entry in curator.history()] == ["lost"]
        curator.mean("age", tails="smooth", spend=0.1)
