"""The closed form (7.8), its repair, and the order of the one-bit mechanisms."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from sottovoce.privacy.errors import InvalidValue
from sottovoce.theory.local import (
    OneBitCluster,
    ProfileGraph,
    RandomizedResponse,
    SmoothOneBit,
    TwoProfileOneBit,
    flip_probability,
)
from sottovoce.theory.local.exact import GRID

GRID_200 = np.linspace(0.0, 1.0, 200)


def printed_7_8(p, q, epsilon):
    """Equation (7.8) as printed, with the terms above one half left out."""
    low, high, growth = np.minimum(p, q), np.maximum(p, q), np.exp(epsilon)
    with np.errstate(divide="ignore", invalid="ignore"):
        first = (high - growth * low) / (2 * (high - growth * low) - (1 - growth))
        second = (low - growth * high + growth - 1) / (2 * (low - growth * high) + growth - 1)
    terms = np.stack([np.zeros_like(first), first, second])
    return np.where((terms >= 0) & (terms <= 0.5), terms, 0.0).max(axis=0)


def keeps(p, q, flip, growth):
    """The four constraints of (7.5), written out."""
    one_p, one_q = p * (1 - flip) + (1 - p) * flip, q * (1 - flip) + (1 - q) * flip
    pairs = ((one_p, one_q), (one_q, one_p), (1 - one_p, 1 - one_q), (1 - one_q, 1 - one_p))
    return np.all([a <= growth * b for a, b in pairs], axis=0)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 3.0])
def test_flip_probabilities_equal_7_8_on_a_grid_and_never_exceed_randomized_response(epsilon):
    p, q = np.meshgrid(GRID_200, GRID_200)
    flips = flip_probability(p, q, epsilon)
    assert np.allclose(flips, printed_7_8(p, q, epsilon), atol=1e-13)
    assert flips.max() <= 1 / (1 + np.exp(epsilon))
    assert np.all(keeps(p, q, flips + 1e-12, np.exp(epsilon)))
    needed = flips > 0
    assert not np.any(keeps(p[needed], q[needed], flips[needed] - 1e-9, np.exp(epsilon)))


def test_the_exact_mechanism_equals_the_closed_form_on_the_grid():
    rng = np.random.default_rng(1)
    for p, q in rng.choice(GRID_200, size=(300, 2)):
        for epsilon in (0.2, 1.0):
            graph = ProfileGraph.bernoulli({"a": p, "b": q}, [("a", "b")])
            mechanism = TwoProfileOneBit.calibrate(graph, epsilon)
            assert mechanism.flip == pytest.approx(float(flip_probability(p, q, epsilon)), abs=1e-15)
            assert mechanism.flip <= RandomizedResponse.calibrate(graph, epsilon).max_error()


@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 0.1, 1.0, 5.0, 30.0])
def test_certain_bits_give_randomized_response_to_the_last_step(epsilon):
    graph = ProfileGraph.bernoulli({"a": 0, "b": 1}, [("a", "b")])
    steps = int(TwoProfileOneBit.calibrate(graph, epsilon).steps[0, 0, 1])
    with mpmath.workdps(60):
        true = GRID / (1 + mpmath.exp(mpmath.mpf(epsilon)))
        assert steps == int(mpmath.ceil(true))


def test_the_printed_formula_is_off_where_a_constraint_is_slack():
    low, high, growth = 0.1, 0.12, np.e
    third = (low - growth * high + growth - 1) / (2 * (low - growth * high) + growth - 1)
    assert third > 1
    assert flip_probability(low, high, 1.0) == 0.0
    assert keeps(low, high, 0.0, growth)


def test_cluster_takes_the_worst_edge_of_each_component():
    p = {"a": 0.1, "b": 0.5, "c": 0.9, "x": 0.4, "y": 0.5, "alone": 0.0}
    graph = ProfileGraph.bernoulli(p, [("a", "b"), ("b", "c"), ("x", "y")])
    flips = dict(zip(graph.names, OneBitCluster.calibrate(graph, 0.3).flips, strict=True))
    worst = max(flip_probability(0.1, 0.5, 0.3), flip_probability(0.5, 0.9, 0.3))
    assert flips["a"] == flips["b"] == flips["c"] == pytest.approx(worst, abs=1e-15)
    assert flips["x"] == flips["y"] == pytest.approx(float(flip_probability(0.4, 0.5, 0.3)), abs=1e-15)
    assert flips["alone"] == 0.0


@pytest.mark.parametrize("seed", range(8))
def test_smooth_is_never_worse_than_cluster_nor_cluster_than_randomized_response(seed):
    rng = np.random.default_rng(seed)
    p = dict(enumerate(rng.random(7)))
    graph = ProfileGraph.bernoulli(p, [(i, int(rng.integers(i))) for i in range(1, 7)])
    for epsilon in (0.1, 0.7):
        smooth = SmoothOneBit.calibrate(graph, epsilon)
        cluster = OneBitCluster.calibrate(graph, epsilon)
        local = RandomizedResponse.calibrate(graph, epsilon)
        assert smooth.max_error() <= cluster.max_error() + 2e-9
        assert smooth.mean_error() <= cluster.mean_error() + 2e-9
        assert cluster.max_error() <= local.max_error()


def test_two_profiles_share_the_optimum_with_the_smooth_mechanism_or_beat_nothing():
    graph = ProfileGraph.bernoulli({"a": 0.0, "b": 1.0}, [("a", "b")])
    smooth = SmoothOneBit.calibrate(graph, 1.0)
    assert smooth.flips == pytest.approx([1 / (1 + np.e)] * 2, abs=2e-9)


def test_a_prior_steers_the_ties_of_the_smooth_mechanism():
    graph = ProfileGraph.bernoulli({"a": 0.2, "b": 0.8, "c": 0.75}, [("a", "b"), ("b", "c")])
    towards_a = SmoothOneBit.calibrate(graph, 0.5, prior={"a": 1.0})
    towards_b = SmoothOneBit.calibrate(graph, 0.5, prior={"b": 1.0})
    assert towards_a.flips[0] <= towards_b.flips[0] + 1e-9
    assert towards_b.flips[1] <= towards_a.flips[1] + 1e-9
    assert towards_a.max_error() == pytest.approx(towards_b.max_error(), abs=3e-9)


def test_bad_questions_are_named():
    three = ProfileGraph.complete({"a": [0.2, 0.3, 0.5], "b": [0.5, 0.3, 0.2]})
    for kind in (TwoProfileOneBit, OneBitCluster, SmoothOneBit):
        with pytest.raises(InvalidValue, match=r"exactly two categories\. Got 3"):
            kind.calibrate(three, 1.0)
        with pytest.raises(InvalidValue, match="epsilon must be"):
            kind.calibrate(ProfileGraph.bernoulli({"a": 0.1, "b": 0.2}, []), -1.0)
    with pytest.raises(InvalidValue, match=r"two profiles\. Got 3"):
        TwoProfileOneBit.calibrate(ProfileGraph.bernoulli({"a": 0.1, "b": 0.2, "c": 0.3}, []), 1.0)
    with pytest.raises(InvalidValue, match="p and q"):
        flip_probability(0.5, 1.5, 1.0)
