"""Formulas by public facts: the entries that formulaic makes of the data, without ever seeing them."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from formulaic import model_matrix

from sottovoce.privacy.errors import InvalidValue
from sottovoce.records.facts import Category, Count, Day, Derived, Facts, Flag, Number
from sottovoce.records.facts import formula_parser as formulas
from sottovoce.records.facts.encodings import Encoding
from sottovoce.records.facts.formula_parser import parse_formula
from sottovoce.records.readings.families import family_of

FACTS = Facts(
    {"blood pressure": Number(60, 250)},
    smoker=Flag(),
    age=Number(0, 110),
    sex=Flag(),
    ward=Category(["A", "B", "C:x"]),
    visits=Count(9),
    seen=Day("2024-01-01", "2024-12-31"),
)
TERMS = [
    "age + C(ward) + age:sex",
    "age*ward",
    "0 + ward",
    "0 + ward:age + C(sex)",
    "`blood pressure`*sex - 1",
    "age:visits + ward",
    "age + C(ward) + sex + visits",
    "ward:sex",
    "age*visits*ward",
    "1",
]


def frame(n: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "blood pressure": rng.uniform(60, 250, n),
            "age": rng.uniform(0, 110, n),
            "sex": rng.random(n) < 0.5,
            "ward": pd.Categorical(rng.choice(["A", "B", "C:x"], n), categories=["A", "B", "C:x"]),
            "visits": rng.integers(0, 10, n),
        }
    )


@pytest.mark.parametrize("terms", TERMS)
def test_coefficients_in_units_predict_what_formulaic_predicts_from_the_data(terms: str) -> None:
    parsed, data = parse_formula(f"smoker ~ {terms}", FACTS), frame()
    wanted = model_matrix(terms, data)
    assert list(parsed.terms) == list(wanted.columns)
    values = [
        data[n].cat.codes.to_numpy(float) if isinstance(c, Category) else data[n].to_numpy(float)
        for n, c in zip(parsed.encoding.names, parsed.encoding.columns, strict=True)
    ]
    rows, known = parsed.encoding.rows(values, len(data))
    assert known.all()
    assert np.abs(rows).max() <= 1
    theta = np.random.default_rng(1).normal(size=len(parsed.terms))
    assert np.allclose(rows @ theta, wanted.to_numpy(float) @ (parsed.units @ theta), atol=1e-6)


PLAIN = [
    "age",
    "age + ward",
    "1 + C(ward) + visits+sex",
    "C(sex)+ age",
    "1",
    "sex + (1 | ward)",
    "visits + C(ward) + sex",
]


@pytest.mark.parametrize("terms", PLAIN)
def test_plain_sums_are_read_as_formulaic_reads_them(terms: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = formulas._parsed(f"smoker ~ {terms}", FACTS)
    monkeypatch.setattr(formulas, "_plain", lambda fixed, facts: None)
    wanted = formulas._parsed(f"smoker ~ {terms}", FACTS)
    assert plain.terms == wanted.terms
    assert plain.encoding == wanted.encoding
    assert plain.groups == wanted.groups
    assert np.allclose(plain.units, wanted.units, atol=1e-9)


@pytest.mark.parametrize("terms", ["a*b", "a:b", "0 + a:b", "b + a:b"])
def test_of_many_products_none_is_left_out_of_the_units(terms: str) -> None:
    levels = {name: Category([f"{name}{k}" for k in range(count)]) for name, count in (("a", 5), ("b", 40))}
    # Products of levels are their own units; one that no imagined row had would be told as zero, whatever it is.
    assert np.allclose(parse_formula(f"y ~ {terms}", Facts(y=Flag(), **levels)).units, np.eye(200), atol=1e-9)


def test_plain_sums_are_read_without_what_reads_all_formulas() -> None:
    code = "import sys; from sottovoce.records.facts import *; "
    code += "from sottovoce.records.facts.formula_parser import parse_formula as p; "
    code += "p('y ~ a + C(c)', Facts(y=Flag(), a=Number(0, 1), c=Category(['u', 'v']))); "
    code += "assert not {'formulaic', 'pandas'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_misspelt_column_is_named_where_the_extra_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "formulaic", None)
    for terms, name in (("agee", "agee"), ("age + C(wards)", "wards")):
        with pytest.raises(InvalidValue, match=f"name no column '{name}'"):
            parse_formula(f"smoker ~ {terms}", FACTS)
    with pytest.raises(InvalidValue, match=r"sottovoce\[regression\]'\. Got 'age \+'"):
        parse_formula("smoker ~ age +", FACTS)


@pytest.mark.parametrize(
    "terms",
    [
        *("scale(age)", "bs(age, knots=[30])", "poly(age, 2)", "np.log(age)", "exp(age)", "{age + 1}"),
        *("C(ward, Treatment('B'))", "__import__('os').getcwd()", "lag(age)", "Q('age')", "weight", "seen", "smoker"),
        *("(age | ward)", "(1 | sex)", "(1 | age)", "(1|ward) + (1|ward)", "age +* 2", ".", "2:age", "age | ward"),
        *("C(age)", "age**2", "sex + age ^ 2"),
    ],
)
def test_what_would_be_read_off_the_data_is_refused_in_one_line(terms: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        parse_formula(f"smoker ~ {terms}", FACTS)
    assert "\n" not in str(refused.value)


NOTHING = ["smoker ~", "smoker ~   ", "smoker ~ +", "smoker ~ 0", "smoker ~ -1"]


def test_the_intercept_alone_is_written_as_one() -> None:
    assert parse_formula("smoker ~ 1", FACTS).terms == ("Intercept",)
    with pytest.raises(InvalidValue, match='write "~ 1" for the intercept alone'):
        parse_formula("smoker ~ ", FACTS)


@pytest.mark.parametrize("text", ["smoker", "~ age", "smoker ~ age ~ sex", "weight ~ age", "", 7, "y" * 3000, *NOTHING])
def test_what_is_no_formula_is_refused(text: object) -> None:
    with pytest.raises(InvalidValue):
        parse_formula(text, FACTS)  # type: ignore[arg-type]


def test_groups_have_an_effect_a_level_beside_the_fixed_terms() -> None:
    parsed = parse_formula("smoker ~ age + (1 | ward)", FACTS)
    assert parsed.groups == ((2, 5),)
    assert parsed.terms[2:] == ("(1 | ward)[A]", "(1 | ward)[B]", "(1 | ward)[C:x]")
    assert parse_formula("smoker ~ (1 | ward)", FACTS).terms[0] == "Intercept"


def test_a_product_without_its_parts_is_measured_from_zero_and_one_with_them_from_the_middle() -> None:
    assert parse_formula("smoker ~ age:visits", FACTS).encoding.centred == (False, False)
    assert parse_formula("smoker ~ age*visits", FACTS).encoding.centred == (True, True)


def test_missing_and_unknown_values_leave_a_row_of_zeros_unless_the_facts_say_otherwise() -> None:
    columns = (Number(0, 10), Category(["a", "b"], "b"), Flag(True))
    encoding = Encoding(("x", "g", "f"), columns, ((), ((0, -1),), ((1, 1),), ((2, -1),)))
    values = [np.array([np.nan, np.inf, -np.inf, 5.0]), np.array([0.0, -1, 0, -1]), np.array([1.0, np.nan, 0, np.nan])]
    rows, known = encoding.rows(values)
    assert known.tolist() == [False, True, True, True]
    assert rows.tolist() == [[0, 0, 0, 0], [1, 1, 1, 1], [1, -1, 0, 0], [1, 0, 1, 1]]
    assert Encoding.from_dict(encoding.to_dict()) == encoding


def test_a_flag_is_what_its_one_level_is() -> None:
    """One question, one prior: that of a slope widened with how rare the flag is, that of a level did not."""
    plain, coded = (parse_formula(f"smoker ~ age*{sex} + ward", FACTS).encoding for sex in ("sex", "C(sex)"))
    assert plain.entries == coded.entries


def test_an_encoding_of_factors_that_no_column_has_is_refused() -> None:
    for entries in ((((1, -1),),), (((0, 3),),), (), (((5, -1),),)):
        with pytest.raises(InvalidValue):
            Encoding(("x", "g"), (Number(0, 1), Category(["a", "b"])), entries)
    with pytest.raises(InvalidValue):
        Encoding(("d",), (FACTS["seen"],), ((),))


@pytest.mark.parametrize("terms", ["age*age", "age:age", "smoker + age * age", "`a b`*`a b`"])
def test_a_column_beside_itself_is_no_square(terms: str) -> None:
    facts = Facts({"died": Flag(), "age": Number(0, 1), "ages": Number(0, 1), "smoker": Flag(), "a b": Number(0, 1)})
    with pytest.raises(InvalidValue, match=r"is .* and no square"):
        parse_formula(f"died ~ {terms}", facts)
    assert parse_formula("died ~ age*ages", facts).terms == ("Intercept", "age", "ages", "age:ages")


DERIVING = Facts(
    {"total cost": Number(1, 9)},
    smoker=Flag(),
    age=Number(0, 110),
    cost=Number(1, 100),
    admitted=Day("2024-01-05", "2024-04-01"),
    ward=Category(["A", "B"]),
    log_cost=Derived("log(cost)"),
)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("smoker ~ log(1 + cost) + age", ["Intercept", "log(1 + cost)", "age"]),
        ("log(cost) ~ age + square(age)", ["Intercept", "age", "square(age)"]),
        ("smoker ~ log_cost:age", ["Intercept", "log_cost:age"]),
        ("smoker ~ log(cost):age", ["Intercept", "log(cost):age"]),
        ("smoker ~ I(cost*cost) + age", ["Intercept", "I(cost*cost)", "age"]),
        ("smoker ~ quarter(admitted)", ["Intercept", "quarter(admitted)[T.2]"]),
        ("smoker ~ recode(ward, 'A' = 'x', 'y') + age", ["Intercept", "recode(ward, 'A' = 'x', 'y')[T.y]", "age"]),
        (
            "smoker ~ 1 + (1 | quarter(admitted))",
            ["Intercept", "(1 | quarter(admitted))[1]", "(1 | quarter(admitted))[2]"],
        ),
    ],
)
def test_derived_columns_are_terms(text, terms):
    assert list(parse_formula(text, DERIVING).terms) == terms


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("smoker ~ log(cost)*log(cost)", r"say square\(log\(cost\)\)"),
        ("smoker ~ log(age)", r"say log\(1 \+ age\)"),
        ("smoker ~ log(`total cost`)", "name .* in the facts"),
        ("log(nothing) ~ age", "no column 'nothing'"),
        ("smoker ~ log(cost) + log(smoker)", "above 0"),
    ],
)
def test_derived_terms_that_make_no_sense_are_refused(text, said):
    with pytest.raises(InvalidValue, match=said):
        parse_formula(text, DERIVING)


def test_what_other_programs_write_is_told_in_our_words() -> None:
    facts = Facts(days=Number(0, 730), died=Flag(), age=Number(0, 110))
    with pytest.raises(InvalidValue, match="of times to an event say 'days ~ age' and event='died'"):
        parse_formula("Surv(days, died) ~ age", facts)
    with pytest.raises(InvalidValue, match=r"poly\(age, 2\) is no public term: .* ns\(a, df=4\)"):
        parse_formula("died ~ poly(age, 2)", facts)
    for word, ours in (("binomial", "logistic"), ("gaussian", "linear"), ("cox", "event= for hazard ratios")):
        with pytest.raises(InvalidValue, match=f"multinomial or ordinal. Got '{word}'; say {ours}"):
            family_of(word, Flag())
