"""Systems of several columns, chains and a stranger's own, asked over HTTP by a token with a part of the budget."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import httpx
import numpy as np
import pytest

from sottovoce.mechanisms import Mechanism, Release
from sottovoce.mechanisms.conjugate import BetaBernoulli
from sottovoce.mechanisms.conjugate.named_systems import SYSTEMS
from sottovoce.records.facts import Flag
from support.offices import N, bearer, served, token_for, write_office

TABLES = {"kind": "count tables", "tables": [["ward"], ["ward", "smoker"]]}


@dataclass(frozen=True, eq=False)
class TwoSided(BetaBernoulli):
    """A stranger's system: a share with a symmetric prior."""

    word: ClassVar[str] = "two-sided share"
    title: ClassVar[str] = "a share, either way"

    @classmethod
    def usual(cls, column: Any) -> dict[str, Any] | None:
        return {"alpha": 2.0, "beta": 2.0} if isinstance(column, Flag) else None


@pytest.fixture(scope="module", autouse=True)
def stranger() -> Iterator[None]:
    SYSTEMS.add(TwoSided)
    yield
    SYSTEMS._found.pop(TwoSided.word)


def ask(client: httpx.Client, who: dict[str, str], **body: Any) -> httpx.Response:
    return client.post("/api/v1/datasets/patients/ask", headers=who, json={"target": "renyi:8,5"} | body)


def test_count_tables_are_asked_charged_and_come_back(client: httpx.Client, ada: dict[str, str]) -> None:
    answer = ask(client, ada, system=TABLES).json()
    tables = Release.from_dict(answer["release"]).value
    assert tables.table("ward").tolist() == pytest.approx([134, 133, 133], abs=15)
    assert tables.table("smoker").sum() == pytest.approx(N, abs=40)
    assert 0 < answer["cost"]["yours"] <= 5
    entry = client.get("/api/v1/datasets/patients/history", headers=ada).json()["entries"][0]
    assert (entry["request"]["column"], entry["request"]["mechanism"]["mechanism"]) == (
        ["ward", "smoker"],
        "noisy statistics",
    )


LATENT = [
    {"kind": "naive bayes", "label": "smoker", "features": ["ward", "age"]},
    {"kind": "Bayesian network", "fields": ["ward", "smoker"], "parents": {"smoker": ["ward"]}},
    {"kind": "Markov random field", "cliques": [["ward", "smoker"]]},
]


@pytest.mark.parametrize("system", LATENT, ids=lambda system: system["kind"])
def test_a_latent_model_is_asked_by_the_names_of_its_columns(
    client: httpx.Client, ada: dict[str, str], system: Any
) -> None:
    answer = ask(client, ada, system=system, mechanism="gaussian").json()
    posterior = Release.from_dict(answer["release"]).value
    assert posterior.interval().shape == (posterior.mean.size, 2)
    assert posterior.part("ward").shape[0] == len(posterior)
    assert 0 < answer["cost"]["yours"] <= 5


def test_a_plan_for_count_tables_compares_both_noises(client: httpx.Client, ada: dict[str, str]) -> None:
    plan = client.post("/api/v1/datasets/patients/plan", headers=ada, json={"system": TABLES, "target": "renyi:8,5"})
    assert {choice["name"] for choice in plan.json()["choices"]} == {"laplace", "gaussian"}
    assert all(choice["price"]["yours"]["cost"] <= 5 for choice in plan.json()["choices"])


@pytest.mark.parametrize(
    ("system", "status", "said"),
    [
        ({"kind": "count tables", "tables": [["secret"]]}, 422, "no column 'secret'"),
        ({"kind": "count tables", "tables": "ward"}, 422, "list of lists"),
        ({"kind": "count tables", "tables": [[1]]}, 422, "by their names"),
        ({"kind": "count tables", "tables": [["age"]]}, 422, "not a short list"),
        ({"kind": "count tables", "tables": [["ward"]], "fields": []}, 422, "take tables"),
        ({"kind": "count tables", "tables": [["ward", "visits", "smoker"]] * 2000}, 422, "at most 100000 numbers"),
    ],
)
def test_what_is_not_open_or_too_large_is_refused(
    client: httpx.Client, ada: dict[str, str], system: Any, status: int, said: str
) -> None:
    refused = ask(client, ada, system=system)
    assert (refused.status_code, said in refused.text) == (status, True), refused.text


def test_a_query_of_a_new_record_is_for_systems_that_have_one(client: httpx.Client, ada: dict[str, str]) -> None:
    assert "leave query out" in ask(client, ada, system=TABLES, query="mean(x)").text


def test_a_strangers_system_is_in_facts_schema_plan_and_answers(client: httpx.Client, tmp_path: Path) -> None:
    config = write_office(tmp_path, whole="renyi:8,1000", each="renyi:8,500")
    with served(config) as other:
        who = bearer(token_for(config, "ada"))
        columns = other.get("/api/v1/datasets/patients", headers=who).json()["columns"]
        assert "two-sided share" in columns[0]["systems"]
        assert "two-sided share" in other.get("/openapi.json").text
        body = {"system": {"kind": "two-sided share"}, "column": "smoker", "target": "renyi:8,5"}
        plan = other.post("/api/v1/datasets/patients/plan", headers=who, json=body).json()
        assert plan["system"]["alpha"] == 2.0
        answer = other.post("/api/v1/datasets/patients/ask", headers=who, json=body | {"mechanism": "gaussian"}).json()
        assert answer["release"]["value"]["mean"] == pytest.approx(0.25, abs=0.1)


REGRESSION = {"kind": "regression", "features": ["age", "ward"], "label": "smoker", "family": "logistic"}
SEVERAL = [
    (REGRESSION | {"label": "visits", "family": "linear"}, None, "noisy moments"),
    (REGRESSION, "noisy-moments", "noisy moments"),
    (REGRESSION, "sgd", "noisy projected SGD"),
    ({"kind": "naive bayes", "label": "smoker", "features": ["age", "ward"]}, None, "noisy statistics"),
    (
        {"kind": "Bayesian network", "fields": ["ward", "smoker"], "parents": {"smoker": ["ward"]}},
        None,
        "noisy statistics",
    ),
]


@pytest.mark.filterwarnings("ignore")  # a short chain says that it is short
@pytest.mark.parametrize(("system", "mechanism", "word"), SEVERAL)
def test_models_of_several_columns_are_asked_and_read_back(
    client: httpx.Client, ada: dict[str, str], system: Any, mechanism: str | None, word: str
) -> None:
    answer = ask(client, ada, system=system, mechanism=mechanism, target="renyi:8,8").json()
    release = Release.from_dict(answer["release"])
    assert release.mechanism["mechanism"] == word
    assert hasattr(release.value, "sample") or np.all(np.isfinite(release.value))
    assert Mechanism.from_dict(answer["release"]["mechanism"]).to_dict() == answer["release"]["mechanism"]
    assert 0 < answer["cost"]["yours"] <= 8


@pytest.mark.parametrize(
    ("system", "said"),
    [
        (REGRESSION | {"features": ["secret"]}, "no column 'secret'"),
        (REGRESSION | {"features": []}, "needs features"),
        (REGRESSION | {"family": "magic"}, "family must be one of logistic"),
        (REGRESSION | {"label": "ward"}, "a category of two values"),
        (REGRESSION | {"data_norm": 1}, "takes features, label and family"),
        ({"kind": "naive bayes", "label": "smoker", "features": ["smoker"]}, "different names"),
        ({"kind": "naive bayes", "features": ["ward"]}, "label must be a column"),
        ({"kind": "Bayesian network", "fields": ["ward"], "parents": {"ward": "ward"}}, "parents"),
        ({"kind": "Bayesian network", "fields": ["ward", "smoker"], "parents": {"ward": ["x"]}}, "no node is called"),
        ({"kind": "Markov random field", "cliques": ["ward"]}, "needs cliques of columns"),
        ({"kind": "Markov random field", "cliques": [["ward", "smoker"], ["ward"]]}, "lies inside another"),
        ({"kind": "hidden Markov model", "chains": "ward", "fields": ["smoker"]}, "needs chains, steps"),
        ({"kind": "question"}, "cannot be asked for here"),
    ],
)
def test_models_that_make_no_sense_are_refused(
    client: httpx.Client, ada: dict[str, str], system: Any, said: str
) -> None:
    refused = ask(client, ada, system=system)
    assert (refused.status_code, said in refused.text) == (422, True), refused.text


def test_a_plan_for_a_regression_prices_what_serves_it(client: httpx.Client, ada: dict[str, str]) -> None:
    body = {"system": REGRESSION, "target": "renyi:8,5"}
    plan = client.post("/api/v1/datasets/patients/plan", headers=ada, json=body).json()
    made = {choice["name"]: choice for choice in plan["choices"] if "price" in choice}
    assert {"refined", "noisy-moments", "sgd"} <= set(made)
    assert made["noisy-moments"]["forecast"] is None


def test_settings_left_out_take_a_prior_that_says_little(client: httpx.Client, ada: dict[str, str]) -> None:
    answer = ask(client, ada, system={"kind": "normal-mean"}, column="age", mechanism="gaussian").json()
    assert answer["release"]["mechanism"]["system"]["bounds"] == [0.0, 100.0]
    assert np.isclose(answer["release"]["value"]["mean"], 50, atol=3)
