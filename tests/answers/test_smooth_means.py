"""Means with a smooth tail: sensitivity by brute force, what they cost, how often they hold, and what they say."""

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sottovoce as sv
from sottovoce.inference.cells.noisy_cells import NoisyCells
from sottovoce.inference.cells.questions import Question
from sottovoce.inference.cells.smooth_mean_posterior import SmoothMeanPosterior
from sottovoce.inference.cells.smooth_means import SmoothMeans
from sottovoce.inference.cells.tail_model import TailModel
from sottovoce.inference.cells.tail_windows import FREE, OCTAVES, POSITION, octave_edges
from sottovoce.mechanisms.release import Release
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import ApproxDP, PureDP, ZeroConcentratedDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Count, Facts, Number
from sottovoce.records.readings import HeldRecords
from sottovoce.records.readings.group_moments import STEPS

COLUMNS: dict[str, tuple[Any, float, float]] = {
    "stays": (lambda rng, n: 4 * np.exp(rng.normal(0, 1, n)), 0.0, 4000.0),
    "both tails": (lambda rng, n: 10 * rng.standard_t(3, n), -1e4, 2e4),
    "years": (lambda rng, n: rng.integers(2014, 2020, n).astype(float), 1900.0, 2100.0),
    "no tail": (lambda rng, n: rng.uniform(0, 10, n), 0.0, 10.0),
}


def asked(low: float, high: float, missing: float | None = None, **options: Any) -> Question:
    return Question("mean", ("x",), Facts(x=Number(low, high, missing=missing)), tails="smooth", **options)


def known_after(column: str, seed: int = 1, scale: float = 3.0) -> tuple[SmoothMeans, SmoothMeanPosterior]:
    draw, low, high = COLUMNS[column]
    mechanism = SmoothMeans(asked(low, high), 6000, scale)
    return mechanism, mechanism.release({"x": draw(seeded_rng(seed), 6000)}, seeded_rng(seed)).value


@pytest.mark.parametrize("column", COLUMNS)
def test_no_record_replaced_moves_the_last_look_further_than_it_is_charged(column: str) -> None:
    """By brute force over pairs of records: at the edges, a hair beside them, and everywhere between."""
    _, known = known_after(column)
    low, high = known.bounds
    one = SmoothMeans(asked(low, high), 1, 3.0)
    marks = np.concatenate([known.octaves, known.window.ends, [low - 1, high + 1, sum(known.window.ends) / 2]])
    values = np.concatenate([marks, marks + 1e-9, marks - 1e-9, np.linspace(low, high, 60)])
    values = np.concatenate([values, np.linspace(*known.window.ends, 60)])
    sums = [one.sums(known, HeldRecords(([value],))) for value in [None, *values.tolist()]]
    places = np.array(sums, dtype=np.float64) / np.array(one.sum_scales(known, 1.0))
    squares = ((places[:, None] - places[None]) ** 2).sum(axis=2)
    assert 0.9 < squares.max() <= 1 + 2.0**-14
    assert known.sums is not None
    assert places.shape[1] == len(known.sums.positions) + 3


def test_the_free_squares_weigh_as_much_as_they_may() -> None:
    t = np.linspace(-1, 1, 2001)
    moved = (t[:, None] - t[None]) ** 2 / 4 + FREE * (t[:, None] ** 2 - t[None] ** 2) ** 2
    assert 0.99 < moved.max() <= 1


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("seed", [1, 2])
def test_looks_that_were_taken_cost_no_more_than_all_of_them(column: str, seed: int) -> None:
    """The ρ of what was released, added up from the noise of each look alone, is within that of the profile."""
    mechanism, known = known_after(column, seed, 20.0)
    moved = {"far": 1, "even": 2, "octaves": 2}
    assert known.sums is not None
    rho = sum(moved[look.kind] / (2 * look.scale**2) for look in known.looks) + 1 / (2 * known.sums.scale**2)
    assert rho <= 1 / (2 * mechanism.scale**2) * (1 + 1e-9)
    assert rho >= 0.9 / (2 * mechanism.scale**2)
    assert mechanism.profile.satisfies(ZeroConcentratedDP(rho * 1.02))
    assert not mechanism.profile.satisfies(ZeroConcentratedDP(rho * 0.9))


def test_calibration_keeps_the_promise_and_no_more() -> None:
    for n in (20, 5000):
        for promise in (ApproxDP(0.3, 1e-6), ZeroConcentratedDP(0.01)):
            made = SmoothMeans.calibrate(asked(0, 1e5), n, promise)
            assert made.profile.satisfies(promise)
            assert not SmoothMeans(made.system, n, made.scale * 0.99).profile.satisfies(promise)
    with pytest.raises(InvalidValue, match="secret"):
        SmoothMeans.calibrate(asked(0, 1e5), None, ApproxDP(0.3, 1e-6))
    with pytest.raises(InvalidValue, match="Gaussian"):
        SmoothMeans.calibrate(asked(0, 1e5), 50, ApproxDP(0.3, 1e-6), "laplace")


def test_a_window_is_a_function_of_what_was_released() -> None:
    for column in COLUMNS:
        _, known = known_after(column)
        again = SmoothMeanPosterior.from_dict(known.to_dict())
        assert again.window == known.window
        np.testing.assert_array_equal(again.interval(), known.interval())


def test_the_bulk_is_searched_for_where_it_is_far_from_both_bounds() -> None:
    assert [look.kind for look in known_after("years")[1].looks] == ["far", "even", "octaves"]
    assert [look.kind for look in known_after("stays")[1].looks] == ["far", "octaves"]
    assert [look.kind for look in known_after("no tail")[1].looks] == ["far", "even"]
    few = SmoothMeans(asked(0, 10), 20, 3.0).release({"x": [1.0] * 20}, seeded_rng(1)).value
    assert few.looks == ()


def test_octaves_cover_the_bounds() -> None:
    for anchor in (0.0, -30.0, 100.0, 17.25):
        edges = octave_edges(anchor, -30.0, 100.0)
        assert (edges[0], edges[-1]) == (-30.0, 100.0)
        assert edges.size == (OCTAVES + 1) * (2 if -30 < anchor < 100 else 1) + 1


def test_the_tail_of_a_known_law_is_found() -> None:
    """Counts and positions without noise, of an exponential law: the sum of its tail is known in closed form."""
    n, beta, edges = 2e4, 3.0, np.r_[0.0, 2.0 ** np.arange(0, 7)]
    survival = np.exp(-edges / beta)
    model = TailModel(edges, n * -np.diff(survival), 1.0, n, 1.0)
    ends = itertools.pairwise(edges.tolist())
    inner = np.array([((a + beta) * math.exp(-a / beta) - (b + beta) * math.exp(-b / beta)) / b for a, b in ends])
    values, weights = model.tail_sum(2, n * inner[2:], 1.0, 0.0)
    truth = n * (edges[2] + beta) * math.exp(-edges[2] / beta)
    mean = float((values * weights).sum())
    assert mean == pytest.approx(truth, rel=0.25)
    assert values.min() < truth < values.max()


@pytest.mark.parametrize(("column", "narrower"), [("stays", 0.6), ("years", 0.95), ("no tail", 1.1)])
def test_it_holds_and_is_narrower_where_bounds_are_far(column: str, narrower: float) -> None:
    draw, low, high = COLUMNS[column]
    truth = {"stays": 4 * math.exp(0.5), "years": 2016.5, "no tail": 5.0}[column]
    n, promise, rng, tables = 5000, ApproxDP(0.2, 1e-6), seeded_rng(5), 25
    smooth = SmoothMeans.calibrate(asked(low, high, low), n, promise)
    plain = NoisyCells.calibrate(Question("mean", ("x",), smooth.system.facts), n, promise, "gaussian")
    held, widths = 0, []
    for _ in range(tables):
        records = {"x": draw(rng, n)}
        first, last = smooth.release(records, rng).value.interval()[0]
        held += first <= truth <= last
        ends = plain.release(records, rng).value.interval()[0]
        widths.append((last - first) / (ends[1] - ends[0]))
    assert held >= 0.8 * tables
    assert np.median(widths) <= narrower


def test_records_without_a_value_are_left_out(tmp_path: Path) -> None:
    rng, n = np.random.default_rng(1), 4000
    cost = rng.exponential(20, n)
    table = pa.table({"cost": pa.array(cost, mask=rng.random(n) < 0.2), "old": rng.random(n) < 0.5})
    facts = Facts(cost=Number(0, 5000), old=sv.Flag())
    with sv.Curator(table, ledger=str(tmp_path / "l"), budget=ApproxDP(1, 1e-6), facts=facts, dataset="d") as curator:
        answer = curator.ask("smooth mean of cost where old", spend=0.5)
        assert answer.question.describe() == "smooth mean of cost where old"
        assert answer.rows[0]["low"] < 26
        assert answer.rows[0]["high"] > 15
        assert 0 <= answer.rows[0]["privacy_share"] <= 1
        again = curator.mean("cost", where="old", tails="smooth", spend=0.5, again=True)
        assert (again.entry, again.rows) == (answer.entry, answer.rows)
        assert "could hide unseen" in answer.summary()
        assert "generalized Pareto" in answer.methods()
        assert any("could hide unseen" in note for note in answer.notes)
        assert Release.from_dict(answer.release.to_dict()).value == answer.release.value
        assert curator.plan("smooth mean of cost", spend=0.2).width > 0
        with pytest.raises(InvalidValue, match="one column's sums"):
            answer.sd()


def test_what_it_is_not_for_is_refused() -> None:
    facts = Facts(x=Number(0, 9), k=Count(9))
    with pytest.raises(InvalidValue, match="not pooled"):
        Question("mean", ("x",), facts, tails="smooth", pool=True)
    with pytest.raises(InvalidValue, match="goes with a mean"):
        Question("rate", ("k",), facts, tails="smooth")
    with pytest.raises(InvalidValue, match="tails= is one of any, smooth"):
        Question("mean", ("x",), facts, tails="long")
    with pytest.raises(InvalidValue):
        NoisyCells.calibrate(Question("mean", ("x",), facts), 5, PureDP(0.1), "loud")  # type: ignore[arg-type]


def test_records_count_in_whole_steps() -> None:
    """A table's sums are those of its records, one by one."""
    _, known = known_after("both tails")
    values = np.r_[COLUMNS["both tails"][0](seeded_rng(9), 30), 1.9e4, -9e3, 2e4, -1e4]
    low, high = known.bounds
    one, several = (SmoothMeans(asked(low, high), n, 3.0) for n in (1, values.size))
    each = np.sum([one.sums(known, HeldRecords(([x],))) for x in values.tolist()], axis=0)
    assert several.sums(known, HeldRecords((values,))) == each.tolist()
    inner = (values >= known.window.ends[0]) & (values < known.window.ends[1])
    middle, half = sum(known.window.ends) / 2, (known.window.ends[1] - known.window.ends[0]) / 2
    assert each[0] / STEPS == pytest.approx(((values[inner] - middle) / half).sum(), abs=1e-4)
    assert POSITION == 0.5
