"""The parts of the page that need no browser: charts, sessions, forms, answers as pictures, the meter."""

from __future__ import annotations

import html
import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from sottovoce.faces.client.errors import NotFound, TooManyRequests
from sottovoce.faces.server.page.answered import answer_view
from sottovoce.faces.server.page.charts import Chart, ChartAxis, bars, curves, dots, number, rail
from sottovoce.faces.server.page.forms import (
    likely_system,
    prior_values,
    purse_of,
    question_of,
    read_form,
    share_target,
)
from sottovoce.faces.server.page.planner import meter
from sottovoce.faces.server.page.rendering import Rendering, unbroken
from sottovoce.faces.server.page.sessions import Sessions
from sottovoce.faces.server.page.verb_page import _ratios
from sottovoce.mechanisms.conjugate import BetaBernoulli, DirichletCategorical, GammaPoisson, NormalMean
from sottovoce.mechanisms.conjugate.named_systems import SYSTEMS, column_systems
from sottovoce.privacy.errors import InvalidValue, LedgerCorrupt, LedgerUnavailable
from sottovoce.privacy.filter import PrivacyFilter
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.promises import ApproxDP, GaussianDP, PureDP, RenyiDP, ZeroConcentratedDP
from sottovoce.privacy.pure import PureProfile
from sottovoce.privacy.relation import ADD_REMOVE
from sottovoce.records.facts import Category, Count, Facts, Flag, Number, Vector
from sottovoce.service.ledger import EntryPending
from sottovoce.theory.metric.distinguishability import answers_left, one_guess

TRAP = '"><script>alert(1)</script>'
BUDGETS = [PureDP(1.0), ApproxDP(1.0, 1e-6), RenyiDP(8.0, 0.5), ZeroConcentratedDP(0.3), GaussianDP(0.7)]


def status(purse: PrivacyFilter) -> dict[str, object]:
    """What the service says of a budget."""
    return {
        "budget": purse.budget.to_dict(),
        "remaining": purse.remaining().to_dict(),
        "spent": purse.spent / purse.limit,
    }


def test_curves_pass_through_every_known_row_and_end_before_what_is_not_known():
    """Each group has a chart, on the same axes; its band is between the ends of its rows."""
    times, ends = (50.0, 100.0, 200.0), {"A": (0.9, 0.6, 0.5), TRAP: (0.8, 0.4, None)}
    rows = [
        {"ward": ward, "days": time, "estimate": y, "low": 0.0 if y is None else y - 0.1, "high": (y or 0.9) + 0.1}
        for ward, values in ends.items()
        for time, y in zip(times, values, strict=True)
    ]
    drawn = dict(curves(rows, ["ward"], "days", "95 %"))
    assert list(drawn) == ["A", TRAP]
    for name, picture in drawn.items():
        assert "<script" not in picture
        paths = {one.get("class"): one.get("d") for one in ElementTree.fromstring(picture).iter() if one.get("d")}
        line = np.array([[float(x) for x in point.split()] for point in re.split("[ML]", paths["line one"])[1:]])
        known = [(0.0, 1.0), *((t, y) for t, y in zip(times, ends[name], strict=True) if y is not None)]
        left, right, top, base = 68.0, 400.0 - 12.0, 12.0, 240.0 - 40.0
        wanted = [(left + (right - left) * t / 200, base - (base - top) * y) for t, y in known]
        np.testing.assert_allclose(line, wanted, atol=0.06)
        band = np.array(
            [[float(x) for x in p.split()] for p in re.split("[ML]", paths["area one"].removesuffix(" Z"))[1:]]
        )
        assert len(band) == 2 * len(known)
        np.testing.assert_allclose(band[1 : len(known), 1] - line[1:, 1], 0.1 * (base - top), atol=0.11)  # below
        np.testing.assert_allclose(line[1:, 1] - band[::-1][1 : len(known), 1], 0.1 * (base - top), atol=0.11)
        assert ("not known" in picture) == (name == TRAP)


def test_words_in_a_chart_are_escaped():
    chart = Chart(ChartAxis(0, 1, TRAP), ChartAxis(0, 1, TRAP), TRAP, TRAP)
    chart.upright(0.5, "one", TRAP)
    pictures = [
        chart.svg(),
        bars([(TRAP, 1.0, TRAP, "one")], 0.5, TRAP, TRAP, TRAP),
        dots([(TRAP, 0.0, 0.5, 1.0, TRAP)], TRAP, TRAP),
        rail(0.5, [(0.5, TRAP, "limit")], TRAP, TRAP),
    ]
    for picture in pictures:
        assert "<script" not in picture
        root = ElementTree.fromstring(str(picture))  # well formed
        assert root.attrib["role"] == "img" and TRAP in root.attrib["aria-label"]


@pytest.mark.parametrize(
    ("axis", "ticks"),
    [
        (ChartAxis(0.0, 1.0, ""), [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (ChartAxis(1e-9, 1.0, "", log=True), [1e-9, 1e-7, 1e-5, 1e-3, 1e-1]),
        (ChartAxis(0.2, 4.2, "", log=True), [0.2, 0.5, 1.0, 2.0]),
        (ChartAxis(5.0, 5.0, ""), [5.0]),
        (ChartAxis(0.0, 2.0, "", whole=True), [0.0, 1.0, 2.0]),
    ],
)
def test_ticks_are_round_numbers(axis, ticks):
    assert axis.ticks() == pytest.approx(ticks)


def test_a_place_beyond_the_ends_stays_at_the_end():
    axis = ChartAxis(1e-6, 1.0, "", log=True)
    assert [axis.place(v) for v in (0.0, 1e-9, 1e-3, 5.0)] == pytest.approx([0.0, 0.0, 0.5, 1.0])


@pytest.mark.parametrize("value", [0.0, -0.0123, 99999.0, 1e5, 1e-300, math.inf, -math.inf])
def test_a_number_reads_back(value):
    text = number(value).replace("∞", "inf").replace(",", "")
    assert float(text) == pytest.approx(value, rel=6e-3)


def test_a_session_ends_and_cannot_be_made_up():
    now = [1000.0]
    sessions = Sessions(b"secret", clock=lambda: now[0])
    cookie = sessions.open("0123456789abcdef")
    session = sessions.read(cookie)
    assert session is not None and session.token == "0123456789abcdef"
    now[0] += Sessions.lifetime - 1
    assert sessions.read(cookie) == session
    now[0] += 1
    assert sessions.read(cookie) is None
    now[0] = 1000.0
    assert Sessions(b"another", clock=lambda: now[0]).read(cookie) is None
    later = re.sub(r"\.(\d+)\.", lambda m: f".{int(m[1]) + 999}.", cookie)
    for bad in (None, "", later, cookie.upper(), cookie + "0", cookie.replace("0123456789abcdef", "f" * 16), "a.b.c.d"):
        assert sessions.read(bad) is None
    other = sessions.read(sessions.open("0123456789abcdef"))
    assert not sessions.fits(other, sessions.seal(session))
    assert not sessions.fits(session, sessions.visitor_seal(session.name))
    assert not sessions.visitor_fits("", sessions.visitor_seal(""))


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_a_share_of_a_budget_costs_that_share(budget):
    purse = PrivacyFilter(budget)
    target = share_target(purse, 25.0)
    match target:
        case PureDP(epsilon):
            cost = purse.cost(PureProfile(epsilon))
        case GaussianDP(mu):
            cost = purse.cost(GaussianProfile(mu))
        case ZeroConcentratedDP(rho):
            cost = purse.cost(GaussianProfile(math.sqrt(2 * rho)))
        case RenyiDP(order, epsilon):
            cost = purse.cost(GaussianProfile(math.sqrt(2 * epsilon / order)))
    assert cost == pytest.approx(purse.limit / 4, rel=1e-9)


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_a_purse_is_what_the_service_said(budget):
    purse = PrivacyFilter(budget, costs=[0.1])
    again = purse_of(status(purse))
    assert again.budget == purse.budget and again.order == purse.order
    assert again.spent == pytest.approx(purse.spent)


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_the_meter_says_what_the_theory_says(budget):
    profile = PureProfile(0.01)
    purse = PrivacyFilter(budget, costs=[PrivacyFilter(budget).limit / 3])
    shown = meter(profile, profile, {"whole": status(purse), "yours": status(purse)})
    assert shown["left"] == pytest.approx(answers_left(purse, profile, 0.05), abs=1)
    assert shown["fits"] == pytest.approx((purse.limit - purse.spent) / purse.cost(profile), abs=1)
    assert shown["spent"] == pytest.approx(purse.spent / purse.cost(one_guess(0.05)))
    assert shown["guess"] == pytest.approx((1 + math.tanh(0.005)) / 2)
    assert shown["table"] == pytest.approx(shown["guess"])  # of all records at once, were they tossed


def test_the_meter_counts_a_replaced_record_twice_where_n_is_a_secret():
    purse = PrivacyFilter(GaussianDP(1.0, relation=ADD_REMOVE))
    one = GaussianProfile(0.2, relation=ADD_REMOVE)
    shown = meter(one, one, {"whole": status(purse), "yours": None})
    assert shown["table"] == pytest.approx((1 + GaussianProfile(0.4).delta(0.0)) / 2)
    assert shown["table"] > shown["guess"]


def test_the_meter_of_what_never_fits_shows_none_left():
    purse = PrivacyFilter(PureDP(1.0))
    shown = meter(GaussianProfile(1.0), GaussianProfile(1.0), {"whole": status(purse), "yours": None})
    assert shown["left"] == 0 and shown["fits"] == 0 and shown["yours"] is None


def quantiles_of(draws):
    levels = [k / 100 for k in range(1, 100)]
    return {
        "mean": np.mean(draws, axis=0).tolist(),
        "sd": np.std(draws, axis=0).tolist(),
        "levels": levels,
        "quantiles": np.quantile(draws, levels, axis=0).tolist(),
    }


RNG = np.random.default_rng(0)
VIEWS = [
    pytest.param(BetaBernoulli(6, 12), {"query": "theta", "answer": 0.3}, "samples", "0.3", id="one draw"),
    pytest.param(
        BetaBernoulli(6, 12), {"query": "theta", "answer": [0.2, 0.4]}, "samples", "2 draws, mean 0.3", id="two draws"
    ),
    pytest.param(
        GammaPoisson(2, 1, high=10), {"query": "probability(x > 2)", "answer": 0.25}, "samples", "0.25", id="an event"
    ),
    pytest.param(BetaBernoulli(6, 12), {"query": "log(theta - 1)", "answer": None}, "words", "no number", id="none"),
    pytest.param(
        DirichletCategorical((1.0, 1.0), categories=("N", "S")), {"query": "draw(x)", "answer": "N"}, "words", "N",
        id="a category",
    ),
    pytest.param(
        DirichletCategorical((1.0, 1.0), categories=("N", TRAP)), {"query": "theta", "answer": [0.25, 0.75]}, "vector",
        "N 0.25", id="shares drawn",
    ),
    pytest.param(
        BetaBernoulli(6, 12), {"query": "theta"} | quantiles_of(RNG.beta(30, 70, 4000)), "posterior", "90 % between",
        id="a posterior",
    ),
    pytest.param(
        NormalMean(variance=1.0, prior_variance=1.0, radius=1.0, dimension=2),
        {"query": "theta"} | quantiles_of(RNG.normal(0, 0.1, (4000, 2))), "vector", "θ[0]", id="a plane",
    ),
    pytest.param(
        DirichletCategorical((1.0, 1.0), categories=("N", "S")), {"query": "draw(x)", "shares": {"N": 0.4, "S": 0.6}},
        "shares", "N 40 %", id="shares of draws",
    ),
    pytest.param(
        BetaBernoulli(6, 12), {"query": "theta", "mean": 0.5, "sd": 0.0, "levels": [k / 100 for k in range(1, 100)],
        "quantiles": [0.5] * 99}, "posterior", "0.5", id="an atom",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("system", "value", "kind", "words"), VIEWS)
def test_every_answer_has_words_and_a_picture(system, value, kind, words):
    view = answer_view(value, system)
    assert view["kind"] == kind
    assert words in view["words"]
    if kind == "words":
        assert view["picture"] is None
    else:
        assert "<script" not in view["picture"]
        ElementTree.fromstring(str(view["picture"]))


def test_a_drawn_density_is_the_density():
    """The curve that quantiles give, against the normal law they come from."""
    from scipy import stats

    from sottovoce.faces.server.page.answered import _from_quantiles

    points = np.array(_from_quantiles(stats.norm.ppf(np.linspace(0.01, 0.99, 99))))
    inside = np.abs(points[:, 0]) < 1.5
    assert np.abs(points[inside, 1] - stats.norm.pdf(points[inside, 0])).max() < 0.03


FACTS = [Number(0, 2.5), Number(-1, 1), Number(0, 1e-4), Number(0, 1e6), Category(["a", "b"]), Count(10), Flag()]


@pytest.mark.parametrize("fact", [*FACTS, Vector(["x", "y"], 2.0)])
def test_the_first_prior_of_every_column_is_allowed(fact):
    words = [word for word, kind in column_systems().items() if kind.usual(fact) is not None]
    column = {"name": "a", "facts": fact.to_dict(), "systems": words}
    form = prior_values(column) | {"strength": "0.5", "promise": "pure"}
    assert words
    for word in words:
        settings = question_of(form | {"system": word}, None, 1).system
        assert set(settings) == {"kind", *column_systems()[word].settings}
        SYSTEMS[word].from_facts(settings, Facts({"a": fact}), "a")


def test_a_form_proposes_the_system_that_a_column_calls_for():
    for fact, likely in [(Count(100), "normal-mean"), (Count(10), "gamma-poisson"), (Number(0, 1), "normal-mean")]:
        words = [word for word, kind in column_systems().items() if kind.usual(fact) is not None]
        assert likely_system({"facts": fact.to_dict(), "systems": words}) == likely
    assert likely_system(None) == "beta-bernoulli"


@pytest.mark.parametrize(
    ("error", "status", "shown"),
    [
        (LedgerUnavailable("no /var/ledger"), 503, False),
        (LedgerCorrupt("event 7 of /var/ledger"), 503, False),
        (EntryPending("close it: sottovoce ledger recover … 7"), 409, False),
        (NotFound("no data set 'x'"), 404, True),
        (TooManyRequests("wait 3 s", 3.0), 429, True),
        (InvalidValue("alpha is <b>"), 422, True),
    ],
)
def test_a_refusal_is_a_page_that_names_nothing_inside(error, status, shown):
    response = Rendering("office").refused(error)
    assert response.status_code == status
    body = response.body.decode()
    assert (str(error) in html.unescape(body)) is shown
    assert "<b>" not in body and "/var" not in body


def test_a_form_is_read_into_a_question():
    form = read_form(b"column=ward&system=dirichlet-categorical&alpha=1%2C2&promise=approx&strength=0.5&draws=3")
    question = question_of(form, None, most_draws=5)
    assert question.system == {"kind": "dirichlet-categorical", "alpha": [1.0, 2.0]}
    assert question.target == "approx:0.5,1e-06" and question.draws == 3 and question.query == "theta"
    assert [question_of(form | {"missing": m}, None, 5).missing for m in ("", "true", "2", "N")] == [
        None,
        True,
        2.0,
        "N",
    ]
    with pytest.raises(InvalidValue, match="no budget here"):
        question_of(form | {"promise": "share"}, None, 5)
    with pytest.raises(InvalidValue, match="from 1 to 5"):
        question_of(form | {"draws": "6"}, None, 5)
    with pytest.raises(InvalidValue, match="cannot be read"):
        read_form(b"&".join(b"a%d=1" % k for k in range(200)))


def test_every_number_stays_on_one_line_with_its_sign() -> None:
    told = str(unbroken("asks for 9.5 % of <b>, and 90 % is left"))
    assert re.findall(r'<span class="unbroken">([^<]*)</span>', told) == ["9.5 %", "90 %"]
    assert "&lt;b&gt;" in told


def test_a_ratio_is_told_of_every_term_but_intercepts_and_of_none_that_no_number_holds() -> None:
    def row(term: str, low: float | None, high: float | None) -> dict[str, object]:
        ratio = {"odds_ratio": 2.0, "odds_ratio_low": 1.0, "odds_ratio_high": 3.0}
        return {"term": term, "low": low, "high": high} | ratio

    rows = [row("Intercept", 0.0, 1.0), row("S: Intercept", 0.0, 1.0), row("Intercepted", 0.0, 1.0)]
    rows += [row("x", -9.0, 9.0), row("x", 800.0, 801.0), row("x", None, None)]
    unsure = "too uncertain to tell"
    assert _ratios(rows) == {"name": "odds ratio", "rows": ["", "", "2.0 (1.0 to 3.0)", unsure, unsure, unsure]}
