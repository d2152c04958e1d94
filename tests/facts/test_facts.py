import datetime

import pytest

from sottovoce.privacy.errors import InvalidValue
from sottovoce.records.facts import (
    Category,
    Count,
    Day,
    Derived,
    Facts,
    Flag,
    Number,
    Person,
    Vector,
    facts_template,
    read_facts,
)
from sottovoce.records.facts.columns import KINDS, Column
from sottovoce.records.facts.condition_parser import check_columns

FACTS = Facts(
    {"blood pressure": Number(60, 250, missing=120)},
    ward=Category(["A", "B"], missing="A"),
    visits=Count(30),
    smoker=Flag(),
    admitted=Day("2024-01-01", datetime.date(2024, 12, 31)),
    patient=Person(),
    step=Vector(of=["dx", "dy"], radius=2.0),
)


def test_facts_read_back():
    assert Facts.from_dict(FACTS.to_dict()) == FACTS
    assert FACTS.person == "patient"
    assert FACTS.types["admitted"] == "date"


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_its_own_word_and_is_read_by_it(kind):
    column = next(c for c in [*FACTS.values(), Derived("age ^ 2", missing=4)] if c.word == kind)
    assert Column.from_dict(column.to_dict()) == column


@pytest.mark.parametrize(
    "build",
    [
        lambda: Number(1, 1),
        lambda: Number(float("nan"), 1),
        lambda: Number(0, float("inf")),
        lambda: Number(-1e308, 1e308),
        lambda: Number("0", 1),
        lambda: Number(0, 10**400),
        lambda: Number(0, 1, missing=2),
        lambda: Count(0),
        lambda: Count(2.5),
        lambda: Count(True),
        lambda: Count(3, missing=4),
        lambda: Category("ABC"),
        lambda: Category([]),
        lambda: Category(["A", "A"]),
        lambda: Category([["A"]]),
        lambda: Category(7),
        lambda: Category(["A"], missing="B"),
        lambda: Flag(missing=1),
        lambda: Day("2024-02-30", "2024-03-01"),
        lambda: Day("2024-03-01", "2024-02-01"),
        lambda: Facts(age=3),
        lambda: Facts({"": Flag()}),
        lambda: Facts({"a": Flag()}, a=Flag()),
        lambda: Facts(a=Person(), b=Person()),
        lambda: Facts.from_dict({"a": 3}),
        lambda: Facts.from_dict({"a": {"kind": "nothing"}}),
        lambda: Facts.from_dict({"a": {"kind": "number", "low": 0}}),
        lambda: Facts.from_dict({"a": {"kind": "flag", "low": 0}}),
    ],
)
def test_what_is_no_fact_is_refused_in_our_own_words(build):
    with pytest.raises(InvalidValue):
        build()


def test_a_column_that_is_not_named_cannot_be_asked_about():
    with pytest.raises(InvalidValue, match="they name blood pressure"):
        FACTS["diagnosis"]


def test_facts_under_a_heading_of_a_server_s_file_are_told_apart(tmp_path):
    place = tmp_path / "facts.toml"
    place.write_text('[columns]\nage = { kind = "number", low = 0, high = 110 }\n', encoding="utf-8")
    with pytest.raises(InvalidValue, match=r"write \[age\], not \[columns.age\]"):
        read_facts(place)


def test_facts_are_no_dictionary():
    with pytest.raises(InvalidValue, match=r"facts are Facts\(...\) or the path of a TOML file. Got a dict"):
        read_facts({"age": Number(0, 110)})


def test_facts_may_begin_with_a_mark_and_must_be_utf_8_and_say_a_kind(tmp_path):
    place = tmp_path / "facts.toml"
    text = '[ward]\r\nkind = "category"\r\ncategories = ["Süd"]\r\n'
    place.write_bytes(text.encode("utf-8-sig"))
    assert read_facts(place) == Facts(ward=Category(["Süd"]))
    place.write_bytes(text.encode("latin-1"))
    with pytest.raises(InvalidValue, match="is not UTF-8; save it as UTF-8"):
        read_facts(place)
    place.write_text('[ward]\ncategories = ["A"]\n', encoding="utf-8")
    with pytest.raises(InvalidValue, match="ward: say its kind, one of category"):
        read_facts(place)


def test_a_flag_compared_with_a_bare_word_is_told_what_to_write():
    with pytest.raises(InvalidValue, match="of a flag write ill = true"):
        check_columns("ill = yes", {"ill": Flag()})


def test_a_template_comes_from_names_and_types_and_wants_to_be_filled_in(tmp_path):
    text = facts_template({"age": "int64", "blood pressure": "float64", "ward": "string", "seen": "date"})
    place = tmp_path / "facts.toml"
    place.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidValue, match="age still needs low, high"):
        read_facts(place)
    filled = text.replace('low = "?"', "low = 0").replace('high = "?"', "high = 300")
    filled = filled.replace('categories = ["?"]', 'categories = ["A", "B"]')
    filled = filled.replace('first = "?"', "first = 2024-01-01").replace('last = "?"', 'last = "2025-01-01"')
    place.write_text(filled, encoding="utf-8")
    facts = read_facts(place)
    assert facts["blood pressure"] == Number(0, 300)
    assert facts["seen"] == Day("2024-01-01", "2025-01-01")


@pytest.mark.parametrize("text", ["a = [", "\xff", "a = 3"])
def test_a_file_that_is_none_is_refused_in_one_line(tmp_path, text):
    place = tmp_path / "facts.toml"
    place.write_bytes(text.encode("latin-1"))
    with pytest.raises(InvalidValue):
        read_facts(place)
    with pytest.raises(InvalidValue, match="cannot read"):
        read_facts(tmp_path / "nothing.toml")


@pytest.mark.parametrize("name", ["x" * 5000, "ü" * 5000])
def test_a_long_name_that_is_no_column_is_told_in_one_short_line(name):
    with pytest.raises(InvalidValue, match="the facts name no column") as caught:
        FACTS[name]
    assert len(str(caught.value)) < 300


def test_the_template_of_a_text_file_leaves_the_kind_of_every_column_to_a_person(tmp_path):
    text = facts_template({"age": "string", "ward": "string"}, untyped=["age", "ward"])
    assert "A text file does not say what kind a column is" in text
    assert 'kind = "category"' not in text and text.count('kind = "?"') == 2
    place = tmp_path / "facts.toml"
    place.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidValue, match="age still needs kind"):
        read_facts(place)
    filled = text.replace('kind = "?"', 'kind = "number"\nlow = 0\nhigh = 110', 1)
    place.write_text(filled.replace('kind = "?"', 'kind = "category"\ncategories = ["A"]'), encoding="utf-8")
    assert read_facts(place) == Facts(age=Number(0, 110), ward=Category(["A"]))
    assert "A text file" not in facts_template({"age": "int64"})
