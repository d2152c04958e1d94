"""Many values at a bound: told where what was released says so, and not where records merely lean to a side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Category, Count, Facts, Number
from sottovoce.service.answers import NoisyCells, Question
from sottovoce.service.answers.values_at_bounds import bounds_note

N = 5000
RNG = np.random.default_rng(8)
STAYS = np.ceil(8 * RNG.weibull(1.5, N))
WARDS = RNG.choice(list("AB"), N).tolist()
NARROW = Number(0, 3)


def said(verb: str, column: Any, values: np.ndarray, scale: float = 2.0, **more: Any) -> str | None:
    facts = Facts(days=column, ward=Category(["A", "B"]))
    more |= {"at": (0.25, 0.5, 0.75), "bins": 50} if verb == "quantiles" else {}
    question = Question(verb, ("days",), facts, **more)  # type: ignore[arg-type]
    records = {"days": values.tolist(), "ward": WARDS}
    given = {name: records[name] for name in [*question.by, "days"]}
    release = NoisyCells(question, N, "gaussian", scale).release(given, seeded_rng(2))
    return bounds_note(release.value)


@pytest.mark.parametrize("by", [(), ("ward",)], ids=["all", "by ward"])
@pytest.mark.parametrize("verb", ["mean", "quantiles"])
@pytest.mark.parametrize("column", [NARROW, Number(1, 3), Number(-5, 3), Count(3)], ids=str)
def test_bounds_that_are_too_narrow_are_told(verb: str, column: Any, by: tuple[str, ...]) -> None:
    """Of stays of which 59 % and more were at the bound, the mean was told with confidence and without a word."""
    note = said(verb, column, STAYS, by=by)
    if verb == "quantiles" and isinstance(column, Count):  # which are told value by value
        assert note is None
        return
    assert note is not None
    if verb == "mean":
        assert note.startswith("many values of days seem to lie at 3, where all above it count: if that is a surprise")
    else:
        inner = column.high - (column.high - column.low) / 50
        part = int(note.split()[1])
        assert abs(part - 100 * np.mean(STAYS >= 3)) < 1.5
        assert f"% of the values of days lie between {inner:.6g} and 3, where all above it count" in note
    assert "below" not in note


def test_the_part_at_a_lower_bound_is_told_unless_it_is_zero() -> None:
    temperatures = np.clip(RNG.normal(36, 1, N), 30, 45)
    for verb in ("mean", "quantiles"):
        note = said(verb, Number(36.5, 45), temperatures)
        assert note is not None and "36.5" in note and "where all below it count" in note and "above" not in note
        costs = np.where(RNG.random(N) < 0.8, 0.0, RNG.gamma(2, 300, N))
        assert said(verb, Number(0, 20000), costs) is None


@pytest.mark.parametrize(
    "values",
    [
        RNG.uniform(0, 100, N),
        np.clip(RNG.normal(95, 3, N), 0, 100),
        np.clip(RNG.exponential(8, N), 0, 100),
        100 - np.clip(RNG.exponential(8, N), 0, 100),
        RNG.normal(50, 5, N),
        100.0 * (RNG.random(N) < 0.4),
        np.full(N, 20.0),
    ],
    ids=["even", "near the top", "skewed", "skewed down", "narrow", "two values", "one value"],
)
@pytest.mark.parametrize("by", [(), ("ward",)], ids=["all", "by ward"])
def test_records_that_lie_otherwise_are_not_suspected(values: np.ndarray, by: tuple[str, ...]) -> None:
    assert said("mean", Number(0, 100), values, by=by) is None
    if len(set(values.tolist())) > 2:
        assert said("quantiles", Number(0, 100), values, by=by) is None


def test_noise_alone_says_nothing() -> None:
    """Where noise is as large as what is told, nothing is suspected of any records: chance is not a finding."""
    even = RNG.uniform(0, 3, N)
    for seed in range(40):
        question = Question("mean", ("days",), Facts(days=NARROW))
        release = NoisyCells(question, N, "laplace", 2000.0).release({"days": even.tolist()}, seeded_rng(seed))
        assert bounds_note(release.value) is None
        question = Question("quantiles", ("days",), Facts(days=NARROW), at=(0.5,))
        release = NoisyCells(question, N, "laplace", 500.0).release({"days": even.tolist()}, seeded_rng(seed))
        assert bounds_note(release.value) is None


def test_no_records_are_no_trouble() -> None:
    empty = NoisyCells(Question("mean", ("days",), Facts(days=NARROW)), 0, "gaussian", 2.0)
    assert bounds_note(empty.release({"days": []}, seeded_rng(1)).value) is None
