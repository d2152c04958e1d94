"""Table 1 over HTTP and on the page: one price, one key, and the table that a curator makes of the same answers."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from sottovoce.faces.client import Client
from sottovoce.faces.server.config import Config
from sottovoce.faces.server.paying import PaidAnswers
from sottovoce.faces.server.receipts import verify_receipt
from sottovoce.privacy.errors import SourceUnavailable
from sottovoce.service.answers.catalogue import CATALOGUE
from support.offices import bearer, served, token_for
from support.visitors import Visitor

HERE = "/api/v1/datasets/patients"
ASKED: dict[str, Any] = {"verb": "describe", "columns": ["age", "smoker"], "by": "ward", "spend": 0.1}


def describe(client: httpx.Client, who: dict[str, str], key: str | None = None, **other: Any) -> httpx.Response:
    headers = who if key is None else who | {"Idempotency-Key": key}
    return client.post(f"{HERE}/answers", headers=headers, json=ASKED | other)


def spent(client: httpx.Client, who: dict[str, str]) -> float:
    return float(client.get(f"{HERE}/remaining", headers=who).json()["yours"]["spent"])


def test_a_description_is_one_table_whose_answers_cost_its_price(own_office: Config) -> None:
    with served(own_office) as client:
        who = bearer(token_for(own_office, "ada"))
        told = describe(client, who).json()
        assert told["question"] == "description of age, smoker by ward"
        assert told["share"] == pytest.approx(0.1) == spent(client, who)
        assert len(told["entries"]) == len(told["answers"]) == 4
        assert all(said["share"] <= 0.1 and said["receipt"]["signed"] for said in told["answers"])
        read = CATALOGUE["describe"].read(told)
        assert [line[0] for line in read.paper_lines()[1]][:2] == ["age, mean (SD)", "age, median [IQR]"]
        assert read.rows == told["table"] and list(read.paper_lines()[0]) == told["lines"]["head"]
        seen = verify_receipt(told["answers"][0]["receipt"], client.get("/api/v1/key").json()["key"].encode())
        assert seen["entry"] == told["entries"][0]


def test_a_retry_under_its_key_tells_the_same_and_is_charged_once(own_office: Config) -> None:
    with served(own_office) as client:
        who = bearer(token_for(own_office, "bob"))
        first, again = describe(client, who, "monday").json(), describe(client, who, "monday").json()
        assert first["entries"] == again["entries"] and first["table"] == again["table"]
        assert spent(client, who) == pytest.approx(0.1)
        free = describe(client, who, again=True).json()
        assert free["entries"] == first["entries"] and spent(client, who) == pytest.approx(0.1)
        other = describe(client, who, "monday", columns=["age"])
        assert other.status_code == 409 and other.json()["type"] == "urn:sottovoce:key-taken"


def test_what_a_crash_left_undone_is_asked_by_a_retry_and_what_was_told_is_told_again(
    own_office: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server dies when half of the questions were answered; the others were never charged."""
    whole = PaidAnswers._ask

    async def dies(self: Any, caller: Any, name: str, question: Any, key: str | None, receive: Any) -> Any:
        if key in ("night-3", "night-4"):
            raise SourceUnavailable("the lights went out")
        return await whole(self, caller, name, question, key, receive)

    with served(own_office) as client:
        who = bearer(token_for(own_office, "ada"))
        monkeypatch.setattr(PaidAnswers, "_ask", dies)
        reply = describe(client, who, "night")
        assert reply.status_code == 503 and "entries" in reply.json()["detail"] and "free" in reply.json()["detail"]
        paid = spent(client, who)
        kept = [item["entry"] for item in client.get(f"{HERE}/history", headers=who).json()["entries"]]
        assert 0 < paid < 0.1 and len(kept) == 2
    monkeypatch.undo()
    with served(own_office) as client:
        told = describe(client, who, "night").json()
        assert sorted(told["entries"][:2]) == sorted(kept) and len(told["entries"]) == 4
        assert spent(client, who) == pytest.approx(0.1) == told["share"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"spend": "renyi:8,0.1"}, "share of the budget"),
        ({"columns": []}, "columns"),
        ({"columns": ["age", "age"]}, "once"),
        ({"columns": ["ward"], "by": "ward"}, "leave it out"),
        ({"predict": ["age=3"]}, "regression"),
        ({"pool": True}, "describe takes columns, by, where"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_line_before_anything_is_charged(
    client: httpx.Client, ada: dict[str, str], change: dict[str, Any], said: str
) -> None:
    before = spent(client, ada)
    reply = describe(client, ada, **change)
    assert reply.status_code == 422 and said in reply.json()["detail"], reply.text
    assert spent(client, ada) == before


def test_a_description_that_is_not_covered_charges_nothing(own_office: Config) -> None:
    with served(own_office) as client:
        who = bearer(token_for(own_office, "ada"))
        describe(client, who, spend=0.5)
        before = spent(client, who)
        reply = describe(client, who, spend=0.8)
        assert reply.status_code == 409 and "nothing was spent" in reply.json()["detail"]
        assert spent(client, who) == before


def test_a_client_and_the_page_show_the_table(own_office: Config) -> None:
    with served(own_office) as client:
        token = token_for(own_office, "ada")
        asking = Client(str(client.base_url), token, "patients")
        told = asking.asked("describe", columns=["age", "smoker"], by="ward", spend=0.1)
        assert told.describe() == "description of age, smoker by ward" and told.share == pytest.approx(0.1)
        plan = asking.plan("describe age, smoker by ward", spend=0.1)
        assert plan.share == pytest.approx(0.1) and len(plan.rows) == 4
        visitor = Visitor(client)
        visitor.log_in(token)
        form = {"verb": "describe", "columns:age": "on", "columns:smoker": "on", "by:ward": "on", "spend": "10"}
        start = client.get("/data/patients")
        key = re.search(r'name="key" value="([^"]+)"', start.text)[1]
        page = client.post("/data/patients/answer", data=form | {"seal": visitor.seal(start), "key": key})
        assert "age, median [IQR]" in page.text and "Asked again, it is free" in page.text
        assert spent(client, bearer(token)) == pytest.approx(0.1)  # what the client had paid for is told again
