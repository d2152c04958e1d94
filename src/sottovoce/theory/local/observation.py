"""What released records can tell: the outputs seen, and the distributions that could have given them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np

from sottovoce.privacy.errors import InvalidData
from sottovoce.privacy.numbers import Floats
from sottovoce.theory.local.coding import codes_of
from sottovoce.theory.local.mechanism import ProfileMechanism


@dataclass(frozen=True, eq=False)
class Observation:
    r"""Counts of outputs whose distribution is :math:`w C`, where the categories have :math:`\theta = w D`.

    Where every profile has the same matrix A, any distribution of categories is possible: C = A, D = I, w = θ.
    Otherwise w weighs the profiles, C has rows P_i A^i and D rows P_i. The profile of a record is never looked at.
    """

    counts: Floats
    C: Floats
    D: Floats
    categories: tuple[Hashable, ...]

    @property
    def n(self) -> int:
        """The number of records."""
        return int(self.counts.sum())


def observe(mechanism: ProfileMechanism, released: object, profiles: Iterable[Hashable] | None = None) -> Observation:
    """Return what `released` says: a column of outputs, or counts by output.

    `profiles` names those the records can have come from, where that much is public (one component, say); by
    default all.
    """
    outputs = mechanism.outputs
    if isinstance(released, dict):
        unknown = [y for y in released if y not in outputs]
        if unknown:
            raise InvalidData(f"{unknown[0]!r} is no output of the mechanism")
        counts = np.array([released.get(y, 0) for y in outputs], dtype=np.float64)
        if not np.all((counts >= 0) & (counts == np.floor(counts)) & np.isfinite(counts)):
            raise InvalidData(f"counts must be whole numbers >= 0. Got {released!r}")
    else:
        codes = codes_of("released", released, outputs, released=True)
        counts = np.bincount(codes, minlength=len(outputs)).astype(np.float64)
    if counts.sum() < 1:
        raise InvalidData("there are no released records to learn from")
    graph = mechanism.graph
    if np.all(mechanism.steps == mechanism.steps[0]):
        return Observation(counts, mechanism.matrices[0], np.eye(graph.d), graph.categories)
    chosen = range(graph.k) if profiles is None else [graph.index(name) for name in profiles]
    rows = list(chosen)
    if not rows:
        raise InvalidData("profiles must name at least one profile")
    return Observation(counts, mechanism.output_distributions[rows], graph.matrix[rows], graph.categories)
