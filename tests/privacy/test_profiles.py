"""Each kind of profile against quadrature of its dominating pair, or against the definition."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.privacy import (
    ApproxDP,
    Basis,
    BetaPairs,
    BoundedRangeProfile,
    DiscreteLaplaceProfile,
    GammaRatePairs,
    GammaShapePairs,
    GaussianDP,
    GaussianProfile,
    IncompatibleNotions,
    InvalidValue,
    LaplaceProfile,
    LikelihoodRatioProfile,
    Profile,
    PureDP,
    PureProfile,
    RenyiDP,
    RenyiProfile,
    ZeroConcentratedDP,
    ZeroConcentratedProfile,
)
from sottovoce.privacy.renyi_conversion import renyi_epsilon, renyi_log_delta

from . import oracle

KINDS = [
    GaussianProfile(0.7),
    PureProfile(0.9),
    BoundedRangeProfile(1.3),
    ZeroConcentratedProfile(0.2),
    RenyiProfile((2.0, 4.0, 15.0), (0.05, 0.1, 0.3)),
    LaplaceProfile(2.0),
    DiscreteLaplaceProfile(3.0, 2),
    LikelihoodRatioProfile((BetaPairs(6, 12, 1, 99),)),
    LikelihoodRatioProfile((GammaShapePairs(3, 2),)),
    LikelihoodRatioProfile((GammaRatePairs(12, 3, 4),)),
    PureProfile(0.3) + GaussianProfile(0.4) + 2 * LaplaceProfile(4.0),
]
ids = [f"{p.word}{i}" for i, p in enumerate(KINDS)]


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(25), oracle.bits(120):
        yield


# --- against quadrature -------------------------------------------------------------------------------------


@pytest.mark.parametrize("mu", [0.05, 0.5, 1.0, 4.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_gaussian_delta_is_the_hockey_stick(mu: float, epsilon: float) -> None:
    def log_density(centre):
        weights = arb(-0.5), centre
        return oracle.LogDensity(lambda x, _: (x * x, x), weights, (centre**2 + (2 * arb.pi()).log()) / 2)

    edge = arb(epsilon) / arb(mu) + arb(mu) / 2  # where the loss passes ε
    truth = oracle.excess(
        log_density(arb(mu)), log_density(arb(0)), arb(epsilon), [edge + u for u in (0, 1, 4, 12, 40)]
    )
    assert oracle.relative(GaussianProfile(mu).delta(epsilon), truth) < 1e-9


def test_gaussian_delta_is_right_down_to_1e_300() -> None:
    def below(x):
        return (-x / arb(2).sqrt()).erfc() / 2

    with oracle.bits(2400):
        for mu, epsilon in [(1.0, 36.6), (0.1, 3.7), (5.0, 190.0), (1e-4, 3.6e-3)]:
            m, e = arb(mu), arb(epsilon)
            truth = below(m / 2 - e / m) - e.exp() * below(-m / 2 - e / m)
            got = GaussianProfile(mu).log_delta(epsilon)
            assert -700 < got < -600
            assert abs(float(truth.log()) - got) < 1e-9
            assert oracle.relative(GaussianProfile(mu).delta(epsilon), truth) < 1e-9


@pytest.mark.parametrize("scale", [0.4, 1.0, 5.0])
def test_laplace_against_quadrature(scale: float) -> None:
    def distances(x, analytic):
        return x.real_abs(analytic=analytic), (x - 1).real_abs(analytic=analytic)

    log_p, log_q = (
        oracle.LogDensity(distances, (-at_zero / arb(scale), -at_one / arb(scale)), arb(2 * scale).log())
        for at_zero, at_one in ((1, 0), (0, 1))
    )
    points = [-200 * scale, -20 * scale, -3 * scale, 0, 0.5, 1, 1 + 3 * scale, 1 + 20 * scale, 1 + 200 * scale]
    profile = LaplaceProfile(scale)
    for order in (1, 1.0001, 1.5, 2, 15):
        assert oracle.relative(profile.renyi(order), oracle.ball_renyi(log_p, log_q, order, points)) < 1e-9
    for fraction in (0.0, 0.3, 0.9):
        epsilon = fraction / scale
        edge = (1 - arb(epsilon) * scale) / 2  # where the loss passes ε
        truth = oracle.excess(log_p, log_q, arb(epsilon), [-200 * scale, -9 * scale, 0, edge])
        assert oracle.relative(profile.delta(epsilon), truth) < 1e-9


@pytest.mark.parametrize(("scale", "steps"), [(0.5, 1), (3.0, 1), (2.0, 2), (4.0, 5), (900.0, 3000)])
def test_discrete_laplace_against_the_sum(scale: float, steps: int) -> None:
    reach = int(60 * scale) + steps
    k = np.arange(-reach, reach + steps + 1)
    a = math.exp(-1 / scale)
    p = (1 - a) / (1 + a) * np.exp(-np.abs(k) / scale)
    q = (1 - a) / (1 + a) * np.exp(-np.abs(k - steps) / scale)
    profile = DiscreteLaplaceProfile(scale, steps)
    tolerance = 1e-11 if steps < 2048 else 1e-8
    for epsilon in np.linspace(0, 1.1 * steps / scale, 13):
        truth = np.maximum(p - np.exp(epsilon) * q, 0).sum()
        assert profile.delta(epsilon) == pytest.approx(truth, rel=1e-9, abs=1e-13)
    for order in (1.5, 2.0, 7.0):
        truth = math.log(np.sum(p**order * q ** (1 - order))) / (order - 1)
        assert profile.renyi(order) == pytest.approx(truth, rel=tolerance)
        assert profile.renyi(order) >= truth * (1 - 1e-13)
    assert profile.renyi(1) == pytest.approx(np.sum(p * np.log(p / q)), rel=1e-10)


@pytest.mark.parametrize("epsilon", [1e-7, 0.01, 0.5, 3.0])
def test_pure_is_randomized_response(epsilon: float) -> None:
    e = mp.mpf(epsilon)
    p, q = mp.e**e / (1 + mp.e**e), 1 / (1 + mp.e**e)
    profile = PureProfile(epsilon)
    for order in (1.5, 2, 20):
        truth = mp.log(p**order * q ** (1 - mp.mpf(order)) + q**order * p ** (1 - mp.mpf(order))) / (order - 1)
        assert oracle.relative(profile.renyi(order), truth) < 1e-9
    assert oracle.relative(profile.renyi(1), (p - q) * e) < 1e-9
    assert oracle.relative(profile.zcdp(), e * mp.tanh(e / 2)) < 1e-9
    for fraction in (0.0, 0.5, 0.99):
        assert oracle.relative(profile.delta(fraction * epsilon), p - mp.e ** (mp.mpf(fraction * epsilon)) * q) < 1e-9


@pytest.mark.parametrize("eta", [1e-4, 0.5, 2.0, 8.0])
def test_bounded_range_is_the_largest_over_windows(eta: float) -> None:
    """All two-point pairs with losses t and t-η, t in [0, η], scanned."""
    t = np.linspace(0, eta, 20_001)[1:-1]
    q = (1 - np.exp(t - eta)) / (np.exp(t) - np.exp(t - eta))
    p = q * np.exp(t)
    profile = BoundedRangeProfile(eta)
    for epsilon in (0.0, 0.2 * eta, 0.9 * eta):
        truth = np.maximum(p - np.exp(epsilon) * q, 0).max()
        assert truth * (1 - 1e-9) <= profile.delta(epsilon) <= truth * (1 + 1e-6)
    for order in (1.2, 2.0, 9.0):
        truth = (np.log(p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order)) / (order - 1)).max()
        assert truth * (1 - 1e-7) <= profile.renyi(order) <= truth * (1 + 1e-6)
    kl = (p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))).max()
    assert kl * (1 - 1e-7) <= profile.renyi(1) <= kl * (1 + 1e-6)
    assert profile.pure() == eta
    assert profile.zcdp() == pytest.approx(eta**2 / 8, rel=1e-15)


def beta_pair(a: float, b: float, w: float):
    """Log densities in x = logit θ of Beta(a+w, b) and Beta(a, b+w), and the place where their log-ratio passes ε."""
    a, b, w = arb(a), arb(b), arb(w)

    def log_beta(p, q):
        return p.lgamma() + q.lgamma() - (p + q).lgamma()

    def terms(x, analytic):
        return x, (x.exp() + 1).log(analytic=analytic)

    def log_density(p, q):
        return oracle.LogDensity(terms, (p, -p - q), log_beta(p, q))

    shift = log_beta(a, b + w) - log_beta(a + w, b)
    return log_density(a + w, b), log_density(a, b + w), lambda epsilon: (epsilon - shift) / w


@pytest.mark.parametrize(("a", "b", "w"), [(6, 12, 1), (0.5, 0.7, 0.1), (6, 300, 1e-4)])
def test_beta_pairs_against_quadrature(a: float, b: float, w: float) -> None:
    profile = LikelihoodRatioProfile((BetaPairs(a, b, w),))
    p, q, edge = beta_pair(a, b, w)
    offsets = (0, 0.1, 1, 10, 40, 200)
    for scaled in (0.0, 0.4, 1.5, 6.0):
        e = arb(scaled * w)
        truth = max(
            oracle.excess(p, q, e, [edge(e) + u for u in offsets]),
            oracle.excess(q, p, e, [edge(-e) - u for u in reversed(offsets)]),
            key=float,
        )
        assert oracle.relative(profile.delta(scaled * w), truth) < 1e-9
    far = 120 if min(a, b) > 1 else 3000  # densities fall as e^-(min(a, b)·|x|), near the pole a tenth as fast
    points = [u for u in (-3000, -400, -120, -20, -6, -2, 0, 2, 6, 20, 120, 400, 3000) if abs(u) <= far]
    for order in (1, 1.00001, 1 + 0.9 * min(a, b) / w if w > 0.01 else 60):
        truth = max(oracle.ball_renyi(p, q, order, points), oracle.ball_renyi(q, p, order, points), key=float)
        assert oracle.relative(profile.renyi(order), truth) < 1e-9


def test_beta_pairs_are_right_down_to_1e_30() -> None:
    with mp.workdps(80):
        for a, b, w, epsilon in [(6, 12, 1, 16.0), (6, 12, 0.01, 0.11), (40, 90, 1, 2.4)]:
            profile = LikelihoodRatioProfile((BetaPairs(a, b, w),))
            best = mp.mpf(0)
            for p, q in ((a, b), (b, a)):
                p, q, v = mp.mpf(p), mp.mpf(q), mp.mpf(w)
                x = (epsilon - mp.log(mp.beta(p, q + v) / mp.beta(p + v, q))) / v
                miss = 1 / (1 + mp.e**x)
                tail = mp.betainc(q, p + v, 0, miss, regularized=True)
                best = max(best, tail - mp.e**epsilon * mp.betainc(q + v, p, 0, miss, regularized=True))
            assert best < 1e-25
            assert oracle.relative(profile.delta(epsilon), best) < 1e-9


@pytest.mark.parametrize(("shape", "step"), [(3, 2), (0.5, 0.25), (50, 1), (20, 1e-3)])
def test_gamma_shape_pairs_against_quadrature(shape: float, step: float) -> None:
    a, w = arb(shape), arb(step)

    def log_density(k):
        return oracle.LogDensity(lambda x, _: (x, x.exp()), (k, arb(-1)), k.lgamma())

    up, down = log_density(a + w), log_density(a)
    shift = (a + w).lgamma() - a.lgamma()
    profile = LikelihoodRatioProfile((GammaShapePairs(shape, step),))
    centre = a.log()
    for scaled in (0.0, 0.3, 1.2):
        e = arb(scaled * step)
        right, left = (e + shift) / w, (shift - e) / w
        offsets = (0, 0.05, 0.3, 1, 3, 9, 40, 200)
        truth = max(
            oracle.excess(up, down, e, [right + u for u in offsets[:6]]),
            oracle.excess(down, up, e, [left - u for u in reversed(offsets)]),
            key=float,
        )
        assert oracle.relative(profile.delta(scaled * step), truth) < 1e-9
    points = [centre + u for u in (-3000, -500, -150, -40, -12, -4, -1, 0, 1, 4, 7)]
    for order in (1, 1.5, 1 + 0.9 * min(shape / step, 40)):
        truth = max(oracle.ball_renyi(up, down, order, points), oracle.ball_renyi(down, up, order, points), key=float)
        assert oracle.relative(profile.renyi(order), truth) < 1e-9


@pytest.mark.parametrize(("shape", "low", "high"), [(12, 3, 4), (0.7, 1, 2), (400, 5, 5.01)])
def test_gamma_rate_pairs_against_quadrature(shape: float, low: float, high: float) -> None:
    k, r, s = arb(shape), arb(low), arb(high)

    def log_density(rate):
        return oracle.LogDensity(lambda x, _: (x, x.exp()), (k, -rate), k.lgamma() - k * rate.log())

    slow, fast = log_density(r), log_density(s)
    profile = LikelihoodRatioProfile((GammaRatePairs(shape, low, high),))
    ratio = k * (s / r).log()
    for fraction in (0.0, 0.1, 0.4):
        epsilon = float(ratio) * fraction
        e = arb(epsilon)
        right, left = ((e + ratio) / (s - r)).log(), ((ratio - e) / (s - r)).log()
        offsets = (0, 0.02, 0.1, 0.4, 1, 3, 6)
        truth = max(
            oracle.excess(slow, fast, e, [right + u for u in offsets]),
            oracle.excess(fast, slow, e, [left - u for u in (90, 30, 9, *offsets[::-1])]),
            key=float,
        )
        assert oracle.relative(profile.delta(epsilon), truth) < 1e-9
    centre = (k / r).log()
    width = 1 / k.sqrt()
    points = [centre + u * width for u in (-90, -30, -10, -4, 0, 4, 10)]
    for order in (1, 1.5, 2.5 if shape != 0.7 else 1.8):
        truth = max(
            oracle.ball_renyi(slow, fast, order, points), oracle.ball_renyi(fast, slow, order, points), key=float
        )
        assert oracle.relative(profile.renyi(order), truth) < 1e-9


def test_worked_values() -> None:
    profile = LikelihoodRatioProfile((BetaPairs(6, 12, 1, 99),))
    assert profile.renyi(2) == pytest.approx(0.1912902268, rel=1e-9)
    assert profile.delta(1) == pytest.approx(0.005116727392, rel=1e-9)
    assert LikelihoodRatioProfile((BetaPairs(1, 1, 1, 99),)).renyi(1.5) == pytest.approx(1.152204979, rel=1e-9)


# --- the supremum over the other records ----------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(a=st.floats(0.05, 30), b=st.floats(0.05, 30), w=st.floats(0.01, 1), others=st.integers(0, 70), e=st.floats(0, 3))
def test_branch_and_bound_finds_the_largest(a: float, b: float, w: float, others: int, e: float) -> None:
    epsilon, each = np.array([e * w]), np.arange(others + 1.0)
    scan = float(BetaPairs(a, b, w, others)._at(each, each, epsilon).max())  # of every s by itself
    whole = LikelihoodRatioProfile((BetaPairs(a, b, w, others),)).log_delta(e * w)
    fractions = LikelihoodRatioProfile((BetaPairs(a, b, w, others, whole=False),)).log_delta(e * w)
    assert whole == pytest.approx(scan, abs=1e-11)
    assert scan - 1e-11 <= fractions <= scan + 1e-6


@pytest.mark.parametrize("n", [10**6, 10**9])
def test_huge_data_sets_settle_at_an_end(n: int) -> None:
    profile = LikelihoodRatioProfile((BetaPairs(6, 12, 1, n - 1),))
    ends = [BetaPairs(6 + s, 12 + n - 1 - s, 1) for s in (0, n - 1)]
    assert profile.delta(1.0) == pytest.approx(max(LikelihoodRatioProfile((e,)).delta(1.0) for e in ends), rel=1e-10)
    # With n → ∞ the larger parameter's Beta becomes a Gamma(6): its curve is the limit.
    assert profile.renyi(2) == pytest.approx(LikelihoodRatioProfile((GammaShapePairs(6, 1),)).renyi(2), rel=20 / n)


def test_poles_are_where_the_mathematics_puts_them() -> None:
    for pairs, pole in [
        (BetaPairs(6, 12, 0.5, 9), 13.0),
        (GammaShapePairs(3, 2), 2.5),
        (GammaRatePairs(5, 3, 4), 4.0),
    ]:
        profile = LikelihoodRatioProfile((pairs,))
        assert profile.pole == pole
        assert math.isfinite(profile.renyi(pole - 1e-6))
        assert profile.renyi(pole) == math.inf == profile.renyi(pole + 5)
        assert profile.zcdp() == profile.gdp() == profile.pure() == math.inf


# --- what every profile must do ---------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", KINDS, ids=ids)
def test_epsilon_inverts_delta(profile: Profile) -> None:
    deltas = np.array([0.3, 1e-2, 1e-6, 1e-12]) * profile.delta(0.0)
    epsilons = profile.epsilon(deltas)
    back = profile.delta(epsilons)
    through = profile.word in ("composed", "zcdp", "renyi")  # each order's ε holds by itself; δ(ε) is another optimum
    assert np.all(back <= deltas * (1 + (1e-7 if through else 1e-12)))
    assert np.all(np.diff(epsilons) > 0)
    if profile.word != "composed":
        np.testing.assert_allclose(profile.epsilon(back), epsilons, rtol=1e-8 if through else 1e-9)
        np.testing.assert_allclose(profile.log_delta(epsilons)[:3], np.log(deltas)[:3], rtol=1e-8 if through else 1e-9)
    assert profile.epsilon(0.999999) == 0.0
    assert profile.epsilon(0.0) == profile.pure()
    assert profile.epsilon(1e-30) >= profile.epsilon(1e-20) >= epsilons[-1] * (1 - 1e-12)


@pytest.mark.parametrize("profile", KINDS, ids=ids)
def test_arrays_and_numbers_agree(profile: Profile) -> None:
    grid = np.array([[0.0, 0.1], [0.5, 2.0]])
    assert profile.delta(grid).shape == (2, 2)
    assert profile.delta(grid)[1, 0] == profile.delta(0.5)
    assert profile.renyi(1 + grid)[0, 1] == profile.renyi(1.1)
    assert profile.epsilon(grid / 3)[1, 0] == pytest.approx(profile.epsilon(0.5 / 3), rel=1e-12)
    assert isinstance(profile.delta(0.5), float)


@pytest.mark.parametrize("profile", KINDS, ids=ids)
def test_json_gives_the_same_numbers(profile: Profile) -> None:
    again = Profile.from_json(profile.to_json())
    assert again == profile
    assert again.basis is profile.basis
    assert again.delta(0.3) == profile.delta(0.3)
    assert again.epsilon(1e-5) == profile.epsilon(1e-5)
    assert again.renyi(2.0) == profile.renyi(2.0)


@pytest.mark.parametrize("profile", KINDS, ids=ids)
def test_renyi_never_falls_and_delta_never_rises(profile: Profile) -> None:
    orders = 1 + np.geomspace(1e-6, 1e3, 200)
    values = profile.renyi(orders)
    finite = values[np.isfinite(values)]
    assert np.all(np.diff(finite) >= -1e-11 * finite[1:])
    assert np.all(np.diff(profile.delta(np.linspace(0, 5, 100))) <= 1e-15)
    rho, mu = profile.zcdp(), profile.gdp()
    assert np.all(values <= rho * orders * (1 + 1e-10) + 1e-300)
    if math.isfinite(mu):
        grid = np.linspace(0, 3, 50)
        assert np.all(profile.delta(grid) <= GaussianProfile(mu).delta(grid) * (1 + 1e-9) + 1e-15)


BAD = [
    lambda p: p.delta(-1),
    lambda p: p.delta(math.nan),
    lambda p: p.delta(math.inf),
    lambda p: p.epsilon(1.0),
    lambda p: p.epsilon(-1e-9),
    lambda p: p.epsilon(math.nan),
    lambda p: p.renyi(0.5),
    lambda p: p.renyi(math.inf),
    lambda p: p.renyi("two"),
    lambda p: p.delta([0.1, -0.1]),
]


@pytest.mark.parametrize("profile", KINDS, ids=ids)
def test_bad_arguments_are_named_errors(profile: Profile) -> None:
    for call in BAD:
        with pytest.raises(InvalidValue, match=r"(epsilon|delta|order) must be"):
            call(profile)


@pytest.mark.parametrize(
    "make",
    [
        lambda: GaussianProfile(-1),
        lambda: GaussianProfile(math.nan),
        lambda: PureProfile(math.inf),
        lambda: LaplaceProfile(0.0),
        lambda: LaplaceProfile(1.0, -1),
        lambda: DiscreteLaplaceProfile(0.0),
        lambda: DiscreteLaplaceProfile(1.0, 0),
        lambda: DiscreteLaplaceProfile(1.0, 1.5),
        lambda: RenyiProfile((), ()),
        lambda: RenyiProfile((2.0, 1.5), (0.1, 0.1)),
        lambda: RenyiProfile((2.0,), (0.1, 0.2)),
        lambda: BetaPairs(0, 1, 1),
        lambda: GammaRatePairs(1, 2, 2),
        lambda: LikelihoodRatioProfile(()),
        lambda: Profile.from_json("{}"),
        lambda: Profile.from_json("nope"),
        lambda: Profile.from_json("[]"),
        lambda: Profile.from_dict({"profile": "gaussian", "basis": "exact"}),
        lambda: Profile.from_dict({"profile": "gaussian", "basis": "hope", "mu": 1.0}),
        lambda: Profile.from_dict({"profile": "likelihood-ratio", "basis": "exact", "pairs": [{"family": "cauchy"}]}),
    ],
)
def test_bad_profiles_are_named_errors(make) -> None:
    with pytest.raises(InvalidValue):
        make()


@pytest.mark.parametrize(
    "silent", [GaussianProfile(0.0), PureProfile(0.0), BoundedRangeProfile(0.0), ZeroConcentratedProfile(0.0)]
)
def test_nothing_said_costs_nothing(silent: Profile) -> None:
    assert silent.delta(0.0) == 0.0
    assert silent.epsilon(0.0) == silent.epsilon(1e-9) == 0.0
    assert silent.renyi(7.0) == silent.zcdp() == silent.pure() == 0.0


def test_satisfies_reads_each_promise() -> None:
    profile = GaussianProfile(1.0)
    assert profile.satisfies(GaussianDP(1.0))
    assert not profile.satisfies(GaussianDP(0.999))
    assert profile.satisfies(ZeroConcentratedDP(0.5))
    assert profile.satisfies(RenyiDP(2, 1.0))
    assert not profile.satisfies(RenyiDP(2.01, 1.0))
    assert profile.satisfies(ApproxDP(1.0, 0.13))
    assert not profile.satisfies(ApproxDP(1.0, 0.126))
    assert not profile.satisfies(PureDP(1e6))
    assert not profile.satisfies(ApproxDP(1e6, 0.0))
    assert PureProfile(1.0).satisfies(ApproxDP(1.0, 0.0))
    with pytest.raises(IncompatibleNotions):
        profile.satisfies("approx:1,1e-6")  # type: ignore[arg-type]


def test_a_renyi_table_bounds_the_curve_it_was_read_from() -> None:
    truth = LaplaceProfile(1.0)
    orders = np.array([1.0, 1.5, 3.0, 8.0, 40.0])
    table = RenyiProfile(tuple(orders), tuple(truth.renyi(orders)))
    fine = np.linspace(1, 40, 400)
    assert np.all(table.renyi(fine) >= truth.renyi(fine) * (1 - 1e-12))
    np.testing.assert_allclose(table.renyi(orders), truth.renyi(orders), rtol=1e-12)
    assert np.all(table.delta(np.linspace(0, 2, 30)) >= truth.delta(np.linspace(0, 2, 30)))


# --- the conversion -----------------------------------------------------------------------------------------------


def _exact_case(draw_kind: int, x: float, y: float, z: float) -> Profile:
    match draw_kind:
        case 0:
            return GaussianProfile(0.01 + 3 * x)
        case 1:
            return LaplaceProfile(1 / (0.01 + 5 * x))
        case 2:
            return PureProfile(0.01 + 5 * x)
        case 3:
            return DiscreteLaplaceProfile(0.2 + 6 * x, 1 + int(6 * y))
        case 4:
            return LikelihoodRatioProfile((BetaPairs(0.1 + 20 * x, 0.1 + 20 * y, 0.01 + z, 7),))
        case 5:
            return LikelihoodRatioProfile((GammaShapePairs(0.1 + 20 * x, 0.01 + 2 * z),))
        case _:
            return LikelihoodRatioProfile((GammaRatePairs(0.1 + 20 * x, 0.1 + y, 0.2 + y + z),))


def test_renyi_to_delta_is_never_below_the_exact_curve() -> None:
    """7 kinds at the corners and at 40 random places between them, × 12 ε each."""
    rng = np.random.default_rng(20240611)
    below = 0
    for x, y, z in [*itertools.product((0.0, 1.0), repeat=3), *rng.random((40, 3))]:
        for kind in range(7):
            profile = _exact_case(kind, x, y, z)
            scale = profile.renyi((1 + min(profile.pole, 3)) / 2)
            epsilon = np.append([0.0, 1e-9, 0.1, 1.0, 8.0], (scale + math.sqrt(scale)) * rng.random(7) * 4)
            through = renyi_log_delta(profile._renyi, epsilon, profile.pole)
            below += int(np.sum(through < profile.log_delta(epsilon) - 1e-9))
    assert below == 0


@pytest.mark.parametrize("q", [0.9, 0.3, 1e-2, 1e-4, 1e-6, 1e-8])
def test_conversions_of_a_point_beside_a_coin_are_never_below_the_truth(q: float) -> None:
    """P is a point and Q meets it with probability q, so R(λ) = log 1/q at every order and δ(ε) = 1 - e^ε q.

    No pair of laws comes closer to the bound by √(1 - e^-R) where they lie far apart: e^-R is q, and 1 - δ² is 2q - q².
    """

    def curve(order: np.ndarray) -> np.ndarray:
        return np.full(order.shape, -math.log(q))

    epsilon = -math.log(q) * np.array([0.0, 1e-3, 0.1, 0.5, 0.9])
    truth = np.log(-np.expm1(epsilon + math.log(q)))
    assert np.all(renyi_log_delta(curve, epsilon) >= truth - 1e-13)
    assert np.all(renyi_epsilon(curve, truth) >= epsilon * (1 - 1e-9))


@pytest.mark.parametrize("mu", [1e-4, 1e-2, 0.3, 2.0])
def test_no_conversion_takes_a_pair_for_nearer_than_it_is(mu: float) -> None:
    profile = GaussianProfile(mu)
    delta = profile.delta(0.0) * np.array([0.999, 0.9, 0.1])
    assert np.all(renyi_epsilon(profile._renyi, np.log(delta)) >= profile.epsilon(delta) * (1 - 1e-9))


def test_the_conversion_of_a_gaussian_matches_the_known_optimum() -> None:
    """Against a brute-force minimum over a fine grid of orders of the first formula."""
    rho, epsilon = 0.1, 2.0
    order = 1 + np.geomspace(1e-3, 1e4, 400_000)
    brute = np.min((order - 1) * (rho * order - epsilon + np.log1p(-1 / order)) - np.log(order))
    assert ZeroConcentratedProfile(rho).log_delta(epsilon) == pytest.approx(brute, abs=1e-6)
    assert ZeroConcentratedProfile(rho).log_delta(epsilon) <= brute + 1e-9


def test_basis_orders_from_exact_to_convergence() -> None:
    assert Basis.weakest([Basis.EXACT, Basis.BOUND]) is Basis.BOUND
    assert Basis.weakest([Basis.CONVERGENCE, Basis.EXACT]) is Basis.CONVERGENCE
    assert (PureProfile(1.0, basis=Basis.CONVERGENCE) + GaussianProfile(1.0)).basis is Basis.CONVERGENCE


@pytest.mark.parametrize("level", [1e-12, 1e-3, 0.1, 0.5, 2.3, 20.0, 600.0])
def test_no_delta_of_a_pure_promise_is_below_the_truth_by_a_rounding(level: float) -> None:
    with mp.workdps(60):
        for part in (0.0, 1e-9, 0.3, 0.5, 0.9, 1 - 1e-6, 1 - 1e-9, 1 - 1e-12):
            top, at = mp.mpf(level), mp.mpf(level * part)
            coin = (mp.exp(top) - mp.exp(at)) / (1 + mp.exp(top))
            window = (1 - mp.exp((at - top) / 2)) ** 2 / (1 - mp.exp(-top))
            for profile, true in ((PureProfile(level), coin), (BoundedRangeProfile(level), window)):
                assert true <= mp.mpf(profile.delta(level * part)) <= true * (1 + mp.mpf(1e-13))
