import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sottovoce.privacy.errors import LedgerCorrupt
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.promises import RenyiDP
from sottovoce.service.ledger import Budget, Head, Ledger, Reservation
from sottovoce.service.ledger.hash_chain import digest

EVENTS = "sottovoce_events"


class Intruder:
    """Someone with every right on the database, and no respect for the ledger."""

    def __init__(self, url: str) -> None:
        self.engine = sa.create_engine(url, poolclass=sa.pool.NullPool)

    def run(self, *statements: str, **values: object) -> list[Any]:
        found: list[Any] = []
        with self.engine.begin() as connection:
            sqlite = connection.dialect.name == "sqlite"
            rules = connection.execute(
                sa.text("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")
            ).all() if sqlite else []  # fmt: skip
            for name, _ in rules:
                connection.execute(sa.text(f"DROP TRIGGER {name}"))
            if not sqlite:
                connection.execute(sa.text(f"ALTER TABLE {EVENTS} DISABLE TRIGGER ALL"))
            for statement in statements:
                result = connection.execute(
                    sa.text(statement), {name: values[name] for name in re.findall(r":(\w+)", statement)}
                )
                found = list(result.all()) if result.returns_rows else []
            for _, trigger in rules:
                connection.execute(sa.text(trigger))
            if not sqlite:
                connection.execute(sa.text(f"ALTER TABLE {EVENTS} ENABLE TRIGGER ALL"))
        return found

    def reseal(self) -> None:
        """Rewrite every hash and the head, so that the chain fits what the events now say."""
        previous, rows = "0" * 64, self.run(f"SELECT sequence, body FROM {EVENTS} ORDER BY 1")
        for number, body in rows:
            previous = digest(f"{previous}\n{body}")
            self.run(f"UPDATE {EVENTS} SET hash = :h WHERE sequence = :n", h=previous, n=number)
        self.run("UPDATE sottovoce_head SET count = :n, hash = :h", n=len(rows), h=previous)


@pytest.fixture
def intruder(url: str) -> Iterator[Intruder]:
    someone = Intruder(url)
    yield someone
    someone.engine.dispose()


@pytest.fixture
def written(ledger: Ledger, budget: Budget) -> Budget:
    """A ledger of ten events: create, open, and reserve and commit four times, the third voided."""
    for i in range(4):
        right = ledger.reserve(budget, GaussianProfile(0.5), {"mechanism": f"noise {i}"}, who="ada", key=f"k{i}")
        assert isinstance(right, Reservation)
        if i == 2:
            ledger.void(right, "changed my mind")
        else:
            ledger.commit(right, {"value": i})
    ledger.verify()
    return budget


@pytest.mark.usefixtures("written")
class TestTampering:
    @pytest.mark.parametrize(
        ("statement", "said"),
        [
            (
                f"UPDATE {EVENTS} SET body = replace(body, 'ada', 'eve') WHERE sequence = 5",
                "event 5 was altered",
            ),
            (
                f"UPDATE {EVENTS} SET body = replace(body, '0.25', '0.125') WHERE sequence = 3",
                "event 3 was alt",
            ),
            (f"UPDATE {EVENTS} SET value = 'forged' WHERE sequence = 6", "event 6 was altered: its value"),
            (f"UPDATE {EVENTS} SET value = NULL WHERE sequence = 6", "event 6 was altered: its value"),
            (f"UPDATE {EVENTS} SET spent = '0' WHERE sequence = 9", "event 9 was altered: its column spent"),
            (f"UPDATE {EVENTS} SET key = 'other' WHERE sequence = 3", "event 3 was altered: its column key"),
            (f"UPDATE {EVENTS} SET kind = 'void' WHERE sequence = 4", "event 4 was altered: its column kind"),
            (f"UPDATE {EVENTS} SET hash = '{'0' * 64}' WHERE sequence = 4", "event 4 was altered"),
            (f"DELETE FROM {EVENTS} WHERE sequence = 5", "event 5 is missing: event 6 follows event 4"),
            (f"DELETE FROM {EVENTS} WHERE sequence = 1", "event 1 is missing"),
            (f"DELETE FROM {EVENTS} WHERE sequence >= 9", "events 9 to 10 are missing: the end was cut off"),
            (f"DELETE FROM {EVENTS}", "events 1 to 10 are missing"),
            ("DELETE FROM sottovoce_head", "head is missing"),
            ("UPDATE sottovoce_head SET count = 9", "the head says"),
            (f"UPDATE sottovoce_head SET hash = '{'0' * 64}'", "the head says"),
            ("UPDATE sottovoce_version SET version = 0", "a column, index or trigger was changed"),
        ],
    )
    def test_is_found_and_located(self, ledger: Ledger, intruder: Intruder, statement: str, said: str) -> None:
        intruder.run(statement)
        with pytest.raises(LedgerCorrupt, match=said):
            ledger.verify()

    def test_swapped_events_are_found(self, ledger: Ledger, intruder: Intruder) -> None:
        swap = [(-1, 3), (3, 5), (5, -1)]
        intruder.run(*(f"UPDATE {EVENTS} SET sequence = {to} WHERE sequence = {old}" for to, old in swap))
        with pytest.raises(LedgerCorrupt, match="event 3 was altered"):
            ledger.verify()

    def test_a_cut_end_with_a_head_to_match_is_found_by_an_anchor(self, ledger: Ledger, intruder: Intruder) -> None:
        noted = ledger.verify()
        intruder.run(f"DELETE FROM {EVENTS} WHERE sequence >= 9")
        intruder.reseal()
        with pytest.raises(LedgerCorrupt, match=r"ends at event 8, and event 10 was once written: the last 2"):
            ledger.verify(noted)

    def test_a_history_rewritten_whole_is_found_by_an_anchor(
        self, ledger: Ledger, intruder: Intruder, url: str
    ) -> None:
        noted = ledger.verify()
        intruder.run(f"UPDATE {EVENTS} SET body = replace(body, 'ada', 'eve') WHERE sequence = 5")
        intruder.reseal()
        if url.startswith("sqlite"):
            Path(url.removeprefix("sqlite:///") + "-anchor").unlink()  # a thorough intruder
        with Ledger(url) as fooled:
            assert fooled.verify().count == 10
            with pytest.raises(LedgerCorrupt, match="event 10 is not the one that was noted"):
                fooled.verify(noted)
            with pytest.raises(LedgerCorrupt, match="event 4 is not the one that was noted"):
                fooled.verify(Head(4, "0" * 64))

    def test_a_damaged_ledger_is_refused_on_opening(self, intruder: Intruder, url: str) -> None:
        intruder.run(f"UPDATE {EVENTS} SET body = '{{}}' WHERE sequence = 4")
        with pytest.raises(LedgerCorrupt, match="event 4 was altered"):
            Ledger(url)

    def test_no_release_is_reserved_on_a_ledger_that_went_back(
        self, ledger: Ledger, budget: Budget, intruder: Intruder
    ) -> None:
        intruder.run(f"DELETE FROM {EVENTS} WHERE sequence >= 9")
        intruder.reseal()
        with pytest.raises(LedgerCorrupt, match="had come to event 10 and now ends at 8"):
            ledger.reserve(budget, GaussianProfile(0.1), {})
        assert intruder.run(f"SELECT count(*) FROM {EVENTS}") == [(8,)]


def test_the_database_itself_refuses_to_rewrite(ledger: Ledger, written: Budget, url: str) -> None:
    engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
    for statement in [f"UPDATE {EVENTS} SET body = '{{}}'", f"DELETE FROM {EVENTS}"]:
        with pytest.raises(sa.exc.DBAPIError, match="the ledger only grows"), engine.begin() as connection:
            connection.execute(sa.text(statement))
    engine.dispose()
    assert ledger.verify().count == 10


def test_a_dropped_rule_is_found(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path / 'x.ledger'}"
    with Ledger(url, create=True) as ledger:
        ledger.open_budget("p", RenyiDP(2, 1.0), n=1, schema={})
        engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
        with engine.begin() as connection:
            connection.execute(sa.text("DROP TRIGGER sottovoce_no_delete"))
        with pytest.raises(LedgerCorrupt, match="a column, index or trigger was changed"):
            ledger.verify()
