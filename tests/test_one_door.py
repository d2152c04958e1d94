"""Every kind of model goes through the one door: charged, killed, retried, verified, shown, audited, asked by HTTP."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sottovoce
from sottovoce.faces.server.config import Config, read_config
from sottovoce.mechanisms import Mechanism, Release
from sottovoce.mechanisms.conjugate.named_systems import SYSTEMS
from sottovoce.mechanisms.mechanism_choice import build_mechanism
from sottovoce.privacy.promises import RenyiDP, parse_promise
from sottovoce.records.facts import read_facts
from sottovoce.service.curator import Curator
from sottovoce.service.ledger import EntryPending, Ledger
from support.nursery import born
from support.offices import bearer, served, token_for
from tests.cli.test_cli import run

N, TARGET, BUDGET = 60, "renyi:8,5", RenyiDP(8.0, 100.0)
FACTS = """
[ward]
kind = "category"
categories = ["N", "S"]
[month]
kind = "category"
categories = [1, 2, 3]
[ill]
kind = "flag"
[kind]
kind = "category"
categories = ["a", "b", "c"]
[age]
kind = "number"
low = 0
high = 100
"""
REGRESSION = {"kind": "regression", "features": ["age", "kind"], "label": "ill", "family": "logistic"}
HMM = {"kind": "hidden Markov model", "chains": "ward", "steps": ["month"], "fields": ["kind"], "states": 2}
# Nothing is hidden in the data: with priors that say nothing either, chains would look for it to the last sweep.
HMM |= {"emission_prior": 100, "transition_prior": 100}
NETWORK = {"kind": "Bayesian network", "fields": ["ward", "ill", "kind"], "parents": {"kind": ["ward", "ill"]}}
MODELS: dict[str, tuple[dict[str, Any], str]] = {
    "logistic regression, of sums": (REGRESSION, "noisy-moments"),
    "logistic regression, of rows": (REGRESSION, "refined"),
    "SGD": (REGRESSION, "sgd"),
    "naive Bayes": ({"kind": "naive bayes", "label": "ill", "features": ["kind", "age"]}, "gaussian"),
    "hidden Markov model": (HMM, "gaussian"),
    "network": (NETWORK, "gaussian"),
    "random field": ({"kind": "Markov random field", "cliques": [["ward", "ill"], ["ill", "kind"]]}, "gaussian"),
}
ELSEWHERE = ("logistic regression, of sums", "naive Bayes", "network")
"""Asked of a second engine, one a reading: rows of the others come here, or they count tables as a network does."""


def asked_of(source: str) -> dict[str, tuple[dict[str, Any], str]]:
    return {name: model for name, model in MODELS.items() if name in ELSEWHERE or "://" not in source}


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("facts") / "facts.toml"
    path.write_text(FACTS, encoding="utf-8")
    return path


@functools.cache
def mechanism_of(name: str, facts: Path) -> Mechanism:
    settings, short = MODELS[name]
    system = SYSTEMS[settings["kind"]].from_facts(settings, read_facts(facts))
    return build_mechanism(short, system, N, parse_promise(TARGET))


@pytest.fixture(scope="module", params=["duckdb", "postgres"])
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same records in a file that DuckDB reads, and on a PostgreSQL server."""
    rng = np.random.default_rng(5)
    ill = rng.random(N) < 0.4
    columns = {
        "ward": rng.choice(["N", "S"], N).tolist(),
        "month": rng.integers(1, 4, N).tolist(),
        "ill": ill.tolist(),
        "kind": np.where(rng.random(N) < 0.3 + 0.4 * ill, "a", rng.choice(["b", "c"], N)).tolist(),
        "age": (40 + 15 * ill + rng.normal(0, 8, N)).tolist(),
    }
    if request.param == "duckdb":
        path = tmp_path_factory.mktemp("door") / "patients.parquet"
        pq.write_table(pa.table(columns), path)
        return str(path)
    server = request.getfixturevalue("postgres_server")
    import psycopg

    url = server.url(server.create_database(), scheme="postgresql")
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE patients (ward text, month int, ill boolean, kind text, age double precision)")
        with cursor.copy("COPY patients FROM STDIN") as copy:
            for row in zip(*columns.values(), strict=True):
                copy.write_row(row)
    return f"{url}?table=patients"


DIE = """
import json, os, signal, sys
from sottovoce.service.curator import Curator
from sottovoce.service.ledger import Ledger
from sottovoce.mechanisms.mechanism import Mechanism

asked = zip(*[iter(sys.argv[1:])] * 3)

def ask_the_next(*args, **options):  # with every earlier answer in hand, and none of them recorded
    for data, place, state in asked:
        with Curator(data, place) as curator:
            curator.release(Mechanism.from_dict(json.loads(state)), idempotency_key="q")
    os.kill(os.getpid(), signal.SIGKILL)

Ledger.commit = ask_the_next
ask_the_next()
"""
READ = """
import json, sys
from sottovoce.service.ledger import Ledger
from sottovoce.mechanisms import Mechanism, Release
told = []
with Ledger(sys.argv[1]) as ledger:
    for entry in ledger.entries():
        release = Release.from_json(entry.release)
        told.append([release.to_dict(), entry.profile.to_dict(), Mechanism.from_dict(release.mechanism).to_dict()])
print(json.dumps(told))
"""


def elsewhere(code: str, *arguments: str) -> str:
    """Run a program in a process that has imported nothing."""
    environment = os.environ | {"PYTHONPATH": str(Path(sottovoce.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_process_killed_with_its_answers_in_hand_has_spent_and_told_nothing(
    source: str, facts: Path, tmp_path: Path
) -> None:
    """One process, which has asked each and is about to record all that it was answered; one a reading."""
    asked = [
        (name, tmp_path / name) for name in asked_of(source) if name in (*ELSEWHERE, "logistic regression, of rows")
    ]
    words: list[object] = []
    for name, place in asked:
        Curator(source, place, BUDGET).close()
        words += [source, place, json.dumps(mechanism_of(name, facts).to_dict())]
    said = tmp_path / "said"
    assert born(DIE, *words, out=said).wait() == -signal.SIGKILL, said.read_text()
    for name, place in asked:
        mechanism = mechanism_of(name, facts)
        with Curator(source, place) as curator:
            (entry,) = curator.pending()
            assert entry.release is None
            assert curator.remaining().epsilon == pytest.approx(BUDGET.epsilon - mechanism.profile.renyi(8.0))
            with pytest.raises(EntryPending):
                curator.release(mechanism, idempotency_key="q")
        shown = " ".join(run("ledger", "show", place).stdout.split())
        assert "pending entries count as spent" in shown


@pytest.fixture(scope="module")
def office(source: str, facts: Path, tmp_path_factory: pytest.TempPathFactory) -> Config:
    path = tmp_path_factory.mktemp("office") / "server.toml"
    path.write_text(
        f"""
[server]
ledger = "server.ledger"
[limits]
answer_grid = 0.01
[datasets.patients]
source = "{source}"
facts = "{facts}"
budget = "renyi:8,100"
[analysts.ada]
budgets = {{ patients = "renyi:8,40" }}
""",
        encoding="utf-8",
    )
    return read_config(path)


@pytest.fixture(scope="module")
def client(office: Config) -> Iterator[httpx.Client]:
    with served(office) as client:
        yield client


@pytest.fixture(scope="module")
def told(client: httpx.Client, office: Config, source: str, facts: Path) -> list[dict[str, Any]]:
    """Ask each twice over HTTP, the second time as a retry; what was released."""
    ada = bearer(token_for(office, "ada"))
    spent, told = 0.0, []
    for name, (settings, short) in asked_of(source).items():
        body = {"system": settings, "mechanism": short, "target": TARGET}
        key = ada | {"Idempotency-Key": name.replace(" ", "-")}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*chain", UserWarning)
            first, again = (client.post("/api/v1/datasets/patients/ask", headers=key, json=body) for _ in range(2))
        assert first.status_code == 200, first.text
        assert first.json()["release"] == again.json()["release"]
        assert first.json()["entry"] == again.json()["entry"]
        made = Release.from_dict(first.json()["release"])
        assert dict(made.mechanism) == json.loads(json.dumps(mechanism_of(name, facts).to_dict()))
        assert hasattr(made.value, "sample") or np.all(np.isfinite(made.value))
        spent += first.json()["cost"]["yours"]
        told.append(first.json()["release"])
        left = client.get("/api/v1/datasets/patients/remaining", headers=ada).json()
        assert left["yours"]["remaining"]["epsilon"] == pytest.approx(40 - spent)
        assert left["whole"]["remaining"]["epsilon"] == pytest.approx(100 - spent)
    return told


def test_each_is_asked_over_http_by_a_part_of_the_budget_and_a_retry_is_free(
    told: list[dict[str, Any]], office: Config, source: str
) -> None:
    with Ledger(office.ledger) as ledger:
        entries = ledger.entries()
        ledger.verify()
        parts = {budget.dataset: Fraction(ledger.spent(budget)) for budget in ledger.budgets()}
    assert len(entries) == len(told)
    assert parts["patients"] == parts["patients/ada"]
    assert "sound" in run("ledger", "verify", office.ledger).stdout
    shown = " ".join(run("ledger", "show", office.ledger).stdout.split())
    for word in (
        "noisy moments",
        "noisy statistics",
        "naive",
        "network",
        *([] if "://" in source else ["Markov", "SGD"]),
    ):
        assert all(part in shown for part in word.split())  # a cell of the table may break between words


@pytest.mark.parametrize("source", ["duckdb"], indirect=True)  # the other ledger is a file too, of fewer kinds
def test_a_process_that_has_imported_nothing_reads_what_was_told(told: list[dict[str, Any]], office: Config) -> None:
    with Ledger(office.ledger) as ledger:
        entries = ledger.entries()
    for (release, profile, mechanism), entry, answer in zip(
        json.loads(elsewhere(READ, str(office.ledger))), entries, told, strict=True
    ):
        assert release == answer
        assert profile == entry.profile.to_dict()
        assert mechanism == answer["mechanism"]


@pytest.mark.parametrize("name", [name for name in MODELS if name != "logistic regression, of rows"])  # audited slowly
def test_each_is_planned_and_audited_on_the_command_line(name: str, facts: Path, tmp_path: Path) -> None:
    settings, short = MODELS[name]
    spec = tmp_path / "asked.toml"
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items() if key != "parents"]
    lines += ["parents = { kind = ['ward', 'ill'] }"] if "parents" in settings else []
    spec.write_text(
        f'n = {N}\ntarget = "{TARGET}"\nmechanism = "{short}"\nfacts = "{facts}"\n[system]\n' + "\n".join(lines),
        encoding="utf-8",
    )
    planned = json.loads(run("plan", "--spec", spec, "--mechanism", short, "--json").stdout)
    assert planned["choices"][0]["mechanism"] == json.loads(json.dumps(mechanism_of(name, facts).to_dict()))
    audited = run("audit", "--spec", spec, "--draws", "1000", "--json")
    assert audited.returncode == 0, audited.stderr
    report = json.loads(audited.stdout)
    assert report["verdict"] == "holds"
    assert report["epsilon"]["claimed"] >= report["epsilon"]["lower"]
