"""Questions by bands of a number: every verb, every kind of person, before and after it is asked."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sottovoce as sv
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.json_values import canonical
from sottovoce.records.tables import open_table
from sottovoce.service.answers import Question
from sottovoce.service.answers.catalogue import CATALOGUE

N = 4000
BY = "age: 0-17, 18-64, 65+"
LABELS = ["under 18", "18 to under 65", "65 and over"]
FACTS = sv.Facts(
    smoker=sv.Flag(), sbp=sv.Number(60, 250), visits=sv.Count(12), age=sv.Number(0, 110), ward=sv.Category(["A", "B"])
)


def records(rng: np.random.Generator) -> pd.DataFrame:
    age = rng.uniform(0, 100, N)
    frame = pd.DataFrame({"age": age, "smoker": rng.random(N) < age / 100, "sbp": 80 + age})
    frame["visits"], frame["ward"] = rng.poisson(1 + age / 50), rng.choice(["A", "B"], N)
    frame.loc[::50, "age"] = np.nan  # in no band
    return frame


@pytest.fixture
def curator(tmp_path: Path) -> Iterator[sv.Curator]:
    frame = records(np.random.default_rng(3))
    with sv.Curator(frame, tmp_path / "l", sv.ApproxDP(50.0, 1e-6), facts=FACTS, dataset="d") as made:
        made.frame = frame
        yield made


def banded(frame: pd.DataFrame) -> Any:
    return frame.groupby(pd.cut(frame["age"], [-np.inf, 18, 65, np.inf], right=False, labels=LABELS), observed=False)


def test_every_verb_answers_by_bands(curator: sv.Curator) -> None:
    groups, cells = banded(curator.frame), sv.Cells(FACTS, {"age": [0, 18, 65, np.inf]})
    for answer, truth in (
        (curator.mean("sbp", by=BY), groups["sbp"].mean()),
        (curator.proportion("smoker", by=[BY]), groups["smoker"].mean()),
        (curator.rate("visits", by=cells), groups["visits"].mean()),
        (curator.quantiles("sbp", 0.5, by=BY), groups["sbp"].median()),
        (curator.counts("ward", by=cells), groups["ward"].value_counts().sort_index()),
    ):
        table = answer.table
        for by in (BY, [BY], cells):
            assert curator.question("mean", "sbp", by=by).groups == answer.question.groups
        assert list(dict.fromkeys(table["age"])) == LABELS
        assert np.allclose(table["estimate"], truth, rtol=0.2)
        again = CATALOGUE[answer.question.verb].read(json.loads(canonical(answer.to_dict())))
        assert again.question == answer.question and again.table["age"].tolist() == table["age"].tolist()
    told = curator.mean("sbp", by=BY).difference("65 and over", "under 18")
    assert told.low > 30


def test_a_question_in_words_and_one_in_arguments_are_the_same(curator: sv.Curator) -> None:
    answer = curator.ask(f"pooled mean of sbp by {BY} and ward where age >= 10")
    assert answer.question == curator.question("mean", "sbp", by=[BY, "ward"], where="age >= 10", pool=True)
    assert len(answer.rows) == 6


@pytest.mark.parametrize("person", [sv.Person(), sv.Person(rows=1)])
def test_persons_are_in_bands_as_they_are_in_groups(tmp_path: Path, person: sv.Person) -> None:
    frame = records(np.random.default_rng(4)).dropna()
    frame = pd.concat([frame, frame]).assign(who=[*range(len(frame))] * 2)
    facts = sv.Facts({**FACTS, "who": person})
    with sv.Curator(frame, tmp_path / "l", sv.ApproxDP(50.0, 1e-6), facts=facts, dataset="d") as curator:
        for verb, column, wanted in (("mean", "sbp", "mean"), ("proportion", "smoker", "mean")):
            found = getattr(curator, verb)(column, by=BY, spend=0.1).table["estimate"]
            assert np.allclose(found, getattr(banded(frame)[column], wanted)(), rtol=0.1)
        counted = curator.counts("ward", by=BY, spend=0.2).table["estimate"]
        assert np.allclose(counted, banded(frame)["ward"].value_counts().sort_index() / 2, rtol=0.1)


def test_what_an_answer_by_bands_needs_is_known_before(curator: sv.Curator) -> None:
    even = curator.share_for(f"mean of sbp by {BY}", 8.0)
    small = curator.share_for(f"mean of sbp by {BY}", 8.0, imagined=["age:under 18=5%"])
    assert 0 < even < small
    with pytest.raises(InvalidValue, match="it has under 18, 18 to under 65, 65 and over"):
        curator.share_for(f"mean of sbp by {BY}", 8.0, imagined=["age:old=5%"])


def test_a_table_by_bands_of_counts_can_be_sorted_and_written(curator: sv.Curator, tmp_path: Path) -> None:
    answer = curator.mean("sbp", by="visits: 0, 1-4, 5+")
    answer.table.sort_values("visits").to_parquet(tmp_path / "t.parquet")
    assert answer.difference("0", "5 and over").high < 0


def test_bands_that_cannot_be_cost_nothing(curator: sv.Curator) -> None:
    before = curator.left()
    for by in (
        "age",
        "age: 0-17",
        "age: 0-50, 20+",
        "age: 5000 bands",
        ["age: 2 bands", "age: 3 bands"],
        "ghost: 2 bands",
        ["age: 1000 bands", "visits: 13 bands", "ward", "smoker"],
    ):
        with pytest.raises(InvalidValue):
            curator.mean("sbp", by=by)
    with pytest.raises(InvalidValue, match="a column once"):
        curator.mean("age", by=BY)
    assert curator.left() == before


def test_text_in_a_column_of_numbers_is_in_no_band(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("age,sbp\n" + "10,100\n" * 50 + "old,100\n" * 40 + "inf,100\n" * 30 + ",100\n" * 20)
    reading = Question("mean", ("sbp",), FACTS, by=BY).reading
    with open_table(path, facts=FACTS.about(["age", "sbp"])) as table:
        assert table.read(reading, ["age", "sbp"]).total[:4].tolist() == [50, 0, 30, 60]
