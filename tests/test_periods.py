"""A budget for each period: the promise by brute force, what questions read and are charged, every face."""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import sottovoce as sv
from sottovoce.faces.cli import application
from sottovoce.privacy.errors import BudgetExceeded, InvalidData, InvalidValue
from sottovoce.privacy.promises import PureDP
from sottovoce.privacy.pure import PureProfile
from sottovoce.records.facts.periods import NO_PERIOD
from sottovoce.records.readings import ClippedSum
from sottovoce.records.tables import open_table
from sottovoce.service.answers.card import card
from sottovoce.service.ledger import Ledger, Reservation
from support.period_audit import main as audit

FACTS = sv.Facts(
    admitted=sv.Day("2024-01-01", "2024-03-31"),
    age=sv.Number(0, 100),
    smoker=sv.Flag(),
    ward=sv.Category(["A", "B"]),
)
BUDGET = sv.ApproxDP(1.0, 1e-6)
FEBRUARY = "admitted >= '2024-02-01' and admitted < '2024-03-01'"
NAMES = ("2024-01", "2024-02", "2024-03", NO_PERIOD)


def write(place: Path, n: int = 600, seed: int = 0, last: int = 90) -> None:
    rng = np.random.default_rng(seed)
    days = pd.to_datetime("2024-01-01") + pd.to_timedelta(rng.integers(0, last, n), unit="D")
    frame = {"admitted": days.date, "age": rng.integers(18, 90, n), "smoker": rng.random(n) < 0.3}
    pd.DataFrame(frame | {"ward": rng.choice(["A", "B"], n)}).to_parquet(place)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write(tmp_path / "stays.parquet")
    return tmp_path / "stays.parquet"


# The promise, by brute force: two periods, three records, every adaptive strategy of three questions.

STEP, LIMIT = 0.5, 1.0  # each question costs a half of a period's budget
ASKED = {"a": ("a",), "b": ("b",), "both": ("a", "b")}
Record = tuple[str, int]
History = tuple[tuple[Record, ...], ...]
"""A table at the moment of each of three questions: records (period, bit) that came one after another."""


@dataclass(frozen=True)
class Toy:
    """A mean that is told as a bit, whose logarithm of a chance moves by STEP as one of n records changes."""

    reads: Callable[[str], tuple[str, ...]] = ASKED.__getitem__
    n: Callable[[History, int], int] = lambda history, moment: len(history[moment])

    def chance(self, history: History, moment: int, question: str, outcome: int) -> float:
        records, n = history[moment], self.n(history, moment)
        mean = sum(bit for period, bit in records if period in self.reads(question)) / len(records)
        slope = STEP * n
        up = math.exp(slope * (mean - 1)) / 2  # exactly STEP, where one of n changes
        return up if outcome else 1 - up


def histories() -> Iterator[History]:
    """One record at first, then two, then three; each may be of either period and hold either bit."""
    for records in itertools.product(itertools.product("ab", (0, 1)), repeat=3):
        yield tuple(records[: moment + 1] for moment in range(3))


def neighbours(history: History, *, moving: bool = False) -> Iterator[History]:
    """Yield the histories in which one record holds another bit, in the same period; or in another, where `moving`."""
    last = history[-1]
    for place, (period, _) in enumerate(last):
        for other in itertools.product("ab", (0, 1)):
            if other != last[place] and (moving or other[0] == period):
                changed = (*last[:place], other, *last[place + 1 :])
                yield tuple(changed[: moment + 1] for moment in range(3))


@pytest.fixture(scope="module")
def granted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[tuple[str, ...]], bool]:
    """Say whether the real ledger grants the last of some questions that were asked one after another."""
    folder = tmp_path_factory.mktemp("toy")

    @functools.cache
    def ask(asked: tuple[str, ...]) -> bool:
        with Ledger(folder / f"{'-'.join(asked)}.ledger", create=True) as ledger:
            budget = ledger.open_budget("toy", PureDP(LIMIT), n=3, schema={})
            ledger.divide(budget, "period", ("a", "b", NO_PERIOD))
            for question in asked:
                try:
                    right = ledger.reserve(budget, PureProfile(STEP), {}, periods=ASKED[question])
                except BudgetExceeded:
                    outcome = False
                else:
                    outcome = isinstance(right, Reservation)
            return outcome

    return ask


def worst_loss(toy: Toy, granted: Callable[[tuple[str, ...]], bool], *, moving: bool = False) -> float:
    """Return the greatest loss of a transcript over all histories, neighbours and strategies.

    The best strategy is found from the last question back: after each transcript it takes the question whose worst
    outcome adds most. That is the worst of all adaptive ones, as the loss of a transcript is a sum.
    """

    def best(first: History, second: History, asked: tuple[str, ...]) -> float:
        if len(asked) == 3:
            return 0.0
        losses = [0.0]
        for question in ASKED:
            after = best(first, second, (*asked, question))
            if granted((*asked, question)):
                chances = [
                    [toy.chance(history, len(asked), question, outcome) for history in (first, second)]
                    for outcome in (0, 1)
                ]
                after += max(math.log(p / q) for p, q in chances)
            losses.append(after)
        return max(losses)

    return max(best(first, second, ()) for first in histories() for second in neighbours(first, moving=moving))


def test_no_transcript_tells_more_of_a_period_than_its_budget(granted: Callable[[tuple[str, ...]], bool]) -> None:
    loss = worst_loss(Toy(), granted)
    assert 0.9 * LIMIT < loss <= LIMIT + 1e-12  # the budget is kept, and used


def test_planted_faults_are_caught(granted: Callable[[tuple[str, ...]], bool]) -> None:
    reads_more = Toy(reads=lambda _: ("a", "b"))  # whatever was charged
    assert worst_loss(reads_more, granted) > LIMIT * 1.2
    later_n = Toy(n=lambda history, _: len(history[-1]))
    assert worst_loss(later_n, granted) > LIMIT * 1.2
    moved = worst_loss(Toy(), granted, moving=True)  # a record that changes its period
    assert LIMIT * 1.2 < moved <= 2 * LIMIT


# What a question reads.

QUESTIONS: list[tuple[str, Any, dict[str, Any]]] = [
    ("mean", "age", {}),
    ("mean", "age", {"by": "ward"}),
    ("proportion", "smoker", {"by": "ward"}),
    ("counts", ("ward", "smoker"), {}),
    ("total", "age", {"by": "ward"}),
    ("mean", "age", {"tails": "smooth"}),
    ("quantiles", "age", {"at": [0.5]}),
]


def other_months(frame: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return a table whose records outside of February hold something else, as many and of the same months."""
    rng, outside = np.random.default_rng(seed), frame["month"] != 2
    changed = frame.copy()
    for name in ("age", "smoker", "ward"):
        changed.loc[outside, name] = rng.permutation(frame[name].to_numpy())[: int(outside.sum())]
    changed.loc[outside & (rng.random(len(frame)) < 0.2), "age"] = np.nan
    return changed


@pytest.mark.parametrize("rows", ["records", "averages", "one row", "three rows"])
def test_records_of_other_periods_change_nothing(rows: str, tmp_path: Path) -> None:
    """Whatever reading a question is answered by, or it is charged to all periods."""
    columns: dict[str, Any] = dict(FACTS)
    if rows != "records":
        columns["patient"] = sv.Person(rows={"averages": None, "one row": 1, "three rows": 3}[rows])
    facts = sv.Facts(columns)
    rng = np.random.default_rng(4)
    months = rng.integers(1, 4, 300)
    frame = pd.DataFrame(
        {
            "admitted": pd.to_datetime({"year": 2024, "month": months, "day": rng.integers(1, 29, 300)}).dt.date,
            "month": months,
            "age": rng.integers(18, 90, 300).astype(float),
            "smoker": rng.random(300) < 0.4,
            "ward": rng.choice(["A", "B"], 300),
            "patient": rng.integers(0, 90, 300),
        }
    )
    tried = 0
    options: dict[str, Any] = {"facts": facts, "dataset": "t", "period": "admitted: monthly"}
    with sv.Curator(frame, tmp_path / "ledger", BUDGET, **options) as curator:
        told = [curator._protected.asked, FEBRUARY]
        for verb, column, more in QUESTIONS:
            try:
                question = curator.question(verb, column, where=FEBRUARY, **more)
            except InvalidValue:
                continue  # not of persons
            mechanism = curator.mechanism_for(question, 0.05)
            charged = curator.charged_to(mechanism, FEBRUARY)["periods"]
            if charged != ("2024-02",):
                assert charged == NAMES
                continue
            tried += 1
            sums = []
            for table in (frame, other_months(frame, 1), other_months(frame, 2)):
                with open_table(table.drop(columns="month"), facts=facts) as records:
                    seen = records.read(mechanism, question.columns, where=told[1], **told[0])
                    sums.append((seen.n, json.dumps(seen.total.tolist())))
            assert len(set(sums)) == 1, (verb, more)
    assert tried >= (5 if rows == "records" else 1)


def test_a_regression_reads_its_periods_alone(place: Path, tmp_path: Path) -> None:
    with sv.Curator(place, tmp_path / "ledger", BUDGET, facts=FACTS, period="admitted: monthly") as curator:
        fit = curator.regress("smoker ~ age", where=FEBRUARY, spend=0.4)
        assert curator.left_by_period() == pytest.approx(dict.fromkeys(NAMES, 1.0) | {"2024-02": 0.6}, abs=1e-3)
        assert "charged to 1 of 4 periods by admitted: monthly: 2024-02" in fit.notes
        mechanism = curator.looks_for(curator.formula("smoker ~ age", where=FEBRUARY), 0.3)
    frame = pd.read_parquet(place)
    outside = ~pd.to_datetime(frame["admitted"]).dt.month.eq(2)
    changed = frame.assign(age=np.where(outside, 20, frame["age"]), smoker=frame["smoker"] & ~outside)
    sums = []
    for table in (frame, changed):
        with open_table(table, facts=FACTS) as records:
            reading = mechanism.reading
            seen = records.read(reading, mechanism.columns, where=FEBRUARY)
            sums.append((seen.n, seen.total.tolist()))
    assert sums[0] == sums[1]


def test_an_estimator_is_read_back_though_its_release_notes_its_periods(place: Path, tmp_path: Path) -> None:
    with sv.Curator(place, tmp_path / "ledger", BUDGET, facts=FACTS, period="admitted: monthly") as curator:
        model = curator.fit(sv.LogisticRegression(), features=["age"], label="smoker", spend=0.4)
        assert model.coef_.shape == (1, 1)
        (entry,) = curator.history()
        assert set(entry.periods or ()) == set(NAMES)


# The curator.


def test_each_month_has_a_budget_of_its_own(place: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    with sv.Curator(place, ledger, BUDGET, facts=FACTS, period="admitted: monthly", grows=True) as curator:
        assert curator.periods is not None and curator.periods.names == NAMES
        assert curator.left() == "100 % left of each period"
        for asked in (curator.left, curator.left_by_period, curator.share_left, curator.remaining):
            with pytest.raises(InvalidValue, match="a part is what open_part returns"):
                asked("2024-02")  # type: ignore[operator]
        answer = curator.proportion("smoker", where=FEBRUARY, spend=0.6)
        assert curator.history()[-1].periods == ("2024-02",)
        assert any("within one period (admitted: monthly)" in note for note in answer.notes)
        with pytest.raises(BudgetExceeded, match="does not cover it in 2024-02: it takes 50 % of it and 40 % is left"):
            curator.mean("age", spend=0.5)
        with pytest.raises(BudgetExceeded, match="in 2024-02"):
            curator.plan(f"mean of age where {FEBRUARY}", spend=0.5)
        offer = curator.plan("mean of age where admitted >= '2024-03-01'", spend=0.5)
        assert str(offer).startswith("50 % of the budget of 2024-03, no period buys ±")
        assert offer.to_dict()["periods"] == ["2024-03", NO_PERIOD]  # type: ignore[union-attr]
        fit = curator.plan("smoker ~ age", where="admitted > '2024-02-29'")
        assert "charged to 2024-03, no period" in fit.cautions  # type: ignore[union-attr]
        with pytest.raises(BudgetExceeded, match="40 % is left"):
            curator.describe(["age"], where=FEBRUARY, spend=0.5)
        described = curator.describe(["age"], where="admitted between '2024-03-01' and '2024-03-31'", spend=0.5)
        assert "charged to 1 of 4 periods by admitted: monthly: 2024-03" in described.notes
        assert any("within one period (admitted: monthly)" in note for note in described.notes)
        assert curator.left() == "left: 100 % of 2024-01; 40 % of 2024-02; 50 % of 2024-03; 100 % of no period"
        assert curator.share_left() == pytest.approx(0.4, abs=1e-3)
        assert curator.share_left(where="admitted >= '2024-03-01' and admitted < '2024-04-01'") == pytest.approx(0.5)
        assert curator.again(answer.entry).notes == answer.notes
        assert "within one period" in curator.whom and "within one period" in curator._repr_html_()
    write(place, 700, seed=1)  # the next night
    with sv.Curator(place, ledger, facts=FACTS) as curator:  # its periods are known from the ledger
        assert curator.mean("age", where="admitted < '2024-02-01'", spend=0.3).release.mechanism["n"] == 700
        assert curator.left_by_period()["2024-01"] == pytest.approx(0.7, abs=1e-3)
        curator._ledger.verify()
    assert audit(str(ledger)) == 0


def test_facts_that_are_extended_add_periods(place: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    with sv.Curator(place, ledger, BUDGET, facts=FACTS, period="admitted: monthly") as curator:
        curator.mean("age", spend=0.25)
        curator.mean("age", where=FEBRUARY, spend=0.25)
    later = sv.Facts(dict(FACTS) | {"admitted": sv.Day("2024-02-01", "2024-05-31")})
    with sv.Curator(place, ledger, facts=later) as curator:
        assert curator.periods is not None
        assert curator.periods.names == (*NAMES[:3], "2024-04", "2024-05", NO_PERIOD)
        shares = {name: round(share, 3) for name, share in curator.left_by_period().items()}
        assert shares == dict.fromkeys(curator.periods.names, 0.75) | {"2024-02": 0.5}
    with pytest.raises(InvalidValue, match="for good"):
        sv.Curator(place, ledger, facts=FACTS, period="admitted: weekly")
    with sv.Curator(place, ledger, facts=sv.Facts(age=FACTS["age"])) as curator:  # nobody says what a condition reads
        curator.mean("age", where="age > 30", spend=0.1)
        assert all(share < 0.7 for share in curator.left_by_period().values())
        assert "within one period" in curator.whom


def test_what_an_open_budget_spent_counts_in_every_period(place: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    with sv.Curator(place, ledger, BUDGET, facts=FACTS) as curator:
        curator.mean("age", where=FEBRUARY, spend=0.5)
        part = curator.open_part("ada", 0.5)
        curator.mean("age", spend=0.1, part=part)
    with sv.Curator(place, ledger, facts=FACTS, period="ward") as curator:
        assert curator.left_by_period() == pytest.approx({"A": 0.45, "B": 0.45, NO_PERIOD: 0.45}, abs=1e-3)
        part = curator.open_part("ada", 0.5)
        curator.mean("age", where="ward = 'A'", spend=0.5, part=part)
        assert curator.left_by_period(part)["A"] == pytest.approx(0.4, abs=1e-3)
        assert curator.left(part).startswith("left: 40 % of A; 90 % of B")
        assert curator.left_by_period()["B"] == pytest.approx(0.45, abs=1e-3)


def test_periods_that_cannot_be_are_refused_before_a_budget_is_opened(place: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    for options, said in (
        ({"facts": FACTS, "period": "smoker"}, "'smoker' is a flag"),
        ({"period": "ward"}, "told by public facts"),
        ({"facts": FACTS, "period": "ward", "n": "private"}, "need a public n"),
    ):
        with pytest.raises(InvalidValue, match=said):
            sv.Curator(place, ledger, BUDGET, dataset="x", **options)  # type: ignore[arg-type]
    frame = pd.read_parquet(place)
    frame["admitted"] = frame["admitted"].astype(str)
    frame.to_parquet(tmp_path / "texts.parquet")
    with pytest.raises(InvalidData, match="holds text: cast it"):
        sv.Curator(tmp_path / "texts.parquet", ledger, BUDGET, facts=FACTS, period="admitted: monthly")
    assert not ledger.exists()
    with Ledger(ledger, create=True) as kept:
        assert kept.budgets() == []


def test_of_a_person_the_rows_of_one_period_are_protected(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(
        {
            "patient": np.repeat(np.arange(200), 2),
            "admitted": pd.to_datetime({"year": 2024, "month": rng.integers(1, 4, 400), "day": 5}).dt.date,
            "age": 50,
        }
    )
    facts = sv.Facts(patient=sv.Person(), admitted=FACTS["admitted"], age=FACTS["age"])
    options: dict[str, Any] = {"facts": facts, "dataset": "stays", "period": "admitted: monthly"}
    with sv.Curator(frame, tmp_path / "ledger", BUDGET, **options) as curator:
        answer = curator.mean("age", where=FEBRUARY, spend=0.2)
        assert curator.whom.startswith("Protected are a person's rows within one period (admitted: monthly)")
        assert any("a person's rows within one period" in note for note in answer.notes)
        assert curator.left_by_period()["2024-01"] == 1
        share = curator.share(0.1).under(sv.REPLACE_ONE)
        mechanism = sv.NoisyStatistics.calibrate(sv.BetaBernoulli(1, 1), curator.n, share)
        curator.release(mechanism, where=FEBRUARY)  # one row of each person, whichever month it is of
        assert max(curator.left_by_period().values()) < 0.95
        built = card(curator)
        assert "within one period" in json.dumps(built.content)


@pytest.mark.parametrize("rows", [None, 1])
def test_of_a_person_at_home_in_one_period_all_rows_are_protected(rows: int | None, tmp_path: Path) -> None:
    home = np.repeat(np.arange(300) % 3, 3)  # of each of 300 persons, who have three rows each
    frame = pd.DataFrame(
        {
            "patient": np.repeat(np.arange(300), 3),
            "enrolled": pd.to_datetime({"year": 2022 + home, "month": 5, "day": 5}).dt.date,
            "age": np.random.default_rng(2).integers(20, 90, 900).astype(float),
            "smoker": np.random.default_rng(3).random(900) < 0.3,
        }
    )
    column = {"enrolled": sv.Day("2022-01-01", "2024-12-31"), "age": sv.Number(0, 100), "smoker": sv.Flag()}
    facts = sv.Facts(column | {"patient": sv.Person(rows=rows, home=True)})
    options: dict[str, Any] = {"dataset": "stays", "period": "enrolled: yearly"}
    with sv.Curator(frame, tmp_path / "ledger", BUDGET, facts=facts, **options) as curator:
        where = curator.periods.where("2023")  # type: ignore[union-attr]
        answer = curator.proportion("smoker", where=where, spend=0.2)
        mechanism = sv.NoisyStatistics.calibrate(
            sv.BetaBernoulli(1, 1), curator.n, curator.share(0.1).under(sv.REPLACE_ONE)
        )
        curator.release(mechanism, "smoker", where=where)
        left = curator.left_by_period()
        assert [round(share, 3) for share in left.values()] == [1, pytest.approx(left["2023"]), 1, 1]
        assert left["2023"] < 0.75
        said = "all rows of a person, which lie in one period, as the owner says (enrolled: yearly)"
        assert said in curator.whom and any(said in note for note in answer.notes)
        assert "all rows of a person lie in one period" in json.dumps(card(curator).content)
        other = frame.copy()
        other.loc[home != 1, "age"] = 30.0
        other.loc[home != 1, "smoker"] = True
        asked = curator._protected.asked
        with open_table(frame, facts=facts) as first, open_table(other, facts=facts) as second:
            for reading, name in ((mechanism, "smoker"), (ClippedSum(0, 100), "age")):
                seen = [table.read(reading, name, where=where, **asked) for table in (first, second)]
                assert seen[0].total.tolist() == seen[1].total.tolist()
    away = sv.Facts(column | {"patient": sv.Person(rows=rows)})
    with pytest.raises(InvalidValue, match="declared to lie in one period, for good"):
        sv.Curator(frame, tmp_path / "ledger", facts=away, **options)
    with Ledger(tmp_path / "ledger") as ledger:
        ledger.verify()


# The other faces.


def test_the_command_line(place: Path, tmp_path: Path) -> None:
    facts = tmp_path / "stays.facts.toml"
    facts.write_text(
        "[admitted]\nkind = 'day'\nfirst = 2024-01-01\nlast = 2024-03-31\n[age]\nkind = 'number'\nlow = 0\nhigh = 100\n"
    )
    run = CliRunner().invoke
    asked = ["ask", str(place), f"mean of age where {FEBRUARY}", "--spend", "20%", "--budget", "approx:1,1e-6"]
    first = run(application("ask"), [*asked, "--period", "admitted: monthly"])
    assert first.exit_code == 0, first.output
    text = " ".join(first.output.split())
    assert "charged to 1 of 4 periods" in text and "80 % of 2024-02" in text
    ledger = str(tmp_path / "stays.ledger")
    shown = run(application("ledger"), ["ledger", "show", ledger])
    assert "by admitted: monthly" in shown.output and "periods" in shown.output
    assert "2024-02" in shown.output.partition("Entries")[2]
    said = json.loads(run(application("ledger"), ["ledger", "show", ledger, "--json"]).output)
    assert said["budgets"][0]["period"] == "admitted: monthly"
    assert said["entries"][0]["periods"] == ["2024-02"]
    refused = run(application("ask"), [*asked, "--period", "age"])
    assert refused.exit_code != 0 and "periods are of a day" in str(refused.exception)
