"""Dirichlet draws with every probability above a floor, fit for a release."""

from __future__ import annotations

import numpy as np

from sottovoce.mechanisms.mechanism import coarsen
from sottovoce.privacy.numbers import Floats
from sottovoce.systems.distributions.truncated_dirichlet import TruncatedDirichlet

__all__ = ["draw_floored_dirichlet"]


def draw_floored_dirichlet(alpha: Floats, floor: float, rng: np.random.Generator) -> Floats:
    """Draw exactly from Dirichlet(α) given that every probability is at least `floor`, for each α (categories last).

    The low bits are dropped, as with every sample that is released; what is left keeps to the floor and to its
    ceiling, on which the bound of the next update rests.

    Examples
    --------
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> theta = draw_floored_dirichlet(np.array([[5.0, 3.0], [900.0, 1.0]]), 0.05, seeded_rng(1))
    >>> theta.shape, bool(theta.min() >= 0.05)
    ((2, 2), True)
    """
    theta = coarsen(TruncatedDirichlet(alpha, floor).sample(None, rng))
    return np.asarray(np.clip(theta, floor, 1 - (alpha.shape[-1] - 1) * floor))
