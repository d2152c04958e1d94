"""The unbiased estimate of how the original records were distributed."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np
from scipy import special

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.theory.local.mechanism import ProfileMechanism
from sottovoce.theory.local.observation import observe


@dataclass(frozen=True, eq=False)
class CategoryEstimate:
    """An unbiased estimate of the category distribution and the covariance of its error.

    Unbiased estimates may leave [0, 1]; they average out over estimates, where clipped ones would not.
    """

    categories: tuple[Hashable, ...]
    mean: Floats
    covariance: Floats
    n: int
    reach: Floats
    """How far one record can lie from each mean."""

    def interval(self, level: float = 0.95) -> Floats:
        """Return a normal interval for each category, a row a category.

        An output that was rarely seen, or never, says by how little it was seen how uncertain its share is. So the
        variance is that of z²/2 more records which lie as far out as one can (of two at 95 %): the interval of a rare
        category is then about that of a Poisson count.
        """
        if not 0 < level < 1:
            raise InvalidValue(f"level must be between 0 and 1. Got {level!r}")
        z = special.ndtri(0.5 + level / 2)
        half = z * np.sqrt(np.diag(self.covariance) + (z * self.reach / self.n) ** 2 / 2)
        return np.column_stack([self.mean - half, self.mean + half])


def estimate_categories(
    mechanism: ProfileMechanism, released: object, profiles: Iterable[Hashable] | None = None
) -> CategoryEstimate:
    r"""Estimate the category distribution θ without bias, whatever it is.

    Each output y adds a row L_y, chosen with :math:`C L = D` (so that the mean is θ) and, among all such L, of least
    variance at the middle of the graph; see `Observation` for C and D.

    Parameters
    ----------
    mechanism
        The mechanism the records went through.
    released
        The released column, or counts by output.
    profiles
        The profiles the records can have come from, where that is public; by default all.

    Examples
    --------
    >>> from sottovoce.theory.local import ProfileGraph, RandomizedResponse
    >>> graph = ProfileGraph.bernoulli({"a": 0.4, "b": 0.6}, [("a", "b")])
    >>> mechanism = RandomizedResponse.calibrate(graph, epsilon=1.0)
    >>> estimate_categories(mechanism, {0: 400, 1: 600}).mean.round(3)
    array([0.284, 0.716])
    """
    seen = observe(mechanism, released, profiles)
    if seen.n < 2:
        raise InvalidData("an estimate with an error needs at least two records")
    middle = seen.C.mean(axis=0)
    weight = np.divide(1.0, middle, out=np.zeros_like(middle), where=middle > 0)
    scaled = seen.C * weight
    L = scaled.T @ np.linalg.pinv(scaled @ seen.C.T, rcond=1e-13, hermitian=True) @ seen.D
    if np.abs(seen.C @ L - seen.D).max() > 1e-7:
        raise InvalidValue(
            "the released records do not determine the category distribution without bias: different "
            f"mixtures of the {len(seen.C)} profiles look the same through {seen.C.shape[1]} outputs; use "
            "posterior_categories, name fewer profiles, or a larger ε"
        )
    share = seen.counts / seen.n
    mean = share @ L
    spread = L - mean
    covariance = (spread.T * share) @ spread / (seen.n - 1)
    return CategoryEstimate(seen.categories, mean, covariance, seen.n, np.abs(spread).max(axis=0))
