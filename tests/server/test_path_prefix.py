"""A server below a path of its address: page, links, API and client stay below it, and HSTS goes with TLS alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from sottovoce.faces.client import Client
from sottovoce.faces.server.config import Config
from sottovoce.faces.server.request_guard import HEADERS
from sottovoce.privacy.errors import InvalidValue
from support.offices import bearer, served, token_for, write_office
from support.visitors import Visitor

PREFIX = "/county/register"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    return write_office(tmp_path_factory.mktemp("office"), server=f'path_prefix = "{PREFIX}/"')


@pytest.fixture(scope="module")
def server(config: Config) -> Iterator[httpx.Client]:
    with served(config) as client:
        yield client


def test_every_link_form_and_redirect_of_the_page_stays_below_the_prefix(server: httpx.Client, config: Config) -> None:
    server.cookies.clear()
    seal = Visitor.seal(server.get(f"{PREFIX}/login"))
    sent = server.post(f"{PREFIX}/login", data={"seal": seal, "token": token_for(config, "ada", "read", "plan", "ask")})
    assert (sent.status_code, sent.headers["location"]) == (303, f"{PREFIX}/")
    seen, ahead = set(), {f"{PREFIX}/"}
    while ahead:
        path = ahead.pop()
        seen.add(path)
        page = server.get(path)
        assert page.status_code == 200, path
        if page.headers["content-type"].startswith("text/html"):
            links = set(re.findall(r'(?:href|src|action|formaction)="(/[^"#?]*)', page.text))
            assert all(link.startswith(f"{PREFIX}/") for link in links), links
            ahead |= {link for link in links if not link.endswith(("/logout", "/answer", "/plan", "/ask", "/foresee"))}
            ahead -= seen
    assert {f"{PREFIX}/{name}" for name in ("docs", "static/page.css", "data/patients/models", "openapi.json")} <= seen
    server.cookies.clear()
    assert server.get(f"{PREFIX}/data/patients").headers["location"] == f"{PREFIX}/login"


@pytest.mark.parametrize("prefix", [PREFIX, ""])  # a proxy may take the prefix off, or not
def test_the_api_answers_with_the_prefix_and_where_a_proxy_took_it_off(
    server: httpx.Client, config: Config, prefix: str
) -> None:
    assert server.get(f"{prefix}/health").json() == {"status": "ok"}
    headers = bearer(token_for(config))
    assert server.get(f"{prefix}/api/v1/datasets/patients", headers=headers).json()["name"] == "patients"
    assert server.get(f"{prefix}x/health").status_code == 404
    assert server.get(PREFIX, follow_redirects=False).status_code == 303


def test_the_client_asks_below_the_prefix(server: httpx.Client, config: Config) -> None:
    url = str(server.base_url).rstrip("/") + PREFIX
    client = Client(url, token_for(config), "patients")
    assert client.proportion("smoker", spend=0.01).rows


@pytest.mark.parametrize("wrong", ["register", "/a b", "//elsewhere", "/..", "https://elsewhere"])
def test_what_is_no_path_is_refused(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(InvalidValue, match=r"path_prefix in \[server\] must be a path such as /sottovoce"):
        write_office(tmp_path, server=f'path_prefix = "{wrong}"')


def test_headers_go_with_every_response_and_hsts_with_those_over_tls_alone(tmp_path: Path) -> None:
    config = write_office(tmp_path, server='trusted_proxies = ["127.0.0.1"]')
    with served(config) as client:
        for path in ("/health", "/login", "/api/v1/key", "/gone", "/static/page.js"):
            bare = client.get(path).headers
            tls = client.get(path, headers={"X-Forwarded-Proto": "https"}).headers
            assert "strict-transport-security" not in bare
            assert tls["strict-transport-security"] == "max-age=31536000"
            for headers in (bare, tls):
                assert headers["content-security-policy"] == HEADERS["Content-Security-Policy"]
                assert headers["x-content-type-options"] == "nosniff"
                assert headers["referrer-policy"] == "no-referrer"
