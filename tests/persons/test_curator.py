"""A curator whose facts name a person: what it promises, counts, asks and refuses."""

import json

import numpy as np
import pandas as pd
import pytest

import sottovoce as sv
from sottovoce.mechanisms import DiffusedPosterior
from sottovoce.mechanisms.conjugate import BetaBernoulli, GammaPoisson
from sottovoce.privacy.relation import ADD_REMOVE, REPLACE_ONE

PERSONS = 400


def visits(seed=1):
    """One to thirty visits of each patient, more of those with a high pressure."""
    rng = np.random.default_rng(seed)
    own = rng.normal(size=PERSONS)
    m = np.minimum(rng.geometric(1 / (1 + 3 * np.exp(own))), 30)
    who = np.repeat(np.arange(PERSONS), m)
    rows = {
        "patient": [f"p{k}" for k in who],
        "ward": rng.choice(["A", "B"], PERSONS)[who],
        "sbp": 120 + 15 * own[who] + 5 * rng.normal(size=who.size),
        "age": rng.uniform(20, 90, PERSONS)[who],
        "smoker": rng.random(who.size) < 0.3,
        "falls": rng.poisson(0.5, who.size),
    }
    return pd.DataFrame(rows)


VISITS = visits()


def facts(person=None, **more):
    return sv.Facts(
        ward=sv.Category(["A", "B"]),
        sbp=sv.Number(60, 250),
        age=sv.Number(0, 110),
        smoker=sv.Flag(),
        falls=sv.Count(20),
        **({} if person is None else {"patient": person}),
        **more,
    )


@pytest.fixture
def opened(tmp_path):
    made = []

    def open_(person=None, budget=None, data=VISITS, **options):
        made.append(
            sv.Curator(
                data,
                tmp_path / "visits.ledger",
                sv.ApproxDP(200.0, 1e-6) if budget is None else budget,
                facts=facts(sv.Person() if person is None else person),
                dataset="visits",
                **options,
            )
        )
        return made[-1]

    yield open_
    for curator in made:
        curator.close()


def test_a_person_in_the_facts_makes_every_promise_one_for_persons(opened):
    curator = opened()
    assert curator.budget.n == PERSONS
    assert curator.budget.relation == REPLACE_ONE.of_person()
    answer = curator.mean("sbp", spend=0.3)
    assert answer.release.profile.relation == REPLACE_ONE.of_person()
    assert curator.history()[0].relation == REPLACE_ONE.of_person()
    assert "with all of their records" in str(sv.explain(curator))
    assert "p17" not in json.dumps(answer.to_dict(), default=str)


def test_the_mean_is_that_of_persons_not_of_rows(opened):
    """A patient with a high pressure comes more often; the answer is about patients."""
    curator = opened()
    means = VISITS.groupby("patient").mean(numeric_only=True)
    assert VISITS.sbp.mean() - means.sbp.mean() > 4
    found = curator.mean("sbp", spend=0.5).table.iloc[0]
    assert abs(found.estimate - means.sbp.mean()) < 1.5
    share = curator.proportion("smoker", spend=0.3).table.iloc[0]
    assert abs(share.estimate - means.smoker.mean()) < 0.03


def test_counts_are_sums_of_shares_and_of_at_most_k_rows(opened):
    curator = opened()
    weights = 1 / VISITS.groupby("patient").ward.transform("size")
    expected = weights.groupby([VISITS.ward, VISITS.smoker]).sum().to_numpy()
    found = curator.counts(["ward", "smoker"], spend=0.5).table
    assert np.allclose(found.estimate, expected, atol=3)
    rows = opened(sv.Person(rows=4)).counts(["ward"], spend=0.3).table
    assert np.allclose(rows.estimate.sum(), VISITS.groupby("patient").size().clip(upper=4).sum(), atol=12)


def test_verbs_regressions_fits_and_posterior_samples_take_persons(opened):
    curator = opened()
    assert len(curator.mean("sbp", by="ward", where="age >= 40", spend=0.05).table) == 2
    assert len(curator.quantiles("sbp", spend=0.05).table) == 3
    assert curator.rate("falls", spend=0.05).table.estimate[0] > 0
    assert len(curator.proportion("ward", spend=0.05).table) == 2
    assert len(curator.counts(sv.Cells(curator.facts, {"age": 3, "ward": ...}), spend=0.05).table) == 6
    regression = curator.regress("smoker ~ age + C(ward)", spend=0.1)
    assert list(regression.table.term) == ["Intercept", "age", "C(ward)[T.B]"]
    assert regression.release.profile.relation == REPLACE_ONE.of_person()


def test_estimators_and_posterior_samples_take_one_record_a_person(opened):
    curator = opened()
    bayes = curator.fit(sv.NaiveBayes(), ["ward", "age"], "smoker", spend=0.1)
    assert bayes.profile_.relation == REPLACE_ONE.of_person()
    system = BetaBernoulli(2, 2, whole=False)
    share = curator.release(DiffusedPosterior.calibrate(system, PERSONS, sv.RenyiDP(2, 0.5)), "smoker")
    assert 0 < share.value < 1
    assert share.profile.relation == REPLACE_ONE.of_person()
    counted = GammaPoisson(2, 2, high=20)
    assert curator.release(DiffusedPosterior.calibrate(counted, PERSONS, sv.RenyiDP(2, 1.0)), "falls").value > 0


def test_rows_must_be_said_and_are_said_everywhere(opened):
    curator = opened(protect="rows")
    assert curator.budget.n == len(VISITS)
    assert curator.budget.relation == REPLACE_ONE
    assert "a row, not a person" in repr(curator)
    assert "row, not a person" in str(sv.explain(curator))
    assert curator.whom == "Protected is a row, not a person"
    with pytest.raises(sv.SottovoceError, match="name no column 'patient'"):
        curator.counts("patient")
    curator.close()
    with pytest.raises(sv.SottovoceError, match="opened for rows, not persons; say protect='rows'"):
        opened(budget=None)
    with pytest.raises(sv.SottovoceError, match="protect= is 'persons' or 'rows'"):
        opened(protect="people")


def test_persons_stay_persons(opened, tmp_path):
    opened().close()
    with pytest.raises(sv.SottovoceError, match="opened for persons; name the Person"):
        opened(protect="rows")
    with pytest.raises(sv.SottovoceError, match="needs facts that say whose a row is"):
        sv.Curator(VISITS, tmp_path / "o.ledger", sv.PureDP(1), facts=facts(), dataset="o", protect="persons")
    with pytest.raises(sv.SottovoceError, match="had 400 persons when its budget was opened"):
        opened(data=VISITS[VISITS.patient != "p7"])


def test_a_person_there_or_not_where_their_number_is_a_secret(opened):
    curator = opened(n="private", time_grid=0.01)
    assert curator.budget.n is None
    assert curator.budget.relation == ADD_REMOVE.of_person()
    means = VISITS.groupby("patient").mean(numeric_only=True)
    assert abs(curator.mean("sbp", spend=0.3).table.estimate[0] - means.sbp.mean()) < 3
    counts = curator.counts(["ward"], spend=0.3).table
    assert abs(counts.estimate.sum() - PERSONS) < 20
    assert curator.regress("smoker ~ age", spend=0.2).release.profile.relation == ADD_REMOVE.of_person()


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda c: c.mean("sbp"), "mean takes one record a person"),
        (lambda c: c.proportion("smoker"), "Person\\(rows=3\\) is for counts"),
        (lambda c: c.regress("smoker ~ age"), "a regression takes one record a person"),
        (lambda c: c.fit(sv.NaiveBayes(), ["ward"], "smoker", spend=0.1), "this takes one record a person"),
    ],
)
def test_several_rows_a_person_are_refused_where_intervals_would_not_hold(opened, ask, said):
    curator = opened(sv.Person(rows=3))
    with pytest.raises(sv.SottovoceError, match=said):
        ask(curator)
    assert curator.history() == []


def test_nobody_is_asked_about(opened):
    curator = opened()
    for ask in (
        lambda: curator.counts("patient"),
        lambda: curator.mean("sbp", where="patient = 'p1'"),
        lambda: curator.regress("smoker ~ C(patient)"),
        lambda: curator.release(
            DiffusedPosterior.calibrate(BetaBernoulli(1, 1), PERSONS, sv.RenyiDP(2, 0.1)), "patient"
        ),
    ):
        with pytest.raises(sv.SottovoceError, match=r"says whose a row is|no public list|is a person"):
            ask()
    assert curator.history() == []


def test_one_person_with_many_rows_moves_an_answer_no_more_than_one_with_one(opened):
    """A thousand rows at the end of the range, of one person: the mean moves by a person's share, not by theirs."""
    from sottovoce.records.readings import PersonMoments

    reading = PersonMoments((), (), (), ((60.0, 250.0),), (155.0,), True, False)
    loud = pd.concat([VISITS, pd.DataFrame({"patient": ["p0"] * 1000, "sbp": [250.0] * 1000})])
    seen = [reading.read([frame.sbp, frame.patient]) for frame in (VISITS, loud)]
    assert abs(seen[0].total[0] - seen[1].total[0]) <= 2 * 2**20
    assert seen[0].n == seen[1].n == PERSONS


def test_the_share_of_rows_that_k_keeps_is_paid_for_and_told_with_intervals(opened):
    curator = opened()
    sizes = VISITS.groupby("patient").size()
    kept = curator.rows_kept((1, 3, 10), spend=0.3)
    for row in kept.rows:
        expected = sizes.clip(upper=row["k"]).sum() / sizes.sum()
        assert row["low"] - 0.02 <= expected <= row["high"] + 0.02
        assert row["high"] - row["low"] < 0.2
    assert len(curator.history()) == 1
    assert kept.release.profile.relation == REPLACE_ONE.of_person()
    assert str(kept).startswith("k = 1: ")
    assert list(kept.table.columns) == ["k", "estimate", "low", "high"]


def test_advice_on_k_is_free_and_of_public_numbers(opened):
    curator = opened(budget=sv.ApproxDP(1.0, 1e-6))
    noise = curator.rows_noise((1, 4, 16), spend=0.1)
    assert noise[4] == pytest.approx(4 * noise[1], rel=0.01)
    assert noise[16] == pytest.approx(16 * noise[1], rel=0.01)
    assert curator.history() == []
    rows = opened(sv.Person(rows=4), budget=sv.ApproxDP(1.0, 1e-6))
    answer = rows.counts("ward", spend=0.1)
    assert answer.release.value.noises[0].variance ** 0.5 == pytest.approx(noise[4], rel=0.02)
    with pytest.raises(sv.SottovoceError, match="most must be"):
        curator.rows_kept(9, most=4)
