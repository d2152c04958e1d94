"""A condition rules out the groups that it leaves no room for: by its words alone, and never one with a record."""

import itertools
from typing import get_args

import numpy as np
import pandas as pd
import pytest

import sottovoce as sv
from sottovoce.privacy.errors import InvalidValue
from sottovoce.records.facts.bands import group_axis
from sottovoce.records.facts.condition_parser import parse_predicate
from sottovoce.records.facts.condition_tree import SIGNS, Condition
from sottovoce.records.facts.excluded_groups import groups_kept

FACTS = sv.Facts(
    ward=sv.Category(["A", "B", "C"]),
    month=sv.Category([1, 2, 3]),
    smoker=sv.Flag(),
    age=sv.Number(0, 110),
    site=sv.Category(["N", "S"], missing="S"),
)
BY = ("ward", "smoker", "age: under 18, 18-64, 65+")


@pytest.mark.parametrize(
    ("by", "where", "kept"),
    [
        ("ward", "ward in ('A', 'B')", "AB"),
        ("ward", "ward not in ('A', 'B')", "C"),
        ("ward", "not (ward = 'A' or ward = 'C')", "B"),
        ("ward", "'A' = ward and age > 3", "A"),
        ("ward", "ward = 'A' or age > 3", "ABC"),
        ("ward", "ward is not null", "ABC"),
        ("ward", "ward = site", "ABC"),
        ("month", "month >= 2", [2, 3]),
        ("month", "2 > month", [1]),
        ("month", "month = '2'", [1, 2, 3]),  # as an engine has it
        ("smoker", "smoker", [True]),
        ("smoker", "not smoker", [False]),
        ("smoker", "smoker = false", [False]),
        ("age: under 18, 18-64, 65+", "age >= 18", ["18 to under 65", "65 and over"]),
        ("age: under 18, 18-64, 65+", "age > 17", ["under 18", "18 to under 65", "65 and over"]),
        ("age: under 18, 18-64, 65+", "age < 18", ["under 18"]),
        ("age: under 18, 18-64, 65+", "age between 18 and 30", ["18 to under 65"]),
        ("age: under 18, 18-64, 65+", "age in (3, 70)", ["under 18", "65 and over"]),
        ("age: under 18, 18-64, 65+", "age != 3", ["under 18", "18 to under 65", "65 and over"]),
        ("site", "site = 'N'", "NS"),  # a site nobody listed counts as S, and the condition sees what it is
        ("site", "site = 'S'", "S"),
    ],
)
def test_what_a_condition_leaves_room_for(by, where, kept):
    axis = group_axis(by, FACTS)
    assert [axis.labels[place] for place in groups_kept(where, [axis])] == list(kept)


OPERATIONS = {
    "month = 2": lambda x: x == 2,
    "month != 2": lambda x: x != 2,
    "month < 2": lambda x: x < 2,
    "month <= 2": lambda x: x <= 2,
    "month > 2": lambda x: x > 2,
    "month >= 2": lambda x: x >= 2,
    "2 < month": lambda x: x > 2,
    "2 >= month": lambda x: x <= 2,
    "month in (1, 3)": lambda x: x in (1, 3),
    "month not in (1, 3)": lambda x: x not in (1, 3),
    "month is null": lambda x: False,
    "month is not null": lambda x: True,
    "month > 1 and month != 3": lambda x: x == 2,
    "month < 2 or month > 2": lambda x: x != 2,
    "not month < 2": lambda x: x >= 2,
    "smoker": lambda x: x,
}


def nodes(tree):
    return [tree, *(node for part in getattr(tree, "parts", ()) for node in nodes(part))]


def test_every_operation_means_the_same_to_all_who_read_conditions():
    """A value, the group it is, a band it lies in and the engine that holds it: all four agree with Python."""
    trees = {text: parse_predicate(text) for text in OPERATIONS}
    every = [node for tree in trees.values() for node in nodes(tree)]
    assert {type(node) for node in every} == set(get_args(Condition)), "an operation that nobody tries here"
    assert {node.sign for node in every if hasattr(node, "sign")} == set(SIGNS)
    facts = FACTS.about(["month", "smoker"])
    banded, cuts = sv.Facts(month=sv.Number(0, 4)), "month: under 2, 2 to under 3, 3+"
    for text, meant in OPERATIONS.items():
        name = "smoker" if text == "smoker" else "month"
        axis = group_axis(name, facts)
        true = [x for x in axis.labels if meant(x)]
        assert [x for x in axis.labels if trees[text].holds(x)] == true, text
        assert [axis.labels[place] for place in groups_kept(text, [axis])] == true, text
        frame = pd.DataFrame({"month": [1, 2, 3], "smoker": [False, True, True]}).drop_duplicates(name)
        seen = sv.open_table(frame).read(sv.answers.Question("counts", (name,), facts).reading, [name], where=text)
        assert [x for x, count in zip(axis.labels, seen.total, strict=False) if count] == true, text
        if name == "month":
            assert {x - 1 for x in true} <= set(groups_kept(text, [group_axis(cuts, banded)])), text


def test_no_group_that_a_record_is_in_is_ruled_out():
    """Against the engine: of random conditions and records, whoever the condition keeps is in a group that is told."""
    rng, n = np.random.default_rng(4), 400
    frame = pd.DataFrame(
        {
            "ward": rng.choice(["A", "B", "C", "Z", None], n),
            "month": rng.choice([1, 2, 3], n),
            "smoker": rng.random(n) < 0.5,
            "age": rng.choice([0.0, 17.5, 18.0, 40.0, 64.9, 65.0, 90.0, np.nan], n),
            "site": rng.choice(["N", "S", "Q", None], n),
        }
    )
    leaves = [
        "ward = 'A'",
        "ward != 'B'",
        "ward in ('B', 'C')",
        "ward not in ('A')",
        "smoker",
        "not smoker",
        "age < 18",
    ]
    leaves += ["age >= 65", "age between 18 and 64.9", "age is null", "ward is not null", "site != 'S'", "18 <= age"]
    axes = [group_axis(text, FACTS) for text in BY]
    asked, table, ruled = sv.answers.Question("counts", ("month",), FACTS, by=BY), sv.open_table(frame), 0
    for _ in range(60):
        a, b, c = rng.choice(leaves, 3)
        where = str(rng.choice([f"{a} and {b}", f"{a} or {b} and {c}", f"not ({a} or {b})", f"({a} or {b}) and {c}"]))
        kept = set(groups_kept(where, axes))
        seen = table.read(asked.reading, asked.columns, where=where)
        counts = np.asarray(seen.total)[:-1].reshape(-1, 3).sum(axis=1)
        assert {place for place, count in enumerate(counts) if count} <= kept, where
        ruled += len(counts) - len(kept)
    assert ruled > 200


@pytest.mark.parametrize("where", ["x < {}", "x <= {} - 1", "x = {} - 1", "not x >= {}"])
def test_whole_numbers_that_no_double_is_are_never_ruled_out(where):
    """A condition sees 2⁵³ + 3 as it is; a band takes it for the double next to it, 2⁵³ + 4."""
    edge = 2**53 + 4
    where = where.format(edge - 1 if "- 1" in where else edge).removesuffix(" - 1")
    facts, by = sv.Facts(x=sv.Number(0, 2.0**54), one=sv.Flag()), f"x: under {edge}, {edge}+"
    asked = sv.answers.Question("counts", ("one",), facts, by=(by,))
    table = sv.open_table(pd.DataFrame({"x": np.array([edge - 1, edge - 1]), "one": [True, False]}))
    counts = np.asarray(table.read(asked.reading, asked.columns, where=where).total)[:-1].reshape(-1, 2).sum(axis=1)
    assert counts.sum() == 2
    assert {place for place, count in enumerate(counts) if count} <= set(groups_kept(where, [group_axis(by, facts)]))


def test_an_answer_says_nothing_of_groups_that_are_ruled_out(tmp_path):
    rng, n = np.random.default_rng(1), 900
    frame = pd.DataFrame({"ward": rng.choice(["A", "B", "C"], n), "smoker": rng.random(n) < 0.3})
    facts, budget = FACTS.about(["ward", "smoker"]), sv.ApproxDP(2.0, 1e-6)
    with sv.Curator(frame, tmp_path / "l", budget, facts=facts, dataset="wards") as curator:
        asked = {"by": "ward", "where": "ward != 'B'", "spend": 0.2}
        answer = curator.proportion("smoker", **asked)
        whole = curator.proportion("smoker", by="ward", spend=0.2)
        assert [row["ward"] for row in answer.rows] == ["A", "C"] and len(whole.rows) == 3
        assert all(row["high"] - row["low"] < 0.3 for row in answer.rows)
        said = "the condition leaves no record of B"
        row = "protected is a row, not a person: whoever has several rows is protected less"
        assert answer.notes == [said, row] and whole.notes == [row]
        assert said in answer.summary() and said in answer.footing()
        last = answer.rows[1]
        found = answer.difference("A", "C")
        assert np.median(answer.draws("C")) == pytest.approx(last["estimate"]) and found.low < found.high
        assert answer.difference("C", "C").estimate == 0
        with pytest.raises(InvalidValue, match="no row of this answer is called 'B'; there are A, C"):
            answer.draws("B")
        assert dict(answer.to_arviz().posterior.sizes)["row"] == 2
        assert sv.answers.Answer.from_dict(answer.to_dict()).rows == answer.rows
        counts = curator.counts("smoker", **asked)
        assert [(row["ward"], row["smoker"]) for row in counts.rows] == list(itertools.product("AC", [False, True]))
        left = curator.remaining()
        with pytest.raises(InvalidValue, match="rules out every group by ward"):
            curator.proportion("smoker", by="ward", where="ward = 'A' and ward = 'B'")
        with pytest.raises(InvalidValue, match="the facts list no value 'Oncology' of 'ward'; they list 'A', 'B', 'C'"):
            curator.proportion("smoker", by="ward", where="ward = 'Oncology'")
        assert curator.remaining() == left
