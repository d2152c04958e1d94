"""Plans of regressions: the same numbers at every door, free, off the loop, bounded, refused in words."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.cli.test_cli import run

import sottovoce as sv
from sottovoce.faces.client import Client
from sottovoce.faces.server import work_queue as lines
from sottovoce.faces.server.config import Config
from sottovoce.faces.server.regression_plans import _foreseen
from sottovoce.inference.regression import regression_plan as planned
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import RenyiDP
from sottovoce.records.facts.assumed_distribution import AssumedDistribution
from support.offices import N, bearer, served, token_for, write_office
from support.visitors import Visitor

HERE = "/api/v1/datasets/patients/regressions/plan"
FACTS = """
[smoker]
kind = "flag"
[age]
kind = "number"
low = 0
high = 100
"""


def plan(client: httpx.Client, who: dict[str, str], **body: Any) -> httpx.Response:
    return client.post(HERE, headers=who, json={"formula": "smoker ~ age"} | body)


def widths(told: dict[str, Any]) -> list[float]:
    return [one[name] for one in [*told["terms"], *(told["rare"] or [])] for name in ("width", "widest", "plain")]


@pytest.mark.parametrize(("said", "misses"), [(("smoker=20%",), None), (("smoker=20%", "age=0.1"), 0.0)])
def test_every_door_tells_the_same_plan(
    client: httpx.Client,
    office: Config,
    ada: dict[str, str],
    tmp_path: Path,
    said: tuple[str, ...],
    misses: float | None,
) -> None:
    text = "smoker ~ age"
    there = plan(client, ada, formula=text, spend="1%", imagine=list(said), misses=misses).json()
    asker = Client(str(client.base_url), token_for(office), "patients")
    asked = asker.plan(text, spend=0.01, imagined=said, misses=misses)
    facts = office.datasets["patients"].facts
    with sv.Curator(office.datasets["patients"].source, tmp_path / "l", RenyiDP(8, 500), facts=facts) as curator:
        here = curator.plan(text, spend="1%", imagined=said, misses=misses)
        assert not curator.history()
    (tmp_path / "facts.toml").write_text(FACTS, encoding="utf-8")
    words = [word for one in said for word in ("--imagine", one)] + ([] if misses is None else ["--misses", "0"])
    typed = run("plan", text, "--facts", tmp_path / "facts.toml", "--n", N, "--budget", "renyi:8,500", *words,
                "--spend", "1%", "--json")  # fmt: skip
    shell = json.loads(typed.stdout)
    assert (there["rare"] is None) == (len(said) == 2)
    fits = "The formula is taken to be right." if misses == 0 else "A formula that misses a little is allowed for."
    assert fits in there["assumed"] and there["question"].endswith(", misses=0") == (misses == 0)
    assert there["share"] == pytest.approx(0.01, rel=1e-6) and there["yours"] and there["n"] == N
    for told in (asked.to_dict(), here.to_dict(), shell):
        assert widths(told) == pytest.approx(widths(there), rel=1e-6)
        for name in ("question", "n", "target", "looks", "assumed", "unsaid", "hints", "cautions"):
            assert told[name] == pytest.approx(there[name]) if name == "looks" else told[name] == there[name]


def test_a_client_says_all_that_is_imagined(client: httpx.Client, office: Config, ada: dict[str, str]) -> None:
    said = AssumedDistribution(share=0.2, spread=0.1, kept=0.5, columns={"ward": {"E": 0.1, "N": 0.2}})
    asker = Client(str(client.base_url), token_for(office), "patients")
    told = asker.plan("smoker ~ age + C(ward)", where="age >= 20", spend=0.5, records=900, imagined=said)
    body = {"formula": "smoker ~ age + C(ward)", "where": "age >= 20", "spend": 0.5, "records": 900, "share": 0.2}
    body |= {"spread": "10%", "kept": "50%", "imagine": ["ward:E=10%", "ward:N=20%"]}
    assert widths(told.to_dict()) == pytest.approx(widths(plan(client, ada, **body).json()))
    assert told.n == 900 and "holds for 50 % of them" in told.assumed and "if rare" in told._repr_html_()


@pytest.mark.parametrize("wrong", [-1, math.nan, "x", 11, True])
def test_a_client_sends_no_plan_that_makes_no_sense(client: httpx.Client, office: Config, wrong: Any) -> None:
    asker = Client(str(client.base_url), token_for(office), "patients")
    with pytest.raises(InvalidValue, match=r"^misses must be [^\n]*\. Got "):
        asker.plan("smoker ~ age", misses=wrong)


def test_a_plan_reads_nothing_costs_nothing_and_equal_ones_are_made_once_off_the_loop(
    client: httpx.Client, ada: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    call = lines.call

    def noted(work: Callable[..., Any], *given: Any, **options: Any) -> Any:
        made.append(work.__name__)
        return call(work, *given, **options)

    monkeypatch.setattr(lines, "call", noted)
    monkeypatch.setattr("sottovoce.faces.server.datasets._Remembered.read", None)
    _foreseen.cache_clear()
    places = [f"/api/v1/datasets/patients/{place}" for place in ("remaining", "history")]
    before = [client.get(place, headers=ada).json() for place in places]
    one, same, other = (plan(client, ada, spend=spend).json() for spend in (0.1, 0.1, 0.2))
    assert widths(one) == widths(same) != widths(other)
    assert made == ["_foresee", "_foresee"]  # in a process of their own
    assert [client.get(place, headers=ada).json() for place in places] == before


def test_a_plan_that_nobody_waits_for_ends_at_its_next_look() -> None:
    class Left(Exception):
        pass

    def gone() -> None:
        looks.append(1)
        if len(looks) == 3:
            raise Left

    looks: list[int] = []
    facts = sv.Facts(smoker=sv.Flag(), age=sv.Number(0, 100))
    mechanism = planned.AdaptiveLooks.calibrate(planned.Formula("smoker ~ age", facts), 400, sv.ApproxDP(1.0, 1e-6))
    with pytest.raises(Left):
        planned.plan_looks(mechanism, sv.ApproxDP(1.0, 1e-6), pause=gone)
    assert len(looks) == 3


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"formula": "ward ~ smoker*age*visits*wait"}, 422, "at most 30 terms, and this regression has 32"),
        ({"formula": "smoker ~ secret"}, 422, "no column 'secret'"),
        ({"where": "secret = 'Smith-7'"}, 404, "no column 'secret'"),
        ({"where": "age > 'old'"}, 422, "one is text, the other is not"),
        ({"where": "age"}, 422, "holds no truth values"),
        ({"imagine": ["ward:Z=5%"]}, 422, "nothing can be imagined of 'ward:Z'"),
        ({"imagine": ["age=lots"]}, 422, "imagine columns like"),
        ({"imagine": ["age=0.1"] * 101}, 422, "at most 100"),
        ({"imagine": ["a" * 301]}, 422, "at most 300"),
        ({"kept": 1.5}, 422, "less than or equal to 1"),
        ({"records": 0}, 422, "greater than or equal to 1"),
        ({"spend": "200%"}, 422, "above 0 and at most 1"),
        ({"spend": "pure:1e9"}, 422, "must lie between"),
        ({"family": "magic"}, 422, "family must be one of"),
        ({"frobnicate": 1}, 422, "is no name that is known here"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_in_words(
    client: httpx.Client, ada: dict[str, str], body: dict[str, Any], status: int, said: str
) -> None:
    told = plan(client, ada, **body)
    assert told.status_code == status and said in told.json()["detail"]
    assert "Smith" not in told.json()["detail"]


@pytest.mark.parametrize(
    "body", [{"kept": 0.0}, {"records": 1}, {"records": 10**9}, {"level": 1 - 1e-12}, {"spend": 1e-9}]
)
def test_the_edges_of_what_may_be_asked_are_no_fault(
    client: httpx.Client, ada: dict[str, str], body: dict[str, Any]
) -> None:
    told = plan(client, ada, **body)
    assert told.status_code in (200, 422), told.text
    if told.status_code == 200:
        assert all(width >= 0 for width in widths(told.json()))


def test_nobody_plans_what_they_may_not(client: httpx.Client, office: Config, ada: dict[str, str]) -> None:
    assert client.post(HERE, json={"formula": "smoker ~ age"}).status_code == 401
    assert plan(client, bearer(token_for(office, "ada", "read", "ask"))).status_code == 403
    elsewhere = HERE.replace("patients", "staff")
    asked = {"formula": "smoker ~ 1"}
    assert client.post(elsewhere, headers=bearer(token_for(office, "bob")), json=asked).status_code == 404
    refused = client.post(elsewhere, headers=ada, json=asked)
    assert refused.status_code == 422 and "looks, which is not allowed here" in refused.json()["detail"]


def test_who_asks_too_often_is_told_to_wait(tmp_path: Path) -> None:
    config = write_office(tmp_path, limits="requests_per_minute = 2")
    with served(config) as client:
        who = bearer(token_for(config))
        codes = [plan(client, who, imagine=["wage=1"]).status_code for _ in range(4)]
    assert codes[0] == 422 and codes[-1] == 429


def test_a_balance_takes_what_is_imagined(client: httpx.Client, ada: dict[str, str]) -> None:
    place = "/api/v1/datasets/patients/balance"
    asked = {"question": "mean of age by ward"}
    even, few, small = (
        client.get(place, headers=ada, params=asked | more).json()["curve"][-1]["width"]
        for more in ({}, {"imagine": ["ward:E=5%", "age=0.2"]}, {"smallest": 0.05})
    )
    assert few > 1.4 * even and small > 1.4 * even
    for wrong in ({"imagine": "ward=5%"}, {"imagine": "ward:E=500%"}, {"kept": 2}, {"question": "smoker ~ age"}):
        assert client.get(place, headers=ada, params=asked | wrong).status_code == 422


@pytest.mark.parametrize("place", ["balance?question=mean of age", "explanation?", "dummy?", "answers/1?"])
def test_a_query_that_names_what_is_not_known_is_refused(client: httpx.Client, ada: dict[str, str], place: str) -> None:
    path = f"/api/v1/datasets/patients/{place}"
    refused = client.get(f"{path}&width=0.01&spend=abc&imagin=age=0.1", headers=ada)
    assert refused.status_code == 422
    assert refused.json()["detail"] == "; ".join(
        f"query.{name}: is no name that is known here" for name in ("width", "spend", "imagin")
    )
    odd = client.get(f"{path}&a%0Ab{'c' * 900}=1", headers=ada)
    assert odd.status_code == 422 and "\n" not in odd.json()["detail"] and len(odd.json()["detail"]) < 150
    assert client.get(f"{path}&foo=1").status_code == 401
    assert client.get(path, headers=ada).status_code in (200, 404)


def test_the_page_plans_a_regression_without_scripts(client: httpx.Client, office: Config) -> None:
    visitor = Visitor(client)
    visitor.log_in(token_for(office))
    form = {"seal": visitor.seal(client.get("/data/patients")), "verb": "regress", "formula": "smoker ~ age"}
    form |= {"spend": "10", "imagine": "age=0.1"}
    page = client.post("/data/patients/foresee", data=form)
    assert page.status_code == 200 and 'value="age=0.1"' in page.text
    assert page.text.count('<th scope="row">age</th>') == 1 and "If rare" in page.text and "No privacy" in page.text
    assert page.text.index("Plan, for free") < page.text.index("Ask and pay")  # Enter presses the first, which is free
    assert "Nothing was spent, and no record was read." in page.text and "<code>smoker=20%</code>" in page.text
    sure = client.post("/data/patients/foresee", data=form | {"imagine": "age=0.1, smoker=20%"})
    assert sure.status_code == 200 and "If rare" not in sure.text.replace("If rare:", "")
    assert '<span data-verbs="regress">Prior spread</span>' in page.text  # of a share the prior counts records
    right = client.post("/data/patients/foresee", data=form | {"misses": "0"}).text
    assert ", misses=0" in right
    for told, shown in ((page.text, False), (right, True)):  # what holds for the next question too is seen
        assert (re.search(r"<details open>\s*<summary>More", told) is not None) == shown
    some = form | {"where": "age > 40", "kept": "50 %"}
    assert "The condition holds for 50 % of them" in client.post("/data/patients/foresee", data=some).text
    assert client.post("/data/patients/foresee", data=some | {"kept": "120"}).status_code == 422
    wrong = client.post("/data/patients/foresee", data=form | {"imagine": "<b>=5"})
    assert wrong.status_code == 422 and "&lt;b&gt;" in wrong.text and "<b>" not in wrong.text
    assert "a plan is of a regression" in client.post("/data/patients/foresee", data=form | {"verb": "mean"}).text
    assert client.post("/data/patients/foresee", data=form | {"seal": "0"}).status_code == 403
    weighed = client.get("/data/patients/balance", params={"question": "mean of age by ward", "imagine": "ward:E=5%"})
    assert weighed.status_code == 200 and "but for what was imagined" in weighed.text
    client.cookies.clear()


def test_a_plan_says_whether_what_is_left_covers_it(tmp_path: Path) -> None:
    config = write_office(tmp_path)
    with served(config) as client:
        who, visitor = bearer(token_for(config)), Visitor(client)
        asked = {"verb": "proportion", "column": "smoker", "spend": "60%"}
        assert client.post("/api/v1/datasets/patients/answers", headers=who, json=asked).status_code == 200
        assert [plan(client, who, spend=spend).json()["covered"] for spend in ("30%", "50%")] == [True, False]
        visitor.log_in(token_for(config))
        form = {"seal": visitor.seal(client.get("/data/patients")), "verb": "regress", "formula": "smoker ~ age"}
        pages = [client.post("/data/patients/foresee", data=form | {"spend": spend}).text for spend in ("30", "50")]
        assert ["What is left does not cover it." in page for page in pages] == [False, True]


@pytest.mark.parametrize(
    ("system", "settings", "said", "unsaid"),
    [
        (
            "Bayesian network",
            {"fields": ["ward", "smoker"], "parents": {"smoker": ["ward"]}},
            "Widths are of",
            "formula",
        ),
        (
            "regression",
            {"features": ["age"], "label": "smoker"},
            "planned where it is asked as a formula",
            "Widths are",
        ),
    ],
)
def test_the_page_of_models_says_what_widths_are_of_and_where_those_of_terms_are_planned(
    client: httpx.Client, office: Config, system: str, settings: Any, said: str, unsaid: str
) -> None:
    visitor = Visitor(client)
    visitor.log_in(token_for(office))
    form = visitor.fields() | {"column": "*", "system": system, "settings": json.dumps(settings), "mechanism": ""}
    page = client.post("/data/patients/plan", data=form).text
    part = page[page.index('<h2 id="plan-title">') :]
    part = part[: part.index("<h3>")]
    assert said in part and unsaid not in part
    client.cookies.clear()
