"""Bounds after a kernel are never below the exact privacy, which finite mechanisms and kernels give by brute force."""

import math
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import mpmath
import numpy as np
import pytest
from scipy import stats

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.laplace import LaplaceProfile
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.pure import PureProfile
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.theory.amplification import (
    FiniteKernel,
    Kernel,
    KernelChain,
    LaplaceIntervalKernel,
    TruncatedGaussianKernel,
    amplify,
    mixing,
    mixing_bounds,
    randomized_response,
)
from sottovoce.theory.amplification.kernel_chains import tilted

SOURCE = str(Path(__file__).parents[2] / "src")
EPSILONS = np.array([0.0, 0.05, 0.3, 1.0])
INTERVALS = [TruncatedGaussianKernel(0.7, -1.0, 2.0), TruncatedGaussianKernel(3.0), LaplaceIntervalKernel(0.4, 0, 3)]


def hockey_stick(p, q, epsilon):
    """Return the larger of the two directions at each ε; p and q are (..., k)."""
    size = np.exp(np.asarray(epsilon))[:, None]
    p, q = p[..., None, :], q[..., None, :]
    return np.maximum(np.maximum(p - size * q, 0).sum(-1), np.maximum(q - size * p, 0).sum(-1))


def renyi(p, q, order):
    with np.errstate(divide="ignore"):
        ways = [np.log(np.sum(a**order * b ** (1 - order), axis=-1, keepdims=True)) for a, b in ((p, q), (q, p))]
    return np.maximum(*ways) / (order - 1)


@dataclass(frozen=True)
class PairProfile(Profile):
    """The exact profile of a mechanism with two neighbouring outputs, both of full support."""

    word: ClassVar[str] = "test-pair"
    p: tuple[float, ...]
    q: tuple[float, ...]
    basis: Basis = field(default=Basis.EXACT, kw_only=True)

    def _log_delta(self, epsilon):
        with np.errstate(divide="ignore"):
            return np.log(hockey_stick(np.array(self.p), np.array(self.q), epsilon.ravel())).reshape(epsilon.shape)

    def _renyi(self, order):
        near = np.maximum(order, 1 + 1e-6)
        return renyi(np.array(self.p), np.array(self.q), near.ravel()[:, None])[:, 0].reshape(order.shape)

    def pure(self):
        return float(np.max(np.abs(np.log(np.array(self.p) / np.array(self.q)))))


def random_rows(rng, *shape):
    """Return probabilities of many characters, from nearly uniform to nearly certain."""
    rows = rng.gamma(10 ** rng.uniform(-1, 1.5, (*shape[:-1], 1)), size=shape) + 1e-9
    return rows / rows.sum(-1, keepdims=True)


def test_every_bound_holds_for_thousands_of_mechanisms_and_kernels():
    rng = seeded_rng(1)
    cases, k = 2500, 4  # a bound that is wrong for one pair in a thousand is missed once in twelve runs
    p, q, K = random_rows(rng, cases, k), random_rows(rng, cases, k), random_rows(rng, cases, k, k)
    some = rng.random((cases, k, k)) < 0.1
    K = np.where(some & (np.arange(k)[:, None] != np.arange(k)), 0.0, K)
    K /= K.sum(-1, keepdims=True)
    exact = hockey_stick(np.einsum("ck,cky->cy", p, K), np.einsum("ck,cky->cy", q, K), EPSILONS)
    each = [mixing_bounds(PairProfile(tuple(p[c]), tuple(q[c])), FiniteKernel(K[c]), EPSILONS) for c in range(cases)]
    bounds = {name: np.array([one[name] for one in each]) for name in each[0]}
    best = bounds["epsilon-dobrushin"]
    for name, bound in bounds.items():
        assert np.all(bound >= exact - 1e-14), name
        assert np.all(best <= bound * (1 + 1e-12) + 1e-15), name  # it implies the others
    assert np.any(best < 0.9 * bounds["ultra-mixing"], axis=1).sum() > cases / 2


def test_each_of_the_four_bounds_is_what_theorem_fifteen_says():
    """By mpmath, from the rows and the closed δ of randomized response: the theorem's letter, which is more than truth.

    Bounds that are merely valid would survive any constant that is too large.
    """
    rows = [[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.25, 0.25, 0.5]]
    kernel, level = FiniteKernel(rows), mpmath.mpf(2)

    def delta(epsilon):
        return max((mpmath.e**level - mpmath.e**epsilon) / (1 + mpmath.e**level), mpmath.mpf(0))

    def sticks(epsilon):
        pairs = [(p, q) for p in rows for q in rows]
        return max(sum(max(a - mpmath.e**epsilon * b, 0) for a, b in zip(p, q, strict=True)) for p, q in pairs)

    columns = list(zip(*rows, strict=True))
    total_variation, left = sticks(0), 1 - sum(min(column) for column in columns)
    ultra = 1 - min(min(column) / max(column) for column in columns)
    assert total_variation < left < ultra  # else one coefficient could stand for another
    points = [0.0, 0.1, 0.4]
    bounds = mixing_bounds(PureProfile(2.0), kernel, points)
    for k, point in enumerate(points):
        e, d = mpmath.mpf(point), delta(point)
        doeblin, mixing_source = (mpmath.log1p(mpmath.expm1(e) / gamma) for gamma in (left, ultra))
        expected = {
            "dobrushin": total_variation * d,
            "epsilon-dobrushin": sticks(mpmath.log1p(mpmath.expm1(e) / d)) * d,
            "doeblin": left * (1 - mpmath.e ** (e - doeblin) * (1 - delta(doeblin))),
            "ultra-mixing": ultra * delta(mixing_source) * mpmath.e ** (e - mixing_source),
        }
        for name, value in expected.items():
            assert bounds[name][k] == pytest.approx(float(value), rel=1e-9, abs=1e-14), name


def test_renyi_shrinks_by_dobrushins_coefficient_and_no_larger_one():
    """Where an output is impossible for one input there is no level, and what is left is Dobrushin's γ alone."""
    rows = np.array([[0.5, 0.5, 0.0], [0.1, 0.5, 0.4], [0.4, 0.2, 0.4]])
    gamma = max(np.abs(p - q).sum() / 2 for p in rows for q in rows)
    assert gamma < 1 - rows.min(axis=0).sum() - 0.01
    after = amplify(GaussianProfile(1.0), FiniteKernel(rows))
    for order in (1.5, 3.0):
        before = math.exp((order - 1) * order / 2)
        assert after.renyi(order) == pytest.approx(math.log1p(gamma * (before - 1)) / (order - 1), rel=1e-9)


def test_the_amplified_profile_holds_in_every_notion():
    rng = seeded_rng(2)
    strict = 0
    for _ in range(150):
        k = int(rng.integers(2, 5))
        p, q, K = random_rows(rng, k), random_rows(rng, k), random_rows(rng, k, k)
        before = PairProfile(tuple(p), tuple(q))
        after, out_p, out_q = amplify(before, FiniteKernel(K)), p @ K, q @ K
        truth = PairProfile(tuple(out_p), tuple(out_q))
        grid = np.linspace(0, 3, 13)
        assert np.all(after.delta(grid) >= truth.delta(grid) - 1e-14)
        assert np.all(after.delta(grid) <= before.delta(grid) * (1 + 1e-12))
        orders = np.array([1.0, 1.1, 2.0, 7.0])
        assert np.all(after.renyi(orders) >= truth.renyi(orders) * (1 - 1e-5) - 1e-9)
        assert np.all(after.renyi(orders) <= before.renyi(orders) * (1 + 1e-9))
        assert after.pure() >= truth.pure() * (1 - 1e-12)
        strict += after.pure() < 0.9 * before.pure()
    assert strict > 50


def test_tight_for_randomized_response_on_randomized_response():
    for first, second in ((1.0, 1.0), (0.3, 2.0), (4.0, 0.1)):
        both = KernelChain([randomized_response(2, first), randomized_response(2, second)])
        exact = PureProfile(-np.log1p(-both.ultra_mixing))
        after = amplify(PureProfile(first), randomized_response(2, second))
        assert after.pure() == pytest.approx(exact.level, rel=1e-10)
        # Also the TV distance is right.
        assert after.delta(0.0) == pytest.approx(exact.delta(0.0), rel=1e-10)


def test_dobrushin_is_tight_where_inputs_are_sure():
    K = FiniteKernel([[0.7, 0.2, 0.1], [0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    sure = PairProfile((1 - 2e-9, 1e-9, 1e-9), (1e-9, 1 - 2e-9, 1e-9))
    assert amplify(sure, K).delta(0.0) == pytest.approx(0.5, abs=1e-8)
    assert K.dobrushin == pytest.approx(0.5)


def test_chains_multiply_coefficients_and_products_are_tighter():
    rng = seeded_rng(5)
    for _ in range(50):
        a, b = FiniteKernel(random_rows(rng, 3, 4)), FiniteKernel(random_rows(rng, 4, 3))
        both = KernelChain([a, b])
        grid = np.linspace(0, 3, 7)
        assert both.dobrushin <= a.dobrushin * b.dobrushin + 1e-14
        assert both.doeblin <= a.doeblin * b.doeblin + 1e-14
        assert (
            both.ultra_mixing <= a.ultra_mixing * b.ultra_mixing / (1 - a.ultra_mixing * (1 - b.ultra_mixing)) + 1e-14
        )
        # `tilted` of the first one's curve is what a chain of unlike kernels goes by.
        with np.errstate(divide="ignore"):
            joined = a.spread(grid) * b.spread(tilted(grid, np.log(a.spread(grid))))
        assert np.all(both.spread(grid) <= joined + 1e-14)
        p, q = random_rows(rng, 3), random_rows(rng, 3)
        before = PairProfile(tuple(p), tuple(q))
        after = amplify(before, [a, b])
        truth = PairProfile(tuple(p @ a.matrix @ b.matrix), tuple(q @ a.matrix @ b.matrix))
        assert np.all(after.delta(grid) >= truth.delta(grid) - 1e-14)
        assert after.pure() >= truth.pure() * (1 - 1e-12)
        assert np.all(after.delta(grid) <= amplify(amplify(before, a), b).delta(grid) + 1e-14)


def test_a_chain_of_unlike_kernels_is_below_its_parts():
    mixed = KernelChain(INTERVALS[1:])
    for name in ("dobrushin", "doeblin", "ultra_mixing"):
        assert getattr(mixed, name) <= min(getattr(k, name) for k in INTERVALS[1:])
    after = amplify(LaplaceProfile(1.0), mixed)
    assert after.delta(0.0) < amplify(LaplaceProfile(1.0), INTERVALS[1]).delta(0.0)
    out = mixed.sample(np.linspace(0, 1, 50), seeded_rng(1))
    assert out.min() >= 0
    assert out.max() <= 3


def test_interval_kernels_amplify_a_clipped_gaussian_as_claimed():
    """The whole way on a fine grid: N(0.2, σ) or N(0.7, σ) clipped to [0, 1], then one kernel, then another."""
    first, second = TruncatedGaussianKernel(0.4), LaplaceIntervalKernel(0.3)
    cells = 400
    y = (np.arange(cells) + 0.5) / cells
    rows = []
    for kernel in (first, second):
        away = (y - y[:, None]) / kernel.scale
        raw = np.exp(-(away**2) / 2 if kernel is first else -np.abs(away))
        rows.append(raw / raw.sum(axis=1, keepdims=True))
    edges = np.concatenate([[-np.inf], y[:-1] + 0.5 / cells, [np.inf]])
    p, q = (np.diff(stats.norm.cdf(edges, mean, 0.5)) for mean in (0.2, 0.7))
    grid = np.linspace(0.0, 1.0, 6)
    for kernels, K in (([first], rows[0]), ([second], rows[1]), ([first, second], rows[0] @ rows[1])):
        truth = hockey_stick(p @ K, q @ K, grid)
        claimed = amplify(GaussianProfile(1.0), kernels).delta(grid)
        assert np.all(claimed >= truth - 1e-6)
        assert truth[0] > 0.1 * claimed[0]  # and not by a mile


@pytest.mark.parametrize("kernel", [*INTERVALS, randomized_response(3, 1.0), KernelChain(INTERVALS)], ids=repr)
def test_json_round_trip(kernel):
    assert Kernel.from_dict(kernel.to_dict()) == kernel
    after = amplify(GaussianProfile(1.0), kernel)
    again = Profile.from_json(after.to_json())
    assert again == after
    assert hash(again) == hash(after)
    assert again.delta(0.1) == after.delta(0.1)
    assert after.basis is Basis.BOUND


def test_amplified_profiles_compose_and_keep_the_weakest_basis():
    one = amplify(PureProfile(1.0, basis=Basis.CONVERGENCE), randomized_response(2, 1.0))
    two = one + GaussianProfile(0.1)
    assert two.basis is Basis.CONVERGENCE
    assert (one + one).pure() == pytest.approx(2 * one.pure())
    # It is tight, so that two of them are two rounds of randomized response at the amplified level.
    exact = 2 * PureProfile(one.pure())
    grid = np.linspace(0.05, 0.8, 6)
    assert np.all(exact.delta(grid) <= (one + one).delta(grid))
    assert (one + one).delta(grid) == pytest.approx(exact.delta(grid), abs=1e-4)


def test_the_amplified_curve_is_convex_as_compositions_need_it():
    grid = np.linspace(0, 1.5, 300)
    for kernel in (INTERVALS[0], KernelChain([TruncatedGaussianKernel(0.5), LaplaceIntervalKernel(0.7)])):
        delta = amplify(GaussianProfile(2.0), kernel).delta(grid)
        slopes = np.diff(delta) / np.diff(np.exp(grid))
        assert np.all(np.diff(slopes) >= -1e-9)


def test_a_kernel_that_forgets_everything_leaves_nothing():
    after = amplify(GaussianProfile(5.0), FiniteKernel([[0.5, 0.5]] * 3))
    assert after.delta(0.0) == 0
    assert after.pure() == 0
    assert after.renyi(2.0) == 0


def test_a_kernel_that_forgets_nothing_changes_nothing():
    before = LaplaceProfile(1.0)
    after = amplify(before, FiniteKernel(np.eye(3)))
    grid = np.linspace(0, 1.2, 7)
    assert after.delta(grid) == pytest.approx(before.delta(grid), rel=1e-12)
    assert after.pure() == before.pure()
    assert after.renyi(3.0) == pytest.approx(before.renyi(3.0), rel=1e-12)


@pytest.mark.parametrize("kernel", [TruncatedGaussianKernel(0.01), LaplaceIntervalKernel(0.001)], ids=repr)
def test_a_kernel_much_narrower_than_its_interval(kernel):
    """Levels in the thousands: nothing overflows, and next to nothing is gained."""
    spread = kernel.spread(np.array([0.0, 10.0, 900.0, kernel.level - 1, kernel.level + 1]))
    assert np.all(np.isfinite(spread))
    assert np.all(np.diff(spread) <= 0)
    assert spread[0] == pytest.approx(1, abs=1e-9)
    assert spread[-1] == 0
    after = amplify(PureProfile(2.0), kernel)
    assert after.pure() <= 2.0
    assert after.delta(1.0) == pytest.approx(PureProfile(2.0).delta(1.0), rel=1e-6)


def test_the_room_needs_neither_jax_nor_scikit_learn():
    code = "import sys, sottovoce.theory.amplification; sys.exit(any(m in sys.modules for m in ('jax', 'sklearn')))"
    assert (
        subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": SOURCE}, check=False).returncode
        == 0
    )


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: KernelChain([]), "at least one kernel"),
        (lambda: KernelChain([randomized_response(2, 1.0), randomized_response(3, 1.0)]), "cannot be followed"),
        (lambda: amplify("secret", randomized_response(2, 1.0)), "profile"),
        (lambda: mixing_bounds(PureProfile(1.0), randomized_response(2, 1.0), -1.0), "epsilon"),
    ],
)
def test_bad_input_is_refused(make, says):
    with pytest.raises(InvalidValue, match=says):
        make()


@pytest.mark.parametrize("gamma", [1e-300, 1e-200, 1e-6, 0.3, 1.0])
def test_the_level_before_is_finite_at_any_share(gamma):
    """By mpmath: a product that no double holds once made it infinite, and the claim δ = 0."""
    epsilon = np.array([0.0, 1e-12, 1e-6, 1.0, 400.0, 499.0, 501.0])
    with mpmath.workdps(60):
        truth = [float(mpmath.log1p(mpmath.expm1(mpmath.mpf(float(e))) / mpmath.mpf(gamma))) for e in epsilon]
    assert mixing._source(epsilon, gamma) == pytest.approx(truth, rel=1e-12, abs=1e-300)
