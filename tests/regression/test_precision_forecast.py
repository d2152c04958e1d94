"""What a plan foresees of a regression's intervals, against releases of records that are as imagined, rare or not."""

import itertools
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import special, stats

import sottovoce as sv
from sottovoce.inference.regression import AdaptiveLooks, Formula
from sottovoce.inference.regression.adaptive_newton import together
from sottovoce.inference.regression.assumed_rows import rarely
from sottovoce.inference.regression.floating_sums import quick_sums
from sottovoce.inference.regression.look_posterior import believe_all
from sottovoce.inference.regression.precision_forecast import _Records, foresee
from sottovoce.inference.regression.regression_plan import plan_looks
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts.assumed_distribution import AssumedDistribution
from support.side_by_side import released

N = 20_000
FACTS = sv.Facts(
    age=sv.Number(0, 110),
    ward=sv.Category(["A", "B", "C"]),
    smoker=sv.Flag(),
    married=sv.Flag(),
    sbp=sv.Number(60, 250),
    visits=sv.Count(12),
    patient=sv.Person(),
)
EVEN = {"age": 0.289, "ward": {"B": 1 / 3, "C": 1 / 3}, "married": 0.5, "smoker": 0.5, "visits": 1.0, "sbp": 0.25}
RARE = {"age": 0.144, "ward": {"B": 0.35, "C": 0.08}, "married": 0.1, "smoker": 0.3, "visits": 0.5, "sbp": 0.1}


@cache
def made_up(rare, seed):
    """Records that were drawn another way: numbers evenly over a part of their bounds, effects unlike imagined ones."""
    rng, said = np.random.default_rng(seed), RARE if rare else EVEN
    spread = said["age"] / 0.289
    part = rng.uniform(-1, 1, N)
    shares = [1 - sum(said["ward"].values()), *said["ward"].values()]
    ward, married = rng.choice(3, N, p=shares), rng.random(N) < said["married"]
    t = 0.4 * part - 0.2 * married + np.array([0.0, 0.2, 0.3])[ward]
    t = t - t.mean()
    sbp = 155 + 190 * said["sbp"] * (rng.uniform(-1.7, 1.7, N) + 0.3 * t)
    return {
        "age": 55 + 55 * spread * part,
        "ward": np.array(["A", "B", "C"])[ward],
        "married": married,
        "smoker": rng.random(N) < special.expit(special.logit(said["smoker"]) + t),
        "visits": rng.poisson(said["visits"] * np.exp(t)),
        "sbp": sbp,
    }


@pytest.mark.parametrize("rare", [False, True], ids=["even", "rare"])
@pytest.mark.parametrize("response", ["smoker", "sbp", "visits", "ward"])
def test_intervals_are_as_wide_as_foreseen(response, rare):
    formula = Formula(f"{response} ~ age + married" + (" + C(ward)" if response != "ward" else ""), FACTS.of_rows())
    mechanism = AdaptiveLooks.calibrate(formula, N, sv.ApproxDP(2.0, 1e-6))
    said = {name: value for name, value in (RARE if rare else EVEN).items() if name in formula.columns}
    told = foresee(mechanism, imagined=AssumedDistribution(columns=said))
    many = 9 if response == "visits" else 5  # where noise is loud, intervals of one differ by a third
    found = released(mechanism, [made_up(rare, seed) for seed in range(many)], map(seeded_rng, range(9, 9 + many)))
    widths = [np.diff(one.interval(), axis=1)[:, 0] / 2 for one in found]
    plain = [1.96 * one.plain_sd for one in found]
    assert [one.term for one in told] == found[0].terms
    np.testing.assert_allclose([one.width for one in told], np.median(widths, axis=0), rtol=0.25)
    assert all(0 < one.plain <= one.width <= one.widest for one in told)
    if not rare:  # of what noise hides a release cannot tell what would be left without it
        near = 0.2 if response == "visits" else 0.1  # a release cannot rule out that counts vary more than Poisson's
        np.testing.assert_allclose([one.plain for one in told], np.median(plain, axis=0), rtol=near)


@pytest.mark.parametrize(("n", "epsilon"), [(5000, 0.5), (20_000, 0.5), (20_000, 3.0)])
@pytest.mark.parametrize("family", ["logistic", "probit"])
def test_where_all_looks_tell_a_plan_is_of_all_of_them(family, n, epsilon):
    shares = {"x": 0.08, "f": 0.1, "c": {"b": 0.3, "a": 0.65}}
    facts = sv.Facts(y=sv.Flag(), x=sv.Number(-1, 1), f=sv.Flag(), c=sv.Category(["a", "b", "d"]))
    mechanism = AdaptiveLooks.calibrate(Formula("y ~ x + f + c", facts, family), n, sv.ApproxDP(epsilon, 1e-5))
    widths = []
    for seed in range(5):
        rng = np.random.default_rng([seed, n])
        x, f, c = rng.normal(0, 0.16, n).clip(-1, 1), rng.random(n) < 0.1, rng.choice(3, n, p=[0.65, 0.3, 0.05])
        t = 2.0 * x - 0.3 * f + 0.3 * (c == 1) - 0.3 * (c == 2)
        share = special.expit(t) if family == "logistic" else special.ndtr(t * 0.6)
        rows = {"y": rng.random(n) < share, "x": x, "f": f, "c": np.array(["a", "b", "d"])[c]}
        result = mechanism.release(rows, seeded_rng(seed)).value
        widths.append(np.diff(result.interval(), axis=1)[:, 0] / 2)
    told = np.array([one.width for one in foresee(mechanism, imagined=AssumedDistribution(columns=shares))])
    np.testing.assert_allclose(told, np.median(widths, axis=0), rtol=0.25)


def test_without_privacy_widths_are_those_of_the_likelihood():
    formula = Formula("smoker ~ age + C(ward)", FACTS.of_rows())
    mechanism = AdaptiveLooks.calibrate(formula, N, sv.ApproxDP(0.1, 1e-6))
    told = foresee(mechanism, imagined=AssumedDistribution(columns={n: RARE[n] for n in formula.columns}))
    plain = []
    for seed in range(3):
        records = made_up(True, seed)
        X = np.column_stack([np.ones(N), records["age"], records["ward"] == "B", records["ward"] == "C"]).astype(float)
        plain.append(1.96 * np.sqrt(np.diag(np.linalg.inv(0.3 * 0.7 * X.T @ X))))
    np.testing.assert_allclose([one.plain for one in told], np.mean(plain, axis=0), rtol=0.1)
    assert told[3].width > 4 * told[3].plain  # noise hides a ward that few are in


def test_where_nobody_says_a_plan_for_the_rare_is_no_less_wide_than_what_is_got():
    formula = Formula("smoker ~ age + married + C(ward)", FACTS.of_rows())
    mechanism = AdaptiveLooks.calibrate(formula, N, sv.ApproxDP(1.0, 1e-6))
    even, rare = foresee(mechanism), foresee(mechanism, imagined=rarely(formula))
    found = released(mechanism, [made_up(True, seed) for seed in range(3)], map(seeded_rng, range(3)))
    widths = [np.diff(one.interval(), axis=1)[:, 0] / 2 for one in found]
    got = np.median(widths, axis=0)
    assert got[1] < even[1].width  # age spreads over a seventh of its bounds, farther than most columns do
    for place in (2, 4):  # the rare flag and the rare level
        assert 1.25 * even[place].width < got[place] < 1.25 * rare[place].width
    said = rarely(formula, AssumedDistribution(columns={"ward": {"B": 0.5}, "smoker": 0.4}))
    assert said.columns["ward"] == {"B": 0.5} and said.columns["smoker"] == 0.4 and said.share == 0.1


def test_of_numbers_nobody_speaks_of_plans_imagine_what_a_survey_of_columns_has():
    """Its quantiles are in docs/theory/column-spreads.md, in half ranges: .133 in the middle of the fitted law."""
    formula = Formula("smoker ~ age", FACTS.of_rows())
    spreads = []
    for said in (AssumedDistribution(), rarely(formula), AssumedDistribution(spread=0.25)):
        spreads.append(_Records.of(formula, N, said, None).rows[:, 1].std())
    np.testing.assert_allclose(spreads, [0.133, 0.133 * np.exp(0.7 * stats.t(4).ppf(0.1)), 0.5], rtol=0.01)


def test_a_condition_leaves_so_many_records():
    formula = Formula("smoker ~ age", FACTS.of_rows(), where="ward = 'A'")
    mechanism = AdaptiveLooks.calibrate(formula, 20_000, sv.ApproxDP(1.0, 1e-6))
    whole, some = (foresee(mechanism, imagined=AssumedDistribution(kept=kept))[1].plain for kept in (1.0, 0.25))
    assert some / whole == pytest.approx(2, rel=0.05)


def test_groups_that_differ_are_imagined():
    """Of groups that do not differ one would know far more than of any that do."""
    formula = Formula("smoker ~ 1 + (1 | ward)", FACTS.of_rows())
    mechanism = AdaptiveLooks.calibrate(formula, 20_000, sv.ApproxDP(3.0, 1e-6))
    assert max(one.width for one in foresee(mechanism)[1:]) > 0.1


@pytest.mark.parametrize("response", ["smoker", "sbp"])
def test_without_privacy_slopes_are_known_as_well_beside_groups_as_beside_levels(response):
    """Beside thirty groups a walk without noise had left those of a linear regression two to three times as wide."""
    facts = sv.Facts(
        age=sv.Number(0, 110), smoker=sv.Flag(), sbp=sv.Number(60, 250), home=sv.Category([f"h{k}" for k in range(30)])
    )
    plain = []
    for beside in ("(1 | home)", "home"):
        mechanism = AdaptiveLooks.calibrate(Formula(f"{response} ~ age + {beside}", facts), N, sv.ApproxDP(1.0, 1e-6))
        plain.append(foresee(mechanism)[1].plain)
    assert plain[0] == pytest.approx(plain[1], rel=0.05)


def test_without_privacy_groups_are_known_as_a_release_tells():
    """Of groups that do not differ one would know five times as much."""
    formula = Formula("smoker ~ age + (1 | ward)", FACTS.of_rows())
    mechanism = AdaptiveLooks.calibrate(formula, N, sv.ApproxDP(3.0, 1e-6))
    found = released(mechanism, [made_up(False, k) for k in range(3)], map(seeded_rng, range(3)))
    plain, said = [1.96 * one.plain_sd for one in found], AssumedDistribution(columns={"age": EVEN["age"]})
    np.testing.assert_allclose(
        [one.plain for one in foresee(mechanism, imagined=said)], np.median(plain, axis=0), rtol=0.5
    )


def test_a_large_table_is_foreseen_from_few_imagined_records():
    formula = Formula("smoker ~ age", FACTS.of_rows())
    plain = [foresee(AdaptiveLooks.calibrate(formula, n, sv.ApproxDP(1.0, 1e-6)))[1].plain for n in (20_000, 2_000_000)]
    assert plain[0] / plain[1] == pytest.approx(10, rel=0.03)


def test_a_secret_n_is_imagined_and_persons_count_once():
    secret = AdaptiveLooks(Formula("smoker ~ age", FACTS), None, 0.05)
    with pytest.raises(InvalidValue, match="how many to imagine"):
        foresee(secret)
    assert foresee(secret, 5000)[1].width < foresee(secret, 500)[1].width


def test_of_counts_a_mean_is_proposed_to_imagine_for_that_is_what_is_taken() -> None:
    facts, promise = sv.Facts(month=sv.Count(24), fell=sv.Flag()), sv.ApproxDP(1.0, 1e-6)
    looks = AdaptiveLooks.calibrate(Formula("fell ~ month", facts), 2000, promise)
    assert plan_looks(looks, promise).hints == ("month=6", "fell=20%")


def test_a_plan_tells_itself_in_words():
    formula = Formula("smoker ~ age + married", FACTS.of_rows())
    promise = sv.ApproxDP(1.0, 1e-6)
    mechanism = AdaptiveLooks.calibrate(formula, 800, promise)
    plan = plan_looks(mechanism, promise, imagined={"age": 0.2, "smoker": 0.03})
    head, body = plan.lines()
    assert (head, [line[0] for line in body]) == (["term", "if even", "if rare", "no privacy"], formula.terms)
    lines = plan.summary().splitlines()
    assert all(len(line) <= 80 for line in lines[2 + len(body) :]) and lines[0] == plan.question
    assert [line.split()[0] for line in lines[2 : 2 + len(body)]] == formula.terms
    words = " ".join(lines[2 + len(body) :])
    for part in ("in 95 of 100 answers, for 800 records. Widths are of log-odds", "Which of the two married may be"):
        assert part in words
    assert "none goes with another, and numbers are symmetric; where that is not so widths may grow" in words
    assert "of flags and counts to two or three times as much and more" in words
    assert words.endswith("such as imagined=['married=20%']. Nothing was read.")
    unsure = [one for one in (*plan.terms, *plan.rare) if one.unsure]
    assert unsure and all(one.told in plan.summary() and one.told in plan._repr_html_() for one in unsure)
    assert list(plan.table.term) == formula.terms and repr(plan).endswith("3 terms, n = 800)")
    assert "for 1 record." in " ".join(replace(plan, n=1).summary().split())


@pytest.mark.filterwarnings("error")
def test_a_row_of_zeros_alone_tells_no_more_than_the_prior():
    """One record, in the middle of its bounds, without an intercept: even without privacy nothing is learned."""
    formula = Formula("smoker ~ 0 + x", sv.Facts(smoker=sv.Flag(), x=sv.Number(-1, 1)))
    (told,) = foresee(AdaptiveLooks.calibrate(formula, 1, sv.ApproxDP(1.0, 1e-6)))
    assert np.isfinite(told.widest) and told.width >= told.plain > 1.96


def test_imagined_columns_meet_each_other_more_evenly_than_by_chance():
    formula = Formula("y ~ a + b + c", sv.Facts(y=sv.Flag(), a=sv.Number(0, 1), b=sv.Number(0, 1), c=sv.Number(0, 1)))
    records = _Records.of(formula, N, AssumedDistribution(), None)
    assert records.each * len(records.rows) == pytest.approx(N)
    ranks = np.argsort(np.argsort(np.column_stack([records.rows[:, 1:], records.places]), axis=0), axis=0)
    assert all(np.unique(column).size == len(ranks) for column in ranks.T)
    for one, other in itertools.combinations(ranks.T, 2):
        cells = np.histogram2d(one, other, bins=8)[0]
        assert cells.std() < np.sqrt(cells.mean()) / 1.5  # which is what chance does


@pytest.mark.parametrize("response", ["smoker", "sbp", "visits", "ward"])
def test_looks_at_the_answer_itself_say_the_same_whether_rows_are_imagined_or_not(response):
    formula = Formula(f"{response} ~ age + married", FACTS.of_rows())
    mechanism = AdaptiveLooks.calibrate(formula, N, sv.ApproxDP(2.0, 1e-6))
    records = _Records.of(formula, N, AssumedDistribution(), None)
    for walk in records.walks(mechanism, 0.95)[0]:
        asked = next(walk)
        both = believe_all([replace(asked, whole=whole) for whole in (True, False)])
        without, on_rows = (item.covariance for item in both)
        sds = [np.sqrt(np.diag(one)) for one in (without, on_rows)]
        np.testing.assert_allclose(*sds, rtol=0.02)  # imagined rows may be longer than any record, and be cut


@pytest.mark.parametrize("response", ["smoker", "sbp"])
def test_where_noise_is_next_to_none_a_walk_without_any_tells_what_many_draws_do(response):
    formula = Formula(f"{response} ~ age + married", FACTS.of_rows())
    mechanism = AdaptiveLooks.calibrate(formula, 10 * N, sv.ApproxDP(2.0, 1e-6))
    records = _Records.of(formula, 10 * N, AssumedDistribution(), None)
    assert [len(some) for some in records.walks(mechanism, 0.95)] == [1, 1]
    drawn = together([walk for seed in range(6) for walk in records.pair(mechanism, seed, 0.95)])
    told = foresee(mechanism)
    np.testing.assert_allclose([one.width for one in told], np.median(drawn, axis=0), rtol=0.06)
    np.testing.assert_allclose([one.widest for one in told], [one.width for one in told])


def test_what_goes_more_with_one_outcome_than_with_the_other_is_drawn_both_ways():
    formula = Formula("ward ~ age + married", FACTS.of_rows())
    mechanism = AdaptiveLooks.calibrate(formula, 10 * N, sv.ApproxDP(2.0, 1e-6))
    rare = _Records.of(formula, 10 * N, AssumedDistribution(columns={"ward": {"C": 0.1}}), None)
    assert [len(some) for some in rare.walks(mechanism, 0.95)] == [2, 1]  # all looks are read together


def test_single_precision_moves_a_look_by_far_less_than_its_noise():
    formula = Formula("sbp ~ age + married + C(ward)", FACTS.of_rows())
    mechanism = AdaptiveLooks.calibrate(formula, N, sv.ApproxDP(2.0, 1e-6))
    records, look = _Records.of(formula, N, rarely(formula), None), mechanism.reading
    y = look.model.outcome(records.explained[0])
    exact = quick_sums(look, records.rows, y)
    single = quick_sums(look, records.rows.astype(np.float32), y.astype(np.float32))
    noises = zip(mechanism.noises(look, mechanism.scales(look, mechanism.plan[0])), look.sizes.values(), strict=True)
    noise = np.concatenate([np.full(size, one.scale) for one, size in noises])
    assert 0 < np.abs(records.each * (single - exact) / noise).max() < 0.01
