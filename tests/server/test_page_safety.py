"""The page without scripts: forms and sessions, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from sottovoce.faces.server.config import Config
from sottovoce.faces.server.tokens import Tokens
from support.offices import served, token_for, write_office
from support.visitors import Visitor, with_mechanisms


def told(page: str) -> str:
    """Return what a page says, without its marks."""
    return re.sub(r"<[^>]+>", "", page)


LIMITS = "answer_grid = 0.005\nfailures_per_minute = 1000\naddress_requests_per_minute = 10000"


@pytest.fixture(scope="module")
def frugal(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """An office for all whose visitors spend nothing."""
    limits = f"{LIMITS}\nrequests_per_minute = 10000"
    return write_office(tmp_path_factory.mktemp("frugal"), whole="renyi:8,0.3", each="renyi:8,0.2", limits=limits)


@pytest.fixture(scope="module")
def frugal_server(frugal: Config) -> Iterator[httpx.Client]:
    with served(frugal) as client:
        yield client


@pytest.fixture
def stranger(frugal_server: httpx.Client) -> Visitor:
    """Someone who has not logged in."""
    return Visitor(frugal_server)


@pytest.fixture
def visitor(stranger: Visitor, frugal: Config) -> Visitor:
    """Someone who has, and whose budget nobody spends."""
    assert stranger.log_in(token_for(frugal)).status_code == 303
    return stranger


@pytest.fixture
def spender(own_office: Config) -> Iterator[Visitor]:
    with served(own_office) as client:
        visitor = Visitor(client)
        assert visitor.log_in(token_for(own_office)).status_code == 303
        yield visitor


def test_without_scripts_everything_works_too(spender: Visitor) -> None:
    visitor = spender
    fields = visitor.fields()
    planned = visitor.client.post("/data/patients/plan", data=fields)
    assert planned.status_code == 200 and "renyi:8,0.05" in planned.text
    answered = visitor.client.post("/data/patients/ask", data=fields)
    assert answered.status_code == 200 and "Signed receipt" in answered.text
    again = visitor.client.post("/data/patients/ask", data=fields)  # the same form, sent twice: one answer, one price
    assert re.search(r'class="value">([^<]+)', again.text)[1] == re.search(r'class="value">([^<]+)', answered.text)[1]
    assert "75 % left" in told(again.text)
    receipt = visitor.client.get(re.search(r'href="(/data/patients/receipts/\d+)"', again.text)[1])
    assert set(receipt.json()) == {"signed", "signature", "key"}


@pytest.mark.parametrize("seal", [None, "", "0" * 64, "é"])
def test_a_form_without_the_seal_of_the_session_is_refused_and_costs_nothing(
    visitor: Visitor, seal: str | None
) -> None:
    fields = visitor.fields()
    fields.pop("seal")
    if seal is not None:
        fields["seal"] = seal
    for action in ("/data/patients/ask", "/data/patients/plan", "/logout"):
        refused = visitor.client.post(action, data=fields)
        assert refused.status_code == 403
        assert "not made by your session" in refused.text
    assert "100 % left" in told(visitor.client.get("/data/patients").text)


def test_the_seal_of_another_session_does_not_fit(stranger: Visitor, frugal: Config) -> None:
    token = token_for(frugal)
    stranger.log_in(token)
    theirs = stranger.fields()
    stranger.log_in(token)  # a second session of the very same token
    assert stranger.client.post("/data/patients/ask", data=theirs).status_code == 403
    stranger.log_in(token_for(frugal, "bob"))
    assert stranger.client.post("/data/patients/ask", data=theirs).status_code == 403


def test_a_login_form_of_another_site_is_refused(stranger: Visitor, frugal: Config) -> None:
    client, token = stranger.client, token_for(frugal)
    for data in ({"token": token}, {"token": token, "seal": "0" * 64}):
        refused = client.post("/login", data=data)
        assert refused.status_code == 403
        assert not any("session" in name for name in client.cookies)


def test_the_session_cookie_cannot_be_read_sent_elsewhere_or_made_up(visitor: Visitor, frugal: Config) -> None:
    client = visitor.client
    cookie = client.cookies["sottovoce-session"]
    assert token_for(frugal)[21:] not in cookie
    fresh = Visitor(client)
    response = fresh.log_in(token_for(frugal))
    (header,) = [h for h in response.headers.get_list("set-cookie") if "session=" in h and "Max-Age=0" not in h]
    assert "HttpOnly" in header and "SameSite=strict" in header and "Path=/" in header
    body, _, tag = client.cookies["sottovoce-session"].rpartition(".")
    for forged in (f"{body}.{'0' * 64}", f"{body[:-1]}{(int(body[-1]) + 1) % 10}.{tag}", "x", ""):
        client.cookies.clear()
        client.cookies.set("sottovoce-session", forged)
        response = client.get("/")
        assert response.status_code == 303 and response.headers["location"] == "/login"


def test_a_revoked_token_ends_its_session_at_once(stranger: Visitor, frugal: Config) -> None:
    client, token = stranger.client, token_for(frugal)
    stranger.log_in(token)
    fields = stranger.fields()
    with Tokens(frugal.tokens) as tokens:
        tokens.revoke(token.split("_")[1])
    for response in (client.get("/"), client.post("/data/patients/ask", data=fields)):
        assert response.status_code == 303 and response.headers["location"] == "/login"


def test_logging_out_ends_the_session(visitor: Visitor) -> None:
    seal = visitor.seal(visitor.client.get("/"))
    cookie = visitor.client.cookies["sottovoce-session"]
    assert visitor.client.post("/logout", data={"seal": seal}).status_code == 303
    assert visitor.client.get("/").headers["location"] == "/login"
    visitor.client.cookies.set("sottovoce-session", cookie)  # a copy that someone kept
    for response in (visitor.client.get("/"), visitor.client.post("/logout", data={"seal": seal})):
        assert response.status_code == 303 and response.headers["location"] == "/login"


def test_logging_out_ends_one_session_in_every_worker(own_office: Config) -> None:
    token = token_for(own_office)
    with served(own_office) as one, served(own_office) as other:
        first, second = Visitor(one), Visitor(other)
        first.log_in(token)
        second.log_in(token)
        cookie = one.cookies["sottovoce-session"]
        one.post("/logout", data={"seal": first.seal(one.get("/"))})
        assert other.get("/").status_code == 200  # the other session of the same token goes on
        other.cookies.set("sottovoce-session", cookie)
        assert other.get("/").headers["location"] == "/login"


@pytest.mark.parametrize("path", ["/login/", "/logout/", "/data/patients/", "/api/v1/datasets/", "/health/"])
def test_nobody_is_sent_to_a_host_that_the_caller_names(visitor: Visitor, path: str) -> None:
    for send in (visitor.client.get, visitor.client.post):
        response = send(path, headers={"Host": "evil.example", "X-Forwarded-Host": "evil.example"})
        assert "evil" not in response.headers.get("location", "")
        assert response.status_code in (404, 405)


@pytest.mark.parametrize("token", ["", "sv1_0123456789abcdef_" + "a" * 43, "<script>", "' or 1=1 --", "é" * 5000])
def test_a_wrong_token_is_refused_without_an_echo(stranger: Visitor, token: str) -> None:
    refused = stranger.log_in(token)
    assert refused.status_code == 401
    assert "unknown, expired or revoked" in refused.text
    assert token == "" or token not in refused.text


def test_guessing_tokens_is_slowed_down(tmp_path: Path) -> None:
    config = write_office(tmp_path, limits="answer_grid = 0.005\nfailures_per_minute = 5")
    with served(config) as client:
        visitor = Visitor(client)
        statuses = []
        for _ in range(8):
            page = client.get("/login")
            if page.status_code == 429:
                statuses.append(429)
                break
            statuses.append(client.post("/login", data={"seal": visitor.seal(page), "token": "sv1_x"}).status_code)
        assert statuses[0] == 401 and statuses[-1] == 429


def test_every_page_carries_the_security_headers_and_no_inline_code(visitor: Visitor) -> None:
    for path in ("/login", "/", "/data/patients", "/data/patients/models", "/static/page.js", "/data/nowhere"):
        response = visitor.client.get(path)
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "script-src 'self'" in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["x-frame-options"] == "DENY"
        assert response.headers["referrer-policy"] == "no-referrer"
        if response.headers["content-type"].startswith("text/html"):
            assert not re.search(r"<script(?![^>]*src=)|\son\w+=|\sstyle=|https?://", response.text)
    assert visitor.client.get("/").headers["cache-control"] == "no-store"


def test_another_data_set_is_not_there(stranger: Visitor, frugal: Config) -> None:
    client, visitor = stranger.client, stranger
    visitor.log_in(token_for(frugal, "bob"))
    assert "staff" not in client.get("/").text
    missing = [client.get(path) for path in ("/data/staff", "/data/<b>x</b>", "/data/..%2f..%2fetc")]
    assert {response.status_code for response in missing} == {404}
    assert all("<b>x" not in response.text for response in missing)
    fields = visitor.fields()
    assert client.post("/data/staff/ask", data=fields).status_code == 404
    assert client.get("/data/patients/receipts/999").status_code == 404
    assert client.get("/data/patients/receipts/x").status_code == 404
    assert client.get("/static/../sessions.py").status_code == 404
    assert client.get("/static/%2e%2e%2fsessions.py").status_code == 404


def test_an_administrator_sees_who_asked_what(own_office: Config) -> None:
    with served(own_office) as client:
        visitor = Visitor(client)
        visitor.log_in(token_for(own_office, "bob"))
        assert client.post("/data/patients/ask", data=visitor.fields()).status_code == 200
        visitor.log_in(token_for(own_office, "ada"))
        assert "bob" not in client.get("/data/patients").text
        assert "of everyone&#39;s budget" not in client.get("/data/patients").text
        visitor.log_in(token_for(own_office, "ada", "read", "plan", "admin"))
        page = client.get("/data/patients").text
        assert ">bob</td>" in page and "Who" in page and ">Cost, of everyone&#39;s budget</th>" in page


def test_a_quick_plan_leaves_the_slow_forecasts_for_later(visitor: Visitor) -> None:
    fields, where = visitor.fields(), "/data/patients/plan"
    quick = visitor.client.post(where, data=fields, headers={"X-Plan": "quick"}).text
    whole = visitor.client.post(where, data=fields, headers={"X-Plan": "whole"}).text
    assert quick.startswith('<div id="plan">') and "<html" not in quick
    assert quick.count("pending") == 2 and whole.count("pending") == 0


def test_the_log_and_the_metrics_name_the_page(visitor: Visitor, frugal: Config) -> None:
    token = token_for(frugal, "ada", "read", "admin")
    text = visitor.client.get("/metrics", headers={"Authorization": f"Bearer {token}"}).text
    assert 'route="/login"' in text


def test_a_token_without_the_scope_sees_but_does_not_ask(stranger: Visitor, frugal: Config) -> None:
    client, visitor = stranger.client, stranger
    visitor.log_in(token_for(frugal, "ada", "read"))
    page = client.get("/data/patients/models")
    assert page.status_code == 200 and "does not reach to plans" in page.text
    assert "Ask and pay" not in page.text
    assert "may look, and not ask" in client.get("/data/patients").text
    refused = client.post("/data/patients/ask", data=visitor.fields())
    assert refused.status_code == 403 and "scope" in refused.text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"strength": "many"}, "strength must be a number"),
        ({"strength": "nan"}, "strength must be finite"),
        ({"strength": "-1"}, "must be &gt; 0"),
        ({"promise": "share", "strength": "200"}, "at most at 100 %"),
        ({"promise": "magic"}, "no promise is called"),
        ({"alpha": "1e9"}, "alpha must lie between"),
        ({"alpha": "x"}, "alpha must be a number"),
        ({"column": "secret"}, "no column"),
        ({"system": "normal-mean"}, "must be one of"),
        ({"query": "__import__('os')"}, "query"),
        ({"draws": "1.5"}, "whole number"),
        ({"draws": "1e99"}, "draws must be"),
        ({"mechanism": "magic"}, "mechanism must be one of"),
        ({"where": "secret = 'Smith-7'"}, "no column"),
        ({"key": "k" * 300}, "not one that this page gives"),
    ],
)
def test_a_form_that_makes_no_sense_is_refused_in_words(visitor: Visitor, change: dict[str, str], words: str) -> None:
    refused = visitor.client.post("/data/patients/ask", data=visitor.fields() | change)
    assert refused.status_code == 422
    assert words in told(refused.text)
    assert "100 % left" in told(refused.text)


def test_a_form_that_cannot_be_read_is_refused(visitor: Visitor) -> None:
    body = b"seal=%ff&" + b"&".join(b"a%d=1" % i for i in range(100))
    response = visitor.client.post("/data/patients/ask", content=body)
    assert response.status_code == 422 and "cannot be read" in response.text


@pytest.mark.parametrize(
    ("budget", "mechanism", "more"),
    [
        ("pure:0.5", "tempered", {}),
        ("zcdp:0.05", "tempered", {}),
        ("gaussian:0.05", "diffused", {"column": "age", "system": "normal-mean"}),
        ("approx:4,1e-6", "diffused", {}),
    ],
)
def test_the_refusal_says_what_the_budget_still_covers(
    tmp_path: Path, budget: str, mechanism: str, more: dict[str, str]
) -> None:
    config = with_mechanisms(write_office(tmp_path, whole=budget, each=budget), mechanism)
    with served(config) as client:
        visitor = Visitor(client)
        visitor.log_in(token_for(config))
        asked = {"promise": "share", "strength": "70", "mechanism": mechanism, "second": "", **more}
        asked |= {"variance": "600", "prior_variance": "2500", "prior_mean": "50"}
        fields = visitor.fields() | asked
        assert client.post("/data/patients/ask", data=fields).status_code == 200
        refused = client.post("/data/patients/ask", data=fields | {"key": "another"})
        assert refused.status_code == 409 and "Nothing was spent" in refused.text
        _, _, rest = refused.text.partition('class="card refusal"')
        offer = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', rest.partition("</form>")[0]))
        assert 0 < float(offer["strength"]) <= 30
        granted = client.post("/data/patients/ask", data=offer | {"key": "a-third"})
        assert granted.status_code == 200
        assert float(re.search(r"([\d.]+) % left", told(granted.text))[1]) < 30


MODELS = [
    ("naive bayes", '{"label": "smoker", "features": ["ward", "age"]}', "95 % interval"),
    ("Bayesian network", '{"fields": ["ward", "smoker"], "parents": {"smoker": ["ward"]}}', "95 % interval"),
    ("Markov random field", '{"cliques": [["ward", "smoker"]]}', "95 % interval"),
    ("count tables", '{"tables": [["ward", "smoker"]]}', "ward × smoker: 6 cells"),
    (
        "regression",
        '{"features": ["age"], "label": "visits", "family": "linear"}',
        "no interval is offered: rows longer",
    ),
]


@pytest.mark.parametrize(("system", "settings", "said"), MODELS, ids=lambda one: one[:12])
def test_models_of_several_columns_are_planned_and_asked_from_the_page(
    client: httpx.Client, office: Config, system: str, settings: str, said: str
) -> None:
    visitor = Visitor(client)
    visitor.log_in(token_for(office))
    page = client.get("/data/patients/models").text
    assert f">{system}</option>" in page and f"{system} takes" in page
    fields = visitor.fields() | {"column": "*", "system": system, "settings": settings, "mechanism": ""}
    fields |= {"strength": "8"}
    planned = client.post("/data/patients/plan", data=fields)
    assert planned.status_code == 200 and 'tr class="chosen"' in planned.text
    answered = client.post("/data/patients/ask", data=fields)
    assert answered.status_code == 200 and said in answered.text
    wrong = client.post("/data/patients/ask", data=fields | {"settings": "[1]", "key": "another"})
    assert wrong.status_code == 422 and "are JSON such as" in wrong.text


def test_questions_in_words_work_without_scripts_and_are_refused_in_words(spender: Visitor) -> None:
    client, visitor = spender.client, spender
    page = client.get("/data/patients")
    key = re.search(r'name="key" value="([^"]+)"', page.text)[1]
    fields = {"seal": visitor.seal(page), "key": key, "verb": "mean", "column": "age", "by:ward": "on", "spend": "10"}
    answered = client.post("/data/patients/answer", data=fields)
    assert answered.status_code == 200 and "Mean of age by ward" in answered.text
    assert "90 % left: about 9 more like the last" in told(answered.text)
    again = client.post("/data/patients/answer", data=fields)  # sent twice, paid once
    assert "90 % left" in told(again.text)
    table = client.get(re.search(r'href="(/data/patients/answers/\d+[^"]*)"', again.text)[1])
    assert table.text.splitlines()[0] == "ward,estimate,low,high,privacy_share"
    assert table.headers["content-disposition"].endswith('.csv"')
    for change, words in (
        ({"verb": "magic"}, "no verb is called"),
        ({"column": "smoker"}, "needs a column of numbers"),
        ({"column": ""}, "mean needs column"),
        ({"spend": "lots"}, "must be a number"),
        ({"spend": "0"}, "above 0 and at most at 100 %"),
        ({"spend": "nan"}, "must be finite"),
        ({"level": "100"}, "level must lie between 0 and 1"),
        ({"where": "secret = 'Smith-7'"}, "no column"),
        ({"where": "<script>"}, "&lt;script&gt;"),
        ({"by:<b>": "on"}, "no column"),
        ({"key": "k" * 300}, "not one that this page gives"),
    ):
        refused = client.post("/data/patients/answer", data=fields | {"key": "other"} | change)
        assert refused.status_code == 422 and words in told(refused.text), refused.text
        assert "90 % left" in told(refused.text) and "<b>" not in refused.text
    too_much = client.post("/data/patients/answer", data=fields | {"spend": "95", "key": "more", "anew": "1"})
    assert too_much.status_code == 409 and "asks for 95 % of your budget, and 90 % is left" in told(too_much.text)
    assert "Ask with 90 %" in too_much.text
    for path in ("/data/patients?answer=x", "/data/patients?answer=99999", "/data/patients/answers/99999"):
        assert client.get(path).status_code == 404
    assert client.post("/data/patients/answer", data=fields | {"seal": "0"}).status_code == 403


def test_the_documentation_needs_no_login_and_nothing_from_elsewhere(visitor: Visitor) -> None:
    visitor.client.cookies.clear()
    page = visitor.client.get("/docs")
    assert page.status_code == 200
    assert not re.search(r"<script(?![^>]*src=\"/static)|<link[^>]*https?:|\sstyle=|src=\"https?:", page.text)
    for word in (
        "proportion",
        "/api/v1/datasets/{dataset}/answers",
        "Idempotency-Key",
        "from sottovoce.faces.client import",
    ):
        assert word in page.text
