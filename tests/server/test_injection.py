"""SQL, paths, markup and code, put wherever a caller can put text: refused, or kept as the text it is."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from sottovoce.faces.server.config import Config
from sottovoce.service.ledger import Ledger
from support.offices import SMOKERS, ask

NASTY = [
    "'; DROP TABLE sottovoce_events; --",
    "1 OR 1=1",
    "../../../etc/passwd",
    "..%2f..%2fserver.toml",
    "<script>alert(1)</script>",
    "${jndi:ldap://x}",
    "__import__('os').system('touch pwned')",
    "{{7*7}}",
    "a\x00b",
    "\u202e\u0000\uffff",
    "smoker' UNION SELECT secret FROM patients --",
    "x" * 900,
]


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
@pytest.mark.parametrize("place", ["column", "where", "query", "target", "mechanism", "missing"])
def test_text_in_a_question_is_never_run(
    client: httpx.Client, ada: dict[str, str], office: Config, place: str, text: str
) -> None:
    refused = ask(client, ada, **{place: text})
    assert refused.status_code in (404, 422), refused.text
    assert refused.headers["Content-Type"] == "application/problem+json"
    assert "root:" not in refused.text
    assert "Smith" not in refused.text
    assert not Path("pwned").exists()
    assert not (office.path.parent / "pwned").exists()


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_text_in_a_path_finds_nothing(client: httpx.Client, ada: dict[str, str], text: str) -> None:
    for path in (f"/api/v1/datasets/{quote(text, safe='')}", f"/{quote(text)}", f"/api/v1/datasets/patients/{text}"):
        try:
            found = client.get(path, headers=ada)
        except (httpx.InvalidURL, httpx.LocalProtocolError):
            continue  # a client that does not even send it
        assert found.status_code in (400, 404, 422), (path, found.text)
        assert found.headers["X-Content-Type-Options"] == "nosniff"
        assert "html" not in found.headers["Content-Type"]
        assert "[datasets" not in found.text


@pytest.mark.parametrize("key", ["'; DROP TABLE sottovoce_events; --", "<b>", "a" * 201, "", "a b", "\x7f"])
def test_a_key_is_kept_as_it_is_or_refused(client: httpx.Client, ada: dict[str, str], office: Config, key: str) -> None:
    answer = ask(client, ada | {"Idempotency-Key": key})
    if answer.status_code == 200:
        with Ledger(office.ledger) as ledger:
            assert any(entry.key == key for entry in ledger.entries("patients"))
            ledger.verify()
    else:
        assert answer.status_code == 422


def test_markup_in_a_condition_is_kept_as_text(client: httpx.Client, ada: dict[str, str]) -> None:
    where = "ward = '<script>alert(1)</script>'"
    entry = ask(client, ada, where=where).json()["entry"]
    history = client.get("/api/v1/datasets/patients/history", headers=ada)
    assert history.headers["Content-Type"] == "application/json"
    assert next(e for e in history.json()["entries"] if e["entry"] == entry)["request"]["where"] == where


HUGE = "1" * 401
SETTINGS = {
    "beta-bernoulli": ("smoker", "alpha", "beta"),
    "gamma-exponential": ("wait", "shape", "rate"),
    "normal-mean": ("age", "variance", "prior_mean"),
    "dirichlet-categorical": ("ward", "alpha"),
}


@pytest.mark.parametrize("number", [HUGE, f"-{HUGE}", "9" * 5000, "NaN", "Infinity", "-Infinity", "1e400", f"[{HUGE}]"])
@pytest.mark.parametrize("route", ["ask", "plan"])
def test_no_number_of_a_prior_is_too_large_to_be_refused_in_words(
    client: httpx.Client, ada: dict[str, str], route: str, number: str
) -> None:
    headers = ada | {"Content-Type": "application/json"}
    for kind, (column, *names) in SETTINGS.items():
        for name in names:
            asked = {"system": {"kind": kind, name: "here"}, "target": "renyi:8,0.05", "column": column}
            body = json.dumps(asked).replace('"here"', number)
            refused = client.post(f"/api/v1/datasets/patients/{route}", headers=headers, content=body)
            assert refused.status_code == 422, refused.text
            assert len(refused.json()["detail"]) < 200
            assert name in refused.json()["detail"] or "cannot be read as JSON" in refused.json()["detail"]


@pytest.mark.parametrize("prior", ["1e308", "1e100", "5e-324", "0", HUGE, "NaN", "9" * 5000])
def test_a_prior_that_no_regression_can_be_fitted_under_is_refused_and_free(
    client: httpx.Client, ada: dict[str, str], prior: str
) -> None:
    left = client.get("/api/v1/datasets/patients/remaining", headers=ada).json()
    asked = f'{{"verb": "regress", "formula": "visits ~ age", "spend": 0.00001, "prior": {prior}}}'
    headers = ada | {"Content-Type": "application/json"}
    refused = client.post("/api/v1/datasets/patients/answers", headers=headers, content=asked)
    assert refused.status_code == 422, refused.text
    assert client.get("/api/v1/datasets/patients/remaining", headers=ada).json() == left


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b'{"system": ' * 5000,
        json.dumps(SMOKERS | {"draws": "1"}).encode(),
        json.dumps(SMOKERS | {"draws": True}).encode(),
        json.dumps(SMOKERS | {"draws": 10**400}).encode(),
        json.dumps(SMOKERS).encode().replace(b"12}", b"NaN}"),
        json.dumps(SMOKERS).encode().replace(b"12}", b"1e999}"),
        b"\xff\xfe",
    ],
    ids=range(11),
)
def test_a_body_that_is_no_question_is_refused(client: httpx.Client, ada: dict[str, str], body: bytes) -> None:
    headers = ada | {"Content-Type": "application/json"}
    refused = client.post("/api/v1/datasets/patients/ask", headers=headers, content=body)
    assert refused.status_code in (413, 422), refused.text
