"""What a budget means, what an answer buys and risks, and the card: over HTTP and on the page."""

from __future__ import annotations

import httpx
import pytest

import sottovoce as sv
from sottovoce.faces.server.cards import verify_card
from sottovoce.faces.server.config import Config
from sottovoce.privacy.promises import parse_promise
from support.offices import SMOKERS, bearer, token_for


@pytest.fixture(scope="module")
def everything(office: Config) -> dict[str, str]:
    return bearer(token_for(office, "ada", "read", "plan", "ask", "admin"))


def test_the_budget_is_explained(client: httpx.Client, everything: dict[str, str]) -> None:
    told = client.get("/api/v1/datasets/patients/explanation", headers=everything, params={"baseline": 0.1}).json()
    assert told["after"] == sv.explain(parse_promise("renyi:8,1000"), baseline=0.1).after
    place = "/api/v1/datasets/patients/explanation"
    assert client.get(place, headers=everything, params={"baseline": "10%"}).json() == told
    assert (
        client.get("/api/v1/datasets/patients/explanation", params={"baseline": 0.9}, headers=everything).status_code
        == 422
    )
    assert client.get("/api/v1/datasets/patients/explanation").status_code == 401


def test_share_accuracy_and_risk_go_together(client: httpx.Client, everything: dict[str, str]) -> None:
    place = "/api/v1/datasets/patients/balance"
    found = client.get(place, headers=everything, params={"question": "proportion of smoker by ward"}).json()
    widths = [one["width"] for one in found["curve"]]
    risks = [[one["success"] for one in found["curve"] if one["noise"] == kind] for kind in ("gaussian", "laplace")]
    assert widths == sorted(widths, reverse=True) and risks == [sorted(part) for part in risks] and all(risks)
    assert (risks[1][0] < risks[0][-1]) == ("The risk falls at" in found["change"])
    assert found["curve"][-1]["share"] == 1 and found["yours"] and 0 <= found["left"] <= 1
    for wrong in (
        "mean of nothing",
        "nonsense",
        "mean of smoker",
        "mean of age, wait",
        "proportion of smoker where secret == 'x'",
        "proportion of smoker where ward = 'X'",
        "mean of wait by age: 900 bands and ward",
        "mean of wait by age",
    ):
        answer = client.get(place, headers=everything, params={"question": wrong})
        assert answer.status_code in (404, 422) and "Smith" not in answer.text
    answer = client.get(
        "/api/v1/datasets/staff/balance", headers=everything, params={"question": "proportion of smoker where smoker"}
    )
    assert answer.status_code == 422


def test_the_card_names_everyone_and_is_signed(
    client: httpx.Client, office: Config, everything: dict[str, str]
) -> None:
    place = "/api/v1/datasets/patients/card"
    asked = client.post(
        "/api/v1/datasets/patients/ask",
        headers=bearer(token_for(office, "bob")),
        json=SMOKERS | {"purpose": "The board"},
    )
    answered = asked.json()
    page = client.get(place, headers=everything)
    key = client.get("/api/v1/key").json()["key"].encode()
    said = verify_card(page.text, key)
    assert said["issuer"] == "The test office" and said["title"] == "Patients"
    mine = next(one for one in said["releases"] if one["entry"] == answered["entry"])
    assert mine["who"] == "bob" and 0 < mine["share"] < 1 and mine["question"] == "beta-bernoulli of smoker"
    assert mine["purpose"] == "The board"
    assert str(office.path.parent) not in page.text and "Smith" not in page.text
    assert client.get(place, headers=bearer(token_for(office, "bob"))).status_code == 403
