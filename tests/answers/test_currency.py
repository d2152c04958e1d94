"""Shares of a budget: what they cost, what is left, and that parts are in proportion."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import sottovoce as sv
from sottovoce.faces.cli import application
from sottovoce.privacy.errors import BudgetExceeded, InvalidValue, SottovoceError
from sottovoce.privacy.filter import PrivacyFilter
from sottovoce.privacy.promises import Promise
from sottovoce.records.facts.assumed_distribution import AssumedDistribution
from sottovoce.service.answers.priced_option import PricedOption
from sottovoce.service.curator import Curator
from sottovoce.service.ledger import Ledger

FACTS = sv.Facts(ward=sv.Category(["A", "B"]), sbp=sv.Number(60, 250))
DATA = pa.table({"ward": ["A", "B"] * 500, "sbp": [float(100 + i % 50) for i in range(1000)]})
BUDGETS: list[tuple[Promise, Any, str]] = [
    (sv.PureDP(1.0), None, "laplace"),
    (sv.ApproxDP(1.0, 1e-6), None, "gaussian"),
    (sv.ApproxDP(1.0, 1e-6), "gaussian", "gaussian"),
    (sv.GaussianDP(0.3), None, "gaussian"),
    (sv.ZeroConcentratedDP(0.05), None, "gaussian"),
    (sv.RenyiDP(8.0, 0.2), None, "gaussian"),
]


def opened(place: Path, budget: Promise = BUDGETS[1][0], order: Any = None, name: str = "p") -> Curator:
    return Curator(DATA, place / f"{name}.ledger", budget, facts=FACTS, dataset=name, order=order)


@pytest.mark.parametrize(("budget", "order", "noise"), BUDGETS, ids=lambda x: str(x))
def test_ten_tenths_fit_whatever_the_budget_counts(tmp_path: Path, budget: Promise, order: Any, noise: str) -> None:
    with opened(tmp_path, budget, order) as curator:
        assert curator.mechanism_for(curator.question("mean", "sbp", by="ward")).noise == noise
        for _ in range(5):
            curator.counts("ward", spend="10%")
            answer = curator.mean("sbp", by="ward", spend=0.1)
            assert answer.share == pytest.approx(0.1, rel=1e-6)
        with pytest.raises(BudgetExceeded):
            curator.counts("ward", spend=0.01)
        assert curator.left().endswith("too little for one more like the last")


def test_a_promise_of_its_own_gets_the_noise_that_the_budget_charges_least_for(tmp_path: Path) -> None:
    """Of answers that each keep approx:0.1,1e-6, eleven fit with Laplace noise, and sixty with Gaussian."""
    target = sv.ApproxDP(0.1, 1e-6)
    with opened(tmp_path) as curator:
        made = curator.mechanism_for(curator.question("counts", "ward"), target)
        laplace = type(made).calibrate(made.system, made.n, target, noise="laplace")
        purse = PrivacyFilter(curator.budget.promise)
        fit = [int(purse.limit / purse.cost(mechanism.profile)) for mechanism in (made, laplace)]
    assert made.noise == "gaussian"
    assert fit[0] >= 60
    assert fit[1] < 12


def test_parts_given_as_shares_are_in_proportion(tmp_path: Path) -> None:
    with opened(tmp_path) as curator:
        ada, ben = curator.open_part("ada", 0.25), curator.open_part("ben", "25%")
        assert ada.limit == ben.limit == pytest.approx(curator.budget.limit / 4)
        assert ada.counted == curator.budget.counted
        answer = curator.mean("sbp", spend=0.4, part=ada)
        assert answer.share == pytest.approx(0.4)
        assert curator.left(ada) == "60 % left: about 1 more like the last"
        assert curator.left() == "90 % left: about 9 more like the last"
        assert curator.left(ben) == "100 % left"
        assert curator.open_part("ada", 0.25) == ada
        with pytest.raises(InvalidValue, match="never changes"):
            curator.open_part("ada", 0.5)


def test_a_part_with_a_promise_of_its_own_is_counted_at_its_own_order(tmp_path: Path) -> None:
    """Half the ε is about a quarter of the answers; a tenth of it fits too, at whatever order suits it."""
    with opened(tmp_path) as curator:
        for name, epsilon, share in (("half", 0.5, 0.27), ("tenth", 0.1, 0.013)):
            part = curator.open_part(name, sv.ApproxDP(epsilon, 1e-6))
            profile = curator.mechanism_for(curator.question("counts", "ward"), 0.1, part).profile
            cost = float(profile.renyi(curator.budget.filter["order"]))
            assert curator.budget.share(cost) == pytest.approx(share / 10, rel=0.1)


def test_what_is_left_speaks_of_this_data_and_its_parts_alone(tmp_path: Path) -> None:
    """A data set whose name begins like another's with a slash is no part of it."""
    asked = {"budget": sv.PureDP(1.0), "facts": FACTS}
    with (
        Ledger(tmp_path / "l", create=True) as ledger,
        Curator(DATA, ledger, dataset="p", **asked) as first,
        Curator(DATA, ledger, dataset="p/x", **asked) as other,
    ):
        first.counts("ward", spend=0.5)
        other.counts("ward", spend=0.05)
        assert first.left() == "50 % left: about 1 more like the last"


def test_what_is_left_is_told_without_reading_the_whole_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path) as curator:
        part = curator.open_part("ada", 0.5)
        curator.counts("ward", spend=0.1, part=part)
        mechanism = curator.mechanism_for(curator.question("counts", "ward"), 0.3)
        curator._ledger.void(curator._ledger.reserve(curator.budget, mechanism.profile, {}), "given up")
        monkeypatch.setattr(type(curator._ledger), "_replay", None)
        assert curator.left() == "95 % left: about 19 more like the last"
        assert curator.left(part) == "90 % left: about 9 more like the last"


@pytest.mark.parametrize("name", ["", "  ", None, 3])
def test_a_part_has_a_name(tmp_path: Path, name: Any) -> None:
    with opened(tmp_path) as curator, pytest.raises(InvalidValue, match="must not be empty"):
        curator.open_part(name, 0.5)


@pytest.mark.parametrize("spend", ["0%", "-1%", "101%", 0, 1.5, float("nan"), "x", "approx:1", None, [0.1], True])
def test_odd_shares_are_refused_in_our_words_and_cost_nothing(tmp_path: Path, spend: Any) -> None:
    with opened(tmp_path) as curator:
        with pytest.raises(SottovoceError):
            curator.counts("ward", spend=spend)
        assert curator.left() == "100 % left"


@pytest.mark.parametrize("more", [{"about": 3}, {"about": {1: 2}}, {"about": {"x": object()}}, {"then": 5}])
def test_odd_additions_to_a_question_are_refused_before_they_are_charged(tmp_path: Path, more: Any) -> None:
    with opened(tmp_path) as curator:
        mechanism = curator.mechanism_for(curator.question("counts", "ward"))
        with pytest.raises(InvalidValue, match=r"about=|then="):
            curator.draft(mechanism, **more)
        assert curator.left() == "100 % left"


@pytest.mark.parametrize("prior", [0.0, 1e308, 5e-324, float("inf"), float("nan")])
def test_a_prior_that_no_number_of_records_is_like_is_refused(tmp_path: Path, prior: float) -> None:
    with opened(tmp_path) as curator, pytest.raises(InvalidValue, match="prior"):
        curator.counts("ward", prior=prior)


def test_a_question_is_planned_as_the_command_line_plans_it(tmp_path: Path) -> None:
    with opened(tmp_path) as curator:
        n, budget = curator.budget.n, curator.budget.promise
        offers = curator.plan("mean of sbp by ward", spend="20%"), curator.balance("mean of sbp by ward").at(0.2)
        assert isinstance(offers[0], PricedOption) and offers[0] == offers[1]
        assert offers[0] == curator.plan(curator.question("mean", "sbp", by="ward"), spend=0.2)
        said = offers[0].summary()
        assert said.startswith(f"20 % of the budget buys ± {offers[0].width:.3g} for each of the 2 groups, if ")
        assert "one size, in 95 of 100 answers; " in said
        narrow = curator.plan("mean of sbp by ward", spend=0.2, imagined=["sbp=0.01"], level=0.5)
        assert (
            isinstance(narrow, PricedOption)
            and narrow.width < 0.8 * offers[0].width
            and "50 of 100" in narrow.summary()
        )
        with pytest.raises(InvalidValue, match="share of the budget"):
            curator.plan("mean of sbp", spend="approx:0.1,1e-6")
        with pytest.raises(InvalidValue, match="write a condition into the question"):
            curator.plan("mean of sbp", where="ward = 'A'")
        assert curator.left() == "100 % left"
    place = tmp_path / "known.toml"
    place.write_text(
        '[ward]\nkind = "category"\ncategories = ["A", "B"]\n[sbp]\nkind = "number"\nlow = 60\nhigh = 250\n'
    )
    command = ["plan", "mean of sbp by ward", "--facts", str(place), "--n", str(n), "--budget", str(budget)]
    told = CliRunner().invoke(application("plan"), [*command, "--spend", "20%", "--json"], catch_exceptions=False)
    assert {name: json.loads(told.stdout)[name] for name in offers[0].to_dict()} == offers[0].to_dict()


def test_the_share_for_a_width_buys_it(tmp_path: Path) -> None:
    with opened(tmp_path) as curator:
        share = curator.share_for("mean of sbp by ward", 25.0)
        assert 0.01 < share < 1
        assert (
            curator.share_for("mean of sbp by ward", 25.0, imagined=AssumedDistribution(columns={"sbp": 0.1})) <= share
        )
        assert curator.share_for("mean of sbp by ward", 25.0, imagined=AssumedDistribution(smallest=0.2)) > share
        row = curator.mean("sbp", by="ward", spend=share).rows[0]
        assert row["high"] - row["low"] < 2 * 25 * 1.6
        with pytest.raises(SottovoceError, match="out of reach"):
            curator.share_for("mean of sbp by ward", 0.001)


@pytest.mark.parametrize(
    ("question", "imagined", "of"),
    [
        ("mean of sbp", None, ""),
        ("mean of sbp by ward", None, "each of the 2 groups, if all are of one size"),
        ("mean of sbp by ward", ["ward:B=5%"], "the widest of the 2 rows, if groups are as imagined"),
        ("counts of ward", None, "the widest of the 2 rows"),
        ("quantiles of sbp", None, "the widest of the 3 rows"),
    ],
)
def test_a_plan_says_which_of_the_groups_its_width_is_of(
    tmp_path: Path, question: str, imagined: list[str] | None, of: str
) -> None:
    with opened(tmp_path) as curator:
        offer = curator.plan(question, spend=0.2, imagined=imagined)
    assert isinstance(offer, PricedOption) and offer.of == of and offer.to_dict().get("of", "") == of
    assert (f" for {of}, in 95" in offer.summary()) == bool(of)
