"""What is left to someone is what they can still spend: the lesser of their part and of the whole."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from sottovoce.faces.client import Client
from sottovoce.faces.client.reach import LIMITED, covers, reach
from sottovoce.faces.server.config import Config, read_config
from sottovoce.privacy.errors import BudgetExceeded
from sottovoce.privacy.filter import PrivacyFilter
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.promises import ApproxDP, Promise, PureDP, RenyiDP, ZeroConcentratedDP
from sottovoce.privacy.pure import PureProfile
from sottovoce.service.answers.explanations import explain
from support.offices import bearer, served, token_for, write_office
from support.visitors import Visitor

HOME = "/api/v1/datasets/patients"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """An office whose parts add up to more than the whole: of which ada has spent 85 %."""
    config = write_office(tmp_path_factory.mktemp("shared"))
    text = config.path.read_text(encoding="utf-8")
    text = text.replace('patients = "approx:2,1e-6", staff', 'patients = "100%", staff')
    config.path.write_text(text.replace('patients = "approx:2,1e-6"', 'patients = "50%"'), "utf-8")
    return read_config(config.path)


@pytest.fixture(scope="module")
def server(shared: Config) -> Iterator[httpx.Client]:
    with served(shared) as client:
        asked = {"verb": "mean", "column": "age", "spend": "85%"}
        assert client.post(f"{HOME}/answers", headers=bearer(token_for(shared)), json=asked).status_code == 200
        yield client


@pytest.fixture(scope="module")
def bob(shared: Config) -> dict[str, str]:
    return bearer(token_for(shared, "bob"))


def plain(page: str) -> str:
    return re.sub(r"<[^>]+>", "", page)


def test_nobody_is_told_of_more_than_they_can_spend(server: httpx.Client, shared: Config, bob: dict[str, str]) -> None:
    words = server.get(f"{HOME}/left", headers=bob).json()
    assert words["yours"] == f"30 % left, {LIMITED}" and words["whole"].startswith("15 % left")
    client = Client(str(server.base_url), token_for(shared, "bob"), "patients")
    assert client.left() == words["yours"]
    left, whole = client.remaining(), server.get(f"{HOME}/remaining", headers=bob).json()["whole"]["remaining"]
    assert isinstance(left, RenyiDP) and left.epsilon == pytest.approx(whole["epsilon"], rel=1e-6)
    found = server.get(f"{HOME}/balance", headers=bob, params={"question": "mean of age"}).json()
    assert found["left"] == pytest.approx(0.3, abs=1e-6) and found["whole_limits"] and found["yours"]
    assert [one["covered"] for one in found["curve"]] == [one["share"] <= 0.3 for one in found["curve"]]
    assert {one["covered"] for one in found["curve"]} == {True, False}


def test_a_client_offers_what_can_be_paid_alone(server: httpx.Client, shared: Config) -> None:
    client = Client(str(server.base_url), token_for(shared, "bob"), "patients")
    said = f"it takes 50 % of your budget, and 30 % is left, {LIMITED}; nothing was spent"
    with pytest.raises(BudgetExceeded, match=said):
        client.plan("mean of age", spend=0.5)
    with pytest.raises(BudgetExceeded, match=f"30 % is left, {LIMITED}"):
        client.plan("smoker ~ age", spend=0.5)
    with pytest.raises(BudgetExceeded):
        client.mean("age", spend=0.5)
    balance = client.balance("mean of age")  # a forecast of every share, as if all were left
    with pytest.raises(BudgetExceeded, match=LIMITED):
        client.share_for("mean of age", balance.at(0.5).width)
    wide = balance.at(0.1).width
    assert client.share_for("mean of age", wide) == balance.for_width(wide).share < 0.3
    assert client.plan("mean of age", spend=0.3) == balance.at(0.3)
    assert client.plan("smoker ~ age", spend=0.29).terms


def test_the_page_tells_what_the_whole_leaves_and_offers_to_ask_with_it(server: httpx.Client, shared: Config) -> None:
    visitor = Visitor(server)
    visitor.log_in(token_for(shared, "carol"))
    assert f"30 % left, {LIMITED}" in plain(server.get("/").text)
    page = server.get("/data/patients")
    assert f"30 % left, {LIMITED}" in plain(page.text) and 'data-left="0.3' in page.text
    form = {"seal": visitor.seal(page), "key": "carol-1", "verb": "mean", "column": "age", "spend": "5"}
    answered = server.post("/data/patients/answer", data=form)
    assert f"25 % left, {LIMITED}: about 5 more like the last" in plain(answered.text)
    weighed = plain(server.get("/data/patients/balance", params={"question": "mean of age"}).text)
    assert f"25 % is left, {LIMITED}" in weighed and "100 % (not covered)" in weighed
    foreseen = {**form, "verb": "regress", "formula": "smoker ~ age", "spend": "40"}
    planned = plain(server.post("/data/patients/foresee", data=foreseen).text)
    assert f"25 % is left, {LIMITED}. What is left does not cover it." in planned
    refused = server.post("/data/patients/answer", data=form | {"key": "carol-2", "spend": "40", "anew": "1"})
    assert refused.status_code == 409
    assert f"asks for 40 % of your budget, and 25 % is left, {LIMITED}." in plain(refused.text)
    offered = re.search(r'<form method="post" action="/data/patients/answer">(.*?)</form>', refused.text, re.DOTALL)[1]
    assert re.search(r"Ask with ([\d.]+) %", offered)[1] in ("24.9", "25")
    fields = dict(re.findall(r'name="([^"]+)" value="([^"]*)"', offered))
    granted = server.post("/data/patients/answer", data=fields)
    assert granted.status_code == 200 and f" left, {LIMITED}: too little for one more" in plain(granted.text)
    empty = server.post("/data/patients/answer", data=form | {"key": "carol-3", "spend": "40", "anew": "1"})
    assert empty.status_code == 409
    server.cookies.clear()


def test_an_offer_is_covered_also_where_part_and_whole_are_not_counted_alike(tmp_path: Path) -> None:
    config = write_office(tmp_path, whole="renyi:2,1", each="renyi:32,16")
    with served(config) as client:
        visitor = Visitor(client)
        visitor.log_in(token_for(config))
        form = {"seal": visitor.seal(client.get("/data/patients")), "verb": "mean", "column": "age", "spend": "50"}
        refused = client.post("/data/patients/answer", data=form | {"key": "first"})
        assert refused.status_code == 409
        assert "Your own budget covers this; the one that everyone shares does not." in plain(refused.text)
        offered = re.search(r"Ask with ([\d.]+) %", refused.text)[1]
        assert 0 < float(offered) < 50
        granted = client.post("/data/patients/answer", data=form | {"key": "second", "spend": offered})
        assert granted.status_code == 200


def state(promise: Promise, spent: float, order: float | None = None) -> dict[str, object]:
    return {"filter": PrivacyFilter(promise, order).to_dict(), "spent": spent}


@pytest.mark.parametrize(
    ("part", "whole", "spent", "left", "limited"),
    [
        (RenyiDP(8, 1.0), RenyiDP(8, 2.0), 0.0, 1.0, False),
        (RenyiDP(8, 1.0), RenyiDP(8, 2.0), 0.5, 1.0, False),
        (RenyiDP(8, 1.0), RenyiDP(8, 2.0), 0.9, 0.2, True),
        (RenyiDP(8, 1.0), RenyiDP(8, 2.0), 1.0, 0.0, True),
        (PureDP(1.0), PureDP(2.0), 0.9, 0.2, True),
        (RenyiDP(4, 1.0), ZeroConcentratedDP(1.0), 0.9, 0.4, True),
        (PureDP(1.0), ZeroConcentratedDP(0.5), 0.0, 1.0, False),
    ],
)
def test_what_can_be_spent_is_the_lesser(
    part: Promise, whole: Promise, spent: float, left: float, limited: bool
) -> None:
    share, by_whole = reach({"yours": state(part, 0.0), "whole": state(whole, spent)})
    assert share == pytest.approx(left, abs=1e-8) and by_whole is limited
    assert reach({"yours": state(part, 0.95), "whole": state(whole, 0.0)}) == (pytest.approx(0.05), False)
    assert reach({"yours": None, "whole": state(whole, spent)}) == (pytest.approx(1 - spent), False)


@pytest.mark.parametrize(
    ("part", "whole"),
    [
        (PureDP(1.0), ApproxDP(2.0, 1e-6)),
        (ApproxDP(2.0, 1e-6), PureDP(1.0)),
        (ApproxDP(0.5, 1e-6), ApproxDP(4.0, 1e-6)),
    ],
)
def test_budgets_that_are_not_counted_alike_pay_for_what_is_said(part: Promise, whole: Promise) -> None:
    budgets = {"yours": state(part, 0.0), "whole": state(whole, 0.99)}
    share, limited = reach(budgets)
    assert 0 < share < 1 and limited
    purse = PrivacyFilter.from_dict(budgets["yours"]["filter"])  # type: ignore[arg-type]
    pure = isinstance(part, PureDP) or isinstance(whole, PureDP)

    def costing(cost: float) -> PureProfile | GaussianProfile:
        """Return the release that costs the part so much."""
        low, high = 0.0, 10.0
        for _ in range(100):
            middle = (low + high) / 2
            made = PureProfile(middle) if pure else GaussianProfile(middle)
            low, high = (middle, high) if purse.cost(made) <= cost else (low, middle)
        return PureProfile(low) if pure else GaussianProfile(low)

    assert covers(budgets, costing(share * purse.limit * 0.999))
    assert not covers(budgets, costing(share * purse.limit * 1.001))


def test_the_page_says_whose_answers_each_number_bounds(own_office: Config) -> None:
    """Ada's part of the budget bounds her own answers; the whole, which allows more, bounds everyone's together."""
    with served(own_office) as client:
        visitor = Visitor(client)
        visitor.log_in(token_for(own_office))
        page = client.get("/data/patients").text
    meaning = plain(page[page.index("What is a budget?") : page.index("</details>", page.index("What is a budget?"))])
    everyone, own = meaning.split("Your own answers, by your part of the budget:")
    assert "All answers together, whoever asked:" in everyone
    for text, promise in ((everyone, own_office.datasets["patients"].budget), (own, RenyiDP(8, 0.2))):
        said = explain(promise)
        assert f"at most for {said.after}." in text and str(promise) in text
    assert explain(RenyiDP(8, 0.2)).after < explain(RenyiDP(8, 0.3)).after
