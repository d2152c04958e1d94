"""`sottovoce regress`: a formula, a table in the terminal."""

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sottovoce.cli import application
from sottovoce.privacy.errors import InvalidValue


def regress(*arguments: str) -> str:
    return CliRunner().invoke(application("regress"), ["regress", *arguments], catch_exceptions=False).stdout


def test_a_formula_is_answered_by_a_table(data: Path, tmp_path: Path) -> None:
    files = ("--csv", str(tmp_path / "a.csv"), "--plot", str(tmp_path / "a.png"))
    said = regress(str(data), "smoker ~ sbp + ward", "--budget", "approx:1,1e-6", "--spend", "20%", *files)
    assert "logistic regression smoker ~ sbp + ward" in " ".join(said.split())
    assert "80 % left: about 4 more like the last" in " ".join(said.split())
    with (tmp_path / "a.csv").open(encoding="utf-8") as file:
        assert [row["term"] for row in csv.DictReader(file)] == ["Intercept", "sbp", "ward[T.B]"]
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_json_holds_the_table_and_the_release(data: Path) -> None:
    options = ("--family", "linear", "--where", "smoker", "--spend", "0.2", "--json")
    told = json.loads(regress(str(data), "sbp ~ ward", "--budget", "approx:1,1e-6", *options))
    assert told["question"] == "linear regression sbp ~ ward where smoker"
    assert [row["term"] for row in told["table"]] == ["Intercept", "ward[T.B]"]
    assert told["release"]["mechanism"]["mechanism"] == "adaptive looks"


def test_what_makes_no_sense_is_refused(data: Path) -> None:
    for wrong in ("smoker ~ scale(sbp)", "smoker", "weight ~ sbp", "smoker ~ "):
        with pytest.raises(InvalidValue):
            regress(str(data), wrong, "--budget", "approx:1,1e-6")
    assert not data.with_suffix(".ledger").exists()
