"""Faults of metric privacy and of local privacy."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from audit.faults import Patch, fault
from sottovoce.theory.local import one_bit
from sottovoce.theory.local.exact import exp_below
from sottovoce.theory.local.local import LocalMechanism
from sottovoce.theory.local.mechanism import ProfileMechanism
from sottovoce.theory.local.one_bit import OneBitCluster
from sottovoce.theory.local.randomized_response import RandomizedResponse
from sottovoce.theory.metric import distinguishability
from sottovoce.theory.metric.metric import MetricDP, squares_distance
from sottovoce.theory.metric.networks import NetworkMetric
from sottovoce.theory.metric.posterior_pairs import NormalPrecision

DISTANCES, NETWORKS = (
    "posteriors move no farther than their distance allows",
    "a network's distance counts every factor that moves",
)
GUESSES, EDGES = "no guess is promised to be worse than the best one", "profile matrices keep every edge"
ROWS = "a record by itself keeps its ε"


@fault("one of two likelihoods, not their difference", "metric privacy", DISTANCES)
def _one_side(patch: Patch) -> None:
    honest = MetricDP.log_ratio_bound
    patch.setattr(MetricDP, "log_ratio_bound", lambda self, x, y: honest(self, x, y) / 2)


@fault("the constant of a mean near zero", "metric privacy", DISTANCES)
def _near_zero(patch: Patch) -> None:
    patch.setattr(NormalPrecision, "bounded", lambda self, limit: MetricDP(1 / (4 * limit), squares_distance))


@fault("the children of a changed variable forgotten", "networks", NETWORKS)
def _no_children(patch: Patch) -> None:
    patch.setattr(NetworkMetric, "_touches", lambda self: np.eye(len(self.parents)))


@fault("a guess wrong by the whole distance", "Le Cam's bound", GUESSES)
def _whole_distance(patch: Patch) -> None:
    honest = distinguishability.guess_error
    patch.setattr(distinguishability, "guess_error", lambda distance, tv: 2 * honest(distance, tv))


def _unchecked(patch: Patch) -> None:
    """Take away what would raise by itself: every matrix is checked where it is made."""
    for kind in (ProfileMechanism, LocalMechanism):
        patch.setattr(kind, "_check", lambda self: None)


@fault("one outcome of a bit held, not both", "profile graphs", EDGES)
def _one_outcome(patch: Patch) -> None:
    def steps(first, second, ratio):
        low, high = sorted((first[1], second[1]))
        need = max(Fraction(0), high - ratio * low)
        return math.ceil(one_bit.GRID * need / (2 * need + ratio - 1)) if need else 0

    patch.setattr(one_bit, "edge_flip_steps", steps)
    _unchecked(patch)


@fault("the least flip of a cluster, not the largest", "profile graphs", EDGES)
def _least_flip(patch: Patch) -> None:
    def calibrate(cls, graph, epsilon):
        ratio = exp_below(epsilon)
        needs = [one_bit.edge_flip_steps(graph.exact[a], graph.exact[b], ratio) for a, b in graph.edge_indices]
        return cls(graph, epsilon, one_bit.flip_matrices([min(needs)] * graph.k))

    patch.setattr(OneBitCluster, "calibrate", classmethod(calibrate))
    _unchecked(patch)


@fault("randomized response of many outcomes priced as of two", "local mechanisms", ROWS)
def _two_outcomes(patch: Patch) -> None:
    def calibrate(cls, graph, epsilon):
        other = math.ceil(one_bit.GRID / (math.exp(epsilon) + 1) / (graph.d - 1))
        steps = np.full((graph.d, graph.d), other, dtype=np.int64)
        np.fill_diagonal(steps, one_bit.GRID - (graph.d - 1) * other)
        return cls(graph, epsilon, np.broadcast_to(steps, (graph.k, graph.d, graph.d)))

    patch.setattr(RandomizedResponse, "calibrate", classmethod(calibrate))
    _unchecked(patch)
