"""Noise on top of noise, against verified quadrature with many digits."""

import itertools

import numpy as np
import pytest
from flint import acb, arb, ctx

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.laplace import LaplaceProfile
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.theory.amplification import (
    IteratedLaplaceProfile,
    coupled_laplace_renyi,
    iterated_gaussian,
    lipschitz_gaussian,
)

CASES = [(1.0, 1.0, 1.0), (2.0, 0.5, 1.0), (1.0, 1.000001, 3.0), (0.05, 1.0, 2.0)]


@pytest.fixture(autouse=True)
def _digits():
    before, ctx.prec = ctx.prec, 128  # scales that nearly agree cost 20 bits
    yield
    ctx.prec = before


def density(first, second):
    """Return (6.3) as the thesis writes it, at a distance from the middle."""
    a, b = arb(first), arb(second)

    def at(x):
        if first == second:
            return (-x / a).exp() * (a + x) / (4 * a**2)
        one, two = (-x / a).exp(), (-x / b).exp()
        return ((1 / (a + b) + 1 / (a - b)) * one + (1 / (a + b) - 1 / (a - b)) * two) / 4

    return at


def rest(first, second):
    """Return the density times e^(x/scale) of the larger scale, arranged so that scales nearly alike cost no digits."""
    a, b = sorted((arb(first), arb(second)), key=float)

    def at(x):
        if first == second:
            return (a + x) / (4 * a**2)
        more = (x * (a - b) / (a * b)).expm1()
        return ((2 + more) / (a + b) + more / (a - b)) / 4

    return at


def integral(function, first, second, delta, start=None):
    """Return ∫ f(|x − Δ|, |x|, |x − Δ| − |x|), from everywhere or from a place on, enclosed to twelve digits."""
    tail, total = [max(first, second) * far for far in (1, 5, 20, 60, 150, 500)], arb(0)
    points = [*(-t for t in reversed(tail)), 0.0, delta, *(delta + t for t in tail)]
    for low, high in itertools.pairwise(points if start is None else [start, *(p for p in points if p > start)]):
        one, two = (-1 if high <= delta else 1), (-1 if high <= 0 else 1)

        def at(x, exact):
            near = one * (x - delta)
            return function(near, two * x, near - two * x if one != two else -one * delta, exact)

        total += acb.integral(at, acb(low), acb(high), rel_tol=arb(2) ** -64, abs_tol=arb(2) ** -100).real
    assert total.rel_accuracy_bits() > 40
    return total


@pytest.mark.parametrize(("first", "second", "delta"), CASES)
def test_density_is_the_thesis_one_and_that_of_the_sum(first, second, delta):
    profile, p = IteratedLaplaceProfile(first, second, delta), density(first, second)
    x = np.array([-3.0, -0.2, 0.0, 0.7, 5.0])
    assert np.exp(profile.log_density(x)) == pytest.approx([float(p(arb(abs(v)))) for v in x], rel=1e-12)
    assert float(integral(lambda near, x, apart, exact: p(x), first, second, delta)) == pytest.approx(1, abs=1e-12)
    rng = seeded_rng(1)
    noise = rng.laplace(scale=first, size=20_000) + rng.laplace(scale=second, size=20_000)
    assert np.mean(noise**2) == pytest.approx(2 * first**2 + 2 * second**2, rel=0.06)


@pytest.mark.parametrize(("first", "second", "delta"), CASES)
def test_delta_is_exact(first, second, delta):
    profile, p = IteratedLaplaceProfile(first, second, delta), density(first, second)
    for share in (0.0, 0.3, 0.9):
        epsilon = share * profile.pure()
        # Where the loss passes ε; how near hardly matters, as nothing is gained or lost there.
        start, high = delta / 2, delta + 500 * max(first, second)
        for _ in range(80 if epsilon else 0):
            middle = (start + high) / 2
            loss = (p(abs(arb(middle) - delta)) / p(arb(middle))).log()
            start, high = (middle, high) if loss < epsilon else (start, middle)
        lift = arb(epsilon).exp()
        exact = float(integral(lambda near, x, apart, exact: p(near) - lift * p(x), first, second, delta, start))
        assert float(profile.delta(epsilon) / exact - 1) == pytest.approx(0, abs=1e-10)
        assert profile.delta(epsilon) >= exact * (1 - 1e-13)


@pytest.mark.parametrize(("first", "second", "delta"), CASES)
def test_renyi_is_exact_and_below_the_coupling(first, second, delta):
    wide = arb(max(first, second))
    profile, g = IteratedLaplaceProfile(first, second, delta), rest(first, second)
    assert (g(arb(0.7)) * (-arb(0.7) / wide).exp()).overlaps(density(first, second)(arb(0.7)))
    for order in (1.5, 2.0, 10.0) if delta < 3 else (2.0, 2000.0):

        def mixed(near, x, apart, exact):
            return g(x) * (order * ((g(near) / g(x)).log(exact) - apart / wide) - x / wide).exp()

        exact = float(integral(mixed, first, second, delta).log() / (order - 1))
        assert exact * (1 - 1e-15) <= float(profile.exact_renyi(order)) <= exact * (1 + 1e-7)
        coupled = float(coupled_laplace_renyi(order, delta, first, second))
        assert profile.renyi(order) <= coupled
        assert coupled <= min(LaplaceProfile(first, delta).renyi(order), LaplaceProfile(second, delta).renyi(order))


def test_the_intermediate_point_is_the_best():
    for order in (1.2, 2.0, 30.0):
        scan, w = [], np.linspace(0, 1, 21)
        for step in (0.05, 0.005, 0.0005, 0.00005):  # everywhere, then around the best
            scan = [LaplaceProfile(1.0, v).renyi(order) + LaplaceProfile(0.6, 1 - v).renyi(order) for v in w]
            best = float(w[np.argmin(scan)])
            w = np.linspace(max(best - step, 0.0), min(best + step, 1.0), 21)
        assert float(coupled_laplace_renyi(order, 1.0, 1.0, 0.6)) == pytest.approx(min(scan), rel=1e-5)
        assert float(coupled_laplace_renyi(order, 1.0, 1.0, 0.6)) <= min(scan) * (1 + 1e-9)


def test_lemma_5_no_gain_in_pure_privacy():
    """The privacy loss climbs to Δ/max(λ₁, λ₂), however far out, and a gain remains at every other level."""
    for first, second, delta in CASES:
        profile, level = IteratedLaplaceProfile(first, second, delta), delta / max(first, second)
        far = np.array([10.0, 1e3, 1e6]) * max(first, second)
        loss = profile.log_density(far - delta) - profile.log_density(far)
        assert np.all(np.diff(loss) >= -1e-9)
        assert loss[-1] == pytest.approx(level, rel=1e-5)
        assert profile.pure() == profile.epsilon(0.0) == level
        assert np.isfinite(profile.log_delta(0.9999 * level))
        assert profile.delta(level) == 0
        # The bound (6.2) runs into the same wall.
        assert float(coupled_laplace_renyi(1e7, delta, first, second)) == pytest.approx(level, rel=1e-3)
        assert profile.delta(level / 2) < LaplaceProfile(max(first, second), delta).delta(level / 2)


def test_epsilon_inverts_delta_and_curves_are_monotone():
    profile = IteratedLaplaceProfile(1.0, 0.7, 2.0)
    for delta in (1e-8, 1e-3, 0.2):
        assert profile.delta(profile.epsilon(delta)) == pytest.approx(delta, rel=1e-6)
    orders = np.concatenate([[1.0], 1 + np.geomspace(1e-6, 1e7, 60)])
    curve = profile.renyi(orders)
    assert np.all(np.diff(curve) >= -1e-8)
    assert curve[-1] <= profile.pure()
    assert profile.zcdp() * orders[0] >= curve[0]
    assert np.all(profile.zcdp() * orders >= curve * (1 - 1e-9))
    grid = np.linspace(0, profile.pure(), 40)
    assert np.all(GaussianProfile(profile.gdp()).delta(grid) >= profile.delta(grid) - 1e-12)


def test_json_round_trip_and_zero_sensitivity():
    profile = IteratedLaplaceProfile(1.0, 0.7, 2.0)
    assert Profile.from_json(profile.to_json()) == profile
    none = IteratedLaplaceProfile(1.0, 1.0, 0.0)
    assert (none.delta(0.0), none.pure(), none.renyi(2.0)) == (0, 0, 0)


def test_iterated_gaussian_is_the_sum():
    assert iterated_gaussian(2.0, 3.0, 4.0) == GaussianProfile(0.4)


def test_lipschitz_kernel_is_tight_for_a_linear_map():
    """N(Lu, L²σ₁² + σ₂²) against N(Lv, …)."""
    for L in (0.3, 1.0, 2.5):
        profile = lipschitz_gaussian(1.0, 0.8, 1.1, L)
        assert profile.mu == pytest.approx(L / np.hypot(L * 0.8, 1.1), rel=1e-12)
        assert profile.mu < 1 / 0.8
        assert profile.basis is Basis.BOUND
    assert lipschitz_gaussian(1.0, 0.8, 1.1, 0.0).mu == 0


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: iterated_gaussian(1.0, 0.0, 1.0), "first is the size of a noise"),
        (lambda: iterated_gaussian(-1.0, 1.0, 1.0), "sensitivity"),
        (lambda: lipschitz_gaussian(1.0, 1.0, 1.0, -0.5), "lipschitz"),
        (lambda: IteratedLaplaceProfile(1.0, 0.0), "second"),
        (lambda: coupled_laplace_renyi(0.5, 1.0, 1.0, 1.0), "order"),
    ],
)
def test_bad_input_is_refused(make, says):
    with pytest.raises(InvalidValue, match=says):
        make()
