"""Whether a row or a person is protected is said with every answer, at every door."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sottovoce as sv
from sottovoce.faces.cli import application
from sottovoce.service.answers import VERBS
from support.offices import served, token_for, write_office
from support.visitors import Visitor

N = 300
FACTS: dict[str, Any] = {
    "age": sv.Number(18, 110),
    "ward": sv.Category(["A", "B"]),
    "visits": sv.Count(9),
    "died": sv.Flag(),
}
NOTE = "protected is a row, not a person: whoever has several rows is protected less"
ASKED = {
    "proportion": "ward",
    "mean": "age",
    "rate": "visits",
    "counts": "ward",
    "quantiles": "age",
    "total": "visits",
    "sd": "age",
    "survival": "age",
}


def curator(folder: Path, *, person: bool, **options: Any) -> sv.Curator:
    rng = np.random.default_rng(3)
    table = {"age": rng.integers(18, 110, N).astype(float), "ward": rng.choice(list("AB"), N)}
    table |= {"visits": rng.poisson(1, N), "patient": np.arange(N) // 2, "died": rng.random(N) < 0.5}
    facts = sv.Facts(FACTS | ({"patient": sv.Person()} if person else {}))
    budget = sv.ApproxDP(1.0, 1e-6)
    return sv.Curator(pa.table(table), folder / "l", budget, facts=facts, dataset="p", **options)


@pytest.mark.parametrize(
    ("person", "options", "told"),
    [(False, {}, True), (True, {}, False), (True, {"protect": "rows"}, True), (False, {"n": "private"}, True)],
)
def test_every_verb_says_that_a_row_is_protected_where_nobody_is_named(
    tmp_path: Path, person: bool, options: dict[str, Any], told: bool
) -> None:
    assert set(ASKED) == set(VERBS)
    with curator(tmp_path, person=person, **options) as opened:
        answers: list[Any] = [
            getattr(opened, verb)(column, spend=0.05, **({"event": "died"} if verb == "survival" else {}))
            for verb, column in ASKED.items()
        ]
        answers.append(opened.regress("visits ~ age", spend=0.05))
        for answer in answers:
            for text in (" ".join(answer.notes), " ".join(answer.summary().split()), answer.footing()):
                assert (NOTE in text) == told
            assert (NOTE in answer._repr_html_()) == told
        again = opened.again(answers[0].entry)
        assert (NOTE in again.notes) == told
        for what in (opened, opened.budget, answers[0], answers[0].release):
            said = str(sv.explain(what))
            assert ("Protected: each row" in said) == ("not a person" in said) == told
            assert "each person's record" not in said and ",," not in said
            assert ("Protected: each person, with all of their records together" in said) == (not told)
        assert opened.whom == (
            "Protected is a row, not a person" if told else "Protected is a person, with all rows of theirs"
        )


def test_a_bare_promise_says_whom_it_protects_where_each_has_one_record() -> None:
    for relation in ("", " add-remove"):
        said = str(sv.explain(sv.parse_promise(f"approx:1,1e-6{relation}")))
        assert "each person's record" not in said and "and so each person who has only one" in said


def test_the_page_says_it_before_and_with_an_answer(tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    config = write_office(tmp_path)
    with served(config) as client:
        visitor = Visitor(client)
        visitor.log_in(token_for(config))
        page = client.get("/data/patients").text
        assert "A row is protected, not a person" in page
        fields = {"seal": visitor.seal(client.get("/data/patients")), "key": "page-1", "verb": "mean", "column": "age"}
        answered = client.post("/data/patients/answer", data=fields | {"spend": "5"}).text
        assert "Protected is a row, not a person" in answered


def test_the_command_line_says_it_once(tmp_path: Path) -> None:
    import json

    import pyarrow.parquet as pq
    from typer.testing import CliRunner

    pq.write_table(pa.table({"age": np.arange(20.0, 80.0)}), tmp_path / "p.parquet")
    (tmp_path / "p.toml").write_text('[age]\nkind = "number"\nlow = 0\nhigh = 110\n')
    words = ["ask", str(tmp_path / "p.parquet"), "mean of age", "--facts", str(tmp_path / "p.toml")]

    def run(*more: str) -> str:
        return CliRunner().invoke(application("ask"), [*words, *more], catch_exceptions=False).stdout

    assert " ".join(run("--budget", "approx:1,1e-6").split()).count("rotected is a row, not a person") == 1
    said = json.loads(run("--json"))
    assert said["protects"] == "Protected is a row, not a person" and NOTE in said["notes"]
