"""`sottovoce know` and `sottovoce synthesize`: free from what was released, charged once where they learn first."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from sottovoce.faces.cli import application
from sottovoce.privacy.errors import InvalidValue


def run(*words: object) -> str:
    said = [str(word) for word in words]
    return CliRunner().invoke(application(said[0]), said, catch_exceptions=False).stdout


@pytest.fixture
def counted(data: Path) -> Path:
    run("ask", data, "share of smoker by ward", "--budget", "approx:2,1e-6", "--spend", "20%", "--json")
    return data


def entries(data: Path) -> int:
    return len(json.loads(run("ledger", "show", data.with_suffix(".ledger"), "--json"))["entries"])


def test_a_share_is_known_for_nothing(counted: Path) -> None:
    before = entries(counted)
    said = json.loads(run("know", counted, "share of smoker", "--level", "80%", "--json"))
    assert said["level"] == 0.8
    assert said["rows"][0]["low"] < 0.3 < said["rows"][0]["high"]
    assert "nothing was spent" in run("know", counted, "share of smoker by ward")
    assert entries(counted) == before


def test_tables_are_written_each_with_its_receipt(counted: Path, tmp_path: Path) -> None:
    before = entries(counted)
    said = run("synthesize", counted, "--out", tmp_path / "shared", "--sets", 2, "--size", 50)
    assert "2 tables and report.html in" in said and "nothing was spent" in said
    assert "What they are not for" in (tmp_path / "shared" / "report.html").read_text(encoding="utf-8")
    table = pq.read_table(tmp_path / "shared" / "synthetic-1.parquet")
    assert table.num_rows == 50 and json.loads(table.schema.metadata[b"sottovoce"])["synthetic"] is True
    run("synthesize", counted, "--out", tmp_path / "csv", "--sets", 2, "--size", 50, "--csv", "--columns", "ward")
    assert (tmp_path / "csv" / "synthetic-2.csv").read_text().startswith("ward\n")
    assert entries(counted) == before


def test_learning_first_is_charged_once_under_its_key(counted: Path, tmp_path: Path) -> None:
    asked = ("synthesize", counted, "--sets", 2, "--size", 40, "--spend", "20%", "--columns", "ward, smoker")
    asked += ("--idempotency-key", "shared", "--json")
    first = json.loads(run(*asked, "--out", tmp_path / "a"))
    before = entries(counted)
    again = json.loads(run(*asked, "--out", tmp_path / "b"))
    assert entries(counted) == before and first["entry"] == again["entry"]
    assert first["share"] == pytest.approx(0.2, rel=0.01)
    tables = [pq.read_table(tmp_path / place / "synthetic-1.parquet").to_pydict() for place in "ab"]
    assert tables[0] == tables[1]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--columns", "ward, smokr"), "there is no column 'smokr'"),
        (("--sets", "1"), "sets"),
        (("--spend", "most"), "most"),
    ],
)
def test_what_is_wrong_is_said_and_costs_nothing(
    counted: Path, tmp_path: Path, words: tuple[str, ...], why: str
) -> None:
    before = entries(counted)
    with pytest.raises(InvalidValue, match=why):
        run("synthesize", counted, "--out", tmp_path / "x", *words)
    assert entries(counted) == before


def test_a_folder_that_has_tables_is_left_alone(counted: Path, tmp_path: Path) -> None:
    before = entries(counted)
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "synthetic-1.parquet").write_text("kept")
    with pytest.raises(InvalidValue, match="name another folder"):
        run("synthesize", counted, "--out", tmp_path / "x", "--spend", "10%")
    assert entries(counted) == before
