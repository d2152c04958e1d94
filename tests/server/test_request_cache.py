"""A question in the very same bytes is not read again; whatever differs goes the long way, and nothing else changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from sottovoce.faces.server import schemas
from sottovoce.faces.server.callers import Caller
from sottovoce.faces.server.config import Config
from sottovoce.faces.server.request_cache import Questions
from sottovoce.faces.server.tokens import Tokens
from sottovoce.service.ledger import Ledger
from support.offices import SMOKERS, bearer, served, token_for, write_office

PLACE = "/api/v1/datasets/patients/ask"
BODY = json.dumps(SMOKERS).encode()


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was read the long way."""
    long_way: list[str] = []
    honest = schemas.AskBody.question
    monkeypatch.setattr(schemas.AskBody, "question", lambda self: long_way.append(self.target) or honest(self))
    return long_way


def post(client: httpx.Client, token: str, body: bytes = BODY, place: str = PLACE, **headers: str) -> httpx.Response:
    return client.post(place, content=body, headers={"Content-Type": "application/json", **bearer(token), **headers})


def test_the_second_time_is_shorter_and_says_the_same(client: httpx.Client, office: Config, read: list[str]) -> None:
    token = token_for(office, "carol")  # who asks nothing else
    first, second = post(client, token), post(client, token)
    assert len(read) == 1
    assert first.status_code == second.status_code == 200
    one, other = first.json(), second.json()
    assert one.keys() == other.keys()
    assert one["entry"] != other["entry"]
    assert other["remaining"]["yours"]["spent"] == pytest.approx(2 * one["remaining"]["yours"]["spent"])
    same = {name for name in first.headers if name not in ("date", "x-request-id", "content-length")}
    assert {name: first.headers[name] for name in same} == {name: second.headers[name] for name in same}
    assert set(first.headers) == set(second.headers)
    receipt = client.get(f"/api/v1/datasets/patients/answers/{other['entry']}/receipt", headers=bearer(token)).json()
    assert receipt == other["receipt"]


def test_a_key_is_a_key_either_way(client: httpx.Client, office: Config, read: list[str]) -> None:
    token = token_for(office)
    post(client, token)
    first, again = (post(client, token, **{"Idempotency-Key": "monday"}).json() for _ in range(2))
    assert len(read) == 1
    assert first["entry"] == again["entry"]
    assert first["release"] == again["release"]
    assert first["receipt"] == again["receipt"]


DIFFERENT: dict[str, dict[str, Any]] = {
    "another body": {"body": BODY + b" "},
    "another place": {"place": PLACE + "?x=1"},
    "another kind of content": {"Content-Type": "application/json; charset=utf-8"},
    "another way to write a token": {"Authorization": "bearer {token}"},
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_what_differs_is_read_anew(client: httpx.Client, office: Config, read: list[str], what: str) -> None:
    token = token_for(office)
    post(client, token)
    more = {
        name: value.format(token=token) if isinstance(value, str) else value for name, value in DIFFERENT[what].items()
    }
    assert post(client, token, **more).status_code == 200
    assert len(read) == 2


def test_another_token_is_not_told_that_it_is_known(client: httpx.Client, office: Config, read: list[str]) -> None:
    post(client, token_for(office))
    assert post(client, token_for(office, "bob")).status_code == 200
    assert len(read) == 2


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"Authorization": "Bearer nobody"}, 401), ({"Authorization": ""}, 401), ({"Idempotency-Key": "a b"}, 422)],
)
def test_refusals_are_as_ever(client: httpx.Client, office: Config, headers: dict[str, str], status: int) -> None:
    token = token_for(office)
    before = post(client, token, body=BODY + b" ", **headers)
    assert post(client, token).status_code == 200
    after = post(client, token, **headers)
    assert before.status_code == after.status_code == status
    assert before.json() == after.json()


def test_who_may_no_longer_ask_is_refused_at_once(client: httpx.Client, office: Config) -> None:
    token = token_for(office)
    assert post(client, token).status_code == 200
    with Tokens(office.tokens) as tokens:
        tokens.revoke(token.split("_")[1])
    assert post(client, token).status_code == 401


def test_the_budget_is_the_same_either_way(own_office: Config, read: list[str]) -> None:
    with served(own_office) as client:
        token = token_for(own_office)
        codes = [post(client, token).status_code for _ in range(6)]
        assert codes == [200] * 4 + [409] * 2  # 0.2 covers four times 0.05
        assert len(read) == 1
        refused = post(client, token).json()
    assert refused["type"] == "urn:sottovoce:budget-exceeded"
    assert "nothing was spent" in refused["detail"]
    with Ledger(own_office.ledger) as ledger:
        assert len(ledger.entries("patients")) == 4


def test_turns_are_taken_either_way(tmp_path: Path) -> None:
    office = write_office(tmp_path, limits="requests_per_minute = 3\nanswer_grid = 0.005")
    with served(office) as client:
        token = token_for(office)
        assert [post(client, token).status_code for _ in range(5)] == [200, 200, 200, 429, 429]


def test_a_token_with_many_questions_makes_no_other_token_forget() -> None:
    questions, route = Questions(), object()
    ada, bob = (Caller("ada", token, frozenset(), frozenset()) for token in ("one", "two"))
    asked: Any = object()

    def scope(k: int) -> dict[str, Any]:
        return {"path": PLACE, "route": route, "state": {"body": b"%d" % k}}

    questions.keep(bob, scope(0), "patients", asked)
    for k in range(1000):
        questions.keep(ada, scope(k), "patients", asked)
    assert questions.find(bob, scope(0)) == (route, "patients", asked)
    assert questions.find(ada, scope(999)) == (route, "patients", asked)
    assert questions.find(ada, scope(0)) is None and questions.find(bob, scope(1)) is None
