"""Every plot says what its object says: the coordinates that were drawn are read back from the figure.

Warnings are errors here, so that no plot lets NumPy or Matplotlib complain of a number.
"""

from __future__ import annotations

import ast
import itertools
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pytest
from matplotlib.figure import Figure

import sottovoce as sv
from sottovoce.audit import audit, trade_off
from sottovoce.audit.subject import subject_of
from sottovoce.faces.cli.figures import draw_choices, draw_trade_off
from sottovoce.inference.custom.observation import Observed
from sottovoce.inference.custom.plotting import plot_cells
from sottovoce.inference.figures import figure
from sottovoce.mechanisms.mechanism_choice import choices
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.service.answers import Answer, NoisyCells, Question
from sottovoce.service.answers.forest import forest
from sottovoce.service.answers.predictions import effect
from sottovoce.service.answers.series_plot import series_plot
from sottovoce.service.answers.trade_off import TradeOff
from sottovoce.theory.local.graph import ProfileGraph

N = 400
FACTS = sv.Facts(
    age=sv.Number(18, 110),
    ward=sv.Category(["A", "B", "C", "D"]),  # nobody is in two of them
    smoker=sv.Flag(),
    sbp=sv.Number(60, 250),
    visits=sv.Count(9),
)
RESPONSES = {"logistic": "smoker", "linear": "sbp", "poisson": "visits", "multinomial": "ward"}


@cache
def patients() -> pa.Table:
    rng = np.random.default_rng(3)
    ages, wards = rng.integers(18, 110, N).astype(float), rng.choice(list("AB"), N)
    numbers = {"smoker": rng.random(N) < 0.3, "sbp": rng.normal(130, 20, N), "visits": rng.poisson(1, N)}
    return pa.table({"age": ages, "ward": wards} | numbers)


@pytest.fixture
def curator(tmp_path: Path) -> Any:
    budget = sv.ApproxDP(4.0, 1e-6)
    with sv.Curator(patients(), tmp_path / "l", budget, facts=FACTS, dataset="p") as opened:
        yield opened


def drawn(figure: Figure) -> Any:
    """Return the only axes of a figure, rendered."""
    figure.draw_without_rendering()
    (axes,) = figure.axes
    return axes


def line(axes: Any, gid: str) -> np.ndarray:
    """Return the points of the line of that name."""
    (found,) = [one for one in axes.lines if one.get_gid() == gid]
    return np.asarray(found.get_xydata())


def ranges(axes: Any, gid: str) -> np.ndarray:
    """Return low, high and height of the ranges of that kind, by height."""
    (found,) = [held for held in axes.collections if held.get_gid() == gid]
    return np.array([[path[0, 0], path[1, 0], path[0, 1]] for path in found.get_segments()]).reshape(-1, 3)


def told_as(axes: Any, middle: np.ndarray, ends: np.ndarray) -> None:
    """Compare a forest plot with its rows; a row of which the middle is NaN is not known."""
    places = np.arange(len(middle))[::-1]
    known = ~np.isnan(middle)
    assert np.allclose(line(axes, "estimate"), np.column_stack([middle, places])[known], rtol=1e-12)
    assert np.allclose(ranges(axes, "interval"), np.column_stack([ends, places])[known], rtol=1e-12)
    caps = sorted(map(tuple, line(axes, "ends")))
    assert np.allclose(caps, sorted((x, y) for row, y in zip(ends[known], places[known], strict=True) for x in row))
    low, high = axes.get_xlim()
    assert np.all((ends[known] >= low) & (ends[known] <= high))  # nothing that is known is cut off
    cut = np.clip(ends[~known], low, high)
    assert np.allclose(ranges(axes, "not known"), np.column_stack([cut, places[~known]]), rtol=1e-12)
    said = {(text.get_text(), text.get_position()[1]) for text in axes.texts}
    assert said == {("not known", place) for place in places[~known]}
    assert all(low <= text.get_position()[0] <= high for text in axes.texts)


@pytest.mark.parametrize(("spend", "family"), [*itertools.product([0.01, 0.4], RESPONSES)])
def test_a_regression(curator: Any, family: str, spend: float) -> None:
    """At a hundredth noise hides all, or all but two, at 40 % the two wards that nobody is in."""
    right = "age" if family == "multinomial" else "age + C(ward)"
    fit = curator.regress(f"{RESPONSES[family]} ~ {right}", family=family, spend=spend)
    axes = drawn(fit.plot())
    rows = [row for row in fit.rows if "Intercept" not in row["term"]]
    assert [label.get_text() for label in axes.get_yticklabels()] == [row["term"] for row in rows]
    ends = np.array([[row["low"], row["high"]] for row in rows])
    middle = np.array([row["estimate"] for row in rows])
    middle[[row["note"] is not None for row in rows]] = np.nan
    if fit.ratio is None:
        assert axes.get_xscale() == "linear"
    else:
        assert axes.get_xscale() == "log"
        middle[ends[:, 1] - ends[:, 0] > np.log(1e6)] = np.nan
        with np.errstate(over="ignore"):
            middle, ends = np.exp(middle), np.exp(ends)
    if spend < 0.1:
        assert np.isnan(middle).sum() >= len(rows) - 2
    elif family != "multinomial":
        assert np.isnan(middle).tolist() == [False, False, True, True]
    told_as(axes, middle, ends)
    low, high = axes.get_xlim()
    assert low < line(axes, "reference")[0, 0] < high
    if spend > 0.1 and family != "multinomial":  # what is known fills the axis, however wide the others are
        known = ends[~np.isnan(middle)]
        scale = np.log if fit.ratio else np.asarray
        assert np.ptp(scale(known)) > 0.85 * np.ptp(scale(np.array([low, high])))


@pytest.mark.parametrize("ratios", [True, False])
@pytest.mark.parametrize(
    "ends",
    [
        [[-0.3160, 0.1823], [-1e5, 1e5]],
        [[340.0, 350.0], [-350.0, -340.0]],
        [[-1e-9, 1e-9], [-np.inf, np.inf]],
        [[0.0, 0.0], [0.0, 0.0]],
        [[5.0, 5.5], [600.0, 1e4]],
    ],
)
def test_a_forest_of_hostile_rows(ends: list[list[float]], ratios: bool) -> None:
    """An odds ratio of .953 (.729 to 1.200) beside one of e^±100,000, ends where doubles end, and none at all."""
    from sottovoce.service.answers.forest import view

    rows = np.array(ends)
    hidden = rows[:, 1] - rows[:, 0] > np.log(1e6)
    middle = np.where(hidden, np.nan, np.clip(rows, -1e9, 1e9).mean(axis=1))
    nearest = np.clip(0.0, rows[:, :1], rows[:, 1:])
    limits = view(np.where(hidden[:, None], nearest, rows), 0.0, (-1.0, 1.0))
    limits = max(limits[0], -354.0), min(limits[1], 354.0)
    figure, axes = forest(["a", "b"], middle, rows, width=6.0, limits=limits, ratios=ratios)
    figure.draw_without_rendering()
    with np.errstate(over="ignore"):
        told_as(axes, np.exp(middle) if ratios else middle, np.exp(rows) if ratios else rows)


def test_an_answer() -> None:
    question = Question("mean", ("sbp",), FACTS, by=("ward",))
    answer = Answer(NoisyCells(question, N, "laplace", 20.0).release(patients(), seeded_rng(4)))
    rows = answer.rows
    assert [row["estimate"] is None for row in rows] == [False, False, False, True]
    middle = np.array([np.nan if row["estimate"] is None else row["estimate"] for row in rows])
    told_as(drawn(answer.plot()), middle, np.array([[row["low"], row["high"]] for row in rows]))


def test_the_densities_of_an_answer() -> None:
    question = Question("mean", ("sbp",), FACTS, by=("ward",))
    answer = Answer(NoisyCells(question, N, "laplace", 20.0).release(patients(), seeded_rng(4)))
    axes = drawn(answer.plot(densities=True))
    for place, (curve, row) in enumerate(zip(axes.lines, answer.rows, strict=True)):
        x, y = curve.get_data()
        if row["estimate"] is None:  # what is not known has no density to be read off
            assert len(x) == 0 and curve.get_label().endswith(": not known")
            continue
        step, draws = x[1] - x[0], answer.posterior.draws[:, place]
        assert np.sum(y) * step == pytest.approx(1)
        assert np.sum(x * y) * step == pytest.approx(draws.mean(), abs=step)
        assert x[0] - step / 2 == pytest.approx(draws.min()) and x[-1] + step / 2 == pytest.approx(draws.max())


@pytest.mark.parametrize("spend", [0.01, 0.4])
@pytest.mark.parametrize("family", RESPONSES)
def test_an_effect(curator: Any, family: str, spend: float) -> None:
    fit = curator.regress(
        f"{RESPONSES[family]} ~ age" + " + smoker" * (family != "logistic"), family=family, spend=spend
    )
    for column in ("age", "smoker")[: 1 + (family != "logistic")]:
        axes, found = drawn(fit.plot_effect(column)), effect(fit.posterior, column, {}, 0.95)
        response = RESPONSES[family]
        parts = [part for _, part in found.groupby(response, sort=False)] if response in found else [found]
        assert axes.get_yscale() == "linear"
        for k, part in enumerate(parts):
            estimates = part["estimate"].to_numpy()
            along = "get_ydata" if column == "age" else "get_xdata"  # levels have a row each
            curves = [one for one in axes.lines if np.allclose(getattr(one, along)(), estimates)]
            assert curves, k
            if column == "age":
                (band,) = [
                    one
                    for one in axes.collections
                    if np.allclose(one.get_paths()[0].vertices[:, 1].max(), part["high"].max())
                ][:1]
                corners = band.get_paths()[0].vertices
                for x, low, high in zip(part["age"], part["low"], part["high"], strict=True):
                    at = corners[np.isclose(corners[:, 0], x), 1]
                    assert at.min() <= low * (1 + 1e-9) + 1e-12 and at.max() >= high * (1 - 1e-9) - 1e-12
        if column == "smoker":
            bars = [path[:, 0] for held in axes.collections for path in held.get_segments()]
            assert np.allclose(sorted(map(tuple, bars)), sorted(zip(found["low"], found["high"], strict=True)))
        bottom, top = axes.get_ylim() if column == "age" else axes.get_xlim()
        assert bottom <= found["low"].min() and found["high"].max() <= top


def test_a_balance() -> None:
    balance = TradeOff(Question("proportion", ("smoker",), FACTS, by=("ward",)), 9000, sv.ApproxDP(1.0, 1e-6))
    offer = balance.for_width(0.05)
    figure = balance.plot(offer)
    figure.draw_without_rendering()
    left, right = figure.axes
    offers = list(balance.curve())
    assert left.lines[0].get_xydata().tolist() == [[100 * one.share, one.width] for one in offers]
    assert right.lines[0].get_xydata().tolist() == [[100 * one.share, 1000 * one.success] for one in offers]
    assert left.lines[1].get_xydata().tolist() == [[100 * offer.share, offer.width]]
    assert right.lines[-1].get_xydata().tolist() == [[100 * offer.share, 1000 * offer.success]]
    assert right.lines[1].get_ydata() == [1000 * balance.baseline] * 2


def test_an_explanation() -> None:
    told = sv.explain(sv.ApproxDP(1.0, 1e-6))
    axes = drawn(told.plot())
    anyway, more, rest = (held.get_offsets() for held in axes.collections)
    assert (len(anyway), len(more), len(rest)) == (told.before, told.after - told.before, told.people - told.after)
    assert len({tuple(dot) for dot in np.concatenate([anyway, more, rest])}) == told.people


@pytest.mark.parametrize(("noise", "level"), [("laplace", 0.95), ("gaussian", 0.5)])
def test_noisy_cells_and_their_model(noise: str, level: float) -> None:
    seen = Observed([31, 44, 27], n=100, noise=noise, scale=2.0)
    shares = np.random.default_rng(1).dirichlet([30, 40, 30], 500)
    axes = drawn(plot_cells(seen, shares, "cells", level))
    (dots,) = [one for one in axes.lines if one.get_marker() == "o"]
    assert dots.get_xydata().tolist() == [[0, 31], [1, 44], [2, 27]]
    bars = np.array(
        [path[:, 1] for held in axes.collections if hasattr(held, "get_segments") for path in held.get_segments()]
    )
    held = (
        np.random.default_rng(2).laplace(0, 2, 400_000)
        if noise == "laplace"
        else np.random.default_rng(2).normal(0, 2, 400_000)
    )
    reach = np.diff(bars, axis=1)[:, 0] / 2
    assert np.allclose(bars.mean(axis=1), [31, 44, 27]) and np.allclose(
        reach, np.quantile(np.abs(held), level), rtol=0.02
    )
    (band,) = [one for one in axes.collections if not hasattr(one, "get_segments")]
    corners = band.get_paths()[0].vertices
    low, high = np.quantile(100 * shares, [(1 - level) / 2, (1 + level) / 2], axis=0)
    assert set(np.round(low, 9)) | set(np.round(high, 9)) == set(np.round(corners[:, 1], 9))
    (steps,) = [one for one in axes.lines if one.get_marker() != "o"]
    assert np.allclose(steps.get_ydata(), np.median(100 * shares, axis=0))


def test_profiles_of_a_graph() -> None:
    rows = {"a": [0.5, 0.3, 0.2], "b": [0.1, 0.1, 0.8], "c": [0.0, 1.0, 0.0]}
    axes = ProfileGraph(rows, [("a", "b"), ("a", "c")]).plot(Figure().subplots())
    bars = [patch for patch in axes.patches if hasattr(patch, "get_width") and type(patch).__name__ == "Rectangle"]
    widths = np.array([bar.get_width() for bar in bars]).reshape(3, 3).T  # category by category
    assert np.allclose(widths, list(rows.values()))
    starts = np.array([bar.get_x() for bar in bars]).reshape(3, 3).T
    assert np.allclose(starts[:, 1:], np.cumsum(widths, axis=1)[:, :-1])
    arcs = [patch for patch in axes.patches if type(patch).__name__ == "Arc"]
    assert [(arc.get_center()[1], arc.get_height()) for arc in arcs] == [(0.5, 1), (1.0, 2)]


@pytest.mark.parametrize("promise", [sv.ApproxDP(1.0, 1e-6), sv.ApproxDP(0.5, 1e-13), sv.GaussianDP(0.3)], ids=str)
def test_choices(promise: Any) -> None:
    found = choices(sv.BetaBernoulli(6, 12), 100, promise, 0.3, ["diffused", "laplace", "gaussian"])
    figure = draw_choices(found, promise)
    figure.draw_without_rendering()
    curves, bars = figure.axes
    reachable = {one.name: one for one in found if one.mechanism is not None}
    assert reachable
    for curve in curves.lines:
        x, y = np.ravel(curve.get_xdata()), np.ravel(curve.get_ydata())
        if curve.get_label() in reachable:
            known = ~np.isnan(y)
            assert np.allclose(y[known], reachable[curve.get_label()].mechanism.profile.delta(x[known]))
            continue
        assert (x[0], y[0]) == (promise.epsilon, promise.delta)
        (left, right), (bottom, top) = curves.get_xlim(), curves.get_ylim()
        assert left <= x[0] <= right and bottom < y[0] < top  # a star that is cut off marks nothing
    named = dict(zip([label.get_text() for label in bars.get_yticklabels()], bars.patches, strict=True))
    assert {name: bar.get_width() for name, bar in named.items()} == {
        name: one.forecast.interval_width for name, one in reachable.items()
    }


def test_the_trade_off_of_an_audit() -> None:
    noisy = sv.NoisyStatistics.calibrate(sv.BetaBernoulli(6, 12), 20, sv.ZeroConcentratedDP(0.1))
    report = audit(subject_of(noisy), draws=1000)
    figure = draw_trade_off(report)
    figure.draw_without_rendering()
    errors, hits = figure.axes
    for axes, upside_down in ((errors, False), (hits, True)):
        claim, seen, *_ = axes.lines
        x, y = claim.get_data()
        misses = 1 - y if upside_down else y
        assert np.allclose(misses, trade_off(report.claim, x), atol=1e-12)
        x, y = seen.get_data()
        assert np.allclose(x, report.band.fpr) and np.allclose(1 - y if upside_down else y, report.band.fnr)
    assert errors.get_xlim() == errors.get_ylim() == (0, 1)
    some = report.band.fpr > 0
    assert np.all(report.band.fpr[some] >= hits.get_xlim()[0])


def test_a_distribution(tmp_path: Path) -> None:
    facts = sv.Facts(age=sv.Number(0, 110))
    with sv.Curator(
        pa.table({"age": [20, 60] * 500}), tmp_path / "l", sv.PureDP(1), facts=facts, dataset="d"
    ) as curator:
        known = curator.quantiles("age", spend=0.5).ecdf()
    drawing = known.plot()
    drawing.draw_without_rendering()
    (axes,) = drawing.axes
    x, y = axes.lines[0].get_data()
    assert np.allclose(x, known.values) and np.allclose(y, known.estimate)
    corners = axes.collections[0].get_paths()[0].vertices
    for value, low, high in zip(known.values, known.low, known.high, strict=True):
        drawn = corners[np.isclose(corners[:, 0], value), 1]
        assert np.isclose(drawn.min(), low) and np.isclose(drawn.max(), high)
    assert axes.get_ylim() == (0, 1)


@pytest.mark.parametrize("spend", [0.5, 0.0005])
def test_survival_curves(tmp_path: Path, spend: float) -> None:
    """Curves through the rows at the cuts within their bands; where noise hides a curve it ends, and that is said."""
    rng = np.random.default_rng(1)
    lived, seen = rng.exponential(200, 4000), np.minimum(rng.exponential(300, 4000), 365)
    table = {"days": np.minimum(lived, seen), "died": lived < seen, "ward": rng.choice(["A", "B"], 4000)}
    facts = sv.Facts(days=sv.Number(0, 365), died=sv.Flag(), ward=sv.Category(["A", "B"]))
    with sv.Curator(pa.table(table), tmp_path / "l", sv.ApproxDP(1, 1e-6), facts=facts, dataset="p") as curator:
        answer = curator.survival("days", event="died", by="ward", cuts=[30, 90, 180, 365], spend=spend)
    figure = answer.plot()
    figure.draw_without_rendering()
    axes, below = figure.axes
    told: dict[str, list[dict[str, Any]]] = {"A": [], "B": []}
    for row in answer.rows:
        told[row["ward"]].append(row)
    for name, rows in told.items():
        known = [row for row in rows if row["estimate"] is not None]
        (curve,) = [line for line in axes.lines if line.get_label() == name]
        times, shares = np.asarray(curve.get_xydata()).T
        assert (times[0], shares[0]) == (0, 1) and times[-1] == (known[-1]["days"] if known else 0)
        assert np.allclose(np.interp([row["days"] for row in known], times, shares), [row["estimate"] for row in known])
    bands = [
        np.concatenate([path.vertices for path in held.get_paths()])
        for held in axes.collections
        if held.get_gid() == "band"
    ]
    assert len(bands) == 2
    for band, rows in zip(bands, told.values(), strict=True):
        for row in rows:
            if row["estimate"] is not None:
                heights = band[np.isclose(band[:, 0], row["days"]), 1]
                assert np.isclose(heights.min(), row["low"]) and np.isclose(heights.max(), row["high"])
    hidden = {name for name, rows in told.items() if rows[-1]["estimate"] is None}
    assert bool(hidden) == (spend < 0.1)
    assert {text.get_text() for text in axes.texts} == {f"{name}: not known" for name in hidden}
    risk = {f"{row['at_risk']:,.0f}" for row in answer.at_risk_rows}
    words = {"at risk (behind noise)", "A", "B"}
    assert words < {text.get_text() for text in below.texts} <= risk | words
    right = axes.get_window_extent().x1
    assert all(text.get_window_extent().x1 <= right + 1 for text in axes.texts)


def corners(axes: Any) -> list[np.ndarray]:
    """Return the corners of each band."""
    bands = [held for held in axes.collections if held.get_gid() == "band"]
    return [np.concatenate([path.vertices for path in held.get_paths()]) for held in bands]


def test_incidences_of_competing_events(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    first, end = rng.exponential(200, 4000), rng.choice(["alive", "relapse", "death"], 4000)
    facts = sv.Facts(days=sv.Number(0, 365), end=sv.Category(["alive", "relapse", "death"]))
    table = pa.table({"days": first.clip(0, 365), "end": np.where(first > 365, "alive", end)})
    with sv.Curator(table, tmp_path / "l", sv.ApproxDP(1, 1e-6), facts=facts, dataset="p") as curator:
        answer = curator.survival("days", event="end", cuts=[90, 180, 365], spend=0.9)
    figure = answer.plot_incidence()
    figure.draw_without_rendering()
    (axes,) = figure.axes
    curves = {line.get_label(): np.asarray(line.get_xydata()).T for line in axes.lines}
    assert list(curves) == ["relapse", "death"] and len(answer.incidence_rows) == 6
    for row in answer.incidence_rows:
        times, shares = curves[row["end"]]
        assert np.interp(row["days"], times, shares) == pytest.approx(row["estimate"], abs=1e-12)
        band = corners(axes)[list(curves).index(row["end"])]
        for share in (row["low"], row["high"]):
            assert np.abs(band - (row["days"], share)).sum(axis=1).min() == pytest.approx(0, abs=1e-12)


def test_a_series_over_time() -> None:
    """A line is interrupted where noise hides a row, and its band is not."""
    labels = [(month, ward) for month in ("2024-01", "2024-02", "2024-03") for ward in "AB"]
    rows = [{"estimate": k / 10, "low": k / 10 - 0.05, "high": k / 10 + 0.07} for k in range(6)]
    rows[2] |= {"estimate": None}
    _, axes = series_plot(labels, rows)
    lines = {line.get_label(): np.asarray(line.get_xydata()) for line in axes.lines}
    assert list(lines) == ["A", "B"]
    for place, (name, line) in enumerate(lines.items()):
        mine = [row for label, row in zip(labels, rows, strict=True) if label[1] == name]
        middle = [np.nan if row["estimate"] is None else row["estimate"] for row in mine]
        np.testing.assert_allclose(line, np.column_stack([range(3), middle]))
        for at, row in enumerate(mine):
            for share in (row["low"], row["high"]):
                assert np.abs(corners(axes)[place] - (at, share)).sum(axis=1).min() == pytest.approx(0, abs=1e-12)
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["2024-01", "2024-02", "2024-03"]


READ_BACK: dict[str, Callable[..., None]] = {
    "service.answers.incidence.IncidenceAnswer.plot_incidence": test_incidences_of_competing_events,
    "service.answers.series_plot.series_plot": test_a_series_over_time,
    "service.answers.answer_plot.forest_of": test_an_answer,
    "service.answers.answer_plot.densities_of": test_the_densities_of_an_answer,
    "service.answers.survival.SurvivalAnswer.plot": test_survival_curves,
    "service.answers.trade_off.TradeOff.plot": test_a_balance,
    "service.answers.distribution_function.DistributionFunction.plot": test_a_distribution,
    "service.answers.explanations.Explanation.plot": test_an_explanation,
    "service.answers.forest.forest": test_a_forest_of_hostile_rows,
    "service.answers.predictions.plot_effect": test_an_effect,
    "service.answers.coefficient_plot.coefficient_plot": test_a_regression,
    "faces.cli.figures.draw_choices": test_choices,
    "faces.cli.figures.draw_trade_off": test_the_trade_off_of_an_audit,
    "theory.local.plotting.plot_profiles": test_profiles_of_a_graph,
    "inference.custom.plotting.plot_cells": test_noisy_cells_and_their_model,
}
"""Every function that draws, and what reads its coordinates back."""
NEW_AXES = {"figure", "_axes", "subplots", "forest"}
"""What returns axes to draw on."""
EMPTY = {"inference.figures.figure"}
"""What returns them empty."""


def drawing_functions() -> set[str]:
    """Return every function of the package that asks for axes, by reading the code."""
    root, found = Path(sv.__file__).parent, set()
    for path in root.rglob("*.py"):
        module = ".".join(path.relative_to(root).with_suffix("").parts)
        text = path.read_text(encoding="utf-8")
        if not any(f"{called}(" in text for called in NEW_AXES):
            continue
        tree = ast.parse(text)
        holders = [(module, tree)] + [
            (f"{module}.{node.name}", node) for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
        ]
        for name, holder in holders:
            for node in holder.body:  # type: ignore[attr-defined]
                if not isinstance(node, ast.FunctionDef):
                    continue
                calls = [call.func for call in ast.walk(node) if isinstance(call, ast.Call)]
                called = {f.id if isinstance(f, ast.Name) else getattr(f, "attr", "") for f in calls}
                if called & NEW_AXES:
                    found.add(f"{name}.{node.name}")
    return found


def test_every_plot_of_the_product_is_read_back() -> None:
    found = drawing_functions()
    assert len(found) > 10
    assert found == READ_BACK.keys() | EMPTY


def test_figures_show_themselves_in_notebooks() -> None:
    shown = figure()[0]._repr_png_()
    assert shown.startswith(b"\x89PNG")


def test_pyplot_saves_the_figure_that_was_drawn_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plt.close("all")
    drawing, axes = figure()
    axes.plot([0, 1], [1, 0])
    assert plt.gcf() is drawing
    plt.savefig(tmp_path / "a.png", metadata={"Software": None})
    drawing.savefig(tmp_path / "b.png", metadata={"Software": None})
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    elsewhere: list[Any] = []
    thread = threading.Thread(target=lambda: elsewhere.append(figure()[0]))
    thread.start()
    thread.join()
    assert elsewhere and len(plt.get_fignums()) == 1  # pyplot is for the main thread
    shown: list[object] = []
    notebook = ModuleType("IPython.display")
    vars(notebook).update(Image=bytes, display=shown.append)
    monkeypatch.setitem(sys.modules, "IPython.display", notebook)
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    drawing._ipython_display_()
    assert shown == [drawing._repr_png_()] and not plt.get_fignums()  # a notebook shows it once


def test_without_pyplot_nothing_keeps_a_figure() -> None:
    code = (
        "import sys; from sottovoce.inference.figures import figure; figure(); "
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_an_effect_by_another_column(tmp_path: Path) -> None:
    held = {"age": [20.0, 60] * 500, "smoker": [True, False, False, True] * 250, "ward": ["A"] * 500 + ["B"] * 500}
    facts = sv.Facts(age=sv.Number(0, 110), smoker=sv.Flag(), ward=sv.Category(["A", "B"]))
    with sv.Curator(pa.table(held), tmp_path / "l", sv.ApproxDP(2, 1e-6), facts=facts, dataset="d") as curator:
        fit = curator.regress("smoker ~ age*ward", spend=0.5)
    table = fit.effect("age", by="ward")
    for ward in "AB":
        shown = table[table["ward"] == ward].drop(columns="ward").reset_index(drop=True)
        assert shown.equals(fit.effect("age", ward=ward))
    axes = fit.plot_effect("age", by="ward").axes[0]
    for ward, curve in zip("AB", axes.lines, strict=True):
        assert curve.get_label() == ward
        assert np.array_equal(np.asarray(curve.get_ydata()), table[table["ward"] == ward]["estimate"])
    for wrong in ("age", "ghost", 7):
        with pytest.raises(sv.SottovoceError, match="by= names another category or flag"):
            fit.effect("age", by=wrong)


def test_plots_go_into_axes_that_are_given(tmp_path: Path) -> None:
    facts = sv.Facts(age=sv.Number(0, 110), smoker=sv.Flag(), ward=sv.Category(["A", "B"]))
    held = {"age": [20, 60] * 500, "smoker": [True, False, False, True] * 250, "ward": ["A"] * 500 + ["B"] * 500}
    with sv.Curator(pa.table(held), tmp_path / "l", sv.ApproxDP(2, 1e-6), facts=facts, dataset="d") as curator:
        shares = curator.proportion("smoker", by="ward", spend=0.2)
        ages = curator.quantiles("age", spend=0.2)
        fit = curator.regress("smoker ~ age", spend=0.4)
    ours = Figure(figsize=(10, 8))
    grid = ours.subplots(2, 3).ravel()
    drawings: list[Callable[..., object]] = [
        shares.plot,
        partial(shares.plot, densities=True),
        ages.plot,
        ages.ecdf().plot,
        fit.plot,
        partial(fit.plot_effect, "age"),
    ]
    for ax, draw in zip(grid, drawings, strict=True):
        assert draw(ax=ax) is ours
        assert ax.get_title(loc="left")
        assert ax.lines or ax.collections
    ours.savefig(tmp_path / "all.png")


def labels(figure: Figure) -> list[tuple[str, Any]]:
    """Return every text that a figure shows, with its box: tick labels within the view, titles, legends and notes."""
    figure.draw_without_rendering()
    renderer, result = figure._get_renderer(), []
    for axes in figure.axes:
        if axes.axison:
            ticks = [tick for axis in (axes.xaxis, axes.yaxis) for tick in axis._update_ticks()]
            result += [label for tick in ticks for label in (tick.label1, tick.label2)]
            result += [axes.xaxis.label, axes.yaxis.label]
        result += [axes.title, axes._left_title, axes._right_title, *axes.texts]
        result += axes.get_legend().get_texts() if axes.get_legend() else []
    result += [*figure.texts, *([figure._suptitle] if figure._suptitle else [])]
    shown = {id(text): text for text in result if text.get_visible() and text.get_text().strip()}
    return [(text.get_text(), text.get_window_extent(renderer)) for text in shown.values()]


def apart(figure: Figure) -> None:
    """Say that no text lies on another, and none beyond the figure."""
    boxes = labels(figure)
    assert len(boxes) > 3
    for (name, box), (other, its) in itertools.combinations(boxes, 2):
        assert not box.shrunk(0.98, 0.9).overlaps(its.shrunk(0.98, 0.9)), (name, other)
    for name, box in boxes:
        assert box.x0 > -1 and box.y0 > -1 and box.x1 < figure.bbox.width + 1 and box.y1 < figure.bbox.height + 1, name


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A table of 52 departments with long names, six years of months and ordered outcomes."""
    rng, n = np.random.default_rng(1), 4000
    departments = [f"Department of {first}{last}" for first in "AB" for last in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"]
    pain = ["none", "mild", "moderate", "severe", "the worst imaginable"]
    facts = sv.Facts(
        department=sv.Category(departments),
        sex=sv.Category(["female", "male"]),
        age=sv.Number(18, 100),
        days=sv.Number(0, 730),
        kind=sv.Category(["censored", "relapse", "death without a relapse"]),
        smoker=sv.Flag(),
        pain=sv.Category(pain),
        admitted=sv.Day("2018-01-01", "2023-12-31"),
    )
    records = pa.table(
        {
            "department": rng.choice(departments, n),
            "sex": rng.choice(["female", "male"], n),
            "age": rng.normal(60, 12, n).clip(18, 100),
            "days": rng.exponential(300, n).clip(0, 730),
            "kind": rng.choice(["censored", "relapse", "death without a relapse"], n),
            "smoker": rng.random(n) < 0.3,
            "pain": rng.choice(pain, n),
            "admitted": np.datetime64("2018-01-01") + rng.integers(0, 2190, n),
        }
    )
    folder = tmp_path_factory.mktemp("large")
    with sv.Curator(records, folder / "l", sv.ApproxDP(8.0, 1e-6), facts=facts, dataset="large") as opened:
        yield opened


LARGE: dict[str, Callable[[Any], list[Figure]]] = {
    "52 terms": lambda c: [
        (fit := c.regress("smoker ~ age + C(department)", spend=0.05)).plot(),
        fit.plot_effect("department"),
        fit.plot_effect("age"),
    ],
    "52 rows": lambda c: [c.proportion("smoker", by="department", spend=0.02).plot()],
    "104 rows": lambda c: [c.counts(["department", "sex"], spend=0.02).plot()],
    "72 months": lambda c: [c.mean("age", by="yearmonth(admitted)", spend=0.02).plot()],
    "a trend": lambda c: [c.mean("age", by="yearmonth(admitted)", pool="time", spend=0.02).plot()],
    "survival": lambda c: [
        (s := c.survival("days", event="kind", by="sex", spend=0.02)).plot(),
        s.plot_incidence("male"),
    ],
    "a distribution": lambda c: [c.quantiles("age", spend=0.02).ecdf().plot()],
    "ordered outcomes": lambda c: [
        (fit := c.regress("pain ~ age + C(sex)", family="ordinal", spend=0.05)).plot(),
        fit.plot_effect("sex"),
        fit.plot_effect("age"),
    ],
}


@pytest.mark.parametrize("what", LARGE)
def test_no_label_lies_on_another_and_none_beyond_the_figure(large: Any, what: str) -> None:
    for each in LARGE[what](large):
        apart(each)


def test_labels_that_lie_on_one_another_are_seen() -> None:
    crowded, axes = figure(width=2.0)
    axes.set_xticks(range(9), [f"Department {k}" for k in range(9)])
    with pytest.raises(AssertionError):
        apart(crowded)
