"""Formulas are measured before they are expanded; formulaic's own expansion is the oracle."""

import itertools

import numpy as np
import pandas as pd
import pytest
from formulaic import model_matrix
from formulaic.parser import DefaultFormulaParser

from sottovoce.privacy.errors import InvalidValue
from sottovoce.records.facts import Category, Count, Facts, Flag, Number
from sottovoce.records.facts.formula_parser import parse_formula
from sottovoce.records.facts.formula_size import check_columns_of_terms, check_expansion

WIDE = {f"c{k}": Category([f"v{j}" for j in range(64)]) for k in range(4)} | {f"f{k}": Flag() for k in range(12)}
FACTS = Facts(smoker=Flag(), age=Number(0, 110), visits=Count(30), ward=Category(["A", "B", "C"]), **WIDE)
MOST = 400


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        ("(age+visits+ward)**20", "expanded to more than"),
        ("(age+visits+ward)^20", "expanded to more than"),
        ("(age+visits+ward)**(20)", "expanded to more than"),
        ("((age+visits)**5)**5", "expanded to more than"),
        ("((((age+visits)**9)+ward)**9)", "expanded to more than"),
        ("*".join(["age"] * 400), "and no square"),
        ("*".join(f"f{k}" for k in range(12)) + "*" + "*".join(["age", "visits"] * 3), "expanded to more than"),
        ("(age+visits+ward)**50000000", "small whole number"),
        ("(age+visits)**(20+age)", "small whole number"),
        ("(age+visits)**2**2**2**9", "small whole number"),
        ("(age+visits)**1e3", "small whole number"),
        ("(age+visits)**0x7f", "small whole number"),
        ("(age+visits)**0", "cannot read the terms"),
        ("c0*c1*c2*c3", "at most 400 terms"),
        ("c0:c1:c2:c3", "at most 400 terms"),
        (":".join(f"C(f{k})" for k in range(12)), "at most 400 terms"),
        ("(" * 2000, "a text such as"),
        ("(" * 900, "cannot read the terms"),
    ],
)
def test_a_formula_that_would_grow_without_bound_is_refused(terms: str, said: str) -> None:
    with pytest.raises(InvalidValue, match=said):
        parse_formula(f"smoker ~ {terms}", FACTS)


def test_deep_brackets_and_long_sums_are_read() -> None:
    assert len(parse_formula("smoker ~ " + "(" * 900 + "age + visits:ward" + ")" * 900, FACTS).terms) == 5
    assert parse_formula("smoker ~ " + "age+" * 400 + "visits", FACTS).terms == ("Intercept", "age", "visits")


def test_powers_that_a_statistician_writes_are_read() -> None:
    assert len(parse_formula("smoker ~ (age + visits + f0 + f1)**3", FACTS).terms) == 1 + 4 + 6 + 4
    assert len(parse_formula("smoker ~ (age + visits + ward)^2 - age", FACTS).terms) == 1 + 3 + 1 + 3 + 2


FRAME = pd.DataFrame(
    {
        "x": np.linspace(0, 1, 240),
        "z": np.linspace(0, 1, 240) ** 2,
        **{
            name: pd.Categorical(np.arange(240) // step % k)
            for name, k, step in (("a", 2, 1), ("b", 3, 2), ("c", 5, 6))
        },
    }
)
LEVELS = {"x": None, "z": None, "a": 2, "b": 3, "c": 5}


def _columns(factors: list[list[str]]) -> int:
    """Return the fewest columns that are allowed."""

    def fits(most: int) -> bool:
        try:
            check_columns_of_terms(factors, LEVELS, most)
        except InvalidValue:
            return False
        return True

    return next(most for most in range(1000) if fits(most))


@pytest.mark.parametrize("operators", list(itertools.product("+*:", "+*:/", "+*:")))
@pytest.mark.parametrize("intercept", ["", "0 + "])
def test_columns_are_counted_as_formulaic_makes_them(operators: tuple[str, ...], intercept: str) -> None:
    for names in (("a", "b", "c", "x"), ("x", "a", "z", "c"), ("c", "c", "b", "a")):
        terms = intercept + names[0] + "".join(o + n for o, n in zip(operators, names[1:], strict=True))
        matrix = model_matrix(terms, FRAME)
        factors = [[f.expr for f in term.factors if f.expr in LEVELS] for term in matrix.model_spec.formula]
        assert _columns(factors) == matrix.shape[1], terms


@pytest.mark.parametrize(
    "terms", ["(a+b+c)**3", "a*b*c*x", "(a+b)**2*(c+x)", "a/b/c", "((a+b)**2+c)**2 - a", "a:b:c:x"]
)
def test_no_formula_is_expanded_to_more_than_was_counted(terms: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = DefaultFormulaParser().get_ast(terms)
    expanded = len(DefaultFormulaParser().get_terms(terms))
    monkeypatch.setattr("sottovoce.records.facts.formula_size._MOST_PRODUCTS", expanded - 1)
    with pytest.raises(InvalidValue, match="expanded"):
        check_expansion(tree)
