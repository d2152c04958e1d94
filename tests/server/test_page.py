"""The page in a real browser: log in, plan, ask, see the budget fall, exceed it and read a helpful refusal."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from sottovoce.server.config import Config, read_config
from support.offices import served, token_for, write_office

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


class Visit:
    """One browser window on one server, with everything it asked for and everything that went wrong in it."""

    def __init__(self, browser: Any, base: str, **options: Any) -> None:
        self.context = browser.new_context(base_url=base, **options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(30_000)
        self.base, self.requests, self.errors = base, [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda said: self.errors.append(said.text) if "Security" in said.text else None)

    def log_in(self, token: str) -> None:
        self.page.goto("/")
        self.page.get_by_label("Token", exact=True).fill(token)
        self.page.get_by_role("button", name="Log in").click()
        self.page.get_by_role("heading", name="Data sets").wait_for()

    def open(self, title: str = "Patients") -> None:
        self.page.get_by_role("link", name=title).click()
        self.page.get_by_role("heading", name=title).wait_for()
        self.page.locator("#plan table").wait_for()

    def ask(self) -> None:
        with self.page.expect_response("**/ask"):
            self.page.get_by_role("button", name="Ask and pay").click()
        self.page.locator("#result .card").wait_for()

    def left(self) -> float:
        """What the page says is left of one's own budget, in percent."""
        words = self.page.locator("#budget .gauge").first.inner_text()
        return float(re.search(r"([\d.]+) % left", words)[1])

    def close(self) -> None:
        assert not self.errors, self.errors
        outside = [url for url in self.requests if urlsplit(url).netloc != urlsplit(self.base).netloc]
        assert not outside, outside
        self.context.close()


def with_mechanisms(config: Config, *names: str) -> Config:
    """Return the office with fewer mechanisms for patients: less to forecast."""
    words = ", ".join(f'"{name}"' for name in names)
    text = config.path.read_text(encoding="utf-8")
    config.path.write_text(text.replace("[datasets.patients]", f"[datasets.patients]\nmechanisms = [{words}]"), "utf-8")
    return read_config(config.path)


@pytest.fixture
def visit(browser: Any, own_office: Config) -> Iterator[Visit]:
    config = with_mechanisms(own_office, "direct", "diffused", "laplace")
    with served(config) as client:
        visit = Visit(browser, str(client.base_url))
        visit.log_in(token_for(config))
        yield visit
        visit.close()


@needs_browser
def test_plan_ask_see_the_answer_and_the_budget_fall_then_exceed_it(visit: Visit) -> None:
    page = visit.page
    visit.open()
    assert visit.left() == 100
    # The plan follows what is typed, and costs nothing.
    page.get_by_label("% of your budget").fill("40")
    page.get_by_text(re.compile(r"For a promise of renyi:8,0\.08\b")).wait_for()
    chosen = page.locator("#plan tr.chosen")
    assert "diffused" in chosen.inner_text() and "40 %" in chosen.inner_text()
    assert page.locator("#plan svg.chart").count() == 4  # the meter, the comparison, the forecast, the profile
    assert visit.left() == 100
    assert "diffused: interval" in page.locator("#said").inner_text()
    # Asking costs what was planned, and the answer comes as a number on the prior.
    visit.ask()
    assert visit.left() == pytest.approx(60, abs=0.1)
    value = float(page.locator("#result .value").inner_text())
    assert 0 < value < 1
    assert page.locator("#result svg .area.prior").count() == 1
    assert page.locator("#history tbody tr").count() == 1
    visit.ask()
    assert visit.left() == pytest.approx(20, abs=0.1)
    # The third does not fit: nothing is spent, and the page says what would fit.
    visit.ask()
    refusal = page.locator("#result").get_by_role("alert")
    assert "Nothing was spent" in refusal.inner_text()
    assert "costs 40 % of your budget, and 20 % is left" in refusal.inner_text()
    assert visit.left() == pytest.approx(20, abs=0.1)
    assert page.locator("#history tbody tr").count() == 2
    refusal.get_by_role("button", name="Plan that").click()
    page.get_by_text("For a promise of").wait_for()
    assert float(page.get_by_label("% of your budget").input_value()) <= 20
    visit.ask()
    assert page.locator("#result .answer").count() == 1
    assert visit.left() < 20


@needs_browser
def test_a_whole_posterior_comes_with_its_interval_and_a_reload_pays_nothing(visit: Visit) -> None:
    page = visit.page
    visit.open()
    page.get_by_label("Mechanism", exact=True).select_option("laplace")
    visit.ask()
    assert "90 % between" in page.locator("#result .value").inner_text()
    left = visit.left()
    assert left < 100
    page.reload()
    page.locator("#history tbody tr").first.wait_for()
    assert visit.left() == left


@needs_browser
def test_the_meter_counts_down(visit: Visit) -> None:
    page = visit.page
    visit.open()

    def more() -> int:
        return int(page.locator(".meter-words strong").first.inner_text().replace(",", ""))

    before = more()
    visit.ask()
    page.locator("html:not(.busy)").wait_for(state="attached")
    assert before - 2 <= more() < before


@needs_browser
def test_the_form_is_usable_by_keyboard_and_every_field_has_a_label(visit: Visit) -> None:
    page = visit.page
    visit.open()
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll('input:not([type=hidden]), select')]
                 .filter(f => !f.labels.length).map(f => f.name)"""
    )
    assert unnamed == []
    page.goto(page.url)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id"))
        shown = page.evaluate(
            """() => { const e = document.activeElement;
                       return e === document.body || getComputedStyle(e).outlineStyle !== 'none' || e.outerHTML; }"""
        )
        assert shown is True, shown
    assert {"column", "query", "strength", "mechanism", "ask"} <= reached
    page.get_by_label("Draws").focus()
    with page.expect_response("**/ask"):
        page.keyboard.press("Enter")
    page.locator("#result .answer").wait_for()
    assert page.evaluate("document.activeElement.id") == "result"
    assert page.locator("#result").get_attribute("aria-live") == "polite"


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_a_phone_in_both_themes_with_readable_contrast(
    browser: Any, own_office: Config, scheme: str
) -> None:
    with served(own_office) as client:
        size = {"width": 360, "height": 740}
        visit = Visit(browser, str(client.base_url), viewport=size, color_scheme=scheme)
        visit.log_in(token_for(own_office))
        visit.open()
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 360
        for selector in ("h1", ".lead", "label", ".primary", ".help"):
            assert contrast(visit.page, selector) >= 4.5, selector
        visit.page.get_by_role("button", name="Switch between light and dark").click()
        for selector in ("h1", ".lead", "label", ".primary", ".help"):
            assert contrast(visit.page, selector) >= 4.5, selector
        visit.close()


def contrast(page: Any, selector: str) -> float:
    """The contrast ratio of an element's text with what is behind it (WCAG)."""
    front, behind = page.evaluate(
        """selector => {
             let element = document.querySelector(selector);
             const front = getComputedStyle(element).color;
             const clear = e => getComputedStyle(e).backgroundColor === 'rgba(0, 0, 0, 0)';
             while (element && clear(element)) element = element.parentElement;
             return [front, getComputedStyle(element ?? document.documentElement).backgroundColor];
           }""",
        selector,
    )

    def luminance(colour: str) -> float:
        parts = [int(p) / 255 for p in re.findall(r"\d+", colour)[:3]]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(front), luminance(behind)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@needs_browser
def test_every_kind_of_column_can_be_planned_and_asked(browser: Any, own_office: Config) -> None:
    config = with_mechanisms(own_office, "diffused")
    with served(config) as client:
        visit = Visit(browser, str(client.base_url))
        visit.log_in(token_for(config))
        ask_of_every_column(visit)
        visit.close()


def ask_of_every_column(visit: Visit) -> None:
    page = visit.page
    visit.open()
    for column in ("age", "visits", "wait", "ward", "place"):
        page.get_by_label("Column").select_option(column)
        visit.ask()
        page.locator(f"#result .answer:has-text('of {column}')").wait_for()
    page.get_by_label("Column").select_option("")
    page.get_by_label("Only records where").fill("age > 40 and ward = 'N'")
    visit.ask()
    page.locator("#result .answer:has-text('of all records')").wait_for()


@needs_browser
def test_what_is_typed_is_shown_as_text_and_never_run(visit: Visit) -> None:
    page = visit.page
    visit.open()
    trap = "<img src=x onerror=\"document.title='caught'\">"
    page.get_by_label("Answer with").fill(trap)
    page.get_by_label("Only records where").fill("'\"><script>document.title='caught'</script>")
    visit.ask()
    assert page.title() != "caught"
    assert page.locator("#result img, #plan img").count() == 0
    assert (
        "<img" in page.locator("#result .refusal, #result .card").inner_text() or page.locator("#result").inner_text()
    )


# What needs no browser.


class Visitor:
    """A visitor without scripts: forms as the pages give them."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client
        client.cookies.clear()

    def log_in(self, token: str) -> httpx.Response:
        seal = self.seal(self.client.get("/login"))
        return self.client.post("/login", data={"seal": seal, "token": token})

    @staticmethod
    def seal(page: httpx.Response) -> str:
        return re.search(r'name="seal" value="([0-9a-f]+)"', page.text)[1]

    def fields(self, path: str = "/data/patients") -> dict[str, str]:
        page = self.client.get(path)
        key = re.search(r'name="key" value="([^"]+)"', page.text)[1]
        answer = {"seal": self.seal(page), "key": key, "column": "smoker", "system": "beta-bernoulli", "alpha": "6"}
        return answer | {"beta": "12", "promise": "renyi", "strength": "0.05", "second": "8", "mechanism": "diffused"}


@pytest.fixture
def visitor(own_office: Config) -> Iterator[Visitor]:
    with served(own_office) as client:
        visitor = Visitor(client)
        assert visitor.log_in(token_for(own_office)).status_code == 303
        yield visitor


def test_without_scripts_everything_works_too(visitor: Visitor) -> None:
    fields = visitor.fields()
    planned = visitor.client.post("/data/patients/plan", data=fields)
    assert planned.status_code == 200 and "renyi:8,0.05" in planned.text
    answered = visitor.client.post("/data/patients/ask", data=fields)
    assert answered.status_code == 200 and "Signed receipt" in answered.text
    again = visitor.client.post("/data/patients/ask", data=fields)  # the same form, sent twice: one answer, one price
    assert re.search(r'class="value">([^<]+)', again.text)[1] == re.search(r'class="value">([^<]+)', answered.text)[1]
    assert "75 % left" in again.text
    receipt = visitor.client.get(re.search(r'href="(/data/patients/receipts/\d+)"', again.text)[1])
    assert set(receipt.json()) == {"signed", "signature", "key"}


@pytest.mark.parametrize("seal", [None, "", "0" * 64, "é"])
def test_a_form_without_the_seal_of_the_session_is_refused_and_costs_nothing(
    visitor: Visitor, seal: str | None
) -> None:
    fields = visitor.fields()
    fields.pop("seal")
    if seal is not None:
        fields["seal"] = seal
    for action in ("/data/patients/ask", "/data/patients/plan", "/logout"):
        refused = visitor.client.post(action, data=fields)
        assert refused.status_code == 403
        assert "not made by your session" in refused.text
    assert "100 % left" in visitor.client.get("/data/patients").text


def test_the_seal_of_another_session_does_not_fit(own_office: Config) -> None:
    with served(own_office) as client:
        first, token = Visitor(client), token_for(own_office)
        first.log_in(token)
        theirs = first.fields()
        first.log_in(token)  # a second session of the very same token
        assert client.post("/data/patients/ask", data=theirs).status_code == 403
        first.log_in(token_for(own_office, "bob"))
        assert client.post("/data/patients/ask", data=theirs).status_code == 403


def test_a_login_form_of_another_site_is_refused(own_office: Config) -> None:
    with served(own_office) as client:
        token = token_for(own_office)
        for data in ({"token": token}, {"token": token, "seal": "0" * 64}):
            refused = client.post("/login", data=data)
            assert refused.status_code == 403
            assert not any("session" in name for name in client.cookies)


def test_the_session_cookie_cannot_be_read_sent_elsewhere_or_made_up(visitor: Visitor, own_office: Config) -> None:
    client = visitor.client
    cookie = client.cookies["sottovoce-session"]
    assert token_for(own_office)[21:] not in cookie
    fresh = Visitor(client)
    response = fresh.log_in(token_for(own_office))
    (header,) = [h for h in response.headers.get_list("set-cookie") if "session=" in h and "Max-Age=0" not in h]
    assert "HttpOnly" in header and "SameSite=strict" in header and "Path=/" in header
    body, _, tag = client.cookies["sottovoce-session"].rpartition(".")
    for forged in (f"{body}.{'0' * 64}", f"{body[:-1]}{(int(body[-1]) + 1) % 10}.{tag}", "x", ""):
        client.cookies.clear()
        client.cookies.set("sottovoce-session", forged)
        response = client.get("/")
        assert response.status_code == 303 and response.headers["location"] == "/login"


def test_a_revoked_token_ends_its_session_at_once(own_office: Config) -> None:
    from sottovoce.server.tokens import Tokens

    with served(own_office) as client:
        token = token_for(own_office)
        visitor = Visitor(client)
        visitor.log_in(token)
        fields = visitor.fields()
        with Tokens(own_office.tokens) as tokens:
            tokens.revoke(token.split("_")[1])
        for response in (client.get("/"), client.post("/data/patients/ask", data=fields)):
            assert response.status_code == 303 and response.headers["location"] == "/login"


def test_logging_out_ends_the_session(visitor: Visitor) -> None:
    seal = visitor.seal(visitor.client.get("/"))
    assert visitor.client.post("/logout", data={"seal": seal}).status_code == 303
    assert visitor.client.get("/").headers["location"] == "/login"


@pytest.mark.parametrize("token", ["", "sv1_0123456789abcdef_" + "a" * 43, "<script>", "' or 1=1 --", "é" * 5000])
def test_a_wrong_token_is_refused_without_an_echo(own_office: Config, token: str) -> None:
    with served(own_office) as client:
        refused = Visitor(client).log_in(token)
        assert refused.status_code == 401
        assert "unknown, expired or revoked" in refused.text
        assert token == "" or token not in refused.text


def test_guessing_tokens_is_slowed_down(tmp_path: Path) -> None:
    config = write_office(tmp_path, limits="answer_grid = 0.005\nfailures_per_minute = 5")
    with served(config) as client:
        visitor = Visitor(client)
        statuses = []
        for _ in range(8):
            page = client.get("/login")
            if page.status_code == 429:
                statuses.append(429)
                break
            statuses.append(client.post("/login", data={"seal": visitor.seal(page), "token": "sv1_x"}).status_code)
        assert statuses[0] == 401 and statuses[-1] == 429


def test_every_page_carries_the_security_headers_and_no_inline_code(visitor: Visitor) -> None:
    for path in ("/login", "/", "/data/patients", "/static/page.js", "/data/nowhere"):
        response = visitor.client.get(path)
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "script-src 'self'" in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["x-frame-options"] == "DENY"
        assert response.headers["referrer-policy"] == "no-referrer"
        if response.headers["content-type"].startswith("text/html"):
            assert not re.search(r"<script(?![^>]*src=)|\son\w+=|\sstyle=|https?://", response.text)
    assert visitor.client.get("/").headers["cache-control"] == "no-store"


def test_another_data_set_is_not_there(own_office: Config) -> None:
    with served(own_office) as client:
        visitor = Visitor(client)
        visitor.log_in(token_for(own_office, "bob"))
        assert "staff" not in client.get("/").text
        missing = [client.get(path) for path in ("/data/staff", "/data/<b>x</b>", "/data/..%2f..%2fetc")]
        assert {response.status_code for response in missing} == {404}
        assert all("<b>x" not in response.text for response in missing)
        fields = visitor.fields()
        assert client.post("/data/staff/ask", data=fields).status_code == 404
        assert client.get("/data/patients/receipts/999").status_code == 404
        assert client.get("/data/patients/receipts/x").status_code == 404
        assert client.get("/static/../sessions.py").status_code == 404
        assert client.get("/static/%2e%2e%2fsessions.py").status_code == 404


def test_an_administrator_sees_who_asked_what(own_office: Config) -> None:
    with served(own_office) as client:
        visitor = Visitor(client)
        visitor.log_in(token_for(own_office, "bob"))
        assert client.post("/data/patients/ask", data=visitor.fields()).status_code == 200
        visitor.log_in(token_for(own_office, "ada"))
        assert "bob" not in client.get("/data/patients").text
        visitor.log_in(token_for(own_office, "ada", "read", "plan", "admin"))
        page = client.get("/data/patients").text
        assert "<td>bob</td>" in page and "Who" in page


def test_a_quick_plan_leaves_the_slow_forecasts_for_later(visitor: Visitor) -> None:
    fields, where = visitor.fields(), "/data/patients/plan"
    quick = visitor.client.post(where, data=fields, headers={"X-Plan": "quick"}).text
    whole = visitor.client.post(where, data=fields, headers={"X-Plan": "whole"}).text
    assert quick.startswith('<div id="plan">') and "<html" not in quick
    assert quick.count("pending") == 2 and whole.count("pending") == 0


def test_the_log_and_the_metrics_name_the_page(visitor: Visitor, own_office: Config) -> None:
    token = token_for(own_office, "ada", "read", "admin")
    text = visitor.client.get("/metrics", headers={"Authorization": f"Bearer {token}"}).text
    assert 'route="/login"' in text


def test_a_token_without_the_scope_sees_but_does_not_ask(own_office: Config) -> None:
    with served(own_office) as client:
        visitor = Visitor(client)
        visitor.log_in(token_for(own_office, "ada", "read"))
        page = client.get("/data/patients")
        assert page.status_code == 200 and "does not reach to plans" in page.text
        assert "Ask and pay" not in page.text
        refused = client.post("/data/patients/ask", data=visitor.fields())
        assert refused.status_code == 403 and "scope" in refused.text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"strength": "many"}, "strength must be a number"),
        ({"strength": "nan"}, "strength must be finite"),
        ({"strength": "-1"}, "must be &gt; 0"),
        ({"promise": "share", "strength": "200"}, "at most at 100 %"),
        ({"promise": "magic"}, "no promise is called"),
        ({"alpha": "1e9"}, "alpha must lie between"),
        ({"alpha": "x"}, "alpha must be a number"),
        ({"column": "secret"}, "no column"),
        ({"system": "normal-mean"}, "must be one of"),
        ({"query": "__import__('os')"}, "query"),
        ({"draws": "1.5"}, "whole number"),
        ({"draws": "1e99"}, "draws must be"),
        ({"mechanism": "magic"}, "mechanism must be one of"),
        ({"where": "secret = 'Smith-7'"}, "no column"),
        ({"key": "k" * 300}, "not one that this page gives"),
    ],
)
def test_a_form_that_makes_no_sense_is_refused_in_words(visitor: Visitor, change: dict[str, str], words: str) -> None:
    refused = visitor.client.post("/data/patients/ask", data=visitor.fields() | change)
    assert refused.status_code == 422
    assert words in refused.text
    assert "100 % left" in refused.text


def test_a_form_that_cannot_be_read_is_refused(visitor: Visitor) -> None:
    body = b"seal=%ff&" + b"&".join(b"a%d=1" % i for i in range(100))
    response = visitor.client.post("/data/patients/ask", content=body)
    assert response.status_code == 422 and "cannot be read" in response.text


@pytest.mark.parametrize(
    ("budget", "mechanism", "more"),
    [
        ("pure:0.5", "tempered", {}),
        ("zcdp:0.05", "tempered", {}),
        ("gaussian:0.05", "diffused", {"column": "age", "system": "normal-mean"}),
        ("approx:4,1e-6", "diffused", {}),
    ],
)
def test_the_refusal_says_what_the_budget_still_covers(
    tmp_path: Path, budget: str, mechanism: str, more: dict[str, str]
) -> None:
    config = with_mechanisms(write_office(tmp_path, whole=budget, each=budget), mechanism)
    with served(config) as client:
        visitor = Visitor(client)
        visitor.log_in(token_for(config))
        asked = {"promise": "share", "strength": "70", "mechanism": mechanism, "second": "", **more}
        asked |= {"variance": "600", "prior_variance": "2500", "prior_mean": "50"}
        fields = visitor.fields() | asked
        assert client.post("/data/patients/ask", data=fields).status_code == 200
        refused = client.post("/data/patients/ask", data=fields | {"key": "another"})
        assert refused.status_code == 409 and "Nothing was spent" in refused.text
        _, _, rest = refused.text.partition('class="card refusal"')
        offer = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', rest.partition("</form>")[0]))
        assert 0 < float(offer["strength"]) <= 30
        granted = client.post("/data/patients/ask", data=offer | {"key": "a-third"})
        assert granted.status_code == 200
        assert float(re.search(r"([\d.]+) % left", granted.text)[1]) < 30
