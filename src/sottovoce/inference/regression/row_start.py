"""Where the search for the correlations of the rows of a regression begins."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import special

from sottovoce.privacy.numbers import Floats

__all__ = ["start_correlations"]

_LEAST_VARIANCE, _LARGEST = 0.02, 0.98
"""The mode is sought from where no combination of standardised numbers varies less, and no partial correlation is
larger."""


def start_correlations(
    u: Floats, blocks: Sequence[slice], vine: Sequence[Floats], alone: list[int | None], covariance: Floats
) -> None:
    """Begin with the correlations of the numbers that stand alone in a row, as far as they can be."""
    at, entries = [], []
    for j, entry in enumerate(alone):
        if entry is not None:
            at.append(j)
            entries.append(entry)
    if len(at) < 2:
        return
    part = covariance[np.ix_(entries, entries)]
    sds = np.sqrt(np.clip(np.diag(part), 1e-4, None))
    inside = np.clip(part / np.outer(sds, sds), -1, 1)
    np.fill_diagonal(inside, 1.0)
    values, vectors = np.linalg.eigh(inside)
    inside = (vectors * np.maximum(values, _LEAST_VARIANCE)) @ vectors.T
    correlations = np.eye(len(blocks))
    correlations[np.ix_(at, at)] = inside / np.sqrt(np.outer(np.diag(inside), np.diag(inside)))
    root = np.linalg.cholesky(correlations)
    for j, block in enumerate(blocks):
        remaining = 1.0
        for i in range(j):
            partial = float(np.clip(root[j, i] / math.sqrt(max(remaining, 1e-9)), -_LARGEST, _LARGEST))
            b = vine[j][i]
            u[block.start + 3 + i] = special.ndtri(special.betainc(b, b, (1 + partial) / 2))
            remaining -= root[j, i] ** 2
