"""Ledgers whose index of closed entries says IN, as all did once, are used as those of today are."""

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.promises import RenyiDP
from sottovoce.service.ledger import Ledger, Reservation, queries
from sottovoce.service.ledger.transaction import Transaction

TODAY = "kind = 'commit' OR kind = 'void' OR kind = 'recover'"
ONCE = "kind IN ('commit', 'void', 'recover')"


@pytest.fixture(params=[TODAY, ONCE])
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    honest = Transaction.run

    def run(transaction: Transaction, statement: str, *values: object) -> Any:
        made = "CREATE UNIQUE INDEX" in statement
        return honest(transaction, statement.replace(TODAY, request.param) if made else statement, *values)

    path = tmp_path / "p.ledger"
    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "run", run)
        with Ledger(path, create=True) as ledger:
            ledger.open_budget("patients", RenyiDP(2, 1.0), n=100, schema={})
    with contextlib.closing(sqlite3.connect(path)) as reader:
        (sql,) = reader.execute("SELECT sql FROM sqlite_schema WHERE name = 'sottovoce_closed'").fetchone()
        assert sql.endswith(f"WHERE {request.param}")
    return path


def test_all_goes_on(path: Path) -> None:
    with Ledger(path) as ledger:
        budget = ledger.budget("patients")
        rights = [ledger.reserve(budget, GaussianProfile(0.125), {}, key=f"k{i}") for i in range(3)]
        done, left, dead = (right for right in rights if isinstance(right, Reservation))
        ledger.commit(done, {"value": 1})
        ledger.void(left, "never mind")
        ledger.recover(dead.entry, note="it died")
        with pytest.raises(InvalidValue, match="closed already"):
            ledger.commit(dead, {"value": 2})
        assert ledger.verify().count == 2 + 6
    with Ledger(path) as ledger:
        assert [str(entry.state) for entry in ledger.entries()] == ["committed", "void", "lost"]


def test_what_closes_an_entry_is_found_without_reading_all(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as reader:
        plan = reader.execute(f"EXPLAIN QUERY PLAN {queries._CLOSED}", (3,)).fetchall()
        assert "USING INDEX sottovoce_closed (entry=?)" in plan[0][3]
        for _, _, _, step in reader.execute(f"EXPLAIN QUERY PLAN {queries._REUSED}", (0, 9)).fetchall():
            assert "ending" not in step or "USING INDEX sottovoce_closed (entry=?" in step
