"""Relations: carried by promises, profiles, compositions, filters and files; converted only where that is proven."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest

from sottovoce.privacy import (
    ADD_REMOVE,
    REPLACE_ONE,
    ApproxDP,
    DiscreteGaussianProfile,
    GammaShapePairs,
    GaussianDP,
    GaussianProfile,
    IncompatibleNotions,
    InvalidPromise,
    InvalidValue,
    LaplaceProfile,
    LikelihoodRatioProfile,
    MaxAdvantage,
    MaxSuccess,
    PrivacyFilter,
    Profile,
    Promise,
    PureDP,
    PureProfile,
    Relation,
    RenyiDP,
    RenyiProfile,
    ZeroConcentratedDP,
    ZeroConcentratedProfile,
    compose,
    parse_promise,
)
from sottovoce.privacy.best_of import BestOfProfile, RandomStopping

RELATIONS = [REPLACE_ONE, ADD_REMOVE, REPLACE_ONE.of_person(), ADD_REMOVE.of_person()]
PROMISES = [
    PureDP(1.0),
    ApproxDP(1.0, 1e-6),
    RenyiDP(2.0, 0.1),
    ZeroConcentratedDP(0.1),
    GaussianDP(0.5),
    MaxAdvantage(0.1),
    MaxSuccess(0.05, baseline=0.01),
]
PROFILES = [
    PureProfile(0.5),
    GaussianProfile(0.5),
    ZeroConcentratedProfile(0.1),
    RenyiProfile((2.0,), (0.1,)),
    LaplaceProfile(2.0),
    DiscreteGaussianProfile(3.0, 1),
    LikelihoodRatioProfile((GammaShapePairs(3.0, 0.5),)),
]


@pytest.mark.parametrize("promise", PROMISES)
def test_promises_carry_their_relation_through_text_and_json(promise: Promise) -> None:
    assert "relation" not in promise.to_dict()
    for relation in RELATIONS:
        one = promise.under(relation)
        assert one.relation == relation
        assert parse_promise(str(one)) == one == Promise.from_json(one.to_json())
        assert (one == promise) == (relation == REPLACE_ONE)
        assert ("relation" in repr(one)) == (relation != REPLACE_ONE)


@pytest.mark.parametrize("text", ["pure:1 add", "pure:1 remove", "pure:1 add-remove of a cat", "pure:add-remove"])
def test_relations_that_are_none_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(InvalidPromise) as error:
        parse_promise(text)
    assert "\n" not in str(error.value)


def test_a_relation_is_checked() -> None:
    with pytest.raises(InvalidValue):
        Relation("swap")
    with pytest.raises(InvalidValue):
        Relation("add-remove", "household")
    with pytest.raises(InvalidPromise):
        PureDP(1.0, relation="add-remove")  # type: ignore[arg-type]
    with pytest.raises(InvalidPromise):
        Promise.from_dict({"promise": "pure", "epsilon": 1.0, "relation": 3})
    assert Relation.parse(" Add/Remove  of a record ") == ADD_REMOVE


def parts_of(profile: Profile) -> list[Profile]:
    return [profile, compose([profile, PureProfile(0.1)]), BestOfProfile(profile, RandomStopping(3.0))]


@pytest.mark.parametrize("profile", [p for one in PROFILES for p in parts_of(one)])
def test_profiles_carry_their_relation_and_keep_their_numbers(profile: Profile) -> None:
    assert "relation" not in profile.to_json()
    delta = profile.delta(0.3)
    for relation in RELATIONS[1:]:
        one = profile.about(relation)
        back = Profile.from_json(one.to_json())
        assert back == one
        assert back.relation == relation
        assert one.about(REPLACE_ONE) == profile
        with pytest.raises(IncompatibleNotions, match=r"replace-one|add-remove"):
            one.satisfies(PureDP(5.0))
        assert isinstance(one.satisfies(PureDP(5.0).under(relation)), bool)
    assert one.delta(0.3) == delta


def test_what_is_about_different_neighbours_does_not_mix() -> None:
    budgets = {relation: [PrivacyFilter(promise.under(relation)) for promise in PROMISES] for relation in RELATIONS[:3]}
    for first, second in itertools.combinations(RELATIONS, 2):
        with pytest.raises(IncompatibleNotions) as error:
            PureProfile(0.1, relation=first) + GaussianProfile(0.1, relation=second)
        assert "\n" not in str(error.value)
        for budget in budgets[first]:
            with pytest.raises(IncompatibleNotions, match="neighbours"):
                budget.spend(PureProfile(0.01, relation=second))
            assert budget.spent == 0


def test_parts_that_lost_their_relation_are_not_read_back() -> None:
    state = (PureProfile(0.1) + GaussianProfile(0.1)).about(ADD_REMOVE).to_dict()
    del state["relation"]
    with pytest.raises(InvalidValue, match="add-remove"):
        Profile.from_dict(state)


@pytest.mark.parametrize("promise", PROMISES)
def test_a_filter_counts_alike_under_every_relation(promise: Promise) -> None:
    usual = PrivacyFilter(promise)
    for relation in RELATIONS[1:]:
        one = PrivacyFilter(promise.under(relation))
        assert one.limit == usual.limit
        assert one.share(0.1) == usual.share(0.1).under(relation)
        assert one.remaining() == usual.remaining().under(relation)
        assert PrivacyFilter.from_dict(one.to_dict()).budget.relation == relation
    assert PrivacyFilter(ApproxDP(1.0, 0.0, relation=ADD_REMOVE)).budget == PureDP(1.0).under(ADD_REMOVE)


def test_the_least_private_of_a_promise_is_about_its_neighbours() -> None:
    for promise in (PureDP(1.0), GaussianDP(1.0), ZeroConcentratedDP(1.0), RenyiDP(2.0, 1.0)):
        assert promise.under(ADD_REMOVE).worst().relation == ADD_REMOVE


# Replacing is removing and adding.


def test_replacing_in_closed_form() -> None:
    assert GaussianProfile(0.7, relation=ADD_REMOVE).replacing() == GaussianProfile(
        1.4, basis=GaussianProfile(1.4, relation=ADD_REMOVE).replacing().basis
    )
    assert PureProfile(0.3, relation=ADD_REMOVE).replacing().pure() == 0.6
    assert ZeroConcentratedProfile(0.2, relation=ADD_REMOVE).replacing().zcdp() == 0.8
    person = GaussianProfile(0.7, relation=ADD_REMOVE.of_person()).replacing()
    assert person.relation == REPLACE_ONE.of_person()
    for profile in PROFILES:
        with pytest.raises(IncompatibleNotions, match="only the other way"):
            profile.replacing()


@pytest.mark.parametrize("mu", [1e-6, 0.3, 2.0, 30.0])
def test_a_group_of_two_is_never_below_a_gaussian_of_twice_the_distance(mu: float) -> None:
    """The truth for continuous noise is N(0,1) against N(2μ,1), by mpmath; √2μ lies below it."""
    group = compose([GaussianProfile(mu, relation=ADD_REMOVE), PureProfile(1e-9, relation=ADD_REMOVE)]).replacing()
    epsilons, orders = (0.0, 0.1, 1.0, 5.0), np.array([1.0, 1.5, 2.0, 10.0, 1e3])
    for epsilon, claimed in zip(epsilons, group.delta(np.array(epsilons)), strict=True):
        with mp.workdps(40):
            two = 2 * mp.mpf(mu)
            truth = mp.ncdf(two / 2 - epsilon / two) - mp.exp(epsilon) * mp.ncdf(-two / 2 - epsilon / two)
        assert claimed >= float(truth) * (1 - 1e-9)
    curve = group.renyi(orders)
    assert np.all(curve >= 2 * orders * mu**2)
    assert np.all(curve <= 2 * orders * mu**2 * 1.1 + 1e-6)  # the weak triangle inequality is tight here


@pytest.mark.parametrize("scale", [0.3, 1.0, 7.0])
def test_a_group_of_two_holds_for_laplace_noise_moved_by_two(scale: float) -> None:
    """An oracle that shares no code: the integral of the positive part, on a fine grid."""
    x = np.linspace(-60 * scale, 60 * scale, 400_001)
    p, q = np.exp(-np.abs(x) / scale) / (2 * scale), np.exp(-np.abs(x - 2) / scale) / (2 * scale)
    step = x[1] - x[0]
    group = LaplaceProfile(scale, relation=ADD_REMOVE).replacing()
    for epsilon in (0.0, 0.2, 0.9, 1.9 / scale):
        truth = float(np.sum(np.maximum(p - math.exp(epsilon) * q, 0.0)) * step)
        assert group.delta(epsilon) >= truth - 1e-6
    for order in (1.2, 2.0, 6.0):
        truth = math.log(float(np.sum(p**order * q ** (1 - order)) * step)) / (order - 1)
        assert group.renyi(order) >= truth * (1 - 1e-6)
    assert group.pure() == pytest.approx(2 / scale)


@pytest.mark.parametrize(("shape", "step"), [(0.5, 0.1), (3.0, 1.0), (40.0, 1.0)])
def test_a_group_of_two_holds_for_a_beta_posterior_with_one_record_replaced(shape: float, step: float) -> None:
    """Beta(a+w, b) against Beta(a, b+w) is two steps apart through Beta(a, b); by mpmath."""
    group = LikelihoodRatioProfile((GammaShapePairs(shape, step),), relation=ADD_REMOVE).replacing()
    with mp.workdps(30):
        a, w = mp.mpf(shape), mp.mpf(step)
        for epsilon in (0.0, 0.5, 1.5):
            below = 1 / (1 + mp.exp(mp.mpf(epsilon) / w))  # the log-ratio is w·logit θ; by symmetry in 1 - θ
            hits, alarms = (mp.betainc(*q, 0, below, regularized=True) for q in ((a, a + w), (a + w, a)))
            assert group.delta(epsilon) >= float(hits - mp.exp(epsilon) * alarms) * (1 - 1e-9)
    assert group.pole < GammaShapePairs(shape, step).pole
    assert math.isfinite(group.renyi(1 + 0.99 * (group.pole - 1)))


def test_who_calibrates_for_persons_is_told_of_what_a_mechanism_is_shown() -> None:
    profile, promise = PureProfile(0.5), PureDP(1.0)
    with pytest.raises(IncompatibleNotions, match=r"one record a person: say promise\.under\(sv\.REPLACE_ONE\)"):
        profile.satisfies(promise.under(REPLACE_ONE.of_person()))
    with pytest.raises(IncompatibleNotions, match=r"say promise\.under\(\.\.\.\)"):
        profile.satisfies(promise.under(ADD_REMOVE))
