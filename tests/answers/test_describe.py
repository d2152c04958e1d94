"""A question in words reads back as the question, whatever its columns are called."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sottovoce as sv
from sottovoce.inference.cells.questions import Question
from sottovoce.records.facts.column_names import quoted, unquoted
from sottovoce.records.facts.formula_parser import parse_formula
from sottovoce.service.answers import parse_question

ODD = [
    "and",
    "by",
    "where",
    "per",
    "of",
    "in",
    "for each",
    "pooled",
    "Where",
    "0.5",
    "3 bands",
    "a, b",
    "x:y",
    "`",
    "'",
]
ODD += [
    '"',
    "''`\"",
    "e-mail",
    "dotted.name",
    " led",
    "trailing ",
    "Größe in cm",
    "血圧",
    "new\nline",
    "mean of x by y",
    "5%",
]
NAMES = st.one_of(
    st.sampled_from(ODD), st.text("ab'\"`: ,.-1_%", min_size=1, max_size=6), st.text(min_size=1, max_size=8)
)


def back(question: Question) -> Question:
    """Return what its words ask of the same facts."""
    said = parse_question(question.describe())
    return Question(said.pop("verb"), said.pop("columns"), question.facts, **said)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_question_reads_back_from_its_words_whatever_columns_are_called(data: Any) -> None:
    names = data.draw(st.lists(NAMES, min_size=5, max_size=5, unique=True))
    number, count, years, ward, flag = names
    given_facts = {number: sv.Number(0, 110), count: sv.Count(9), years: sv.Number(0, 9), ward: sv.Category(["A", "B"])}
    facts = sv.Facts(given_facts | {flag: sv.Flag()})
    pool = data.draw(st.booleans())
    groups = data.draw(st.sampled_from([(), (ward,), (ward, flag), (f"{years}: 3 bands", ward)]))
    at = tuple(sorted(data.draw(st.sets(st.sampled_from([1e-7, 0.1, 1 / 3, 0.5, 0.9]), min_size=1))))
    for question in (
        Question("mean", (number,), facts, by=groups, pool=pool),
        Question("rate", (count,), facts, exposure=number, by=groups),
        Question("counts", (ward, flag), facts, pool=pool),
        Question("quantiles", (number,), facts, by=groups, at=at),
    ):
        assert back(question) == question


@given(NAMES)
def test_a_name_in_quotes_is_the_name(name: str) -> None:
    assert unquoted(quoted(name)) == name


def test_a_condition_follows_as_it_was_said() -> None:
    facts = sv.Facts({"blood pressure": sv.Number(60, 250), "the ward": sv.Category(["A", "B"])})
    question = Question("mean", ("blood pressure",), facts, by=("the ward",), where="`blood pressure` > 90")
    assert question.describe() == 'mean of "blood pressure" by "the ward" where `blood pressure` > 90'
    assert back(question) == question


@pytest.mark.parametrize("mark", "`'\"")
def test_a_formula_takes_names_in_any_quotes(mark: str) -> None:
    """Of texts no formula speaks, so that quotes are about a name."""
    facts = sv.Facts(
        {"has had it": sv.Flag(), "blood pressure": sv.Number(60, 250), "the ward": sv.Category(["A", "B"])}
    )
    asked = f"{mark}has had it{mark} ~ {mark}blood pressure{mark} + C({mark}the ward{mark})"
    parsed = parse_formula(asked, facts)
    assert (parsed.response, parsed.encoding.names) == ("has had it", ("blood pressure", "the ward"))
    assert parsed.terms == parse_formula(asked.replace(mark, "`"), facts).terms
