"""Random scans over latents with public old values: the law of a sweep by enumeration, against what is charged."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from sottovoce.inference.latent import ChainGrid, Field, HiddenMarkovModel, TemperedHiddenMarkov
from sottovoce.inference.latent.gibbs_sampler import ChainState
from sottovoce.mechanisms import Mechanism
from sottovoce.privacy.composition import compose
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.promises import ApproxDP, PureDP
from sottovoce.privacy.pure import BoundedRangeProfile
from sottovoce.privacy.random_scan import RandomScanProfile, chance_to_meet
from sottovoce.privacy.randomness import secure_rng, seeded_rng

REGIONS, FLOOR, TEMPERATURE = 4, 0.2, 3.0
MODEL = HiddenMarkovModel(
    ChainGrid(Field("region", tuple(range(REGIONS))), Field("month", (1,))), (Field("kind", ("a", "b")),), states=2
)
THETA = np.array([[0.9, 0.1], [0.1, 0.9]])
"""Each state has a category at its floor."""


def _law(counts, before, picked, initial):
    """The law of the states after a scan, by all sets that may be picked: plain floats, no code shared."""
    law = {}
    for chosen in itertools.combinations(range(REGIONS), picked):
        for after in itertools.product(range(2), repeat=REGIONS):
            if any(after[k] != before[k] for k in range(REGIONS) if k not in chosen):
                continue
            chance = 1 / math.comb(REGIONS, picked)
            for k in chosen:
                weights = [initial[z] * math.prod(THETA[z] ** (counts[k] / TEMPERATURE)) for z in range(2)]
                chance *= weights[after[k]] / sum(weights)
            law[after] = law.get(after, 0.0) + chance
    return law


def _tables():
    """Every pair of tables of counts that differ in one of two records."""
    cells = list(itertools.product(range(REGIONS), range(2)))
    for first, second, kept in itertools.product(cells, cells, cells):
        tables = np.zeros((2, REGIONS, 2))
        for table, cell in zip(tables, (first, second), strict=True):
            table[cell] += 1
            table[kept] += 1
        yield tables


@pytest.mark.parametrize("picked", [1, 2, 3])
def test_a_scan_costs_no_more_than_is_charged_and_its_pure_loss_is_not_amplified(picked):
    mech = TemperedHiddenMarkov(MODEL, 2, TEMPERATURE, sweeps=1, floor=FLOOR, scanned=picked)
    window = 2 * math.log(9) / TEMPERATURE  # (1 - 0.1)/0.1, twice
    charged = RandomScanProfile(BoundedRangeProfile(window), chance_to_meet(picked, REGIONS, touched=2))
    emissions = BoundedRangeProfile(window)
    assert mech.profile.epsilon(1e-4) == pytest.approx((emissions + charged).epsilon(1e-4), rel=1e-6)
    points, orders = np.array([0.0, 0.3, 0.7, 1.2]), np.array([2.0, 6.0])
    worst, pure, renyi = np.zeros(4), 0.0, np.zeros(2)
    for initial, before in itertools.product(([0.5, 0.5], [0.999, 0.001]), ((0, 0, 0, 0), (1, 0, 1, 0))):
        for tables in _tables():
            p, q = (_law(table, before, picked, initial) for table in tables)
            worst = np.maximum(worst, [sum(max(p[k] - math.exp(e) * q[k], 0.0) for k in p) for e in points])
            pure = max(pure, *(abs(math.log(p[k] / q[k])) for k in p))
            moments = [math.log(sum(p[k] ** o * q[k] ** (1 - o) for k in p)) / (o - 1) for o in orders]
            renyi = np.maximum(renyi, moments)
    assert np.all(worst <= charged.delta(points) * (1 + 1e-9))
    assert np.all(renyi <= charged.renyi(orders) * (1 + 1e-9))
    assert pure <= charged.pure() * (1 + 1e-12)
    assert charged.pure() == pytest.approx(window)  # nothing of ε is gained …
    printed = 2 * window * picked / REGIONS
    assert pure > 0.9 * window > printed or picked > 1  # … and the thesis' 4ΔQ/N is less than the truth
    assert worst[0] > 0.45 * charged.delta(0.0)  # of δ the chance is


def test_ten_latents_one_picked_half_a_step():
    """N = 10, Q = 1, Δ = ½: a scan of independent bits. The thesis has 0.2; a secret part would have 0.159."""
    size, step = 10, 0.5
    turned = {sign: (1 / size) / (1 + math.exp(-sign * step)) for sign in (0, 1, -1)}

    def law(sign):
        moves = [turned[sign], *[turned[0]] * (size - 1)]
        return np.array([1 - sum(moves), *moves])

    truth = float(np.abs(np.log(law(1) / law(-1))).max())
    assert truth == pytest.approx(0.5, rel=1e-12)
    charged = RandomScanProfile(BoundedRangeProfile(2 * step), chance_to_meet(1, size))
    assert truth <= charged.pure() == 1.0
    for epsilon in (0.0, 0.2, 0.4):
        assert np.maximum(law(1) - math.exp(epsilon) * law(-1), 0).sum() <= charged.delta(epsilon)


@pytest.mark.parametrize("secure", [False, True])
def test_a_sweep_draws_the_law_that_was_enumerated(secure):
    """Emissions are drawn first; given them, the states of those that were picked. Here a floor leaves one law."""
    model = HiddenMarkovModel(
        ChainGrid(Field("region", (0, 1)), Field("month", (1,))), (Field("kind", ("a", "b")),), states=2
    )
    runs = 300 if secure else 4000
    mech = TemperedHiddenMarkov(model, 4, 1.0, sweeps=1, floor=0.9, scanned=1)
    before = np.tile([[[0], [1]]], (runs, 1, 1))
    state = ChainState(np.full((runs, 2), 0.5), np.full((runs, 2, 2), 0.5), (), before)
    counts = [np.array([[[2.0, 0.0]], [[0.0, 2.0]]])]
    after = mech.sweep(state, counts, secure_rng() if secure else seeded_rng(3)).states[..., 0]
    moved = after != before[..., 0]
    assert not (moved[:, 0] & moved[:, 1]).any()  # only one may
    # θ lies within [0.45, 0.55], so a redrawn state turns with probability within 1/2 ± 0.1: one in four of each.
    for chain in (0, 1):
        assert np.mean(moved[:, chain]) == pytest.approx(0.25, abs=0.05 + 4 * math.sqrt(0.19 / runs))


def test_chances():
    for latents, picked in itertools.product(range(2, 6), range(1, 6)):
        if picked <= latents:
            sets = list(itertools.combinations(range(latents), picked))
            for touched in (1, 2):
                truth = sum(any(k in chosen for k in range(touched)) for chosen in sets) / len(sets)
                assert chance_to_meet(picked, latents, touched) == pytest.approx(truth, rel=1e-12)
    assert chance_to_meet(5, 5) == 1.0


def test_renyi_and_delta_are_mixed_and_compose_by_quadrature():
    """A Gaussian update, picked and seen or not: twice, by the law of the summed loss."""
    mu, share = 0.8, 0.25
    profile = RandomScanProfile(GaussianProfile(mu), share)
    x = np.linspace(-12, 12, 4001)
    p, q = np.exp(-((x - mu) ** 2) / 2), np.exp(-(x**2) / 2)
    p, q = (np.append(share * d / d.sum(), 1 - share) for d in (p, q))
    for epsilon in (0.0, 0.5, 1.5):
        assert profile.delta(epsilon) == pytest.approx(np.maximum(p - math.exp(epsilon) * q, 0).sum(), rel=1e-3)
    assert profile.renyi(3.0) == pytest.approx(math.log((p**3 / q**2).sum()) / 2, rel=1e-6)
    both = np.maximum(np.multiply.outer(p, p) - math.exp(1.0) * np.multiply.outer(q, q), 0).sum()
    claim = compose([profile], [2]).delta(1.0)
    assert both * (1 - 1e-3) <= claim <= both * 1.02


def test_it_is_calibrated_written_and_refused():
    every = TemperedHiddenMarkov.calibrate(MODEL, 40, ApproxDP(1.0, 1e-6), sweeps=4)
    few = TemperedHiddenMarkov.calibrate(MODEL, 40, ApproxDP(1.0, 1e-6), sweeps=4, scanned=1)
    assert few.profile.satisfies(ApproxDP(1.0, 1e-6))
    assert few.temperature < every.temperature
    pure = [TemperedHiddenMarkov.calibrate(MODEL, 40, PureDP(2.0), sweeps=4, scanned=k).temperature for k in (None, 1)]
    assert pure[0] == pytest.approx(pure[1], rel=1e-6)
    again = Mechanism.from_dict(few.to_dict())
    assert again.scanned == 1
    assert again.profile.epsilon(1e-6) == few.profile.epsilon(1e-6)
    assert "scanned" not in every.to_dict()
    for wrong in (0, REGIONS + 1):
        with pytest.raises(InvalidValue, match="scanned"):
            TemperedHiddenMarkov(MODEL, 40, 2.0, scanned=wrong)
    with pytest.raises(InvalidValue, match="chance"):
        RandomScanProfile(GaussianProfile(1.0), 0.0)
