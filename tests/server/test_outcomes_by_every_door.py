"""Regressions of times and of ordered outcomes over HTTP, on the page, by the client and again: one question."""

from __future__ import annotations

import html
import re
from typing import Any

import httpx
import pytest

import sottovoce as sv
from sottovoce.faces.client import Client
from sottovoce.faces.server.config import Config
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import RenyiDP
from sottovoce.service.answers import Regression
from support.offices import bearer, token_for
from support.visitors import Visitor

HERE = "/api/v1/datasets/patients"
TIMES: dict[str, Any] = {"formula": "wait ~ age + C(ward)", "event": "smoker", "cuts": [0.5, 1.0, 1.5]}
ORDERED: dict[str, Any] = {"formula": "ward ~ age + smoker", "family": "ordinal"}
LATE: dict[str, Any] = {"formula": "wait ~ age", "event": "smoker", "cuts": [0.5, 1.5], "start": "visits"}
COUNTED: dict[str, Any] = {"formula": "visits ~ age", "family": "ordinal"}
CASES = [(TIMES, "hazard ratio", "share without smoker at 1.5"), (ORDERED, "odds ratio", "share of ward")]


def ask(client: httpx.Client, who: dict[str, str], **body: Any) -> httpx.Response:
    return client.post(f"{HERE}/answers", headers=who, json={"verb": "regress", "spend": "renyi:8,5"} | body)


def left(client: httpx.Client, who: dict[str, str]) -> Any:
    return client.get(f"{HERE}/remaining", headers=who).json()


@pytest.mark.parametrize(("asked", "ratio", "expected"), CASES, ids=["times", "ordered"])
def test_the_server_answers_tells_again_and_predicts(
    client: httpx.Client, office: Config, ada: dict[str, str], asked: dict[str, Any], ratio: str, expected: str
) -> None:
    row = "age=50, ward=S" if "event" in asked else "age=50, smoker=no"
    told = ask(client, ada, predict=[row], **asked).json()
    fit = Regression.from_dict({**told, "level": 0.95})
    assert fit.ratio == ratio and fit.question.predicted == expected
    assert [line["term"] for line in told["table"]] == [line["term"] for line in fit.rows]
    assert {f"{ratio.replace(' ', '_')}{end}" for end in ("", "_low", "_high")} <= set(told["table"][0])
    shares = told["predicted"][0]["expected"]
    assert len(shares) == (1 if "event" in asked else 3) and all(
        0 <= item["low"] <= item["high"] <= 1 for item in shares
    )
    assert (sum(item["estimate"] for item in shares) == pytest.approx(1)) == ("event" not in asked)
    paid = left(client, ada)
    later = client.get(f"{HERE}/answers/{told['entry']}", headers=ada).json()
    assert later["table"] == told["table"] and later["question"] == told["question"] == fit.question.describe()
    by_client = Client(str(client.base_url), token_for(office), "patients").again(told["entry"])
    assert by_client.rows == fit.rows and list(by_client.baseline()) == list(fit.baseline())
    assert left(client, ada) == paid


@pytest.mark.parametrize("asked", [TIMES, LATE, ORDERED, COUNTED], ids=["times", "late", "ordered", "counted"])
def test_every_door_tells_the_same_plan_and_asks_the_same_question(
    client: httpx.Client, office: Config, ada: dict[str, str], tmp_path: Any, asked: dict[str, Any]
) -> None:
    there = client.post(f"{HERE}/regressions/plan", headers=ada, json=asked | {"spend": "1%"}).json()
    asker, options = Client(str(client.base_url), token_for(office), "patients"), dict(asked)
    formula = options.pop("formula")
    facts = office.datasets["patients"].facts
    with sv.Curator(office.datasets["patients"].source, tmp_path / "l", RenyiDP(8, 500), facts=facts) as curator:
        here = curator.plan(formula, spend="1%", **options)
        question = curator.formula(formula, **options).describe()
    by_client = asker.plan(formula, spend=0.01, **options)
    assert there["question"] == here.question == by_client.question == question
    names = [item["term"] for item in there["terms"]]
    assert names == [item.term for item in here.terms] == [item.term for item in by_client.terms]
    for plan in (here.terms, by_client.terms):
        assert [item.width for item in plan] == pytest.approx([item["width"] for item in there["terms"]], rel=1e-6)
    fit = asker.regress(formula, spend="renyi:8,5", **options)
    assert [row["term"] for row in fit.rows] == names and fit.question.describe() == question


@pytest.mark.parametrize(("asked", "ratio", "expected"), CASES, ids=["times", "ordered"])
def test_the_page_plans_asks_and_predicts_without_scripts(
    client: httpx.Client, office: Config, asked: dict[str, Any], ratio: str, expected: str
) -> None:
    visitor = Visitor(client)
    visitor.log_in(token_for(office))
    start = client.get("/data/patients")
    form = {"seal": visitor.seal(start), "verb": "regress", "spend": "1", "level": "95", "anew": "1"}
    form |= {name: ", ".join(map(str, value)) if name == "cuts" else value for name, value in asked.items()}
    planned = client.post("/data/patients/foresee", data=form)
    assert planned.status_code == 200 and '<th scope="row">age</th>' in planned.text, planned.text[-2000:]
    key = re.search(r'name="key" value="([^"]+)"', start.text)[1]
    page = client.post("/data/patients/answer", data=form | {"key": key})
    text = html.unescape(page.text)
    assert page.status_code == 200 and f">{ratio.capitalize()}<" in text
    entry = re.search(r"answer=(\d+)", text)[1]
    row = {"answer": entry, "predict": "1", "at:age": "40"} | (
        {"at:ward": "S"} if "event" in asked else {"at:smoker": "no"}
    )
    shown = html.unescape(client.get("/data/patients", params=row).text)
    assert f"Expected {expected}" in shown
    client.cookies.clear()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (TIMES | {"event": "ward"}, "an event is a flag, yes or no; 'ward' is a category"),
        (TIMES | {"event": "secret"}, "smoker, age, visits, wait"),
        (TIMES | {"cuts": [1.0, 0.5]}, "rising times"),
        (TIMES | {"cuts": [1.0, 99.0]}, "bounds of 'wait'"),
        (TIMES | {"family": "ordinal"}, "event= makes a hazard regression, which has no family"),
        ({"formula": "smoker ~ age", "cuts": [1.0]}, "names its event"),
        ({"formula": "ward ~ age", "event": "smoker"}, "explains a time"),
        (TIMES | {"formula": "wait ~ age + smoker"}, "is the event, and explains nothing"),
        (LATE | {"start": "ward"}, "number or a count from 0 on"),
        (ORDERED | {"start": "visits"}, "names its event"),
        (ORDERED | {"formula": "smoker ~ age"}, "Of two values it is the logistic one"),
        (ORDERED | {"formula": "age ~ smoker"}, "category of 3 to 12 values"),
        (ORDERED | {"exposure": "wait"}, "takes no exposure"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_line_at_every_door_and_costs_nothing(
    client: httpx.Client, office: Config, ada: dict[str, str], body: dict[str, Any], words: str
) -> None:
    before = left(client, ada)
    for refused in (ask(client, ada, **body), client.post(f"{HERE}/regressions/plan", headers=ada, json=body)):
        assert refused.status_code == 422 and words in (detail := refused.json()["detail"]), refused.text
        assert "\n" not in detail
    asker, options = Client(str(client.base_url), token_for(office), "patients"), dict(body)
    formula = options.pop("formula")
    for call in (asker.regress, asker.plan):
        with pytest.raises(InvalidValue) as error:
            call(formula, spend="1%", **options)
        assert words in str(error.value) and "\n" not in str(error.value)
    visitor = Visitor(client)
    visitor.log_in(token_for(office))
    form = {"seal": visitor.seal(client.get("/data/patients")), "verb": "regress", "spend": "1", "key": "k" * 20}
    form |= {name: ", ".join(map(str, value)) if name == "cuts" else value for name, value in body.items()}
    for door in ("foresee", "answer"):
        page = client.post(f"/data/patients/{door}", data=form)
        assert page.status_code == 422 and words in html.unescape(page.text)
    client.cookies.clear()
    assert left(client, ada) == before


def test_what_others_may_not_see_is_not_told_again(client: httpx.Client, ada: dict[str, str], office: Config) -> None:
    entry = ask(client, ada, **TIMES).json()["entry"]
    bob = bearer(token_for(office, "bob"))
    assert client.get(f"{HERE}/answers/{entry}", headers=bob).status_code == 404
