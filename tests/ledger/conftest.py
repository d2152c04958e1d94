"""Ledgers to test on: every rule must hold in a SQLite file and on a PostgreSQL server."""

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.promises import RenyiDP
from sottovoce.service.ledger import Budget, Ledger, Reservation
from support.postgres import PostgresServer

BUDGET = RenyiDP(order=2, epsilon=1.0)  # of which GaussianProfile(mu) costs mu²
SCHEMA = {"smoker": "boolean", "age": "int64"}


@pytest.fixture(scope="session")
def shared_database(postgres_server: PostgresServer) -> Iterator[tuple[str, sa.Engine]]:
    """One database for all tests, and a connection kept for them: to be let in takes longer than to make a schema.

    A test that cuts all connections cuts this one too; then it is made anew.
    """
    address = postgres_server.url(postgres_server.create_database())
    engine = sa.create_engine(address, isolation_level="AUTOCOMMIT", pool_pre_ping=True)
    yield address, engine
    engine.dispose()


@pytest.fixture
def postgres_url(shared_database: tuple[str, sa.Engine]) -> str:
    """A schema of its own in one database: a database a test would be thousands of files to make and remove."""
    address, engine = shared_database
    name = f"test_{secrets.token_hex(6)}"
    with engine.connect() as connection:
        connection.execute(sa.text(f"CREATE SCHEMA {name}"))
    return f"{address}?options=-csearch_path%3D{name}"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{tmp_path / 'patients.ledger'}"


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    with Ledger(url, create=True) as opened:
        yield opened


@pytest.fixture
def budget(ledger: Ledger) -> Budget:
    return ledger.open_budget("patients", BUDGET, n=100, schema=SCHEMA, who="ada")


@pytest.fixture
def spend(ledger: Ledger, budget: Budget) -> Callable[..., int]:
    """Reserve and commit; return the entry's number."""

    def spend(mu: float = 0.25, value: object = 0.37, **options: object) -> int:
        right = ledger.reserve(budget, GaussianProfile(mu), {"mechanism": "noise"}, who="ada", **options)
        assert isinstance(right, Reservation)
        ledger.commit(right, {"value": value})
        return right.entry

    return spend
