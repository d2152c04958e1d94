"""Share, accuracy and risk: each leads to the others, and the forecast is what answers then show."""

import itertools
import json
import sys
from dataclasses import replace

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.faces.cli import main
from sottovoce.inference.cells.cell_mechanisms import mechanism_kind
from sottovoce.inference.cells.questions import Question
from sottovoce.mechanisms.release import Release
from sottovoce.privacy.errors import InvalidValue, PromiseUnreachable
from sottovoce.privacy.filter import PrivacyFilter
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.privacy.relation import REPLACE_ONE
from sottovoce.privacy.risk import success
from sottovoce.records.facts.assumed_distribution import AssumedDistribution
from sottovoce.service.answers.answer import Answer
from sottovoce.service.answers.trade_off import TradeOff

FACTS = sv.Facts(smoker=sv.Flag(), ward=sv.Category(["A", "B", "C"]), sbp=sv.Number(60, 250), visits=sv.Count(10))
BUDGET = sv.ApproxDP(1.0, 1e-6)


def asked(verb, column, **rest):
    return Question(verb, (column,), FACTS, **rest)


@pytest.mark.parametrize(
    "question",
    [
        asked("proportion", "smoker", by=("ward",)),
        asked("mean", "sbp", by=("ward",)),
        asked("mean", "sbp"),
        asked("counts", "ward"),
        asked("quantiles", "sbp", at=(0.5,)),
        asked("rate", "visits"),
    ],
    ids=lambda question: question.describe(),
)
def test_answers_are_as_wide_as_forecast(question):
    """Made-up records that are as imagined, answered by the very mechanism: the widest rows, over repeats."""
    n, share, rng = 3000, 0.05, np.random.default_rng(3)
    offer = TradeOff(question, n, BUDGET).at(share)
    purse = PrivacyFilter(BUDGET)
    mechanism = mechanism_kind(question, n).calibrate(question, n, purse.share(share), price=purse.cost)
    records = {
        "ward": np.repeat(["A", "B", "C"], n // 3),
        "smoker": np.tile([True, False], n // 2),
        "sbp": np.clip(rng.normal(155, 47.5, n), 60, 250),
        "visits": np.clip(np.rint(rng.normal(5, 2.5, n)), 0, 10),
    }
    widths = []
    for seed in range(3):
        value = mechanism.release(records, seeded_rng(seed)).value
        rows = Answer(Release(value, mechanism.profile, mechanism.to_dict())).rows
        widths.append(max(row["high"] - row["low"] for row in rows) / 2)
    assert offer.width == pytest.approx(np.mean(widths), rel=0.2)
    assert offer.success == success(mechanism.profile, 0.01)


MONTHS = sv.Facts(smoker=sv.Flag(), month=sv.Category(range(12)), visits=sv.Count(20), sbp=sv.Number(60, 250))
CLINIC = sv.Facts({**MONTHS, "who": sv.Person()})


@pytest.mark.parametrize(
    ("question", "n"),
    [
        (Question("proportion", ("smoker",), MONTHS, ("month",), pool=True), 20_000),
        (Question("mean", ("sbp",), MONTHS, ("month",), pool=True), 20_000),
        (Question("rate", ("visits",), MONTHS, ("month",), pool=True), 20_000),
        (Question("counts", ("month",), MONTHS, pool=True), 1000),
        (Question("quantiles", ("visits",), MONTHS, ("month",), at=(0.1, 0.5, 0.9)), 3000),
        (Question("proportion", ("smoker",), CLINIC, ("month",)), 20_000),
        (Question("proportion", ("smoker",), CLINIC), 1000),
    ],
    ids=lambda given: given.describe() if isinstance(given, Question) else str(given),
)
def test_forecasts_know_how_groups_stray(question, n):
    """Groups are alike, but chance and noise are not: widths of groups without either were up to 3.6 times too small.

    A flag is imagined by its share where persons are averaged too, and counts by their mean, wherever that lies.
    """
    relation = REPLACE_ONE if question.facts.person is None else REPLACE_ONE.of_person()
    share, rng, purse = 0.3, np.random.default_rng(3), PrivacyFilter(replace(BUDGET, relation=relation))
    said = {"smoker": 0.2} if question.columns_asked == ("smoker",) else {}
    said |= {"visits": 2.0} if question.columns_asked == ("visits",) else {}
    offer = TradeOff(question, n, purse, imagined=AssumedDistribution(columns=said)).at(share)
    mechanism = mechanism_kind(question, n).calibrate(question, n, purse.share(share), price=purse.cost)
    widths = []
    for seed in range(2):  # of one table to the next they differ by a twentieth or two
        records = {
            "month": rng.integers(0, 12, n),
            "smoker": rng.random(n) < 0.2,
            "sbp": np.clip(rng.normal(155, 47.5, n), 60, 250),
            "visits": np.minimum(rng.poisson(2.0, n), 20),
            "who": np.arange(n),
        }
        ends = mechanism.release(records, seeded_rng(seed)).value.interval()
        widths.append(np.max(ends[:, 1] - ends[:, 0]) / 2)
    assert 0.75 < np.mean(widths) / offer.width < 1.25


def test_there_and_back():
    balance = TradeOff(asked("proportion", "smoker", by=("ward",)), 9000, BUDGET)
    offer = balance.for_width(0.025)
    assert offer.width <= 0.025
    assert balance.at(offer.share * 0.98).width > 0.0248  # no less would do
    risky = balance.for_risk(0.012)
    assert risky.success <= 0.012 < balance.at(min(1.0, risky.share * 1.02)).success
    curve = list(balance.curve())
    assert all(a.width >= b.width * 0.99 for a, b in itertools.pairwise(curve))
    assert all(a.success <= b.success for a, b in itertools.pairwise(curve) if a.noise == b.noise)
    assert curve[-1].share == 1
    assert balance.for_width(1e6) == balance.at(1e-4)
    assert balance.for_risk(1.0) == balance.at(1.0)
    drawn = balance.plot(offer)
    assert len(drawn.axes) == 2


def test_out_of_reach_says_what_may_be_imagined():
    question, spread = asked("mean", "sbp", by=("ward",)), "say how far sbp spreads"
    for said, told in (({}, True), ({"sbp": 0.1}, False)):
        with pytest.raises(PromiseUnreachable, match="accept a wider interval, or ask about fewer groups") as refused:
            TradeOff(question, 9000, BUDGET, imagined=AssumedDistribution(columns=said)).for_width(0.1)
        assert (spread in str(refused.value)) == told


def test_the_risk_falls_where_the_noise_changes_and_no_share_is_missed():
    """Laplace noise takes over where it is as exact at the price, and tells less: the risk is not monotone there."""
    balance = TradeOff(asked("mean", "sbp"), 9000, sv.ApproxDP(3.0, 1e-6))
    wanted = 0.016
    shares = np.geomspace(0.01, 1.0, 60)
    fitting = [float(one) for one in shares if balance._success(float(one)) <= wanted]
    offer = balance.for_risk(wanted)
    assert offer.success <= wanted and offer.share >= max(fitting) > 0.2
    assert any(balance._success(float(one)) > wanted for one in shares if one < 0.2)
    curve = list(balance.curve())
    falls = [(a, b) for a, b in itertools.pairwise(curve) if b.success < a.success]
    assert [(a.noise, b.noise) for a, b in falls] == [("gaussian", "laplace")]
    (before, after), *_ = falls
    assert after.share < 1.006 * before.share and f"{100 * after.share:.3g} %" in balance.change
    assert not TradeOff(asked("mean", "sbp"), 9000, sv.PureDP(1.0)).change


def test_smaller_groups_are_known_less_well():
    question = asked("proportion", "smoker", by=("ward",))
    even = TradeOff(question, 9000, BUDGET).at(0.05)
    small = TradeOff(question, 9000, BUDGET, imagined=AssumedDistribution(smallest=0.02)).at(0.05)
    few = TradeOff(question, 9000, BUDGET, imagined=AssumedDistribution(kept=0.1)).at(0.05)
    assert small.width > 2 * even.width and few.width > 2 * even.width
    assert small.success == even.success == few.success  # nobody's data, nobody's risk


@pytest.mark.parametrize(
    "wrong",
    [
        lambda b: b.for_width(0.0),
        lambda b: b.for_width(-1),
        lambda b: b.for_width(float("nan")),
        lambda b: b.for_risk(0.01),
        lambda b: b.for_risk(1.5),
        lambda b: b.at(0.0),
        lambda b: b.at(1.5),
        lambda b: TradeOff(b.question, 900, BUDGET, baseline=0.0),
        lambda b: TradeOff("mean of x", 900, BUDGET),
        lambda b: AssumedDistribution(share=2.0),
        lambda b: AssumedDistribution(smallest=-0.1),
    ],
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(InvalidValue):
        wrong(TradeOff(asked("mean", "sbp"), 900, BUDGET))


def test_what_the_whole_budget_does_not_buy_is_out_of_reach():
    balance = TradeOff(asked("proportion", "smoker"), 100, sv.PureDP(0.1))
    with pytest.raises(PromiseUnreachable, match="the whole budget gives"):
        balance.for_width(0.001)
    with pytest.raises(PromiseUnreachable, match="of the budget leaves"):
        TradeOff(asked("proportion", "smoker"), 100, sv.PureDP(300.0)).for_risk(0.01 + 1e-9)


@pytest.mark.parametrize(("verb", "column"), [("proportion", "smoker"), ("mean", "sbp")])
def test_no_records_are_imagined_where_the_condition_leaves_none(verb, column):
    """Two of three wards have all records that the condition keeps: as many as if there were no third."""
    two = sv.Facts(smoker=sv.Flag(), ward=sv.Category(["A", "B"]), sbp=sv.Number(60, 250))
    of_two = TradeOff(Question(verb, (column,), two, by=("ward",), where="sbp >= 0"), 600, BUDGET)
    of_three = TradeOff(asked(verb, column, by=("ward",), where="ward != 'C'"), 600, BUDGET)
    assert of_three.at(0.2).width == pytest.approx(of_two.at(0.2).width, rel=0.2)
    few = AssumedDistribution(smallest=0.1)
    assert replace(of_three, imagined=few).at(0.2).width == pytest.approx(
        replace(of_two, imagined=few).at(0.2).width, rel=0.2
    )


@pytest.mark.parametrize("n", [0, 1, 2])
def test_hardly_any_records(n):
    assert TradeOff(asked("proportion", "smoker", by=("ward",)), n, BUDGET).at(0.5).width <= 0.5


def test_the_command(tmp_path, monkeypatch, capsys):
    facts = tmp_path / "f.toml"
    facts.write_text('[smoker]\nkind = "flag"\n[ward]\nkind = "category"\ncategories = ["A", "B"]\n')
    words = ["balance", "proportion of smoker by ward", "--facts", facts, "--n", "5000", "--budget", "approx:1,1e-6"]

    def run(*more):
        monkeypatch.setattr(sys, "argv", ["sottovoce", *map(str, [*words, *more])])
        with pytest.raises(SystemExit) as left:
            main()
        return left.value.code, capsys.readouterr().out

    code, said = run("--width", "0.03", "--plot", tmp_path / "b.svg", "--json")
    exact = json.loads(said)
    assert code == 0 and exact["chosen"]["width"] <= 0.03
    assert len([one for one in exact["curve"] if one["noise"] == "gaussian"]) >= 5 and exact["curve"][-1]["share"] == 1
    assert (tmp_path / "b.svg").stat().st_size > 5000
    assert run("--width", "0.03", "--risk", "0.02")[0] == 2
    assert run("--width", "0.0001")[0] == 7
    risky = run("--risk", "0.012")
    assert "→" in risky[1] and run("--risk", "1.2%") == risky
    others = ("--baseline", "--share", "--spread", "--kept", "--smallest")
    in_percent, as_parts = ("2%", "20%", "30%", "70%", "5 %"), ("0.02", "0.2", "0.3", "0.7", "0.05")
    assert run(*(word for pair in zip(others, in_percent, strict=True) for word in pair)) == run(
        *(word for pair in zip(others, as_parts, strict=True) for word in pair)
    )
    assert run("--risk", "much")[0] == 2
    said = run("--risk", "50%")[1]
    assert "Even the whole budget stays below that risk." in said
    assert [line.split()[1:3] for line in said.splitlines() if "→" in line] == [["100", "%"]]
    found = json.loads(run("--risk", "50%", "--json")[1])
    assert found["note"] == "Even the whole budget stays below that risk." and found["chosen"]["share"] == 1
    assert json.loads(run("--risk", "1.2%", "--json")[1])["note"] is None
    assert json.loads(run("--width", "3%", "--json")[1]) == exact
    usual, narrow = (json.loads(run("--spend", "10%", "--level", level, "--json")[1]) for level in ("95%", "80%"))
    assert narrow["level"] == 0.8 and narrow["chosen"]["width"] < 0.8 * usual["chosen"]["width"]
    assert "80 % intervals" in run("--level", "0.8")[1]


def test_a_balance_is_told_as_text():
    """A line a share, as the command prints them; the offers are those of `curve`."""
    balance = TradeOff(asked("proportion", "smoker", by=("ward",)), 9000, BUDGET, level=0.8)
    said = str(balance)
    assert said == balance.summary() and said.startswith("proportion of smoker by ward\n")
    for offer in balance.curve(points=7):
        assert f"± {offer.width:.3g}  " in said
    assert "Forecast for 9,000 records as imagined, 80 % intervals" in said.replace("\n", " ")
    assert repr(balance) == "Balance('proportion of smoker by ward', n=9000)"
    offer = balance.at(0.05)
    assert str(offer) == offer.summary()


def test_a_width_is_in_percent_of_a_proportion_alone():
    assert TradeOff(asked("proportion", "smoker"), 9000, BUDGET).for_width("5%").width <= 0.05
    mean = TradeOff(asked("mean", "sbp"), 9000, BUDGET)
    assert mean.for_width("2") == mean.for_width(2.0)
    with pytest.raises(InvalidValue, match=r"in the units of the answer, such as 2; percent are for shares\. Got '5%'"):
        mean.for_width("5%")
