"""`curator.regress`: one charge, a table a statistician can read, and all that follows from its posterior."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import special

import sottovoce as sv
from sottovoce.privacy.errors import BudgetExceeded, InvalidData, InvalidValue
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.service.answers import Regression, predictions
from support.side_by_side import released

N = 6000
FACTS = sv.Facts(
    age=sv.Number(0, 110),
    ward=sv.Category(["A", "B", "C"]),
    sex=sv.Flag(),
    smoker=sv.Flag(),
    sbp=sv.Number(60, 250),
    visits=sv.Count(12),
    state=sv.Category(["well", "ill", "gone"]),
)


@cache
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    age, ward, sex = rng.normal(50, 15, N).clip(0, 110), rng.choice(["A", "B", "C"], N), rng.random(N) < 0.5
    t = -2 + 0.04 * age + 0.7 * (ward == "B") - 0.5 * sex
    found = pd.DataFrame({"age": age, "ward": ward, "sex": sex, "smoker": rng.random(N) < special.expit(t)})
    found["sbp"] = (100 + 0.5 * age + 6 * sex + rng.normal(0, 12, N)).clip(60, 250)
    found["visits"] = np.minimum(rng.poisson(np.exp(-1 + 0.02 * age)), 12)
    found["state"] = np.where(found.smoker, "ill", np.where(rng.random(N) < 0.3, "gone", "well"))
    return found


@pytest.fixture
def curator(tmp_path: Path):
    place = tmp_path / "p.ledger"
    with sv.Curator(frame(), place, sv.ApproxDP(6.0, 1e-6), facts=FACTS, dataset="patients") as made:
        yield made


def test_a_regression_is_one_entry_and_its_table_says_what_a_statistician_expects(curator) -> None:
    answer = curator.regress("smoker ~ age + C(ward) + age:sex", family="logistic", spend=0.3)
    assert list(answer.table.columns[:4]) == ["term", "estimate", "low", "high"]
    assert {"sd", "probability", "privacy_share", "odds_ratio", "odds_ratio_low"} <= set(answer.table.columns)
    assert list(answer.table.term) == ["Intercept", "age", "C(ward)[T.B]", "C(ward)[T.C]", "age:sex"]
    entries = [entry for entry in curator.history() if entry.cost]
    assert len(entries) == 1 and answer.entry == entries[0].id
    assert answer.share == pytest.approx(0.3, rel=1e-6)
    row = answer.table.set_index("term").loc["age"]
    assert abs(row.estimate - 0.04) < 4 * row.sd < 0.02
    assert row.odds_ratio == pytest.approx(np.exp(row.estimate))
    assert 0.5 <= row.probability <= 1 and 0 <= row.privacy_share <= 1
    text = answer.summary()
    assert "odds ratio" in text and "C(ward)[T.B]" in text and "cost 30 % of the budget" in text
    assert "?" not in text
    assert "<table>" in answer._repr_html_() and "logistic regression" in repr(answer)
    assert curator.left().startswith("70 % left")


def test_of_groups_privacy_s_part_is_told_and_grows_where_less_is_spent(curator) -> None:
    little, much = (curator.regress("smoker ~ age + (1 | ward)", spend=part).table for part in (0.02, 0.9))
    assert little.privacy_share.between(0, 1).all() and much.privacy_share.between(0, 1).all()
    assert (little.privacy_share >= much.privacy_share).all() and little.privacy_share.max() > 0.1
    assert much.privacy_share.min() < 0.1


def test_of_groups_beside_an_intercept_that_noise_hides_nothing_is_told_of_privacy_s_part(tmp_path: Path) -> None:
    """Groups were said to owe "less than 1 %" of their width to it beside an intercept of 0 ± 8,000."""
    rng, n = np.random.default_rng(1), 3000
    table = pa.table({"falls": rng.poisson(0.3, n), "age": rng.integers(20, 90, n), "ward": rng.choice(list("ABC"), n)})
    facts = sv.Facts(falls=sv.Count(20), age=sv.Number(0, 110), ward=sv.Category(list("ABC")))
    with sv.Curator(table, tmp_path / "g.ledger", sv.ApproxDP(1.0, 1e-6), facts=facts, dataset="falls") as curator:
        rows = curator.regress("falls ~ age + (1 | ward)", spend=0.001).rows
    assert rows[0]["high"] - rows[0]["low"] > 100
    assert all(row["privacy_share"] is None for row in rows)


def test_a_term_that_is_not_known_says_so_in_words_with_the_cheapest_cure(tmp_path: Path) -> None:
    """A column that spreads over a five-hundredth of its stated bounds, beside one that does not."""
    rng, n = np.random.default_rng(5), 4000
    table = pa.table({"x": rng.normal(50, 0.1, n), "z": rng.normal(50, 20, n).clip(0, 100), "y": rng.random(n) < 0.4})
    facts = sv.Facts(x=sv.Number(0, 100), z=sv.Number(0, 100), y=sv.Flag())
    with sv.Curator(table, tmp_path / "n.ledger", sv.ApproxDP(1.0, 1e-6), facts=facts, dataset="narrow") as curator:
        answer = curator.regress("y ~ x + z", spend=1.0)
    rows = {row["term"]: row for row in json.loads(answer.to_json())["table"]}
    assert rows["x"]["note"].startswith("not known at this budget; state closer bounds of x, which is free")
    assert rows["z"]["note"] is None and rows["x"]["high"] - rows["x"]["low"] < 10_000
    lines = answer.summary().splitlines()
    assert "not known" in next(line for line in lines if line.startswith("x"))
    assert "not known" not in next(line for line in lines if line.startswith("z"))
    assert any("prior=" in note and "0 ± 2.5" in note for note in answer.notes)


def test_privacy_s_part_of_a_level_that_noise_hides_is_not_told(tmp_path: Path) -> None:
    """Three in ten thousand: without noise its interval would be a tenth as wide, but nobody can tell from outside."""
    rng, n = np.random.default_rng(3), 20_000
    level = np.where(np.arange(n) % 4000 == 0, "r", rng.choice(["p", "q"], n))
    table = pa.table({"c": level, "y": rng.random(n) < 0.4})
    facts = sv.Facts(c=sv.Category(["p", "q", "r"]), y=sv.Flag())
    with sv.Curator(table, tmp_path / "r.ledger", sv.ApproxDP(1.0, 1e-6), facts=facts, dataset="rare") as curator:
        answer = curator.regress("y ~ c", spend=1.0)
    shares = {row["term"]: row["privacy_share"] for row in answer.rows}
    assert shares["c[T.r]"] is None and 0 <= shares["c[T.q]"] < 0.3
    hidden, plain = (
        next(line.split() for line in answer.summary().splitlines() if line.startswith(term))
        for term in ("c[T.r]", "c[T.q]")
    )
    assert "?" in hidden and "?" not in plain and "? where noise hides too much to tell" in answer.summary()
    wide = answer.rows[2]["high"] - answer.rows[2]["low"] > np.log(1e6)
    assert (hidden[-1] == "?") == wide  # an odds ratio from next to nothing to next to everything is none
    text = answer.to_json()
    assert "NaN" not in text and Regression.from_json(text).rows == answer.rows


@pytest.mark.parametrize("misses", [None, 0])
def test_privacy_s_part_of_a_level_whose_rows_weigh_next_to_nothing_is_not_told(misses: float | None) -> None:
    """Four in a thousand have it. The last look weighs their rows less than a thousandth: the prior is left, also
    without noise, but an ordinary regression would tell it a hundred times as well.
    """
    rng, n = np.random.default_rng(7), 40_000
    ward, age = rng.choice(["p", "q", "r"], n, p=[0.6, 0.396, 0.004]), rng.normal(60, 11, n).clip(18, 100)
    held = {"y": (95 + 0.45 * age + rng.normal(0, 14, n)).clip(60, 260), "age": age, "ward": ward}
    facts = sv.Facts(y=sv.Number(60, 260), age=sv.Number(18, 100), ward=sv.Category(["p", "q", "r"]))
    formula = sv.regression.Formula("y ~ age + ward", facts, misses=misses)
    mechanism = sv.regression.AdaptiveLooks.calibrate(formula, n, sv.ApproxDP(1.2, 1e-6))
    for found in released(mechanism, [held] * 6, map(seeded_rng, range(6))):
        sd = np.sqrt(np.diag(found.covariance))
        assert np.all(found.plain_sd[:-1] < sd[:-1])
        assert np.isnan(found.plain_sd[-1]) or found.plain_sd[-1] < sd[-1] / 2


def test_where_noise_hides_all_it_is_said_what_the_intervals_are_and_what_is_known_nonetheless(tmp_path: Path) -> None:
    """Of no records a slope may be anything, if the values hardly differ: that is the prior, and is said."""
    none = frame().iloc[:0]
    options = {"facts": FACTS, "dataset": "nobody", "n": "private"}
    with sv.Curator(none, tmp_path / "p.ledger", sv.ApproxDP(1.0, 1e-6), **options) as curator:
        found = curator.regress("sbp ~ age", spend=0.5)
    (said,) = [note for note in found.notes if "noise hides" in note]
    assert said.startswith("noise hides Intercept, age: ") and "predicted of sbp stays within its bounds" in said
    assert "noise hides Intercept, age" in found.footing()
    slope = found.rows[1]
    assert slope["high"] - slope["low"] > 2 * (250 - 60) / 110  # wider than from one bound to the other
    predicted = found.predict({"age": [0, 50, 110]})
    assert predicted.low.min() >= 60 and predicted.high.max() <= 250


def test_a_linear_regression_says_where_it_cut_residuals(curator) -> None:
    answer = curator.regress("sbp ~ age", spend=0.8)
    assert 2 * 12 < answer.posterior.cut < 6 * 12  # of residuals of a standard deviation of 12, cut at 3.5 of them
    assert f"residuals cut at ±{answer.posterior.cut:.3g}; what long tails lose is measured" in answer.summary()
    assert Regression.from_json(answer.to_json()).posterior.cut == answer.posterior.cut
    assert "residuals" not in curator.regress("smoker ~ age", spend=0.1).summary()


def test_where_a_line_does_not_fit_intervals_hold_the_ordinary_slope_and_it_is_said_how_far(tmp_path: Path) -> None:
    """A mean that rises and falls, and rows far out that count less: that much is allowed for, and no more is said."""
    rng, n = np.random.default_rng(4), 20_000
    x = rng.gamma(2.0, 8.0, n).clip(0, 100)
    table = pa.table(
        {"x": x, "y": (20 + x - x**2 / 80 + rng.normal(0, 4, n)).clip(0, 60), "ward": ["A", "B"] * (n // 2)}
    )
    facts = sv.Facts(x=sv.Number(0, 100), y=sv.Number(0, 60), ward=sv.Category(["A", "B"]))
    with sv.Curator(table, tmp_path / "b.ledger", sv.ApproxDP(6.0, 1e-6), facts=facts, dataset="bent") as curator:
        answers = [curator.regress("y ~ x", spend=0.2) for _ in range(4)]
        level = curator.regress("y ~ ward", spend=0.1)
    ordinary = np.polyfit(x, table["y"].to_numpy(), 1)[0]
    assert sum(answer.rows[1]["low"] <= ordinary <= answer.rows[1]["high"] for answer in answers) >= 3
    assert all("the formula seems to fit badly" in answer.footing() for answer in answers)
    assert Regression.from_json(answers[0].to_json()).footing() == answers[0].footing()
    for said in ("the formula seems to fit badly", "a formula that misses a little is allowed for"):
        assert said not in level.footing()  # the means of two wards fit any two wards


def test_where_a_line_fits_it_is_said_how_much_it_may_miss(curator) -> None:
    assert (
        "a formula that misses a little is allowed for; where it misses much"
        in curator.regress("sbp ~ age", spend=0.5).footing()
    )


def test_a_formula_is_said_to_fit_badly_from_half_more_than_formulas_miss_on_average(curator) -> None:
    plain = curator.regress("visits ~ age", spend=0.5)
    for times, badly in ((1.4, False), (1.6, True)):
        posterior = replace(plain.posterior, misses=times * plain.question.model.missed)
        answer = replace(plain, release=replace(plain.release, value=posterior))
        assert ("the formula seems to fit badly" in answer.footing()) is badly


def test_an_estimate_lies_in_its_interval_and_has_the_sign_that_is_likelier(curator) -> None:
    """The mean of a mixture need not: a part of it that weighs little may be far off."""
    plain = curator.regress("smoker ~ age", spend=0.5)
    far = np.array([[0.0, -0.1], [0.0, 80.0]])
    mixed = {"weights": np.array([0.98, 0.02]), "means": far, "covariances": np.tile(np.eye(2) / 4, (2, 1, 1))}
    odd = replace(plain.posterior, **mixed)
    assert odd.mean[1] > odd.interval()[1, 1]
    answer = replace(plain, release=replace(plain.release, value=odd))
    row, ten = answer.rows[1], answer.contrast({"age": 10})
    assert row["low"] < row["estimate"] < row["high"] and row["estimate"] == pytest.approx(odd.median[1], rel=1e-9)
    assert row["estimate"] < 0 and row["probability"] == pytest.approx(1 - odd.probability_positive(np.eye(2)[1]))
    assert row["odds_ratio"] == pytest.approx(np.exp(row["estimate"]))
    assert ten.low < ten.estimate < ten.high and ten.estimate == pytest.approx(10 * row["estimate"])
    assert special.ndtr((odd.median[1] - far[:, 1]) / 0.5) @ odd.weights == pytest.approx(0.5, abs=1e-9)


def test_a_poisson_regression_says_where_it_cut_counts(curator) -> None:
    answer = curator.regress("visits ~ age", spend=0.5)
    assert 1 <= answer.posterior.cut < 12  # of the public bound of 12
    cut = f"counts cut at {answer.posterior.cut:g}; what lies beyond is measured as a whole and allowed for, as far as"
    assert cut in " ".join(answer.summary().split())
    lines = Regression.from_json(answer.to_json()).summary().splitlines()
    notes = lines[next(place for place, line in enumerate(lines) if line.startswith("counts cut at")) :]
    assert max(map(len, notes)) <= 80
    assert " to " in next(line for line in lines if line.startswith("age"))  # the rate ratio's interval
    assert next(line for line in lines if line.startswith("Intercept")).endswith("%")  # whose e^ is no ratio


@pytest.mark.parametrize(("text", "family"), [("visits ~ 0 + age", "poisson"), ("weight ~ 0 + age", "linear")])
def test_a_regression_without_an_intercept_does_not_say_that_it_measured_what_is_cut_off(
    tmp_path: Path, text: str, family: str
) -> None:
    rng, facts = np.random.default_rng(1), sv.Facts(age=sv.Number(0, 1), visits=sv.Count(60), weight=sv.Number(0, 99))
    age = rng.random(4000)
    people = pd.DataFrame({"age": age, "visits": rng.poisson(9 * age), "weight": 50 * age + rng.normal(0, 1, 4000)})
    with sv.Curator(people, tmp_path / "q.ledger", sv.ApproxDP(3.0, 1e-6), facts=facts, dataset="p") as made:
        said = " ".join(made.regress(text, family=family).notes)
    assert "is guessed and allowed for" in said and "measured" not in said


def test_a_poisson_regression_says_that_many_counts_reach_their_bound(curator) -> None:
    answer = curator.regress("visits ~ age", spend=0.5)
    said = "many counts reach their public bound, 12, or by how they vary much lies beyond it"
    for full, told in ((None, False), (0.01, False), (0.2, True)):
        found = replace(answer, release=replace(answer.release, value=replace(answer.posterior, full=full)))
        assert any(note.startswith(said) for note in Regression.from_json(found.to_json()).notes) is told


def test_a_rate_of_which_little_is_known_lies_in_its_interval_and_is_not_minus_zero(tmp_path: Path) -> None:
    people = frame().assign(ward="A")
    facts = sv.Facts(ward=sv.Category(["A", "B", "C"]), visits=sv.Count(12))
    place = tmp_path / "q.ledger"
    with sv.Curator(people[["ward", "visits"]], place, sv.ApproxDP(6.0, 1e-6), facts=facts, dataset="p") as made:
        answer = made.regress("visits ~ ward", spend=0.5)
    shown = answer.predict({"ward": ["A", "B", "C"]})
    assert ((shown.low <= shown.estimate) & (shown.estimate <= shown.high)).all()
    assert answer.rows[1]["privacy_share"] is None
    with pytest.raises(ValueError, match="twice; say its weight once"):
        answer.contrast("ward[T.B]", "ward[T.B]")
    row = {"estimate": -0.05, "sd": 5.0, "low": -9.8, "high": 9.7}
    assert answer.formatted(row) == ["0", "5", "-10", "10"]


def test_a_multinomial_regression_says_what_each_value_is_set_against(curator) -> None:
    answer = curator.regress("state ~ age", family="multinomial", spend=0.3)
    assert "\neach beside state = 'well'\n" in answer.summary()
    assert "beside" not in curator.regress("smoker ~ age", spend=0.1).summary()


def test_json_and_back_contrasts_arviz_and_plots(curator, tmp_path: Path) -> None:
    answer = curator.regress("smoker ~ age + ward + sex", spend=0.3)
    again = Regression.from_json(answer.to_json())
    assert again.rows == answer.rows and again.entry == answer.entry
    assert json.loads(answer.to_json())["table"][1]["term"] == "age"
    wards = answer.contrast("ward[T.B]", "ward[T.C]")
    table = answer.table.set_index("term").estimate
    assert wards.estimate == pytest.approx(table["ward[T.B]"] - table["ward[T.C]"])
    assert wards.low < 0.7 < wards.high and wards.what == "ward[T.B] - ward[T.C]"
    decade = answer.contrast({"age": 10, "sex": 1})
    assert decade.estimate == pytest.approx(10 * table["age"] + table["sex"], abs=1e-3 * decade.sd)  # medians
    assert answer.contrast("age=10, sex=1") == decade and decade.ratio is not None
    assert [np.log(end) for end in decade.ratio.values()] == pytest.approx([decade.estimate, decade.low, decade.high])
    assert "odds ratio" in repr(decade) and "95 % interval" in repr(decade)
    assert decade.to_dict()["ratio"] == decade.ratio
    data = answer.to_arviz(500)
    assert list(data.posterior.coords["term"].values) == list(answer.table.term)
    assert data.posterior["coefficients"].shape == (1, 500, 5)
    for name, drawing in (("f", answer.plot()), ("e", answer.plot_effect("age")), ("g", answer.plot_effect("ward"))):
        drawing.savefig(tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").stat().st_size > 2000
    for wrong in ({"agee": 1}, {"age": float("nan")}, {}, 7):
        with pytest.raises(InvalidValue):
            answer.contrast(wrong)
    with pytest.raises(InvalidValue):
        answer.effect("height")
    with pytest.raises(InvalidValue):
        answer.effect("age", height=2)


def test_predictions_average_over_the_posterior_and_have_intervals(curator) -> None:
    answer = curator.regress("sbp ~ age + sex", spend=0.3)
    found = answer.predict(pd.DataFrame({"age": [30.0, 70.0], "sex": [False, True]}))
    assert list(found.columns) == ["estimate", "low", "high"]
    assert np.all(found.low < [115, 141]) and np.all(found.high > [115, 141])
    effect = answer.effect("age", sex=True)
    assert effect["age"].iloc[[0, -1]].tolist() == [0.0, 110.0] and len(effect) == 41
    with pytest.raises(InvalidData):
        answer.predict(pd.DataFrame({"age": [30.0]}))
    with pytest.raises(InvalidData):
        answer.predict(pd.DataFrame({"age": [None], "sex": [True]}))


def test_a_column_that_no_term_has_is_refused_by_its_name(curator) -> None:
    """As over HTTP and on the page: who means that the ward counts is told that it does not."""
    answer = curator.regress("sbp ~ age + sex", spend=0.3)
    wide = {"age": [30.0, 70.0], "sex": [False, True], "ward": ["A", "B"]}
    for frame in (wide, pd.DataFrame(wide), pa.table(wide)):
        with pytest.raises(InvalidValue, match=r"^the formula has no column 'ward'; say each of age, sex$"):
            answer.predict(frame)
    assert len(curator.regress("sbp ~ 1", spend=0.1).predict(pd.DataFrame(index=range(3)))) == 3


def test_what_is_held_at_its_public_bounds_is_said(curator) -> None:
    answer = curator.regress("sbp ~ age + sex", spend=0.3)
    inside = answer.predict({"age": [0.0, 110.0], "sex": True})
    beyond = answer.predict({"age": [-3.0, 400.0, 50.0], "sex": True})
    assert "held" not in inside and list(beyond.held) == ["age at 0", "age at 110", ""]
    pd.testing.assert_frame_equal(inside, beyond[["estimate", "low", "high"]].head(2))
    classes = curator.regress("state ~ age", spend=0.2).predict({"age": [50, 130]})
    assert list(classes.held) == [""] * 3 + ["age at 110"] * 3


def test_ragged_columns_are_refused_and_one_value_goes_for_all_rows(curator) -> None:
    answer = curator.regress("sbp ~ age + sex", spend=0.3)
    for ragged in ({"age": [30.0, 40.0], "sex": [True]}, {"age": [30.0], "sex": [True, False, True]}):
        with pytest.raises(InvalidData, match="columns of one length"):
            answer.predict(ragged)
    pd.testing.assert_frame_equal(
        answer.predict({"age": [30.0, 40.0], "sex": True}), answer.predict({"age": [30.0, 40.0], "sex": [True, True]})
    )


def test_nothing_is_expected_beyond_the_public_bounds_of_the_response(tmp_path: Path) -> None:
    few, facts = frame().head(40), sv.Facts(age=sv.Number(0, 110), sbp=sv.Number(60, 250), visits=sv.Count(12))
    with sv.Curator(few, tmp_path / "f.ledger", sv.ApproxDP(1.0, 1e-6), facts=facts, dataset="few") as made:
        counts, numbers = (made.regress(f"{name} ~ age", spend=0.1).effect("age") for name in ("visits", "sbp"))
    assert counts.high.max() == 12 and counts.low.min() >= 0
    assert numbers.high.max() <= 250 and numbers.low.min() >= 60


def test_average_effects_are_those_of_g_computation(curator) -> None:
    answer = curator.regress("smoker ~ age + ward + sex", spend=0.3)
    people = {"age": [30.0, 50.0, 70.0, 110.0], "ward": ["A", "B", "C", "A"], "sex": [True, False, True, False]}
    wards = answer.average_effects("ward", over=people)
    assert wards.effect.tolist() == ["ward: B less A", "ward: C less A"] and set(wards["over"]) == {
        "the records of over="
    }
    B, A = (answer.predict(people | {"ward": ward}).estimate.mean() for ward in "BA")
    assert wards.estimate[0] == pytest.approx(B - A, abs=0.003) and wards.low[0] < wards.estimate[0] < wards.high[0]
    slope = answer.average_effects("age", over=people)
    beta = answer.table.set_index("term").estimate["age"]
    p = answer.predict(people).estimate
    assert slope.estimate[0] == pytest.approx(float((p * (1 - p)).mean()) * beta, rel=0.03)
    assert "spread evenly" in answer.average_effects("sex")["over"][0]
    linear = curator.regress("sbp ~ age + sex", spend=0.1)
    table = linear.table.set_index("term")
    # A straight line: what the column does is its coefficient, whoever they are.
    assert linear.average_effects("age").estimate[0] == pytest.approx(table.estimate["age"], abs=table.sd["age"] / 5)
    with pytest.raises(InvalidValue, match="no column 'height'"):
        answer.average_effects("height")
    with pytest.raises(InvalidData, match="by its columns age, ward, sex"):
        answer.average_effects("age", over={"age": [1.0]})


def test_counts_and_classes_have_their_own_ratios_and_predictions(curator) -> None:
    counts = curator.regress("visits ~ age", spend=0.2)
    assert counts.question.family == "poisson" and "rate_ratio" in counts.table
    assert counts.table.set_index("term").loc["age"].pipe(lambda r: abs(r.estimate - 0.02) < 4 * r.sd)
    classes = curator.regress("state ~ age + sex", spend=0.2)
    assert classes.table.term[0] == "ill: Intercept"
    found = classes.predict({"age": [40.0], "sex": [True]})
    assert list(found.state) == ["well", "ill", "gone"]
    assert found.estimate.sum() == pytest.approx(1.0)
    assert "state" in classes.effect("age").columns
    assert classes.plot_effect("sex") is not None


def test_a_condition_is_part_of_the_question(curator) -> None:
    answer = curator.regress("sbp ~ sex", where="age >= 40 and ward = 'A'", spend=0.2)
    assert answer.question.describe() == "linear regression sbp ~ sex where age >= 40 and ward = 'A'"
    data = frame().query("age >= 40 and ward == 'A'")
    row = answer.table.set_index("term").loc["sex"]
    wanted = data.groupby("sex").sbp.mean().diff().iloc[-1]
    assert abs(row.estimate - wanted) < 4 * row.sd


@pytest.mark.parametrize("formula", ["smoker ~ scale(age)", "smoker ~ weight", "smoker", "ward ~ age + (1 | ward)"])
def test_what_is_refused_costs_nothing(curator, formula: str) -> None:
    with pytest.raises(InvalidValue):
        curator.regress(formula, spend=0.2)
    with pytest.raises(InvalidValue):
        curator.regress("smoker ~ age", spend=0.2, level=95)
    assert curator.left().startswith("100 % left")


@pytest.mark.parametrize(
    ("formula", "x", "y"),
    [
        ("y ~ x", (0, 1), (-8e307, 8e307)),
        ("y ~ x", (0, 1), (0, 1e160)),
        ("y ~ x", (0, 1), (0, 1e-300)),
        ("f ~ x", (-8e307, 8e307), (0, 1)),
        ("y ~ x", (0, 1e119), (0, 1e-119)),  # an interval of no width
        ("f ~ x*z", (0, 1e-119), (0, 1)),
    ],
)
def test_bounds_beyond_what_doubles_hold_are_refused_and_cost_nothing(
    tmp_path: Path, formula: str, x: tuple[float, float], y: tuple[float, float]
) -> None:
    facts = sv.Facts(x=sv.Number(*x), z=sv.Number(*x), y=sv.Number(*y), f=sv.Flag())
    some = pd.DataFrame({"x": [0.0, 1.0] * 50, "z": [0.0, 1.0] * 50, "y": [0.5] * 100, "f": [True, False] * 50})
    with sv.Curator(some, tmp_path / "l", sv.ApproxDP(1.0, 1e-6), facts=facts, dataset="d") as made:
        for ask in (made.regress, made.plan):
            with pytest.raises(InvalidValue, match=r"use (an)?other unit"):
                ask(formula, spend=0.5)
        assert made.left() == "100 % left"


def test_the_budget_is_never_overspent_and_a_retry_is_free(curator) -> None:
    first = curator.regress("smoker ~ age", spend=0.9, idempotency_key="once")
    assert curator.regress("smoker ~ age", spend=0.9, idempotency_key="once").rows == first.rows
    with pytest.raises(BudgetExceeded):
        curator.regress("smoker ~ age", spend=0.2)


def test_missing_values_leave_a_record_out_and_odd_ones_change_nothing_else(tmp_path: Path) -> None:
    data = frame()
    data.loc[:40, "age"] = np.nan
    data.loc[41:60, "ward"] = None
    data.loc[61, "age"] = np.inf
    with sv.Curator(data, tmp_path / "p.ledger", sv.ApproxDP(20.0, 1e-6), facts=FACTS, dataset="p") as curator:
        row = curator.regress("smoker ~ age + ward + sex", spend=0.9).table.set_index("term").loc["age"]
    assert abs(row.estimate - 0.04) < 4 * row.sd < 0.02


def test_a_value_that_cannot_be_predicted_for_is_named(curator) -> None:
    answer = curator.regress("smoker ~ age + ward", spend=0.3)
    with pytest.raises(InvalidData, match=r"none: ward of row 1; there are A, B, C$"):
        answer.predict({"age": [30, 40], "ward": ["A", "Z"]})
    with pytest.raises(InvalidData, match=r"none: age of row 2$"):
        answer.predict({"age": [30, 40, None], "ward": "A"})


def test_what_is_said_below_a_table_fits_eighty_columns(curator) -> None:
    answer = curator.regress("sbp ~ age", spend=0.3)
    assert len(answer.footing()) > 80
    assert max(map(len, answer.summary().splitlines())) <= 80


def test_a_coefficient_of_a_minute_unit_is_not_written_as_zeros() -> None:
    row = {"estimate": 2.34e-10, "sd": 1.1e-11, "low": 2.1e-10, "high": 2.5e-10}
    assert Regression.formatted(None, row) == ["2.3e-10", "1.1e-11", "2.1e-10", "2.5e-10"]  # type: ignore[arg-type]


def test_a_formula_that_is_taken_to_be_right_is_said_to_be_so_and_to_seem_wrong_where_it_does(tmp_path: Path) -> None:
    rng, n = np.random.default_rng(4), 20_000
    x = rng.gamma(2.0, 8.0, n).clip(0, 100)
    straight, bent = ((mean + rng.normal(0, 4, n)).clip(0, 99) for mean in (20 + x / 2, 20 + x - x**2 / 80))
    table = pa.table({"x": x, "straight": straight, "bent": bent, "ward": ["A", "B"] * (n // 2)})
    number = sv.Number(0, 100)
    facts = sv.Facts(x=number, straight=number, bent=number, ward=sv.Category(["A", "B"]))
    asked = [("straight ~ x", None, 0.1), ("straight ~ x", 0, 0.1), ("bent ~ x", 0, 0.6), ("bent ~ ward", 0, 0.1)]
    asked += [("straight ~ x", 0.05, 0.05)]
    with sv.Curator(table, tmp_path / "s.ledger", sv.ApproxDP(9.0, 1e-6), facts=facts, dataset="lines") as curator:
        usual, right, wrong, wards, stated = (
            curator.regress(text, misses=misses, spend=spend) for text, misses, spend in asked
        )
    assert right.question.misses == 0 and right.release.mechanism["system"]["misses"] == 0
    assert right.rows[1]["high"] - right.rows[1]["low"] < 1.1 * (usual.rows[1]["high"] - usual.rows[1]["low"])
    assert right.rows[1]["low"] <= 0.5 <= right.rows[1]["high"]
    assert "was taken to be right; where it is not, intervals hold less often" in right.footing()
    assert "fit badly: records with unusual values point elsewhere" in wrong.footing()
    assert "With misses=0 intervals do not allow for it and hold less often; without it they do" in wrong.footing()
    assert "taken to be right" not in usual.footing() + wards.footing()  # means of two wards fit any two wards
    assert "a formula that misses 0.05 of how far responses vary is allowed for" in stated.footing()
    told = [answer.question.describe().partition(", ")[2] for answer in (usual, right, stated)]
    assert told == ["", "misses=0", "misses=0.05"]
    assert Regression.from_json(right.to_json()).footing() == right.footing()


def test_rows_that_all_differ_are_summed_up_as_one_by_one(curator) -> None:
    """The oracle: every draw of every row written out, and quantiles of these by NumPy."""
    rng = np.random.default_rng(3)
    people = pd.DataFrame({"age": rng.uniform(0, 110, 101), "sex": rng.random(101) < 0.5})
    for formula, median in (("smoker ~ age + sex", False), ("visits ~ age + sex", True), ("state ~ age + sex", False)):
        answer = curator.regress(formula, spend=0.1)
        rows, _ = answer.question.encoding.rows([people[name].to_numpy(float) for name in ("age", "sex")])
        drawn = predictions.means_of(answer.posterior, rows, 2000)
        told = answer.predict(people)
        low, middle, high = np.quantile(drawn, [0.025, 0.5, 0.975], axis=0)
        assert np.allclose(told.low, low.ravel()) and np.allclose(told.high, high.ravel())
        assert np.allclose(told.estimate, (middle if median else drawn.mean(axis=0)).ravel())
