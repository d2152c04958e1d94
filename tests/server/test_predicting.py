"""What a regression expects of a row, over HTTP and on the page: from the release, free, and refused before payment."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import httpx
import numpy as np
import pytest

from sottovoce.faces.server.config import Config
from sottovoce.service.answers import Regression
from sottovoce.service.answers.catalogue import CATALOGUE
from support.offices import bearer, token_for
from support.visitors import Visitor

HERE = "/api/v1/datasets/patients"
FORMULA = "smoker ~ age + C(ward)"
NUMBERS = ["estimate", "low", "high"]


def ask(client: httpx.Client, who: dict[str, str], key: str | None = None, **body: Any) -> httpx.Response:
    headers = who if key is None else who | {"Idempotency-Key": key}
    usual = {"verb": "regress", "formula": FORMULA, "spend": "renyi:8,5"}
    return client.post(f"{HERE}/answers", headers=headers, json=usual | body)


def left(client: httpx.Client, who: dict[str, str]) -> Any:
    return client.get(f"{HERE}/remaining", headers=who).json()


def test_rows_are_predicted_with_the_answer_and_later_and_cost_nothing(
    client: httpx.Client, ada: dict[str, str]
) -> None:
    rows = ["age=70, ward=S", {"ward": "N", "age": 120}]
    before = ask(client, ada).json()
    told = ask(client, ada, "tuesday", predict=rows, level=0.8).json()
    assert told["cost"] == before["cost"] and before["predicted"] is None
    fit = Regression.from_dict({**told, "level": 0.8})
    found = fit.predict({"age": [70, 120], "ward": ["S", "N"]})
    first, second = told["predicted"]
    assert (first["row"], second["row"]) == ("age=70, ward=S", "ward=N, age=120")
    for said, row in zip((first, second), found.to_dict("records"), strict=True):
        (one,) = said["expected"]
        assert [one[name] for name in NUMBERS] == pytest.approx([row[name] for name in NUMBERS], rel=1e-9)
        assert 0 < one["low"] < one["estimate"] < one["high"] < 1
    assert "held" not in first["expected"][0] and second["expected"][0]["held"] == "age at 100"
    paid = left(client, ada)
    retried = ask(client, ada, "tuesday", predict=["age=20, ward=E"]).json()
    assert retried["entry"] == told["entry"] and retried["predicted"][0]["row"] == "age=20, ward=E"
    later = client.get(
        f"{HERE}/answers/{told['entry']}", headers=ada, params={"predict": ["age=70, ward=S"] * 2}
    ).json()
    assert len(later["predicted"]) == 2
    wide, narrow = later["predicted"][1]["expected"][0], first["expected"][0]  # at 95 and at 80 %
    assert wide["low"] < narrow["low"] < narrow["high"] < wide["high"]
    same = client.get(
        f"{HERE}/answers/{told['entry']}", headers=ada, params={"predict": "age=70, ward=S", "level": 0.8}
    ).json()
    assert same["level"] == 0.8 and same["table"] == told["table"]
    assert same["predicted"][0]["expected"] == [pytest.approx(row) for row in first["expected"]]
    for wrong in ("0", "1", "much"):
        assert client.get(f"{HERE}/answers/1", headers=ada, params={"level": wrong}).status_code == 422
    in_percent = client.get(f"{HERE}/answers/{told['entry']}", headers=ada, params={"level": "80%"}).json()
    assert in_percent["table"] == same["table"] and in_percent["level"] == 0.8
    assert left(client, ada) == paid


def test_every_class_has_a_row_and_a_formula_without_columns_any_row(client: httpx.Client, ada: dict[str, str]) -> None:
    (told,) = ask(client, ada, formula="ward ~ smoker", predict=[{"smoker": True}]).json()["predicted"]
    assert [row["ward"] for row in told["expected"]] == ["N", "S", "E"] and "row" not in told["expected"][0]
    assert np.sum([row["estimate"] for row in told["expected"]]) == pytest.approx(1)
    several = ask(client, ada, formula="age ~ 1", predict=["", {}]).json()["predicted"]
    assert several[0]["expected"] == several[1]["expected"]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("age=70", "lacks ward; say each of age, ward"),
        ("weight=3, age=70, ward=N", "reads like age=70, ward=Surgery; say each of age, ward"),
        ("age=70, ward=Z", "'ward' is one of N, S, E. Got 'Z'"),
        ("age=nan, ward=N", "'age' is a number. Got 'nan'"),
        ("x" * 10_001, "10000 characters"),
        ({"age": 70}, "lacks ward"),
        ({"age": 70, "ward": "N", "secret": "Smith-7"}, "the formula has no column 'secret'; say each of age, ward"),
        ("age=70, ward=N, secret=Smith-7", "the formula has no column 'secret'; say each of age, ward"),
        ("ward=N, age=70, secret=Smith-7", "the formula has no column 'secret'; say each of age, ward"),
        ({"age": True, "ward": "N"}, "'age' is a number. Got True"),
        ({"age": "much", "ward": "N"}, "'age' is a number. Got 'much'"),
        ({"age": 10**400, "ward": "N"}, "'age' is a number"),
        ({"age": 70, "ward": 1}, "'ward' is one of N, S, E. Got 1"),
        ({"age": None, "ward": "N"}, "'age' is a number. Got None"),
        ({"age": [70], "ward": "N"}, "'age' is a number. Got [70]"),
        (7, 'body.predict.1: must be a row in words, such as "age=70, ward=Surgery", or its values by name. Got 7'),
    ],
)
def test_a_row_that_makes_no_sense_is_refused_before_anything_is_charged(
    client: httpx.Client, ada: dict[str, str], row: Any, said: str
) -> None:
    before = left(client, ada)
    refused = ask(client, ada, predict=["age=20, ward=N", row])
    assert refused.status_code == 422 and said in (detail := refused.json()["detail"]), refused.text
    assert "\n" not in detail and left(client, ada) == before


def test_no_numbers_that_json_does_not_know_and_no_other_verb(client: httpx.Client, ada: dict[str, str]) -> None:
    before = left(client, ada)
    for number in ("NaN", "1e999"):
        body = json.dumps({"verb": "regress", "formula": FORMULA, "predict": [{"age": 0, "ward": "N"}]})
        headers = ada | {"Content-Type": "application/json"}
        refused = client.post(f"{HERE}/answers", content=body.replace(": 0,", f": {number},"), headers=headers)
        assert refused.status_code == 422 and "number" in refused.json()["detail"], refused.text
    refused = ask(client, ada, verb="mean", formula=None, column="age", predict=["age=1"])
    assert refused.status_code == 422
    body = {"verb": "mean", "column": "age", "spend": "renyi:8,5"}
    refused = client.post(f"{HERE}/answers", headers=ada, json=body | {"predict": ["age=1"]})
    assert "a regression says what is expected of a row, and mean does not" in refused.json()["detail"]
    assert ask(client, ada, predict=["age=1, ward=N"] * 101).status_code == 422
    assert left(client, ada) == before
    entry = client.post(f"{HERE}/answers", headers=ada, json=body).json()["entry"]
    refused = client.get(f"{HERE}/answers/{entry}", headers=ada, params={"predict": "age=1"})
    assert refused.status_code == 422 and "mean does not" in refused.json()["detail"]


def test_another_analyst_predicts_nothing_from_what_is_not_theirs(
    client: httpx.Client, ada: dict[str, str], bob: dict[str, str]
) -> None:
    entry = ask(client, ada).json()["entry"]
    refused = client.get(f"{HERE}/answers/{entry}", headers=bob, params={"predict": "age=1, ward=N"})
    assert refused.status_code == 404


def test_the_page_predicts_beside_the_answer(client: httpx.Client, office: Config) -> None:
    """A field a column, made of the facts; what is expected of them is drawn, and what makes no sense is said there."""
    who = bearer(token_for(office))
    entry = ask(client, who, formula=f"{FORMULA} + visits").json()["entry"]
    Visitor(client).log_in(token_for(office))
    paid = left(client, who)
    shown = client.get("/data/patients", params={"answer": entry}).text
    form = re.search(r'<form class="predict".*?</form>', shown, re.DOTALL)[0]
    assert re.findall(r'name="at:(\w+)"', form) == ["age", "ward", "visits"]
    assert re.findall(r"<option[^>]*>(\w+)", form) == ["N", "S", "E"] and 'value="50"' in form and 'value="5"' in form
    row = {"answer": entry, "predict": "1", "at:age": " 120 ", "at:ward": "S", "at:visits": "2"}
    page = client.get("/data/patients", params=row)
    said = "age=120, ward=S, visits=2"
    told = client.get(f"{HERE}/answers/{entry}", headers=who, params={"predict": said}).json()["predicted"][0][
        "expected"
    ]
    text = html.unescape(page.text)
    assert page.status_code == 200 and f"Expected smoker where {said}" in text and "held there: age at 100" in text
    assert f"<strong>{told[0]['estimate']:.2f}</strong>" in text
    for change in ({"at:age": "abc"}, {"at:ward": "<b>"}, {"at:secret": "1"}):
        refused = client.get("/data/patients", params=row | change)
        assert refused.status_code == 422 and 'class="forest"' in refused.text and "<b>" not in refused.text
        assert re.search(r"is a number|is one of|the formula has no column", refused.text)
    narrow = client.get("/data/patients", params=row | {"level": "80"}).text
    told = client.get(f"{HERE}/answers/{entry}", headers=who, params={"predict": said, "level": 0.8}).json()
    low, high = (f"{told['predicted'][0]['expected'][0][end]:.2f}" for end in ("low", "high"))
    assert f"{low} to {high}" in narrow and f"{low} to {high}" not in text
    assert "80 % range" in narrow and "95 % range" not in narrow
    assert "the 80 % range is of the mean" in narrow and "the 95 % range is of the mean" in text
    form = re.search(r'<form class="predict".*?</form>', narrow, re.DOTALL)[0]
    assert 'name="level" value="80"' in form and '<option value="80" selected>' in narrow
    csv = [client.get(f"/data/patients/answers/{entry}", params={"level": one}).text for one in ("80", "95")]
    assert csv[0] != csv[1] == client.get(f"/data/patients/answers/{entry}").text
    assert client.get("/data/patients", params=row | {"level": "much"}).status_code == 422
    del row["at:visits"]
    assert "lacks visits" in client.get("/data/patients", params=row).text
    assert left(client, who) == paid
    client.cookies.clear()


def test_the_api_is_described_with_its_rows(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()
    assert document["components"]["schemas"]["VerbBody"]["properties"]["predict"]["maxItems"] == 100
    again = [
        one["name"]
        for one in document["paths"]["/api/v1/datasets/{dataset}/answers/{entry}"]["get"]["parameters"]
        if one["in"] == "query"
    ]
    assert again == ["predict", "level", "with"]
    assert CATALOGUE["regress"].schema()["required"] == ["formula"]
