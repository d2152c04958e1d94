"""Public cells: how columns are cut, and what is counted in them, in memory and in an engine."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sottovoce as sv
from sottovoce.audit.check_reading import check_reading
from sottovoce.inference.cells.noisy_cells import NoisyCells
from sottovoce.inference.cells.questions import Question
from sottovoce.privacy.errors import InvalidValue
from sottovoce.records.facts import Cells
from sottovoce.records.readings import CellCounts
from sottovoce.records.tables import open_table
from sottovoce.service.answers import Answer

FACTS = sv.Facts(
    age=sv.Number(0, 110),
    ward=sv.Category(["A", "B"]),
    visits=sv.Count(20),
    smoker=sv.Flag(missing=False),
    born=sv.Day("2020-01-01", "2021-01-01"),
)


def test_labels_and_edges() -> None:
    cells = Cells(FACTS, {"visits": [0, 1, 5, 21], "smoker": ...})
    assert cells.labels[:3] == [(0, False), (0, True), ("1 to 4", False)]
    assert cells.edges("visits").tolist() == [0, 1, 5, 21]
    assert Cells(FACTS, {"visits": 21}).axes[0].labels == tuple(range(21))
    assert Cells(FACTS, {"age": [-math.inf, 18, math.inf]}).axes[0].labels == ("below 18", "18 or more")
    assert (cells.everyone, Cells(FACTS, {"smoker": ...}).everyone) == (False, True)
    assert Cells(FACTS, {"age": 3}, missing="cell").everyone


@pytest.mark.parametrize(
    ("cuts", "words"),
    [
        ({}, "say how"),
        ({"age": ...}, "how many cells"),
        ({"age": 0}, "1 to 4096"),
        ({"age": [0, 50, 40]}, "rising"),
        ({"age": [0, 120, 130]}, "between its bounds"),
        ({"age": [0, float("nan"), 110]}, "rising"),
        ({"visits": 30}, "no more cells"),
        ({"visits": [0, 1.5, 20]}, "whole numbers"),
        ({"ward": 3}, "its categories"),
        ({"ward": ["A", "Z"]}, "its facts name"),
        ({"smoker": [True]}, "all of them"),
        ({"born": 3}, "cannot be cut"),
        ({"ghost": 3}, "name no column"),
        ({"ward": ["A"]}, "from 2"),
    ],
)
def test_cuts_that_cannot_be_are_refused_in_words(cuts: dict, words: str) -> None:
    with pytest.raises(InvalidValue, match=words):
        Cells(FACTS, cuts)


def test_cells_read_back_from_json() -> None:
    cells = Cells(FACTS, {"age": [0, 18, 65, math.inf], "ward": ...}, missing="cell")
    assert Cells.from_dict(json.loads(json.dumps(cells.to_dict()))) == cells
    question = Question("counts", cells.names, FACTS, cells=cells)
    assert Question.from_dict(json.loads(json.dumps(question.to_dict()))) == question
    crossed = Cells(FACTS, {"ward": ..., "age": 4})
    question = Question("counts", crossed.names, FACTS, cells=crossed)
    state = json.loads(json.dumps(question.to_dict(), sort_keys=True))  # as ledgers write it
    assert Question.from_dict(state) == question and Cells.from_dict(state["cells"]).names == ("ward", "age")
    del state["cells"]["names"]  # as it was written before
    assert Question.from_dict(state) == question
    plain = Question("counts", ("ward",), FACTS)
    assert "cells" not in plain.to_dict()  # what was written before there were cells reads the same


def test_the_reading_keeps_every_rule_of_readings() -> None:
    for reading in (CellCounts.example(), CellCounts((True,), ((0.5,),), (-1,)), CellCounts((True,), ((),), (1,))):
        assert [c for c in check_reading(reading) if not c.passed] == []


@pytest.mark.parametrize("rule", ["out", "cell"])
def test_an_engine_and_a_loop_over_records_count_the_same(rule: str) -> None:
    rng = np.random.default_rng(0)
    odd = [None, float("nan"), math.inf, -math.inf, 0.0, 18.0, 17.999999, 65, 1e300, -5]
    frame = pd.DataFrame(
        {
            "age": pd.array([odd[i] for i in rng.integers(0, len(odd), 400)], dtype="Float64"),
            "ward": rng.choice(["A", "B", "?", ""], 400),
            "visits": rng.integers(0, 25, 400),
        }
    )
    cells = Cells(FACTS, {"age": [0, 18, 65, math.inf], "ward": ..., "visits": 3}, missing=rule)
    question = Question("counts", cells.names, FACTS, cells=cells)
    with open_table(frame) as table:
        found = table.read(question.reading, list(cells.names)).total
    expected = np.zeros(found.size)
    for age, ward, visits in frame.itertuples(index=False):
        missing = age is pd.NA or math.isnan(age)
        first = 3 if missing and rule == "cell" else None if missing else 0 if age < 18 else 1 if age < 65 else 2
        second = {"A": 0, "B": 1}.get(ward, 2 if rule == "cell" else None)
        place = None if first is None or second is None else ((first * cells.shape[1]) + second) * cells.shape[2]
        expected[-1 if place is None else place + min(visits, 2)] += 1
    assert found.tolist() == expected.tolist()


def test_cells_are_counted_through_the_curator(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"age": rng.normal(50, 15, 500), "ward": rng.choice(["A", "B"], 500)})
    facts = sv.Facts(age=sv.Number(0, 110), ward=sv.Category(["A", "B"]))
    cells = sv.Cells(facts, {"age": 4, "ward": ...})
    with sv.Curator(frame, tmp_path / "l", sv.ApproxDP(1.0, 1e-6), facts=facts, dataset="d") as curator:
        answer = curator.counts(cells, spend=0.5)
        assert answer.table.columns[:2].tolist() == ["age", "ward"]
        assert len(answer.table) == 8
        true = np.histogram2d(np.clip(frame["age"], 0, 109), frame["ward"] == "B", bins=[cells.edges("age"), 2])[0]
        inside = (answer.table["low"] <= true.ravel()) & (true.ravel() <= answer.table["high"])
        assert inside.mean() > 0.7
        again = Answer.from_dict(json.loads(json.dumps(answer.to_dict())))
        assert again.table.equals(answer.table)
        assert curator.left().startswith("50 %")
        with pytest.raises(InvalidValue, match="other facts"):
            curator.counts(sv.Cells(sv.Facts(age=sv.Number(0, 90)), {"age": 3}))
        with pytest.raises(InvalidValue, match="by which columns"):
            curator.counts(sv.Cells(facts, {"age": 4}), by="ward")


def test_the_noise_does_not_grow_with_the_cells() -> None:
    few, many = (
        NoisyCells.calibrate(Question("counts", ("age",), FACTS, cells=Cells(FACTS, {"age": k})), 1000, sv.PureDP(1.0))
        for k in (2, 500)
    )
    assert few.scale == many.scale == pytest.approx(2.0)
