"""The linear programs reach the optimum an independent modelling tool finds."""

from __future__ import annotations

import numpy as np
import pytest

from sottovoce.privacy.errors import InvalidValue
from sottovoce.theory.local import (
    MaxOffDiagonal,
    MeanCost,
    MeanError,
    ProfileGraph,
    RandomizedResponse,
    SmoothCategorical,
    SmoothOneBit,
)


@pytest.fixture(scope="module")
def cp():
    return pytest.importorskip("cvxpy", reason="cvxpy is the independent solver of these tests")


def solved_by_cvxpy(cp, graph, epsilon, objective):
    """Program (7.7) as the thesis writes it, with no idea of ours in it; two stages for the maximum."""
    k, d, P = graph.k, graph.d, graph.matrix
    A = [cp.Variable((d, d)) for _ in range(k)]
    rules = [a >= 0 for a in A] + [a <= 1 for a in A] + [cp.sum(a, axis=1) == 1 for a in A]
    for i, j in graph.edge_indices.tolist():
        rules += [
            P[i] @ A[i] <= np.exp(epsilon) * (P[j] @ A[j]),
            P[j] @ A[j] <= np.exp(epsilon) * (P[i] @ A[i]),
        ]
    linear = sum(cp.sum(cp.multiply(c, a)) for c, a in zip(objective.costs(graph), A, strict=True))
    if not objective.minimax:
        return cp.Problem(cp.Minimize(linear), rules).solve(solver=cp.CLARABEL), None
    off = [cp.max(cp.multiply(1 - np.eye(d), a)) for a in A]
    best = cp.Problem(cp.Minimize(cp.maximum(*off, 0)), rules).solve(solver=cp.CLARABEL)
    capped = rules + [o <= best + 1e-9 for o in off]
    return best, cp.Problem(cp.Minimize(linear), capped).solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", ["max", "mean", "cost"])
def test_the_objective_equals_cvxpy(seed, kind, draw_graph, cp):
    rng = np.random.default_rng(40 + seed)
    graph = draw_graph(rng, k_max=6, d_max=4)
    while graph.d == 1:  # nothing to choose
        graph = draw_graph(rng, k_max=6, d_max=4)
    epsilon = float(rng.choice([0.1, 0.5, 1.5]))
    prior = dict(zip(graph.names, rng.random(graph.k) + 0.1, strict=True))
    objective = {
        "max": MaxOffDiagonal(prior),
        "mean": MeanError(prior),
        "cost": MeanCost(rng.random((graph.d, graph.d)), prior),
    }[kind]
    best, second = solved_by_cvxpy(cp, graph, epsilon, objective)
    mechanism = SmoothCategorical.calibrate(graph, epsilon, objective)
    assert mechanism.objective_value() == pytest.approx(best, abs=1e-6)
    if second is not None:
        assert mechanism.mean_error(prior) == pytest.approx(second, abs=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_smooth_one_bit_equals_cvxpy(seed, cp):
    rng = np.random.default_rng(seed)
    k, epsilon = 7, float(rng.choice([0.1, 0.5, 1.5]))
    p = rng.random(k)
    edges = [(i, int(rng.integers(i))) for i in range(1, k)]
    flip = cp.Variable(k)
    one = p + cp.multiply(1 - 2 * p, flip)
    rules = [flip >= 0]
    for i, j in edges:
        for a, b in ((one[i], one[j]), (1 - one[i], 1 - one[j])):
            rules += [a <= np.exp(epsilon) * b, b <= np.exp(epsilon) * a]
    best = cp.Problem(cp.Minimize(cp.max(flip)), rules).solve(solver=cp.CLARABEL)
    mean = cp.Problem(cp.Minimize(cp.sum(flip) / k), [*rules, flip <= best + 1e-9]).solve(solver=cp.CLARABEL)
    mechanism = SmoothOneBit.calibrate(ProfileGraph.bernoulli(dict(enumerate(p)), edges), epsilon)
    assert mechanism.max_error() == pytest.approx(best, abs=1e-6)
    assert mechanism.flips.mean() == pytest.approx(mean, abs=1e-6)


def test_complete_graphs_reach_the_same_optimum_edge_by_edge():
    rng = np.random.default_rng(3)
    rows = dict(enumerate(rng.dirichlet(np.ones(5), size=6)))
    complete = ProfileGraph.complete(rows)
    # A seventh profile hanging on one edge makes the component incomplete without adding a need.
    hanging = ProfileGraph(rows | {"twin": rows[0]}, [*complete.edges, (0, "twin")])
    for epsilon in (0.2, 1.0):
        first = SmoothCategorical.calibrate(complete, epsilon).max_error()
        assert SmoothCategorical.calibrate(hanging, epsilon).max_error() == pytest.approx(first, abs=1e-7)


def test_never_worse_than_randomized_response(draw_graph):
    rng = np.random.default_rng(9)
    for _ in range(20):
        graph = draw_graph(rng)
        smooth = SmoothCategorical.calibrate(graph, 0.5)
        local = RandomizedResponse.calibrate(graph, 0.5)
        assert smooth.max_error() <= local.max_error() + 2e-9
        assert SmoothCategorical.calibrate(graph, 0.5, MeanError()).mean_error() <= local.mean_error() + 1e-6


def test_a_prior_and_a_cost_move_the_error_where_it_hurts_less():
    graph = ProfileGraph.chain({"a": [0.2, 0.3, 0.5], "b": [0.6, 0.3, 0.1]})
    spare_a = SmoothCategorical.calibrate(graph, 0.2, MeanError({"a": 1.0, "b": 0.01}))
    spare_b = SmoothCategorical.calibrate(graph, 0.2, MeanError({"a": 0.01, "b": 1.0}))
    assert spare_a.mean_error({"a": 1.0}) < spare_b.mean_error({"a": 1.0})
    steps = np.abs(np.subtract.outer(np.arange(3), np.arange(3))) ** 2.0
    near = SmoothCategorical.calibrate(graph, 0.2, MeanCost(steps))
    plain = SmoothCategorical.calibrate(graph, 0.2, MeanError())
    distance = MeanCost(steps).costs(graph)
    assert np.sum(distance * near.matrices) < np.sum(distance * plain.matrices)


def test_bad_objectives_are_named():
    graph = ProfileGraph.chain({"a": [0.2, 0.8], "b": [0.6, 0.4]})
    with pytest.raises(InvalidValue, match="2 rows by 2 columns"):
        SmoothCategorical.calibrate(graph, 1.0, MeanCost(np.ones((3, 3))))
    with pytest.raises(InvalidValue, match="square matrix of numbers"):
        SmoothCategorical.calibrate(graph, 1.0, MeanCost([["a", "b"], ["c", "d"]]))
    with pytest.raises(InvalidValue, match="no profile of the graph"):
        SmoothCategorical.calibrate(graph, 1.0, MeanError({"zed": 1.0}))
    with pytest.raises(InvalidValue, match="not all zero"):
        SmoothCategorical.calibrate(graph, 1.0, MeanError({"a": 0.0}))
    for epsilon in (-0.1, float("nan"), float("inf"), "much", True):
        with pytest.raises(InvalidValue, match="epsilon must be"):
            SmoothCategorical.calibrate(graph, epsilon)
