import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy import integrate, special, stats

from sottovoce.inference.latent import ChainGrid, Field, HiddenMarkovModel, HiddenMarkovPosterior, TemperedHiddenMarkov
from sottovoce.inference.latent.gibbs_sampler import ChainState
from sottovoce.inference.latent.tempered import draw_floored_dirichlet
from sottovoce.inference.latent.tempered_hidden_markov import log_ranges
from sottovoce.mechanisms import Release
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.profile import Basis
from sottovoce.privacy.promises import ApproxDP, PureDP, ZeroConcentratedDP
from sottovoce.privacy.pure import BoundedRangeProfile
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.service.curator import Curator

GRID = ChainGrid(Field("region", ("N", "S")), Field("month", (1, 2)))
FIELDS = (Field("kind", ("a", "b")), Field("hurt", (0, 1, 2)))
MODEL = HiddenMarkovModel(GRID, FIELDS, states=2)


def test_the_whole_cost_is_the_composition_stated() -> None:
    mech = TemperedHiddenMarkov(MODEL, n=50, temperature=8.0, sweeps=12, floor=0.2)
    b = [np.log((1 - (k - 1) * 0.2 / k) / (0.2 / k)) for k in (2, 3)]
    assert mech.profile.zcdp() == pytest.approx(12 * (b[0] ** 2 + b[1] ** 2 + sum(b) ** 2) / (2 * 8.0**2))
    assert mech.profile.pure() == pytest.approx(12 * 4 * sum(b) / 8.0)
    assert mech.additive_epsilon == pytest.approx(mech.profile.pure())
    assert mech.profile.basis is Basis.BOUND
    one = BoundedRangeProfile(2 * b[0] / 8) + BoundedRangeProfile(2 * b[1] / 8) + BoundedRangeProfile(2 * sum(b) / 8)
    assert mech.profile.epsilon(1e-6) == pytest.approx((12 * one).epsilon(1e-6), rel=1e-6)
    assert mech.profile.epsilon(1e-6) < mech.additive_epsilon


def test_every_update_keeps_its_window_whatever_record_changes() -> None:
    """Brute force: the log-ratios of each update between all pairs of neighbours, over states and probabilities."""
    mech = TemperedHiddenMarkov(MODEL, n=1, temperature=3.0, floor=0.15)
    ranges = log_ranges(MODEL, 0.15)
    events = list(itertools.product(*(f.categories for f in (*GRID.fields, *FIELDS))))
    tables = [
        [t.astype(float) for t in MODEL.counts({f: [v] for f, v in zip(MODEL.tables.columns, e, strict=True)})]
        for e in events
    ]
    paths = np.array(list(itertools.product(range(2), repeat=4))).reshape(-1, 2, 2)
    corners = []
    for k in (2, 3):
        low = 0.15 / k
        corner = np.full((k, k), low)
        np.fill_diagonal(corner, 1 - (k - 1) * low)
        corners.append(corner)
    widest = 0.0
    for kinds in itertools.product(range(2), repeat=2):
        for hurts in itertools.product(range(3), repeat=2):
            theta = [corners[0][list(kinds)], corners[1][list(hurts)]]  # the extreme probabilities of both states
            log_weight = (
                np.array(
                    [
                        sum((t * np.log(th)[paths]).sum(axis=(1, 2, 3)) for t, th in zip(data, theta, strict=True))
                        for data in tables
                    ]
                )
                / mech.temperature
            )
            log_p = log_weight - np.log(np.exp(log_weight).sum(axis=1, keepdims=True))
            loss = log_p[:, None] - log_p[None]
            widest = max(widest, float((loss.max(axis=-1) - loss.min(axis=-1)).max()))
    assert widest <= 2 * ranges.sum() / 3.0 + 1e-12
    assert widest > 0.9 * 2 * ranges.sum() / 3.0  # and some neighbours come near it
    rng = seeded_rng(1)
    for f, size in enumerate((2, 3)):
        low = 0.15 / size
        theta = np.concatenate([draw_floored_dirichlet(1.0, 1.0, np.zeros((400, size)), low, rng), corners[f]])
        logs = np.log(theta) / mech.temperature  # adding a record of category k to a state tilts by log θ_k / T
        gaps = logs[:, :, None] - logs[:, None, :]
        width = float((gaps.max(axis=0) - gaps.min(axis=0)).max())
        assert width == pytest.approx(2 * ranges[f] / 3.0, rel=1e-6)


@pytest.mark.parametrize("target", [PureDP(3.0), ApproxDP(1.0, 1e-6), ZeroConcentratedDP(0.1)])
def test_calibration_keeps_the_promise_at_the_lowest_temperature(target) -> None:
    mech = TemperedHiddenMarkov.calibrate(MODEL, 40, target, sweeps=5)
    assert mech.profile.satisfies(target)
    colder = TemperedHiddenMarkov(MODEL, 40, 0.99 * mech.temperature, sweeps=5)
    assert not colder.profile.satisfies(target)
    assert TemperedHiddenMarkov.calibrate(MODEL, 40, ZeroConcentratedDP(1e9), sweeps=5).temperature == 1.0


def test_at_temperature_one_it_is_the_plain_posterior() -> None:
    rng = seeded_rng(2)
    grid = ChainGrid(Field("region", tuple(range(6))), Field("month", tuple(range(20))))
    model = HiddenMarkovModel(grid, FIELDS, states=2)
    z = np.repeat(rng.integers(0, 2, (6, 4)), 5, axis=1)
    theta = [np.array([[0.8, 0.2], [0.3, 0.7]]), np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])]
    counts = [rng.multinomial(50, t[z]) for t in theta]
    cells = np.argwhere(np.ones((6, 20)))
    events = {"region": np.repeat(cells[:, 0], 50), "month": np.repeat(cells[:, 1], 50)}
    for field, table in zip(FIELDS, counts, strict=True):
        flat = table.reshape(-1, field.size)
        events[field.name] = np.concatenate([np.repeat(field.categories, row) for row in flat])
    mech = TemperedHiddenMarkov(model, n=6000, temperature=1.0, sweeps=120, floor=0.05)
    tempered = mech.release(events, rng).value.after(40)
    plain = model.fit(counts, sweeps=200, burn_in=80, rng=rng)
    assert (tempered.most_frequent_states == plain.most_frequent_states).all()
    for one, two in zip(tempered.emissions, plain.emissions, strict=True):
        np.testing.assert_allclose(one.mean(axis=0), two.mean(axis=0), atol=0.01)


@pytest.mark.parametrize("alpha", [[4.0, 3.0], [60.0, 0.4], [0.5, 0.5]])
def test_floored_draws_have_the_truncated_law(alpha: list[float]) -> None:
    floor = 0.04
    draws = draw_floored_dirichlet(np.tile(alpha, (800, 1)), 1.0, np.zeros((800, len(alpha))), floor, seeded_rng(3))[
        :, 0
    ]
    law = stats.beta(*alpha)
    low, high = law.cdf(floor), law.cdf(1 - floor)
    assert stats.kstest(draws, lambda x: np.clip((law.cdf(x) - low) / (high - low), 0, 1)).pvalue > 1e-3
    assert draws.min() >= floor
    assert draws.max() <= 1 - floor


TWO = HiddenMarkovModel(
    ChainGrid(Field("region", ("N", "S")), Field("month", (1,))), FIELDS[:1], states=2, emission_prior=1.0
)
COUNTS = np.array([[40.0, 0.0], [9.0, 24.0]])
"""Of the two regions, which are in a state each before the sweep."""


def _surprises(mech: TemperedHiddenMarkov, sweeping: TemperedHiddenMarkov, runs: int = 20_000) -> tuple[float, float]:
    """Return how many standard deviations the emissions and the states of a sweep lie off their law under `mech`."""
    even = np.full((runs, 2), 0.5)
    before = ChainState(even, np.full((runs, 2, 2), 0.5), (), np.tile([[[0], [1]]], (runs, 1, 1)))
    after = sweeping.sweep(before, [COUNTS[:, None, :]], seeded_rng(6))
    theta, least = after.emissions[0], mech.floor / 2
    moments = []
    for counts in COUNTS:  # Σ N log θ of each state, which the weight of the data moves most
        alpha = 1 + counts / mech.temperature

        def part(x: float, power: int, alpha: np.ndarray = alpha, counts: np.ndarray = counts) -> float:
            score = special.xlogy(counts[0], x) + special.xlogy(counts[1], 1 - x)
            return score**power * np.exp(special.xlogy(alpha[0] - 1, x) + special.xlogy(alpha[1] - 1, 1 - x))

        mass, first, second = (integrate.quad(part, least, 1 - least, (k,), epsabs=0)[0] for k in range(3))
        moments.append((first / mass, second / mass - (first / mass) ** 2))
    off = (COUNTS * np.log(theta)).sum(axis=-1) - [mean for mean, _ in moments]
    emissions = off.sum() / np.sqrt(runs * sum(variance for _, variance in moments))
    # Given θ the odds of state 1 in a region are ∏ (θ₁/θ₀)^(N/T): test along their logarithm.
    slope = (np.log(theta[:, 1]) - np.log(theta[:, 0])) @ COUNTS.T
    chance = special.expit(slope / mech.temperature)
    wrong = slope * (after.states[..., 0] - chance)
    states = wrong.sum() / np.sqrt((slope**2 * chance * (1 - chance)).sum())
    return abs(float(emissions)), abs(float(states))


def test_a_sweep_counts_the_data_exactly_one_over_the_temperature() -> None:
    mech = TemperedHiddenMarkov(TWO, n=73, temperature=8.0)
    assert max(_surprises(mech, mech)) < 4
    for fault in (1.15, 1 / 1.15):
        assert min(_surprises(mech, replace(mech, temperature=fault * mech.temperature))) > 6


def test_a_release_is_a_whole_chain_charged_once(tmp_path: Path) -> None:
    rng = seeded_rng(4)
    data = pa.table({f.name: [f.categories[i] for i in rng.integers(0, f.size, 60)] for f in (*GRID.fields, *FIELDS)})
    mech = TemperedHiddenMarkov.calibrate(MODEL, 60, ZeroConcentratedDP(0.2), sweeps=7)
    with Curator(data, tmp_path / "ledger", ZeroConcentratedDP(0.5), dataset="events") as curator:
        release = curator.release(mech, mech.columns)
        assert curator.remaining().rho == pytest.approx(0.3)
    assert len(release.value) == 7
    again = Release.from_json(release.to_json())
    assert isinstance(again.value, HiddenMarkovPosterior)
    assert again.value == release.value


def test_missing_cells_are_not_looked_at() -> None:
    everything = np.ones(GRID.shape, dtype=bool)
    mech = TemperedHiddenMarkov(MODEL, n=2, temperature=1.0, sweeps=3, missing=everything)
    one, two = (
        mech.release({"region": [r] * 2, "month": [1, 2], "kind": ["a"] * 2, "hurt": [2] * 2}, seeded_rng(5)).value
        for r in "NS"
    )
    assert one == two


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: TemperedHiddenMarkov(MODEL, 5, 0.5), InvalidValue, "temperature must be"),
        (lambda: TemperedHiddenMarkov(MODEL, 5, float("nan")), InvalidValue, "temperature must be"),
        (lambda: TemperedHiddenMarkov(MODEL, 5, 1.0, sweeps=0), InvalidValue, "sweeps must be"),
        (lambda: TemperedHiddenMarkov(MODEL, 5, 1.0, floor=1.0), InvalidValue, "floor must lie"),
        (lambda: TemperedHiddenMarkov("model", 5, 1.0), InvalidValue, "HiddenMarkovModel"),
        (lambda: TemperedHiddenMarkov(MODEL, 5, 1.0, missing=[[True]]), InvalidData, "missing must be"),
        (lambda: TemperedHiddenMarkov(MODEL, 5, 1.0).cost(draws=2), InvalidValue, "one whole chain"),
        (lambda: TemperedHiddenMarkov(MODEL, 5, 1.0).forecast(None), InvalidValue, "simulated"),
        (
            lambda: TemperedHiddenMarkov(MODEL, 5, 1.0).release(
                {"region": ["N"], "month": [1], "kind": ["a"], "hurt": [0]}
            ),
            InvalidData,
            "n=5",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(make, error, message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_no_records_cost_nothing() -> None:
    mech = TemperedHiddenMarkov(MODEL, n=0, temperature=1.0, sweeps=2)
    assert mech.profile.zcdp() == 0
    assert len(mech.release({name: [] for name in mech.columns}).value) == 2
