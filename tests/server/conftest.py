"""A server of the small office, in this process, met over a real socket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from sottovoce.faces.server.config import Config
from support.offices import bearer, served, token_for, write_office


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """One office for all tests of a module, with budgets that they do not exhaust."""
    limits = "answer_grid = 0.005\nfailures_per_minute = 100000\naddress_requests_per_minute = 1000000"
    limits += "\nrequests_per_minute = 1000000"
    return write_office(tmp_path_factory.mktemp("office"), whole="renyi:8,1000", each="renyi:8,500", limits=limits)


@pytest.fixture(scope="module")
def client(office: Config) -> Iterator[httpx.Client]:
    with served(office) as client:
        yield client


@pytest.fixture(scope="module")
def ada(office: Config) -> dict[str, str]:
    return bearer(token_for(office, "ada"))


@pytest.fixture(scope="module")
def bob(office: Config) -> dict[str, str]:
    return bearer(token_for(office, "bob"))


@pytest.fixture
def own_office(tmp_path: Path) -> Config:
    """An office of one's own, with small budgets: the whole covers 6 of the usual questions, each analyst 4."""
    return write_office(tmp_path, whole="renyi:8,0.3", each="renyi:8,0.2")
