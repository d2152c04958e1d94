"""Queries: parsed and never run, and each answer against an independent oracle."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sottovoce.faces.server.queries import check_query, evaluate, parse_query
from sottovoce.faces.server.queries.parsing import LONGEST
from sottovoce.mechanisms.conjugate import (
    BetaBernoulli,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    NormalMean,
    System,
)
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.randomness import seeded_rng

CHARACTERS = st.characters(exclude_categories=["Cs"])
"""Those of any text; by default all of Unicode is tried for them first, which takes seconds."""
BERNOULLI = BetaBernoulli(1, 1)
POISSON = GammaPoisson(shape=1, rate=1, high=9)
EXPONENTIAL = GammaExponential(shape=1, rate=1, high=9)
NORMAL = NormalMean(variance=4.0, prior_variance=1, bounds=(-9, 9))
VECTOR = NormalMean(variance=4.0, prior_variance=1, radius=1.0, dimension=2)
WARDS = DirichletCategorical([1, 1, 1], categories=("N", "S", "E"))
GRADES = DirichletCategorical([1, 1, 1], categories=(3, 1, 2))

FAMILIES: list[tuple[System, float, Any]] = [
    (BERNOULLI, 0.3, stats.bernoulli(0.3)),
    (POISSON, 2.5, stats.poisson(2.5)),
    (EXPONENTIAL, 0.7, stats.expon(scale=1 / 0.7)),
    (NORMAL, 1.25, stats.norm(1.25, 2.0)),
]
EVENTS: dict[str, Any] = {
    "x > 1": lambda x: x > 1,
    "x >= 1": lambda x: x >= 1,
    "1 < x": lambda x: x > 1,
    "x = 1": lambda x: x == 1,
    "x != 1": lambda x: x != 1,
    "not x > 1": lambda x: not x > 1,
    "x > 0 and x <= 2.5": lambda x: 0 < x <= 2.5,
    "x < 0 or x in (1, 3)": lambda x: x < 0 or x in (1, 3),
    "x not in (0, 2)": lambda x: x not in (0, 2),
    "(x > 1 and not (x > 2)) or x >= 4": lambda x: 1 < x <= 2 or x >= 4,
    "x < -100": lambda x: x < -100,
    "x > 1 or x <= 1": lambda x: True,
}


def number(text: str, system: System, theta: Any) -> Any:
    [value] = evaluate(parse_query(text), system, np.array([theta]), seeded_rng(0))
    return value


NODES, WEIGHTS = np.polynomial.legendre.leggauss(60)


def moments(distribution: Any, holds: Any) -> tuple[float, float]:
    """Return Pr[event] and E[x; event] by a sum over whole numbers or by quadrature, event by event."""
    if hasattr(distribution, "pmf"):
        kept = np.array([k for k in range(200) if holds(k)])
        masses = distribution.pmf(kept)
        return masses.sum(), masses @ kept
    cuts = [-100.0, -60.0, -30.0, -10.0, 0.0, 1.0, 2.0, 2.5, 3.0, 4.0, 10.0, 30.0, 60.0]
    mass = moment = 0.0
    for a, b in itertools.pairwise(cuts):  # between two cuts an event holds everywhere or nowhere
        if holds((a + b) / 2):
            x, weights = (a + b) / 2 + (b - a) / 2 * NODES, (b - a) / 2 * WEIGHTS
            mass, moment = mass + weights @ distribution.pdf(x), moment + weights @ (x * distribution.pdf(x))
    return mass, moment


@pytest.mark.parametrize(("system", "theta", "distribution"), FAMILIES, ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("event", EVENTS)
def test_events_and_conditional_means(system: System, theta: float, distribution: Any, event: str) -> None:
    mass, moment = moments(distribution, EVENTS[event])
    assert number(f"probability({event})", system, theta) == pytest.approx(mass, abs=1e-10)
    if mass > 1e-6:
        assert number(f"mean(x | {event})", system, theta) == pytest.approx(moment / mass, rel=1e-7)
    else:
        assert np.isnan(number(f"mean(x | {event})", system, theta)) or mass > 0


@pytest.mark.parametrize(("system", "theta", "distribution"), FAMILIES, ids=lambda x: type(x).__name__)
def test_means_quantiles_and_draws(system: System, theta: float, distribution: Any) -> None:
    assert number("mean(x)", system, theta) == pytest.approx(distribution.mean())
    for level in (0.05, 0.5, 0.9, 0.99):
        assert number(f"quantile(x, {level})", system, theta) == pytest.approx(distribution.ppf(level))
    drawn = evaluate(parse_query("draw(x)"), system, np.full(20_000, theta), seeded_rng(1))
    assert drawn.mean() == pytest.approx(distribution.mean(), abs=5 * distribution.std() / 20_000**0.5)
    assert drawn.std() == pytest.approx(distribution.std(), rel=0.05)


@pytest.mark.parametrize(("low", "tail"), [(60, stats.poisson(2.5).sf(60)), (30, stats.poisson(2.5).sf(30))])
def test_small_probabilities_keep_their_digits(low: int, tail: float) -> None:
    assert number(f"probability(x > {low})", POISSON, 2.5) == pytest.approx(tail, rel=1e-9)
    normal = stats.norm(0.0, 2.0).sf(30.0)
    assert number("probability(x > 30)", NORMAL, 0.0) == pytest.approx(normal, rel=1e-9)


def test_categories() -> None:
    theta = [0.2, 0.3, 0.5]
    assert number("theta['S']", WARDS, theta) == number("theta[1]", WARDS, theta) == 0.3
    assert number("probability(x in ('N', 'E'))", WARDS, theta) == pytest.approx(0.7)
    assert number("probability(not x = 'N')", WARDS, theta) == pytest.approx(0.8)
    drawn = evaluate(parse_query("draw(x)"), WARDS, np.tile(theta, (20_000, 1)), seeded_rng(1))
    assert [np.mean(drawn == name) for name in "NSE"] == pytest.approx(theta, abs=0.02)
    assert number("mean(x)", GRADES, theta) == pytest.approx(0.2 * 3 + 0.3 * 1 + 0.5 * 2)
    assert number("mean(x | x in (1, 3))", GRADES, theta) == pytest.approx((0.6 + 0.3) / 0.5)
    assert [number(f"quantile(x, {q})", GRADES, theta) for q in (0.1, 0.5, 0.85)] == [1, 2, 3]


def test_vectors() -> None:
    assert number("theta", VECTOR, [0.25, 0.5]).tolist() == [0.25, 0.5]
    assert number("2 * theta - 1", VECTOR, [0.25, 0.5]).tolist() == [-0.5, 0.0]
    assert number("theta[1] / theta[0]", VECTOR, [0.25, 0.5]) == 2


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("theta", 0.25),
        ("1 - theta", 0.75),
        ("theta / (1 - theta)", 1 / 3),
        ("-theta * 2 + 1", 0.5),
        ("2 - 1 - 1", 0.0),
        ("8 / 4 / 2", 1.0),
        ("1 + 2 * 3", 7.0),
        ("log(theta) + exp(0) + sqrt(4)", np.log(0.25) + 3),
        ("--theta", 0.25),
        ("THETA", 0.25),
        ("1e-1 + .5", 0.6),
    ],
)
def test_arithmetic(text: str, value: float) -> None:
    assert number(text, BERNOULLI, 0.25) == pytest.approx(value, abs=1e-15)


def test_what_is_no_number_is_no_error() -> None:
    assert np.isneginf(number("log(0)", BERNOULLI, 0.5))
    assert np.isnan(number("log(0 - 1)", BERNOULLI, 0.5))
    assert np.isinf(number("1 / 0", BERNOULLI, 0.5))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Got nothing"),
        ("x", "expected one of theta"),
        ("theta theta", "the end"),
        ("__import__('os').system('true')", "expected one of theta"),
        ("().__class__", r"expected a number"),
        ("theta.__class__", r"cannot contain '.__class__'"),
        ("lambda: 1", "expected one of"),
        ("theta; theta", "cannot contain"),
        ("theta ** 2", "expected a number"),
        ("mean(y)", "expected x"),
        ("mean(x", r"expected '\)'"),
        ("mean(x | x > 1", "to end the event"),
        ("probability()", "Got nothing"),
        ("probability(x > )", "expected a column or a value"),
        ("quantile(x, 1)", "between 0 and 1"),
        ("quantile(x)", "expected ','"),
        ("draw(theta)", "expected x"),
        ("theta[-1]", "expected a category"),
        ("1e999", "finite"),
        ("(" * 30 + "theta" + ")" * 30, "nested 20 deep"),
        ("theta" + " + 1" * 400, f"{LONGEST} characters"),
    ],
)
def test_what_is_no_query_is_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidValue, match=said):
        parse_query(text)


@pytest.mark.parametrize(
    ("text", "system", "said"),
    [
        ("theta[0]", BERNOULLI, "one number"),
        ("theta['X']", WARDS, "no category 'X'"),
        ("theta[3]", WARDS, "0 to 2"),
        ("mean(x)", WARDS, "asks for a number"),
        ("quantile(x, 0.5)", WARDS, "asks for a number"),
        ("draw(x) + 1", WARDS, "no number"),
        ("probability(x > 'N')", WARDS, "no order"),
        ("probability(x = 'X')", WARDS, "x is one of"),
        ("probability(x = 'a')", BERNOULLI, "compare it with numbers"),
        ("probability(age > 3)", BERNOULLI, "about x"),
        ("probability(x)", BERNOULLI, "x alone"),
        ("probability(x is null)", BERNOULLI, "never missing"),
        ("probability(x = x)", BERNOULLI, "with a value"),
        ("probability(x > 1)", VECTOR, "vector"),
        ("mean(x | x > 1)", VECTOR, "vector"),
        ("quantile(x, 0.5)", VECTOR, "vector"),
    ],
)
def test_what_makes_no_sense_for_a_system_is_refused_without_data(text: str, system: System, said: str) -> None:
    with pytest.raises(InvalidValue, match=said):
        check_query(parse_query(text), system)


@settings(max_examples=50, deadline=None)
@given(st.text(CHARACTERS, max_size=60) | st.text(alphabet="theax()[]|<>=.,'0123 +-*/pobilymnd", max_size=60))
def test_any_text_is_a_query_or_a_clear_refusal(text: str) -> None:
    try:
        query = parse_query(text)
        check_query(query, WARDS)
    except InvalidValue as refusal:
        assert str(refusal)
