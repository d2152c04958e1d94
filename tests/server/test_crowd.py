"""Exactly N answers are granted by several processes, and a killed one loses none and grants none twice.

benchmarks/server.py does the same with 200 clients.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sottovoce.faces.server.config import Config
from support.crowd import crowd, running
from support.offices import SMOKERS, token_for, write_office

COVERS = 60


@pytest.fixture(params=["sqlite", "postgres"])
def office(request: pytest.FixtureRequest, tmp_path: Path) -> Config:
    """An office whose whole budget covers 60 answers, and each of its three analysts' as many."""
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    budget = f"renyi:8,{COVERS * 0.05}"
    limits = "answer_grid = 0.02\naddress_requests_per_minute = 1e8\nrequests_per_minute = 1e8\nthreads = 4"
    return write_office(
        tmp_path,
        whole=budget,
        each=budget,
        limits=limits,
        ledger=url or "server.ledger",
        tokens=url or "server.tokens",
    )


def test_exactly_n_answers_are_granted_whoever_is_killed(office: Config) -> None:
    tokens = [token_for(office, name) for name in ("ada", "bob", "carol")]
    with running(office, 2) as servers:
        outcome = crowd(servers, tokens, SMOKERS, clients=12, kill_after=15)
    told = outcome.check(office, COVERS)
    assert outcome.told["broken"] > 0
    assert outcome.told["budget-exceeded"] == 12
    assert set(outcome.told) <= {"answered", "budget-exceeded", "entry-pending", "broken"}
    # What a killed worker had recorded is told to whoever asks again; what it had not is pending, and spent.
    assert told["committed"] == told["told"]
    assert told["pending"] == outcome.told["entry-pending"]
