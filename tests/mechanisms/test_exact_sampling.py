"""Exactly rounded samples: cells as often as their law says, tails within reach, claims kept by the bits."""

from __future__ import annotations

import functools
import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from sottovoce.mechanisms import DiffusedPosterior, DirectPosterior, TemperedPosterior
from sottovoce.mechanisms.ball_arithmetic import ball_function
from sottovoce.mechanisms.conjugate import (
    BetaBernoulli,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    NormalMean,
)
from sottovoce.mechanisms.conjugate.exact_posteriors import BetaLaw, DirichletLaw, GammaLaw, NormalLaw
from sottovoce.mechanisms.exact_sampling import cells_of, draw, samples
from sottovoce.mechanisms.lazy_uniform import LazyUniform, find_cell
from sottovoce.mechanisms.rounding_cells import EvenCells, FloatingCells, SignedCells, UnitCells, exact
from sottovoce.privacy.randomness import secure_rng, seeded_rng

Q = Fraction

COARSE = {
    "beta": (BetaLaw(Q(5, 2), Q(9, 7)), UnitCells(3, -6)),
    "beta of little prior": (BetaLaw(Q(1, 20), Q(1, 3)), UnitCells(3, -9)),
    "beta, a million": (BetaLaw(Q(400_000.3), Q(600_000)), EvenCells(-12)),
    "gamma": (GammaLaw(Q(7, 3), Q(3, 2)), FloatingCells(3, -4)),
    "normal": (NormalLaw(Q(1, 3), Q(2)), EvenCells(-1)),
    "truncated beta": (BetaLaw(Q(5, 2), Q(9, 7), Q(1, 10), Q(9, 10)), UnitCells(3, -6)),
    "truncated gamma": (GammaLaw(Q(30), Q(3), Q(1), Q(5)), FloatingCells(4, -4)),
    "truncated normal, far out": (NormalLaw(Q(0), Q(1), Q(8), Q(9)), EvenCells(-5)),
}


def mpf(x):
    return mpmath.mpf(x.numerator) / x.denominator


def distribution(law, x):
    """Pr[θ <= x] by mpmath's functions, of the law without ends."""
    x = mpf(Fraction(x))
    match law:
        case BetaLaw(a, b):
            if a > 1000:  # mpmath takes minutes; SciPy's is by other people too
                return mpmath.mpf(float(stats.beta.cdf(float(x), float(a), float(b))))
            return mpmath.betainc(mpf(a), mpf(b), 0, min(max(x, 0), 1), regularized=True)
        case GammaLaw(k, r):
            return mpmath.gammainc(mpf(k), 0, max(x, 0) * mpf(r), regularized=True)
        case NormalLaw(c, v):
            return mpmath.ncdf((x - mpf(c)) / mpmath.sqrt(mpf(v)))


def oracle(law, x):
    """Pr[θ <= x] within the ends of the law."""
    low, high = law.low, law.high
    if low is not None and x <= low:
        return mpmath.mpf(0)
    if high is not None and x >= high:
        return mpmath.mpf(1)
    first = 0 if low is None else distribution(law, low)
    last = 1 if high is None else distribution(law, high)
    return (distribution(law, x) - first) / (last - first)


@pytest.mark.parametrize("name", COARSE)
def test_a_draw_lies_in_the_very_cell_of_its_uniform_number(name):
    """F(edge k) <= U < F(edge k+1) for each draw, so that cells come as often as their law says, U being uniform."""
    law, cells = COARSE[name]
    rng, function = secure_rng(), ball_function(law)
    at = functools.cache(lambda k: oracle(law, exact(cells.edge(k))))
    with mpmath.workdps(40):
        for _ in range(25 if "million" in name else 150):
            uniform = LazyUniform(rng)
            k = find_cell(function, cells, uniform)
            unit = mpmath.mpf(2) ** -uniform.bits
            assert at(k) <= (uniform.value + 1) * unit
            assert uniform.value * unit <= at(k + 1)


@pytest.mark.parametrize(
    "bits", [None, *(getattr(np.random, kind) for kind in ("MT19937", "Philox", "SFC64", "PCG64"))]
)
def test_a_lazy_uniform_number_is_uniform_in_every_byte(bits):
    source = secure_rng() if bits is None else np.random.Generator(bits(7))
    drawn = np.array([list(LazyUniform(source).value.to_bytes(8, "big")) for _ in range(4096)])
    for byte in drawn.T:
        assert stats.chisquare(np.bincount(byte, minlength=256)).pvalue > 1e-9
    more = LazyUniform(secure_rng())
    first = more.value
    more.refine()
    assert (more.value >> 64, more.bits) == (first, 128)  # bits to come never change those that were used


@pytest.mark.parametrize("name", [name for name in COARSE if "million" not in name])
def test_balls_hold_the_truth_and_are_narrow(name):
    law, cells = COARSE[name]
    function = ball_function(law)
    for k in [cells.index(Q(x)) for x in (0.03, 0.2, 0.4, 0.77, 1.9, 8.3)]:
        edge = exact(cells.edge(k))
        if (law.low is not None and edge <= law.low) or (law.high is not None and edge >= law.high):
            continue
        found = function(edge, 160)
        with mpmath.workdps(60):
            truth = oracle(law, edge)
            middle, radius = mpmath.mpf(found.mid().str(60, radius=False)), mpmath.mpf(float(found.rad()))
            assert abs(middle - truth) <= radius + mpmath.mpf(10) ** -50
        assert radius < 2**-100


class Bits:
    """Bits as written, then zeros and ones in turn."""

    def __init__(self, text: str) -> None:
        self.text = text

    def bytes(self, length: int) -> bytes:
        head, self.text = self.text[: 8 * length], self.text[8 * length :]
        return int(head.ljust(8 * length, "01"[len(head) % 2]) or "0", 2).to_bytes(length, "big")


@pytest.mark.parametrize("zeros", [60, 64, 200])
@pytest.mark.parametrize("law", [BetaLaw(Q(7), Q(9)), GammaLaw(Q(5), Q(2)), NormalLaw(Q(0), Q(1), spread=1.0)])
def test_a_crafted_uniform_reaches_either_far_tail(law, zeros):
    """U = 0.00…01 and its mirror image: Pr[θ <= what comes] is 2⁻⁶⁰ and less, and no double uniform gets there."""
    low = draw(law, Bits("0" * zeros + "1"))
    high = draw(law, Bits("1" * zeros + "0"))
    with mpmath.workdps(120):
        chance = oracle(law, Fraction(low))
        assert mpmath.mpf(2) ** -(zeros + 3) <= chance <= mpmath.mpf(2) ** -(zeros - 2)
        beyond = 1 - oracle(law, Fraction(high))
        assert mpmath.mpf(2) ** -(zeros + 3) <= beyond <= mpmath.mpf(2) ** -(zeros - 2)


def test_a_draw_beyond_all_doubles_leaves_as_the_largest():
    assert draw(GammaLaw(Q(10**5), Q(1, 10**308)), secure_rng()) == np.finfo(float).max
    cells = SignedCells()
    assert cells.value(cells.index(-Q(10**400))) == -np.finfo(float).max


def test_shares_of_very_many_records_above_a_floor():
    """Far above its floor a Dirichlet has the moments that it has without one."""
    alpha = 10**9
    theta = samples(DirichletLaw((Q(alpha),) * 3, Q(1, 10)), 40, secure_rng())
    deviation = (2 / 9 / (3 * alpha + 1)) ** 0.5
    z = (theta - 1 / 3) / deviation
    assert np.abs(z.mean(axis=0)).max() < 6 / 40**0.5  # by chance once in 10⁸ runs
    assert 0.3 < (z**2).mean() < 2.2


def test_a_uniform_on_an_edge_asks_for_more_bits():
    """U agrees with F(1/2) = 1/2 for 300 bits: the answer waits for the bit that tells."""
    law, cells = BetaLaw(Q(3), Q(3)), UnitCells(3, -6)
    half = cells.index(Q(1, 2) - Q(1, 1000)) + 1
    assert find_cell(ball_function(law), cells, LazyUniform(Bits("1" + "0" * 300 + "1"))) == half
    assert find_cell(ball_function(law), cells, LazyUniform(Bits("0" + "1" * 300 + "0"))) == half - 1


@pytest.mark.parametrize("cells", [EvenCells(-3), FloatingCells(4, -6), UnitCells(4, -6), SignedCells(4, -6)])
def test_cells_cover_their_range_in_order(cells):
    first, last = cells.ends
    numbers = range(-60 if first is None else first, 70 if last is None else last)
    for k in numbers:
        low, high = exact(cells.edge(k)), exact(cells.edge(k + 1))
        assert low < high
        assert cells.index((low + high) / 2) == k
        assert low < cells.middle(k) < high
        assert cells.value(k) == float(cells.middle(k))
        assert cells.round(np.array([cells.value(k)]))[0] == cells.value(k)


def test_a_floored_dirichlet_has_the_shares_of_its_density():
    """Chances of eight corners of the triangle, by summing the density over a fine mesh."""
    for alpha, floor in [((2.5, 1.5, 4.0), 0.1), ((0.4, 0.7, 0.3), 0.05)]:
        law = DirichletLaw(tuple(map(Fraction, alpha)), Fraction(floor))
        theta = samples(law, 250, secure_rng())
        assert theta.min() >= floor
        assert np.abs(theta.sum(axis=1) - 1).max() < 1e-12
        mesh = floor + (np.arange(300) + 0.5) / 300 * (1 - 3 * floor)
        a, b = np.meshgrid(mesh, mesh)
        c = 1 - a - b
        inside = c >= floor
        powers = zip((a, b, np.where(inside, c, 1.0)), alpha, strict=True)
        weight = inside * np.prod([x ** (power - 1) for x, power in powers], axis=0)
        middle = [float((weight * part).sum() / weight.sum()) for part in (a, b, c)]
        code = (a > middle[0]) * 4 + (b > middle[1]) * 2 + (c > middle[2])
        expected = np.bincount(code.ravel(), weight.ravel(), 8) / weight.sum() * len(theta)
        seen = np.bincount((theta > middle) @ [4, 2, 1], minlength=8)
        kept = expected > 5
        assert stats.chisquare(seen[kept], expected[kept] * seen[kept].sum() / expected[kept].sum()).pvalue > 1e-9


def claims():
    """Mechanisms with random numbers, small and large; every law of a release must keep its claim, cell by cell."""
    rng = np.random.default_rng(15)
    for k in range(3):
        a, b, w, n = *(10.0 ** rng.uniform(-1, 2, 2)), float(rng.uniform(0.05, 1)), int(rng.integers(1, 50))
        yield f"beta {k}", DiffusedPosterior(BetaBernoulli(a, b), n, w)
        yield f"dirichlet {k}", DiffusedPosterior(DirichletCategorical([a, b, a + b]), n, w)
        yield f"poisson {k}", DiffusedPosterior(GammaPoisson(a, b, high=3), n, w)
        yield f"exponential {k}", DiffusedPosterior(GammaExponential(a, b, high=0.7), n, w)
        yield f"normal {k}", DiffusedPosterior(NormalMean(a, b, prior_mean=0.1, bounds=(-0.3, 1.1)), n, w)
        yield f"tempered {k}", TemperedPosterior(BetaBernoulli(a, b), n, 1 + 3 * w, 0.07)
        yield f"tempered gamma {k}", TemperedPosterior(GammaPoisson(1 + a, b, high=3), n, 1 + 3 * w, (0.2, 4.0))
    for small, large in ((1e-6, 1e9), (1e9, 1e-6), (1e9, 1e9), (1e-6, 1e-6)):
        if small <= large:  # the other way round is the same by symmetry, and its claim takes long to compute
            yield f"beta {small:g}, {large:g}", DirectPosterior(BetaBernoulli(small, large), 3)
        yield f"poisson {small:g}, {large:g}", DirectPosterior(GammaPoisson(small, large, high=2), 3)
        yield f"exponential {small:g}, {large:g}", DirectPosterior(GammaExponential(small, large, high=1e-6), 3)
        yield f"normal {small:g}, {large:g}", DirectPosterior(NormalMean(small, large, bounds=(1e9, 1e9 + 1)), 3)


CLAIMS = dict(claims())


@pytest.mark.parametrize("name", CLAIMS)
def test_the_discrete_law_keeps_the_claim_in_ball_arithmetic(name):
    """Every coarse cell's exact chance under both neighbours: Σ (P - e^ε Q)₊ <= δ(ε), with no tolerance at all.

    A coarse cell is made of the cells of a release, so that this is a bound below for the release itself.
    """
    from flint import arb

    from sottovoce.mechanisms.ball_arithmetic import precision

    mechanism = CLAIMS[name]
    epsilons = (0.0, 0.1, 0.7, 2.0)
    delta = mechanism.profile.delta(np.array(epsilons))
    for pair in mechanism.system.worst_data(mechanism.n):
        laws = [mechanism.law(mechanism.see(seen)) for seen in pair]
        if isinstance(laws[0], DirichletLaw):  # only the two touched cells matter: their share is a Beta
            touched = [k for k, (p, q) in enumerate(zip(laws[0].alpha, laws[1].alpha, strict=True)) if p != q]
            laws = [BetaLaw(*(law.alpha[k] for k in touched)) for law in laws]
        edges = coarse_edges(laws)
        at = [[function(edge, 128) for edge in edges] for function in map(ball_function, laws)]
        with precision(128):
            masses = [[arb(0), *column, arb(1)] for column in at]
            chances = [[b - a for a, b in itertools.pairwise(column)] for column in masses]
            for first, second in ((0, 1), (1, 0)):
                for epsilon, claim in zip(epsilons, delta.tolist(), strict=True):
                    lift = arb(epsilon).exp()
                    gaps = [p - lift * q for p, q in zip(chances[first], chances[second], strict=True)]
                    total = sum((gap.nonnegative_part() for gap in gaps), arb(0))
                    assert total.lower() <= arb(claim), (epsilon, float(total.mid()), claim)


def coarse_edges(laws):
    """Return edges that cut both laws at many levels, and far out, on their own cells."""
    edges = set()
    levels = [2.0**-k for k in (1, 2, 4, 8, 12, 20, 60)]
    for law in laws:
        function, cells = ball_function(law), cells_of(law)
        for u in (*levels, *(1 - level for level in levels[:3])):
            x = function.guess(u, 1 - u)
            if math.isfinite(x):
                edges.add(exact(cells.edge(cells.index(Fraction(x)))))
    return sorted(edges)


def test_pure_privacy_of_a_tempered_sample_holds_for_every_cell():
    mechanism = TemperedPosterior(BetaBernoulli(1, 1), 12, 3.0, 0.1)
    cells, most = UnitCells(5, -8), mechanism.profile.pure()
    for pair in mechanism.system.worst_data(12):
        functions = [ball_function(mechanism.law(mechanism.see(seen))) for seen in pair]
        first, last = (cells.index(Q(x)) for x in (0.1, 0.9))
        for k in range(first, last + 1):
            p, q = (f(exact(cells.edge(k + 1)), 128) - f(exact(cells.edge(k)), 128) for f in functions)
            assert abs(float((p / q).log().mid())) <= most


@pytest.mark.parametrize("n", [100, 10**6])
def test_a_draw_looks_at_few_edges(n):
    """The guess in doubles lies beside the cell: two edges say so, a few more where it does not, at 104 bits."""
    mechanism = DiffusedPosterior(BetaBernoulli(6, 12), n, 0.2278734087)
    law, looks = mechanism.law(mechanism.reading.imagined(n, 0.4)), []
    function = ball_function(law)

    class Counted:
        low, high, guess = function.low, function.high, function.guess

        def __call__(self, x, bits):
            looks.append(bits)
            return function(x, bits)

    for _ in range(8):
        find_cell(Counted(), cells_of(law), LazyUniform(secure_rng()))
    assert len(looks) <= 8 * 12
    assert max(looks) < 256


def test_seeded_experiments_are_quick_and_marked():
    mechanism = DiffusedPosterior(BetaBernoulli(6, 12), 100, 0.5)
    release = mechanism.release([0, 1] * 50, seeded_rng(1), draws=100_000)
    assert release.reproducible
    assert not mechanism.release([0, 1] * 50).reproducible
    cells = cells_of(mechanism.law(mechanism.reading.imagined(100, 0.5)))
    assert np.array_equal(release.value, cells.round(release.value))


def test_public_cells_are_the_same_for_neighbours():
    for mechanism in CLAIMS.values():
        for pair in mechanism.system.worst_data(mechanism.n):
            laws = [mechanism.law(mechanism.see(seen)) for seen in pair]
            assert cells_of(laws[0]) == cells_of(laws[1])


@pytest.mark.parametrize("floor", ["1/20", "1/4000"])
def test_the_same_cells_whichever_category_is_largest(floor):
    """Were the rest rounded off in the largest category, its last bits would tell where the records are."""
    for powers in itertools.permutations(map(Fraction, ("9", "1/2", "3/2"))):
        law = DirichletLaw(powers, Fraction(floor))
        for *shares, last in samples(law, 15, secure_rng()).tolist():
            assert shares == UnitCells().round(np.array(shares)).tolist()
            assert last == pytest.approx(1 - sum(shares), abs=1e-15)
