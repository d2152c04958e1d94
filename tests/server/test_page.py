"""The page in a real browser: log in, plan, ask, see the budget fall, exceed it and read a helpful refusal."""

from __future__ import annotations

import re
import shutil
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx
import pytest

from sottovoce.faces.server.config import Config
from support.offices import served, token_for
from support.visitors import Visitor, with_mechanisms

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
    # Pages of the browser's own, behind an address bar that nobody sees.
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup",
]
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")


class Window(NamedTuple):
    """One window for all visits, one after the other: a browser takes longer to open one than a test to use it.

    All offices are met at one door: for another address, and for none, a browser starts another process.
    """

    page: Any
    door: socket.socket


@pytest.fixture(scope="module")
def window() -> Iterator[Window]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver, socket.create_server(("127.0.0.1", 0)) as door:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=120_000)
        yield Window(browser.new_page(), door)
        browser.close()


class Visit:
    """A visit to one server, with all that the window asked for and all that went wrong in it."""

    def __init__(self, page: Any, client: httpx.Client, token: str, width: int) -> None:
        self.page, self.base, self.token, self.requests, self.errors = page, str(client.base_url), token, [], []
        Visitor(client).log_in(token)
        cookies = [{"name": one.name, "value": one.value, "url": self.base} for one in client.cookies.jar]
        page.context.clear_cookies()
        page.context.add_cookies(cookies)  # a browser takes longer to show a form than a test to use it
        page.set_viewport_size({"width": width, "height": 740})
        page.emulate_media(color_scheme="light", reduced_motion="reduce")  # frames of a scroll take long to draw
        page.set_default_timeout(120_000)
        self.hears = {
            "request": lambda request: self.requests.append(request.url),
            "pageerror": lambda error: self.errors.append(str(error)),
            "console": lambda said: self.errors.append(said.text) if "Security" in said.text else None,
        }
        for event, heard in self.hears.items():
            page.on(event, heard)

    def goto(self, path: str) -> None:
        self.page.goto(self.base.rstrip("/") + path)

    def log_in(self) -> None:
        """Come in by the form, and by the links from there."""
        self.page.context.clear_cookies()
        self.goto("/")
        self.page.get_by_label("Token", exact=True).fill(self.token)
        self.page.get_by_role("button", name="Log in").click()
        self.page.get_by_role("heading", name="Data sets").wait_for()
        self.page.get_by_role("link", name="Patients").click()
        self.page.get_by_role("heading", name="Patients").wait_for()
        self.page.get_by_role("link", name="Choose model and mechanism yourself").click()
        self.page.locator("#plan table").wait_for()

    def open(self) -> None:
        """Go to the form of models and mechanisms, which plans as soon as it is there."""
        self.goto("/data/patients/models")
        self.page.locator("#plan table").wait_for()

    def ask(self) -> None:
        with self.page.expect_response(re.compile("/(ask|answer)$")):
            self.page.get_by_role("button", name="Ask and pay").click()
        self.page.locator("button#ask:not([disabled])").wait_for()
        self.page.locator("#result .card").wait_for()

    def left(self) -> float:
        """What the page says is left of one's own budget, in percent."""
        words = self.page.locator("#budget .gauge").first.inner_text()
        return float(re.search(r"([\d.]+) % left", words)[1])

    def close(self) -> None:
        assert not self.errors, self.errors
        outside = [url for url in self.requests if urlsplit(url).netloc != urlsplit(self.base).netloc]
        assert not outside, outside
        for event, heard in self.hears.items():
            self.page.remove_listener(event, heard)
        self.page.evaluate("localStorage.clear(); sessionStorage.clear()")


@contextmanager
def visiting(window: Window, config: Config, *scopes: str, width: int = 1280) -> Iterator[Visit]:
    with served(config, window.door) as client:
        visit = Visit(window.page, client, token_for(config, "ada", *scopes), width)
        yield visit
        visit.close()


@pytest.fixture
def visit(window: Window, own_office: Config) -> Iterator[Visit]:
    with visiting(window, with_mechanisms(own_office, "direct", "diffused", "laplace")) as visit:
        yield visit


@needs_browser
def test_plan_ask_see_the_answer_and_the_budget_fall_then_exceed_it(visit: Visit) -> None:
    page = visit.page
    visit.log_in()
    assert visit.left() == 100
    page.get_by_label("Mechanism", exact=True).select_option("diffused")
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
def test_a_whole_posterior_comes_with_its_interval_the_meter_counts_down_and_a_reload_pays_nothing(
    visit: Visit,
) -> None:
    page = visit.page
    visit.open()
    assert page.locator("#plan tr.chosen").inner_text().startswith("laplace")  # chosen unless someone chooses

    def more() -> int:
        return int(page.locator(".meter-words strong").first.inner_text().replace(",", ""))

    before = more()
    visit.ask()
    page.locator("html:not(.busy)").wait_for(state="attached")
    assert before - 2 <= more() < before
    assert "90 % between" in page.locator("#result .value").inner_text()
    left = visit.left()
    assert left < 100
    page.reload()
    page.locator("#history tbody tr").first.wait_for()
    assert visit.left() == left


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
        place, shown = page.evaluate(
            """() => { const e = document.activeElement;
                       const seen = e === document.body || getComputedStyle(e).outlineStyle !== 'none';
                       return [e.id, seen || e.outerHTML]; }"""
        )
        reached.add(place)
        assert shown is True, shown
    assert {"column", "query", "strength", "mechanism", "ask"} <= reached
    page.get_by_label("Draws").focus()
    with page.expect_response("**/ask"):
        page.keyboard.press("Enter")
    page.locator("#result .answer").wait_for()
    assert page.evaluate("document.activeElement.id") == "result"
    assert page.locator("#result").get_attribute("aria-live") == "polite"


@needs_browser
def test_ask_by_group_in_words_read_the_answer_and_see_what_is_left(visit: Visit) -> None:
    page = visit.page
    visit.goto("/data/patients")
    page.get_by_label("What do you want to know?").select_option("mean")
    # Only what the verb takes is offered: no mean of a flag or a category, no exposure.
    offered = page.locator("#f-column option:not([disabled])").all_inner_texts()
    assert offered == ["age", "visits", "wait"]
    assert page.locator("#f-column").input_value() == "age"
    page.get_by_role("checkbox", name="ward").check()
    page.get_by_label("Only records where").fill("age >= 40")
    page.get_by_label("Share of your budget to pay, in %").fill("20")
    assert "pays for about 5 such answers" in page.locator("#spend-help").inner_text()
    visit.ask()
    answer = page.locator("#result .answer")
    assert "Mean of age by ward where age >= 40" in answer.inner_text()
    assert answer.locator("tbody tr").count() == 3 == answer.locator("tbody svg").count()
    assert page.evaluate("document.querySelector('#result').getBoundingClientRect().top < 200")
    assert "It cost 20 % of your budget. 80 % left: about 4 more like the last." in answer.inner_text()
    assert {"most plausible", "95 % range"} <= set(answer.locator(".keys > span").all_inner_texts())
    assert "In 95 of 100 answers like this one" in answer.inner_text()
    assert visit.left() == pytest.approx(80, abs=0.1)
    assert "pays for about 4 such answers" in page.locator("#spend-help").inner_text()
    # Seeing it again is free, from the list of what was asked.
    first = answer.locator("tbody").inner_text()
    visit.goto("/data/patients")
    page.get_by_role("link", name="see it again, free").click()
    assert page.locator("#result tbody").inner_text() == first
    assert visit.left() == pytest.approx(80, abs=0.1)
    # Two groups beside each other, free.
    page.get_by_label("Compare").select_option("S")
    page.get_by_label("with").select_option("E")
    page.get_by_role("button", name="Compare, free").click()
    page.locator(".contrast").wait_for()
    said = page.locator(".contrast").inner_text()
    assert re.search(r"S less E: (\?|-?[\d.]+) \(95.% range: -?[\d.]+ to -?[\d.]+\)", said), said
    assert page.locator("#result tbody").inner_text() == first
    assert page.get_by_label("with").evaluate("e => e.selectedOptions[0].text") == "E"
    assert visit.left() == pytest.approx(80, abs=0.1)
    # More than is left is refused, and what is left is offered.
    page.get_by_label("Share of your budget to pay, in %").fill("90")
    visit.ask()
    assert "asks for 90 % of your budget, and 80 % is left" in page.locator("#result").inner_text()
    with page.expect_response("**/answer"):
        page.get_by_role("button", name="Ask with").click()
    page.locator("#result .answer").wait_for()
    assert visit.left() == pytest.approx(0, abs=0.2)


@needs_browser
def test_what_one_verb_needs_and_another_may_have_is_empty_until_it_is_chosen(
    window: Window, own_office: Config
) -> None:
    """A regression of the page is no regression of hazards, nor one with an exposure, unless somebody says so."""
    with visiting(window, own_office) as visit:
        page = visit.page
        page.set_default_timeout(20_000)
        visit.goto("/data/patients")
        verb, event, exposure = page.locator("#verb"), page.locator("#f-event"), page.locator("#f-exposure")
        verb.select_option("regress")
        assert (event.input_value(), exposure.input_value()) == ("", "")
        verb.select_option("survival")
        assert event.input_value() == "smoker"
        verb.select_option("regress")
        assert event.input_value() == ""
        page.get_by_label("Formula").fill("smoker ~ age")
        visit.ask()
        assert "smoker ~ age" in page.locator("#result .answer").inner_text()
        if not page.locator("#asking details").get_attribute("open"):
            page.locator("#asking summary").first.click()
        verb.select_option("ratio")
        exposure.select_option("wait")  # by hand, and so it is kept
        verb.select_option("regress")
        assert exposure.input_value() == "wait"


@needs_browser
def test_pages_and_answers_fit_a_phone_in_both_themes_with_readable_contrast(
    window: Window, own_office: Config
) -> None:
    with visiting(window, own_office, width=360) as visit:
        page = visit.page
        visit.open()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360

        def readable(*selectors: str) -> None:
            """In the theme that the window asks for, while none was chosen, and in the other, which a click chooses."""
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                page.evaluate("localStorage.removeItem('theme'); delete document.documentElement.dataset.theme")
                for _ in range(2):
                    for selector, found in contrasts(page, selectors).items():
                        assert found >= 4.5, (scheme, selector)
                    page.get_by_role("button", name="Switch between light and dark").click()

        readable("h1", ".lead", "label", ".primary", ".help")
        visit.goto("/data/patients")
        page.set_viewport_size({"width": 390, "height": 844})
        page.get_by_label("What do you want to know?").select_option("counts")
        for name in ("columns:smoker", "columns:ward"):
            page.locator(f"input[name='{name}']").check()
        visit.ask()
        page.get_by_role("button", name="Compare, free").click()
        page.locator(".contrast").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        cut = page.evaluate(
            """() => [...document.querySelectorAll('main *')].filter(e => !e.closest('.sr, [hidden], pre, details'))
                     .filter(e => e.getBoundingClientRect().width && (e.getBoundingClientRect().right > 390.5
                              || (e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX !== 'visible')))
                     .filter(e => !e.closest('thead') && !['SELECT', 'INPUT'].includes(e.tagName))
                     .map(e => e.outerHTML.slice(0, 120))"""
        )
        assert cut == []
        within = page.evaluate(
            """() => [...document.querySelectorAll('.answer .compare select')].map(e => {
                       e.options[0].text = 'a group of a long name / under 18 years of age'
                       const card = e.closest('.card')
                       return card.getBoundingClientRect().right - parseFloat(getComputedStyle(card).paddingRight)
                              - e.getBoundingClientRect().right })"""
        )
        assert len(within) == 3 and min(within) >= 0  # also where groups have long names
        readable("h1", ".lead", ".answer td.range", ".answer .keys", ".answer p", ".contrast p", "#history .small")
        left = visit.left()
        assert page.locator("#foresee").is_disabled()  # Enter presses the first button that is not
        page.get_by_label("What do you want to know?").select_option("regress")
        page.get_by_label("Formula").fill("smoker ~ age")
        page.get_by_label("Imagined").press("Enter")
        page.locator("#foreseen .widths").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert visit.left() == left and page.locator(".widths tbody tr").count() == 2
        readable(".widths th[scope=row]", ".widths td", ".widths td.soft", "#foreseen p.soft", "#imagine-help")


def contrasts(page: Any, selectors: Sequence[str]) -> dict[str, float]:
    """The contrast ratio of each element's text with what is behind it (WCAG)."""
    colours = page.evaluate(
        """selectors => selectors.map(selector => {
             let element = document.querySelector(selector);
             const front = getComputedStyle(element).color;
             const clear = e => getComputedStyle(e).backgroundColor === 'rgba(0, 0, 0, 0)';
             while (element && clear(element)) element = element.parentElement;
             return [front, getComputedStyle(element ?? document.documentElement).backgroundColor];
           })""",
        selectors,
    )

    def luminance(colour: str) -> float:
        parts = [int(p) / 255 for p in re.findall(r"\d+", colour)[:3]]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    def ratio(front: str, behind: str) -> float:
        light, dark = sorted((luminance(front), luminance(behind)), reverse=True)
        return (light + 0.05) / (dark + 0.05)

    return {selector: ratio(*pair) for selector, pair in zip(selectors, colours, strict=True)}


@needs_browser
def test_every_kind_of_column_can_be_planned_and_asked(window: Window, own_office: Config) -> None:
    with visiting(window, with_mechanisms(own_office, "diffused")) as visit:
        visit.open()
        page = visit.page
        for column in ("age", "visits", "wait", "ward", "place"):
            page.get_by_label("Column").select_option(column)
            visit.ask()
            page.locator(f"#result .answer:has-text('of {column}')").wait_for()
            assert page.locator("#result .refusal").count() == 0
        page.get_by_label("Column").select_option("")
        page.get_by_label("Only records where").fill("age > 40 and ward = 'N'")
        visit.ask()
        page.locator("#result .answer:has-text('of all records')").wait_for()
        assert page.locator("#result .refusal").count() == 0


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
    assert "<script>" in page.locator("#result").inner_text()


@needs_browser
def test_two_sliders_move_each_other_and_the_card_is_styled(window: Window, own_office: Config) -> None:
    with visiting(window, own_office, "read", "plan", "ask", "admin") as visit:
        assert_sliders_and_card(visit)


def assert_sliders_and_card(visit: Visit) -> None:
    page = visit.page
    visit.goto("/")
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
    visit.goto("/data/patients/balance?question=nonsense")
    assert "a question reads like" in page.get_by_role("alert").inner_text()
    visit.goto("/data/patients/card")
    assert page.locator("h1").inner_text() == "Patients"
    assert page.evaluate("getComputedStyle(document.querySelector('section')).borderRadius") == "10px"
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.pdf(prefer_css_page_size=True)[:5] == b"%PDF-"
