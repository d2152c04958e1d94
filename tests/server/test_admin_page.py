"""The administrator's page: who may see it, who may let people in and out, and what it says."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

from sottovoce.faces.server.config import Config
from sottovoce.faces.server.tokens import Tokens
from support.offices import ask, bearer, served, token_for
from support.visitors import Visitor


@pytest.fixture
def server(own_office: Config) -> Iterator[httpx.Client]:
    with served(own_office) as client:
        yield client


def come(client: httpx.Client, config: Config, *scopes: str, datasets: tuple[str, ...] = ()) -> httpx.Response:
    Visitor(client).log_in(token_for(config, "ada", *scopes, datasets=datasets))
    return client.get("/admin")


def test_who_may_not_see_it_is_told_so_and_finds_no_link(server: httpx.Client, own_office: Config) -> None:
    assert server.get("/admin").headers["location"] == "/login"
    assert come(server, own_office).status_code == 403
    assert "/admin" not in server.get("/").text


def test_spending_last_answers_and_the_ledger(server: httpx.Client, own_office: Config) -> None:
    assert ask(server, bearer(token_for(own_office, "bob"))).status_code == 200
    page = come(server, own_office, "read", "admin")
    assert page.status_code == 200 and 'href="/admin"' in server.get("/").text
    row = re.search(r'<th scope="row">bob</th><td data-label="Spent">(.*?)</td>', page.text)
    assert row is not None and "25" in row[1]
    assert "everyone together" in page.text and '<td data-label="Who">bob</td>' in page.text
    assert "Revoke" not in page.text and "scope <code>manage</code>" in page.text
    verified = server.post("/admin/verify", data={"seal": Visitor.seal(page)})
    assert verified.status_code == 200 and "The ledger holds together" in verified.text


def test_tokens_are_created_shown_once_and_revoked(server: httpx.Client, own_office: Config) -> None:
    page = come(server, own_office, "read", "admin", "manage")
    form = {"seal": Visitor.seal(page), "analyst": "bob", "days": "3", "scope:read": "on", "scope:plan": "on"}
    made = server.post("/admin/tokens", data=form)
    found = re.search(r"sv1_[0-9a-f]{16}_[\w-]{43}", made.text)
    assert made.status_code == 200 and found is not None
    headers = bearer(found[0])
    assert server.get("/api/v1/datasets", headers=headers).status_code == 200
    assert ask(server, headers).status_code == 403
    assert found[0] not in server.get("/admin").text
    identity = found[0].split("_")[1]
    revoked = server.post("/admin/revoke", data={"seal": form["seal"], "token": identity})
    assert f"Token {identity} of bob is refused from now on." in revoked.text
    assert server.get("/api/v1/datasets", headers=headers).status_code == 401


@pytest.mark.parametrize("path", ["/admin/tokens", "/admin/revoke"])
def test_admin_alone_lets_nobody_in_or_out(server: httpx.Client, own_office: Config, path: str) -> None:
    with Tokens(own_office.tokens) as tokens:
        victim, _ = tokens.create("bob", ["read"])
        for scopes, reach in ((("read", "admin"), ()), (("read", "admin", "manage"), ("patients",)), (("manage",), ())):
            page = come(server, own_office, *scopes, datasets=reach)
            seal = Visitor.seal(page) if page.status_code == 200 else "0"
            known = len(tokens.list())
            form = {"seal": seal, "analyst": "bob", "days": "3", "scope:ask": "on", "token": victim.id}
            assert server.post(path, data=form).status_code == 403
            assert len(tokens.list()) == known and tokens.find(victim.id) == victim
        page = come(server, own_office, "read", "admin", "manage")
        assert server.post(path, data={"analyst": "bob", "days": "3", "token": victim.id}).status_code == 403  # no seal


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"analyst": "<b>eve"}, "choose one of the analysts"),
        ({"days": "0"}, "a token lives for"),
        ({"days": "1e9"}, "a token lives for"),
        ({"scope:read": None}, "scopes are some of"),
    ],
)
def test_mistakes_are_told(server: httpx.Client, own_office: Config, change: dict[str, str | None], said: str) -> None:
    page = come(server, own_office, "read", "admin", "manage")
    form = {"seal": Visitor.seal(page), "analyst": "bob", "days": "3", "scope:read": "on"} | change
    answer = server.post("/admin/tokens", data={name: value for name, value in form.items() if value is not None})
    assert answer.status_code == 422 and said in answer.text and "<b>" not in answer.text


def test_nobody_revokes_the_token_they_came_with(server: httpx.Client, own_office: Config) -> None:
    page = come(server, own_office, "read", "admin", "manage")
    with Tokens(own_office.tokens) as tokens:
        own = tokens.list()[-1].id
    answer = server.post("/admin/revoke", data={"seal": Visitor.seal(page), "token": own})
    assert answer.status_code == 422 and server.get("/admin").status_code == 200


def test_every_field_has_a_label_and_every_table_a_caption(server: httpx.Client, own_office: Config) -> None:
    text = come(server, own_office, "read", "admin", "manage").text
    for name in re.findall(r'<(?:input|select) id="([^"]+)"', text):
        assert f'<label for="{name}"' in text
    assert text.count("<table") == text.count("<caption") and not re.search(r"\son\w+=|\sstyle=|https?://", text)
