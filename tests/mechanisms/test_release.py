"""What leaves the house: laws, costs, checks, reading back."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from sottovoce.mechanisms import (
    ConcentratedPosterior,
    DiffusedPosterior,
    DirectPosterior,
    Mechanism,
    NoisyStatistics,
    Release,
    StatisticalQuery,
    TemperedPosterior,
)
from sottovoce.mechanisms.conjugate import (
    BetaBernoulli,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    NormalMean,
)
from sottovoce.mechanisms.mechanism import MECHANISMS
from sottovoce.privacy.errors import InvalidData, InvalidValue, UnprovenPrivacy
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.profile import Basis
from sottovoce.privacy.randomness import secure_rng, seeded_rng
from sottovoce.records.readings import Statistics

BITS = np.random.default_rng(0).integers(0, 2, 40)
DRAWS = 100_000

# Each law is written down by hand, not asked of the system.
LAWS = [
    (DirectPosterior(BetaBernoulli(2, 3), 40), stats.beta(2 + BITS.sum(), 3 + 40 - BITS.sum())),
    (DiffusedPosterior(BetaBernoulli(2, 3), 40, 0.3), stats.beta(2 + 0.3 * BITS.sum(), 3 + 0.3 * (40 - BITS.sum()))),
    (ConcentratedPosterior(BetaBernoulli(2, 3), 40, 5.0), stats.beta(10 + BITS.sum(), 15 + 40 - BITS.sum())),
    (DirectPosterior(GammaPoisson(2, 3, 1), 40), stats.gamma(2 + BITS.sum(), scale=1 / 43)),
    (DirectPosterior(GammaExponential(2, 3, 1), 40), stats.gamma(42, scale=1 / (3 + BITS.sum()))),
    (
        DiffusedPosterior(NormalMean(2.0, 3.0, bounds=(0, 1)), 40, 0.5),
        stats.norm((0.25 * BITS.sum()) / (1 / 3 + 10), (1 / 3 + 10) ** -0.5),
    ),
    (StatisticalQuery(BetaBernoulli(2, 3), 40, lambda x: x / 2), stats.beta(2 + BITS.sum() / 2, 43 - BITS.sum() / 2)),
]


@pytest.mark.parametrize(("mech", "law"), LAWS, ids=lambda m: getattr(m, "word", ""))
def test_samples_follow_the_stated_posterior(mech, law):
    # The samples of one release with draws=k are independent, as k releases are.
    value = mech._value(mech.see(BITS), seeded_rng(42), DRAWS)
    assert stats.kstest(value, law.cdf).pvalue > 0.01 / len(LAWS)


def test_dirichlet_samples_follow_their_marginals():
    mech = DiffusedPosterior(DirichletCategorical([1, 2, 3]), 40, 0.5)
    value = mech._value(mech.see(BITS), seeded_rng(42), DRAWS)
    alpha = np.array([1 + 0.5 * (40 - BITS.sum()), 2 + 0.5 * BITS.sum(), 3])
    for k in range(3):
        assert stats.kstest(value[:, k], stats.beta(alpha[k], alpha.sum() - alpha[k]).cdf).pvalue > 0.01 / 3


def test_tempered_samples_follow_the_truncated_law():
    mech = TemperedPosterior(BetaBernoulli(2, 3), 40, temperature=4.0, truncation=0.2)
    value = mech._value(mech.see(BITS), seeded_rng(42), DRAWS)
    law = stats.beta((2 + BITS.sum() - 1) / 4 + 1, (3 + 40 - BITS.sum() - 1) / 4 + 1)
    low, high = law.cdf([0.2, 0.8])
    assert stats.kstest(value, lambda x: (law.cdf(x) - low) / (high - low)).pvalue > 0.01


@pytest.mark.parametrize(
    ("system", "interval", "law"),
    [
        (GammaPoisson(2, 3, 1), (0.2, 1.0), stats.gamma((1 + BITS.sum()) / 4 + 1, scale=4 / 43)),
        (GammaExponential(2, 3, 1), (0.5, 2.0), stats.gamma(41 / 4 + 1, scale=4 / (3 + BITS.sum()))),
        (
            NormalMean(2.0, 3.0, bounds=(0, 1)),
            None,
            stats.norm(BITS.sum() / 2 / (1 / 3 + 20), (4 / (1 / 3 + 20)) ** 0.5),
        ),
    ],
    ids=lambda c: getattr(c, "word", ""),
)
def test_tempered_samples_of_the_other_systems(system, interval, law):
    mech = TemperedPosterior(system, 40, temperature=4.0, truncation=interval)
    value = mech._value(mech.see(BITS), seeded_rng(42), DRAWS)
    low, high = law.cdf(mech.truncation)
    assert stats.kstest(value, lambda x: (law.cdf(x) - low) / (high - low)).pvalue > 0.01 / 3


@pytest.mark.parametrize(
    "mech",
    [
        DirectPosterior(BetaBernoulli(2, 3), 40),
        DiffusedPosterior(DirichletCategorical([1, 2]), 40, 0.5),
        ConcentratedPosterior(GammaPoisson(2, 3, 1), 40, 2.0),
        TemperedPosterior(NormalMean(1, 1, bounds=(0, 1)), 40, 2.0),
        NoisyStatistics(BetaBernoulli(2, 3), 40, "laplace", 2.0),
        NoisyStatistics(DirichletCategorical([1, 2]), 40, "gaussian", 2.0),
        StatisticalQuery(BetaBernoulli(2, 3), 40, float),
    ],
    ids=lambda m: m.word,
)
def test_every_mechanism_keeps_the_house_rules(mech):
    assert isinstance(mech, Mechanism)
    release = mech.release(BITS)
    assert not release.reproducible
    assert release.profile == mech.profile
    assert mech.release(BITS, secure_rng()).reproducible is False
    first, again = (mech.release(BITS, seeded_rng(3)) for _ in range(2))
    assert first.reproducible
    assert first.to_json() == again.to_json()
    back = Release.from_json(first.to_json())
    assert back.to_dict() == first.to_dict()
    assert back.profile == first.profile
    json.dumps(mech.to_dict())
    assert mech.word in mech.describe()
    assert "n=40" in mech.describe()
    for wrong in (BITS[:-1], [], Statistics(41, [0.0])):
        with pytest.raises(InvalidData):
            mech.release(wrong)
    assert mech.release([None] * 40, seeded_rng(3)).to_json() == mech.release([0] * 40, seeded_rng(3)).to_json()


def test_statistics_do_as_well_as_records():
    mech = DirectPosterior(BetaBernoulli(2, 3), 40)
    by_hand = mech.release(Statistics(40, [float(BITS.sum())]), seeded_rng(1))
    assert by_hand.value == mech.release(BITS, seeded_rng(1)).value


def test_fractions_of_whole_records_are_refused():
    for system, total in ((BetaBernoulli(2, 3), [2.5]), (DirichletCategorical([1, 1]), [2.5, 37.5])):
        with pytest.raises(InvalidData, match="whole"):
            DirectPosterior(system, 40).release(Statistics(40, total))
    assert DirectPosterior(BetaBernoulli(2, 3, whole=False), 40).release(Statistics(40, [2.5])).value > 0


def test_several_draws_cost_as_much_as_several_releases():
    mech = DiffusedPosterior(NormalMean(1, 1, bounds=(0, 1)), 40, 0.5)
    release = mech.release(BITS, draws=4)
    assert release.value.shape == (4,)
    assert release.profile == 4 * mech.profile
    assert release.profile.mu == pytest.approx(2 * mech.profile.mu)
    tempered = TemperedPosterior(BetaBernoulli(1, 1), 40, 8.0)
    assert tempered.cost(3).pure() == pytest.approx(3 * tempered.profile.pure())
    assert tempered.cost(3).zcdp() == pytest.approx(3 * tempered.profile.pure() ** 2 / 8)
    with pytest.raises(InvalidValue):
        mech.release(BITS, draws=0)


def test_samples_of_a_noisy_posterior_are_free():
    mech = NoisyStatistics(BetaBernoulli(2, 3), 40, "laplace", 2.0)
    assert mech.cost(1000) == mech.profile
    assert mech.release(BITS).value.sample(1000).shape == (1000,)


def test_unproven_privacy_is_refused_unless_accepted():
    class Unproven(DirectPosterior):
        @property
        def profile(self):
            return GaussianProfile(1.0, basis=Basis.CONVERGENCE)

    mech = Unproven(BetaBernoulli(2, 3), 40)
    with pytest.raises(UnprovenPrivacy):
        mech.release(BITS)
    assert mech.release(BITS, accept_unproven=True).profile.basis is Basis.CONVERGENCE


def test_a_mechanism_of_no_records_releases_the_prior():
    mech = DirectPosterior(BetaBernoulli(50, 50), 0)
    assert mech.profile.delta(0.0) == 0
    assert abs(mech.release([]).value - 0.5) < 0.4
    noisy = NoisyStatistics(BetaBernoulli(50, 50), 0, "laplace", 1.0).release([])
    assert noisy.value.mean == pytest.approx(0.5)


def test_a_mean_far_from_zero_keeps_the_digits_of_its_posterior():
    """Epoch seconds of a million records: the mean is known to 3.6 s, and was rounded to 128 s."""
    system = NormalMean(3600.0**2, 1e14, prior_mean=1.6e9, bounds=(1.6e9, 1.7e9))
    column = 1.65e9 + np.arange(10**6) % 100
    seen = system.statistics(column)
    for mech in (DirectPosterior(system, 10**6), TemperedPosterior(system, 10**6, 1.0)):
        samples = mech.release(seen, seeded_rng(1), draws=400).value
        assert np.std(samples) == pytest.approx(3.6, rel=0.2)
        assert np.mean(samples) == pytest.approx(1.65e9 + 49.5, abs=1.0, rel=0)
        exact = [mech.release(seen).value for _ in range(3)]
        assert np.abs(np.array(exact) - (1.65e9 + 49.5)).max() < 30


def test_a_breach_leaves_a_profile_for_the_others():
    mech = DiffusedPosterior(BetaBernoulli(2, 3), 40, 0.5)
    left = mech.with_known_records(BITS[:25])
    assert left.n == 15
    assert left.profile.delta(0.5) < mech.profile.delta(0.5)
    # By hand: the known records are prior now, with their weight.
    ones = BITS[:25].sum()
    by_hand = BetaBernoulli(2 + 0.5 * ones, 3 + 0.5 * (25 - ones)).profile(15, 0.5)
    assert left.profile.delta([0.1, 0.5]) == pytest.approx(by_hand.delta([0.1, 0.5]), rel=1e-12)
    with pytest.raises(InvalidData):
        mech.with_known_records([1] * 41)


def test_queries_see_one_record_at_a_time_and_clip():
    seen = []

    def predicate(record):
        seen.append(record)
        return {"a": 7.0, "b": -3.0, "c": 0.25}[record]

    query = StatisticalQuery(BetaBernoulli(1, 1), 3, predicate)
    assert query.see(["a", "b", "c"]).total[0] == 1.25
    assert seen == ["a", "b", "c"]
    for bad in (lambda _: np.nan, lambda _: None, lambda _: "x", lambda r: r.missing):
        assert StatisticalQuery(BetaBernoulli(1, 1), 3, bad).see(["a", "b", "c"]) == Statistics(3, [0.0])
    for names in ({"a": 1, "b": 2, "c": 3}, "abc", pd.DataFrame({"a": [1], "b": [2], "c": [3]})):
        with pytest.raises(InvalidData, match="one by one"):
            query.release(names)
    with pytest.raises(InvalidValue):
        StatisticalQuery(GammaPoisson(1, 1, 3), 3, predicate)


@pytest.mark.parametrize(
    "make",
    [
        lambda: DiffusedPosterior(BetaBernoulli(1, 1), 10, 0.0),
        lambda: DiffusedPosterior(BetaBernoulli(1, 1), 10, 1.5),
        lambda: DiffusedPosterior(BetaBernoulli(1, 1), -1, 0.5),
        lambda: DiffusedPosterior(BetaBernoulli(1, 1), True, 0.5),
        lambda: ConcentratedPosterior(BetaBernoulli(1, 1), 10, 0.5),
        lambda: TemperedPosterior(BetaBernoulli(1, 1), 10, 0.5),
        lambda: TemperedPosterior(BetaBernoulli(1, 1), 10, 2.0, truncation=0.7),
        lambda: NoisyStatistics(BetaBernoulli(1, 1), 10, "cauchy", 1.0),
        lambda: NoisyStatistics(BetaBernoulli(1, 1), 10, "laplace", 0.0),
        lambda: NoisyStatistics(NormalMean(1, 1, radius=1, dimension=2), 10, "laplace", 1.0),
        lambda: StatisticalQuery(BetaBernoulli(1, 1), 10, 3.5),
        lambda: Release.from_json("[]"),
        lambda: Release.from_json("{"),
        lambda: Release.from_dict({"value": 1}),
    ],
)
def test_bad_arguments_raise(make):
    with pytest.raises(InvalidValue):
        make()


def test_samples_and_posteriors_export_to_arviz():
    pytest.importorskip("arviz", reason="the plots extra is not installed")
    data = DirectPosterior(BetaBernoulli(2, 3), 40).release(BITS, draws=5).to_arviz()
    assert data.posterior["theta"].shape == (1, 5)
    whole = NoisyStatistics(BetaBernoulli(2, 3), 40, "laplace", 2.0).release(BITS).to_arviz(draws=50)
    assert whole.posterior["theta"].shape == (1, 50)


def test_releases_made_together_are_what_a_kind_of_its_own_says():
    class Capped(NoisyStatistics):
        def _value(self, statistics, rng, draws):
            return 7.0

    made = Capped(BetaBernoulli(1, 1), 4, "laplace", 2.0)
    assert not made.together
    assert [one.value for one in made.releases([0, 1, 1, 0], 3)] == [7.0] * 3
    assert NoisyStatistics(BetaBernoulli(1, 1), 4, "laplace", 2.0).together


@pytest.mark.parametrize(
    "word",
    ["noisy statistics", "noisy cells", "quantile search", "smooth means", "smooth group means", "noisy moments"],
)
def test_a_posterior_that_was_released_is_sampled_for_nothing(word: str) -> None:
    mechanism = MECHANISMS[word].example()
    assert mechanism.cost(5) == mechanism.cost() == mechanism.profile


def test_a_sample_of_the_posterior_costs_as_much_as_the_first() -> None:
    mechanism = MECHANISMS["direct posterior"].example()
    assert mechanism.cost(5).epsilon(1e-6) > mechanism.cost().epsilon(1e-6)


def test_looks_of_one_moment_are_those_of_smooth_tails() -> None:
    """Of the looks of quantiles each is right by itself, so that a release goes on where a connection was lost."""
    taken = {word for word in ("quantile search", "smooth means", "smooth group means") if MECHANISMS[word].one_moment}
    assert taken == {"smooth means", "smooth group means"}
