"""Audited cases: mechanisms of profile-based local privacy, which is a notion of its own.

The two "data sets" are two profiles joined by an edge, from which one record is drawn and released, or for locally
private mechanisms two records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sottovoce.audit.cases import case
from sottovoce.audit.subject import Subject
from sottovoce.privacy.pure import PureProfile
from sottovoce.theory.local import OneBitCluster, ProfileGraph, RandomizedResponse, SmoothCategorical, SmoothOneBit
from sottovoce.theory.local.mechanism import ProfileMechanism

__all__ = ["edge_subject", "local_subject"]

EPSILON = 1.0


@dataclass(frozen=True, eq=False)
class _ProfileDraws:
    """A record of one profile or the other, released."""

    mechanism: ProfileMechanism
    edge: tuple[int, int]

    def __call__(self, side: int, count: int, rng: np.random.Generator) -> Any:
        graph, profile = self.mechanism.graph, self.edge[side]
        records = rng.choice(graph.d, size=count, p=graph.matrix[profile])
        return self.mechanism.release_codes(records, np.array(profile), rng)


@dataclass(frozen=True, eq=False)
class _RecordDraws:
    """One record or the other, released."""

    mechanism: ProfileMechanism
    records: tuple[int, int]

    def __call__(self, side: int, count: int, rng: np.random.Generator) -> Any:
        return self.mechanism.release_codes(np.full(count, self.records[side]), np.array(0), rng)


def edge_subject(name: str, mechanism: ProfileMechanism) -> Subject:
    """Return the audit of a mechanism across the edge on which it reveals most."""
    worst = int(np.argmax(mechanism.edge_losses()))
    first, second = (int(k) for k in mechanism.graph.edge_indices[worst])
    ratio = _ratio(*mechanism.output_distributions[[first, second]])
    return Subject(name, _ProfileDraws(mechanism, (first, second)), PureProfile(mechanism.epsilon), ratio)


def local_subject(name: str, mechanism: ProfileMechanism) -> Subject:
    """Return the audit of a locally private mechanism between two records."""
    rows = mechanism.matrices[0]
    return Subject(name, _RecordDraws(mechanism, (0, 1)), PureProfile(mechanism.epsilon), _ratio(rows[0], rows[1]))


def _ratio(first: Any, second: Any) -> Any:
    with np.errstate(divide="ignore"):
        table = np.log(first) - np.log(second)
    return lambda outputs: table[np.asarray(outputs, dtype=np.intp)]


def _bits() -> ProfileGraph:
    return ProfileGraph.bernoulli({"a": 0.1, "b": 0.5, "c": 0.8}, [("a", "b"), ("b", "c")])


def _categories() -> ProfileGraph:
    rows = {"a": [0.7, 0.2, 0.1], "b": [0.2, 0.6, 0.2], "c": [0.1, 0.2, 0.7]}
    return ProfileGraph.complete(rows)


@case("local: randomized response", tight=True)
def response() -> Subject:
    """Return randomized response between two records."""
    return local_subject("local: randomized response", RandomizedResponse.calibrate(_categories(), EPSILON))


@case("local: one-bit cluster", tight=True)
def cluster() -> Subject:
    """Return the one-bit cluster mechanism across its worst edge."""
    return edge_subject("local: one-bit cluster", OneBitCluster.calibrate(_bits(), EPSILON))


@case("local: smooth one bit", tight=True)
def smooth_bit() -> Subject:
    """Return the smooth one-bit mechanism across its worst edge."""
    return edge_subject("local: smooth one bit", SmoothOneBit.calibrate(_bits(), EPSILON))


@case("local: smooth categorical", tight=True)
def smooth() -> Subject:
    """Return the smooth categorical mechanism across its worst edge."""
    return edge_subject("local: smooth categorical", SmoothCategorical.calibrate(_categories(), EPSILON))
