"""Formulas that who asks takes to be right: intervals are narrower, and hold as often where they are."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from benchmarks.regression_coverage import formula, some_fits

from sottovoce.inference.regression import AdaptiveLooks, Formula, plan_looks
from sottovoce.inference.regression.misspecification import Misspecification
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import ApproxDP
from sottovoce.records.facts import Category, Count, Facts, Flag, Number

FACTS = Facts(y=Flag(), z=Number(0, 9), k=Count(9), c=Category(["a", "b", "d"]), x=Number(-1, 1))


@pytest.mark.weekly
@pytest.mark.parametrize(("family", "rows"), [("linear", "light"), ("poisson", "heavy")])
def test_intervals_hold_the_truth_as_often_as_they_say_and_are_narrower(family: str, rows: str) -> None:
    """Twenty fits of five coefficients: of intervals that hold eight in ten, one set in two hundred would pass."""
    right = some_fits((family, 10_000, 5, rows, 78, 20, (1.0,), "chosen", 0.0))
    usual = some_fits((family, 10_000, 5, rows, 78, 1, (1.0,), "chosen", None))
    assert (np.abs([z for _, z, *_ in right]) < 1.96).mean() >= 0.9
    assert np.median(right[0][-1]) < 0.8 * np.median(usual[0][-1])


def test_what_formulas_miss_goes_by_the_response_and_is_asked_as_before_where_it_is_not_said() -> None:
    found = {name: Formula(f"{name} ~ x", FACTS) for name in "yzkc"}
    assert [one.misses for one in found.values()] == [0.1, 0.15, 0.15, 0.1]
    for name, one in found.items():
        assert "misses" not in one.to_dict() and Formula.from_dict(one.to_dict()) == one
        right = Formula(f"{name} ~ x", FACTS, misses=0)
        assert right.to_dict()["misses"] == 0 and Formula.from_dict(right.to_dict()) == right != one
        assert Formula(f"{name} ~ x", FACTS, misses=one.misses) == one
    assert Formula.from_facts({"formula": "y ~ x", "misses": 0.3}, FACTS).misses == 0.3


@pytest.mark.parametrize("misses", [0, -0.0, Fraction(0), np.float32(0), np.int64(0)])
def test_every_zero_is_the_same_question_in_the_same_words(misses: float) -> None:
    asked = Formula("y ~ x", FACTS, misses=misses)
    assert json.dumps(asked.to_dict()) == json.dumps(Formula("y ~ x", FACTS, misses=0.0).to_dict())


@pytest.mark.parametrize("prior", [2, 2.0, Fraction(2), np.float32(2), np.int64(2)])
def test_one_prior_is_the_same_question_however_its_number_is_written(prior: float) -> None:
    said = json.dumps(Formula("y ~ x", FACTS, prior=2.0, spread=1.0).to_dict())
    assert json.dumps(Formula("y ~ x", FACTS, prior=prior, spread=1).to_dict()) == said


@pytest.mark.parametrize("misses", [-0.1, math.nan, math.inf, 10.0, "0", [0.0], True])
def test_what_is_no_part_is_refused(misses: object) -> None:
    with pytest.raises(InvalidValue, match="misses"):
        Formula("y ~ x", FACTS, misses=misses)  # type: ignore[arg-type]


def test_looks_that_differ_are_told_of_a_formula_that_is_taken_to_be_right_and_widen_nothing() -> None:
    rng = np.random.default_rng(1)
    z, ones = rng.standard_normal((400, 2)), np.ones(400)
    before = np.minimum(1.0, 1 / np.sqrt((z**2).sum(axis=1)))
    usual = Misspecification(z, 50 * ones, ones, before, ones, 1.0, 0.1, 0.1, 1e4 * np.eye(2), np.eye(2))
    right, nearly = replace(usual, tau=0.0), replace(usual, tau=1e-9)
    for gap in (0.0, 1e5):
        score, off, known = np.full((1, 2), gap), np.zeros((1, 2)), 1e-4 * np.eye(2)
        widened, missed = usual.told(score, off, 3.0, known)
        kept, told = right.told(score, off, 3.0, known)
        assert missed == told and np.all(np.diag(widened) > 1.5)
        assert np.array_equal(kept, np.eye(2))
        less, said = nearly.told(score, off, 3.0, known)
        assert said == told and less == pytest.approx(np.eye(2))
    assert told > 1.0


def test_a_plan_knows_that_it_is_narrower() -> None:
    promise, plans = ApproxDP(1.0, 1e-6), []
    for misses in (None, 0.0):
        asked = formula("poisson", 5, "light", misses=misses)
        plans.append(plan_looks(AdaptiveLooks.calibrate(asked, 50_000, promise), promise, imagined=["x1=0.1"]))
    usual, right = (np.array([term.width for term in plan.terms]) for plan in plans)
    assert np.all(right[1:] < 0.8 * usual[1:])


def test_a_look_is_no_dearer_for_a_formula_that_is_right() -> None:
    """What is claimed rests on the plan of looks, which nobody's trust changes."""
    usual, right = (
        AdaptiveLooks.calibrate(formula("linear", 5, "light", misses=misses), 500, ApproxDP(1.0, 1e-6))
        for misses in (None, 0.0)
    )
    assert usual.plan == right.plan and usual.profile.to_dict() == right.profile.to_dict()


@pytest.mark.parametrize("response", ["y", "z"])
def test_of_any_part_intervals_are_numbers_and_wider_where_it_is_larger(response: str) -> None:
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, 2000)
    table = {"x": x, "y": rng.random(2000) < 0.4, "z": (5 + x + rng.normal(0, 1, 2000)).clip(0, 9)}
    widths = []
    for part in (0.0, 5e-324, 1e-6, math.nextafter(10.0, 0.0)):
        asked = Formula(f"{response} ~ x", FACTS, misses=part)
        found = AdaptiveLooks.calibrate(asked, 2000, ApproxDP(1.0, 1e-6)).release(table, np.random.default_rng(1)).value
        widths.append(np.diff(found.interval())[:, 0])
        assert Formula.from_dict(asked.to_dict()) == asked
    right, *nearly, much = widths
    assert np.all(np.isfinite(widths)) and np.all(much > right)
    for one in nearly:
        assert one == pytest.approx(right, rel=1e-3)  # of how far the formula misses a grid is laid, unless it is 0
