"""What a ledger's counts tell together: answers and tables, free, and what is refused."""

import json

import numpy as np
import pandas as pd
import pytest

import sottovoce as sv
from sottovoce.inference.cells.questions import Question
from sottovoce.inference.synthesis.counted_cells import CountedCells
from sottovoce.inference.synthesis.searched_columns import WithinCells
from sottovoce.inference.synthesis.table_columns import TableColumns
from sottovoce.privacy.errors import InvalidValue
from sottovoce.service.answers.table_picture import TablePicture

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
    page = made.to_html(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == page
    assert "What they are not for" in page and "ward × ill" in page and "approx:2,1e-06" in page
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


def test_numbers_lie_within_their_parts_as_a_search_for_quantiles_told(tmp_path):
    rng = np.random.default_rng(4)
    data = pd.DataFrame({"wait": rng.exponential(10, 5000), "ill": rng.random(5000) < 0.4})
    facts = sv.Facts(wait=sv.Number(0, 1000), ill=sv.Flag())
    with sv.Curator(data, tmp_path / "x.ledger", sv.ApproxDP(4, 1e-6), facts=facts, dataset="waits") as curator:
        curator.counts(["ill"], spend=0.1)
        curator.quantiles("wait", [0.25, 0.5, 0.75], spend=0.4)
        z = curator.synthesize(sets=5, size=4000)
        assert set(z.columns) == {"wait", "ill"}
        for p in (0.25, 0.5, 0.75):
            drawn = np.mean([table["wait"].quantile(p) for table in z.tables])
            assert drawn == pytest.approx(10 * -np.log(1 - p), rel=0.1)  # even within bounds, it would be 250 and more
        again = TablePicture.from_dict(json.loads(json.dumps(curator.picture().to_dict())))
        assert again.synthesis(sets=5, size=4000).tables[3].equals(z.tables[3])


def test_values_follow_the_curve_between_two_ends():
    within = WithinCells(np.array([0.0, 1.0, 3.0, 9.0]), np.array([[0.0, 0.5, 0.5, 1.0]]))
    ends = np.zeros(3), np.full(3, 9.0)
    assert within.values(0, *ends, np.array([0.2, 0.499999, 0.8])) == pytest.approx([0.4, 1, 6.6], abs=1e-3)
    empty = within.values(0, np.array([1.5]), np.array([2.5]), np.array([0.25]))
    assert empty.tolist() == [1.75]


def test_days_are_in_tables_by_the_column_that_was_asked_of_them(tmp_path):
    rng = np.random.default_rng(5)
    days = pd.to_datetime("2024-01-01") + pd.to_timedelta(rng.integers(0, 366, 3000), unit="D")
    data = pd.DataFrame({"admitted": days.date, "ill": rng.random(3000) < np.where(days.month > 6, 0.6, 0.2)})
    facts = sv.Facts(admitted=sv.Day("2024-01-01", "2024-12-31"), ill=sv.Flag())
    with sv.Curator(data, tmp_path / "x.ledger", sv.ApproxDP(4, 1e-6), facts=facts, dataset="stays") as curator:
        curator.proportion("ill", by="month(admitted)", spend=0.3)
        rows = curator.know("share of ill by month(admitted)").rows
        assert [row["month(admitted)"] for row in rows] == list(range(1, 13))
        table = curator.synthesize(sets=2, size=6000).tables[0]
        late = table["month(admitted)"] > 6
        assert table.loc[late, "ill"].mean() > table.loc[~late, "ill"].mean() + 0.2
        curator.synthesize(["month(admitted)", "ill"], spend=0.2, sets=2)


def test_persons_are_learnt_as_one_record_each(tmp_path):
    rng = np.random.default_rng(6)
    who = np.repeat(np.arange(900), 2)
    data = pd.DataFrame({"who": who.astype(str), "ill": np.repeat(rng.random(900) < 0.3, 2), "age": 40.0})
    facts = sv.Facts(who=sv.Person(), ill=sv.Flag(missing=False), age=sv.Number(0, 100))
    with sv.Curator(data, tmp_path / "x.ledger", sv.ApproxDP(4, 1e-6), facts=facts, dataset="visits") as curator:
        curator.proportion("ill", spend=0.1)
        with pytest.raises(InvalidValue, match="nothing that was released"):
            curator.synthesize()
        z = curator.synthesize(["ill", "age"], spend=0.5, sets=2, bins=4)
        assert z.size == z.n == 900
        assert z.tables[0]["ill"].mean() == pytest.approx(0.3, abs=0.06)
        assert "its records are persons" in z.report()


def test_a_part_knows_what_was_paid_from_it_alone(tmp_path):
    rng = np.random.default_rng(7)
    data = pd.DataFrame({"ill": rng.random(900) < 0.3, "ward": rng.choice(["A", "B"], 900)})
    facts = sv.Facts(ill=sv.Flag(), ward=sv.Category(["A", "B"]))
    with sv.Curator(data, tmp_path / "x.ledger", sv.ApproxDP(4, 1e-6), facts=facts, dataset="d") as curator:
        mine = curator.open_part("mine", sv.ApproxDP(1, 1e-7))
        curator.counts(["ill", "ward"], spend=0.2)
        with pytest.raises(InvalidValue, match="nothing that was released"):
            curator.know("share of ill", part=mine)
        curator.counts(["ill"], spend=0.3, part=mine)
        assert curator.know("share of ill", part=mine).rows
        with pytest.raises(InvalidValue, match="keeps ward × ill"):
            curator.know("share of ill by ward", part=mine)


def test_numbers_that_only_a_mean_was_told_of_are_related_to_nothing(tmp_path):
    """How many have an age is counted by ward; how ages lie is not, and no analysis may read it off."""
    with sv.Curator(people(), tmp_path / "y.ledger", sv.ApproxDP(2.0, 1e-6), facts=FACTS, dataset="people") as opened:
        opened.mean("age", by="ward", spend=0.2)
        z = opened.synthesize(sets=2)
        assert z.posterior.kept(("ward",))
        assert not z.posterior.kept(("ward", "age"))
        with pytest.raises(InvalidValue, match="nothing that was released tells of ward with age"):
            z.check_relation(["ward", "age"])
        assert "not kept: ward × age" in z.report()


def test_an_analysis_is_told_of_parts_that_noise_hides(tmp_path):
    """A column with nearly all records at its lower end: slopes on it owe much to records that noise put there."""
    rng = np.random.default_rng(5)
    stay = np.minimum(rng.exponential(4.0, 4000), 100.0)
    data = pd.DataFrame(
        {"stay": stay, "ill": rng.random(4000) < 0.2 + 0.6 * (stay > 10), "old": rng.random(4000) < 0.5}
    )
    facts = sv.Facts(stay=sv.Number(0, 100), ill=sv.Flag(), old=sv.Flag())
    with sv.Curator(data, tmp_path / "x.ledger", sv.ApproxDP(1.0, 1e-6), facts=facts, dataset="stays") as curator:
        curator.proportion("ill", by="stay: 4 bands", spend=0.3)
        curator.proportion("ill", by="old", spend=0.3)
        made = curator.synthesize(sets=3)
    posterior = made.posterior
    counts = np.histogram(stay, [0, 25, 50, 75, 100])[0]
    assert counts[0] > 3900 and counts[2:].sum() == 0
    assert made.hidden_parts("stay")[1] == 4 and made.hidden_parts("stay")[0] >= 2
    assert made.hidden_parts("old") == (0, 2) == made.hidden_parts("ill")
    assert posterior.hidden_parts("stay") == made.hidden_parts("stay")[0]
    related = [(table["stay"].corr(table["ill"].astype(float)), 1e-4) for table in made.tables]
    of_both = sv.combine(related, made, uses=["stay", "ill"])
    assert any("parts of stay" in note and "towards zero" in note for note in of_both.notes)
    alone = sv.combine(lambda table: (table["ill"].mean(), 1e-4), made, uses=["old", "ill"])
    assert not any("hides" in note for note in alone.notes)
