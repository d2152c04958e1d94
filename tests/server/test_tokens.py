"""Tokens: guessed, revoked, expired, out of scope; each is refused, and none says which it was."""

from __future__ import annotations

import datetime
import hashlib
import secrets
import sqlite3
import stat
from pathlib import Path

import httpx
import pytest

from sottovoce.faces.client.errors import NotAuthenticated
from sottovoce.faces.server import tokens as module
from sottovoce.faces.server.config import Config
from sottovoce.faces.server.tokens import Tokens
from sottovoce.privacy.errors import InvalidValue, LedgerUnavailable
from support.nursery import told_by
from support.offices import SMOKERS, ask, bearer, served, token_for, write_office

READ = ("/api/v1/datasets", "/api/v1/datasets/patients", "/api/v1/datasets/patients/remaining")


@pytest.fixture(params=["sqlite", "postgres"])
def tokens(request: pytest.FixtureRequest, tmp_path: Path) -> Tokens:
    url = tmp_path / "t" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    with Tokens(url) as opened:
        yield opened


class TestTheStore:
    def test_a_token_comes_back_and_only_its_hash_is_kept(self, tokens: Tokens) -> None:
        token, text = tokens.create("ada", ["read"], ["patients"])
        assert tokens.authenticate(text) == token == tokens.find(token.id)
        secret = text.removeprefix(f"sv1_{token.id}_")
        assert len(secret) == 43  # 256 bits
        row = tokens._row(token.id)
        assert row.hash == hashlib.sha256(secret.encode()).hexdigest()
        assert secret not in str(tuple(row))

    def test_a_revoked_token_is_refused_and_stays_so(self, tokens: Tokens) -> None:
        token, text = tokens.create("ada", ["read"])
        first = tokens.revoke(token.id)
        assert tokens.revoke(token.id) == first
        with pytest.raises(NotAuthenticated):
            tokens.authenticate(text)
        with pytest.raises(InvalidValue, match="no token"):
            tokens.revoke("0" * 16)

    def test_an_expired_token_is_refused(self, tokens: Tokens) -> None:
        _, text = tokens.create("ada", ["read"], lifetime=datetime.timedelta(milliseconds=1))
        _, later = tokens.create("ada", ["read"], lifetime=datetime.timedelta(days=1))
        assert tokens.authenticate(later)
        with pytest.raises(NotAuthenticated):
            while True:
                tokens.authenticate(text)

    def test_a_token_expires_unless_told_otherwise(self, tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
        _, usual = tokens.create("ada", ["read"])
        _, forever = tokens.create("ada", ["read"], lifetime=None)
        real = module._now
        for days, valid in ((89, True), (91, False)):
            monkeypatch.setattr(module, "_now", lambda later=datetime.timedelta(0), d=days: real(datetime.timedelta(d)))
            assert tokens.find(usual.split("_")[1]).valid is valid
            assert tokens.authenticate(forever)

    def test_a_token_that_was_refused_stays_so_where_the_clock_is_set_back(
        self, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked, seen, unmet = (tokens.create("ada", ["read"])[1] for _ in range(3))
        real = module._now
        monkeypatch.setattr(module, "_now", lambda later=datetime.timedelta(0): real(later + datetime.timedelta(91)))
        guess = f"{asked[:21]}{unmet[21:]}"
        for text in (guess, asked):
            with pytest.raises(NotAuthenticated):
                tokens.authenticate(text)
        assert not tokens.find(seen.split("_")[1]).valid
        monkeypatch.setattr(module, "_now", real)
        for text in (asked, seen):
            with pytest.raises(NotAuthenticated):
                tokens.authenticate(text)
        assert tokens.authenticate(unmet)  # nobody came with it: the time it was not valid in never was

    def test_an_ended_session_stays_ended_until_its_time_is_over(self, tokens: Tokens) -> None:
        for _ in range(2):  # logging out twice changes nothing
            tokens.end_session("a", ends=100, now=10.0)
        assert (tokens.session_ended("a"), tokens.session_ended("b")) == (True, False)
        tokens.end_session("b", ends=300, now=200.0)
        assert (tokens.session_ended("a"), tokens.session_ended("b")) == (True, True)  # the clock may be set back
        tokens.end_session("b", ends=300, now=200.0 + 90 * 86_400)
        assert (tokens.session_ended("a"), tokens.session_ended("b")) == (False, True)  # its cookie is long void

    def test_guesses_are_refused_alike(self, tokens: Tokens) -> None:
        token, text = tokens.create("ada", ["read"])
        other = tokens.create("bob", ["read"])[1]
        guesses = [
            "",
            "sv1",
            text[:-1],
            text + "A",
            text[:-1] + ("A" if text[-1] != "A" else "B"),
            text.upper(),
            f"sv1_{token.id}_{other[-43:]}",
            f"sv1_{secrets.token_hex(8)}_{text[-43:]}",
            f"sv1_{token.id}_" + "' OR '1'='1".ljust(43, "_"),
            f"{text}\n",
            "\0",
        ]
        said = set()
        for guess in guesses:
            with pytest.raises(NotAuthenticated) as refusal:
                tokens.authenticate(guess)
            said.add(str(refusal.value))
        assert len(said) == 1

    def test_hashes_are_compared_in_constant_time_also_for_nobody(
        self, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _, text = tokens.create("ada", ["read"])
        calls: list[tuple[str, str]] = []
        real = module.hmac.compare_digest
        monkeypatch.setattr(module.hmac, "compare_digest", lambda a, b: calls.append((a, b)) or real(a, b))
        tokens.authenticate(text)
        for wrong in (f"sv1_{'0' * 16}_{text[-43:]}", "nothing"):
            with pytest.raises(NotAuthenticated):
                tokens.authenticate(wrong)
        assert [len(a) == len(b) == 64 for a, b in calls] == [True] * 3

    def test_scopes_and_lifetimes_are_checked(self, tokens: Tokens) -> None:
        with pytest.raises(InvalidValue, match="some of read, plan, ask, admin"):
            tokens.create("ada", ["root"])
        with pytest.raises(InvalidValue, match="Got none"):
            tokens.create("ada", [])
        with pytest.raises(InvalidValue, match="for some time"):
            tokens.create("ada", ["read"], lifetime=datetime.timedelta(0))


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    with Tokens(tmp_path / "t") as tokens:
        tokens.create("ada", ["read"])
    assert stat.S_IMODE((tmp_path / "t").stat().st_mode) == 0o600


def test_a_store_that_cannot_be_opened_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(LedgerUnavailable, match="the tokens at"):
        Tokens(tmp_path / "nowhere" / "t")


def test_a_store_that_fails_later_is_no_fault_of_the_callers(own_office: Config, tmp_path: Path) -> None:
    with served(own_office) as client:
        headers = bearer(token_for(own_office))
        assert client.get(READ[0], headers=headers).status_code == 200
        with sqlite3.connect(own_office.tokens) as store:
            store.execute("ALTER TABLE sottovoce_tokens RENAME TO gone")
        store.close()
        refused = client.get(READ[0], headers=headers)
    assert (refused.status_code, "sqlite" in refused.text) == (503, False)


def test_a_connection_that_fails_is_closed(tmp_path: Path) -> None:
    with Tokens(tmp_path / "t") as tokens:
        _, text = tokens.create("ada", ["read"])
        assert tokens.authenticate(text)
        (connection,) = tokens._idle
        connection.execute("ALTER TABLE sottovoce_tokens RENAME TO gone")
        with pytest.raises(LedgerUnavailable):
            tokens.authenticate(text)
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")


class TestOverHttp:
    @pytest.mark.parametrize("header", [{}, {"Authorization": "Bearer"}, {"Authorization": "Basic YTpi"}])
    def test_no_token_no_entry(self, client: httpx.Client, header: dict[str, str]) -> None:
        for path in (*READ, "/metrics"):
            refused = client.get(path, headers=header)
            assert refused.status_code == 401
            assert refused.headers["WWW-Authenticate"] == "Bearer"

    def test_revocation_by_another_process_is_felt_at_once(self, client: httpx.Client, office: Config) -> None:
        text = token_for(office, "ada")
        assert client.get(READ[0], headers=bearer(text)).status_code == 200
        revoked = f"Tokens({office.tokens!r}).revoke({text.split('_')[1]!r})"
        script = f"from sottovoce.faces.server.tokens import Tokens; {revoked}"
        told_by(script)
        assert client.get(READ[0], headers=bearer(text)).status_code == 401
        assert ask(client, bearer(text)).status_code == 401

    @pytest.mark.parametrize("scope", ["read", "plan", "ask", "admin"])
    def test_no_scope_reaches_beyond_itself(self, client: httpx.Client, office: Config, scope: str) -> None:
        headers = bearer(token_for(office, "ada", scope))
        plan = {name: SMOKERS[name] for name in ("system", "target", "column")}
        codes = {
            "read": [client.get(path, headers=headers).status_code for path in READ],
            "plan": [client.post("/api/v1/datasets/patients/plan", headers=headers, json=plan).status_code],
            "ask": [ask(client, headers).status_code],
            "admin": [client.get("/metrics", headers=headers).status_code],
        }
        assert {name: set(found) for name, found in codes.items()} == {
            name: {200} if name == scope else {403} for name in codes
        }

    def test_a_token_reaches_its_data_sets_alone(self, client: httpx.Client, office: Config) -> None:
        narrow = bearer(token_for(office, "ada", datasets=("staff",)))
        assert [d["name"] for d in client.get(READ[0], headers=narrow).json()] == ["staff"]
        for path in READ[1:]:
            assert client.get(path, headers=narrow).status_code == 404
        assert ask(client, narrow).status_code == 404
        # Bob has no budget on the staff, whatever his token says.
        wide = bearer(token_for(office, "bob", datasets=("staff", "patients")))
        assert client.get("/api/v1/datasets/staff", headers=wide).status_code == 404
        nobody = client.get("/api/v1/datasets/nosuch", headers=wide).json()["detail"]
        hidden = client.get("/api/v1/datasets/staff", headers=wide).json()["detail"]
        assert nobody.replace("nosuch", "staff") == hidden

    def test_an_administrator_sees_all_and_spends_nobodys_budget(self, client: httpx.Client, office: Config) -> None:
        carol = bearer(token_for(office, "carol", "read", "ask", "admin"))
        assert client.get("/api/v1/datasets/staff/history", headers=carol).status_code == 200
        body = SMOKERS | {"target": "pure:0.1", "mechanism": "laplace"}
        refused = client.post("/api/v1/datasets/staff/ask", headers=carol, json=body)
        assert (refused.status_code, "no budget" in refused.text) == (403, True)

    def test_an_analyst_who_left_the_configuration_is_out(self, client: httpx.Client, office: Config) -> None:
        with Tokens(office.tokens) as tokens:
            _, text = tokens.create("mallory", ["read"])
        assert client.get(READ[0], headers=bearer(text)).status_code == 401

    def test_receipts_and_history_of_others_are_not_there(
        self, client: httpx.Client, ada: dict[str, str], bob: dict[str, str]
    ) -> None:
        entry = ask(client, ada).json()["entry"]
        path = f"/api/v1/datasets/patients/answers/{entry}/receipt"
        assert client.get(path, headers=ada).status_code == 200
        assert client.get(path, headers=bob).status_code == 404


def test_guessing_is_stopped_by_the_limit_on_failures(tmp_path: Path) -> None:
    config = write_office(tmp_path, limits="failures_per_minute = 5\nanswer_grid = 0.005")
    with served(config) as client:
        good = bearer(token_for(config))
        assert client.get(READ[0], headers=good).status_code == 200
        codes = [
            client.get(READ[0], headers=bearer(f"sv1_{'0' * 16}_{secrets.token_urlsafe(32)}")).status_code
            for _ in range(8)
        ]
        assert codes == [401] * 5 + [429] * 3
        # The address is shut out for a while, and with it whoever shares it.
        refused = client.get(READ[0], headers=good)
        assert refused.status_code == 429
        assert int(refused.headers["Retry-After"]) >= 1
