"""Divergences by the integral of a curve, against finite laws whose divergences are sums."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

from sottovoce.privacy import GaussianProfile, LaplaceProfile, PureProfile, SubsampledProfile
from sottovoce.privacy.renyi_integral import RenyiIntegral, divergence, renyi_orders, spaced_by_log_delta

ORDERS = np.array([1.0, 1.0 + 1e-6, 1.3, 2.0, 7.5, 60.0, 3000.0])


def finite_law(rng, size, spread):
    """Two laws on a few points, as numbers of many digits."""
    first, second = (rng.normal(0, spread, size) for _ in range(2))
    with mp.workdps(60):
        laws = [[mp.exp(mp.mpf(x)) for x in logs] for logs in (first, second)]
        return [[x / mp.fsum(law) for x in law] for law in laws]


def log_hockey(p, q, epsilon):
    with mp.workdps(60):
        total = mp.fsum(max(a - mp.exp(mp.mpf(epsilon)) * b, mp.mpf(0)) for a, b in zip(p, q, strict=True))
        return float(mp.log(total)) + 1e-15 if total > 0 else -math.inf


@pytest.mark.parametrize("size", [2, 3, 6])
@pytest.mark.parametrize("spread", [1e-3, 0.5, 4.0])
@pytest.mark.parametrize("nodes", [5, 400])
def test_no_integral_is_below_the_sum(size, spread, nodes):
    rng = np.random.default_rng([size, nodes, int(1000 * spread)])
    p, q = finite_law(rng, size, spread)
    with mp.workdps(60):
        reach = float(max(abs(mp.log(a / b)) for a, b in zip(p, q, strict=True))) * (1 + 1e-12)
    places = np.append(np.sort(reach * rng.uniform(0, 1, nodes)), reach)
    places[0] = 0.0
    forward, backward = (np.array([log_hockey(a, b, e) for e in places]) for a, b in ((p, q), (q, p)))
    found = RenyiIntegral(places, forward, backward).log_moment(ORDERS)
    for order, log_moment in zip(ORDERS, found, strict=True):
        with mp.workdps(60):
            power = mp.mpf(float(order))
            if order == 1:
                truth = mp.fsum(a * mp.log(a / b) for a, b in zip(p, q, strict=True))
            else:
                total = mp.fsum(a * (a / b) ** (power - 1) for a, b in zip(p, q, strict=True)) - 1
                truth = total / (power * (power - 1))
            assert mp.exp(mp.mpf(float(log_moment))) >= truth * (1 - mp.mpf(1e-12))
            if nodes == 400 and order < 10:
                assert mp.exp(mp.mpf(float(log_moment))) <= truth * (1 + mp.mpf(0.15))


@pytest.mark.parametrize(
    "profile", [GaussianProfile(1e-5), GaussianProfile(4.0), LaplaceProfile(0.01), PureProfile(3.0)]
)
def test_nodes_follow_the_curve_at_every_scale(profile):
    end = min(profile.pure(), float(profile._epsilon(np.array([-1e5]))[0]))
    places = spaced_by_log_delta(profile._log_delta, end)
    assert places[0] == 0
    assert places[-1] == end
    assert np.all(np.diff(places) > 0)
    assert places.size < 2000
    curve = profile._log_delta(places)
    integral = RenyiIntegral(places, curve, curve)
    order = np.array([1.0, 2.0, 10.0])
    claimed, truth = divergence(order, integral.log_moment(order)), profile.renyi(order)
    assert np.all(claimed >= truth * (1 - 1e-9))
    assert np.all(claimed <= truth * 1.02)


def test_orders_stay_below_a_pole_and_hold_what_is_asked_for_most():
    assert {1.0, 2.0, 15.5, 64.0} <= set(renyi_orders(math.inf).tolist())
    near = renyi_orders(1.0 + 1e-3)
    assert near[0] == 1.0
    assert near[-1] < 1.0 + 1e-3


def test_a_curve_known_at_every_order_never_falls_and_is_one_curve_however_it_is_asked():
    profile = SubsampledProfile(LaplaceProfile(0.5), 0.05)
    orders = np.concatenate([[1.0], 1 + np.geomspace(1e-9, 1e9, 500)])
    curve = profile.renyi(orders)
    assert np.all(np.diff(curve) >= -1e-15)
    assert np.all(curve <= profile.pure())
    assert [profile.renyi(float(order)) for order in orders[::50]] == curve[::50].tolist()
