"""`sottovoce regress`: a formula, a table in the terminal."""

import csv
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sottovoce.faces.cli import application
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
    options = ("--family", "linear", "--where", "smoker", "--spend", "0.2", "--misses", "0", "--json")
    told = json.loads(regress(str(data), "sbp ~ ward", "--budget", "approx:1,1e-6", *options))
    assert told["question"] == "linear regression sbp ~ ward where smoker, misses=0"
    assert [row["term"] for row in told["table"]] == ["Intercept", "ward[T.B]"]
    mechanism = told["release"]["mechanism"]
    assert mechanism["mechanism"] == "adaptive looks" and mechanism["system"]["misses"] == 0


def test_what_makes_no_sense_is_refused(data: Path) -> None:
    for wrong in ("smoker ~ scale(sbp)", "smoker", "weight ~ sbp", "smoker ~ "):
        with pytest.raises(InvalidValue):
            regress(str(data), wrong, "--budget", "approx:1,1e-6")
    assert not data.with_suffix(".ledger").exists()


def test_what_is_expected_of_a_row_is_told_with_its_interval(data: Path) -> None:
    asked = (str(data), "smoker ~ sbp + ward", "--budget", "approx:1,1e-6", "--spend", "20%")
    rows = ("--predict", "sbp=140, ward=A", "--predict", "ward=B,sbp=300")
    said = " ".join(regress(*asked, *rows).split())
    assert re.search(r"sbp=140, ward=A: expected smoker 0\.\d+ \(95 % interval 0\.\d+ to 0\.\d+\)", said)
    assert re.search(r"ward=B,sbp=300: expected smoker .*; with sbp at 250", said)
    (told,) = json.loads(regress(*asked, *rows[:2], "--json"))["predicted"]
    (one,) = told["expected"]
    assert told["row"] == "sbp=140, ward=A" and 0 < one["low"] < one["estimate"] < one["high"] < 1
    known = data.with_suffix(".facts.toml")
    known.write_text(known.read_text().replace('"B"]', '"B", "C"]'))
    assert "any row: expected smoker" in regress(str(data), "smoker ~ 1", "--spend", "10%", "--predict", "")
    several = regress(str(data), "ward ~ sbp", "--spend", "20%", "--predict", "sbp=140")
    assert all(f"ward {ward} 0." in " ".join(several.split()) for ward in "ABC")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("sbp=140", "say each of sbp, ward"),
        ("sbp=140, ward=Z", "one of A, B"),
        ("sbp=much, ward=A", "'sbp' is a number"),
        ("sbp=nan, ward=A", "'sbp' is a number"),
        ("sbp=1, sbp=2, ward=A", "twice"),
        ("weight=3, sbp=1, ward=A", "reads like"),
        ("sbp=1, weight=3, ward=A", "the formula has no column 'weight'; say each of sbp, ward"),
        ("", "say each of"),
    ],
)
def test_a_row_that_makes_no_sense_costs_nothing(data: Path, row: str, said: str) -> None:
    with pytest.raises(InvalidValue, match=said):
        regress(str(data), "smoker ~ sbp + ward", "--budget", "approx:1,1e-6", "--predict", row)
    assert not data.with_suffix(".ledger").exists()
