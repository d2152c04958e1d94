"""Composed curves against exact sums of positive terms, down to δ = 1e-15 and below."""

import math
from fractions import Fraction
from itertools import accumulate

import mpmath as mp
import numpy as np
import pytest

from sottovoce.mechanisms import DiffusedPosterior
from sottovoce.mechanisms.conjugate import BetaBernoulli
from sottovoce.privacy import (
    BetaPairs,
    ComposedProfile,
    DiscreteLaplaceProfile,
    GaussianProfile,
    IncompatibleNotions,
    InvalidValue,
    LaplaceProfile,
    LikelihoodRatioProfile,
    Profile,
    PureProfile,
    compose,
)
from sottovoce.privacy.privacy_loss_distribution import _geometric_sums

DELTAS = (1e-2, 1e-5, 1e-9, 1e-12, 1e-14, 1e-15)


def binomial(level: float | str, count: int) -> list:
    """The law of how many of so many responses are yes, each term from the one before it."""
    yes = 1 / (1 + mp.exp(-mp.mpf(level)))
    odds = yes / (1 - yes)
    return list(accumulate(range(count), lambda p, k: p * odds * (count - k) / (k + 1), initial=(1 - yes) ** count))


def responses(levels: dict[float, int]) -> tuple[list, list]:
    """The loss of independent responses: binomials multiplied out, every term positive, in 40 digits."""
    losses, masses = [mp.mpf(0)], [mp.mpf(1)]
    for level, count in levels.items():
        law = [(mp.mpf(level) * (2 * k - count), p) for k, p in enumerate(binomial(level, count)) if p > 1e-40]
        pairs = [(a + x, m * p) for a, m in zip(losses, masses, strict=True) for x, p in law]
        losses, masses = [a for a, _ in pairs], [m for _, m in pairs]
    return losses, masses


def exact(losses: list, masses: list, epsilon: float) -> mp.mpf:
    e = mp.mpf(epsilon)
    return mp.fsum(m * (1 - mp.exp(e - x)) for x, m in zip(losses, masses, strict=True) if x > e)


@pytest.mark.parametrize(
    ("profile", "levels"),
    [
        (3565 * DiscreteLaplaceProfile(1 / 0.07082348031611124), {0.07082348031611124: 3565}),
        (5000 * PureProfile(0.03), {0.03: 5000}),
        (40 * PureProfile(0.3) + 60 * PureProfile(0.1), {0.3: 40, 0.1: 60}),
        (3 * PureProfile(1.7) + 200 * DiscreteLaplaceProfile(1 / 0.021), {1.7: 3, 0.021: 200}),
    ],
    ids=["3565 counts", "5000 responses", "two levels", "few and many"],
)
def test_repeated_responses_against_exact_binomials(profile: Profile, levels: dict[float, int]) -> None:
    with mp.workdps(40):
        losses, masses = responses(levels)
        epsilons = profile.epsilon(np.array(DELTAS))
        for delta, epsilon, back in zip(DELTAS, epsilons.tolist(), profile.delta(epsilons).tolist(), strict=True):
            truth = exact(losses, masses, epsilon)
            assert truth <= delta  # the claim holds
            assert truth >= 0.9 * delta  # and is not idle
            assert truth <= back <= 1.1 * truth


def test_two_thousand_small_responses() -> None:
    """Levels 0.01 and 0.02, a thousand each: losses sit on a grid of 0.01, where masses convolve exactly."""
    profile = compose([PureProfile(0.01), PureProfile(0.02)], [1000, 1000])
    with mp.workdps(30):
        one, two = (np.array(binomial(level, 1000), dtype=np.float64) for level in ("0.01", "0.02"))
    law = np.zeros(6001)
    for k, mass in enumerate(two):
        law[4 * k : 4 * k + 2001 : 2] += mass * one  # positive terms only
    losses = 0.01 * (np.arange(6001) - 3000)
    for delta in DELTAS:
        epsilon = profile.epsilon(delta)
        truth = math.fsum(law * np.maximum(-np.expm1(epsilon - losses), 0))
        assert 0.99 * delta <= truth <= delta
    assert 0 < profile.delta(8.0) < 1e-28


def test_the_composed_cost_of_posterior_samples_is_a_falling_curve() -> None:
    cost = DiffusedPosterior(BetaBernoulli(6, 12), 100, 0.05).cost(3000)
    values = cost.log_delta(np.linspace(0.0, 20.0, 12))
    assert np.all(np.isfinite(values))
    assert np.all(np.diff(values) <= 0)


@pytest.mark.parametrize("count", [2, 30, 5000])
def test_gaussians_forced_through_the_grid(count: int) -> None:
    """The closed form of k Gaussians is exact, so their privacy-loss distribution must lie a hair above it."""
    forced, truth = ComposedProfile((GaussianProfile(0.05),), (count,)), GaussianProfile(0.05 * math.sqrt(count))
    epsilon = np.array([truth.epsilon(d) for d in (0.5 * truth.delta(0.0), *DELTAS[1:]) if d < truth.delta(0.0)])
    excess = forced.log_delta(epsilon) - truth.log_delta(epsilon)
    assert np.all(excess > -1e-13)
    assert np.all(excess < 2e-2)


def test_pure_levels_add_up_exactly_and_not_below() -> None:
    mixed = 3 * PureProfile(0.1) + 7 * LaplaceProfile(3.0)
    assert Fraction(mixed.pure()) >= 3 * Fraction(0.1) + 7 * Fraction(1 / 3)
    assert mixed.delta(mixed.pure()) == 0
    assert mixed.delta(math.nextafter(mixed.pure(), 0)) > 0


@pytest.mark.parametrize("counts", [[0], [-1], [1.5], [True], ["2"], [None], [10**400], [1, 2], [], 3, None])
def test_counts_are_whole_and_positive(counts: object) -> None:
    if counts is None:
        return
    with pytest.raises(InvalidValue):
        compose([PureProfile(0.3)], counts)  # type: ignore[arg-type]
    with pytest.raises(InvalidValue):
        ComposedProfile((PureProfile(0.3),), counts)  # type: ignore[arg-type]


@pytest.mark.parametrize("profiles", [None, 3, "ab", [1.0], [PureProfile(1.0), None], PureProfile(1.0)])
def test_only_lists_of_profiles_compose(profiles: object) -> None:
    with pytest.raises(IncompatibleNotions):
        compose(profiles)  # type: ignore[arg-type]


def test_silent_parts_cost_nothing() -> None:
    silent = compose([GaussianProfile(0.0), PureProfile(0.0)], [2, 3])
    assert silent.delta(0.0) == silent.pure() == silent.renyi(5.0) == 0
    beta = LikelihoodRatioProfile((BetaPairs(6, 12, 0.3, 99),))
    assert (beta + PureProfile(0.0)).delta(0.1) == beta.delta(0.1)
    assert (beta + PureProfile(0.0)).basis is PureProfile(0.0).basis


def test_very_many_very_small_parts() -> None:
    many = 100_000 * PureProfile(1e-9) + PureProfile(2e-9)
    assert many.pure() == pytest.approx(1e-4 + 2e-9)
    assert GaussianProfile(1e-9 * math.sqrt(1e5)).epsilon(1e-9) <= many.epsilon(1e-9) < 1e-5
    different = compose([PureProfile(1e-5 * (1 + k / 3000)) for k in range(3000)])
    mu = math.sqrt(sum((1e-5 * (1 + k / 3000)) ** 2 for k in range(3000)))
    assert GaussianProfile(mu).epsilon(1e-6) <= different.epsilon(1e-6) <= 1.1 * GaussianProfile(mu).epsilon(1e-6)
    assert compose([PureProfile(5e-324), PureProfile(1e-320)], [100_000, 100_000]).delta(0.0) > 0


def test_a_million_million_repetitions_have_an_answer() -> None:
    lots = 10**12 * PureProfile(1e-8)
    assert lots.pure() == pytest.approx(1e4)
    assert 0 < lots.epsilon(1e-6) < 1e-2 * 1e4


@pytest.mark.parametrize("ratio", [0.0, 1e-300, 0.5, 1 - 2**-40, 1.0])
def test_geometric_sums_lose_no_more_than_a_rounding_a_term(ratio: float) -> None:
    terms = np.exp(-np.random.default_rng(3).uniform(0, 300, 150))
    exact, last = [], Fraction(0)
    for term in terms.tolist():
        last = Fraction(term) + Fraction(ratio) * last
        exact.append(last)
    for found, wanted in zip(_geometric_sums(terms, ratio).tolist(), exact, strict=True):
        assert abs(Fraction(found) - wanted) <= len(terms) * 2**-52 * wanted
