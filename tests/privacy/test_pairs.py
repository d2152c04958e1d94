"""Exact pairs where a tail falls slowly: small shapes, small steps, both orders, against mpmath."""

import math

import mpmath as mp
import numpy as np
import pytest
from flint import arb

from privacy import oracle
from sottovoce.mechanisms import ConcentratedPosterior, DiffusedPosterior
from sottovoce.mechanisms.conjugate import BetaBernoulli, GammaPoisson
from sottovoce.mechanisms.conjugate.distributions import Beta
from sottovoce.privacy import ApproxDP, Basis, BetaPairs, GammaRatePairs, GammaShapePairs, LikelihoodRatioProfile
from sottovoce.privacy.numbers import _trigamma
from sottovoce.privacy.pairs import Pairs


def lower(k: mp.mpf, log_x: mp.mpf) -> mp.mpf:
    """The regularised lower incomplete gamma function, which keeps an x below the range of a double."""
    x = mp.e**log_x
    return mp.exp(k * log_x - x - mp.loggamma(k + 1)) * mp.hyp1f1(1, k + 1, x)


@oracle.untraced()
def shape_delta(a: float, w: float, e: float) -> mp.mpf:
    a, w, e = mp.mpf(a), mp.mpf(w), mp.mpf(e)
    step = mp.loggamma(a + w) - mp.loggamma(a)
    x, y = (e + step) / w, (step - e) / w
    up = 1 - lower(a + w, x) - mp.e**e * (1 - lower(a, x)) if x < mp.log(10 * a + 200) else mp.mpf(0)
    return max(up, lower(a, y) - mp.e**e * lower(a + w, y))


@oracle.untraced()
def rate_delta(k: float, low: float, high: float, e: float) -> mp.mpf:
    k, low, high, e = (mp.mpf(v) for v in (k, low, high, e))
    ratio, span = k * mp.log(high / low), high - low
    t, s = (e + ratio) / span, (ratio - e) / span
    up = mp.gammainc(k, low * t, regularized=True) - mp.e**e * mp.gammainc(k, high * t, regularized=True)
    return up if s <= 0 else max(up, lower(k, mp.log(high * s)) - mp.e**e * lower(k, mp.log(low * s)))


@oracle.untraced()
def beta_delta(a: float, b: float, w: float, e: float) -> mp.mpf:
    return max(_one_way(*(mp.mpf(v) for v in (p, q, w, e))) for p, q in ((a, b), (b, a)))


def _one_way(a: mp.mpf, b: mp.mpf, w: mp.mpf, e: mp.mpf) -> mp.mpf:
    z = (e + mp.loggamma(a + w) + mp.loggamma(b) - mp.loggamma(a) - mp.loggamma(b + w)) / w

    def above(p: mp.mpf, q: mp.mpf) -> mp.mpf:
        if z > 0:
            return mp.betainc(q, p, 0, 1 / (1 + mp.e**z), regularized=True)
        return 1 - mp.betainc(p, q, 0, mp.e**z / (1 + mp.e**z), regularized=True)

    return above(a + w, b) - mp.e**e * above(a, b + w)


def claim(pairs: Pairs, epsilon: float) -> float:
    return LikelihoodRatioProfile((pairs,)).delta(epsilon)


def never_below(value: float, truth: mp.mpf, room: float = 1e-9) -> bool:
    return bool(truth <= mp.mpf(value) <= truth * (1 + room))


@pytest.fixture(autouse=True)
def _digits() -> object:
    with mp.workdps(70):
        yield


def test_a_tail_that_falls_at_the_rate_of_a_small_shape_is_followed_to_its_end() -> None:
    assert never_below(claim(GammaShapePairs(1e-4, 0.01), 8.0), shape_delta(1e-4, 0.01, 8.0))
    assert claim(GammaShapePairs(1e-4, 0.01), 8.0) == pytest.approx(0.8728, abs=1e-4)
    assert never_below(claim(BetaPairs(1e-5, 1e-5, 1e-8), 0.0), beta_delta(1e-5, 1e-5, 1e-8, 0.0))
    wide = BetaBernoulli(4.4154e-05, 1340.07).profile(1, 0.064165)
    assert never_below(wide.delta(0.001), beta_delta(4.4154e-05, 1340.07, 0.064165, 0.001))


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(10 ** rng.uniform(low, high))


def test_random_shape_pairs_are_never_below_the_truth() -> None:
    rng = np.random.default_rng(1)
    for _ in range(60):
        a, w = _log_uniform(rng, -6, 2.5), _log_uniform(rng, -9, 0)
        e = float(rng.choice([0.0, min(30.0, rng.uniform(0, 4) * w / math.sqrt(a)), rng.uniform(0, 30)]))
        value = claim(GammaShapePairs(a, w), e)
        assert value < 1e-30 or never_below(value, shape_delta(a, w, e)), (a, w, e)


def test_random_rate_pairs_are_never_below_the_truth() -> None:
    rng = np.random.default_rng(2)
    for _ in range(60):
        k, low, widen = _log_uniform(rng, -6, 2.5), _log_uniform(rng, -3, 3), _log_uniform(rng, -9, 2)
        e = float(rng.choice([0.0, min(30.0, rng.uniform(0, 4) * widen * math.sqrt(k)), rng.uniform(0, 30)]))
        high = low * (1 + widen)
        value = claim(GammaRatePairs(k, low, high), e)
        assert value < 1e-30 or never_below(value, rate_delta(k, low, high, e)), (k, low, high, e)


def test_random_beta_pairs_are_never_below_the_truth() -> None:
    rng = np.random.default_rng(3)
    for _ in range(60):
        a, b, w = _log_uniform(rng, -6, 2), _log_uniform(rng, -6, 2), _log_uniform(rng, -9, 0)
        e = float(rng.choice([0.0, min(30.0, rng.uniform(0, 4) * w / math.sqrt(min(a, b))), rng.uniform(0, 30)]))
        value = claim(BetaPairs(a, b, w), e)
        assert value < 1e-30 or never_below(value, beta_delta(a, b, w, e)), (a, b, w, e)


def test_a_rate_pair_of_a_large_shape_is_not_below_the_truth() -> None:
    case = (619.3181577780059, 1.0, 1.0020331937137459)
    truth = rate_delta(*case, 0.5039133120518862)
    assert mp.nstr(truth, 12) == "2.59628842087e-21"
    assert never_below(claim(GammaRatePairs(*case), 0.5039133120518862), truth, 1e-8)


def upper(k: arb, x: arb) -> arb:
    return x.gamma_upper(k, regularized=1)


def arb_rate_delta(*case: float) -> list[arb]:
    k, low, high, e = map(arb, case)
    ratio, span = k * (high / low).log(), high - low
    t, s = (e + ratio) / span, (ratio - e) / span
    up = upper(k, low * t) - e.exp() * upper(k, high * t)
    return [up, 1 - upper(k, high * s) - e.exp() * (1 - upper(k, low * s))] if s > 0 else [up]


def arb_shape_delta(*case: float) -> list[arb]:
    a, w, e = map(arb, case)
    step = (a + w).lgamma() - a.lgamma()
    x, y = ((e + step) / w).exp(), ((step - e) / w).exp()
    down = 1 - upper(a, y) - e.exp() * (1 - upper(a + w, y))
    return [upper(a + w, x) - e.exp() * upper(a, x), down]


def arb_beta_delta(*case: float) -> list[arb]:
    def one_way(a: arb, b: arb, w: arb, e: arb) -> arb:
        z = (e + (a + w).lgamma() + b.lgamma() - a.lgamma() - (b + w).lgamma()) / w
        s = 1 / (1 + z.exp())
        return s.beta_lower(b, a + w, regularized=1) - e.exp() * s.beta_lower(b + w, a, regularized=1)

    a, b, w, e = map(arb, case)
    return [one_way(a, b, w, e), one_way(b, a, w, e)]


@pytest.mark.parametrize("bottom", [0.01, 0.5, 8.0, 100.0, 300.0])
@pytest.mark.parametrize("kind", ["rate", "shape", "beta"])
def test_no_exact_curve_is_below_the_truth_where_two_tails_nearly_cancel(kind: str, bottom: float) -> None:
    """Thresholds up to eleven deviations out, where P - e^ε Q is e^-5 of P and a rounded tail would count 150 times."""
    rng, counted = np.random.default_rng(5), 0
    while counted < 100:
        first, second = (float(v) for v in bottom * 3 ** rng.uniform(0, 1.1, 2))
        deviations = float(rng.uniform(0.1, 10.5))
        spread = math.sqrt(first if kind == "rate" else 1 / min(first, second))
        step = deviations / spread * float(10 ** rng.uniform(-2.3, 0))  # from e^-5 of P on the difference is integrated
        e = deviations * step * spread
        case = {"rate": (first, 1.0, 1 + step), "shape": (first, step), "beta": (first, second, step)}[kind]
        pairs = {"rate": GammaRatePairs, "shape": GammaShapePairs, "beta": BetaPairs}[kind](*case)
        delta = {"rate": arb_rate_delta, "shape": arb_shape_delta, "beta": arb_beta_delta}[kind]
        with oracle.bits(500):
            truth = max(delta(*case, e), key=lambda ball: float(ball.mid()))
            if float(truth.mid()) < 1e-40 or truth.rel_accuracy_bits() < 60:
                continue
            gap = float(((arb(claim(pairs, e)) - truth) / truth).mid())
        assert 0 <= gap < 5e-9, (case, e)
        counted += 1


@pytest.mark.parametrize(
    ("a", "b", "step"), [(6.0, 12.0, 1.0), (0.3, 5.0, 0.7), (2000.0, 1e-6, 1.0), (40.0, 3.0, 1e-3), (1e9, 7.0, 50.0)]
)
def test_what_is_left_out_of_the_search_cannot_win(a: float, b: float, step: float) -> None:
    """Every number of others by itself, with nothing to leave out, and the supremum that looks at the ends first."""
    epsilon, others = np.array([0.0, 0.01, 0.3, 3.0, 30.0]), 80
    pairs, each = BetaPairs(a, b, step, others), np.arange(others + 1.0)
    truth = pairs._at(each, each, epsilon).max(axis=0)
    np.testing.assert_allclose(pairs.log_delta(epsilon), truth, rtol=1e-10)
    alone = BetaPairs(a + step * others, b, step).log_delta(epsilon)
    np.testing.assert_allclose(pairs._at(each[-1:], each[-1:], epsilon)[0], alone, rtol=1e-10)


@pytest.mark.parametrize("shape", [1e-3, 1e-4])
def test_a_calibrated_rate_keeps_its_promise_under_a_small_prior(shape: float) -> None:
    system, target = GammaPoisson(shape, 0.001, high=1), ApproxDP(1.0, 1e-6)
    diffused = DiffusedPosterior.calibrate(system, 100, target)
    assert 0.999999e-6 < shape_delta(shape, diffused.data_weight, 1.0) <= 1e-6
    concentrated = ConcentratedPosterior.calibrate(system, 100, target)
    assert 0.999999e-6 < shape_delta(shape * concentrated.prior_weight, 1.0, 1.0) <= 1e-6


def test_a_calibrated_proportion_keeps_its_promise_under_a_small_prior() -> None:
    system = BetaBernoulli(1e-4, 1e-4)
    mechanism = DiffusedPosterior.calibrate(system, 1, ApproxDP(0.0, 1e-3))
    assert 0.999999e-3 < beta_delta(1e-4, 1e-4, mechanism.data_weight, 0.0) <= 1e-3
    seen = DiffusedPosterior(system, 3, 0.25).with_known_records([1, 0])
    assert never_below(seen.profile.delta(0.5), beta_delta(0.2501, 0.2501, 0.25, 0.5))


def test_fractions_under_a_heavy_prior_are_calibrated() -> None:
    system = BetaBernoulli(0.0298, 0.3775, whole=False)
    weight = ConcentratedPosterior.calibrate(system, 2, ApproxDP(0.0, 5.17e-4)).prior_weight
    # Among so many prior records the posterior is normal: δ(0) = 2Φ(μ/2) - 1 with μ the step in standard deviations.
    a, b = 0.0298 * weight, 0.3775 * weight
    mu = math.sqrt(1 / a + 1 / b)
    assert math.erf(mu / 2 / math.sqrt(2)) == pytest.approx(5.17e-4, rel=1e-5)


EXTREMES = [5e-324, 1e-200, 1e-60, 1e-12, 1.0, 1e12, 1e60, 1e300]


@pytest.mark.parametrize("shape", EXTREMES)
def test_every_claim_is_a_probability_that_falls(shape: float) -> None:
    epsilon = np.array([0.0, 1e-300, 1e-12, 1e-3, 1.0, 30.0, 1e4, 1e300])
    kinds = [kind for step in EXTREMES for kind in (GammaShapePairs(shape, step), BetaPairs(shape, 1e-3, step))]
    for pairs in (*kinds, GammaRatePairs(shape, 1.0, 1.0 + 1e-9)):
        profile = LikelihoodRatioProfile((pairs,))
        delta, renyi = profile.delta(epsilon), profile.renyi(np.array([1.0, 1.5, 2.0, 1e9]))
        assert (delta >= 0).all() and (delta <= 1).all() and (delta[1:] <= delta[:-1]).all()
        assert (renyi >= 0).all()


def test_what_is_only_a_bound_says_so() -> None:
    assert LikelihoodRatioProfile((BetaPairs(1, 2, 0.5, 9),)).basis is Basis.EXACT
    assert LikelihoodRatioProfile((BetaPairs(1, 2, 0.5, 9, whole=False),)).basis is Basis.BOUND
    assert LikelihoodRatioProfile((GammaShapePairs(1e-200, 0.5),)).basis is Basis.BOUND
    assert claim(GammaShapePairs(1e-200, 0.5), 3.0) == 1.0


def gap(x: mp.mpf, h: mp.mpf, order: mp.mpf) -> mp.mpf:
    """The Rényi divergence of Gamma(x) from Gamma(x + h), from the definition."""
    return (mp.loggamma(x - (order - 1) * h) - mp.loggamma(x)) / (order - 1) + mp.loggamma(x + h) - mp.loggamma(x)


@pytest.mark.parametrize("near", [1e-1, 1e-6, 1e-11])
def test_renyi_curves_are_never_below_the_truth_near_the_pole(near: float) -> None:
    rng = np.random.default_rng(4)
    for _ in range(20):
        a, b, w = _log_uniform(rng, -6, 4), _log_uniform(rng, -6, 4), _log_uniform(rng, -9, 0)
        for pairs in (GammaShapePairs(a, w), BetaPairs(a, b, w), GammaRatePairs(a, b, b + w)):
            order = 1 + (pairs.pole - 1) * (1 - near)
            value = float(LikelihoodRatioProfile((pairs,)).renyi(order))
            truth = _renyi(pairs, mp.mpf(order))
            assert truth == mp.inf or never_below(value, truth, 1e-10), (pairs, order)


def _renyi(pairs: Pairs, order: mp.mpf) -> mp.mpf:
    match pairs:
        case GammaShapePairs(a, w):
            a, w = mp.mpf(a), mp.mpf(w)
            return gap(a, w, order) if a > (order - 1) * w else mp.inf
        case BetaPairs(a, b, w):
            a, b, w = [*sorted((mp.mpf(a), mp.mpf(b))), mp.mpf(w)]
            ways = [gap(p, w, order) + gap(q + w, -w, order) for p, q in ((a, b), (b, a)) if p > (order - 1) * w]
            return max(ways) if a > (order - 1) * w else mp.inf
        case GammaRatePairs(k, low, high):
            k, low, high = mp.mpf(k), mp.mpf(low), mp.mpf(high)
            mixed = order * low + (1 - order) * high
            if mixed <= 0:
                return mp.inf
            return k * (order * mp.log(low) + (1 - order) * mp.log(high) - mp.log(mixed)) / (order - 1)


def test_the_upper_tail_of_a_beta_keeps_its_digits() -> None:
    for a, b, x in [(1e-4, 3, 0.2), (2, 5, 1e-9), (3, 1e-3, 0.999), (0.5, 700, 0.4), (40, 2, 0.01)]:
        truth = mp.betainc(b, a, 0, 1 - mp.mpf(x), regularized=True)
        assert oracle.relative(Beta(a, b).sf(x), truth) < 1e-12


def test_the_trigamma_function_is_right_to_the_last_digits() -> None:
    with mp.workdps(40):
        for x in (1e-150, 1e-12, 0.3, 1.0, 9.999999, 10.0, 10.000001, 250.5, 1e9, 1e150):
            assert _trigamma(np.array([x]))[0] == pytest.approx(float(mp.psi(1, mp.mpf(x))), rel=2e-15)
