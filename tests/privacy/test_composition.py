import math

import mpmath as mp
import numpy as np
import pytest
from scipy import special, stats

from sottovoce.privacy import (
    Basis,
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
    ZeroConcentratedProfile,
    compose,
)
from sottovoce.privacy.renyi_conversion import renyi_log_delta

BETA = LikelihoodRatioProfile((BetaPairs(6, 12, 0.3, 99),))


def renyi_epsilon(profile: Profile, delta: float) -> float:
    grid = np.linspace(0, 15, 151)
    through = renyi_log_delta(profile._renyi, grid, profile.pole)
    return float(grid[np.argmax(through <= math.log(delta))])


def test_kinds_with_a_closed_form_keep_it() -> None:
    assert GaussianProfile(3.0) + GaussianProfile(4.0) == GaussianProfile(5.0)
    assert 9 * GaussianProfile(0.5) == GaussianProfile(1.5)
    assert 3 * ZeroConcentratedProfile(0.5) + ZeroConcentratedProfile(0.25) == ZeroConcentratedProfile(1.75)


def test_composition_is_the_same_however_it_is_written() -> None:
    a, b = LaplaceProfile(5.0), PureProfile(0.2)
    one = a + b + a + GaussianProfile(0.3) + b + GaussianProfile(0.4)
    two = compose([2 * a + 2 * b, GaussianProfile(0.5)])
    assert isinstance(one, ComposedProfile)
    assert one.parts[:2] == two.parts[:2]
    assert one.counts == two.counts == (2, 2, 1)
    assert one.parts[2].gdp() == pytest.approx(0.5, rel=1e-15)
    assert one.epsilon(1e-6) == pytest.approx(two.epsilon(1e-6), rel=1e-9)


@pytest.mark.parametrize("count", [2, 7, 50])
@pytest.mark.parametrize("level", [0.05, 0.5])
def test_repeated_pure_is_the_binomial_sum(level: float, count: int) -> None:
    """k-fold randomized response by its definition: the law of the number of truthful answers."""
    p = math.exp(level) / (1 + math.exp(level))
    for epsilon in (0.0, 0.3 * level * count, 0.8 * level * count):
        truth = math.fsum(
            math.comb(count, k)
            * max(p**k * (1 - p) ** (count - k) - math.exp(epsilon) * p ** (count - k) * (1 - p) ** k, 0.0)
            for k in range(count + 1)
        )
        assert (count * PureProfile(level)).delta(epsilon) == pytest.approx(truth, rel=1e-9, abs=1e-300)
    assert (count * PureProfile(level)).epsilon(0.0) == pytest.approx(level * count, rel=1e-12)


@pytest.mark.parametrize("level", [1e-3, 0.01, 1.0])
def test_a_million_repetitions_are_summed_where_they_have_a_chance(level: float) -> None:
    """By SciPy's binomial law; of a million and one terms those within 38 deviations are no zeros, and 50 are added."""
    many, p = 10**6 * PureProfile(level), special.expit(level)
    assert len(many._responses._law[0]) < 90_000
    for delta in (1e-3, 1e-6, 1e-12):
        epsilon = many.epsilon(delta)
        hits = np.arange(math.ceil((epsilon / level + 10**6) / 2), min(10**6, int(10**6 * p) + 25_000))
        gained = -np.expm1(epsilon - level * (2 * hits - 10**6))
        assert stats.binom.pmf(hits, 10**6, p) @ gained == pytest.approx(delta, rel=1e-6)


def test_a_hundred_mixed_releases_sit_between_the_exact_answer_and_the_renyi_one() -> None:
    mixed = 25 * GaussianProfile(0.1) + 25 * LaplaceProfile(10.0) + 25 * PureProfile(0.1) + 25 * BETA
    deltas = np.array([1e-4, 1e-6, 1e-9])
    epsilons = mixed.epsilon(deltas)
    assert np.all(mixed.delta(epsilons) <= deltas * (1 + 1e-8))
    for delta, epsilon in zip(deltas.tolist(), epsilons.tolist(), strict=True):
        assert epsilon < renyi_epsilon(mixed, delta) - 0.1
        # It cannot cost less than its parts alone.
        assert epsilon > (25 * PureProfile(0.1)).epsilon(delta)
        assert epsilon > GaussianProfile(0.5).epsilon(delta)


def test_two_laplace_releases_against_the_exact_hockey_stick() -> None:
    """Two different Laplace releases: the loss is a sum of two independent ones, integrated on a grid."""
    first, second = LaplaceProfile(1.0), LaplaceProfile(2.0)
    x = np.linspace(-40, 41, 810_001)

    def loss(scale: float) -> tuple[np.ndarray, np.ndarray]:
        density = np.exp(-np.abs(x) / scale) / (2 * scale)
        return (np.abs(x - 1) - np.abs(x)) / scale, density / density.sum()

    losses_a, mass_a = loss(1.0)
    losses_b, mass_b = loss(2.0)
    edges = np.linspace(-1.6, 1.6, 6401)
    hist_a, _ = np.histogram(losses_a, edges, weights=mass_a)
    hist_b, _ = np.histogram(losses_b, edges, weights=mass_b)
    both = np.convolve(hist_a, hist_b)
    at = np.linspace(2 * edges[0], 2 * edges[-1], both.size + 2)[1:-1]
    for epsilon in (0.0, 0.5, 1.2):
        truth = np.sum(both * np.maximum(-np.expm1(epsilon - at), 0))
        assert (first + second).delta(epsilon) == pytest.approx(truth, rel=4e-3)


@pytest.mark.parametrize("count", [1, 30])
def test_agrees_with_dp_accounting(count: int) -> None:
    from dp_accounting.pld import privacy_loss_distribution as pld

    peer = pld.from_laplace_mechanism(5.0).self_compose(count).compose(pld.from_gaussian_mechanism(2.0))
    ours = count * LaplaceProfile(5.0) + GaussianProfile(0.5)
    for delta in (1e-3, 1e-6):
        assert ours.epsilon(delta) == pytest.approx(peer.get_epsilon_for_delta(delta), rel=1e-6)


def test_agrees_with_dp_accounting_on_whole_numbers() -> None:
    from dp_accounting.pld import privacy_loss_distribution as pld

    peer = pld.from_discrete_laplace_mechanism(0.2, 3).self_compose(5).compose(pld.from_gaussian_mechanism(2.0))
    ours = 5 * DiscreteLaplaceProfile(5.0, 3) + GaussianProfile(0.5)
    theirs = peer.get_epsilon_for_delta(1e-6)  # rounds each of five losses up to a grid of 1e-4; ours does not
    assert theirs - 5.5e-4 <= ours.epsilon(1e-6) <= theirs


def test_never_below_the_gaussian_closed_form() -> None:
    """A Gaussian forced through the privacy-loss distribution, beside one pure release that says nothing."""
    forced = ComposedProfile((GaussianProfile(0.3), PureProfile(1e-9)), (1, 1))
    epsilon = np.linspace(0, 1.2, 25)
    assert np.all(forced.delta(epsilon) >= GaussianProfile(0.3).delta(epsilon) * (1 - 1e-9))
    np.testing.assert_allclose(forced.delta(epsilon), GaussianProfile(0.3).delta(epsilon), rtol=1e-3)


def test_parts_without_a_curve_of_their_own_compose_by_renyi() -> None:
    mixed = GaussianProfile(0.3) + ZeroConcentratedProfile(0.05) + PureProfile(0.1)
    assert mixed.renyi(3.0) == pytest.approx(3 * 0.045 + 3 * 0.05 + PureProfile(0.1).renyi(3.0), rel=1e-12)
    assert mixed.epsilon(1e-6) == pytest.approx(renyi_epsilon(mixed, 1e-6), abs=0.11)
    assert mixed.epsilon(0.0) == math.inf


def test_sums_of_the_scalar_notions() -> None:
    mixed = 2 * PureProfile(0.5) + LaplaceProfile(4.0)
    assert mixed.pure() == pytest.approx(1.25)
    assert mixed.zcdp() == pytest.approx(2 * PureProfile(0.5).zcdp() + LaplaceProfile(4.0).zcdp())
    assert mixed.gdp() == pytest.approx(math.sqrt(2 * PureProfile(0.5).gdp() ** 2 + LaplaceProfile(4.0).gdp() ** 2))
    assert (BETA + PureProfile(0.1)).pole == BETA.pole


def test_the_weakest_basis_is_kept() -> None:
    assert (2 * BETA).basis is Basis.EXACT
    assert (BETA + PureProfile(1.0)).basis is Basis.BOUND
    unproven = PureProfile(1.0, basis=Basis.CONVERGENCE)
    assert (BETA + unproven).basis is Basis.CONVERGENCE
    assert Profile.from_json((BETA + unproven).to_json()).basis is Basis.CONVERGENCE


@pytest.mark.parametrize("other", [1.0, "x", None, LaplaceProfile])
def test_only_profiles_add(other: object) -> None:
    with pytest.raises(IncompatibleNotions):
        GaussianProfile(1.0) + other


@pytest.mark.parametrize("count", [1.5, True, "2", None])
def test_only_whole_numbers_repeat(count: object) -> None:
    with pytest.raises(IncompatibleNotions):
        count * GaussianProfile(1.0)


def test_nothing_or_no_times_is_refused() -> None:
    with pytest.raises(InvalidValue):
        compose([])
    with pytest.raises(InvalidValue):
        0 * GaussianProfile(1.0)
    with pytest.raises(InvalidValue):
        GaussianProfile(1.0) * -3


def test_a_billion_of_two_kinds_are_no_quieter_than_their_normal_limit() -> None:
    """Tilts are tiny there: the loss is normal to some parts in 10⁵, and δ its upper tail and a little more."""
    levels, many = (1.0, 0.5), 10**9
    mean = sum(many * level * math.tanh(level / 2) for level in levels)
    sd = math.sqrt(sum(many * (level / math.cosh(level / 2)) ** 2 for level in levels))
    found = compose([PureProfile(level) for level in levels], [many, many]).delta(mean + sd * np.array([2.0, 4.0]))
    tails = np.array([0.022750131948, 3.167124183e-05])
    assert np.all(found >= 0.99 * tails)
    assert np.all(found <= 15 * tails)  # a grid so coarse adds as much


@pytest.mark.parametrize("count", [1, 2, 40, 10**6, 10**6 + 1, 10**9, 10**12])
def test_equal_responses_are_a_binomial_law_however_many(count: int) -> None:
    """Levels so small that k of them are nearly one Gaussian of μ = 1; up to forty the sum itself."""
    level = 1 / math.sqrt(count)
    profile = ComposedProfile((PureProfile(level),), (count,))
    if count <= 40:
        p = mp.mpf(1) / (1 + mp.exp(-mp.mpf(level)))
        for epsilon in (0.0, 0.1, 0.4, 3.0):
            hits = range(count + 1)
            truth = mp.fsum(
                mp.binomial(count, k)
                * max(p**k * (1 - p) ** (count - k) - mp.exp(epsilon) * p ** (count - k) * (1 - p) ** k, mp.mpf(0))
                for k in hits
            )
            assert truth * (1 - mp.mpf(1e-12)) <= profile.delta(epsilon) <= truth * (1 + mp.mpf(1e-9))
    else:
        for delta in (1e-3, 1e-6, 1e-30, 1e-100):
            assert profile.epsilon(delta) == pytest.approx(GaussianProfile(1.0).epsilon(delta), rel=2e-3)


@pytest.mark.parametrize(("count", "level"), [(10**6, 1e-3), (3 * 10**9, 2e-5), (500, 1.0), (10**7, 12.0)])
def test_chances_of_a_binomial_law_are_never_below_the_truth(count: int, level: float) -> None:
    from sottovoce.privacy.binomial_loss import _log_binomial

    miss = 1 / (1 + math.exp(level))
    deviation = math.sqrt(count * miss * (1 - miss))
    for away in (-30.0, -3.0, 0.0, 0.1, 5.0, 38.0):
        k = min(max(round(count * miss + away * deviation), 0), count)
        with mp.workdps(50):
            p = 1 / (1 + mp.exp(mp.mpf(level)))
            truth = mp.loggamma(count + 1) - mp.loggamma(k + 1) - mp.loggamma(count - k + 1)
            truth += k * mp.log(p) + (count - k) * mp.log1p(-p)
            off = float(mp.mpf(float(_log_binomial(float(count), np.array([float(k)]), miss)[0])) - truth)
        assert 0 <= off < 1e-7


@pytest.mark.parametrize("delta", [1e-10, 1e-25, 1e-60, 1e-150, 1e-280])
def test_mixed_parts_are_told_apart_where_delta_is_tiny(delta: float) -> None:
    """Two kinds of responses, all outcomes counted over in many digits."""
    kinds, counts = (0.5, 0.31), (300, 200)
    ours = compose([PureProfile(level) for level in kinds], counts).epsilon(delta)

    def curve(epsilon: float) -> mp.mpf:
        with mp.workdps(40):
            laws = []
            for level, count in zip(kinds, counts, strict=True):
                p = 1 / (1 + mp.exp(-mp.mpf(level)))
                chance, law = (1 - p) ** count, []
                for k in range(count + 1):
                    law.append((float(level * (2 * k - count)), chance))
                    chance *= p / (1 - p) * (count - k) / (k + 1)
                laws.append(law)
            total = mp.mpf(0)
            for first, chance in laws[0]:
                for second, other in laws[1]:
                    if first + second > epsilon:
                        total += chance * other * -mp.expm1(mp.mpf(epsilon) - first - second)
            return total

    assert curve(ours) <= delta * (1 + 1e-9)
    assert curve(ours * 0.995) > delta
