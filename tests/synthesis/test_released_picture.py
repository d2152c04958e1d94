"""What a ledger's counts tell together: answers and tables, free, and what is refused."""

import json

import numpy as np
import pandas as pd
import pytest

import sottovoce as sv
from sottovoce.inference.cells.questions import Question
from sottovoce.inference.synthesis.counted_cells import CountedCells
from sottovoce.inference.synthesis.table_columns import TableColumns
from sottovoce.privacy.errors import InvalidValue

FACTS = sv.Facts(
    ward=sv.Category(["A", "B", "C"]), age=sv.Number(18, 110), smoker=sv.Flag(), ill=sv.Flag(), visits=sv.Count(9)
)


def people(n=6000, seed=0):
    rng = np.random.default_rng(seed)
    ward = rng.choice(["A", "B", "C"], n, p=[0.5, 0.3, 0.2])
    age = rng.integers(18, 90, n).astype(float)
    smoker = rng.random(n) < np.where(ward == "A", 0.2, 0.35)
    ill = rng.random(n) < np.where(smoker, 0.3, 0.15)
    return pd.DataFrame({"ward": ward, "age": age, "smoker": smoker, "ill": ill, "visits": rng.poisson(2, n)})


@pytest.fixture
def curator(tmp_path):
    budget = sv.ApproxDP(2.0, 1e-6)
    with sv.Curator(people(), tmp_path / "x.ledger", budget, facts=FACTS, dataset="people") as opened:
        opened.proportion("smoker", by=["ward", "age: under 65, 65+"], spend=0.2)
        opened.proportion("ill", by="smoker", spend=0.2)
        opened.counts(["ward", "ill"], where="age >= 40", spend=0.2)
        opened.quantiles("age", spend=0.1)
        yield opened


def test_cells_of_a_question_are_those_of_its_records():
    """By brute force: for records at all corners, the counts of a question are sums of the table of all parts."""
    data = people(400, 3)
    data.loc[:20, "age"] = np.nan
    data.loc[10:30, "ward"] = None
    for question in (
        Question("proportion", ("smoker",), FACTS, by=("ward",), where="age >= 65 or visits in (1, 3)"),
        Question("counts", ("ward", "ill"), FACTS, where="not (age < 40 and smoker)"),
        Question("mean", ("age",), FACTS, by=("ward",), where="visits > 2"),
        Question("proportion", ("ward",), FACTS, by=("age: under 40, 40+",), where="age is not null and ward != 'B'"),
    ):
        counted = CountedCells.of(question)
        columns = TableColumns(FACTS, {}).with_edges(counted.edges(FACTS))
        place = counted.place(columns).reshape(columns.shape(counted.clique))
        codes = []
        for name in counted.clique:
            parts, values = columns.parts[name], data[name]
            if parts.values:
                codes.append([parts.size - 1 if pd.isna(v) else parts.values.index(v) for v in values])
            else:
                at = np.searchsorted(parts.edges, values.to_numpy(float), side="right")
                codes.append(np.where(values.isna(), parts.size - 1, at))
        got = np.bincount(place[tuple(map(np.asarray, codes))], minlength=counted.size + 1)
        table = sv.open_table(data)
        seen = table.read(question.reading, column=question.columns, where=question.where)
        counts = question.reading.split(seen.total)[0]
        assert got.tolist() == counts.astype(int).tolist()


def test_a_share_is_known_from_what_was_released(curator):
    answer = curator.know("share of smoker by ward where age >= 65")
    assert [row["ward"] for row in answer.rows] == ["A", "B", "C"]
    data = people()
    for row in answer.rows:
        group = data[(data.ward == row["ward"]) & (data.age >= 65)]
        assert abs(row["estimate"] - group.smoker.mean()) < 0.12
        assert row["low"] < row["estimate"] < row["high"]
    assert "nothing was spent" in answer.summary()
    assert curator.know("share of smoker by ward where age >= 65").rows == answer.rows  # the same, whenever


def test_answers_agree_with_each_other(curator):
    total = sum(row["estimate"] for row in curator.know("counts of smoker").rows)
    apart = sum(row["estimate"] for row in curator.know("counts of smoker, ill").rows)
    assert total == pytest.approx(apart, rel=0.01)


@pytest.mark.parametrize(
    ("question", "why"),
    [
        ("share of ill by ward", "in part only"),
        ("share of ill by visits: 0-2, 3+", "nothing that was released keeps visits"),
        ("share of smoker where age >= 50", "cuts 'age' at 50"),
        ("mean of age", "as shares and counts"),
    ],
)
def test_what_nothing_keeps_is_said(curator, question, why):
    with pytest.raises(InvalidValue, match=why):
        curator.know(question)


def test_tables_are_marked_and_the_same_whenever_they_are_drawn(curator, tmp_path):
    made = curator.synthesize(["ward", "smoker", "ill"], sets=3, size=500)
    again = curator.synthesize(["ward", "smoker", "ill"], sets=3, size=500)
    assert all(a.equals(b) for a, b in zip(made.tables, again.tables, strict=True))
    assert not made.tables[0].equals(made.tables[1])
    assert made.tables[2].attrs["synthetic"]["set"] == 3
    made.to_csv(tmp_path / "csv")
    assert json.loads((tmp_path / "csv" / "synthetic.json").read_text())[0]["synthetic"] is True
    (first, *_) = made.to_parquet(tmp_path / "parquet")
    from pyarrow import parquet

    assert json.loads(parquet.read_schema(first).metadata[b"sottovoce"])["dataset"] == "people"
    assert "not kept: ward × ill" in made.report()
    assert "not used: entry" in made.report()
    assert made.to_dict()["synthetic"] is True


def test_an_analysis_of_what_was_not_kept_is_refused(curator):
    made = curator.synthesize(sets=4, size=400)

    def share(table):
        smoker = table["smoker"].astype(float)
        return smoker.mean(), smoker.var() / smoker.count()

    result = sv.combine(share, made, uses=["smoker"])
    assert 0.1 < result.estimate[0] < 0.4
    with pytest.raises(InvalidValue, match="nothing that was released tells of ward with ill"):
        sv.combine(share, made, uses=["ward", "ill"])
    with pytest.raises(InvalidValue, match="tells of"):
        sv.combine(share, made)


def test_other_versions_of_the_data_are_left_out(tmp_path):
    place = tmp_path / "grows.parquet"
    people(3000).to_parquet(place)
    with sv.Curator(place, tmp_path / "x.ledger", sv.ApproxDP(2.0, 1e-6), facts=FACTS, grows=True) as curator:
        curator.proportion("smoker", spend=0.1)
        people(3200).to_parquet(place)
        with pytest.raises(InvalidValue, match="as they are now"):
            curator.know("share of smoker")
        curator.proportion("ill", by="ward", spend=0.1)
        made = curator.synthesize(sets=2, size=10)
        assert [why for _, why in made.refused] == ["it is about another version of the data"]


def test_nothing_is_known_before_anything_was_asked(tmp_path):
    with (
        sv.Curator(people(50), tmp_path / "x.ledger", sv.ApproxDP(1, 1e-6), facts=FACTS, dataset="p") as curator,
        pytest.raises(InvalidValue, match="ask for proportions or counts first"),
    ):
        curator.synthesize()
