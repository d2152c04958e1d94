"""Rényi curves at the edges of the orders, and what promises, filters and the ledger make of them."""

import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from sottovoce.privacy import (
    ApproxDP,
    BoundedRangeProfile,
    DiscreteGaussianProfile,
    DiscreteLaplaceProfile,
    GaussianDP,
    GaussianProfile,
    InvalidPromise,
    InvalidValue,
    LaplaceProfile,
    PrivacyFilter,
    Profile,
    PureDP,
    PureProfile,
    RenyiDP,
    ZeroConcentratedProfile,
    parse_promise,
)
from sottovoce.service.ledger.charging import charged
from tests.privacy.oracle import untraced

ORDERS = [1.0, 1 + 2**-52, 1 + 1e-15, 1 + 1e-12, 1 + 1e-6, 1.5, 2.0, 37.3, 1e6 + 0.25, 1e12, 1e15, 1e18, 1e300]


@untraced()
def of_atoms(order: float, losses: list, probabilities: list) -> mp.mpf:
    """The divergence of a law of privacy losses by its definition."""
    gap = mp.mpf(order) - 1
    if gap == 0:
        return mp.fsum(p * x for p, x in zip(probabilities, losses, strict=True))
    return mp.log(mp.fsum(p * mp.exp(gap * x) for p, x in zip(probabilities, losses, strict=True))) / gap


@untraced()
def window(order: float, eta: float) -> mp.mpf:
    """The worst window of width η: its place solves d/dt = 0, with no detour through logarithms of differences."""
    gap, eta = mp.mpf(order) - 1, mp.mpf(eta)
    ratio = eta / (1 - mp.exp(-eta)) if gap == 0 else (1 + gap) / gap * (1 - mp.exp(-eta * gap))
    t = eta - mp.log(ratio / (1 if gap == 0 else 1 - mp.exp(-eta * (1 + gap))))
    p = (mp.exp(eta) - mp.exp(t)) / (mp.exp(eta) - 1)
    return of_atoms(order, [t, t - eta], [p, 1 - p])


@pytest.mark.parametrize("eta", [1e-9, 1e-3, 0.3, 9.19, 800.0])
def test_bounded_range_at_every_order(eta: float) -> None:
    for order, claimed in zip(ORDERS, BoundedRangeProfile(eta).renyi(ORDERS).tolist(), strict=True):
        with mp.workdps(700 if order > 1e20 else 400):
            truth = window(order, eta)
            assert claimed >= truth * (1 - mp.mpf("3e-16"))
            assert claimed <= truth * (1 + mp.mpf("1e-9"))


@pytest.mark.parametrize("level", [1e-9, 0.01, 1.0, 40.0, 800.0, 1e5])
def test_randomized_response_at_every_order(level: float) -> None:
    with mp.workdps(400):
        x = mp.mpf(level)
        chances = [1 / (1 + mp.exp(-x)), 1 / (1 + mp.exp(x))]
        truths = [float(of_atoms(order, [x, -x], chances)) for order in ORDERS]
    for profile in (PureProfile(level), DiscreteLaplaceProfile(1 / level)):
        assert profile.renyi(ORDERS).tolist() == pytest.approx(truths, rel=1e-12)


@pytest.mark.parametrize(
    ("scale", "steps", "cells"), [(0.05, 1, 1), (0.3, 1, 2), (0.9, 3, 1), (2.5, 1, 1), (2.9, 7, 2)]
)
def test_discrete_gaussian_at_every_order(scale: float, steps: int, cells: int) -> None:
    claims = DiscreteGaussianProfile(scale, steps, cells).renyi(ORDERS[:10]).tolist()
    with mp.workdps(80):
        v = mp.mpf(scale) ** 2
        total = mp.jtheta(3, 0, mp.exp(-1 / (2 * v)))  # Σ exp(-k²/2v) over all whole k
        line = cells * steps**2 / (2 * v)
        for order, claimed in zip(ORDERS[:10], claims, strict=True):
            gap = mp.mpf(order) - 1
            ks = [mp.floor(gap * steps) + k for k in range(-40, 42)]
            moment = mp.log(mp.fsum(mp.exp(-((k - gap * steps) ** 2) / (2 * v)) for k in ks) / total)
            truth = line if gap == 0 else order * line + cells * moment / gap
            assert 0 < truth * (1 - mp.mpf("1e-15")) <= claimed <= truth * (1 + mp.mpf("1e-9"))


@pytest.mark.parametrize("t", [1e-7, 0.2, 3.0, 700.0])
def test_laplace_at_every_order(t: float) -> None:
    truths = []
    with mp.workdps(400):
        for a, x in ((mp.mpf(order), mp.mpf(t)) for order in ORDERS[:10]):
            inner = a / (2 * a - 1) * mp.exp((a - 1) * x) + (a - 1) / (2 * a - 1) * mp.exp(-a * x)
            truths.append(float(x - 1 + mp.exp(-x) if a == 1 else mp.log(inner) / (a - 1)))
    assert LaplaceProfile(1.0, t).renyi(ORDERS[:10]).tolist() == pytest.approx(truths, rel=1e-10)


def test_the_limit_of_a_strong_response_is_a_number() -> None:
    assert PureProfile(800.0).renyi(1.0) == 800.0
    assert PureProfile(800.0).gdp() == pytest.approx(2 * 39.9, rel=1e-2)


def test_divergences_too_small_for_a_double_are_not_zero() -> None:
    tiny = [PureProfile(1e-200), GaussianProfile(1e-200), BoundedRangeProfile(1e-200), ZeroConcentratedProfile(5e-324)]
    assert all(profile.renyi(2.0) > 0 for profile in tiny)


@pytest.mark.parametrize("order", [1 + 2**-52, 1 + 1e-15, 1 + 9.9e-7, 1.0000001e12, 1e15, 1e300])
def test_orders_that_doubles_cannot_tell_apart_are_refused(order: float) -> None:
    with pytest.raises(InvalidPromise, match="order"):
        RenyiDP(order, 1.0)
    with pytest.raises(InvalidPromise, match="order"):
        parse_promise(f"renyi:{order!r},1")
    with pytest.raises(InvalidValue, match="order"):
        PrivacyFilter(ApproxDP(1.0, 1e-6), order)


@pytest.mark.parametrize("order", [1.0, 1 + 1e-6, 1e12])
def test_the_edges_themselves_are_fine(order: float) -> None:
    assert RenyiDP(order, 1.0).order == order
    purse = PrivacyFilter(RenyiDP(order, 40.0))
    for _ in range(4):
        purse.spend(BoundedRangeProfile(9.19))
    assert purse.spent == pytest.approx(4 * BoundedRangeProfile(9.19).renyi(order), rel=1e-12)


class Wrong(GaussianProfile):
    """A profile whose author slipped."""

    def gdp(self) -> float:
        return self.mu

    def pure(self) -> float:
        return math.nan if self.mu > 1 else -self.mu


@pytest.mark.parametrize("profile", [Wrong(0.5), Wrong(2.0)])
def test_a_filter_takes_no_cost_below_zero_and_no_nan(profile: Profile) -> None:
    purse = PrivacyFilter(PureDP(1.0))
    for ask in (purse.spend, purse.can_spend, purse.cost):
        with pytest.raises(InvalidValue):
            ask(profile)
    assert purse.costs == []
    for cost in (-1e-300, math.nan, -math.inf, None, "1", 1j):
        with pytest.raises(InvalidValue):
            purse.fits(cost)  # type: ignore[arg-type]
        with pytest.raises(InvalidValue):
            PrivacyFilter(PureDP(1.0), None, [cost])  # type: ignore[list-item]


@pytest.mark.parametrize("cost", [-1e-300, -math.inf, math.nan])
def test_the_ledger_takes_none_either(cost: float) -> None:
    from fractions import Fraction

    with pytest.raises(InvalidValue):
        charged(None, Fraction(1), cost)  # type: ignore[arg-type]


def test_a_cost_is_added_once_however_many_there_are() -> None:
    purse, cost = PrivacyFilter(GaussianDP(100.0)), GaussianProfile(0.01)
    read: list[int] = []

    class Costs(list[float]):
        def __getitem__(self, key: Any) -> Any:
            found = super().__getitem__(key)
            read.append(len(found) if isinstance(key, slice) else 1)
            return found

    purse.costs = Costs(purse.costs)
    for _ in range(3000):
        purse.spend(cost)
    assert sum(read) <= 3000  # a sum made anew at every spending would read millions
    assert purse.spent == pytest.approx(0.3, rel=1e-13)
    assert purse.remaining().mu ** 2 + purse.spent <= 100.0**2  # type: ignore[attr-defined]


def test_what_is_left_and_what_is_spent_are_rounded_away_from_the_spender() -> None:
    purse = PrivacyFilter(PureDP(1.0))
    for level in (0.1, 0.7, 1e-20):
        purse.spend(PureProfile(level))
    exact = mp.mpf(1) - sum(map(mp.mpf, purse.costs))
    with mp.workdps(60):
        assert mp.mpf(purse.spent) >= sum(map(mp.mpf, purse.costs))
        assert mp.mpf(purse.remaining().epsilon) <= 1 - sum(map(mp.mpf, purse.costs))  # type: ignore[attr-defined]
    assert float(exact) == pytest.approx(purse.remaining().epsilon)  # type: ignore[attr-defined]


@pytest.mark.parametrize("scale", [0.02, 0.05, 0.06, 0.09, 0.11, 0.2, 0.7])
def test_discrete_gaussian_delta_where_a_term_vanishes(scale: float) -> None:
    """At ε = ρ, and next to it, the first term of the sum is a difference of nearly equal numbers."""
    profile = DiscreteGaussianProfile(scale)
    for epsilon in [*np.nextafter(profile.zcdp(), [0.0, math.inf]).tolist(), profile.zcdp()]:
        with mp.workdps(60):
            v = 2 * mp.mpf(scale) ** 2
            weight = {k: mp.exp(-(mp.mpf(k) ** 2) / v) for k in range(-40, 42)}
            total = mp.fsum(weight.values())
            terms = (weight[k - 1] - mp.exp(mp.mpf(epsilon)) * weight[k] for k in range(-39, 42))
            truth = mp.fsum(max(t, mp.mpf(0)) for t in terms) / total
        assert profile.delta(epsilon) >= truth
        assert profile.delta(epsilon) <= truth * (1 + mp.mpf("1e-9")) + mp.mpf("1e-14") * (2 + profile.zcdp())


@pytest.mark.parametrize("steps", [1, 2, 7])
@pytest.mark.parametrize("t", [0.0010908243212542428, 0.3, 5.0])
def test_discrete_laplace_epsilon_next_to_its_pure_level(t: float, steps: int) -> None:
    """δ of an ε a hair below the pure level: the top atom alone, whose mass times the hair must not exceed it."""
    profile = DiscreteLaplaceProfile(1 / t, steps)
    for delta in (1e-6, 1e-10, 1e-13, 1e-15):
        with mp.workdps(50):
            rate = 1 / mp.mpf(profile.scale)
            short = 1 - mp.exp(mp.mpf(profile.epsilon(delta)) - rate * steps)
            assert short / (1 + mp.exp(-rate)) <= delta
