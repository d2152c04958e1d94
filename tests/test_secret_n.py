"""A curator, a command line and a server where the number of records is a secret."""

import contextlib
import json
import logging
import os
import re
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import sottovoce as sv
from sottovoce.faces.cli import application
from sottovoce.faces.server.config import read_config
from sottovoce.privacy.errors import IncompatibleNotions, InvalidPromise, InvalidValue, LedgerCorrupt
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.pure import PureProfile
from sottovoce.service.curator import Curator
from sottovoce.service.ledger import Ledger
from support.offices import bearer, served, token_for

N = 1237
FACTS = sv.Facts(smoker=sv.Flag(), ward=sv.Category(["A", "B"]), stay=sv.Number(0, 10), visits=sv.Count(9))
BUDGET = sv.ApproxDP(1.0, 1e-6)


def records(n: int = N) -> pa.Table:
    rng = np.random.default_rng(n)
    columns = {"smoker": rng.random(n) < 0.3, "ward": rng.choice(["A", "B"], n), "stay": rng.normal(5, 1, n)}
    return pa.table(columns | {"visits": rng.poisson(2, n)})


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "patients.ledger"


def opened(place: Path, data: pa.Table | None = None, budget: sv.privacy.Promise | None = BUDGET, **options) -> Curator:
    given = {"facts": FACTS, "dataset": "patients", "n": "private", "time_grid": 1e-3} | options
    return Curator(records() if data is None else data, place, budget, **given)


def test_a_secret_n_is_counted_by_nobody(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sottovoce.records.tables.table.Table.count", lambda self: pytest.fail("n was counted"))
    with opened(place) as curator:
        assert curator.budget.n is None
        assert curator.budget.relation == sv.ADD_REMOVE
        answer = curator.proportion("smoker", by="ward")
        assert answer.release.profile.relation == sv.ADD_REMOVE
        assert curator.promise(0.1).relation == sv.ADD_REMOVE
        assert [entry.relation for entry in curator.history()] == [sv.ADD_REMOVE]
    assert str(N).encode() not in place.read_bytes()


def test_all_verbs_regressions_and_samples_answer(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with opened(place) as curator:
        shown = [
            curator.mean("stay", spend=0.2),
            curator.rate("visits"),
            curator.counts("ward"),
            curator.quantiles("stay"),
        ]
        low, high = shown[0].rows[0]["low"], shown[0].rows[0]["high"]
        assert low < 5 < high
        assert high - low < 1
        assert sum(row["estimate"] for row in shown[2].rows) == pytest.approx(N, abs=200)
        shown.append(curator.regress("smoker ~ stay + ward", spend=0.2))
        target = curator.promise(0.1)
        sample = sv.DiffusedPosterior.calibrate(sv.BetaBernoulli(6, 12), None, target)
        assert 0 < curator.release(sample, "smoker").value < 1
        said = " ".join([repr(curator), curator._repr_html_(), curator.left(), str(sv.explain(curator))])
        said += json.dumps(sv.card(curator).content, default=str) + sv.card(curator).to_html()
    assert not re.search(rf"\b{N}\b|\b{N:,}\b", said + caplog.text)
    assert "n=private" in said
    assert "is a secret" in said


def test_an_empty_table_answers_like_any_other(place: Path) -> None:
    with opened(place, records(0)) as curator:
        assert len(curator.proportion("smoker", by="ward").rows) == 2
        assert curator.mean("stay").rows[0]["low"] >= 0
        assert len(curator.regress("smoker ~ ward").rows) == 2


def test_what_needs_n_is_refused_without_telling_it(place: Path) -> None:
    with opened(place) as curator:
        asked = {
            "must know how many": lambda: sv.NoisyStatistics.calibrate(
                sv.BetaBernoulli(1, 1), None, curator.promise(0.1)
            ),
            "keeps its number of records a secret": lambda: curator.release(
                sv.DirectPosterior(sv.BetaBernoulli(6, 12), 12), "smoker"
            ),
            "how many to imagine": lambda: curator.share_for("mean of stay", 0.5),
            "curator.regress": lambda: curator.fit(sv.LogisticRegression(), ["stay"], "smoker"),
        }
        for words, ask in asked.items():
            with pytest.raises(InvalidValue, match=words) as error:
                ask()
            assert str(N) not in str(error.value)
            assert "\n" not in str(error.value)
        assert 0 < curator.share_for("mean of stay", 0.5, records=1000) < 1
        assert curator.history() == []


def test_the_number_of_records_may_change_between_two_questions(place: Path) -> None:
    with opened(place) as curator:
        curator.counts("ward")
    with opened(place, records(N + 1), None, n=None) as curator:  # as it was opened
        assert curator.budget.n is None
        curator.counts("ward")


def test_a_relation_is_fixed_with_the_budget(place: Path) -> None:
    opened(place).close()
    opened(place, budget=BUDGET.under(sv.ADD_REMOVE), n=None).close()
    with pytest.raises(InvalidValue, match="never changes"):
        opened(place, budget=sv.ApproxDP(2.0, 1e-6))
    with pytest.raises(InvalidValue, match="counted, or a secret"):
        opened(place, n="secret")
    Curator(records(), place.with_name("public"), BUDGET, facts=FACTS, dataset="patients").close()
    with pytest.raises(InvalidValue, match="was public"):
        opened(place.with_name("public"))
    with pytest.raises(InvalidValue, match="never changes"):
        opened(place.with_name("public"), budget=BUDGET.under(sv.ADD_REMOVE), n=None)


def test_two_relations_never_mix_in_one_budget(place: Path) -> None:
    with opened(place) as curator:
        for profile in (PureProfile(0.01), GaussianProfile(0.01, relation=sv.ADD_REMOVE.of_person())):
            with pytest.raises(IncompatibleNotions, match="neighbours") as error:
                curator._ledger.reserve(curator.budget, profile, {})
            assert "\n" not in str(error.value)
        with pytest.raises(IncompatibleNotions):
            curator.proportion("smoker", spend=sv.PureDP(0.1).under(sv.ADD_REMOVE.of_person()))
        part = curator.open_part("ada", 0.25)
        assert part.relation == sv.ADD_REMOVE
        assert curator.open_part("bob", sv.PureDP(0.1)).relation == sv.ADD_REMOVE
        with pytest.raises(IncompatibleNotions, match="part"):
            curator.open_part("eve", sv.PureDP(0.1).under(sv.REPLACE_ONE.of_person()))


def test_a_ledger_takes_no_n_where_it_is_a_secret(place: Path) -> None:
    with Ledger(place, create=True) as ledger:
        with pytest.raises(InvalidValue, match="secret"):
            ledger.open_budget("a", sv.PureDP(1.0).under(sv.ADD_REMOVE), n=5, schema={})
        with pytest.raises(InvalidValue, match="public"):
            ledger.open_budget("a", sv.PureDP(1.0), n=None, schema={})
        made = ledger.open_budget("a", sv.PureDP(1.0).under(sv.ADD_REMOVE), n=None, schema={})
        ledger.reserve(made, PureProfile(0.1, relation=sv.ADD_REMOVE), {})
    with Ledger(place) as ledger:
        assert ledger.budget("a").promise == sv.PureDP(1.0).under(sv.ADD_REMOVE)


def test_a_forged_relation_is_seen(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A profile that lost its relation on the way into the ledger breaks the rules when it is read."""
    with Ledger(place, create=True) as ledger:
        made = ledger.open_budget("a", sv.PureDP(1.0).under(sv.ADD_REMOVE), n=None, schema={})
        honest = PureProfile.to_dict
        lost = {name: value for name, value in honest(PureProfile(0.1)).items() if name != "relation"}
        monkeypatch.setattr(PureProfile, "to_dict", lambda self: lost)
        ledger.reserve(made, PureProfile(0.1, relation=sv.ADD_REMOVE), {})
        with pytest.raises(LedgerCorrupt, match="other neighbours"):
            ledger.verify()


# The command line.


def run(*arguments: str, code: int = 0) -> str:
    word = arguments[0]
    found = CliRunner().invoke(application(word), list(arguments))
    assert found.exit_code == code, found.output + str(found.exception)
    return found.stdout


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "patients.parquet"
    pq.write_table(records(), path)
    lines = '[smoker]\nkind = "flag"\n[ward]\nkind = "category"\ncategories = ["A", "B"]\n'
    lines += '[stay]\nkind = "number"\nlow = 0\nhigh = 10\n[visits]\nkind = "count"\nhigh = 9\n'
    path.with_suffix(".facts.toml").write_text(lines)
    return path


def test_the_commands_take_a_secret_n(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grids: list[float | None] = []

    def at_once(grid: float | None) -> contextlib.AbstractContextManager[None]:
        grids.append(grid)
        return contextlib.nullcontext()

    monkeypatch.setattr(
        "sottovoce.service.curator.release_pipeline.on_the_grid", at_once
    )  # a second each, which nobody waits for here
    said = run("ask", str(file), "mean of stay", "--budget", "approx:1,1e-6", "--n", "private", "--json")
    assert json.loads(said)["left"].startswith("95 %")
    ledger = str(file.with_suffix(".ledger"))
    said += run("ask", str(file), "proportion of smoker by ward")
    said += run("regress", str(file), "smoker ~ stay")
    system = ("--column", "smoker", "--system", "beta-bernoulli:alpha=90,beta=90", "--spend", "5%")
    said += run("release", str(file), *system, "--ledger", ledger)
    said += run("ledger", "show", ledger) + run("explain", ledger)
    other = str(tmp_path / "other.ledger")
    said += run("ledger", "open", other, "--data", str(file), "--budget", "pure:1 add-remove")
    assert not re.search(rf"\b{N}\b|\b{N:,}\b", said)
    assert grids == [1.0] * 4
    assert "n a secret" in said
    assert "not been in the data at all" in " ".join(said.split())
    run("ask", str(file), "mean of stay", "--n", "public", code=1)


def test_a_budget_in_words_says_its_relation() -> None:
    said = " ".join(run("explain", "approx:1,1e-6 add-remove of a person").split())
    assert "Had nothing of theirs been in the data at all" in said
    assert "how many persons there are" not in said
    assert "how many records there are" in " ".join(run("explain", "approx:1,1e-6").split())
    told = json.loads(
        run(
            *("plan", "proportion of smoker", "--n", "1000", "--budget", "approx:1,1e-6 add-remove", "--json"),
            *("--facts", str(_facts_file())),
        )
    )
    assert told["budget"] == "approx:1,1e-06 add-remove"


def _facts_file() -> Path:
    import tempfile

    path = Path(tempfile.mkdtemp()) / "facts.toml"
    path.write_text('[smoker]\nkind = "flag"\n')
    return path


# The server.

OFFICE = """
[limits]
answer_grid = 0.005
[datasets.patients]
source = "patients.parquet"
budget = "renyi:4,2"
n = "private"
[datasets.patients.columns.smoker]
kind = "flag"
[datasets.patients.columns.stay]
kind = "number"
low = 0
high = 10
[analysts.ada]
budgets = { patients = "50%" }
"""


def test_a_server_keeps_n_to_itself(file: Path) -> None:
    place = file.with_name("server.toml")
    place.write_text(OFFICE)
    config = read_config(place)
    assert config.datasets["patients"].budget.relation == sv.ADD_REMOVE
    with served(config) as client:
        ada = bearer(token_for(config, "ada"))
        texts = []

        def told(answer: httpx.Response) -> dict:
            assert answer.status_code == 200, answer.text
            texts.append(answer.text)
            return answer.json()

        facts = told(client.get("/api/v1/datasets/patients", headers=ada))
        assert facts["n"] is None
        assert facts["budget"]["relation"] == "add-remove"
        question = {"system": {"kind": "beta-bernoulli", "alpha": 90, "beta": 90}, "target": "renyi:4,0.2"}
        question |= {"column": "smoker"}
        plan = told(client.post("/api/v1/datasets/patients/plan", headers=ada, json=question))
        assert {choice["name"] for choice in plan["choices"] if "mechanism" in choice} >= {"diffused"}
        answer = told(
            client.post("/api/v1/datasets/patients/ask", headers=ada, json=question | {"mechanism": "diffused"})
        )
        assert json.loads(answer["receipt"]["signed"])["n"] is None
        assert json.loads(answer["receipt"]["signed"])["profile"]["relation"] == "add-remove"
    assert not re.search(rf"\b{N}\b|\b{N:,}\b", " ".join(texts))


def test_a_server_s_file_says_private_or_nothing(file: Path) -> None:
    place = file.with_name("server.toml")
    place.write_text(OFFICE.replace('"private"', "1237"))
    with pytest.raises(InvalidValue, match="private"):
        read_config(place)
    place.write_text(OFFICE.replace("renyi:4,2", "renyi:4,2 add-or-remove"))
    with pytest.raises((InvalidValue, InvalidPromise), match="relation"):
        read_config(place)


@pytest.mark.parametrize("said", [{"n": "private"}, {}])
def test_the_ledger_does_not_tell_the_size_of_a_file(tmp_path: Path, place: Path, said: dict[str, str]) -> None:
    """Its salt is beside its hash: who tries one size after the other would find it, and with it what a flag says."""
    prints, file = {}, tmp_path / "patients.csv"
    for word in ("true", "false"):
        file.write_text(f"smoker\n{word}\n" + "true\n" * 20)
        os.utime(file, (1e9, 1e9))
        facts = sv.Facts(smoker=sv.Flag())
        with Curator(file, place.with_suffix(f".{word}"), BUDGET, facts=facts, **said) as curator:
            prints[file.stat().st_size] = curator._source.print("salt", curator._source.state())
    assert len(prints) == 2 and len({*prints.values()}) == 1
