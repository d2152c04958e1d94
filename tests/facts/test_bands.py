"""Bands of a number in words: each number is in one, what cannot be is refused in one line, and no text takes long."""

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sottovoce as sv
from sottovoce.audit.check_reading import check_reading
from sottovoce.inference.cells.questions import Question
from sottovoce.privacy.errors import InvalidValue
from sottovoce.records.facts.bands import group_axis, group_texts
from sottovoce.records.readings import GroupMoments, Reading
from sottovoce.records.readings.bands import Bands
from sottovoce.service.answers import parse_question

FACTS = sv.Facts(
    {"a": sv.Number(4, 5), "a: b": sv.Number(0, 1), "p:  q": sv.Category(["u", "v"])},
    age=sv.Number(0, 110),
    temperature=sv.Number(-40, 60, missing=20),
    visits=sv.Count(20),
    ward=sv.Category(["A", "B"]),
    born=sv.Day("2020-01-01", "2021-01-01"),
    **{"blood pressure": sv.Number(60, 250)},
)


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("age: 0-17, 18-64, 65+", ("under 18", "18 to under 65", "65 and over")),
        ("age: under 18, 18 to under 65, 65 and over", ("under 18", "18 to under 65", "65 and over")),
        ("age: 0 to 18, 18 – 65, 65 or more", ("under 18", "18 to under 65", "65 and over")),
        ("age: 0—17, 18‑64, 65+", ("under 18", "18 to under 65", "65 and over")),
        ("temperature: −40 – −10, −10+", ("under -10", "-10 and over")),
        ("age:0-50,51-110", ("under 51", "51 and over")),
        ("age: 3 bands", ("under 36.6667", "36.6667 to under 73.3333", "73.3333 and over")),
        ("temperature: -40--10, -10 to 0, 0-60", ("under -10", "-10 to under 0", "0 and over")),
        ("a: b: 0-.5, .5-1", ("under 0.5", "0.5 and over")),
        ("a: 2 bands", ("under 4.5", "4.5 and over")),
        ("`blood pressure`: 2 bands", ("under 155", "155 and over")),
        ("visits: 0, 1-4, 5+", ("0", "1 to 4", "5 and over")),
        ("visits: 2 bands", ("0 to 10", "11 and over")),
    ],
)
def test_bands_are_called_what_is_in_them(text: str, labels: tuple) -> None:
    assert group_axis(text, FACTS).labels == labels


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("age", "say bands, such as 'age: under 18"),
        ("age:", "say bands"),
        ("age: old, young", "'old' is no band"),
        ("age: 0-17, 18-64, 65+,", "'' is no band"),
        ("age: 18-64, 65+", "leave out what lies below 18"),
        ("age: 0-17, 18-64", r"leave out what lies above 64.*end with '65\+'"),
        ("age: 0-17, 18 to under 110", r"leave out what lies above 110.*end with '110\+'"),
        ("visits: 3-1234567, 1234568+", "begin with 'under 3'"),
        ("age: 0-20, 18+", "overlap where one begins at 18"),
        ("age: 0+, 18+", "overlap where one begins at 18"),
        ("visits: 0-5, 5+", "overlap where one begins at 5"),
        ("age: 0-17, 20+", "leave a gap where one begins at 20"),
        ("age: 0-1.5, 2.5+", "leave a gap"),
        ("age: 0-17, 17-16, 18+", "ends before it begins"),
        ("age: under 120, 120+", "meet between its bounds"),
        ("age: 0-1e999, 1+", "finite"),
        ("age: nan-inf, 1+", "no band"),
        ("age: 0-110", "from 2 to 1000 bands"),
        ("age: 1001 bands", "from 2 to 1000 bands"),
        ("age: " + "9" * 6000 + " bands", "no band"),
        ("visits: 22 bands", "from 2 to 21 bands"),
        ("visits: 0-1.5, 1.5 to 20", "overlap|whole numbers"),
        ("age: " + ", ".join(f"{k}" for k in range(2000)), "leave out|from 2 to 1000"),
        ("age: " + "1, " * 30_000, "64000 characters"),
        ("ghost" * 4000 + ": 2 bands", "name no column 'ghost"),
        ("ward: 2 bands", "its own values are its groups"),
        ("born: 3 bands", "such as month\\(born\\)"),
        ("ghost: 3 bands", "name no column 'ghost'"),
    ],
)
def test_bands_that_cannot_be_are_refused_in_one_line(text: str, words: str) -> None:
    with pytest.raises(InvalidValue, match=words) as refused:
        group_axis(text, FACTS)
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 300


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=6, unique=True), st.floats(allow_nan=True))
def test_every_number_is_in_one_band_and_bands_in_words_are_the_same_ones(edges: list[float], x: float) -> None:
    edges = sorted(edge + 0.0 for edge in edges)
    facts = sv.Facts(x=sv.Number(-2e6, 2e6))
    cells = sv.Cells(facts, {"x": [-math.inf, *edges, math.inf]})
    (text,) = group_texts(cells, facts)
    axis = group_axis(text, facts)
    assert axis.marks == (-math.inf, *edges, math.inf) and len(set(axis.labels)) == axis.size
    (place,) = Bands(axis.marks[1:-1]).places([x], other=-1).tolist()
    if math.isnan(x):
        assert place == -1
    else:
        assert axis.marks[place] <= x and (x < axis.marks[place + 1] or x == math.inf)


@pytest.mark.parametrize(
    "column",
    [sv.Number(-3, -2.5), sv.Number(-0.55, 0.65), sv.Number(0, 60), sv.Number(0, 99), sv.Count(1), sv.Count(9)],
)
def test_what_a_refusal_proposes_can_be_asked(column: sv.Number | sv.Count) -> None:
    facts = sv.Facts(x=column)
    with pytest.raises(InvalidValue) as refused:
        group_axis("x", facts)
    proposed = [text for text in str(refused.value).split("'") if text.startswith("x:")]
    assert len(proposed) == 2 and all(group_axis(text, facts).size >= 2 for text in proposed)


@pytest.mark.parametrize("cut", [900, [0, *np.sort(np.random.default_rng(1).uniform(1e-9, 110, 999)), 110]])
def test_as_many_bands_as_there_may_be_are_said_as_cells_too(cut) -> None:
    cells = sv.Cells(FACTS, {"age": cut})
    (text,) = group_texts(cells, FACTS)
    assert group_axis(text, FACTS).marks[1:-1] == cells.axes[0].marks[1:-1]
    with pytest.raises(InvalidValue, match="from 2 to 1000 bands"):
        group_texts(sv.Cells(FACTS, {"age": 1001}), FACTS)


def test_a_name_is_taken_as_it_is_written() -> None:
    assert Question("mean", ("age",), FACTS, by="p:  q").labels == [("u",), ("v",)]
    assert Question("mean", ("visits",), FACTS, by="`age` : 2  bands") == Question(
        "mean", ("visits",), FACTS, by="age: 2 bands"
    )


def test_odd_values_are_where_missing_ones_are() -> None:
    """By the rule of every column: what is no number is missing, and where the facts say so counts as that."""
    odd = [None, "70", float("nan"), [1], object(), 1e400, -math.inf]
    axis = group_axis("temperature: under 0, 0+", FACTS)
    assert axis.other == 1
    assert Bands(axis.marks[1:-1]).places(odd, axis.other).tolist() == [1, 1, 1, 1, 1, 1, 0]
    assert Bands((0.0,)).places(odd, -1).tolist() == [-1, -1, -1, -1, -1, 1, 0]


@pytest.mark.parametrize(
    "by",
    [
        ("age: 0-17, 18-64, 65+",),
        ("ward", "age: 12 bands"),
        sv.Cells(FACTS, {"ward": ..., "age": [0, 0.1 + 0.2, 110], "visits": 4}),
    ],
)
def test_a_question_in_bands_and_its_reading_come_back_from_json(by) -> None:
    question = Question("mean", ("blood pressure",), FACTS, by=by)
    again = Question.from_dict(json.loads(json.dumps(question.to_dict(), sort_keys=True)))
    assert again == question and again.labels == question.labels and again.reading == question.reading
    assert Reading.from_dict(json.loads(json.dumps(question.reading.to_dict()))) == question.reading
    assert parse_question(question.describe())["by"] == question.by


def test_cells_that_cannot_be_groups_are_refused() -> None:
    for cells, words in (
        (sv.Cells(FACTS, {"age": 3}, missing="cell"), "missing"),
        (sv.Cells(FACTS, {"ward": ["A"], "age": 3}), "all values of 'ward'"),
        (sv.Cells(FACTS, {"ward": ..., "age": 1}), "one cell"),
        (sv.Cells(sv.Facts(age=sv.Number(0, 99)), {"age": 3}), "other facts"),
    ):
        with pytest.raises(InvalidValue, match=words):
            Question("mean", ("blood pressure",), FACTS, by=cells)


def test_the_reading_keeps_every_rule_of_readings() -> None:
    reading = GroupMoments((Bands((18.0, 65.0)), ("A", "B")), (2, -1), measures=((0.0, 2.0),), fillers=(None,))
    assert [c for c in check_reading(reading) if not c.passed] == []
    for edges in ((), (1.0, 1.0), (2.0, 1.0), (math.inf,), (math.nan,)):
        with pytest.raises(InvalidValue, match="rise"):
            Bands(edges)


def test_questions_in_words_are_read_in_one_way() -> None:
    """Each of these would take for ever, could a part be read in several ways: a test that ends has passed."""
    long = 20_000
    for text in (
        "mean of x by age: " + "1-2, " * long,
        "mean of x by age: " + "1" * long + "x",
        "mean" + " " * long + "!",
        "mean of " + "a, " * long + "!",
        "mean of x by " + "a and " * long + "!",
        "mean of x by " + "age: under 1, " * long + "!",
        "mean of x by a: " + "1 and over, " * long + '"',
        "mean of x by a" + " " * long + ":" + " " * long + "!",
        "mean of x where" + " " * long,
    ):
        with pytest.raises(InvalidValue):
            parse_question(text)
    asked = parse_question("share of ill by `my age`: under 18, 18 to under 65, 65 and over and ward where x = 'a: b'")
    assert asked["by"] == ("my age: under 18, 18 to under 65, 65 and over", "ward") and asked["where"] == "x = 'a: b'"


def test_names_may_hold_anything_and_bounds_lie_anywhere() -> None:
    facts = sv.Facts({"a:  b, c": sv.Number(-8e307, 8e307), "x": sv.Number(0, 5e-324)}, y=sv.Number(0, 1))
    question = Question("mean", ("y",), facts, by="a:  b, c: 4 bands")
    assert question.groups.names == ["a:  b, c"] and question.labels[2] == ("0 to under 4e+307",)
    with pytest.raises(InvalidValue, match="too close together for 3 bands"):
        group_axis("x: 3 bands", facts)


def test_bands_between_bounds_are_even() -> None:
    marks = group_axis("age: 11 bands", FACTS).marks
    assert np.allclose(np.diff(marks[1:-1]), 10) and marks[1] == 10
    sizes = [b - a for a, b in itertools.pairwise([0, *group_axis("visits: 4 bands", FACTS).marks[1:-1], 21])]
    assert max(sizes) - min(sizes) <= 1 and sum(sizes) == 21
