"""Synthetic tables over HTTP: learnt once under a key, drawn of what was released to the caller, and free."""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import httpx
import pandas as pd
import pyarrow.parquet as pq
import pytest

from sottovoce.faces.client import Client
from sottovoce.faces.server import sharing
from sottovoce.faces.server.config import Config
from sottovoce.inference.synthesis.marginal_choice import MarginalChoice
from sottovoce.privacy.errors import InvalidValue
from sottovoce.service.ledger import Ledger
from support.offices import bearer, served, token_for, write_office
from support.visitors import Visitor

HERE = "/api/v1/datasets/patients"
COUNTED: dict[str, Any] = {"verb": "counts", "columns": ["ward", "smoker"], "spend": 0.2}


@pytest.fixture
def office(tmp_path: Path) -> Config:
    return write_office(tmp_path, whole="approx:4,1e-6", each="approx:2,1e-6")


def counted(client: httpx.Client, who: dict[str, str], **other: Any) -> int:
    reply = client.post(f"{HERE}/answers", headers=who, json=COUNTED | other)
    assert reply.status_code == 200, reply.text
    return int(reply.json()["entry"])


def spent(client: httpx.Client, who: dict[str, str]) -> float:
    return float(client.get(f"{HERE}/remaining", headers=who).json()["yours"]["spent"])


def learn(client: httpx.Client, who: dict[str, str], key: str, **other: Any) -> httpx.Response:
    body = {"columns": ["ward", "smoker", "visits"], "spend": 0.3, "bins": 3} | other
    return client.post(f"{HERE}/synthesis", headers=who | {"Idempotency-Key": key}, json=body)


def test_what_was_released_is_known_and_drawn_for_nothing(office: Config) -> None:
    with served(office) as client:
        who = bearer(token_for(office, "ada"))
        entry = counted(client, who)
        before = spent(client, who)
        known = client.get(f"{HERE}/known", headers=who, params={"question": "share of smoker by ward"}).json()
        assert [row["ward"] for row in known["rows"]] == ["N", "S", "E"] and known["entries"] == [entry]
        said = client.get(f"{HERE}/synthesis", headers=who, params={"sets": 2, "size": 30}).json()
        assert said["synthetic"] is True and said["rows"] == 30 and said["kept"] == [["ward", "smoker"]]
        for kind, read in (("parquet", pq.read_table), ("csv", pd.read_csv)):
            where = {"sets": 2, "size": 30, "format": kind}
            reply = client.get(f"{HERE}/synthesis/tables", headers=who, params=where)
            assert reply.headers["content-type"] == "application/zip"
            with zipfile.ZipFile(io.BytesIO(reply.content)) as file:
                names = [f"synthetic-{number}.{kind}" for number in (1, 2)]
                assert set(file.namelist()) == {*names, "report.html", *(["synthetic.json"] if kind == "csv" else [])}
                assert len(read(io.BytesIO(file.read(names[1])))) == 30
        assert spent(client, who) == before


def test_relations_are_learnt_once_under_a_key_and_a_retry_draws_the_same(office: Config) -> None:
    with served(office) as client:
        token = token_for(office, "ada")
        who = bearer(token)
        first = learn(client, who, "monday")
        assert first.status_code == 200 and ["ward"] in first.json()["relations"]
        paid = spent(client, who)
        assert paid == pytest.approx(0.3, rel=0.01) == first.json()["share"]
        asking = Client(str(client.base_url), token, "patients")
        asked: dict[str, Any] = {"spend": 0.3, "bins": 3, "sets": 2, "idempotency_key": "monday"}
        drawn = asking.synthesize(["ward", "smoker", "visits"], **asked)
        counted(client, who)  # what is released later is no part of a retry's tables
        again = asking.synthesize(["ward", "smoker", "visits"], **asked)
        assert drawn.entry == again.entry == first.json()["entry"]
        assert drawn.tables[1].equals(again.tables[1])
        assert spent(client, who) == pytest.approx(paid + 0.2, rel=0.01)
        params = {"sets": 2, "entry": drawn.entry, "columns": ["ward", "smoker", "visits"]}
        reply = client.get(f"{HERE}/synthesis/tables", headers=who, params=params)
        with zipfile.ZipFile(io.BytesIO(reply.content)) as file:
            table = pq.read_table(io.BytesIO(file.read("synthetic-1.parquet")))
        assert table.to_pandas()["ward"].fillna("?").tolist() == drawn.tables[0]["ward"].fillna("?").tolist()
        assert json.loads(table.schema.metadata[b"sottovoce"])["releases"] == drawn.posterior.digest


def test_long_work_is_told_to_be_under_way_and_is_charged_once(office: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = asyncio.Event()
    monkeypatch.setattr(sharing, "PATIENCE", 0.01)

    ask = sharing.Sharing.__init__

    def opened(self: Any, service: Any) -> None:
        ask(self, service)
        asked = service.ask

        async def waits(*given: Any) -> Any:
            said = await asked(*given)
            await slow.wait()
            return said

        service.ask = waits

    monkeypatch.setattr(sharing.Sharing, "__init__", opened)
    with served(office) as client:
        who = bearer(token_for(office, "ada"))
        first = learn(client, who, "night")
        assert first.status_code == 202 and first.json() == {"state": "under way", "key": "night"}
        assert first.headers["retry-after"]
        assert learn(client, who, "night").status_code == 202
        slow.set()
        while (reply := learn(client, who, "night")).status_code == 202:
            pass
        assert reply.json()["state"] == "learnt"
        assert spent(client, who) == pytest.approx(0.3, rel=0.01)


def test_killed_before_the_commit_it_is_spent_and_nothing_is_told(
    office: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(office) as client:
        who = bearer(token_for(office, "ada"))
        with monkeypatch.context() as patch:
            patch.setattr(MarginalChoice, "_value", lambda *_: (_ for _ in ()).throw(RuntimeError("it died")))
            lost = learn(client, who, "dead")
        assert lost.status_code == 500 and "after it was charged" in lost.json()["detail"]
        assert spent(client, who) == pytest.approx(0.3, rel=0.01)
        assert client.get(f"{HERE}/released", headers=who).status_code == 422
    with Ledger(office.ledger) as ledger:
        assert [entry.release for entry in ledger.entries()] == [None]


def test_what_others_paid_for_is_not_told(office: Config) -> None:
    with served(office) as client:
        ada, bob = (bearer(token_for(office, name)) for name in ("ada", "bob"))
        counted(client, ada)
        mine = counted(client, bob, columns=["ward"])
        said = client.get(f"{HERE}/released", headers=bob).json()
        assert said["entries"] == [mine]
        reply = client.get(f"{HERE}/known", headers=bob, params={"question": "share of smoker by ward"})
        assert reply.status_code == 422 and "nothing that was released keeps" in reply.json()["detail"]
        assert learn(client, bob, "k").status_code == 200
        assert client.get(f"{HERE}/released", headers=ada).json()["entries"] != said["entries"]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"columns": ["ward", "secret"]}, "secret"),
        ({"columns": ["ward"]}, "at least 2"),
        ({"columns": ["ward", "ward"]}, "columns"),
        ({"spend": "most"}, "share"),
        ({"bins": 1}, "bins"),
        ({"draws": 3}, "draws"),
        ({"spend": "pure:0.1"}, ""),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_line_and_costs_nothing(
    office: Config, body: dict[str, Any], why: str
) -> None:
    with served(office) as client:
        who = bearer(token_for(office, "ada"))
        reply = learn(client, who, "k", **body)
        assert reply.status_code == 422 and why in reply.json()["detail"], reply.text
        assert spent(client, who) == 0


def test_questions_that_are_misspelt_are_refused(office: Config) -> None:
    with served(office) as client:
        who = bearer(token_for(office, "ada"))
        assert client.get(f"{HERE}/synthesis", headers=who).status_code == 422  # nothing was released yet
        counted(client, who)
        for path, params in (
            ("synthesis", {"seats": 3}),
            ("synthesis", {"sets": 1}),
            ("synthesis/tables", {"columns": "wards"}),
            ("synthesis/tables", {"sets": 200, "size": 10_000_000}),
            ("known", {"question": "share of smoker by moon"}),
            ("known", {"question": "share of smoker", "seats": 3}),
        ):
            reply = client.get(f"{HERE}/{path}", headers=who, params=params)
            assert reply.status_code == 422, reply.text
        read = bearer(token_for(office, "ada", "read"))
        assert learn(client, read, "k").status_code == 403


def test_a_client_knows_what_a_curator_knows(office: Config) -> None:
    with served(office) as client:
        token = token_for(office, "ada")
        asking = Client(str(client.base_url), token, "patients")
        asking.counts(["ward", "smoker"], spend=0.2)
        answer = asking.know("share of smoker by ward", level="80%")
        direct = client.get(
            f"{HERE}/known", headers=bearer(token), params={"question": "share of smoker by ward", "level": 0.8}
        ).json()
        assert answer.to_dict() == direct
        z = asking.synthesize(sets=3, size=20)
        assert len(z.tables) == 3 and list(z.tables[0]) == ["smoker", "ward"]
        with pytest.raises(InvalidValue, match="go with spend"):
            asking.synthesize(bins=3)


def test_the_page_offers_tables(office: Config) -> None:
    with served(office) as client:
        token = token_for(office, "ada")
        visitor = Visitor(client)
        visitor.log_in(token)
        page = client.get("/data/patients/tables")
        assert page.status_code == 200 and "Nothing was released" in page.text
        form = {"columns:ward": "on", "columns:smoker": "on", "spend": "20", "seal": visitor.seal(page), "key": "k1"}
        done = client.post("/data/patients/tables", data=form, follow_redirects=True)
        assert "ward × smoker" in done.text and "Download" in done.text, done.text
        assert spent(client, bearer(token)) == pytest.approx(0.2, rel=0.01)
        reply = client.get("/data/patients/tables/file?sets=2&size=10")
        assert zipfile.ZipFile(io.BytesIO(reply.content)).testzip() is None
        report = client.get("/data/patients/tables/report?sets=2&size=10")
        assert "What they are not for" in report.text
        refused = client.post(
            "/data/patients/tables",
            data={"columns:ward": "on", "spend": "20", "seal": visitor.seal(done), "key": "k2"},
        )
        assert refused.status_code == 422 and "two columns" in refused.text
