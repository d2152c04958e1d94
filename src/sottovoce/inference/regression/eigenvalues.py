"""Symmetric matrices, one first index a matrix, whose eigenvalues are moved: all by as much, or none below a floor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sottovoce.privacy.numbers import Floats


def lifted(matrices: Floats, amounts: Floats) -> Floats:
    """Return matrices with so much more on the diagonal of each."""
    result = matrices.copy()
    np.einsum("kii->ki", result)[...] += amounts[:, None]
    return result


def above(matrices: Floats, floors: Floats) -> bool:
    """Say whether all eigenvalues lie above the floor of their matrix, by roots: eigenvalues take ten times as long."""
    try:
        np.linalg.cholesky(lifted(matrices, -floors))
    except np.linalg.LinAlgError:
        return False
    return True


def floored(matrices: Floats, floors: Floats) -> Floats:
    """Return matrices of which no eigenvalue lies below the floor: as they are where none does.

    >>> floored(np.array([[[2.0, 0.0], [0.0, -1.0]]]), np.array([0.5])).tolist()
    [[[2.0, 0.0], [0.0, 0.5]]]
    """
    if above(matrices, floors):
        return matrices
    values, vectors = np.linalg.eigh(matrices)
    return np.asarray((vectors * np.maximum(values, floors[:, None])[:, None]) @ vectors.transpose(0, 2, 1))


def semicircle_edge(noise: Any, dimension: int) -> Any:
    """Return τ√(2d), within which the eigenvalues of noise lie that is τ on a diagonal and τ/√2 beside it (Wigner).

    >>> semicircle_edge(3.0, 8)
    12.0
    """
    return noise * math.sqrt(2 * dimension)


def beyond_semicircle(values: Floats, edge: Any) -> Floats:
    """Return what eigenvalues were before such noise, 0 within its edge (Benaych-Georges and Nadakuditi 2011).

    >>> beyond_semicircle(np.array([5.0, 2.0, -5.0]), 3.0).tolist()
    [4.5, 0.0, -4.5]
    """
    size = np.abs(values)
    return np.where(size > edge, np.sign(values) * (size + np.sqrt(np.maximum(size**2 - edge**2, 0.0))) / 2, 0.0)
