"""Theorem 20 for laws and kernels given as densities: against the divergences themselves, by plain quadrature."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from flint import arb

from sottovoce.mechanisms.conjugate import verified_suprema as verified
from sottovoce.privacy.errors import InvalidValue
from sottovoce.theory.amplification.densities import DensityKernel, IntervalLaw, coupled_profile, coupled_renyi

Y = np.linspace(0.0, 1.0, 2001)
WEIGHTS = np.full(Y.size, 1 / 2000)
WEIGHTS[[0, -1]] /= 2

RISING, FALLING = IntervalLaw(lambda y, _: y, 0.0, 1.0), IntervalLaw(lambda y, _: -y, 0.0, 1.0)
PEAK = IntervalLaw(lambda y, _: -6 * (y - 0.3) ** 2, 0.0, 1.0)
POWER = IntervalLaw(lambda y, analytic: (y + 0.25).log(analytic) * 2, 0.0, 1.0)
CORNER = IntervalLaw(lambda y, analytic: -2 * (y - arb(0.7)).real_abs(analytic), 0.0, 1.0, (0.7,))
NORMAL = DensityKernel(lambda y, x, _: -4 * (y - x) ** 2, lambda y, x: 8 * (y - x), 0.0, 1.0)
LINEAR = DensityKernel(lambda y, x, _: 3 * x * y, lambda y, x: 3 * y + 0 * x, 0.0, 1.0)
LAPLACE = DensityKernel(
    lambda y, x, analytic: -2 * (y - x).real_abs(analytic), lambda y, x: 2 * (y - x).sgn(), 0.0, 1.0, lambda x: (x,)
)
LOGS = {
    id(RISING): lambda: Y,
    id(FALLING): lambda: -Y,
    id(PEAK): lambda: -6 * (Y - 0.3) ** 2,
    id(POWER): lambda: 2 * np.log(Y + 0.25),
    id(CORNER): lambda: -2 * np.abs(Y - 0.7),
    id(NORMAL): lambda: -4 * (Y[None, :] - Y[:, None]) ** 2,
    id(LINEAR): lambda: 3 * Y[None, :] * Y[:, None],
    id(LAPLACE): lambda: -2 * np.abs(Y[None, :] - Y[:, None]),
}
"""Made where they are asked for: a kernel's is 32 MB, and every worker reads this file."""


@cache
def _density(thing):
    found = np.exp(LOGS[id(thing)]())
    return found / (found @ WEIGHTS)[..., None] if found.ndim == 2 else found / (found @ WEIGHTS)


def _renyi(p, q, order):
    return math.log((p**order * q ** (1 - order)) @ WEIGHTS) / (order - 1)


@pytest.mark.parametrize(
    ("mu", "nu", "kernel", "order", "theta"),
    [
        (RISING, FALLING, NORMAL, 2.0, 0.5),
        (RISING, FALLING, NORMAL, 6.0, 0.0),
        (FALLING, RISING, LINEAR, 2.0, 0.3),
        (PEAK, POWER, LINEAR, 3.0, 0.5),
        (POWER, PEAK, NORMAL, 1.5, 0.6),
        (CORNER, RISING, LAPLACE, 2.0, 0.4),
    ],
)
def test_no_pair_is_farther_apart_than_is_proven(mu, nu, kernel, order, theta, monkeypatch):
    monkeypatch.setattr(
        verified, "_BOXES", 10 if kernel is LAPLACE else 40
    )  # a search that is cut short proves less, and no less surely
    m, n, k = _density(mu), _density(nu), _density(kernel)
    truth = _renyi((m * WEIGHTS) @ k, (n * WEIGHTS) @ k, order)
    assert coupled_renyi(order, mu, nu, kernel, theta=theta) >= truth
    assert coupled_renyi(order, mu, nu, kernel, theta=1.0) == pytest.approx(_renyi(m, n, order), rel=1e-5)


def test_the_bound_is_the_theorem_s_at_its_middle_law():
    """The right side of (6.2) by quadrature, the coupling by interpolated quantiles: within the search's tolerance."""
    order, theta = 2.0, 0.5
    m, n, k = _density(RISING), _density(FALLING), _density(NORMAL)
    omega = m**theta * n ** (1 - theta)
    omega /= omega @ WEIGHTS
    below = [np.concatenate([[0], np.cumsum((p[1:] + p[:-1]) / 4000)]) for p in (omega, m)]
    to = np.interp(below[0], below[1], Y)
    moved = [_renyi(k[round(float(t) * 2000)], k[i], order) for i, t in enumerate(to)]
    expected = _renyi(omega, n, order) + max(moved)
    found = coupled_renyi(order, RISING, FALLING, NORMAL, theta=theta)
    assert expected * (1 - 2e-3) <= found <= expected * 1.03


def test_noise_on_noise_is_amplified_and_the_best_middle_is_sought(monkeypatch):
    monkeypatch.setattr(verified, "_BOXES", 30)
    before = coupled_renyi(2.0, RISING, FALLING, NORMAL, theta=1.0)
    found = coupled_renyi(2.0, RISING, FALLING, NORMAL)
    assert found < 0.6 * before
    assert found <= coupled_renyi(2.0, RISING, FALLING, NORMAL, theta=0.0)
    profile = coupled_profile(RISING, FALLING, LINEAR, orders=(2.0,))
    assert profile.basis.value == "bound"
    assert 0 < profile.renyi(2.0) <= before * (1 + 1e-9)


def test_a_law_against_itself_costs_next_to_nothing(monkeypatch):
    monkeypatch.setattr(verified, "_BOXES", 60)
    assert 0 <= coupled_renyi(2.0, RISING, RISING, NORMAL, theta=0.5) < 0.1


def test_quantiles_are_enclosed():
    for law in (RISING, PEAK, POWER, CORNER):
        density = _density(law)
        below = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 4000)])
        for share in (1e-9, 0.1, 0.5, 0.999):
            low, high = law.quantile(arb(share))
            exact = np.interp(share, below, Y)
            assert float(high - low) < 1e-6
            assert float(low) - 1e-6 <= exact <= float(high) + 1e-6


def test_what_is_no_kernel_is_refused():
    wrong = DensityKernel(lambda y, x, _: -4 * (y - x) ** 2, lambda y, x: -8 * (y - x), 0.0, 1.0)
    with pytest.raises(InvalidValue, match="slope of log k"):
        coupled_renyi(2.0, RISING, FALLING, wrong)
    with pytest.raises(InvalidValue, match="one interval"):
        coupled_renyi(2.0, RISING, IntervalLaw(lambda y, _: y, 0.0, 2.0), NORMAL)
    with pytest.raises(InvalidValue, match="two finite ends"):
        IntervalLaw(lambda y, _: y, 0.0, math.inf)
    with pytest.raises(InvalidValue, match="two finite ends"):
        DensityKernel(lambda y, x, _: y, lambda y, x: y, 1.0, 0.0)
    for order, theta in ((1.0, 0.5), (2.0, 1.5), (2.0, -0.1), (math.nan, 0.5)):
        with pytest.raises(InvalidValue):
            coupled_renyi(order, RISING, FALLING, NORMAL, theta=theta)


@pytest.mark.parametrize("rate", [1e3, 1.4e5, 1e7])
@pytest.mark.parametrize("radius", [0.0, 1e-3])
def test_quantiles_are_enclosed_closely_where_there_is_next_to_no_density_and_of_rough_probabilities(rate, radius):
    law = IntervalLaw(lambda y, analytic: -rate * y, 0.0, 1.0)
    low, high = law.quantile(arb(0.5, radius))
    truth = math.log(2) / rate
    assert low <= truth <= high
    assert high - low <= max(2e-8, 100 * radius / rate)
