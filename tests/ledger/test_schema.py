from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from sottovoce.privacy.errors import LedgerCorrupt, LedgerUnavailable
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.service.ledger import Budget, Ledger, schema
from sottovoce.service.ledger.transaction import Transaction


@pytest.fixture
def spent(ledger: Ledger, budget: Budget) -> Budget:
    ledger.reserve(budget, GaussianProfile(0.5), {"mechanism": "noise"})
    return budget


@pytest.fixture
def next_version(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A later release of this library, whose schema notes in a table of its own where each ledger is backed up."""

    def step(transaction: Transaction) -> None:
        transaction.run("CREATE TABLE sottovoce_backup (place TEXT NOT NULL)")

    monkeypatch.setattr(schema, "UPGRADES", {schema.VERSION: step})
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    yield
    monkeypatch.undo()


def test_an_upgrade_is_an_event_of_the_chain(
    ledger: Ledger, spent: Budget, url: str, request: pytest.FixtureRequest
) -> None:
    before = ledger.verify()
    request.getfixturevalue("next_version")
    with Ledger(url) as upgraded:
        after = upgraded.verify(before)
        assert after.count == before.count + 1
        assert upgraded.spent(spent) == ledger.spent(spent)
        upgraded.reserve(upgraded.budget("patients"), GaussianProfile(0.25), {"mechanism": "more"})
    with Ledger(url) as again:  # once is enough
        assert again.verify().count == after.count + 1
    engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
    with engine.begin() as connection:
        connection.execute(sa.text("INSERT INTO sottovoce_backup VALUES ('vault')"))


def test_a_failed_upgrade_leaves_the_ledger_as_it_was(
    ledger: Ledger, spent: Budget, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = ledger.verify()

    def step(transaction: Transaction) -> None:
        transaction.run("CREATE TABLE sottovoce_half (x TEXT)")
        transaction.run("CREATE TABLE sottovoce_events (x TEXT)")  # there is one

    with monkeypatch.context() as later:
        later.setattr(schema, "UPGRADES", {schema.VERSION: step})
        later.setattr(schema, "VERSION", schema.VERSION + 1)
        with pytest.raises(LedgerCorrupt, match="already exists"):
            Ledger(url)
    assert ledger.verify() == before
    with Ledger(url) as again:
        assert again.verify() == before


@pytest.mark.parametrize("version", [0, -1])
def test_a_version_that_there_never_was_is_damage(ledger: Ledger, url: str, version: int) -> None:
    """It had been a KeyError."""
    ledger.close()
    with sa.create_engine(url, poolclass=sa.pool.NullPool).begin() as connection:
        connection.execute(sa.text(f"UPDATE sottovoce_version SET version = {version}"))
    with pytest.raises(LedgerCorrupt, match=f"schema version {version}, which there never was"):
        Ledger(url)


def test_a_newer_ledger_is_refused(ledger: Ledger, spent: Budget, url: str, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue("next_version")
    Ledger(url).close()
    schema_of_today = request.getfixturevalue("monkeypatch")
    schema_of_today.undo()
    with pytest.raises(LedgerUnavailable, match=r"schema version 2 and this sottovoce knows 1; use a newer"):
        Ledger(url)
