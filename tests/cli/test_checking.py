"""`sottovoce check`, through its own application."""

import json

import pytest
import typer
from typer.testing import CliRunner

from sottovoce.audit.checks import known_checks
from sottovoce.faces.cli.checking import check
from sottovoce.privacy.errors import InvalidValue
from sottovoce.service.ledger import charging

app = typer.Typer()
app.command()(check)
NAME = "no cost below zero is charged"
OTHER = "a forged checkpoint opens no ledger"


def run(*arguments):
    return CliRunner().invoke(app, arguments)


def test_a_check_passes_and_says_why():
    result = run(NAME)
    assert result.exit_code == 0
    assert "passed" in result.stdout
    assert "4 costs that are none, each refused" in " ".join(result.stdout.split())


def test_it_speaks_json():
    found = json.loads(run(NAME, OTHER, "--json").stdout)
    assert [(f["name"], f["passed"]) for f in found] == [(NAME, True), (OTHER, True)]


def test_a_failed_check_is_shown_and_sets_the_exit_code(monkeypatch):
    monkeypatch.setattr(charging, "charged", lambda budget, share, cost: share + 1)
    result = run(NAME)
    assert result.exit_code == 8
    assert "failed" in result.stdout


def test_it_lists_its_checks():
    assert json.loads(run("list", "--json").stdout) == list(known_checks())
    assert NAME in run("list").stdout


def test_an_unknown_check_is_refused():
    result = run("luck")
    assert isinstance(result.exception, InvalidValue)
    with pytest.raises(InvalidValue, match="no check is called 'luck'"):
        raise result.exception
