"""A level's mean that the response's bounds rule out is told as such, and nothing else is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.inference.regression import AdaptiveLooks, Formula
from sottovoce.inference.regression.coefficients import Coefficients
from sottovoce.mechanisms import Release
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.service.answers import Regression
from sottovoce.service.answers.out_of_bounds_levels import beyond_note

FACTS = sv.Facts(
    ward=sv.Category(["A", "B", "C"]), smoker=sv.Flag(), age=sv.Number(0, 100), sbp=sv.Number(60, 250), n=sv.Count(9)
)


def told(formula: str, means: list[float]) -> str | None:
    size = len(means)
    asked = Formula(formula, FACTS, family="linear" if formula.startswith("n") else None)
    return beyond_note(Coefficients(asked, np.ones(1), np.array([means]), np.eye(size)[None], np.ones(size)))


@pytest.mark.parametrize(
    ("formula", "means", "levels"),
    [
        ("sbp ~ ward", [130.0, 5.0, 119.0], ""),  # 249
        ("sbp ~ ward", [130.0, 5.0, 121.0], "ward C"),  # 251
        ("sbp ~ ward", [130.0, -71.0, 121.0], "ward B, ward C"),
        ("sbp ~ ward", [59.0, 5.0, 9.0], "ward A"),
        ("sbp ~ 0 + ward", [59.0, 65.0, 251.0], "ward A, ward C"),
        ("sbp ~ smoker", [200.0, 60.0], "smoker yes"),
        ("sbp ~ ward + smoker", [200.0, 0.0, 49.0, 40.0], ""),  # the one beside the first of the other
        ("sbp ~ age + smoker", [10.0, 2.0, 0.0], ""),  # at age 50, not 0: 110
        ("sbp ~ age + smoker", [130.0, 3.0, 0.0], "smoker no, smoker yes"),
        ("sbp ~ age", [130.0, 30.0], ""),  # there is no level
        ("n ~ ward", [1.0, 9.0, 3.0], "ward B"),
        ("smoker ~ ward", [130.0, 5.0, 121.0], ""),  # odds have no bounds
    ],
)
def test_levels_beyond_the_bounds_are_named(formula: str, means: list[float], levels: str) -> None:
    said = told(formula, means)
    assert (said is None) == (not levels)
    assert said is None or f" of {levels} beyond its bounds" in said


def test_the_note_is_of_the_answer_and_what_is_predicted_stays_within() -> None:
    rng = seeded_rng(0)
    ward = rng.choice(["A", "B", "C"], 500)
    mechanism = AdaptiveLooks.calibrate(Formula("sbp ~ ward", FACTS), 500, sv.ApproxDP(3.0, 1e-6))
    made = mechanism.release({"ward": ward, "sbp": rng.normal(130, 10, 500)}, seeded_rng(1))
    fit = Regression(made)
    assert not any("rule that out" in note for note in fit.notes)
    moved = replace(fit.posterior, means=fit.posterior.means + np.array([0.0, 0.0, 300.0]))
    off = Regression(replace(made, value=moved))
    assert [note for note in off.notes if "the mean sbp of ward C beyond its bounds, 60 to 250" in note]
    assert off.predict({"ward": ["C"]}).estimate.item() <= 250
    again = Regression.from_dict(off.to_dict())
    assert isinstance(again.release, Release) and again.notes == off.notes
