"""Persons at the command line and behind a server: who is protected is said, and answers are about persons."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from sottovoce.faces.cli import application
from sottovoce.faces.server.config import read_config
from sottovoce.faces.server.datasets import Dataset
from sottovoce.privacy.errors import InvalidValue
from sottovoce.service.ledger import Ledger
from support.offices import bearer, served, token_for
from support.visitors import Visitor

FACTS = """
[sbp]
kind = "number"
low = 60
high = 250
[smoker]
kind = "flag"
[patient]
kind = "person"
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    patient = np.repeat(np.arange(300), rng.integers(1, 9, 300))
    path = tmp_path / "visits.parquet"
    rows = {"patient": patient, "sbp": rng.normal(131, 18, patient.size), "smoker": rng.random(patient.size) < 0.4}
    pq.write_table(pa.table(rows), path)
    path.with_suffix(".facts.toml").write_text(FACTS, encoding="utf-8")
    return path


def run(command: str, *arguments: str) -> str:
    return CliRunner().invoke(application(command), [command, *arguments], catch_exceptions=False).stdout


def test_ask_and_regress_say_who_is_protected(data):
    said = run("ask", str(data), "mean of sbp", "--budget", "approx:4,1e-6")
    assert "Protected is a person, with all rows of theirs." in " ".join(said.split())
    assert "each person counts once, by the average of their rows; rows without a " in " ".join(said.split())
    found = json.loads(run("regress", str(data), "smoker ~ sbp", "--json"))
    assert found["protects"] == "Protected is a person, with all rows of theirs"
    with pytest.raises(InvalidValue, match="opened for persons"):
        run("ask", str(data), "mean of sbp", "--protect", "rows")
    rows = ["--protect", "rows", "--ledger", str(data.with_suffix(".rows")), "--budget", "approx:4,1e-6"]
    told = " ".join(run("ask", str(data), "mean of sbp", *rows).split())
    assert told.count("rotected is a row, not a person") == 1 and "Protected is a person" not in told


CONFIG = """
[server]
ledger = "sqlite:///server.ledger"
[datasets.visits]
source = "visits.parquet"
budget = "approx:4,1e-6"
facts = "visits.facts.toml"
{more}
"""


def opened(data: Path, more: str) -> Dataset:
    place = data.parent / "server.toml"
    place.write_text(CONFIG.format(more=more), encoding="utf-8")
    config = read_config(place)
    (dataset,) = config.datasets.values()
    return Dataset(dataset, Ledger(str(data.parent / f"{len(more)}.ledger"), create=True), [])


@pytest.mark.parametrize(("more", "unit", "n"), [("", "person", 300), ('protect = "rows"', "record", None)])
def test_a_server_says_person_or_row(data, more, unit, n):
    dataset = opened(data, more)
    facts = dataset.facts()
    assert facts["unit"] == unit
    assert facts["n"] == (pq.read_table(data).num_rows if n is None else n)
    assert facts["rows_of_persons"] == bool(more)
    answer = dataset.curator.proportion("smoker", spend=0.2)
    assert answer.release.profile.relation.unit == unit
    again = dataset.curator.proportion("smoker", spend=0.2)  # what was read once is known
    assert again.entry > answer.entry
    dataset.close()


def test_a_server_says_what_a_person_counts_as(data):
    place = data.parent / "server.toml"
    place.write_text(CONFIG.format(more='[analysts.ada]\nbudgets = { visits = "50%" }'), encoding="utf-8")
    config = read_config(place)
    with served(config) as client:
        token = token_for(config)
        told = [
            client.post("/api/v1/datasets/visits/answers", headers=bearer(token), json=asked | {"spend": 0.1}).json()
            for asked in (
                {"verb": "mean", "column": "sbp", "by": "smoker"},
                {"verb": "regress", "formula": "smoker ~ sbp"},
            )
        ]
        assert "the group that most of these are in" in told[0]["whose"] and "all rows of theirs" in told[1]["whose"]
        visitor = Visitor(client)
        visitor.log_in(token)
        assert "Each person counts once, by the average" in client.get(f"/data/visits?answer={told[0]['entry']}").text


def test_a_server_refuses_another_word(data):
    with pytest.raises(InvalidValue, match="protect"):
        opened(data, 'protect = "everyone"')


def test_a_ledger_is_opened_for_whom_the_facts_protect(data, tmp_path):
    rows, place = data.with_suffix(".csv"), tmp_path / "opened.ledger"
    pq.read_table(data).to_pandas().to_csv(rows, index=False)
    run("ledger", "open", str(place), "--data", str(rows), "--budget", "approx:4,1e-6")
    said = " ".join(run("ask", str(rows), "mean of sbp", "--ledger", str(place)).split())
    assert "95 % left" in said and "Protected is a person" in said


@pytest.mark.parametrize("spent", [["--target", "approx:1,1e-6"], ["--spend", "20%"]])
def test_a_release_says_who_is_protected(data, spent):
    facts, ledger = str(data.with_suffix(".facts.toml")), str(data.with_suffix(".ledger"))
    told = ["--column", "smoker", "--system", "beta-bernoulli:alpha=1,beta=1", "--facts", facts, "--ledger", ledger]
    said = " ".join(run("release", str(data), *told, *spent, "--budget", "approx:4,1e-6").split())
    assert "Protected is a person, with all rows of theirs" in said
    later = run("release", str(data), *told, "--spend", "5%", "--mechanism", "diffused", "--json")
    assert json.loads(later)["protects"].startswith("Protected is a person")


@pytest.mark.parametrize("question", ["mean of sbp", "smoker ~ sbp"])
def test_a_plan_is_about_persons_where_answers_are(data, question):
    told = ["--n", "300", "--facts", str(data.with_suffix(".facts.toml")), "--budget", "approx:4,1e-6"]
    assert "300 persons" in " ".join(run("plan", question, *told).split())
    assert "300 records" in " ".join(run("plan", question, *told, "--protect", "rows").split())


@pytest.mark.parametrize(("n", "said"), [("0", "0 persons"), ("1", "1 person,")])
def test_a_plan_is_made_however_few_persons_there_are(data, n, said):
    facts = str(data.with_suffix(".facts.toml"))
    told = run("plan", "mean of sbp", "--n", n, "--facts", facts, "--budget", "approx:4,1e-6")
    assert said in " ".join(told.split())


def test_a_balance_is_about_persons_where_answers_are(data):
    told = ["--n", "300", "--facts", str(data.with_suffix(".facts.toml")), "--budget", "approx:4,1e-6"]
    assert "300 persons" in " ".join(run("balance", "mean of sbp", *told).split())
    assert "300 records" in " ".join(run("balance", "mean of sbp", *told, "--protect", "rows").split())
