"""Splines on public knots: the functions are de Boor's, curves are found, and what cannot be carried is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.interpolate import BSpline, CubicSpline

import sottovoce as sv
from sottovoce.inference.regression import Formula
from sottovoce.privacy.errors import InvalidValue
from sottovoce.records.facts.encodings import Encoding
from sottovoce.records.facts.formula_parser import parse_formula
from sottovoce.records.facts.splines import Spline

FACTS = sv.Facts(age=sv.Number(20, 90), visits=sv.Count(9), smoker=sv.Flag(), ward=sv.Category(["A", "B"]))
T = np.linspace(0, 1, 401)


@pytest.mark.parametrize("df", [3, 4, 7, 12])
def test_b_splines_are_those_of_scipy_without_the_first(df: int) -> None:
    knots = np.concatenate([[0.0] * 3, np.linspace(0, 1, df - 1), [1.0] * 3])
    for k in range(df):
        want = BSpline(knots, np.eye(df + 1)[k + 1], 3)
        assert Spline("bs", df).values(T, k) == pytest.approx(want(T), abs=1e-12)
        assert Spline("bs", df).slopes(T[:-1], k) == pytest.approx(want.derivative()(T[:-1]), abs=1e-9)


@pytest.mark.parametrize("df", [2, 4, 12])
def test_natural_splines_are_those_through_one_at_a_knot_and_within_their_bounds(df: int) -> None:
    knots, spline = np.linspace(0, 1, df + 1), Spline("ns", df)
    for k in range(df):
        want = CubicSpline(knots, np.eye(df + 1)[k + 1], bc_type="natural")(T)
        low, high = spline.ends(k)
        assert spline.values(T, k) == pytest.approx(want, abs=1e-12)
        assert low - 1e-9 <= want.min() and want.max() <= high + 1e-9 and high - low < 1.3


def test_nothing_that_a_record_may_hold_leads_out_of_the_bounds_or_fails() -> None:
    encoding = parse_formula("smoker ~ bs(age, df=5) + ns(visits, df=3)", FACTS).encoding
    odd = np.array([20.0, 20.0 + 1e-14, 5e-324, -np.inf, np.inf, 1e308, -1e308, 90.0, np.nextafter(90, 0), np.nan])
    rows, known = encoding.rows([odd, np.resize([0.0, 9.0, 1e300], odd.size)])
    low, high = encoding.ends
    assert np.all((rows >= np.minimum(low, 0)) & (rows <= high)) and known.tolist() == [True] * 9 + [False]


def test_terms_are_named_and_read_back_and_an_encoding_of_before_is_as_it_was() -> None:
    formula = Formula("smoker ~ ward + bs(age, df=4) + ns(visits, df=2)", FACTS)
    assert formula.terms == [
        "Intercept",
        "ward[T.B]",
        *(f"bs(age)[{k}]" for k in range(1, 5)),
        "ns(visits)[1]",
        "ns(visits)[2]",
    ]
    assert Encoding.from_dict(json.loads(json.dumps(formula.encoding.to_dict()))) == formula.encoding
    assert "splines" not in Formula("smoker ~ ward + age", FACTS).encoding.to_dict()
    assert Formula.from_dict(json.loads(json.dumps(formula.to_dict()))) == formula
    assert formula.columns == ["ward", "age", "visits", "smoker"]


def test_a_centred_column_leaves_slopes_and_moves_the_intercept_to_the_middle() -> None:
    plain, centred = (parse_formula(f"smoker ~ {text}*ward", FACTS) for text in ("age", "center(age)"))
    assert centred.terms == ("Intercept", "center(age)", "ward[T.B]", "center(age):ward[T.B]")
    theta = np.array([0.3, -0.2, 0.5, 0.1])
    there, here = plain.units @ theta, centred.units @ theta
    assert here[[1, 3]] == pytest.approx(there[[1, 3]])
    assert here[[0, 2]] == pytest.approx(there[[0, 2]] + 55 * there[[1, 3]])


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("smoker ~ bs(age):ward", "by itself"),
        ("smoker ~ bs(ward)", "a curve of a number"),
        ("smoker ~ bs(age) + age", "leave age alone out"),
        ("smoker ~ bs(age) + ns(age)", "one spline"),
        ("smoker ~ bs(age, df=2)", "df from 3"),
        ("smoker ~ ns(age, df=900)", "to 12"),
        ("smoker ~ bs(age, knots=[3])", "by itself"),
        ("visits ~ bs(visits)", "explain itself"),
        ("smoker ~ center(age) + age:ward", "or nowhere"),
        ("smoker ~ center(ward)", "of a number"),
        ("smoker ~ center(age + visits)", "one column"),
    ],
)
def test_what_cannot_be_carried_is_refused_in_a_line(formula: str, said: str) -> None:
    with pytest.raises(InvalidValue, match=said) as refused:
        parse_formula(formula, FACTS)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("curve", ["bs(age, df=5)", "ns(age, df=5)"])
def test_a_curve_is_found_and_told_by_the_column_it_is_of(curve: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    age, ward = rng.uniform(20, 90, 20_000), rng.choice(["A", "B"], 20_000)

    def truth(x: np.ndarray) -> np.ndarray:
        return 10 + 1.5 * np.sin((x - 20) / 70 * 4)

    y = np.clip(truth(age) + 0.5 * (ward == "B") + rng.normal(size=age.size), 0, 20)
    facts = sv.Facts(age=sv.Number(20, 90), ward=sv.Category(["A", "B"]), y=sv.Number(0, 20))
    data = pd.DataFrame({"age": age, "ward": ward, "y": y})
    with sv.Curator(data, tmp_path / "a.ledger", "zcdp:2", facts=facts, dataset="d") as curator:
        answer = curator.regress(f"y ~ {curve} + ward", spend=0.5)
    drawn = answer.effect("age")
    x = drawn["age"].to_numpy(dtype=float)
    assert np.abs(drawn["estimate"] - truth(x)).max() < 0.4
    assert (drawn["high"] - drawn["low"]).mean() < 0.6
    said = answer.predict({"age": [30.0, 60.0], "ward": ["A", "B"]})
    assert said["estimate"].to_numpy() == pytest.approx(truth(np.array([30.0, 60.0])) + np.array([0, 0.5]), abs=0.4)
    assert len(answer.average_effects("age")) == 1
    assert {"bs(age)[5]", "ns(age)[5]"} & {row["term"] for row in answer.rows}
