import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from sottovoce.privacy import (
    ApproxDP,
    BetaPairs,
    BudgetExceeded,
    GaussianDP,
    GaussianProfile,
    IncompatibleNotions,
    InvalidValue,
    LikelihoodRatioProfile,
    MaxAdvantage,
    PrivacyFilter,
    Profile,
    Promise,
    PureDP,
    PureProfile,
    RenyiDP,
    RenyiProfile,
    ZeroConcentratedDP,
    ZeroConcentratedProfile,
    compose,
)

CASES: list[tuple[Promise, Profile, float]] = [
    (PureDP(1.0), PureProfile(0.1), 0.1),
    (RenyiDP(4, 1.0), GaussianProfile(0.1), 0.02),
    (ZeroConcentratedDP(1.0), GaussianProfile(0.1), 0.005),
    (GaussianDP(1.0), GaussianProfile(0.1), 0.01),
]


@pytest.mark.parametrize(("budget", "profile", "cost"), CASES)
def test_each_notion_adds_in_its_own_number(budget: Promise, profile: Profile, cost: float) -> None:
    purse = PrivacyFilter(budget)
    assert purse.cost(profile) == pytest.approx(cost)
    count = 0
    while purse.can_spend(profile):
        purse.spend(profile)
        count += 1
    assert count in (round(purse.limit / cost), round(purse.limit / cost) - 1)
    with pytest.raises(BudgetExceeded, match="is left of the budget"):
        purse.spend(profile)
    assert purse.spent <= purse.limit
    assert type(purse.remaining()) is type(budget)


def test_ten_tenths_are_one_and_not_a_hair_more() -> None:
    """Ten times the double nearest 0.1 is above 1, so the tenth must not fit; nine and a smaller one do."""
    purse = PrivacyFilter(PureDP(1.0))
    for _ in range(9):
        purse.spend(PureProfile(0.1))
    assert 10 * Fraction(0.1) > 1  # what the double nearest 0.1 really is
    assert not purse.can_spend(PureProfile(math.nextafter(0.1, 1)))
    purse.spend(PureProfile(0.09999999999999995))
    assert sum(map(Fraction, purse.costs)) <= 1


@pytest.mark.parametrize("order", [None, 3.0, 12.0])
def test_an_approx_budget_is_kept_by_whatever_was_spent(order: float | None) -> None:
    """Spend random mixes until refusal; the composition of what was granted keeps the budget."""
    rng = np.random.default_rng(5)
    budget = ApproxDP(2.0, 1e-5) if order != 3.0 else ApproxDP(9.0, 1e-5)
    for _ in range(2):
        purse, granted = PrivacyFilter(budget, order), []
        for _ in range(60):
            profile = [
                GaussianProfile(0.05 + 0.2 * rng.random()),
                PureProfile(0.1 * rng.integers(1, 4)),
                LikelihoodRatioProfile((BetaPairs(60, 80, 0.5, 50),)),
            ][rng.integers(3)]
            if purse.can_spend(profile):
                purse.spend(profile)
                granted.append(profile)
        assert len(granted) > 3
        assert compose(granted).delta(budget.epsilon) <= budget.delta


@pytest.mark.parametrize("order", [1.000001, 1.5, 21.98, 1e4, 1e9, 1e12])
def test_the_allowance_is_rounded_down(order: float) -> None:
    """δ grows λ - 1 times as fast as the divergence: to the nearest double, δ was 8 % above at the largest order."""
    with mp.workdps(60):
        o = mp.mpf(order)
        for epsilon in (0.1, 1.0, 8.0, 50.0, 1000.0):
            for delta in (1e-12, 1e-6, 0.2):
                found = mp.mpf(ApproxDP(epsilon, delta).allowance(order))
                log_delta = (o - 1) * (found - mp.mpf(epsilon)) + (o - 1) * mp.log1p(-1 / o) - mp.log(o)
                assert log_delta <= mp.log(mp.mpf(delta))


def test_the_allowance_inverts_the_conversion() -> None:
    budget = ApproxDP(1.0, 1e-6)
    for order in (5.0, 20.0, 100.0):
        allowance = budget.allowance(order)
        if allowance > 0:
            assert RenyiProfile((order,), (allowance,)).delta(1.0) == pytest.approx(1e-6, rel=1e-3)
    purse = PrivacyFilter(budget)
    assert purse.order is not None
    best = purse.limit / purse.order
    assert all(budget.allowance(o) / o <= best * (1 + 1e-6) for o in np.geomspace(1.5, 1e5, 500))


def test_an_infinite_cost_never_fits_and_says_why() -> None:
    beta = LikelihoodRatioProfile((BetaPairs(1, 1, 1, 9),))  # infinite from order 2
    purse = PrivacyFilter(ApproxDP(1.0, 1e-6))
    assert not purse.can_spend(beta)
    with pytest.raises(BudgetExceeded, match="lower order"):
        purse.spend(beta)
    with pytest.raises(BudgetExceeded, match="another mechanism"):
        PrivacyFilter(PureDP(5.0)).spend(beta)
    assert purse.spent == 0


def test_zero_delta_is_pure() -> None:
    assert PrivacyFilter(ApproxDP(1.0, 0.0)).budget == PureDP(1.0)


def test_json_keeps_the_order() -> None:
    purse = PrivacyFilter(ApproxDP(1.0, 1e-6))
    again = PrivacyFilter.from_dict(purse.to_dict(), [0.1, 0.2])
    assert again.order == purse.order
    assert again.spent == math.fsum([0.1, 0.2])
    assert again.limit == purse.limit


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: PrivacyFilter("approx:1,1e-6"), IncompatibleNotions),  # type: ignore[arg-type]
        (lambda: PrivacyFilter(PureDP(1.0), order=3.0), InvalidValue),
        (lambda: PrivacyFilter(ApproxDP(1.0, 1e-6), order=1.0), InvalidValue),
        (lambda: PrivacyFilter(ApproxDP(1.0, 1e-6), order=math.inf), InvalidValue),
        (lambda: PrivacyFilter(ApproxDP(1.0, 1e-6), order=2.0), InvalidValue),
        (lambda: PrivacyFilter(PureDP(1.0)).cost(1.0), IncompatibleNotions),  # type: ignore[arg-type]
    ],
)
def test_bad_filters_are_refused(make, error: type[Exception]) -> None:
    with pytest.raises(error):
        make()


def test_gaussian_and_zcdp_costs_mix() -> None:
    purse = PrivacyFilter(ZeroConcentratedDP(0.5))
    purse.spend(GaussianProfile(0.5))
    purse.spend(ZeroConcentratedProfile(0.1))
    purse.spend(PureProfile(0.3))
    assert purse.spent == pytest.approx(0.125 + 0.1 + 0.3 * math.tanh(0.15))


def test_an_approx_budget_may_count_squares_of_mu() -> None:
    """Brute force: the largest μ whose curve, summed in high precision, still keeps (ε, δ)."""
    budget = ApproxDP(1.0, 1e-6)
    purse, renyi = PrivacyFilter(budget, "gaussian"), PrivacyFilter(budget)
    mu = mp.sqrt(mp.mpf(purse.limit))
    with mp.workdps(30):
        delta = mp.ncdf(mu / 2 - 1 / mu) - mp.e * mp.ncdf(-mu / 2 - 1 / mu)
        assert mp.mpf("0.999999e-6") < delta <= mp.mpf("1e-6")
    assert purse.counted == "μ² of Gaussian privacy"
    assert renyi.counted == "Rényi divergence at order 21.98"
    assert purse.share(0.25).mu ** 2 == pytest.approx(purse.limit / 4, rel=1e-9)  # type: ignore[attr-defined]
    assert type(purse.remaining()) is GaussianDP
    assert PrivacyFilter.from_dict(purse.to_dict()) == purse


def test_sixty_four_small_gaussian_answers_fit_where_seven_laplace_ones_do() -> None:
    small = ApproxDP(0.1, 1e-6)
    mu = max(m for m in np.linspace(0.02, 0.03, 2001) if GaussianProfile(m).satisfies(small))
    fits = {
        order: [int(purse.limit / purse.cost(p)) for p in (GaussianProfile(mu), PureProfile(0.1))]
        for order in (None, "gaussian")
        for purse in [PrivacyFilter(ApproxDP(1.0, 1e-6), order)]
    }
    assert fits[None] == [64, 7]
    assert fits["gaussian"][0] >= 73


@pytest.mark.parametrize(
    ("budget", "order"),
    [
        (ApproxDP(1.0, 1e-6), "gauss"),
        (PureDP(1.0), "gaussian"),
        (GaussianDP(1.0), "gaussian"),
        (MaxAdvantage(0.1), "gaussian"),
    ],
)
def test_only_an_approx_budget_counts_in_mu_by_word(budget: Promise, order: str) -> None:
    with pytest.raises(InvalidValue, match="order"):
        PrivacyFilter(budget, order)  # type: ignore[arg-type]


def test_posterior_samples_never_fit_where_squares_of_mu_are_counted() -> None:
    purse = PrivacyFilter(ApproxDP(1.0, 1e-6), "gaussian")
    with pytest.raises(BudgetExceeded, match="another mechanism"):
        purse.spend(LikelihoodRatioProfile((BetaPairs(60, 80, 0.5, 50),)))


def test_a_share_in_percent_is_said_as_it_would_be() -> None:
    with pytest.raises(InvalidValue, match=r"Got 25; 25 % is '25%' or 0\.25"):
        PrivacyFilter(ApproxDP(1.0, 1e-6)).share(25)


@pytest.mark.parametrize("share", [-0.1, 0, 1.1])
def test_a_share_that_is_none_is_refused_in_one_way(share: float) -> None:
    with pytest.raises(InvalidValue, match=f"a share of the budget lies above 0 and at most 1. Got {share:g}"):
        PrivacyFilter(ApproxDP(1.0, 1e-6)).share(share)
