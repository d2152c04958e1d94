import math

import mpmath as mp
import numpy as np
import pytest

from sottovoce.privacy import DiscreteGaussianProfile, GaussianProfile, InvalidValue, Profile, ZeroConcentratedProfile
from tests.privacy.oracle import untraced


@untraced()
def exact_delta(scale: float, steps: int, cells: int, epsilon: float) -> mp.mpf:
    """The hockey stick summed over the lattice of one or two noises, by its definition."""
    with mp.workdps(40):
        reach = int(12 * scale) + steps + 2
        weight = {
            k: mp.exp(-(mp.mpf(k) ** 2) / (2 * mp.mpf(scale) ** 2)) for k in range(-reach - steps, reach + steps + 1)
        }
        total = sum(weight[k] for k in range(-reach, reach + 1))
        axis = range(-reach, reach + 1)
        if cells == 1:
            points = ((weight[k - steps], weight[k]) for k in axis)
        else:
            points = ((weight[k - steps] * weight[j - steps], weight[k] * weight[j]) for k in axis for j in axis)
        return sum(max(p - mp.exp(epsilon) * q, mp.mpf(0)) for p, q in points) / total**cells


@pytest.mark.parametrize(("scale", "steps", "cells"), [(0.6, 1, 1), (2.0, 1, 1), (3.0, 4, 1), (1.5, 1, 2), (0.4, 1, 2)])
def test_delta_is_the_sum_over_the_lattice(scale: float, steps: int, cells: int) -> None:
    profile = DiscreteGaussianProfile(scale, steps, cells)
    for fraction in (0.0, 0.37, 1.1, 2.3):
        epsilon = fraction * math.sqrt(cells) * steps / scale
        truth = exact_delta(scale, steps, cells, epsilon)
        assert profile.delta(epsilon) == pytest.approx(float(truth), rel=1e-9)


@pytest.mark.parametrize(("scale", "steps", "cells"), [(0.6, 1, 1), (2.0, 3, 1), (1.5, 1, 2)])
def test_renyi_is_the_sum_and_touches_its_line(scale: float, steps: int, cells: int) -> None:
    k = np.arange(-80, 81)
    log_p, log_q = -((k - steps) ** 2) / (2 * scale**2), -(k**2) / (2 * scale**2)
    total = np.exp(log_q).sum()
    profile = DiscreteGaussianProfile(scale, steps, cells)
    for order in (1.3, 1.5, 2.0, 3.7):
        truth = cells * math.log(np.exp(order * log_p + (1 - order) * log_q).sum() / total) / (order - 1)
        assert profile.renyi(order) == pytest.approx(truth, rel=1e-10)
        assert profile.renyi(order) <= order * profile.zcdp() * (1 + 1e-12)
    truth = cells * math.log(np.exp(2 * log_p - log_q).sum() / total)
    assert profile.renyi(2.0) == pytest.approx(truth, rel=1e-10)


def test_wide_noise_is_nearly_the_continuous_curve() -> None:
    epsilon = np.linspace(0.0, 1.0, 9)
    for cells in (1, 2):
        wide = DiscreteGaussianProfile(2000.0, 800, cells).delta(epsilon)
        np.testing.assert_allclose(wide, GaussianProfile(0.4 * math.sqrt(cells)).delta(epsilon), rtol=2e-3)


def test_tighter_than_its_own_concentration_and_than_the_peer_says() -> None:
    from dp_accounting.pld import privacy_loss_distribution as pld

    profile = DiscreteGaussianProfile(4.0)
    assert profile.epsilon(1e-6) < ZeroConcentratedProfile(profile.zcdp()).epsilon(1e-6)
    peer = pld.from_discrete_gaussian_mechanism(4.0)
    assert profile.epsilon(1e-6) == pytest.approx(peer.get_epsilon_for_delta(1e-6), abs=2e-4)


def test_reads_back_inverts_and_refuses_nonsense() -> None:
    profile = DiscreteGaussianProfile(5.0, 2, 1)
    assert Profile.from_json(profile.to_json()) == profile
    for delta in (1e-2, 1e-6, 1e-12):
        assert profile.delta(profile.epsilon(delta)) <= delta * (1 + 1e-14)
    assert profile.pure() == DiscreteGaussianProfile(0.5).gdp() == math.inf
    for bad in (
        lambda: DiscreteGaussianProfile(0.0),
        lambda: DiscreteGaussianProfile(1e6),
        lambda: DiscreteGaussianProfile(1.0, 0),
        lambda: DiscreteGaussianProfile(1.0, 1.5),
        lambda: DiscreteGaussianProfile(1.0, 1, 3),
    ):
        with pytest.raises(InvalidValue):
            bad()


@pytest.mark.parametrize("scale", [0.005, 0.02, 0.05])
def test_renyi_of_tiny_noise_is_large_and_finite(scale: float) -> None:
    """Between whole orders every term of the sum underflows; the divergence must not."""
    order = mp.mpf("1.5")

    def weight(x: mp.mpf) -> mp.mpf:
        return mp.exp(-(x**2) / (2 * mp.mpf(scale) ** 2))

    with mp.workdps(60):
        terms = [weight(mp.mpf(k)) ** order * weight(mp.mpf(k - 1)) ** (1 - order) for k in range(-3, 5)]
        truth = mp.log(sum(terms) / sum(weight(mp.mpf(k)) for k in range(-3, 4))) / (order - 1)
    assert float(DiscreteGaussianProfile(scale).renyi(1.5)) == pytest.approx(float(truth), rel=1e-12)
