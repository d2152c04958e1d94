"""The search for quantiles: what one record moves in a round, what the next edges may depend on, what is covered."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sottovoce.inference.cells.cumulative_counts import CumulativeCounts, RoundCounts
from sottovoce.inference.cells.quantile_search import ValueAxis, first_edges, merged, next_edges, round_shares, union_of
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.errors import InvalidValue

Array = Any
AXES = [ValueAxis.whole_numbers(20), ValueAxis.between(0.0, 20.0), ValueAxis.whole_numbers(43_200)]


def counted(values: Array, edges: Array) -> Array:
    return np.bincount(np.searchsorted(edges[1:-1], values, side="right"), minlength=edges.size - 1)


def search(
    values: Array, axis: ValueAxis, at: tuple[float, ...], scale: float, rng: Any, kind: Any = "gaussian"
) -> Any:
    """Search one group, all of whose records are in it: every round's edges, and what is known at the end."""
    shares, edges, rounds, outside = round_shares(kind, axis), first_edges(axis, len(at)), [], []
    for share in shares:
        noise = IntegerNoise(kind, scale / (np.sqrt(share) if kind == "gaussian" else share))
        noisy = noise.add(np.append(counted(values, edges), 0), rng).astype(float)
        rounds.append(RoundCounts(edges, noisy[:-1], noise))
        outside.append(noisy[-1])
        known = CumulativeCounts.of(rounds, len(values), outside)
        edges = next_edges(axis, known, at)
    return rounds, known


@pytest.mark.parametrize("axis", AXES)
def test_cells_of_every_round_are_a_partition_and_one_record_moves_two_by_one(axis: ValueAxis) -> None:
    """Brute force over the values that one record may hold, wherever the noise led the search."""
    rng = np.random.default_rng(1)
    for kind, seed in itertools.product(("gaussian", "laplace"), range(3)):
        values = np.random.default_rng(seed).integers(0, 20, 200).astype(float)
        rounds, _ = search(values, axis, (0.25, 0.5, 0.9), 30.0, rng, kind)
        for one in rounds:
            assert one.edges[0] == axis.low and one.edges[-1] == axis.high and np.all(np.diff(one.edges) > 0)
            tried = np.concatenate([np.linspace(-5, 25, 61), one.edges, [axis.high - 1e-9, 1e9, -1e9]])
            rows = np.array([counted(np.array([value]), one.edges) for value in tried])
            assert np.all(rows.sum(axis=1) == 1) and np.all(np.isin(rows, (0, 1)))  # in one cell and no other
            moved = np.abs(rows[:, None] - rows[None])
            assert moved.max() == 1 and moved.sum(axis=2).max() == 2


def test_merging_counts_each_fine_cell_once_and_refuses_edges_that_are_not_there() -> None:
    fine, coarse = np.array([0.0, 1, 2, 3, 9]), np.array([0.0, 2, 9])
    table = np.array([[1, 2, 3, 4], [5, 6, 7, 8]])
    assert merged(table, fine, coarse).tolist() == [[3, 7], [11, 15]]
    for wrong in ([0.0, 1.5, 9], [1.0, 9], [0.0, 2]):
        with pytest.raises(InvalidValue):
            merged(table, fine, np.array(wrong))
    assert union_of([fine, coarse, np.array([0.0, 2.5, 9])]).tolist() == [0.0, 1, 2, 2.5, 3, 9]


@pytest.mark.parametrize("axis", AXES)
def test_shares_are_of_one_budget(axis: ValueAxis) -> None:
    for kind in ("gaussian", "laplace"):
        shares = round_shares(kind, axis)
        assert shares.sum() == pytest.approx(1.0, abs=1e-12) and np.all(shares > 0)


def test_one_likelihood_is_that_of_generalised_least_squares() -> None:
    """Against the textbook formula in the counts of cells, with the total as a constraint that is all but exact."""
    rng = np.random.default_rng(7)
    edges = [np.array([0.0, 4, 8, 10]), np.array([0.0, 3, 4, 5, 10]), np.array([0.0, 4.5, 10])]
    noises = [IntegerNoise("gaussian", s) for s in (20.0, 30.0, 15.0)]
    rounds = [RoundCounts(e, rng.normal(50, 20, e.size - 1), noise) for e, noise in zip(edges, noises, strict=True)]
    outside, n = [3.0, -4.0, 2.0], 180
    known = CumulativeCounts.of(rounds, n, outside)
    finest = union_of(edges)
    cells = finest.size  # those inside, and one outside
    rows, seen, weights = [], [], []
    for one, out in zip(rounds, outside, strict=True):
        for k in range(one.counts.size):
            rows.append([*((finest[:-1] >= one.edges[k]) & (finest[1:] <= one.edges[k + 1])).astype(float), 0.0])
            seen.append(one.counts[k])
            weights.append(1 / one.noise.variance)
        rows.append([0.0] * (cells - 1) + [1.0])
        seen.append(out)
        weights.append(1 / one.noise.variance)
    rows.append([1.0] * cells)
    seen.append(float(n))
    weights.append(1e4)
    A, W = np.array(rows), np.array(weights)
    covariance = np.linalg.inv(A.T @ (A * W[:, None]))
    z = covariance @ (A.T @ (W * np.array(seen)))
    lower = np.tril(np.ones((cells - 1, cells)))
    assert known.mean[1:] == pytest.approx(lower @ z, abs=0.02)
    assert known.covariance == pytest.approx(lower @ covariance @ lower.T, rel=1e-3)


def test_a_cell_counted_twice_is_seen_in_the_covariance() -> None:
    """The planted fault: one round given twice tells twice as much as it does."""
    rounds, known = search(np.arange(100.0) % 20, AXES[1], (0.5,), 20.0, np.random.default_rng(2))
    twice = CumulativeCounts.of([*rounds, rounds[-1]], 100, [0.0] * (len(rounds) + 1))
    assert np.diag(twice.covariance).sum() < 0.9 * np.diag(known.covariance).sum()


def atoms(rng: Any, n: int) -> Array:
    return rng.choice([0.0, 10, 20, 100], n, p=[0.3, 0.3, 0.3, 0.1])


def long_tail(rng: Any, n: int) -> Array:
    return np.ceil(rng.weibull(0.8, n) * 90).clip(0, 43_200)


CASES: dict[str, tuple[ValueAxis, Callable[[Any, int], Array]]] = {
    "normal": (ValueAxis.between(0.0, 100.0), lambda rng, n: rng.normal(50, 10, n).clip(0, 100)),
    "four atoms": (
        ValueAxis.between(0.0, 100.0),
        lambda rng, n: rng.choice([0.0, 10, 20, 100], n, p=[0.3, 0.3, 0.3, 0.1]),
    ),
    "constant": (ValueAxis.between(0.0, 100.0), lambda rng, n: np.full(n, 37.0)),
    "counts with a tail": (
        ValueAxis.whole_numbers(43_200),
        lambda rng, n: np.ceil(rng.weibull(0.8, n) * 90).clip(0, 43_200),
    ),
    "at the bound": (ValueAxis.whole_numbers(50), lambda rng, n: rng.choice([0, 50], n, p=[0.45, 0.55]).astype(float)),
}


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("n", "scale"), [(40, 2.0), (20_000, 25.0)])
def test_intervals_cover(name: str, kind: str, n: int, scale: float) -> None:
    axis, drawn = CASES[name]
    rng, at, hits = np.random.default_rng(n), (0.25, 0.5, 0.9), []
    truth = np.quantile(drawn(rng, 400_000), at, method="inverted_cdf")
    for _ in range(25):
        _, known = search(drawn(rng, n), axis, at, scale, rng, kind)
        ends = np.array([known.interval(p) for p in at])
        hits.append((ends[:, 0] <= truth + 1e-9) & (truth <= ends[:, 1] + 1e-9))
    assert np.mean(hits) >= 0.9


def test_of_no_record_a_quantile_may_lie_anywhere() -> None:
    _, known = search(np.zeros(0), AXES[0], (0.5,), 5.0, np.random.default_rng(1))
    assert known.interval(0.5) == (AXES[0].low, AXES[0].high)


def test_little_budget_for_many_records_does_not_break_the_weights() -> None:
    """A ridge that does not scale with the noise covers next to nothing here."""
    rng, hits = np.random.default_rng(4), []
    for _ in range(20):
        _, known = search(rng.normal(50, 10, 200_000), ValueAxis.between(0.0, 1000.0), (0.5,), 3000.0, rng)
        low, high = known.interval(0.5)
        hits.append(low <= 50 <= high)
    assert np.mean(hits) >= 0.85


def test_draws_of_counts_are_none_below_zero_and_as_uncertain_as_the_noise() -> None:
    _, known = search(
        np.random.default_rng(0).normal(10, 2, 5000).clip(0, 20), AXES[1], (0.5,), 10.0, np.random.default_rng(1)
    )
    drawn = known.draws(4000, np.random.default_rng(2))
    assert np.all(drawn >= 0)
    place = int(np.searchsorted(known.edges, known.interval(0.5)[0]))
    below = drawn[:, :place].sum(axis=1)
    assert below.mean() == pytest.approx(known.mean[place], abs=15)
    assert below.std() == pytest.approx(np.sqrt(known.covariance[place - 1, place - 1]), rel=0.3)
