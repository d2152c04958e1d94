"""Every constraint holds exactly, on the floats that are drawn from."""

from __future__ import annotations

import itertools
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from sottovoce.privacy.errors import InvalidValue, PromiseUnreachable
from sottovoce.theory.local import (
    LocalMechanism,
    MeanCost,
    MeanError,
    OneBitCluster,
    ProfileGraph,
    ProfileMechanism,
    RandomizedResponse,
    SmoothCategorical,
    SmoothOneBit,
)
from sottovoce.theory.local.exact import GRID, exp_below, on_grid, repair, uniform_steps


@pytest.mark.parametrize("epsilon", [0.0, 5e-324, 1e-17, 1e-9, 0.1, 1.0, 36.7, 700.0, 1000.0])
def test_the_rational_exponential_is_below_the_true_one_and_close(epsilon):
    got = exp_below(epsilon)
    with mpmath.workdps(120):
        true = mpmath.exp(mpmath.mpf(epsilon))
        ratio = mpmath.mpf(got.numerator) / got.denominator / true
        assert 1 - mpmath.mpf(10) ** -57 < ratio <= 1
    assert got >= 1


def test_a_huge_epsilon_still_gives_a_bound_below():
    assert exp_below(1e300) == exp_below(1000.0)


@pytest.mark.parametrize("batch", range(10))
def test_random_graphs_keep_every_constraint_exactly(batch, draw_graph, broken):
    rng = np.random.default_rng(800 + batch)
    for _ in range(12):
        graph = draw_graph(rng)
        epsilon = float(rng.choice([0.0, 1e-9, 0.01, 0.2, 1.0, 3.0, 10.0]))
        objective = [None, MeanError(), MeanCost(rng.random((graph.d, graph.d)))][rng.integers(3)]
        mechanism = SmoothCategorical.calibrate(graph, epsilon, objective)
        assert broken(mechanism) == []
        if epsilon >= 0.01:  # the solver's own tolerance is 1e-10, and the mixing opens a constraint by ε·t/d
            assert mechanism.repair_weight < 1e-7 / min(epsilon, 1.0)


@pytest.mark.parametrize("seed", range(40))
def test_probabilities_of_very_unlike_size_are_no_excuse(seed, broken):
    rng = np.random.default_rng(seed)
    k, d = int(rng.integers(2, 9)), int(rng.integers(2, 7))
    rows = 10.0 ** -rng.uniform(0, rng.choice([3, 9, 18, 100]), size=(k, d))
    rows /= rows.sum(axis=1, keepdims=True)
    pairs = [(i, j) for i in range(k) for j in range(i) if rng.random() < 0.5]
    graph = ProfileGraph(dict(enumerate(rows)), pairs)
    epsilon = float(rng.choice([1e-6, 1e-3, 0.1, 1.0, 30.0, 300.0]))
    for objective in (None, MeanError(), MeanCost(10.0 ** rng.uniform(-6, 6, size=(d, d)))):
        mechanism = SmoothCategorical.calibrate(graph, epsilon, objective)
        assert broken(mechanism) == []
        assert mechanism.repair_weight < 1e-8 / min(epsilon, 1.0) + 1e-9


@pytest.mark.parametrize("kind", [OneBitCluster, SmoothOneBit, RandomizedResponse])
def test_one_bit_mechanisms_keep_every_constraint_exactly(kind, broken):
    for seed in range(60):
        rng = np.random.default_rng(seed)
        p = rng.choice([rng.random(), 0.0, 1.0, 0.5, 1e-300, 1 - 2**-53], size=8)
        edges = [(i, j) for i in range(8) for j in range(i) if rng.random() < 0.3]
        mechanism = kind.calibrate(
            ProfileGraph.bernoulli(dict(enumerate(p)), edges), float(rng.choice([0.0, 1e-12, 0.1, 2.0, 40.0]))
        )
        assert broken(mechanism) == [], seed
        assert mechanism.max_error() <= 0.5, seed


ONE_CATEGORY = ProfileGraph.complete({"a": [1.0], "b": [1.0]})
TWINS = ProfileGraph.complete({"a": [0.1, 0.2, 0.7], "b": [0.1, 0.2, 0.7], "c": [0.1, 0.2, 0.7]})
POINTS = ProfileGraph.complete({"a": [1, 0, 0], "b": [0, 1, 0], "c": [0, 0, 1]})
APART = ProfileGraph({"a": [0.2, 0.8], "b": [0.7, 0.3], "c": [1.0, 0.0]}, [("a", "b")])
NO_EDGES = ProfileGraph({"a": [0.2, 0.8], "b": [0.7, 0.3]}, [])


@pytest.mark.parametrize("graph", [ONE_CATEGORY, TWINS, POINTS, APART, NO_EDGES])
def test_degenerate_graphs(graph, broken):
    for epsilon, objective in itertools.product([0.0, 1e-15, 0.5, 50.0, 1e6], [None, MeanError()]):
        assert broken(SmoothCategorical.calibrate(graph, epsilon, objective)) == [], (epsilon, objective)


def test_identical_profiles_lose_nothing_even_at_epsilon_zero():
    for graph in (TWINS, ONE_CATEGORY, NO_EDGES):
        assert SmoothCategorical.calibrate(graph, 0.0).mean_error() == 0.0


def test_a_component_that_needs_nothing_is_left_alone():
    mechanism = SmoothCategorical.calibrate(APART, 0.1)
    assert np.array_equal(mechanism.matrix("c"), np.eye(2))
    assert mechanism.mean_error() > 0


def test_epsilon_zero_makes_differing_neighbours_look_alike():
    out = SmoothCategorical.calibrate(APART, 0.0).output_distributions
    assert np.array_equal(out[0], out[1])


def test_point_profiles_need_randomized_response():
    for epsilon in (0.1, 1.0, 4.0):
        best = SmoothCategorical.calibrate(POINTS, epsilon).max_error()
        assert best == pytest.approx(1 / (np.exp(epsilon) + 2), abs=2e-9)


def test_repair_mixes_just_enough_and_matrices_far_off_still_end_up_private(broken):
    graph = ProfileGraph.complete({"a": [0.9, 0.1], "b": [0.1, 0.9]})
    steps, weight = repair(graph, np.tile(np.eye(2), (2, 1, 1)), 1.0)
    mechanism = ProfileMechanism(graph, 1.0, steps)
    assert broken(mechanism) == []
    assert 0.3 < weight <= 1.0
    steps, weight = repair(graph, np.tile(np.eye(2), (2, 1, 1)), 3.0)
    assert weight == 0.0 and np.array_equal(steps[0], GRID * np.eye(2))


def test_rounding_to_the_grid_keeps_rows_exactly_stochastic():
    rng = np.random.default_rng(0)
    steps = on_grid(rng.dirichlet(np.ones(7) * 0.1, size=(50, 7)))
    assert np.all(steps.sum(axis=2) == GRID) and steps.min() >= 0
    over = on_grid(np.array([[[0.0, 0.6, 0.4 + 1e-12], [0.5, 0.0, 0.5], [0.0, 0.0, 1.0]]]))
    assert np.all(over.sum(axis=2) == GRID) and over.min() >= 0
    assert uniform_steps(7).sum() == GRID and np.ptp(uniform_steps(7)) == 1


def test_matrices_that_break_the_promise_are_refused():
    graph = ProfileGraph.complete({"a": [0.9, 0.1], "b": [0.1, 0.9]})
    identity = np.tile(GRID * np.eye(2, dtype=np.int64), (2, 1, 1))
    with pytest.raises(PromiseUnreachable, match="'a'–'b'"):
        ProfileMechanism(graph, 1.0, identity)
    assert ProfileMechanism(graph, 2.2, identity).mean_error() == 0.0


def test_one_step_too_few_is_refused():
    graph = ProfileGraph.bernoulli({"a": 0.0, "b": 1.0}, [("a", "b")])
    best = OneBitCluster.calibrate(graph, 1.0)
    one = np.array([[1, -1], [-1, 1]])
    with pytest.raises(PromiseUnreachable):
        ProfileMechanism(graph, 1.0, best.steps + one)
    assert ProfileMechanism(graph, 1.0, best.steps - one).max_error() > best.max_error()


@pytest.mark.parametrize(
    "steps",
    [
        np.eye(2),
        np.full((1, 2, 2), GRID // 2 + 1),
        np.array([[[GRID + 1, -1], [0, GRID]]]),
        np.full((1, 3, 3), GRID // 3),
    ],
)
def test_steps_must_be_stochastic_whole_numbers(steps):
    with pytest.raises(InvalidValue, match="steps must be"):
        ProfileMechanism(ProfileGraph({"a": [0.5, 0.5]}, []), 1.0, steps)


def test_local_matrices_are_checked_and_repaired_exactly(broken):
    graph = ProfileGraph.complete({"a": [0.9, 0.1], "b": [0.1, 0.9]})
    for epsilon in (0.0, 0.3, 1.0, 5.0):
        keep = np.exp(epsilon) / (1 + np.exp(epsilon))
        mechanism = LocalMechanism.from_matrix(graph, epsilon, [[keep, 1 - keep], [1 - keep, keep]])
        assert broken(mechanism) == []
        first = [Fraction(float(a)) for a in mechanism.matrices[0][:, 0]]
        assert max(first) <= exp_below(epsilon) * min(first)
    with pytest.raises(PromiseUnreachable, match="locally private"):
        LocalMechanism.from_matrix(graph, 1.0, [[0.9, 0.1], [0.1, 0.9]])
    with pytest.raises(PromiseUnreachable, match="one matrix for all"):
        LocalMechanism(graph, 1.0, np.tile(GRID * np.eye(2, dtype=np.int64), (2, 1, 1)))
    with pytest.raises(InvalidValue, match="sum to 1"):
        LocalMechanism.from_matrix(graph, 1.0, [[0.9, 0.2], [0.5, 0.5]])
    with pytest.raises(InvalidValue, match="shape"):
        LocalMechanism.from_matrix(graph, 1.0, [[1.0], [1.0]])


def test_a_repaired_matrix_stays_near_the_one_that_was_given():
    """A hair over its ε, as rounding leaves one: a little of what is even is mixed in, and not more."""
    graph, keep = ProfileGraph.complete({"a": [0.9, 0.1], "b": [0.1, 0.9]}), np.exp(1) / (1 + np.exp(1)) + 1e-11
    mechanism = LocalMechanism.from_matrix(graph, 1.0, [[keep, 1 - keep], [1 - keep, keep]])
    assert 0 < mechanism.repair_weight < 1e-9
    np.testing.assert_allclose(mechanism.matrices[0], [[keep, 1 - keep], [1 - keep, keep]], atol=1e-9)


@pytest.mark.parametrize("epsilon", [0.0, 1e-16, 0.5, 2.0, 60.0])
def test_randomized_response_is_locally_private_exactly(epsilon):
    for d in (1, 2, 3, 7):
        graph = ProfileGraph({"a": [Fraction(1, d)] * d}, [])
        steps = RandomizedResponse.calibrate(graph, epsilon).steps[0]
        ratio = exp_below(epsilon)
        for column in steps.T.tolist():
            assert max(column) <= ratio * min(column), d
        keep = np.exp(epsilon) / (np.exp(epsilon) + d - 1)
        assert np.allclose(np.diag(steps) / GRID, keep, atol=1e-15), d
