"""Survival: one histogram, its sensitivity by brute force, curves beside Kaplan and Meier's, coverage, odd records."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import integrate

import sottovoce as sv
from sottovoce.inference.cells.cells_posterior import CellsPosterior
from sottovoce.inference.cells.noisy_cells import NoisyCells
from sottovoce.inference.cells.questions import Question
from sottovoce.inference.cells.survival_curves import cell_falls, rising
from sottovoce.inference.cells.survival_interpolation import between_cuts
from sottovoce.inference.cells.survival_question import MOST_CELLS, SurvivalQuestion, cut_times
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import ApproxDP, PureDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.service.answers.survival import SurvivalAnswer

FACTS = sv.Facts(days=sv.Number(0, 60), died=sv.Flag(), ward=sv.Category(["A", "B"]), visits=sv.Count(20))
END = 2.0
TIMES = (0.2, 0.5, 0.9, 1.4, 2.0)
HOSTILE: list[tuple[Any, Any]] = [
    (math.nan, True),
    (math.inf, True),
    (-math.inf, False),
    (-3.0, True),
    (None, True),
    (10.0, None),
    ("x", True),
    (10.0, "perhaps"),
    (1e308, False),
    (0.0, True),
    (30.0, True),
    (60.0, False),
]


def question(**asked: Any) -> SurvivalQuestion:
    return SurvivalQuestion("survival", ("days",), FACTS, event="died", **asked)


def kaplan_meier(times: np.ndarray, events: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return the share still without an event as each time comes, by the product over events in order."""
    result = []
    for end in at:
        share = 1.0
        for time in np.unique(times[events & (times < end)]):
            share *= 1 - np.sum(events & (times == time)) / np.sum(times >= time)
        result.append(share)
    return np.array(result)


def counted(question: SurvivalQuestion, days: list[Any], died: list[Any]) -> np.ndarray:
    return np.asarray(question.statistics({"days": days, "died": died}).total)


def test_every_record_is_in_one_cell_or_in_none() -> None:
    asked = question(cuts=(10, 30, 60))
    for time, event in HOSTILE:
        total = counted(asked, [time], [event])
        assert total.sum() == 1
        assert sorted(total.tolist())[-2] == 0
    inside = [counted(asked, [time], [event])[:-1].reshape(2, 4) for time, event in HOSTILE]
    places = [tuple(map(int, np.argwhere(one)[0])) if one.any() else None for one in inside]
    assert places == [None, (1, 3), (0, 0), (1, 0), None, None, None, None, (0, 3), (1, 0), (1, 2), (0, 3)]


def test_the_charge_is_that_of_one_histogram() -> None:
    """One record replaced moves two cells by one, whatever it holds: all neighbours, by brute force."""
    asked = question(cuts=(10, 60))
    others = [(5.0, True), (20.0, False)]
    tables = [counted(asked, *map(list, zip(*others, record, strict=True))) for record in HOSTILE]
    gaps = [np.abs(one - other) for one, other in itertools.product(tables, repeat=2)]
    assert max(gap.sum() for gap in gaps) == 2
    assert max(gap.max() for gap in gaps) == 1
    same = NoisyCells.calibrate(Question("counts", ("ward",), FACTS), 3, PureDP(0.7))
    assert NoisyCells.calibrate(asked, 3, PureDP(0.7)).scale == same.scale == pytest.approx(2 / 0.7)


def test_whole_days_agree_with_kaplan_and_meier() -> None:
    rng = np.random.default_rng(5)
    n = 4000
    facts = sv.Facts(days=sv.Count(40), died=sv.Flag())
    lived, seen = np.floor(rng.exponential(25, n)), np.floor(rng.exponential(40, n))
    times, events = np.minimum(np.minimum(lived, seen), 40), (lived <= seen) & (lived <= 40)
    asked = SurvivalQuestion("survival", ("days",), facts, event="died", cuts=tuple(range(1, 41)))
    known = NoisyCells(asked, n, "laplace", 1e-3).release({"days": times, "died": events}, seeded_rng(1)).value
    wanted = kaplan_meier(times, events, np.arange(1, 41))
    apart = (np.median(known.draws, axis=0) - wanted) / known.draws.std(axis=0)
    assert np.max(np.abs(apart)) < 1 / 20 + 3 * 1.25 / math.sqrt(len(known.draws))
    assert abs(apart.mean()) < 1 / 20
    at_risk = [np.sum(times >= day) for day in range(40)]
    assert np.allclose(np.median(known.at_risk, axis=0)[0], at_risk, atol=0.51)


def test_the_formula_is_exact_where_hazards_are_proportional() -> None:
    """Events at rate a, censorings at rate c: S falls to e^-a, of any two rates; and the order bounds it."""
    for a, c in itertools.product((0.01, 0.5, 3.0), (1e-9, 0.4, 2.0)):
        leave = 1 - math.exp(-a - c)
        parts = tuple(np.array([x]) for x in (leave * a / (a + c), leave * c / (a + c), 1 - leave))
        assert cell_falls((parts[0], parts[1], parts[2]), 0.0)[0] == pytest.approx(-a, rel=1e-9)
        ends = [cell_falls((parts[0], parts[1], parts[2]), side)[0] for side in (-1e9, 1e9)]
        assert ends == pytest.approx([math.log(parts[2][0] / (parts[2][0] + parts[0][0])), math.log(1 - parts[0][0])])


@pytest.mark.parametrize("hazards", [(0.05, 0.05), (0.3, 0.2), (0.1, 0.5)])
@pytest.mark.parametrize("shape", [0.46, 0.75, 1.0, 2.2])
def test_the_order_of_a_weibull_law_is_what_its_shape_says(shape: float, hazards: tuple[float, float]) -> None:
    """By quadrature: the prior of the order is one of shapes, beside a censoring that is even."""
    events, even = hazards
    censored = integrate.quad(lambda t: even * np.exp(-events * t**shape - even * t), 0, 1)[0]
    died = 1 - np.exp(-events - even) - censored
    formula = died / (died + censored) * np.log(1 - died - censored)
    room = np.log(1 - died) - np.log((1 - died - censored) / (1 - censored))
    assert (-events - formula) / room == pytest.approx(-np.tanh(np.log(shape) / 2) / 2, abs=0.02)


def test_noise_on_many_empty_cells_adds_no_crowd() -> None:
    noise = np.random.default_rng(1).normal(0, 10, (4000, 64))
    noise[:, 0] += 500
    assert abs(rising(noise).sum(axis=1).mean() - 500) < 2
    assert rising(noise).min() >= 0


LAWS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "exponential": (lambda rng, n: rng.exponential(1, n), lambda t: np.exp(-t)),
    "weibull": (lambda rng, n: rng.weibull(2, n), lambda t: np.exp(-(t**2))),
    "falling": (lambda rng, n: rng.weibull(0.6, n), lambda t: np.exp(-(t**0.6))),
}
CASES = [(law, *case) for law in LAWS for case in ((0.1, 1000, 0.3), (1.0, 1000, 3.0), (1.0, 20_000, 1.0))]


@pytest.mark.parametrize(("law", "censoring", "n", "epsilon"), CASES)
def test_bands_cover(law: str, censoring: float, n: int, epsilon: float) -> None:
    """Of 100 tables of each kind 86 or more hold the truth at each time (95 % less four standard errors)."""
    facts = sv.Facts(t=sv.Number(0, END), e=sv.Flag())
    asked = SurvivalQuestion(
        "survival", ("t",), facts, event="e", cuts=tuple(sorted({*np.linspace(0.1, 2, 20), *TIMES}))
    )
    mechanism = NoisyCells.calibrate(asked, n, PureDP(epsilon))
    places, truth = np.searchsorted(asked.cuts, TIMES), LAWS[law][1](np.array(TIMES))
    held = np.zeros(len(TIMES))
    for table in range(100):
        rng = np.random.default_rng(table)
        lived, seen = LAWS[law][0](rng, n), np.minimum(rng.exponential(1 / censoring, n), END)
        records = {"t": np.minimum(lived, seen), "e": lived < seen}
        ends = mechanism.release(records, seeded_rng(table)).value.interval(0.95)[places]
        held += (ends[:, 0] <= truth) & (truth <= ends[:, 1])
    assert held.min() >= 86, held


def test_differences_cover_where_hazards_cross() -> None:
    facts = sv.Facts(t=sv.Number(0, END), e=sv.Flag(), arm=sv.Category(["A", "B"]))
    asked = SurvivalQuestion("survival", ("t",), facts, by=("arm",), event="e", cuts=TIMES)
    mechanism = NoisyCells.calibrate(asked, 3000, PureDP(1.0))
    truth = np.exp(-np.array(TIMES)) - np.exp(-(np.array(TIMES) ** 2))
    held = np.zeros(len(TIMES))
    for table in range(100):
        rng = np.random.default_rng(table)
        arm = rng.random(3000) < 0.5
        lived = np.where(arm, rng.weibull(2, 3000), rng.exponential(1, 3000))
        seen = np.minimum(rng.exponential(2, 3000), END)
        records = {"t": np.minimum(lived, seen), "e": lived < seen, "arm": np.where(arm, "B", "A")}
        draws = mechanism.release(records, seeded_rng(table)).value.draws
        low, high = np.quantile(draws[:, :5] - draws[:, 5:], [0.025, 0.975], axis=0)
        held += (low <= truth) & (truth <= high)
    assert held.min() >= 86, held


def test_where_nobody_may_be_at_risk_nothing_is_known() -> None:
    asked = question(cuts=(10, 20, 60))
    records = {"days": [5.0] * 400 + [15.0] * 100, "died": [True, False] * 250}
    known = NoisyCells(asked, 500, "laplace", 1.0).release(records, seeded_rng(1)).value
    assert known.unknown().tolist() == [[False, True, True]]  # in the second somebody is censored, and nobody stays
    ends = known.interval()
    assert ends[2].tolist() == [0.0, 1.0]
    assert ends[0, 1] < 1
    empty = NoisyCells(asked, 0, "laplace", 1.0).release({"days": [], "died": []}, seeded_rng(1)).value
    assert empty.interval().tolist() == [[0.0, 1.0]] * 3


def test_bands_hold_at_late_times_where_fewer_are_at_risk_than_noise_tells() -> None:
    """Of 200 tables 88 % or more: noise on empty cells was taken for people who stay on without an event (82 %)."""
    facts, times, tables = sv.Facts(t=sv.Number(0, 60), e=sv.Flag()), np.arange(5.0, 61.0, 5.0), 200
    asked = SurvivalQuestion("survival", ("t",), facts, event="e", cuts=tuple(times))
    mechanism, held = NoisyCells.calibrate(asked, 5000, ApproxDP(0.3, 1e-6)), np.zeros(len(times))
    for table in range(tables):
        rng = np.random.default_rng(table)
        lived, seen = rng.exponential(10, 5000), rng.exponential(15, 5000)
        records = {"t": np.minimum(lived, np.minimum(seen, 60)), "e": (lived < seen) & (lived < 60)}
        ends = mechanism.release(records, seeded_rng(table)).value.interval(0.95)
        held += (ends[:, 0] <= np.exp(-times / 10)) & (np.exp(-times / 10) <= ends[:, 1])
    assert held.min() >= 0.88 * tables, held
    assert held[7:].mean() >= 0.93 * tables, held  # from 40 on fewer than 7 are at risk, and the noise is 8 a cell


def test_plain_values_read_back() -> None:
    asked = question(by=("ward",), cuts=12, where="visits > 2")
    assert Question.from_dict(asked.to_dict()) == asked
    assert isinstance(Question.from_dict(asked.to_dict()), SurvivalQuestion)
    known = NoisyCells(question(), 3, "gaussian", 2.0).release(
        {"days": [1.0, 2.0, 3.0], "died": [True, False, True]}, seeded_rng(1)
    )
    again = CellsPosterior.from_dict(known.value.to_dict())
    assert type(again) is type(known.value)
    assert np.array_equal(again.draws, known.value.draws)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"event": "visits"}, "an event is a flag"),
        ({"event": ""}, "needs the event"),
        ({"event": "died", "cuts": (30, 10)}, "rising times"),
        ({"event": "died", "cuts": (30, 61)}, "up to 60"),
        ({"event": "died", "cuts": 65}, "1 to 64 cells"),
        ({"event": "died", "cuts": "soon"}, "rising times"),
        ({"event": "died", "cuts": (math.nan,)}, "cuts="),
        ({"event": "died", "pool": True}, "not pooled"),
        ({"event": "died", "at": (0.5,)}, "go with quantiles"),
    ],
)
def test_what_makes_no_sense_is_refused(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidValue, match=words):
        SurvivalQuestion("survival", ("days",), FACTS, **asked)


def test_times_are_cut_publicly() -> None:
    assert cut_times("visits", sv.Count(20), 64) == tuple(map(float, range(1, 21)))
    assert len(cut_times("days", sv.Number(0, 60), ())) == 12
    assert MOST_CELLS == 64
    with pytest.raises(InvalidValue, match="may be below 0"):
        SurvivalQuestion("survival", ("t",), sv.Facts(t=sv.Number(-1, 1), e=sv.Flag()), event="e")
    with pytest.raises(InvalidValue, match="is a category"):
        SurvivalQuestion("survival", ("ward",), FACTS, event="died")


# The answer, by every door.


@pytest.fixture
def curator(tmp_path: Path) -> Iterator[sv.Curator]:
    rng = np.random.default_rng(2)
    ward = rng.choice(["A", "B"], 6000)
    lived, seen = rng.exponential(np.where(ward == "A", 20, 60)), rng.uniform(0, 70, 6000)
    table = {"days": np.minimum(lived, seen), "died": lived < seen, "ward": ward, "visits": rng.poisson(3, 6000)}
    with sv.Curator(pa.table(table), tmp_path / "l", sv.ApproxDP(1, 1e-6), facts=FACTS, dataset="p") as opened:
        yield opened


def test_odd_records_are_counted_in_a_table_as_in_memory(tmp_path: Path) -> None:
    odd = [(time, event) for time, event in HOSTILE if time != "x" and event != "perhaps"] * 3
    odd += [(math.nextafter(10.0, side), True) for side in (0.0, 20.0)] + [(10.0, False)]
    times, events = (list(column) for column in zip(*odd, strict=True))
    frame = pa.table({"days": pa.array(times, pa.float64()), "died": pa.array(events, pa.bool_())})
    with sv.Curator(frame, tmp_path / "l", PureDP(200), facts=FACTS.about(["days", "died"]), dataset="p") as opened:
        answer = opened.survival("days", event="died", cuts=[10, 30, 60], spend=1.0)
    assert answer.posterior.cells.tolist() == counted(answer.posterior.question, times, events).tolist()


@pytest.mark.parametrize("person", [sv.Person(), sv.Person(rows=1)])
def test_of_a_person_one_row_counts(tmp_path: Path, person: sv.Person) -> None:
    """Two rows each: any one of them has the law of all."""
    rng = np.random.default_rng(3)
    lived, seen = rng.exponential(30, 8000), rng.uniform(0, 90, 8000)
    table = {"days": np.minimum(lived, seen), "died": lived < seen, "who": np.arange(8000) // 2}
    facts = sv.Facts(days=sv.Number(0, 60), died=sv.Flag(), who=person)
    with sv.Curator(pa.table(table), tmp_path / "l", sv.ApproxDP(2, 1e-6), facts=facts, dataset="p") as opened:
        answer = opened.survival("days", event="died", cuts=[10, 30, 60], spend=0.5)
        assert opened.n == 4000
    assert "one row of each person counts" in answer.notes
    ends = answer.posterior.interval(0.9999)
    truth = np.exp(-np.array([10, 30, 60]) / 30)
    assert np.all((ends[:, 0] <= truth) & (truth <= ends[:, 1]))


def test_what_follows_from_the_curves(curator: sv.Curator) -> None:
    answer = curator.survival("days", event="died", by="ward", cuts=[5, 10, 20, 40, 60], spend=0.4)
    lasting = {"A": 20.0, "B": 60.0}
    for ward, mean in lasting.items():
        for item, truth in [
            (answer.median(ward), mean * math.log(2)),
            (answer.quantile("25%", ward), mean * math.log(4 / 3)),
            (answer.restricted_mean(ward), mean * (1 - math.exp(-60 / mean))),
            (answer.restricted_mean(ward, until=10), mean * (1 - math.exp(-10 / mean))),
        ]:
            low, high = item.interval(0.999)
            assert low <= truth <= high, item
            assert item.low <= item.estimate <= item.high
    apart = answer.difference("A", "B", at=20)
    assert apart.interval(0.999)[0] <= math.exp(-1) - math.exp(-1 / 3) <= apart.interval(0.999)[1]
    assert apart.estimate == pytest.approx(answer.difference("A / 20", "B / 20").estimate)
    assert answer.ratio("A", "B", at=20).high < 1
    gain = answer.mean_difference("A", "B", until=10)
    each = [answer.restricted_mean(ward, until=10).draws for ward in "AB"]
    assert gain.draws.tolist() == (each[0] - each[1]).tolist() and gain.high < 0
    less = math.fsum(sign * lasting[ward] * (1 - math.exp(-10 / lasting[ward])) for ward, sign in (("A", 1), ("B", -1)))
    assert gain.interval(0.999)[0] <= less <= gain.interval(0.999)[1]
    frame = answer.at([0, 20, 30])
    assert frame["estimate"][frame["days"] == 0].tolist() == [1.0, 1.0]
    assert [row["estimate"] for row in answer.rows_at(20)] == pytest.approx(
        [row["estimate"] for row in answer.rows if row["days"] == 20]
    )
    assert any(note.startswith("median days: A ") for note in answer.notes)
    with pytest.raises(InvalidValue, match="known from 0 to its last cut, 60"):
        answer.at(61)
    with pytest.raises(InvalidValue, match="name one of the groups: A, B"):
        answer.median("C")
    with pytest.raises(InvalidValue, match="times are numbers"):
        answer.at("soon")


@pytest.mark.parametrize("power", [0.5, 1.0, 2.5])
def test_between_cuts_every_weibull_law_is_met(power: float) -> None:
    edges, times = np.linspace(0, 60, 13), np.linspace(0, 60, 121)
    curves = np.exp(-((edges / 25) ** power))[None]
    truth = np.exp(-((times / 25) ** power))
    assert between_cuts(curves, edges, times, np.zeros(1))[0] == pytest.approx(truth, abs=1e-9)
    later = between_cuts(curves, edges + 18, times + 18, np.zeros(1))[0]  # as of ages, from 18 on
    assert later == pytest.approx(truth, abs=1e-9)


def test_between_cuts_curves_fall_whatever_the_noise_left_of_them() -> None:
    rng = np.random.default_rng(8)
    edges = np.array([0.0, 1e-6, 1.0, 2.0, 50.0, 1e9])
    falls = rng.choice([0.0, 1e-300, 1e-9, 0.1, 3.0, 400.0], size=(400, 5))
    curves = np.exp(-np.concatenate([np.zeros((400, 1)), np.cumsum(falls, axis=1)], axis=1))
    times = np.unique(np.concatenate([edges, np.geomspace(1e-9, 1e9, 200)]))
    drawn = between_cuts(curves, edges, times, 5 * rng.standard_normal(400))
    assert np.all(np.isfinite(drawn)) and np.all((drawn >= 0) & (drawn <= 1))
    at_cuts = drawn[:, np.searchsorted(times, edges)]
    assert np.allclose(at_cuts, curves, atol=1e-9)
    inside = np.clip(np.searchsorted(edges, times, side="left") - 1, 0, 4)
    assert np.all((drawn <= curves[:, inside] + 1e-12) & (drawn >= curves[:, inside + 1] - 1e-12))


def test_a_median_that_is_not_reached_is_open_above(curator: sv.Curator) -> None:
    answer = curator.survival("days", event="died", by="ward", cuts=[5, 10], spend=0.2)
    median = answer.median("B")
    assert not median.told and math.isnan(median.estimate) and math.isinf(median.high)
    assert "not known (beyond 10)" in answer.notes[0]
    json.dumps(answer.to_dict(), allow_nan=False)


def test_the_same_answer_in_words_and_again(curator: sv.Curator) -> None:
    answer = curator.survival("days", event="died", by="ward", where="visits > 1", cuts=24, spend=0.1)
    assert answer.question.describe() == "survival of days (event died) in 24 cells by ward where visits > 1"
    again = curator.ask(answer.question.describe(), again=True)
    assert type(again) is SurvivalAnswer and again.entry == answer.entry
    assert SurvivalAnswer.from_dict(answer.to_dict()).rows == answer.rows
    assert curator.plan(answer.question, spend=0.1).width > curator.plan(answer.question, spend=0.5).width
    assert "survival of days" in answer.to_markdown() and "tabular" in answer.to_latex()
    with pytest.raises(InvalidValue, match="survival names its event"):
        curator.ask("survival of days by ward")
    with pytest.raises(InvalidValue, match="an event and times go with survival"):
        curator.ask("mean of days (event died)")
    with pytest.raises(InvalidValue, match="event= goes with survival"):
        curator.question("mean", "days", event="died")
