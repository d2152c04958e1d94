"""The certificate against oracles: exact where U is quadratic, never beaten where it is logistic."""

import itertools
import math
from functools import cache

import mpmath
import numpy as np
import pytest
from scipy import special

from sottovoce.inference.regression.certificate import Chain, largest_step, mixing_steps
from sottovoce.inference.regression.design import Design
from sottovoce.inference.regression.losses import Logistic
from sottovoce.privacy.errors import InvalidValue


@pytest.mark.parametrize("n_steps", [1, 2, 5, 20, 100, 1000])
@pytest.mark.parametrize(
    ("m", "M", "fraction"), [(1.0, 1.0, 0.9), (0.5, 40.0, 0.5), (0.5, 40.0, 1.0), (1e-3, 90.0, 0.3)]
)
def test_quadratic_chain_is_exactly_as_private_as_certified(n_steps, m, M, fraction):
    step, s = fraction * largest_step(m, M), 0.7
    # Two neighbours whose potentials m w²/2 and m w²/2 - s w differ by a slope: every iterate is Gaussian.
    with mpmath.workdps(40):
        h, a = mpmath.mpf(step), 1 - mpmath.mpf(step) * mpmath.mpf(m)
        gap, variance = mpmath.mpf(0), mpmath.mpf(0)
        for _ in range(n_steps):
            gap, variance = a * gap + h * mpmath.mpf(s), a * a * variance + 2 * h
        exact = float(gap / mpmath.sqrt(variance))
    certified = Chain(m, M, s, step=step, n_steps=n_steps).mu
    assert certified == pytest.approx(exact, rel=1e-10, abs=1e-10)
    assert certified >= exact * (1 - 1e-15)


STEPS = (1, 5, 20, 100)
M_PRIOR, WEIGHT, RECORDS = 0.3, 0.8, [(1.0, 1.0), (1.0, -1.0), (-0.4, 1.0)]


def propagate(step, force, grid, radius):
    """The laws of iterates on a grid, by their numbers: the mass of each cell, then an atom on each end of the ball."""
    width, noise = grid[1] - grid[0], math.sqrt(2 * step)
    points = np.concatenate([grid, [-radius, radius]])
    means = points - step * force(points)

    def spread(mean):
        inside = np.exp(-((grid[:, None] - mean) ** 2) / (2 * noise**2)) * width / (noise * math.sqrt(2 * math.pi))
        return np.vstack([inside, special.ndtr((-radius - mean) / noise), special.ndtr((mean - radius) / noise)])

    kernel, found = spread(means), {1: spread(-step * force(np.zeros(1)))[:, 0]}
    mass = found[1]
    for number in range(2, max(STEPS) + 1):
        mass = kernel @ mass
        found |= {number: mass} if number in STEPS else {}
    return found


@cache
def logistic(radius):
    """What is public of a logistic chain, and the laws of its iterates on every table of three records."""
    design = Design(Logistic(), dimension=1, data_norm=1.0, radius=radius)
    M = design.smoothness(3, WEIGHT, M_PRIOR)
    reach = min(radius, 12.0)
    grid = np.linspace(-reach, reach, 802)[:-1] + reach / 801  # midpoints

    def law(data):
        x, y = np.array(data).T

        def force(w):
            return WEIGHT * (-(y * x) @ special.expit(-y[:, None] * x[:, None] * w[None, :])) + M_PRIOR * w

        return propagate(1 / M, force, grid, radius)

    laws = {data: law(data) for data in itertools.combinations_with_replacement(RECORDS, 3)}
    return (M_PRIOR, M, design.sensitivity(WEIGHT), 1 / M), laws


@pytest.mark.parametrize("radius", [1.5, 60.0])
@pytest.mark.parametrize("n_steps", STEPS)
def test_logistic_chain_is_never_less_private_than_certified(n_steps, radius):
    public, found = logistic(radius)
    chain = Chain(*public[:3], step=public[3], n_steps=n_steps)
    laws = {data: each[n_steps] for data, each in found.items()}
    for mass in laws.values():
        assert mass.sum() == pytest.approx(1, abs=1e-4)
    worst = 0.0
    epsilons = np.array([0.0, 0.1, 0.3, 0.6, 1.0])
    allowed = chain.profile.delta(epsilons)
    for data, mass in laws.items():
        for gone, come in itertools.product(data, RECORDS):
            left = list(data)
            left.remove(gone)
            other = laws[tuple(sorted([*left, come], key=RECORDS.index))]
            delta = np.maximum(mass[:, None] - np.exp(epsilons) * other[:, None], 0).sum(axis=0)
            assert np.all(delta <= allowed + 1e-9)
            worst = max(worst, delta[0] / allowed[0])
    assert worst > 0.4  # the bound is near what really happens


def test_claims_never_exceed_the_exact_sample_and_grow_with_steps():
    mus = [Chain(0.5, 30.0, 1.0, step=1 / 30, n_steps=t).mu for t in (1, 3, 10, 100, 10_000)]
    assert mus == sorted(mus)
    assert mus[-1] <= 1.0 / math.sqrt(0.5)


def test_the_first_step_is_a_gaussian_mechanism():
    # One step adds noise √(2h) to a point that one record moves by h·s.
    assert Chain(0.5, 30.0, 1.0, step=0.01, n_steps=1).mu == pytest.approx(0.01 / math.sqrt(0.02), rel=1e-12)


def test_beyond_the_longest_step_the_formula_would_lie_so_the_step_is_refused():
    m, M, s, t = 1.0, 40.0, 0.5, 30
    step = 2 / M
    with pytest.raises(InvalidValue, match="step"):
        Chain(m, M, s, step=step, n_steps=t)
    Chain(m, M, s, step=largest_step(m, M), n_steps=t)
    # A quadratic of curvature M, exactly: worse after t steps than the formula with a = 1 - hm would say.
    a, gap, variance = 1 - step * M, 0.0, 0.0
    for k in range(t):  # the differing record pushes with alternating sign, as a bent loss can make it
        gap, variance = a * gap + step * s * (-1) ** k, a * a * variance + 2 * step
    pretended = s * math.sqrt(math.tanh(-t * math.log1p(-step * m) / 2) * (2 - step * m) / (2 * m))
    assert abs(gap) / math.sqrt(variance) > pretended * 1.05


@pytest.mark.parametrize(
    "numbers",
    [(0.0, 1.0, 1.0, 0.1, 1), (2.0, 1.0, 1.0, 0.1, 1), (1.0, 1.0, -1.0, 0.1, 1), (1.0, 1.0, 1.0, 0.1, 0)],
)
def test_senseless_chains_are_refused(numbers):
    with pytest.raises(InvalidValue):
        Chain(*numbers)


def test_mixing_rule_brings_two_starts_together():
    steps = mixing_steps(0.5, 0.01, remaining=0.05)
    assert (1 - 0.005) ** steps <= 0.05 < (1 - 0.005) ** (steps - 1)
