"""Asking over HTTP: what is charged, answered, recorded, and told again."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import httpx
import pytest

from sottovoce.faces.server.config import Config
from sottovoce.service.ledger import Ledger
from support.offices import BETA, SMOKERS, N, ask, bearer, served, token_for

COST = 0.05  # of the usual question


def test_an_answer_says_what_it_is_what_it_cost_and_what_remains(client: httpx.Client, ada: dict[str, str]) -> None:
    before = client.get("/api/v1/datasets/patients/remaining", headers=ada).json()
    answer = ask(client, ada, mechanism="diffused").json()
    after = client.get("/api/v1/datasets/patients/remaining", headers=ada).json()
    assert 0 < answer["release"]["value"]["answer"] < 1
    assert answer["release"]["mechanism"]["mechanism"] == "diffused posterior"
    assert answer["release"]["reproducible"] is False
    assert answer["cost"]["yours"] == answer["cost"]["whole"] == pytest.approx(COST, rel=1e-6)
    assert answer["remaining"] == after
    for word in ("yours", "whole"):
        spent = before[word]["remaining"]["epsilon"] - after[word]["remaining"]["epsilon"]
        assert spent == pytest.approx(COST, rel=1e-6)
    assert answer["summary"]["renyi"]["16"] > answer["cost"]["yours"]
    again = ask(client, ada, mechanism="diffused").json()  # what was told of the budgets is not told again
    assert again["remaining"] == client.get("/api/v1/datasets/patients/remaining", headers=ada).json()
    assert again["remaining"] != after


NORMAL = {"kind": "normal-mean", "variance": 400.0, "prior_variance": 100.0, "prior_mean": 50.0}
DIRICHLET = {"kind": "dirichlet-categorical", "alpha": [9, 9, 9]}


@pytest.mark.parametrize(
    ("column", "system", "query", "low", "high"),
    [
        ("smoker", BETA, "probability(x = 1)", 0.1, 0.4),
        ("smoker", BETA, "draw(x)", 0, 1),
        ("age", NORMAL, "mean(x | x > 40)", 40, 80),
        ("ward", DIRICHLET, "theta['N']", 0.1, 0.6),
        ("visits", {"kind": "gamma-poisson", "shape": 20, "rate": 10}, "quantile(x, 0.9)", 2, 7),
        ("wait", {"kind": "gamma-exponential", "shape": 30, "rate": 30}, "1 - exp(-theta)", 0.3, 0.9),
    ],
)
def test_every_system_answers_queries(
    client: httpx.Client, ada: dict[str, str], column: str, system: Any, query: str, low: float, high: float
) -> None:
    response = ask(client, ada, column=column, system=system, query=query, mechanism="diffused")
    assert response.status_code == 200, response.text
    assert low <= response.json()["release"]["value"]["answer"] <= high


def test_vectors_and_conditions_are_answered(client: httpx.Client, ada: dict[str, str]) -> None:
    place = {"kind": "normal-mean", "variance": 1.0, "prior_variance": 1.0}
    vector = ask(client, ada, column="place", system=place, mechanism="diffused").json()
    assert len(vector["release"]["value"]["answer"]) == 2
    share = ask(client, ada, column=None, where="age > 50 and ward = 'N'", draws=3).json()
    assert len(share["release"]["value"]["answer"]) == 3
    assert share["cost"]["yours"] == pytest.approx(3 * COST, rel=1e-6)


def test_a_drawn_category_is_told_by_name(client: httpx.Client, ada: dict[str, str]) -> None:
    drawn = ask(client, ada, column="ward", system=DIRICHLET, query="draw(x)", draws=2).json()
    assert set(drawn["release"]["value"]["answer"]) <= {"N", "S", "E"}


@pytest.mark.parametrize(("target", "noise"), [("renyi:8,0.5", "gaussian"), ("pure:0.5", "laplace")])
def test_who_names_no_mechanism_gets_a_whole_posterior(
    client: httpx.Client, ada: dict[str, str], target: str, noise: str
) -> None:
    release = ask(client, ada, target=target).json()["release"]
    assert (release["mechanism"]["mechanism"], release["mechanism"]["noise"]) == ("noisy statistics", noise)
    assert release["value"]["quantiles"][0] < release["value"]["mean"] < release["value"]["quantiles"][-1]


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_a_whole_posterior_is_answered(client: httpx.Client, ada: dict[str, str], mechanism: str) -> None:
    target = "renyi:8,0.5"
    value = ask(client, ada, mechanism=mechanism, target=target, query="theta").json()["release"]["value"]
    assert abs(value["noisy"][0] - N / 4) < 100
    assert value["quantiles"] == sorted(value["quantiles"])
    assert value["quantiles"][0] < value["mean"] < value["quantiles"][-1]
    wards = ask(client, ada, mechanism=mechanism, target=target, column="ward", system=DIRICHLET, query="draw(x)")
    assert sum(wards.json()["release"]["value"]["shares"].values()) == pytest.approx(1)


def test_a_retry_is_answered_alike_and_charged_once(client: httpx.Client, ada: dict[str, str]) -> None:
    headers = ada | {"Idempotency-Key": "monday"}
    first, again = (ask(client, headers, query="draw(x)").json() for _ in range(2))
    assert {k: first[k] for k in ("entry", "release", "cost", "receipt")} == {
        k: again[k] for k in ("entry", "release", "cost", "receipt")
    }
    assert first["remaining"] == again["remaining"]


def test_a_key_belongs_to_one_question_of_one_analyst(
    client: httpx.Client, ada: dict[str, str], bob: dict[str, str]
) -> None:
    key = {"Idempotency-Key": "tuesday"}
    assert ask(client, ada | key).status_code == 200
    other = ask(client, ada | key, query="1 - theta")
    assert (other.status_code, other.json()["type"]) == (409, "urn:sottovoce:key-taken")
    assert ask(client, bob | key, query="1 - theta").status_code == 200


def test_the_history_is_ones_own_unless_one_administers(
    client: httpx.Client, office: Config, ada: dict[str, str], bob: dict[str, str]
) -> None:
    mine, his = ask(client, ada).json()["entry"], ask(client, bob).json()["entry"]

    def entries(headers: dict[str, str]) -> dict[int, Any]:
        found = client.get("/api/v1/datasets/patients/history", headers=headers).json()["entries"]
        return {entry["entry"]: entry for entry in found}

    assert mine in entries(ada)
    assert his not in entries(ada)
    assert {e["analyst"] for e in entries(ada).values()} == {"ada"}
    everyone = entries(bearer(token_for(office, "carol", "read", "admin")))
    assert {mine, his} <= set(everyone)
    # The moment an entry closed would tell how long the answer took to make.
    assert "closed_at" not in everyone[mine]


def test_a_refusal_is_helpful_and_costs_nothing(own_office: Config) -> None:
    with served(own_office) as client:
        ada = bearer(token_for(own_office, "ada"))
        codes = [ask(client, ada).status_code for _ in range(5)]
        assert codes == [200] * 4 + [409]
        refused = ask(client, ada).json()
        assert refused["type"] == "urn:sottovoce:budget-exceeded"
        assert "0.05" in refused["detail"]
        assert "nothing was spent" in refused["detail"]


def test_colluding_analysts_cannot_exceed_the_whole(own_office: Config) -> None:
    with served(own_office) as client:
        outcomes: Counter[int] = Counter()

        def spend(headers: dict[str, str]) -> None:
            for _ in range(4):
                outcomes[ask(client, headers).status_code] += 1

        tokens = [bearer(token_for(own_office, name)) for name in ("ada", "bob", "carol")]
        threads = [threading.Thread(target=spend, args=(headers,)) for headers in tokens]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert outcomes == {200: 6, 409: 6}
    with Ledger(own_office.ledger) as ledger:
        whole = ledger.budget("patients")
        assert ledger.spent(whole) <= whole.limit
        assert len(ledger.entries("patients")) == 6


def test_a_plan_compares_mechanisms_and_costs_nothing(client: httpx.Client, ada: dict[str, str]) -> None:
    before = client.get("/api/v1/datasets/patients/remaining", headers=ada).json()
    body = {name: SMOKERS[name] for name in ("system", "target", "column")}
    plan = client.post("/api/v1/datasets/patients/plan", headers=ada, json=body).json()
    assert plan["remaining"] == before
    assert {c["name"] for c in plan["choices"]} == {
        "direct",
        "diffused",
        "concentrated",
        "tempered",
        "laplace",
        "gaussian",
    }
    reachable = [c for c in plan["choices"] if "unreachable" not in c]
    assert [c["forecast"]["expected_kl"] for c in reachable] == sorted(c["forecast"]["expected_kl"] for c in reachable)
    for choice in reachable:
        assert choice["curve"]["delta"] == sorted(choice["curve"]["delta"], reverse=True)
        assert choice["price"]["yours"]["cost"] <= COST * (1 + 1e-9)
    diffused = next(c for c in reachable if c["name"] == "diffused")
    left = before["yours"]["remaining"]["epsilon"]
    assert diffused["price"]["yours"]["answers"] == int(left / diffused["price"]["yours"]["cost"])


@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ({"column": "secret"}, 404, "no column 'secret'"),
        ({"where": "secret = 'Smith-7'"}, 404, "no column 'secret'"),
        ({"column": None}, 422, "a column, a condition"),
        ({"column": "age"}, 422, "normal-mean"),
        ({"system": BETA | {"shape": 2}}, 422, "takes alpha, beta"),
        ({"system": {"kind": "magic"}}, 422, "must be one of beta-bernoulli"),
        ({"system": BETA | {"alpha": [1, 2]}}, 422, "alpha"),
        ({"system": BETA | {"alpha": "1"}}, 422, "alpha"),
        ({"system": BETA | {"alpha": 1e-9}}, 422, "alpha"),
        ({"target": "approx:nope"}, 422, "approx"),
        ({"target": "pure:0.5", "mechanism": "diffused"}, 422, "never gives that kind of privacy"),
        ({"query": "__import__('os')"}, 422, "expected one of theta"),
        ({"query": "theta['N']"}, 422, "one number"),
        ({"draws": 101}, 422, "from 1 to 100"),
        ({"draws": 0}, 422, "greater than or equal to 1"),
        ({"mechanism": "laplace", "draws": 2}, 422, "whole posterior"),
        ({"mechanism": "magic"}, 422, "mechanism"),
        ({"surprise": 1}, 422, "surprise: is no name that is known here"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused_and_free(
    client: httpx.Client, ada: dict[str, str], changes: dict[str, Any], status: int, said: str
) -> None:
    before = client.get("/api/v1/datasets/patients/remaining", headers=ada).json()
    refused = ask(client, ada, **changes)
    assert (refused.status_code, said in refused.text) == (status, True), refused.text
    assert refused.headers["Content-Type"] == "application/problem+json"
    assert client.get("/api/v1/datasets/patients/remaining", headers=ada).json() == before


def test_the_administrator_decides_which_mechanisms_and_conditions(client: httpx.Client, ada: dict[str, str]) -> None:
    body = SMOKERS | {"target": "pure:0.1"}
    refused = client.post("/api/v1/datasets/staff/ask", headers=ada, json=body | {"mechanism": "diffused"})
    assert "mechanism must be one of tempered, laplace" in refused.json()["detail"]
    refused = client.post("/api/v1/datasets/staff/ask", headers=ada, json=body | {"where": "smoker"})
    assert "answers no conditions" in refused.json()["detail"]
