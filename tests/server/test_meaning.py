"""What a budget means, what an answer buys and risks, and the card: over HTTP and on the page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import sottovoce as sv
from sottovoce.privacy.promises import parse_promise
from sottovoce.server.cards import verify_card
from sottovoce.server.config import Config
from support.offices import SMOKERS, bearer, served, token_for

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def everything(office: Config) -> dict[str, str]:
    return bearer(token_for(office, "ada", "read", "plan", "ask", "admin"))


def test_the_budget_is_explained(client: httpx.Client, everything: dict[str, str]) -> None:
    told = client.get("/api/v1/datasets/patients/explanation", headers=everything, params={"baseline": 0.1}).json()
    assert told["after"] == sv.explain(parse_promise("renyi:8,1000"), baseline=0.1).after
    assert (
        client.get("/api/v1/datasets/patients/explanation", params={"baseline": 0.9}, headers=everything).status_code
        == 422
    )
    assert client.get("/api/v1/datasets/patients/explanation").status_code == 401


def test_share_accuracy_and_risk_go_together(client: httpx.Client, everything: dict[str, str]) -> None:
    place = "/api/v1/datasets/patients/balance"
    found = client.get(place, headers=everything, params={"question": "proportion of smoker by ward"}).json()
    widths = [one["width"] for one in found["curve"]]
    risks = [one["success"] for one in found["curve"]]
    assert widths == sorted(widths, reverse=True) and risks == sorted(risks)
    assert found["curve"][-1]["share"] == 1 and found["yours"] and 0 <= found["left"] <= 1
    for wrong in ("mean of nothing", "nonsense", "mean of smoker", "proportion of smoker where secret == 'x'"):
        answer = client.get(place, headers=everything, params={"question": wrong})
        assert answer.status_code == 422 and "Smith" not in answer.text
    answer = client.get(
        "/api/v1/datasets/staff/balance", headers=everything, params={"question": "proportion of smoker where smoker"}
    )
    assert answer.status_code == 422


def test_the_card_names_everyone_and_is_signed(
    client: httpx.Client, office: Config, everything: dict[str, str]
) -> None:
    place = "/api/v1/datasets/patients/card"
    asked = client.post(
        "/api/v1/datasets/patients/ask",
        headers=bearer(token_for(office, "bob")),
        json=SMOKERS | {"purpose": "The board"},
    )
    answered = asked.json()
    page = client.get(place, headers=everything)
    key = client.get("/api/v1/key").json()["key"].encode()
    said = verify_card(page.text, key)
    assert said["issuer"] == "The test office" and said["title"] == "Patients"
    mine = next(one for one in said["releases"] if one["entry"] == answered["entry"])
    assert mine["who"] == "bob" and 0 < mine["share"] < 1 and mine["question"] == "beta-bernoulli of smoker"
    assert mine["purpose"] == "The board"
    assert str(office.path.parent) not in page.text and "Smith" not in page.text
    assert client.get(place, headers=bearer(token_for(office, "bob"))).status_code == 403


@pytest.fixture
def page(own_office: Config) -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with served(own_office) as client, playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        found = browser.new_context(base_url=str(client.base_url)).new_page()
        found.set_default_timeout(60_000)
        found.errors = []
        found.on("pageerror", lambda error: found.errors.append(str(error)))
        found.on("console", lambda said: found.errors.append(said.text) if "Security" in said.text else None)
        found.goto("/")
        found.get_by_label("Token", exact=True).fill(token_for(own_office, "ada", "read", "plan", "ask", "admin"))
        found.get_by_role("button", name="Log in").click()
        found.get_by_role("heading", name="Data sets").wait_for()
        yield found
        assert found.errors == []
        browser.close()


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_two_sliders_move_each_other_and_the_card_is_styled(page: Any) -> None:
    page.get_by_role("link", name="Accuracy and risk").first.click()
    page.get_by_label("The question").fill("proportion of smoker by ward")
    page.get_by_role("button", name="Show").click()
    page.get_by_role("heading", name="proportion of smoker by ward").wait_for()

    def said() -> tuple[float, float, float]:
        words = [page.locator(f"#{name}-said").inner_text() for name in ("accuracy", "risk", "share")]
        return float(words[0]), float(words[1]), float(words[2].split()[0])

    accuracy, risk = page.locator("#accuracy"), page.locator("#risk")
    seen = []
    for place in ("0", "500", "900", "1000"):
        accuracy.fill(place)
        seen.append((*said(), float(risk.input_value())))
    widths, risks, shares, places = zip(*seen, strict=True)
    assert list(widths) == sorted(widths, reverse=True) and widths[0] > 2 * widths[-1]
    assert list(risks) == sorted(risks) and list(places) == sorted(places) and places[-1] == 1000
    assert list(shares) == sorted(shares) and shares[-1] == 100
    risk.fill("0")
    assert float(accuracy.input_value()) == 0 and said()[2] == pytest.approx(0.1)
    dot = page.locator("#dot-risk")
    left = float(dot.get_attribute("cx"))
    risk.fill("800")
    assert float(dot.get_attribute("cx")) > left
    page.goto("/data/patients/balance?question=nonsense")
    assert "a question reads like" in page.get_by_role("alert").inner_text()
    page.goto("/data/patients/card")
    assert page.locator("h1").inner_text() == "Patients"
    assert page.evaluate("getComputedStyle(document.querySelector('section')).borderRadius") == "10px"
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.pdf(prefer_css_page_size=True)[:5] == b"%PDF-"
