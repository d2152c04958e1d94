"""Systems: worked values, orders, public data, breaches, bad arguments."""

import numpy as np
import pytest

from sottovoce.mechanisms.conjugate import (
    BetaBernoulli,
    DirichletCategorical,
    Gamma,
    GammaExponential,
    GammaPoisson,
    Normal,
    NormalMean,
    System,
)
from sottovoce.privacy.errors import InvalidValue
from sottovoce.records.readings import Statistics

ALL = [
    BetaBernoulli(2, 3),
    DirichletCategorical([1, 2, 3]),
    GammaPoisson(1, 2, 3),
    GammaExponential(1, 2, 3),
    NormalMean(1, 2, bounds=(0, 1)),
    NormalMean(1, 2, radius=1, dimension=2),
]


def test_worked_values():
    profile = BetaBernoulli(6, 12).profile(100)
    assert profile.renyi(2) == pytest.approx(0.1912902268, rel=1e-9)
    assert profile.delta(1.0) == pytest.approx(0.005116727392, rel=1e-9)


def test_finite_where_the_papers_pairs_give_infinity():
    # Corollary 2's pairs leave the reachable set: at Beta(1,1), order 1.5, they give +inf.
    assert BetaBernoulli(1, 1).profile(100).renyi(1.5) == pytest.approx(1.152204979, rel=1e-9)


@pytest.mark.parametrize(("alpha", "beta", "r"), [(1, 1, 1.0), (6, 12, 1.0), (6, 12, 0.4), (0.5, 3, 0.1)])
def test_renyi_is_finite_exactly_below_one_plus_min_over_r(alpha, beta, r):
    system = BetaBernoulli(alpha, beta)
    star = 1 + min(alpha, beta) / r
    assert system.lambda_star(50, r) == pytest.approx(star)
    assert np.isfinite(system.profile(50, r).renyi(star * (1 - 1e-9)))
    assert np.isinf(system.profile(50, r).renyi(star * (1 + 1e-9)))


@pytest.mark.parametrize(
    ("system", "star"),
    [
        (DirichletCategorical([3, 1, 2]), 1 + 2 * 1 / 0.5),
        (GammaPoisson(4, 1, high=5), 1 + 2 * 4 / (0.5 * 5)),
        (GammaExponential(4, 3, high=5), 1 + 2 * 3 / (0.5 * 5)),
        (NormalMean(1, 1, bounds=(0, 1)), np.inf),
    ],
)
def test_lambda_star_of_the_other_systems(system, star):
    assert system.lambda_star(20, 0.5, 2.0) == pytest.approx(star)


@pytest.mark.parametrize("n", [10, 10**4, 10**9])
def test_profiles_reach_a_billion_records(n):
    for system in ALL:
        profile = system.profile(n)
        assert -np.inf < profile.log_delta(0.5) <= 0
        assert profile.renyi(1.2) > 0


@pytest.mark.parametrize("system", ALL, ids=lambda s: s.word)
def test_privacy_weakens_with_the_data_weight_and_strengthens_with_the_prior(system):
    weights = np.linspace(0.05, 1.0, 12)
    for n in (1, 7, 300):
        deltas = np.array([system.profile(n, w).delta([0.0, 0.2, 1.0]) for w in weights])
        assert np.all(np.diff(deltas, axis=0) >= -1e-12)
        deltas = np.array([system.profile(n, 1.0, 1 / m).delta([0.0, 0.2, 1.0]) for m in weights])
        assert np.all(np.diff(deltas, axis=0) >= -1e-12)


def test_normal_posterior_by_hand():
    system = NormalMean(variance=4.0, prior_variance=2.0, prior_mean=1.0, bounds=(-5, 5))
    posterior = system.posterior(Statistics(8, [10.0]), data_weight=0.5, prior_weight=3.0)
    precision = 3 / 2 + 0.5 * 8 / 4
    assert posterior == Normal((3 * 1 / 2 + 0.5 * 10 / 4) / precision, 1 / precision)
    assert system.profile(8, 0.5, 3.0).mu == pytest.approx(0.5 * 10 / (4 * np.sqrt(precision)))


def test_public_data_joins_the_prior():
    system = GammaExponential(2, 3, high=4.0).with_public([1.0, 9.0])
    assert (system.shape, system.rate) == (4.0, 8.0)
    assert NormalMean(1, 1, bounds=(-1, 1)).with_public([0.5]).prior_mean == 0.25
    assert DirichletCategorical([1, 1, 1]).with_public([2, 2]).alpha.tolist() == [1, 1, 3]


@pytest.mark.parametrize(("w", "v"), [(1.0, 1.0), (0.3, 1.0), (1.0, 4.0)])
@pytest.mark.parametrize("system", ALL[:5], ids=lambda s: s.word)
def test_known_records_leave_the_posterior_as_it_was(system, w, v):
    rng = np.random.default_rng(2)
    known, rest = rng.integers(0, 2, 6), rng.integers(0, 2, 9)
    together = system.posterior(system.statistics(np.concatenate([known, rest])), w, v)
    seen = system.with_known_records(known, w, v)
    apart = seen.posterior(seen.statistics(rest), w, v)
    for name in vars(together):
        np.testing.assert_allclose(getattr(apart, name), getattr(together, name), rtol=1e-12)


@pytest.mark.parametrize("system", ALL, ids=lambda s: s.word)
def test_systems_play_the_part(system):
    assert isinstance(system, System)
    assert system.to_dict()["system"] == system.word
    assert system == type(system)(**{k: v for k, v in system.to_dict().items() if k != "system"})


@pytest.mark.parametrize(
    "make",
    [
        lambda: BetaBernoulli(0, 1),
        lambda: BetaBernoulli(1, np.nan),
        lambda: BetaBernoulli(1, "x"),
        lambda: DirichletCategorical([1]),
        lambda: DirichletCategorical([1, -1]),
        lambda: DirichletCategorical([1, 1], categories=("a", "a")),
        lambda: DirichletCategorical([1, 1], categories=("a",)),
        lambda: GammaPoisson(1, 1, high=0),
        lambda: GammaPoisson(1, 1, high=2.5),
        lambda: GammaExponential(1, 1, high=-1),
        lambda: NormalMean(1, 1),
        lambda: NormalMean(1, 1, bounds=(1, 0)),
        lambda: NormalMean(1, 1, bounds=(0, 1), radius=1, dimension=2),
        lambda: NormalMean(1, 1, radius=1, dimension=0),
        lambda: NormalMean(1, 1, prior_mean=[0, 0, 0], radius=1, dimension=2),
        lambda: BetaBernoulli(1, 1).profile(-1),
        lambda: BetaBernoulli(1, 1).profile(2.5),
        lambda: BetaBernoulli(1, 1).profile(10, data_weight=0),
        lambda: BetaBernoulli(1, 1).check_truncation(0.5),
        lambda: GammaPoisson(1, 1, 3).check_truncation(None),
        lambda: NormalMean(1, 1, radius=1, dimension=2).check_truncation((0, 1)),
    ],
)
def test_bad_arguments_raise(make):
    with pytest.raises(InvalidValue):
        make()


def test_gamma_poisson_posterior_by_hand():
    system = GammaPoisson(2, 3, high=5)
    assert system.posterior(Statistics(4, [7.0]), 0.5, 2.0) == Gamma(2 * 2 + 0.5 * 7, 2 * 3 + 0.5 * 4)
