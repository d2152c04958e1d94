"""The API as its own document describes it, asked at random: no fault of ours, no private value, whatever comes."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sottovoce.faces.server.config import Config
from support.offices import bearer, token_for

CALM = settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much],
)
PRIVATE = ("Smith-", "Traceback", "patients.parquet", "server.ledger", "server.tokens", 'File "', "sqlite")


@pytest.fixture(scope="module")
def document(client: httpx.Client) -> Any:
    import schemathesis  # a second of work, that processes without these tests are spared

    found = schemathesis.openapi.from_url(f"{client.base_url}/openapi.json".replace("//openapi", "/openapi"))
    found.config.generation.codec = None  # all that can be sent, as "utf-8", for which all of Unicode is tried first
    return found


@pytest.fixture(scope="module")
def everything(office: Config) -> dict[str, str]:
    return bearer(token_for(office, "ada", "read", "plan", "ask", "admin"))


OPERATIONS = [
    ("GET", "/health"),
    ("GET", "/metrics"),
    ("GET", "/api/v1/key"),
    ("GET", "/api/v1/datasets"),
    ("GET", "/api/v1/datasets/{dataset}"),
    ("GET", "/api/v1/datasets/{dataset}/remaining"),
    ("GET", "/api/v1/datasets/{dataset}/left"),
    ("GET", "/api/v1/datasets/{dataset}/dummy"),
    ("GET", "/api/v1/datasets/{dataset}/history"),
    ("GET", "/api/v1/datasets/{dataset}/answers/{entry}/receipt"),
    ("GET", "/api/v1/datasets/{dataset}/answers/{entry}"),
    ("POST", "/api/v1/datasets/{dataset}/answers"),
    ("GET", "/api/v1/datasets/{dataset}/explanation"),
    ("GET", "/api/v1/datasets/{dataset}/balance"),
    ("POST", "/api/v1/datasets/{dataset}/regressions/plan"),
    ("GET", "/api/v1/datasets/{dataset}/card"),
    ("POST", "/api/v1/datasets/{dataset}/plan"),
    ("POST", "/api/v1/datasets/{dataset}/ask"),
    ("POST", "/api/v1/datasets/{dataset}/synthesis"),
    ("GET", "/api/v1/datasets/{dataset}/synthesis"),
    ("GET", "/api/v1/datasets/{dataset}/synthesis/tables"),
    ("GET", "/api/v1/datasets/{dataset}/known"),
    ("GET", "/api/v1/datasets/{dataset}/released"),
]


def test_the_document_names_every_operation(client: httpx.Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    named = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert {operation for operation in named if operation[1].startswith("/api/")} == {
        operation for operation in OPERATIONS if operation[1].startswith("/api/")
    }
    assert set(OPERATIONS) <= named


@pytest.fixture(scope="module")
def checks() -> list[Any]:
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks as openapi

    by_document = [openapi.status_code_conformance, openapi.content_type_conformance]
    return [not_a_server_error, *by_document, openapi.response_schema_conformance]


@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_requests_made_from_the_document(
    document: Any, checks: list[Any], everything: dict[str, str], method: str, path: str, mode: str
) -> None:
    """Requests that fit the document, and requests that break it on purpose."""
    from schemathesis import GenerationMode

    operation = document[path][method]
    if mode == "negative" and not (operation.body or operation.path_parameters):
        return  # nothing in it could be wrong

    @CALM
    @given(operation.as_strategy(generation_mode=GenerationMode(mode)))
    def ask(case: Any) -> None:
        if "dataset" in (case.path_parameters or {}) and len(str(case.path_parameters["dataset"])) % 2:
            case.path_parameters["dataset"] = "patients"  # else hardly any request would get far
        if len(urlencode(case.query or {}, doseq=True)) > 15_000:
            return  # the first line of a request that is longer is not read: the connection is closed
        response = case.call(headers=everything, timeout=120)
        packed = "zip" in str(response.headers.get("content-type"))
        case.validate_response(response, checks=checks[:-1] if packed else checks)  # a file has no schema
        for private in PRIVATE:
            assert private.encode() not in response.content

    ask()


NUMBERS = st.sampled_from([1e-3, 0.5, 1, 6.0, 1e6]) | st.floats(1e-3, 1e6)
SYSTEMS = st.one_of(
    st.fixed_dictionaries({"kind": st.just("beta-bernoulli"), "alpha": NUMBERS, "beta": NUMBERS}),
    st.fixed_dictionaries(
        {"kind": st.just("dirichlet-categorical"), "alpha": st.lists(NUMBERS, min_size=3, max_size=3)}
    ),
    st.fixed_dictionaries(
        {"kind": st.sampled_from(["gamma-poisson", "gamma-exponential"]), "shape": NUMBERS, "rate": NUMBERS}
    ),
    st.fixed_dictionaries(
        {"kind": st.just("normal-mean"), "variance": NUMBERS, "prior_variance": NUMBERS, "prior_mean": NUMBERS}
    ),
)
COLUMNS = {
    "beta-bernoulli": "smoker",
    "dirichlet-categorical": "ward",
    "gamma-poisson": "visits",
    "gamma-exponential": "wait",
    "normal-mean": "age",
}
QUERIES = [
    "theta",
    "draw(x)",
    "mean(x)",
    "probability(x > 1e300)",
    "mean(x | x < 0)",
    "1 / (theta - theta)",
    "theta[0]",
]


@st.composite
def questions(draw: st.DrawFn) -> dict[str, Any]:
    """Questions that nearly make sense, with numbers at the edge of what is allowed."""
    system = draw(SYSTEMS)
    amount = draw(st.sampled_from(["0", "1e-300", "1e-9", "0.01", "0.5", "1e9"]))
    kinds = ["pure:{}", "approx:{},1e-6", "approx:{},0", "renyi:8,{}", "renyi:1.5,{}", "zcdp:{}", "gaussian:{}"]
    return {
        "system": system,
        "column": COLUMNS[system["kind"]],
        "target": draw(st.sampled_from(kinds)).format(amount),
        "mechanism": draw(st.sampled_from(["direct", "diffused", "concentrated", "tempered", "laplace", "gaussian"])),
        "query": draw(st.sampled_from(QUERIES)),
        "where": draw(st.sampled_from([None, None, "age > 40", "ward = 'N' or smoker", "age > '; DROP TABLE x'"])),
        "missing": draw(st.sampled_from([None, None, 1, -1e6, "N", True])),
    }


@settings(CALM, max_examples=40)
@given(questions())
def test_questions_at_the_edge_are_answered_or_refused(
    client: httpx.Client, everything: dict[str, str], question: dict[str, Any]
) -> None:
    response = client.post("/api/v1/datasets/patients/ask", headers=everything, json=question)
    assert response.status_code in (200, 409, 422), (question, response.text)
    for private in PRIVATE:
        assert private not in response.text
