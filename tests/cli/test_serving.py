"""The server's commands: serve, tokens, receipt."""

from __future__ import annotations

import asyncio
import datetime
import json
import re
import socket
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from sottovoce.faces.cli.serving import LIFETIME_DAYS, receipt_app, serve, tokens_app
from sottovoce.faces.server.config import Config
from sottovoce.faces.server.questions import ServerQuestion
from sottovoce.faces.server.service import Service
from sottovoce.faces.server.tokens import LIFETIME, Tokens
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.shares import percent
from support.offices import BETA, token_for, write_office

app = typer.Typer()
app.command()(serve)
app.add_typer(tokens_app, name="tokens")
app.add_typer(receipt_app, name="receipt")


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return str(result.output)


@pytest.fixture
def office(tmp_path: Path) -> Config:
    return write_office(tmp_path)


def test_an_address_that_is_taken_is_refused_in_words_and_nothing_is_said_to_be_served(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        config = write_office(tmp_path, server=f"port = {other.getsockname()[1]}")
        with pytest.raises(InvalidValue, match=r"cannot listen at 127.0.0.1, port \d+: .*; name another"):
            serve(config.path)
    assert not capsys.readouterr().out


def test_check_opens_everything_and_stops(office: Config) -> None:
    facts = json.loads(run("serve", office.path, "--check", "--json"))
    assert facts["address"] == "http://127.0.0.1:8400"
    assert facts["datasets"] == ["patients", "staff"]
    assert "is in order" in run("serve", office.path, "--check")
    office.path.write_text(office.path.read_text().replace("columns.visits", "columns.nothing"))
    with pytest.raises(InvalidValue, match="no such column"):
        run("serve", office.path, "--check")


def test_a_token_is_shown_once_listed_and_revoked(office: Config) -> None:
    made = json.loads(
        run("tokens", "create", office.path, "--analyst", "ada", "--scope", "read", "--days", 2, "--json")
    )
    with Tokens(office.tokens) as tokens:
        assert tokens.authenticate(made["token"]).scopes == {"read"}
    listed = run("tokens", "list", office.path, "--json")
    assert made["token"][-43:] not in listed
    assert json.loads(listed)["tokens"][0]["valid"] is True
    assert made["id"] in run("tokens", "list", office.path)
    assert json.loads(run("tokens", "revoke", office.path, made["id"], "--json"))["revoked"]
    assert "is refused since" in run("tokens", "revoke", office.path, made["id"])
    assert json.loads(run("tokens", "list", office.path, "--json"))["tokens"][0]["valid"] is False
    shown = run("tokens", "create", office.path, "--analyst", "bob", "--dataset", "patients")
    assert "sv1_" in shown
    assert "not shown again" in shown


def test_a_list_of_tokens_folds_no_date(office: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = [word for scope in ("admin", "ask", "plan", "read") for word in ("--scope", scope)]
    reached = ["--dataset", "patients", "--dataset", "staff"]
    made = json.loads(run("tokens", "create", office.path, "--analyst", "ada", *everything, *reached, "--json"))
    run("tokens", "revoke", office.path, made["id"])
    run("tokens", "create", office.path, "--analyst", "bob", "--forever")
    monkeypatch.setenv("COLUMNS", "80")
    shown = run("tokens", "list", office.path)
    assert all(len(line) <= 80 for line in shown.splitlines())
    (line,) = [line for line in shown.splitlines() if made["id"] in line]
    for whole in (made["created"][:10], made["expires"][:10], "revoked"):
        assert whole in line, shown
    assert "patients" in shown and "never" in shown


def test_a_token_expires_unless_its_creator_says_forever(office: Config) -> None:
    created = datetime.datetime.now(datetime.UTC)
    made = json.loads(run("tokens", "create", office.path, "--analyst", "ada", "--json"))
    left = datetime.datetime.fromisoformat(made["expires"]) - created
    assert datetime.timedelta(days=89) < left < datetime.timedelta(days=91)
    assert datetime.timedelta(days=LIFETIME_DAYS) == LIFETIME
    assert made["expires"][:10] in run("tokens", "list", office.path)
    assert "never expires" in run("tokens", "create", office.path, "--analyst", "ada", "--forever")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--analyst", "eve"], "no analyst is called 'eve'"),
        (["--analyst", "ada", "--dataset", "x"], "no data set is called 'x'"),
        (["--analyst", "ada", "--scope", "root"], "scopes are some of"),
        (["--analyst", "ada", "--days", "0"], "some time"),
        (["--analyst", "ada", "--days", "nan"], "some time"),
        (["--analyst", "ada", "--days", "1e300", "--forever"], "some time"),
    ],
)
def test_a_wrong_token_is_not_made(office: Config, options: list[str], said: str) -> None:
    with pytest.raises(InvalidValue, match=said):
        run("tokens", "create", office.path, *options)


@pytest.fixture
def answer(office: Config) -> tuple[Path, Path, dict[str, Any]]:
    with Service(office) as service:
        caller = service.authenticate(token_for(office))
        question = ServerQuestion(system=BETA, target="renyi:8,0.05", column="smoker")
        told = asyncio.run(service.ask(caller, "patients", question))
        key = office.path.with_name("server.pem")
        key.write_bytes(service.signer.public_key)
    path = office.path.with_name("answer.json")
    path.write_text(json.dumps(told))
    return path, key, told


def test_a_receipt_is_verified_alone_or_with_its_release(answer: tuple[Path, Path, dict[str, Any]]) -> None:
    path, key, told = answer
    shown = run("receipt", "verify", path, "--key", key)
    assert "good" in shown
    assert "is the one it is about" in shown
    cost = json.loads(told["receipt"]["signed"])["share"]
    assert f"{percent(cost['yours'])} of the analyst's budget, {percent(cost['whole'])} of the whole" in shown
    assert re.search(r"^question +\w.* of smoker *$", shown, re.MULTILINE)
    assert json.loads(run("receipt", "verify", path, "--key", key, "--json"))["release_checked"] is True
    for without in (told["receipt"], told | {"release": None}):
        path.write_text(json.dumps(without))
        found = json.loads(run("receipt", "verify", path, "--key", key, "--json"))
        assert (found["good"], found["release_checked"]) == (True, False)
        assert found["statement"]["entry"] == told["entry"]
        assert "not given, and not checked" in run("receipt", "verify", path, "--key", key)
    for other in ({}, [], "", 0, False):
        path.write_text(json.dumps(told | {"release": other}))
        with pytest.raises(InvalidValue, match="another release"):
            run("receipt", "verify", path, "--key", key)


def test_a_bad_receipt_is_refused(answer: tuple[Path, Path, dict[str, Any]]) -> None:
    path, key, told = answer
    told["release"]["value"]["answer"] = 0.5
    path.write_text(json.dumps(told))
    with pytest.raises(InvalidValue, match="another release"):
        run("receipt", "verify", path, "--key", key)
    path.write_text('{"receipt": 3}')
    with pytest.raises(InvalidValue, match="JSON object with"):
        run("receipt", "verify", path, "--key", key)
    path.write_text("nothing")
    with pytest.raises(InvalidValue, match="read from JSON"):
        run("receipt", "verify", path, "--key", key)
    with pytest.raises(InvalidValue, match="cannot read"):
        run("receipt", "verify", path.with_name("gone"), "--key", key)
