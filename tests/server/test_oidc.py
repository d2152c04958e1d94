"""Sign-in with a provider: who holds what the provider made for us comes in, nobody else, and not for longer."""

from __future__ import annotations

import base64
import datetime
import hmac
import json
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

pytest.importorskip("authlib", reason="the oidc extra is not installed (pip install 'sottovoce[oidc]')")
from joserfc.jwk import RSAKey

from sottovoce.faces.client.errors import NotAuthenticated, ProviderUnavailable
from sottovoce.faces.server import oidc
from sottovoce.faces.server.config import Config, read_config
from sottovoce.faces.server.oidc import Provider
from sottovoce.faces.server.tokens import Tokens
from sottovoce.privacy.errors import InvalidValue
from support.offices import bearer, served, token_for, write_office
from support.oidc_provider import AUDIENCE, CLIENT, SECRET, LocalProvider
from support.visitors import Visitor

LIMITS = "answer_grid = 0.005\nfailures_per_minute = 100000\naddress_requests_per_minute = 1000000"
BACK = "http://127.0.0.1:8400/signed-in"


def with_provider(config: Config, issuer: str, more: str = "") -> Config:
    (config.path.parent / "client-secret").write_text(f"{SECRET}\n", encoding="utf-8")
    section = f"""
[oidc]
issuer = "{issuer}"
client_id = "{CLIENT}"
client_secret_file = "client-secret"
redirect_uri = "{BACK}"
audience = "{AUDIENCE}"
claim = "realm_access.roles"
title = "County <login>"
{more}
[oidc.roles.office]
analyst = "bob"
scopes = ["read", "admin"]
[oidc.roles.researchers]
analyst = "ada"
"""
    config.path.write_text(config.path.read_text(encoding="utf-8") + section, encoding="utf-8")
    return read_config(config.path)


@pytest.fixture(scope="module")
def provider() -> Iterator[LocalProvider]:
    with LocalProvider() as running:
        yield running


@pytest.fixture(autouse=True)
def as_usual(provider: LocalProvider) -> None:
    provider.person = {"sub": "ada@county", "realm_access": {"roles": ["researchers"]}}
    provider.tamper = dict


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory, provider: LocalProvider) -> Config:
    return with_provider(write_office(tmp_path_factory.mktemp("office"), limits=LIMITS), provider.issuer)


@pytest.fixture(scope="module")
def server(config: Config) -> Iterator[httpx.Client]:
    with served(config) as client:
        yield client


@pytest.fixture
def browser(server: httpx.Client) -> httpx.Client:
    server.cookies.clear()
    return server


def sign_in(browser: httpx.Client) -> httpx.Response:
    """Go to the provider and come back, as a browser does."""
    sent = browser.get("/sign-in")
    assert sent.status_code == 303
    returned = httpx.get(sent.headers["location"], verify=False)
    back = returned.headers["location"]
    assert back.startswith(BACK)
    return browser.get(f"/signed-in?{urlsplit(back).query}")


def test_sign_in_ask_and_log_out(browser: httpx.Client, config: Config, provider: LocalProvider) -> None:
    login = browser.get("/login").text
    assert "Sign in with County &lt;login&gt;" in login and 'name="token"' in login
    came = sign_in(browser)
    assert came.status_code == 200 and 'content="0; url=/"' in came.text
    assert "samesite=strict" in came.headers["set-cookie"].lower()
    home = browser.get("/")
    assert home.status_code == 200 and ">Ada<" in home.text
    cookies = dict(browser.cookies)
    out = browser.post("/logout", data={"seal": Visitor.seal(home)})
    assert (out.status_code, out.headers["location"]) == (303, "/login?out=yes")
    way = browser.get("/login?out=yes").text
    assert f"{provider.issuer}/leave?client_id={CLIENT}&amp;post_logout_redirect_uri=" in way
    browser.cookies.update(cookies)  # a copy of the cookie opens nothing
    assert browser.get("/").headers["location"] == "/login"
    with Tokens(config.tokens) as tokens:
        token = next(item for item in tokens.list() if item.person)
        assert token.revoked and token.analyst == "ada" and "ada@county" not in json.dumps(token.to_dict())


def test_a_session_ends_when_its_time_is_over_or_it_is_revoked(browser: httpx.Client, config: Config) -> None:
    for end in ("expired", "revoked"):
        assert sign_in(browser).status_code == 200
        assert browser.get("/").status_code == 200
        with Tokens(config.tokens) as tokens:
            token = [item for item in tokens.list() if item.person][-1]
            left = datetime.datetime.fromisoformat(token.expires or "") - datetime.datetime.now(datetime.UTC)
            assert datetime.timedelta(hours=7.9) < left <= datetime.timedelta(hours=8)
            if end == "revoked":
                tokens.revoke(token.id)
            else:
                with tokens._connection() as connection:
                    connection.exec_driver_sql(
                        "UPDATE sottovoce_tokens SET expires = '2020-01-01T00:00:00.000+00:00' WHERE id = ?",
                        (token.id,),
                    )
        assert browser.get("/").headers["location"] == "/login"


@pytest.mark.parametrize(
    "change",
    [
        {"nonce": "another"},
        {"nonce": None},
        {"aud": "somebody-else"},
        {"aud": [CLIENT, "somebody-else"], "azp": "somebody-else"},
        {"iss": "https://elsewhere.example"},
        {"exp": 1_600_000_000},
        {"exp": None},
        {"sub": None},
        {"iat": 99_999_999_999},
    ],
)
def test_an_id_token_that_does_not_hold_signs_nobody_in(
    browser: httpx.Client, provider: LocalProvider, change: dict[str, Any]
) -> None:
    provider.tamper = lambda claims: {k: v for k, v in (claims | change).items() if v is not None}
    came = sign_in(browser)
    assert came.status_code == 401 and "Not signed in" in came.text
    assert browser.get("/").headers["location"] == "/login"


def test_a_code_is_good_once_and_in_the_browser_that_asked_for_it(browser: httpx.Client) -> None:
    sent = browser.get("/sign-in")
    asked = parse_qs(urlsplit(sent.headers["location"]).query)
    assert asked["code_challenge_method"] == ["S256"] and len(asked["state"][0]) == 64
    back = f"/signed-in?{urlsplit(httpx.get(sent.headers['location'], verify=False).headers['location']).query}"
    mine = dict(browser.cookies)
    browser.cookies.clear()
    assert browser.get(back).status_code == 401  # somebody else's browser, which was sent the address
    browser.get("/sign-in")
    assert browser.get(back).status_code == 401
    browser.cookies.clear()
    browser.cookies.update(mine)
    assert browser.get(back).status_code == 200
    browser.cookies.update(mine)
    assert browser.get(back).status_code == 401
    for wrong in ("/signed-in", "/signed-in?state=&code=x", "/signed-in?error=access_denied", "/signed-in?state=é"):
        assert browser.get(wrong).status_code == 401


def test_who_is_known_and_has_no_role_is_told_so(browser: httpx.Client, provider: LocalProvider) -> None:
    provider.person = {"sub": "eve", "realm_access": {"roles": ["cooks", 3, None]}}
    came = sign_in(browser)
    assert came.status_code == 401 and "none of your realm_access.roles opens anything here" in came.text
    refused = browser.get("/api/v1/datasets", headers=bearer(provider.token()))
    assert refused.status_code == 403


def test_roles_say_whose_part_and_which_scopes(server: httpx.Client, provider: LocalProvider) -> None:
    names = [item["name"] for item in server.get("/api/v1/datasets", headers=bearer(provider.token())).json()]
    assert names == ["patients", "staff"]
    assert server.get("/metrics", headers=bearer(provider.token())).status_code == 403
    provider.person["realm_access"] = {"roles": ["researchers", "office"]}  # the first of the file counts
    assert server.get("/metrics", headers=bearer(provider.token())).status_code == 200
    question = {"verb": "proportion", "column": "smoker", "spend": "1%"}
    asked = server.post("/api/v1/datasets/patients/answers", headers=bearer(provider.token()), json=question)
    assert asked.status_code == 403 and "'ask'" in asked.json()["detail"]


def test_a_jwt_asks_from_the_part_of_its_role(server: httpx.Client, provider: LocalProvider, config: Config) -> None:
    question = {"verb": "proportion", "column": "smoker", "spend": "1%"}
    asked = server.post("/api/v1/datasets/patients/answers", headers=bearer(provider.token()), json=question)
    assert asked.status_code == 200
    ours = server.get("/api/v1/datasets/patients/history", headers=bearer(token_for(config))).json()["entries"]
    assert ours[0]["entry"] == asked.json()["entry"] and ours[0]["analyst"] == "ada"


def unsigned(claims: dict[str, Any], head: dict[str, Any] | None = None) -> str:
    return ".".join(encoded(json.dumps(part).encode()) for part in (head or {"alg": "none"}, claims)) + "."


def by_secret(claims: dict[str, Any], key: RSAKey) -> str:
    text = unsigned(claims, {"alg": "HS256", "kid": key.kid}).rstrip(".")
    return f"{text}.{encoded(hmac.digest(key.as_pem(private=False), text.encode(), 'sha256'))}"


def encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def changed(text: str) -> str:
    head, body, tail = text.split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "==")) | {"sub": "root"}
    return f"{head}.{encoded(json.dumps(claims).encode())}.{tail}"


WRONG: dict[str, Callable[[LocalProvider], str]] = {
    "expired": lambda one: one.token(exp=int(time.time()) - 60),
    "not yet": lambda one: one.token(nbf=int(time.time()) + 600),
    "no end": lambda one: one.token(exp=None),
    "wrong audience": lambda one: one.token(aud="another-api"),
    "an ID token": lambda one: one.token(aud=CLIENT),
    "wrong issuer": lambda one: one.token(iss="https://elsewhere.example"),
    "alg none": lambda one: unsigned(one.claims()),
    "a shared secret that is the public key": lambda one: by_secret(one.claims(), one.key),
    "an algorithm that is not allowed": lambda one: one.token("RS512"),
    "another's key": lambda one: one.token(key=RSAKey.generate_key(2048)),
    "another's key without its name": lambda one: one.token(key=RSAKey.generate_key(2048), kid=None),
    "changed after signing": lambda one: changed(one.token()),
    "nonsense": lambda one: "abcd.efgh.ijkl",
}


@pytest.mark.parametrize("why", WRONG)
@pytest.mark.filterwarnings("ignore:.*:UserWarning")  # of whoever makes the wrong key
def test_a_jwt_that_does_not_hold_opens_nothing(server: httpx.Client, provider: LocalProvider, why: str) -> None:
    assert server.get("/api/v1/datasets", headers=bearer(provider.token())).status_code == 200
    refused = server.get("/api/v1/datasets", headers=bearer(WRONG[why](provider)))
    assert (
        refused.status_code == 401 and refused.json()["detail"] == "the token is missing, unknown, expired or revoked"
    )


def test_the_session_of_who_signed_in_is_no_token_for_the_api(
    browser: httpx.Client, config: Config, provider: LocalProvider
) -> None:
    sign_in(browser)
    with Tokens(config.tokens) as tokens:
        token = [item for item in tokens.list() if item.person][-1]
        for secret in ("", f"sign-in {token.person}", "A" * 43):
            with pytest.raises(NotAuthenticated):
                tokens.authenticate(f"sv1_{token.id}_{secret}")
    seal = Visitor.seal(browser.get("/login"))  # nor is a JWT one for the form of tokens
    assert browser.post("/login", data={"seal": seal, "token": provider.token()}).status_code == 401


def test_keys_rotate(config: Config, provider: LocalProvider) -> None:
    clock = [time.time()]
    assert config.oidc is not None
    door = Provider(config.oidc, lambda: clock[0])
    old = provider.token()
    assert door.bearer(old)[0].analyst == "ada"
    provider.rotate()
    new = provider.token()
    assert door.bearer(old)[0].analyst == "ada"  # known keys are believed for some minutes
    asked = len(provider.asked)
    for _ in range(3):
        with pytest.raises(NotAuthenticated):
            door.bearer(
                new
            )  # the keys were read just now: whoever makes up names of keys does not have them read again
    assert len(provider.asked) == asked
    clock[0] += 11
    assert door.bearer(new)[0].analyst == "ada"
    with pytest.raises(NotAuthenticated):
        door.bearer(old)


def test_a_provider_that_is_away_or_another_lets_nobody_in(config: Config, provider: LocalProvider) -> None:
    assert config.oidc is not None
    clock = [time.time()]
    with LocalProvider() as mine:
        office = type(config.oidc)(**vars(config.oidc) | {"issuer": mine.issuer})
        door = Provider(office, lambda: clock[0])
        text = mine.token()
        assert door.bearer(text)[0].analyst == "ada"
    assert door.bearer(text)[0].analyst == "ada"  # while its keys are believed
    clock[0] += 601
    with pytest.raises(ProviderUnavailable, match="does not answer"):
        door.bearer(text)
    stranger = type(config.oidc)(**vars(config.oidc) | {"issuer": provider.issuer + "/"})
    with pytest.raises(ProviderUnavailable, match="another than the configured issuer"):
        Provider(stranger).bearer(text)


def test_a_provider_that_keeps_silent_holds_up_nobody_but_those_who_need_it(
    tmp_path: Path, provider: LocalProvider
) -> None:
    """It is asked once for all who wait, not by each in turn, and no thread of the others waits for it."""
    config = with_provider(write_office(tmp_path, limits=LIMITS), provider.issuer)
    lines, tries, asked = 2 * (os.cpu_count() or 1) + 64, list[str](), threading.Event()

    def keep_silent(address: str) -> dict[str, Any]:
        tries.append(address)
        asked.wait()
        raise ProviderUnavailable("does not answer")

    with served(config) as server, pytest.MonkeyPatch.context() as patched, ThreadPoolExecutor(lines) as crowd:
        patched.setattr(Provider, "_get", staticmethod(keep_silent))
        patched.setattr(oidc, "_SOONEST", math.inf)
        url, known = str(server.base_url), bearer(token_for(config))
        ask = partial(httpx.get, f"{url}/api/v1/datasets", headers=bearer(provider.token()), timeout=None)
        try:
            waiting = [crowd.submit(ask) for _ in range(lines)]
            while not tries:
                time.sleep(0.01)
            left = server.get("/api/v1/datasets/patients/left", headers=known, timeout=60)
            assert left.status_code == 200 and not any(reply.done() for reply in waiting)
        finally:
            asked.set()
        assert {reply.result().status_code for reply in waiting} == {503}
    assert len(tries) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('issuer = "http', 'issuer = "ftp'), "issuer in [oidc] must be an address such as https://"),
        (("127.0.0.1:8400", "register.example"), "redirect_uri in [oidc] must be an address such as https://"),
        (("signed-in", "elsewhere"), "with the path /signed-in"),
        ((f'audience = "{AUDIENCE}"', f'audience = "{CLIENT}"'), "must not open the API"),
        (('"client-secret"', '"gone"'), "client_secret_file in [oidc] cannot be read"),
        (('title = "County', 'algorithms = ["HS256"]\ntitle = "County'), "algorithms in [oidc] must be a list of some"),
        (('title = "County', 'algorithms = ["none"]\ntitle = "County'), "algorithms in [oidc] must be a list of some"),
        (('analyst = "bob"', 'analyst = "nobody"'), "analyst in [oidc.roles.office] must be one of ada, bob, carol"),
        (('["read", "admin"]', '["root"]'), "scopes in [oidc.roles.office]"),
        (("client_id", "client"), "[oidc] lacks client_id"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    config = with_provider(write_office(tmp_path), "http://127.0.0.1:1/realm")
    config.path.write_text(config.path.read_text(encoding="utf-8").replace(*change), encoding="utf-8")
    with pytest.raises(InvalidValue) as error:
        read_config(config.path)
    assert said in str(error.value) and "\n" not in str(error.value)
