"""Discrete Gaussian noise is Gaussian private: against sums in high precision, at every threshold."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

from sottovoce.privacy import DiscreteGaussianProfile, GaussianDP, PrivacyFilter, compose
from sottovoce.privacy.lattice import lattice_mu

from .oracle import untraced


def discrete_weights(scale: float) -> dict[int, mp.mpf]:
    return {k: mp.exp(-(mp.mpf(k) ** 2) / (2 * mp.mpf(scale) ** 2)) for k in range(-int(16 * scale), int(16 * scale))}


def discrete_delta(weights: dict[int, mp.mpf], move: int, epsilon: float) -> mp.mpf:
    """Sum what the discrete Gaussian around `move` has above e^ε times the one around zero."""
    factor = mp.exp(epsilon)
    over = (w - factor * weights.get(k + move, 0) for k, w in weights.items())
    return mp.fsum(excess for excess in over if excess > 0) / mp.fsum(weights.values())


def line_delta(mu: float, epsilon: float) -> mp.mpf:
    m, e = mp.mpf(mu), mp.mpf(epsilon)
    return mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)


@pytest.mark.parametrize(("scale", "move"), [(2.1, 1), (2.3, 5), (3.0, 2), (7.0, 3), (20.0, 1)])
def test_no_threshold_tells_more_than_the_line(scale: float, move: int) -> None:
    mu = DiscreteGaussianProfile(scale, move).gdp()
    assert move / scale < mu < 1.25 * move / scale
    places = np.arange(move // 2 + 1, int(5 * scale), max(1, int(scale / 4)) / 2)  # on the lattice and between
    kinks = ((places * move - move**2 / 2) / scale**2).tolist()
    with mp.workdps(40), untraced():
        weights = discrete_weights(scale)
        for epsilon in (0.0, 1e-9, *(mu * x for x in (0.1, 0.5, 1.0, 3.0)), *kinks):
            assert discrete_delta(weights, move, epsilon) <= line_delta(mu, epsilon)
        # A thousandth less than continuous noise would have is seen to be too little.
        short = move / scale * 0.999
        assert any(discrete_delta(weights, move, e) > line_delta(short, e) for e in (0.0, *kinks))


def test_several_counts_and_sums_add_up() -> None:
    one, two = lattice_mu([(0.02, 30.0)], 2), lattice_mu([(0.02, 30.0), (0.05, 3000.0)], 4)
    assert two == pytest.approx(math.sqrt(one**2 + 0.05), rel=1e-4)
    assert lattice_mu([]) == lattice_mu([(0.0, 1.0)]) == 0.0
    assert lattice_mu([(0.01, 1.0)]) == lattice_mu([(500.0, 1e6)]) == math.inf
    assert 0 < lattice_mu([(1e-100, 1e9)]) < math.inf


def test_a_gaussian_budget_takes_noise_on_counts() -> None:
    """Three counts with noise, composed in full, keep what the filter let through."""
    purse, profile = PrivacyFilter(GaussianDP(0.5)), DiscreteGaussianProfile(8.0, 1, 2)
    granted = []
    while purse.can_spend(profile):
        purse.spend(profile)
        granted.append(profile)
    assert len(granted) == 7  # 0.25 / (2/64) is 8 on the line
    together = compose(granted)
    for epsilon in np.linspace(0, 2, 5):
        assert together.delta(float(epsilon)) <= float(line_delta(0.5, float(epsilon))) * (1 + 1e-9)
