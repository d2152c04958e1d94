"""Adaptive looks: charged as one, private at every look, and with intervals that hold the truth."""

import json
import math
from functools import partial

import numpy as np
import pytest
from scipy import special

from sottovoce.inference.regression import AdaptiveLooks, Coefficients, Formula
from sottovoce.mechanisms import Release
from sottovoce.mechanisms.mechanism import Mechanism
from sottovoce.privacy.concentrated import ZeroConcentratedProfile
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.promises import ApproxDP, PureDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Category, Count, Facts, Flag, Number
from sottovoce.records.readings import HeldRecords
from support.side_by_side import released

FACTS = Facts(
    y=Flag(),
    z=Number(-4, 4),
    k=Count(9),
    c=Category(["a", "b", "c"]),
    x=Number(-3, 3),
    w=Number(-3, 3),
    g=Category(list("pqrstu")),
)


def records(n: int, seed: int = 1) -> dict[str, list]:
    rng = np.random.default_rng(seed)
    x, w = rng.normal(size=(2, n)).clip(-3, 3)
    t = -0.5 + 0.8 * x - 0.4 * w
    odds = np.exp(np.column_stack([np.zeros(n), t, -t]))
    shares = (odds / odds.sum(axis=1, keepdims=True)).cumsum(axis=1)
    found = {
        "y": rng.random(n) < special.expit(t),
        "z": (t + 0.5 * rng.normal(size=n)).clip(-4, 4),
        "k": np.minimum(rng.poisson(np.exp(t)), 9),
        "c": np.array(["a", "b", "c"])[(rng.random(n)[:, None] > shares).sum(axis=1).clip(0, 2)],
        "x": x,
        "w": w,
        "g": rng.choice(list("pqrstu"), n),
    }
    return {name: column.tolist() for name, column in found.items()}


@pytest.mark.parametrize(
    ("text", "family", "truth"),
    [
        ("y ~ x + w", "logistic", (-0.5, 0.8, -0.4)),
        ("z ~ x + w", "linear", (-0.5, 0.8, -0.4)),
        ("k ~ x + w", "poisson", (-0.5, 0.8, -0.4)),
        ("c ~ x + w", "multinomial", (-0.5, 0.8, -0.4, 0.5, -0.8, 0.4)),
    ],
)
def test_every_family_finds_the_truth_through_little_noise(text: str, family: str, truth: tuple[float, ...]) -> None:
    mechanism = AdaptiveLooks(Formula(text, FACTS, family), 20_000, 5.0)
    found = mechanism.release(records(20_000), seeded_rng(3)).value
    assert np.all(np.abs(found.mean - truth) < 4 * found.sd)
    assert np.all(found.sd < 0.06)


def test_all_looks_together_cost_what_is_claimed_and_no_look_is_free() -> None:
    mechanism = AdaptiveLooks.calibrate(Formula("y ~ x + w", FACTS), 500, ApproxDP(1.0, 1e-6))
    assert mechanism.profile.satisfies(ApproxDP(1.0, 1e-6))
    assert isinstance(mechanism.profile, ZeroConcentratedProfile)
    assert sum(share for share, _ in mechanism.plan) == pytest.approx(1.0)
    spent = sum(look.joint(scales) ** 2 / 2 for look, scales in mechanism.path)
    assert 0.999 * mechanism.rho < spent <= mechanism.rho
    with pytest.raises(Exception, match="rho"):
        AdaptiveLooks.calibrate(Formula("y ~ x", FACTS), 500, PureDP(1.0))


@pytest.mark.parametrize("family", ["logistic", "probit", "linear", "poisson", "multinomial"])
@pytest.mark.parametrize(("n", "size"), [(300, 1.0), (300, 1e6), (300_000, 1.0), (None, 1.0)])
def test_whatever_is_shown_the_looks_cost_no_more_than_is_claimed(family: str, n: int | None, size: float) -> None:
    """How a look is split follows from what was shown: noise alone, sums far beyond those of n records, and many."""
    response = {"linear": "z", "poisson": "k", "multinomial": "c"}.get(family, "y")
    mechanism = AdaptiveLooks(Formula(f"{response} ~ x + w", FACTS, family), n, 0.05)
    rngs, spent = [np.random.default_rng(seed) for seed in range(3)], [0.0] * 3

    def fresh(seed, look, scales):
        spent[seed] += mechanism.paid(look, scales)
        many, rng = 1000 if n is None else n, rngs[seed]
        shown = look.split(rng.normal(size=look.size) * size * 2.0**look.bits * math.sqrt(many))
        return look.join(**(shown | {"information": np.eye(look.dimension) * rng.random() * many * 4.0**look.bits}))

    mechanism.walk_all([partial(fresh, seed) for seed in range(3)])
    assert 0.999 * mechanism.rho < min(spent) and max(spent) <= mechanism.rho


def test_a_second_look_with_little_noise_leaves_more_to_the_last_and_a_secret_n_does_not_show() -> None:
    for n, shares in ((200, (0.15, 0.25, 0.60)), (100_000, (0.15, 0.10, 0.75)), (None, (0.15, 0.25, 0.60))):
        mechanism = AdaptiveLooks(Formula("y ~ x + w", FACTS), n, 0.05)
        assert [share for share, _ in mechanism.plan] == pytest.approx(shares)
        paid: list[float] = []

        def shown(look, scales, mechanism=mechanism, paid=paid):
            paid.append(mechanism.paid(look, scales) / mechanism.rho)
            return np.ones(look.size)

        mechanism.walk(shown)
        assert paid == pytest.approx(shares, rel=1e-3)


def test_where_the_next_look_is_taken_follows_from_what_was_shown() -> None:
    """Two tables that happen to show the same noisy sums are looked at in the same places: nothing else leaks."""
    mechanism = AdaptiveLooks(Formula("y ~ x + w", FACTS), 300, 0.5)
    rng = np.random.default_rng(7)
    shown: list[np.ndarray] = []

    def fresh(look, scales):
        shown.append(rng.normal(size=look.size) * 1e6)
        return shown[-1]

    first = mechanism.walk(fresh)
    again = iter(shown)
    second = mechanism.walk(lambda look, scales: next(again))
    assert [glance.look for glance, _ in first] == [glance.look for glance, _ in second]
    assert json.dumps(mechanism.conclude(first).to_dict()) == json.dumps(mechanism.conclude(second).to_dict())


@pytest.mark.parametrize("text", ["y ~ x + (1 | g)", "z ~ x*w", "k ~ x", "c ~ x"])
def test_whatever_is_shown_there_is_an_answer_of_finite_numbers(text: str) -> None:
    mechanism = AdaptiveLooks(Formula(text, FACTS), 50, 0.01)
    rng = np.random.default_rng(11)
    shown = [lambda look, scales, size=size: size * rng.normal(size=look.size) for size in (0.0, 1e12)]
    for found in mechanism.conclude_all(mechanism.walk_all(shown)):
        assert np.all(np.isfinite(found.interval()))
        assert np.all(found.sd > 0)


@pytest.mark.parametrize("text", ["k ~ x + (1 | g)", "y ~ x + g"])
def test_sums_that_are_all_alike_and_huge_beside_their_noise_end_in_an_answer(text: str) -> None:
    mechanism = AdaptiveLooks(Formula(text, FACTS), None, 50.0)
    shown = [lambda look, scales, size=size: np.full(look.size, size) for size in (-1e12, 1e14)]
    for found in mechanism.conclude_all(mechanism.walk_all(shown)):
        assert np.all(np.isfinite(found.interval()))


def test_a_look_is_attacked_to_within_a_tenth_of_its_claim() -> None:
    """One group, so that rows are as long as any and lie along the centre; the first look, at zero."""
    facts = Facts(y=Flag(), g=Category(["a", "b"]))
    mechanism = AdaptiveLooks(Formula("y ~ 0 + g", facts), 40, 2.0)
    first, second, noise = mechanism.moves(mechanism.worst_pair())[0]
    reached = math.sqrt(float((((first - second) / noise) ** 2).sum()))
    assert 0.9 * reached <= 1.0 * reached <= math.sqrt(2 * mechanism.rho * mechanism.plan[0][0])
    assert reached >= 0.75 * math.sqrt(2 * mechanism.rho * mechanism.plan[0][0])


def test_releases_read_back_and_records_of_another_number_are_refused() -> None:
    mechanism = AdaptiveLooks(Formula("y ~ x + (1 | g)", FACTS), 400, 1.0)
    again = Mechanism.from_dict(json.loads(json.dumps(mechanism.to_dict())))
    assert again.to_dict() == mechanism.to_dict()
    release = mechanism.release(records(400), seeded_rng(1))
    read = Release.from_json(release.to_json())
    assert isinstance(read.value, Coefficients)
    assert np.array_equal(read.value.mean, release.value.mean)
    for wrong in (records(399), {"x": [1.0]}, 7):
        with pytest.raises(InvalidData):
            mechanism.release(wrong, seeded_rng(1))
    with pytest.raises(InvalidData):
        mechanism.release(HeldRecords(([1.0], ["p"], [True])), seeded_rng(1))


def test_a_group_shares_strength_and_its_spread_is_integrated() -> None:
    rng = np.random.default_rng(5)
    effects = dict(zip("pqrstu", rng.normal(0, 0.6, 6), strict=True))
    g = rng.choice(list("pqrstu"), 8000)
    y = rng.random(8000) < special.expit(0.3 + np.array([effects[level] for level in g]))
    facts = Facts(y=Flag(), g=Category(list("pqrstu")))
    mechanism = AdaptiveLooks(Formula("y ~ (1 | g)", facts), 8000, 1.0)
    found = mechanism.release({"g": g.tolist(), "y": y.tolist()}, seeded_rng(2)).value
    assert len(found.weights) > 1
    for k, level in enumerate("pqrstu"):
        row = np.zeros(7)
        row[0], row[k + 1] = 1.0, 1.0
        _, sd, low, high = found.combined(row, 0.999)
        assert low < 0.3 + effects[level] < high
        assert sd < 0.2


@pytest.mark.parametrize(
    ("text", "family"), [("x ~ y", "logistic"), ("c ~ x", "logistic"), ("y ~ x", "linear"), ("z ~ x", "poisson")]
)
def test_a_family_that_does_not_fit_the_response_is_refused(text: str, family: str) -> None:
    with pytest.raises(InvalidValue, match="regression explains"):
        Formula(text, FACTS, family)


def test_groups_and_classes_do_not_go_together_and_words_must_be_known() -> None:
    with pytest.raises(InvalidValue, match="multinomial"):
        Formula("c ~ (1 | g)", FACTS)
    with pytest.raises(InvalidValue, match="one of"):
        Formula("y ~ x", FACTS, "cauchy")
    assert [Formula(f"{name} ~ x", FACTS).family for name in "yzkc"] == ["logistic", "linear", "poisson", "multinomial"]


@pytest.mark.parametrize(
    ("family", "rows"),
    [
        ("logistic", "light"),
        pytest.param("linear", "heavy", marks=pytest.mark.weekly),
        pytest.param("poisson", "light", marks=pytest.mark.weekly),
    ],
)
def test_intervals_hold_the_truth_as_often_as_they_say(family: str, rows: str) -> None:
    """Thirty fits of five coefficients: of intervals that hold eight in ten, one set in a thousand would pass."""
    from benchmarks.regression_coverage import some_fits

    found = some_fits((family, 5000, 5, rows, 77, 30, (2.0,)))
    hit = np.abs(np.array([z for _, z, *_ in found])) < 1.96
    assert hit.mean() >= 0.905


def held(mechanism: AdaptiveLooks, columns: dict, truth: list[float], fits: int) -> np.ndarray:
    """Return how often the intervals of each coefficient hold the truth, and how wide they are on average."""
    rng = np.random.default_rng(9)
    t = truth[0] + sum(slope * columns[name] for name, slope in zip(mechanism.system.columns, truth[1:], strict=False))
    tables = [columns | {"y": rng.random(len(t)) < special.expit(t)} for _ in range(fits)]
    ends = [found.interval().T for found in released(mechanism, tables, map(seeded_rng, range(fits)))]
    return np.mean([[(low <= truth) & (truth <= high), high - low] for low, high in ends], axis=0)


@pytest.mark.parametrize(("wide", "middle"), [(40.0, 0.0), (1000.0, 300.0)])
def test_columns_that_are_narrow_in_their_bounds_have_wide_slopes(wide: float, middle: float) -> None:
    """Of unit spread in bounds of ± 1,000; with one prior for all columns such intervals held one truth in six."""
    facts = Facts(y=Flag(), a=Number(-wide, wide), b=Number(-6, 6))
    mechanism = AdaptiveLooks.calibrate(Formula("y ~ a + b", facts), 3000, ApproxDP(1.0, 1e-5))
    rng = np.random.default_rng(5)
    columns = {"a": rng.normal(middle, 1, 3000), "b": rng.normal(0, 1, 3000).clip(-6, 6)}
    share, _ = held(mechanism, columns, [0.2 - 0.7 * middle, 0.7, -0.4], 8)
    assert share.min() >= 0.75 and share.mean() >= 0.88


def test_a_constant_column_and_two_that_are_one_leave_their_slopes_open() -> None:
    facts = Facts(y=Flag(), a=Number(-4, 4), b=Number(-4, 4))
    mechanism = AdaptiveLooks.calibrate(Formula("y ~ a + b", facts), 4000, ApproxDP(2.0, 1e-5))
    a = np.random.default_rng(5).normal(0, 1, 4000).clip(-4, 4)
    for b in (np.full(4000, 1.5), a):
        share, width = held(mechanism, {"a": a, "b": b}, [0.2, 0.6, -0.4], 4)
        assert share.min() >= 0.75
        assert width[2] > 1.0  # beside some 0.2 where it can be told


def test_levels_that_add_up_to_one_leave_an_intercept_to_its_prior() -> None:
    mechanism = AdaptiveLooks(Formula("y ~ (1 | g)", FACTS), 20_000, 5.0)
    rng = np.random.default_rng(5)
    g = rng.integers(6, size=20_000)
    y = rng.random(20_000) < special.expit(np.array([-1.2, -0.6, 0.0, 0.3, 0.6, 1.2])[g])
    found = mechanism.release({"g": np.array(list("pqrstu"))[g], "y": y}, seeded_rng(2)).value
    assert found.combined(np.array([1.0, *[1 / 6] * 6]))[1] < 0.05 and 0.1 < found.sd[0] < 1.0


def test_a_condition_is_not_passed_over_in_memory() -> None:
    formula = Formula("y ~ a", Facts(y=Flag(), a=Number(-1, 1)), where="a > 0")
    with pytest.raises(InvalidValue, match="curator"):
        AdaptiveLooks(formula, 2, 0.5).release({"y": [True, False], "a": [0.1, -0.2]}, seeded_rng(1))


@pytest.mark.parametrize("terms", ["c + x", "0 + c + x", "0 + x", "0 + c:x", "x + (1 | c)", "0 + x + (1 | c)"])
def test_coefficients_of_a_response_off_zero_give_the_means_that_were_modelled(terms: str) -> None:
    asked = Formula(f"s ~ {terms}", Facts(s=Number(60, 250), c=Category(["a", "b", "c"]), x=Number(0, 10)), "linear")
    rng = np.random.default_rng(1)
    x, c, theta = rng.uniform(0, 10, 30), rng.integers(3, size=30), 0.2 * rng.normal(size=asked.dimension)
    values = {"x": x, "c": c.astype(float)}
    rows, _ = asked.encoding.rows([values[name] for name in asked.encoding.names], 30)
    one = {place: values[name] for place, name in enumerate(asked.encoding.names)}
    raw = np.ones_like(rows)
    for i, entry in enumerate(asked.encoding.entries):
        for place, level in entry:
            raw[:, i] *= one[place] if level < 0 else one[place] == level
    A, b = asked.units
    scale = asked.look(1000).model.scale
    assert np.allclose(raw @ (A @ theta + b), scale.middle + scale.half * rows @ theta)
    assert asked.model.scale == scale


@pytest.mark.parametrize("family", ["linear", "logistic", "multinomial", "poisson", "probit"])
def test_a_formula_without_a_constant_takes_no_records_without_a_warning(family):
    """Nobody weighs nothing, by which nothing may be divided."""
    responses = {"linear": Number(0, 1), "poisson": Count(5), "multinomial": Category(["a", "b", "c"])}
    asked = Formula("y ~ 0 + x", Facts(y=responses.get(family, Flag()), x=Number(0, 1)), family)
    found = AdaptiveLooks(asked, 0, 0.05).release({"y": [], "x": []}, seeded_rng(1)).value
    assert np.all(np.isfinite(found.interval()))
