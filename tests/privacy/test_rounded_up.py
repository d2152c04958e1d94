"""Every closed claim is at least what it claims in real numbers, and hardly more: exact oracles, at the extremes.

The oracles share no code with the library: fractions, and mpmath with as many digits as the numbers are apart.
"""

from __future__ import annotations

import functools
import itertools
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from sottovoce.privacy.composition import compose
from sottovoce.privacy.concentrated import RenyiProfile, ZeroConcentratedProfile
from sottovoce.privacy.discrete_gaussian import DiscreteGaussianProfile
from sottovoce.privacy.errors import BudgetExceeded
from sottovoce.privacy.filter import PrivacyFilter
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.laplace import DiscreteLaplaceProfile, LaplaceProfile
from sottovoce.privacy.numbers import sqrt_up
from sottovoce.privacy.promises import ApproxDP, GaussianDP, PureDP, RenyiDP, ZeroConcentratedDP
from sottovoce.privacy.pure import ApproxProfile, BoundedRangeProfile, PureProfile
from sottovoce.privacy.renyi_conversion import _epsilon_at, _log_delta_at
from sottovoce.privacy.risk import hits
from sottovoce.privacy.rounding import product_up, root_of_squares

ULP = 2.0**-52
LEAST = 5e-324
LEVELS = [5e-324, 1e-320, 3e-308, 1e-300, 1e-160, 7e-100, 1e-20, 1e-9, 1e-5, 0.01, 0.1, 0.3, 0.7, 1.0, 1.1, 2.3]
LARGE = [5.7, 17.3, 36.9, 40.1, 100.3, 699.0, 701.0, 745.0, 1234.5]
ORDERS = [1.0, 1 + ULP, 1 + 1e-12, 1.0001, 1.1, 1.5, 2.0, 3.7, 10.0, 100.3, 1e6, 1e12]
PARTS = [0.0, 1e-300, 1e-9, 0.1, 0.5, 0.9, 1 - 1e-9, 1 - ULP]
DELTAS = [5e-324, 1e-300, 1e-20, 1e-6, 0.01, 0.3, 0.9, 0.999999, 1 - 2.0**-53]


@pytest.fixture(autouse=True)
def digits(request):
    """As many as one beside the least δ has, or beside the square of a smaller level."""
    cases = getattr(request.node, "callspec", None)
    level = cases.params.get("level", 0.0) if cases else 0.0
    with mp.workdps(340 if level > 1e-100 else 800):
        yield


def at_least(claim, truth, *, ulps, loose=0.0):
    """Assert that a claim is no lower than the truth, and above by so many last digits at most, or so much."""
    assert claim >= truth
    assert mp.mpf(claim) <= truth * (1 + ulps * mp.mpf(ULP)) + loose + 4 * mp.mpf(LEAST)


def coin(level, epsilon):
    """δ of randomized response, by e^-level: that of a large level is no trouble."""
    less = mp.exp(-level)
    return max(mp.mpf(0), (1 - mp.exp(epsilon - level)) / (1 + less))


def window(width, epsilon):
    return (1 - mp.exp((epsilon - width) / 2)) ** 2 / (1 - mp.exp(-width))


def divergence(order, losses, chances):
    if order == 1:
        return mp.fsum(p * loss for p, loss in zip(chances, losses, strict=True))
    moment = mp.fsum(p * mp.exp((order - 1) * loss) for p, loss in zip(chances, losses, strict=True))
    return mp.log(moment) / (order - 1)


def quantile(log_tail):
    """z with Φ(-z) = e^log_tail."""
    if log_tail > -12:
        return -mp.sqrt(2) * mp.erfinv(2 * mp.exp(log_tail) - 1)
    return mp.findroot(lambda z: mp.log(mp.erfc(z / mp.sqrt(2)) / 2) - log_tail, mp.sqrt(-2 * log_tail) - 0.3)


def by_counts(scale, steps):
    """Losses and chances of discrete Laplace noise."""
    return _by_counts(scale, steps, mp.mp.dps)


@functools.cache  # the same at every order and every ε
def _by_counts(scale, steps, digits):
    del digits
    t = 1 / mp.mpf(scale)
    chances = [mp.exp(-t * k) * mp.tanh(t / 2) for k in range(steps + 1)]
    chances[0], chances[-1] = 1 / (1 + mp.exp(-t)), mp.exp(-t * steps) / (1 + mp.exp(-t))
    return [t * (steps - 2 * k) for k in range(steps + 1)], chances


@pytest.mark.parametrize("b", [5e-324, 1e-160, 0.1, 0.7, 1.0, 3.0, 1e6, 1e300])
def test_products_round_up_by_less_than_a_digit(b):
    some = [*LEVELS, *LARGE, 1e100, 1e149, 1e300]
    together, by_one = product_up(np.array([*some, 0.0]), b).tolist(), product_up(np.array(some), 1.0).tolist()
    assert together.pop() == 0
    for a, many, same in zip(some, together, by_one, strict=True):
        exact, found = Fraction(a) * Fraction(b), product_up(a, b)
        assert found >= exact > math.nextafter(found, 0.0)
        assert many >= exact
        assert many == math.inf or math.nextafter(math.nextafter(many, 0.0), 0.0) < exact
        assert product_up(a, 0.0) == 0
        assert same == a or not 1e-250 < a < 1e290


@pytest.mark.parametrize("scale", [1e-310, 1e-300, 1e-160, 1e-3, 1.0, 1e3, 1e140])
def test_roots_of_squares_round_up_by_less_than_a_digit(scale):
    for terms in ([(1, 3.0), (1, 4.0)], [(7, 0.1), (1, 1e-9)], [(10**12, 0.3)], [(2, 1.0)]):
        scaled = [(k, x * scale) for k, x in terms]
        exact = sum(k * Fraction(x) ** 2 for k, x in scaled)
        found = root_of_squares(scaled)
        assert Fraction(found) ** 2 >= exact > Fraction(math.nextafter(found, 0.0)) ** 2
        assert compose([GaussianProfile(x) for _, x in scaled], [k for k, _ in scaled]).gdp() == found
    assert sqrt_up(Fraction(0)) == 0
    assert root_of_squares([(1, math.inf)]) == math.inf


@pytest.mark.parametrize("level", [*LEVELS, *LARGE, 1e5, 1e100, 1e140])
def test_levels_round_up(level):
    exact = mp.mpf(level)
    at_least(PureProfile(level).zcdp(), exact * mp.tanh(exact / 2), ulps=16)
    at_least(BoundedRangeProfile(level).zcdp(), exact**2 / 8, ulps=4)
    at_least(GaussianProfile(level).zcdp(), exact**2 / 2, ulps=4)
    at_least(LaplaceProfile(1.0, level).zcdp(), exact - 1 + mp.exp(-exact) if level < 1e5 else exact - 1, ulps=80)
    for order in ORDERS:
        at_least(ZeroConcentratedProfile(level).renyi(order), mp.mpf(order) * exact, ulps=4)
        # A ρ that is no double is told as the least there is, and that times the order.
        loose = 0.0 if level > 1e-140 else order * LEAST
        at_least(GaussianProfile(level).renyi(order), mp.mpf(order) * exact**2 / 2, ulps=8, loose=loose)


@pytest.mark.parametrize("level", [x for x in [*LEVELS, *LARGE] if x > 1e-100])
def test_gaussian_levels_round_up(level):
    with mp.workdps(60 if level > 1e-10 else 260):
        tail = -level - mp.log1p(mp.exp(-mp.mpf(level)))
        at_least(PureProfile(level).gdp(), 2 * quantile(tail), ulps=80)
        at_least(LaplaceProfile(1.0, level).gdp(), 2 * quantile(-mp.mpf(level) / 2 - mp.log(2)), ulps=80)
        for steps in (1, 2, 7):
            claim = DiscreteLaplaceProfile(steps / level, steps)
            t = 1 / mp.mpf(claim.scale)
            knots = (steps + 1) // 2, steps + 1 - (steps + 1) // 2
            truth = mp.fsum(quantile(-t * k - mp.log1p(mp.exp(-t))) for k in knots)
            at_least(claim.gdp(), truth, ulps=80)


@pytest.mark.parametrize("level", [*LEVELS, *LARGE])
def test_curves_of_delta_round_up(level):
    top = mp.mpf(level)
    for part in PARTS:
        epsilon = level * part
        if epsilon >= level:
            continue
        at = mp.mpf(epsilon)
        for profile, truth in (
            (PureProfile(level), coin(top, at)),
            (BoundedRangeProfile(level), window(top, at)),
            (LaplaceProfile(1.0, level), 1 - mp.exp((at - top) / 2)),
        ):
            found, log = profile.log_delta(epsilon), mp.log(truth)
            assert log <= found
            assert found <= log * (1 - 16 * ULP) + 64 * ULP or level < 1e-305
            at_least(profile.delta(epsilon), truth, ulps=2e4)  # of a logarithm near -700 the last digits are coarse
        for slack in (1e-300, 1e-20, 1e-6, 0.3, 0.99):
            truth = slack + (1 - mp.mpf(slack)) * coin(top, at)
            at_least(ApproxProfile(level, slack).delta(epsilon), truth, ulps=2e4)
        if 1e-300 < level < 1e3:
            for steps in (1, 2, 7):
                claim = DiscreteLaplaceProfile(steps / level, steps)
                losses, chances = by_counts(claim.scale, steps)
                truth = mp.fsum(max(mp.mpf(0), p - p * mp.exp(at - x)) for x, p in zip(losses, chances, strict=True))
                if epsilon < claim.pure():
                    at_least(claim.delta(epsilon), truth, ulps=2e4, loose=4e-15 * level)


@pytest.mark.parametrize("level", [*LEVELS, *LARGE])
def test_curves_of_epsilon_round_up(level):
    top, digit = mp.mpf(level), math.ulp(level)
    for delta in DELTAS:
        d = mp.mpf(delta)
        share = mp.sqrt(d * (1 - mp.exp(-top)))
        for profile, truth in (
            (PureProfile(level), top + mp.log(inside) if (inside := 1 - d * (1 + mp.exp(-top))) > 0 else -1),
            (BoundedRangeProfile(level), top + 2 * mp.log(1 - share) if share < 1 else -1),
            (LaplaceProfile(1.0, level), top + 2 * mp.log(1 - d)),
        ):
            found, truth = profile.epsilon(delta), max(truth, mp.mpf(0))
            assert truth <= found <= level
            lost = 40 * digit + 64 * ULP * share * (1 - mp.log(share))  # δ comes as a logarithm
            assert found <= truth + lost or share > 0.99 or delta > 0.99


@pytest.mark.parametrize("level", [x for x in [*LEVELS, *LARGE] if x < 800])
def test_divergences_round_up(level):
    for order in ORDERS:
        if level * order > 1e5:
            continue
        with mp.workdps(1400 if level < 1e-250 else mp.mp.dps):
            top, rate = mp.mpf(level), mp.mpf(order)
            loose = order * LEAST if level < 1e-140 else 0.0
            head = 1 / (1 + mp.exp(-top))
            truth = divergence(rate, [top, -top], [head, 1 - head])
            at_least(PureProfile(level).renyi(order), truth, ulps=200, loose=loose)
            up, down = rate / (2 * rate - 1), (rate - 1) / (2 * rate - 1)
            moment = up * mp.exp((rate - 1) * top) + down * mp.exp(-rate * top)
            truth = top - 1 + mp.exp(-top) if order == 1 else mp.log(moment) / (rate - 1)
            at_least(LaplaceProfile(1.0, level).renyi(order), truth, ulps=200, loose=loose)
            if level > 1e-300:
                for steps in (1, 2, 7):
                    claim = DiscreteLaplaceProfile(steps / level, steps)
                    truth = divergence(rate, *by_counts(claim.scale, steps))
                    at_least(claim.renyi(order), truth, ulps=200, loose=loose)


@pytest.mark.parametrize("width", [1e-12, 1e-9, 1e-5, 9e-4, 1.1e-3, 0.01, 0.3, 1.0, 5.7, 36.9, 300.0, 701.0])
def test_divergences_of_a_window_round_up(width):
    for order in [1.0, *ORDERS[2:], 1.01, 1.3, 50.0, 1e4]:
        with mp.workdps(120):
            top, gap = mp.mpf(width), mp.mpf(order) - 1
            # The worst window, where the derivative of the moment is zero.
            v = mp.log((1 + 1 / gap) * mp.expm1(-top * gap) / mp.expm1(-top * (gap + 1))) if gap else None
            v = mp.log(top / -mp.expm1(-top)) if v is None else v
            heads = mp.expm1(-v) / mp.expm1(-top)
            truth = divergence(mp.mpf(order), [top - v, -v], [heads, 1 - heads])
            at_least(BoundedRangeProfile(width).renyi(order), truth, ulps=200)


@pytest.mark.parametrize("mu", [1e-8, 1e-3, 0.9, 5.6, 30.0])
def test_the_gaussian_curve_rounds_up(mu):
    for epsilon in (0.0, 1e-8 * mu, 0.01 * mu, mu, mu * mu / 2, 6 * mu, 20 * mu):
        with mp.workdps(60 + int((epsilon / mu + mu) ** 2 / 4)):
            m, e = mp.mpf(mu), mp.mpf(epsilon)
            a, b = (e / m - m / 2) / mp.sqrt(2), (e / m + m / 2) / mp.sqrt(2)
            truth = mp.log((mp.erfc(a) - mp.exp(e) * mp.erfc(b)) / 2)
            claim = GaussianProfile(mu).log_delta(epsilon)
            assert truth <= claim <= truth + 200 * ULP * (1 - truth)


@pytest.mark.parametrize("values", [(0.1, 0.2, 0.3), (1e-300, 1.0), (1e100, 7e-100, 3.3)])
@pytest.mark.parametrize("counts", [(1, 1, 1), (7, 10**12, 3)])
def test_sums_round_up_by_less_than_a_digit(values, counts):
    terms = list(zip(counts, values, strict=False))
    exact = sum(k * Fraction(x) for k, x in terms)
    for made, told in ((PureProfile, "pure"), (ZeroConcentratedProfile, "zcdp")):
        found = getattr(compose([made(x) for _, x in terms], [k for k, _ in terms]), told)()
        assert found >= exact > math.nextafter(found, 0.0)


def test_a_sum_of_divergences_and_a_chord_round_up():
    for order in (1.0, 1.3, 2.0, 77.0):
        parts = [PureProfile(x) for x in (0.1, 0.7, 1e-9)]
        claim = compose(parts, [3, 7, 11]).renyi(order)
        exact = sum(k * Fraction(float(p.renyi(order))) for k, p in zip((3, 7, 11), parts, strict=True))
        assert exact <= claim <= exact * (1 + 16 * Fraction(ULP))
    orders, values = (1 + 1e-6, 1.09, 8.6), (4.9e-5, 5.1e-3, 1.1)
    for order in np.linspace(1.05, 8.5, 40):
        k = 1 if order < orders[1] else 2
        a, b, g = (Fraction(float(x)) - 1 for x in (orders[k - 1], orders[k], order))
        low, high = a * Fraction(values[k - 1]), b * Fraction(values[k])
        exact = min((low + (high - low) * (g - a) / (b - a)) / g, Fraction(values[k]))
        found = float(RenyiProfile(orders, values).renyi(order))
        assert exact <= found <= exact * (1 + 64 * Fraction(ULP))


@pytest.mark.parametrize("epsilon", [0.0, 5e-324, 1e-300, 0.1, 1.0, math.pi, 50.0, 800.0])
def test_one_pair_keeps_itself(epsilon):
    for delta in (5e-324, 1e-300, 1e-17, 1e-6, 0.1, 0.3, 0.7, 0.99, 1 - 2.0**-53):
        profile = ApproxProfile(epsilon, delta)
        assert profile.epsilon(delta) == epsilon
        assert profile.epsilon([delta, delta]).tolist() == [epsilon, epsilon]
        assert profile.delta(epsilon) == delta
        assert profile.satisfies(ApproxDP(epsilon, delta))
        assert not profile.satisfies(ApproxDP(epsilon, math.nextafter(delta, 0.0)))
        if epsilon > 1e-300:
            assert not profile.satisfies(ApproxDP(epsilon * (1 - 1e-12), delta)) or epsilon > 700


@pytest.mark.parametrize("budget", [0.1, 0.3, 0.7, 1.0, 1.1, math.pi, 3.0, 1e-9, 1e9])
def test_a_budget_pays_for_itself_and_no_more(budget):
    for promise, profile in (
        (PureDP(budget), PureProfile(budget)),
        (ZeroConcentratedDP(budget), ZeroConcentratedProfile(budget)),
        (GaussianDP(budget), GaussianProfile(budget)),
        (RenyiDP(2.0, budget), RenyiProfile((2.0,), (budget,))),
    ):
        purse = PrivacyFilter(promise)
        assert profile.satisfies(promise)
        purse.spend(profile)
        assert purse.remaining() == type(promise)(*[*promise.to_dict().values()][1:-1], 0.0)
        with pytest.raises(BudgetExceeded):
            purse.spend(GaussianProfile(1e-6) if isinstance(promise, GaussianDP | ZeroConcentratedDP) else profile)
    thrice = PrivacyFilter(PureDP(3.0))
    for _ in range(3):
        thrice.spend(PureProfile(1.0))
    assert thrice.remaining() == PureDP(0.0)


@pytest.mark.parametrize("mu", [0.1, 0.3, 1.1, math.pi])
def test_squares_of_a_gaussian_budget_never_add_up_to_more(mu):
    """Costs are rounded up and the limit down, so that what was spent is below μ² in real numbers."""
    purse, spent = PrivacyFilter(GaussianDP(mu)), Fraction(0)
    while purse.can_spend(one := GaussianProfile(mu / 3)):
        purse.spend(one)
        spent += Fraction(one.mu) ** 2
    assert spent <= Fraction(mu) ** 2
    rest = purse.remaining()
    assert spent + Fraction(rest.mu) ** 2 <= Fraction(mu) ** 2
    purse.spend(GaussianProfile(rest.mu))
    assert PrivacyFilter(GaussianDP(1e-200)).can_spend(GaussianProfile(1e-200)) is False  # of which no square is told


@pytest.mark.parametrize("chance", [0.0, 1e-300, 1e-260, 1e-9, 0.05, 0.5, 0.99])
@pytest.mark.parametrize("delta", [0.0, 1e-12, 0.3])
def test_chances_of_a_promise_round_up(chance, delta):
    for epsilon in (0.0, 1e-9, 0.3, 1.0, 20.0, 598.0, 690.0):
        e, d, a = mp.mpf(epsilon), mp.mpf(delta), mp.mpf(chance)
        truth = min(mp.exp(e) * a + d, 1 - mp.exp(-e) * (1 - d - a), mp.mpf(1))
        found = hits(epsilon, delta, chance)
        assert truth <= found <= truth * (1 + mp.mpf(1e-15) * (8 - mp.log(max(a, mp.mpf(1e-300))) + e))


@pytest.mark.parametrize("divergence", [1e-290, 1e-100, 1e-9, 0.3, 1.1, 30.0, 700.0])
def test_conversions_of_one_order_round_up(divergence):
    r = mp.mpf(divergence)
    for order, given in itertools.product((1 + 1e-4, 1.3, 2.0, 40.0, 1e6), (1e-290, 1e-9, 0.3, 1.0, 50.0, 700.0)):
        rate, e = mp.mpf(order), mp.mpf(given)
        gap = rate - 1
        tail = gap * (r - e) + gap * mp.log(1 - 1 / rate) - mp.log(rate)
        moment = mp.log(mp.expm1(gap * r)) - mp.log(rate) - mp.log(mp.expm1(gap * e))
        apart = mp.log(1 - mp.exp(-r)) / 2
        found = float(_log_delta_at(np.array(divergence), np.array(order), np.array(given)))
        assert min(tail, moment, apart) <= found or math.isclose(found, 0.0)
        d = -e
        tail = r + mp.log(1 - 1 / rate) - (d + mp.log(rate)) / gap
        moment = mp.log(1 + mp.expm1(gap * r) / rate * mp.exp(-d)) / gap
        least = 0 if apart <= d else max(min(tail, moment), 0)
        assert least <= max(float(_epsilon_at(np.array(divergence), np.array(order), np.array(-given))), 0.0)


@pytest.mark.parametrize("scale", [0.3, 1.7, 20.0])
def test_lines_of_discrete_noise_round_up(scale):
    claim = DiscreteGaussianProfile(scale, 3, 2)
    for order in (1.0, 2.0, 17.0, 1e6):  # of whole orders the curve touches its line
        exact = Fraction(order) * 2 * 9 / (2 * Fraction(scale) ** 2)
        assert exact <= Fraction(claim.renyi(order)) <= exact * (1 + Fraction(1, 10**13)) or order == 1.0
