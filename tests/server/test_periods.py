"""A server whose data have a budget for each period: asked, refused and told by period, on every way in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from sottovoce.faces.client import Client
from sottovoce.faces.server.config import Config, read_config
from sottovoce.privacy.errors import BudgetExceeded
from sottovoce.service.ledger import Ledger
from support.offices import bearer, served, token_for, write_office
from support.visitors import Visitor


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Config:
    config = write_office(tmp_path_factory.mktemp("office"), whole="approx:2,1e-6", each="approx:1,1e-6")
    text = config.path.read_text(encoding="utf-8").replace(
        "[datasets.patients]\n", '[datasets.patients]\nperiod = "ward"\n'
    )
    config.path.write_text(text, encoding="utf-8")
    return read_config(config.path)


@pytest.fixture(scope="module")
def server(office: Config) -> Iterator[httpx.Client]:
    with served(office) as client:
        yield client


def test_periods_are_told_charged_and_refused(server: httpx.Client, office: Config) -> None:
    headers, base = bearer(token_for(office)), "/api/v1/datasets/patients"
    facts = server.get(base, headers=headers).json()
    assert (facts["period"], facts["periods"]) == ("ward", ["N", "S", "E", "no period"])
    asked = {"verb": "mean", "column": "age", "where": "ward = 'N'", "spend": 0.7}
    answer = server.post(f"{base}/answers", headers=headers, json=asked)
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert json.loads(told["receipt"]["signed"])["periods"] == ["N"]
    assert told["remaining"]["yours"]["periods"] == pytest.approx({"N": 0.7, "S": 0, "E": 0, "no period": 0}, abs=1e-3)
    assert told["remaining"]["yours"]["spent"] == 0  # of the period that has most
    assert any("charged to 1 of 4 periods by ward: N" in note for note in told["notes"])
    assert server.get(f"{base}/remaining", headers=headers).json()["yours"] == told["remaining"]["yours"]
    left = server.get(f"{base}/left", headers=headers).json()
    assert left["yours"].startswith("left: 30 % of N; 100 % of S")
    refused = server.post(f"{base}/answers", headers=headers, json=asked | {"spend": 0.5})
    assert refused.status_code == 409
    assert "in N" in refused.json()["detail"]
    elsewhere = server.post(f"{base}/answers", headers=headers, json=asked | {"where": "ward = 'S'", "spend": 0.5})
    assert elsewhere.status_code == 200
    curve = server.post(f"{base}/balance", headers=headers, json={"question": "mean of age where ward = 'N'"})
    if curve.status_code == 200:
        assert not all(offer["covered"] for offer in curve.json()["curve"])


def test_the_client_knows_the_periods(server: httpx.Client, office: Config) -> None:
    client = Client(str(server.base_url), token_for(office, "bob"), "patients")
    assert client.periods is not None and client.periods.names == ("N", "S", "E", "no period")
    client.mean("age", where="ward = 'E'", spend=0.6)
    assert client.left_by_period()["E"] == pytest.approx(0.4, abs=1e-3)
    assert "40 % of E" in client.left()
    assert client.plan("mean of age where ward = 'S'", spend=0.5).share == 0.5  # type: ignore[union-attr]
    with pytest.raises(BudgetExceeded):
        client.plan("mean of age where ward = 'E'", spend=0.5)
    with pytest.raises(BudgetExceeded):
        client.plan("mean of age", spend=0.5)
    with pytest.raises(BudgetExceeded):
        client.describe(["age"], where="ward = 'E'", spend=0.5)


def test_the_page_shows_a_calendar(server: httpx.Client, office: Config) -> None:
    visitor = Visitor(server)
    visitor.log_in(token_for(office, "carol"))
    page = server.get("/data/patients").text
    assert 'class="calendar"' in page and page.count("<meter") == 8
    metrics = server.get("/metrics", headers=bearer(token_for(office, "ada", "read", "plan", "ask", "admin")))
    if metrics.status_code == 200:
        assert 'period="N"' in metrics.text


def test_the_ledger_is_sound(server: httpx.Client, office: Config) -> None:
    with Ledger(office.ledger) as ledger:
        ledger.verify()
        assert {entry.periods for entry in ledger.entries()} >= {("N",)}
    assert Path(office.path).exists()
