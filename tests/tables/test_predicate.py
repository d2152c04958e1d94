"""The language of conditions: what it accepts, and that it accepts nothing else."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.records.facts.condition_parser import parse_predicate
from sottovoce.records.facts.condition_tree import And, ColumnTerm, Compare, IsMissing, Literal, Not, OneOf, Or
from sottovoce.records.readings import ClippedSum
from sottovoce.records.tables import open_table

A, B, C = ColumnTerm("a"), ColumnTerm("b"), ColumnTerm("c")


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a", A),
        ("a or b and c", Or((A, And((B, C))))),
        ("(a or b) and c", And((Or((A, B)), C))),
        ("not a and b", And((Not(A), B))),
        ("not (a and b)", Not(And((A, B)))),
        ("NOT a AND b Or c", Or((And((Not(A), B)), C))),
        ("a == 3", Compare("=", A, Literal(3))),
        ("a <> -3.5e2", Compare("!=", A, Literal(-350.0))),
        ("3 < a", Compare(">", A, Literal(3))),
        ("a=.5", Compare("=", A, Literal(0.5))),
        ("a >= b", Compare(">=", A, B)),
        ("a = 'it''s'", Compare("=", A, Literal("it's"))),
        ('a = "x"', Compare("=", A, Literal("x"))),
        ("a = true", Compare("=", A, Literal(True))),
        ("a in (1, 2)", OneOf(A, (Literal(1), Literal(2)), False)),
        ("a not in ['x']", OneOf(A, (Literal("x"),), True)),
        ("a between 1 and 2 and b", And((And((Compare(">=", A, Literal(1)), Compare("<=", A, Literal(2)))), B))),
        ("a NOT between b and 'x'", Or((Compare("<", A, B), Compare(">", A, Literal("x"))))),
        ("a is null", IsMissing(A, False)),
        ("a is not None", IsMissing(A, True)),
        ("`a b-c` = 1", Compare("=", ColumnTerm("a b-c"), Literal(1))),
        ("größe > 1", Compare(">", ColumnTerm("größe"), Literal(1))),
    ],
)
def test_what_a_condition_means(text: str, tree: object) -> None:
    assert parse_predicate(text) == tree


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "Got nothing"),
        ("   ", "Got nothing"),
        ("a >", "Got the end"),
        ("a > 1 b", "expected 'and', 'or' or the end"),
        ("(a", r"expected '\)'"),
        ("a >= 2024-01-31", "^a day stands in quotes, '2024-01-31'; expected 'and'"),
        ("a between 2024-1-1 and 2024-12-31 or b", "^a day stands in quotes, '2024-1-1'; expected 'and'"),
        ("a = 2024-b", "cannot contain '-b"),
        ("a = 1)", "expected 'and'"),
        ("1 = 1", "needs a column"),
        ("1", "no condition"),
        ("a; drop table t", "cannot contain ';"),
        ("a = 1 -- x", "cannot contain '--"),
        ("len(a) > 3", "expected 'and'"),
        ("a + 1 > 3", r"cannot contain '\+"),
        ("a.b = 1", r"cannot contain '\.b"),
        ("a in ()", "expected a column or a value"),
        ("a in (b)", "values, not columns"),
        ("a in 3", "expected a list"),
        ("a in (1, 2]", r"expected ',' or '\)'"),
        ("a is 3", "expected 'null'"),
        ("b or a between 65 and 18.5", r"between takes the smaller number first\. Got 65 and 18\.5"),
        ("a not between '2024-05-01' and '2024-04-30'", "between takes the earlier day first"),
        ("a not 3", "expected 'in'"),
        ("a = 'x", "cannot contain"),
        ("a = 3x", "cannot contain"),
        ("a = 99999999999999999999", "64 bits"),
        ("a = 1e999", "finite"),
        ("(" * 60 + "a" + ")" * 60, "nested"),
        ("not " * 60 + "a", "nested"),
        ("a or " * 3000 + "a", "10000 characters"),
    ],
)
def test_what_is_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidValue, match=words) as caught:
        parse_predicate(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("height > 3", "no column 'height'"),
        ("age", "no truth values"),
        ("age = 'x'", "one is text"),
        ("ward = 3", "one is text"),
        ("ill = 'yes'", "of a flag write ill = true"),
        ("ward < 'N'", "no order"),
        ("day = 3", "holds days"),
    ],
)
def test_conditions_are_checked_against_the_schema(text: str, words: str) -> None:
    records = pa.table({"age": [30], "ward": ["N"], "day": pa.array([0], pa.date32()), "ill": [True]})
    with open_table(records) as table, pytest.raises(InvalidData, match=words):
        table.read(ClippedSum(0, 1), where=text)


def test_text_in_a_condition_stays_text() -> None:
    attack = "x' OR '1'='1"
    with open_table(pa.table({"ward": ["N", attack, 'a"b', "c\\"]})) as table:
        for value in (attack, 'a"b', "c\\"):
            quoted = value.replace("'", "''")
            assert table.read(ClippedSum(0, 1), where=f"ward = '{quoted}'").total.tolist() == [1.0]
