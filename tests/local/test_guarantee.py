"""How promises of this notion compose, and that they do with nothing else."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from sottovoce.privacy.errors import IncompatibleNotions, InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.theory.local import (
    ProfileGraph,
    ProfilePrivacy,
    RandomizedResponse,
    SmoothCategorical,
    independent_profiles,
    independent_samples,
    same_record,
)

GRAPH = ProfileGraph.chain({"a": [0.2, 0.3, 0.5], "b": [0.4, 0.3, 0.3], "c": [0.6, 0.3, 0.1]})


def worst_ratio(first, second):
    return np.log(first / second).max()


def test_independent_samples_add_as_brute_force_says():
    one, two = SmoothCategorical.calibrate(GRAPH, 0.3), SmoothCategorical.calibrate(GRAPH, 0.5)
    together = independent_samples([one.guarantee, two.guarantee])
    assert together.epsilon == pytest.approx(0.8)
    for i, j in itertools.permutations(range(3), 2):
        joint = [np.outer(one.output_distributions[x], two.output_distributions[x]) for x in (i, j)]
        hops = GRAPH.hops(GRAPH.names[i], GRAPH.names[j])
        assert worst_ratio(*joint) <= together.epsilon * hops + 1e-12
    assert worst_ratio(*[np.outer(one.output_distributions[x], two.output_distributions[x]) for x in (0, 1)]) > 0.5


def test_sums_are_rounded_up_and_by_no_more_than_needed():
    rng = np.random.default_rng(0)
    for _ in range(50):
        parts = [ProfilePrivacy(GRAPH, e) for e in rng.random(5)]
        true = sum(Fraction(part.epsilon) for part in parts)
        got = independent_samples(parts).epsilon
        assert Fraction(got) >= true > Fraction(np.nextafter(got, 0.0))
        apart = ProfilePrivacy(GRAPH, parts[0].epsilon).between("a", "c")
        assert Fraction(apart) >= 2 * Fraction(parts[0].epsilon)


def test_independent_profiles_take_the_largest():
    parts = [ProfilePrivacy(GRAPH, 0.3), ProfilePrivacy(GRAPH, 0.5)]
    assert independent_profiles(parts).epsilon == 0.5


def test_the_same_record_twice_composes_only_for_local_mechanisms():
    smooth = SmoothCategorical.calibrate(GRAPH, 0.3).guarantee
    local = RandomizedResponse.calibrate(GRAPH, 0.3).guarantee
    assert same_record([local, local]).epsilon == pytest.approx(0.6)
    assert same_record([local, local]).local
    assert same_record([smooth]) == smooth
    with pytest.raises(IncompatibleNotions, match="same record"):
        same_record([smooth, local])


def test_reprocessing_a_record_really_breaks_the_sum():
    """Two profiles alike in every margin but not jointly: the reason for refusing."""
    graph = ProfileGraph.complete({"a": [0.5, 0.5, 0.0, 0.0], "b": [0.0, 0.0, 0.5, 0.5]})
    mechanism = SmoothCategorical.calibrate(graph, 0.01)
    twice = [
        sum(p * np.outer(row, row) for p, row in zip(P, A, strict=True))
        for P, A in zip(graph.matrix, mechanism.matrices, strict=True)
    ]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.nan_to_num(np.log(twice[0] / twice[1]), nan=0.0)
    assert np.abs(ratio).max() > 0.02


def test_it_never_mixes_with_the_central_notion_in_either_order():
    ours, central = ProfilePrivacy(GRAPH, 0.3), GaussianProfile(0.5)
    for sum_ in (
        lambda: ours + central,
        lambda: central + ours,
        lambda: ours + ours,
        lambda: 2 * ours,
        lambda: ours * 2,
    ):
        with pytest.raises(IncompatibleNotions):
            sum_()
    for compose in (independent_samples, independent_profiles, same_record):
        with pytest.raises(IncompatibleNotions, match="its own kind"):
            compose([ours, central])
        with pytest.raises(IncompatibleNotions, match="different profile graphs"):
            compose([ours, ProfilePrivacy(ProfileGraph.complete(GRAPH.profiles), 0.3)])
        with pytest.raises(InvalidValue, match="nothing to compose"):
            compose([])


def test_between_counts_edges_and_local_does_not():
    graph = ProfileGraph({"a": [0.5, 0.5], "b": [0.4, 0.6], "c": [0.3, 0.7], "z": [1, 0]}, [("a", "b"), ("b", "c")])
    ours = ProfilePrivacy(graph, 0.3)
    assert (ours.between("a", "a"), ours.between("a", "b")) == (0.0, 0.3)
    assert ours.between("a", "c") == pytest.approx(0.6)
    assert ours.between("a", "z") == np.inf
    local = RandomizedResponse.calibrate(graph, 0.3).guarantee
    assert local.between("a", "z") == 0.3
    with pytest.raises(InvalidValue, match="ProfileGraph"):
        ProfilePrivacy("graph", 1.0)
