"""A derived column is asked about at every door as any other is, declared or not."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import sottovoce as sv
from sottovoce.faces.agents.tools import AgentAccess
from sottovoce.faces.cli import application
from sottovoce.faces.client import Client, NotFound
from sottovoce.faces.server.config import read_config
from sottovoce.privacy.errors import InvalidValue
from support.offices import patients, served, token_for, write_office

STAYS = 4000
COLUMNS: dict[str, Any] = {
    "cost": sv.Number(1, 200),
    "came": sv.Day("2024-01-01", "2024-12-31"),
    "left": sv.Day("2024-01-01", "2025-12-31"),
    "ward": sv.Category(["A", "B", "C"]),
    "died": sv.Flag(),
    "nights": sv.Derived("clip(left - came, 0, 30)"),
}


def stays() -> pa.Table:
    rng = np.random.default_rng(5)
    came = [datetime.date(2024, 1, 1) + datetime.timedelta(days=int(day)) for day in rng.integers(0, 366, STAYS)]
    gone = [day + datetime.timedelta(days=int(nights)) for day, nights in zip(came, rng.poisson(5, STAYS), strict=True)]
    return pa.table(
        {
            "cost": np.clip(rng.lognormal(2, 1, STAYS), 1, 200),
            "came": came,
            "left": gone,
            "ward": rng.choice(["A", "B", "C"], STAYS),
            "died": rng.random(STAYS) < 0.1,
            "who": [f"p{person}" for person in rng.integers(0, 1500, STAYS)],
        }
    )


TABLE = stays()


def test_every_verb_takes_derived_columns_and_tells_them_again(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "stays.parquet")
    facts = sv.Facts(COLUMNS)
    with sv.Curator(tmp_path / "stays.parquet", tmp_path / "ledger", "approx:50,1e-6", facts=facts) as curator:
        logs = np.log(TABLE["cost"].to_numpy())
        march = np.array([day.month == 3 for day in TABLE["came"].to_pylist()])
        mean = curator.mean("log(cost)", where="month(came) = 3")
        assert mean.rows[0]["low"] - 0.05 <= logs[march].mean() <= mean.rows[0]["high"] + 0.05
        assert [row["quarter(came)"] for row in curator.mean("nights", by="quarter(came)").rows] == [1, 2, 3, 4]
        assert len(curator.proportion("died", by=["recode(ward, 'A' = 'x', 'y')", "bands(cost, 10)"]).rows) == 4
        assert len(curator.counts("weekday(came)").rows) == 7
        assert len(curator.ask("median of sqrt(cost) by nights: under 5, 5+").rows) == 2
        assert curator.survival("nights", event="died", cuts=[2, 5, 10]).rows
        fit = curator.regress("log(cost) ~ nights + (1 | quarter(came))", where="I(left - came) <= 20")
        assert list(fit.table["term"])[:2] == ["Intercept", "nights"]
        earlier = curator.mean("log(cost)", where="month(came) = 3", again=True)
        assert (
            earlier.entry == mean.entry
            and curator.again(fit.entry).summary().splitlines()[0] == fit.summary().splitlines()[0]
        )
        spent = len(curator.history())
        with pytest.raises(InvalidValue, match="may be 0"):
            curator.mean("cost / nights")
        assert len(curator.history()) == spent


@pytest.mark.parametrize("persons", [sv.Person(), sv.Person(rows=1)])
def test_persons_have_derived_columns_too(tmp_path: Path, persons: sv.Person) -> None:
    facts = sv.Facts(COLUMNS, who=persons)
    with sv.Curator(TABLE, tmp_path / "ledger", "approx:50,1e-6", facts=facts, dataset="stays") as curator:
        assert curator.mean("log(cost)", by="quarter(came)", where="nights > 2").rows
        assert curator.counts("weekday(came)").rows
        assert "nights" in curator.regress("log(cost) ~ nights + ward").summary()


def test_the_server_the_client_and_an_agent_know_them(tmp_path: Path) -> None:
    path = write_office(tmp_path, whole="approx:100,1e-6", each="approx:50,1e-6").path
    with path.open("a", encoding="utf-8") as file:
        file.write('[datasets.patients.columns.log_wait]\nkind = "derived"\nof = "log(1 + wait)"\ntitle = "Log wait"\n')
    config = read_config(path)
    with served(config) as server:
        client = Client(str(server.base_url), token_for(config), "patients")
        assert client.facts["log_wait"] == sv.Number(0.0, client.facts["log_wait"].bounds[1])
        assert client.facts.derivation("log_wait") == sv.Derived("log(1 + wait)")
        wait = np.array(patients()["wait"].to_pylist())
        row = client.mean("log_wait").rows[0]
        assert row["low"] - 0.1 <= np.log(1 + wait).mean() <= row["high"] + 0.1
        assert len(client.mean("square(age)", by="bands(visits, 2)", where="log(1 + wait) > 0.5").rows) == 2
        assert "sqrt(age)" in client.regress("smoker ~ sqrt(age) + log_wait").summary()
        with pytest.raises((InvalidValue, NotFound), match="secret"):
            client.mean("coalesce(secret, age)")
        with pytest.raises((InvalidValue, NotFound), match="secret"):
            client.mean("age", where="recode(secret, 'Smith-1' = 'x') = 'x'")
        told = AgentAccess(client).facts()
        assert told["columns"]["log_wait"] | {"high": 0} == {
            "kind": "number",
            "low": 0,
            "high": 0,
            "of": "log(1 + wait)",
        }


def test_the_command_line_reads_them_from_the_facts(tmp_path: Path) -> None:
    data = tmp_path / "stays.parquet"
    pq.write_table(TABLE, data)
    data.with_suffix(".facts.toml").write_text(
        '[cost]\nkind = "number"\nlow = 1\nhigh = 200\n'
        '[came]\nkind = "day"\nfirst = "2024-01-01"\nlast = "2024-12-31"\n'
        '[log_cost]\nkind = "derived"\nof = "log(cost)"\n',
        encoding="utf-8",
    )
    arguments = [
        "ask",
        str(data),
        "mean of log_cost by quarter(came) where month(came) < 9",
        "--budget",
        "approx:9,1e-6",
    ]
    told = json.loads(CliRunner().invoke(application("ask"), [*arguments, "--json"], catch_exceptions=False).stdout)
    assert told["question"] == "mean of log_cost by quarter(came) where month(came) < 9"
    assert [row["quarter(came)"] for row in told["table"]][:3] == [1, 2, 3]
    regress = ["regress", str(data), "log_cost ~ quarter(came)", "--json"]
    assert CliRunner().invoke(application("regress"), regress, catch_exceptions=False).exit_code == 0


def test_what_is_known_of_a_derived_column_is_of_its_definition_now(tmp_path: Path) -> None:
    """A column of the same name and range that is derived otherwise is another one."""
    wards = pd.DataFrame({"ward": ["A", "B"] * 500, "smoker": [False, True] * 500})
    known = []
    for pairs in ("'A' = 'x'", "'A' = 'x', 'B' = 'x'"):
        facts = sv.Facts(
            ward=sv.Category(["A", "B", "C"]), smoker=sv.Flag(), group=sv.Derived(f"recode(ward, {pairs}, 'y')")
        )
        with sv.Curator(wards, tmp_path / "ledger", sv.PureDP(100.0), facts=facts, dataset="wards") as curator:
            if known:
                with pytest.raises(InvalidValue, match="nothing that was released"):
                    curator.know("share of smoker where group = 'x'")
            curator.proportion("smoker", by="group", spend=0.3)
            known.append(curator.know("share of smoker where group = 'x'").rows[0]["estimate"])
    assert known == pytest.approx([0, 0.5], abs=0.1)
