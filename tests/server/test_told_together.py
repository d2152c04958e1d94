"""Answers to one question told as one over plain HTTP, and the page's link to that."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from sottovoce.faces.server.config import Config
from support.offices import served, token_for
from support.visitors import Visitor

HERE = "/api/v1/datasets/patients"


def asked(client: httpx.Client, who: dict[str, str], column: str = "age") -> Any:
    body = {"verb": "mean", "column": column, "by": ["ward"], "spend": "renyi:8,5"}
    answer = client.post(f"{HERE}/answers", headers=who, json=body)
    assert answer.status_code < 300, answer.text
    return answer.json()


def widths(answer: Any) -> float:
    return sum(row["high"] - row["low"] for row in answer["table"])


def test_answers_are_told_as_one_over_http(client: httpx.Client, ada: dict[str, str]) -> None:
    entries = [asked(client, ada)["entry"] for _ in range(2)]
    before = client.get(f"{HERE}/remaining", headers=ada).json()
    alone = [client.get(f"{HERE}/answers/{entry}", headers=ada).json() for entry in entries]
    both = client.get(f"{HERE}/answers/{entries[0]}", headers=ada, params=[("with", str(entries[1]))])
    assert both.status_code == 200
    assert both.json()["table"] not in [answer["table"] for answer in alone]
    assert widths(both.json()) < 1.1 * min(map(widths, alone))  # hardly any noise: they tell nearly the same
    assert client.get(f"{HERE}/remaining", headers=ada).json() == before  # free
    again = client.get(f"{HERE}/answers/{entries[0]}?with={entries[1]}", headers=ada)
    assert again.json()["table"] == both.json()["table"]
    for query, status in (
        ("with=x", 422),
        ("with=0", 422),
        (f"with={entries[0]}", 422),
        ("with=999999", 404),
        ("&".join(["with=1"] * 101), 422),
    ):
        refused = client.get(f"{HERE}/answers/{entries[0]}?{query}", headers=ada)
        assert refused.status_code == status, (query, refused.text)


@pytest.fixture
def spender(own_office: Config) -> Iterator[Visitor]:
    with served(own_office) as client:
        visitor = Visitor(client)
        assert visitor.log_in(token_for(own_office)).status_code == 303
        yield visitor


def test_the_page_links_to_answers_told_as_one(spender: Visitor) -> None:
    entries, texts = list[str](), list[str]()
    for anew in ({}, {"anew": "on"}):
        page = spender.client.get("/data/patients")
        (key,) = re.findall(r'name="key" value="([^"]+)"', page.text)[:1]
        fields = {"seal": spender.seal(page), "key": key, "verb": "mean", "column": "age", "spend": "5"} | anew
        answered = spender.client.post("/data/patients/answer", data=fields)
        assert answered.status_code == 200, answered.text[-3000:]
        entries += re.findall(r'href="/data/patients/answers/(\d+)', answered.text)[:1]
        texts.append(html.unescape(answered.text))
    assert len(set(entries)) == 2
    texts.append(html.unescape(spender.client.get(f"/data/patients?answer={entries[1]}").text))
    links = re.findall(r'href="(/data/patients\?answer=\d+&with=\d+[^"]*)"', "".join(texts[1:]))
    pages = [spender.client.get(link) for link in links or [f"/data/patients?answer={entries[1]}&with={entries[0]}"]]
    assert links or any(f"with entry {entries[0]}" in text for text in texts[1:])
    for page in pages:
        assert page.status_code == 200 and "Mean of age" in page.text
        assert all(entry in re.sub(r"<[^>]+>", "", page.text) for entry in entries)
    assert spender.client.get(f"/data/patients?answer={entries[1]}&with=x").status_code in (400, 404, 422)
