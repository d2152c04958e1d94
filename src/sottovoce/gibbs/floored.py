"""Dirichlet draws with every probability above a floor, many at once."""

from __future__ import annotations

import numpy as np

from sottovoce.mechanisms.mechanism import coarsen
from sottovoce.privacy.numbers import Floats
from sottovoce.systems.distributions.truncated_dirichlet import TruncatedDirichlet

__all__ = ["draw_floored_dirichlet"]

_TRIES = 16


def draw_floored_dirichlet(alpha: Floats, floor: float, rng: np.random.Generator) -> Floats:
    """Draw from Dirichlet(α) given that every probability is at least `floor`, exactly, for each row of α.

    All rows try the plain Dirichlet a few times at once; a row whose tries all fell below the floor goes on with
    the schemes of `TruncatedDirichlet`. A draw has the same law whichever way it came. The low bits are dropped,
    as with every sample that is released.

    Examples
    --------
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> theta = draw_floored_dirichlet(np.array([[5.0, 3.0], [900.0, 1.0]]), 0.05, seeded_rng(1))
    >>> theta.shape, bool(theta.min() >= 0.05)
    ((2, 2), True)
    """
    rows = alpha.reshape(-1, alpha.shape[-1])
    gammas = rng.standard_gamma(np.broadcast_to(rows, (_TRIES, *rows.shape)))
    with np.errstate(invalid="ignore"):  # where every gamma underflows, the try fails
        tries = gammas / gammas.sum(axis=-1, keepdims=True)
    good = (tries >= floor).all(axis=-1)
    theta = tries[good.argmax(axis=0), np.arange(len(rows))]
    for i in np.flatnonzero(~good.any(axis=0)):
        theta[i] = TruncatedDirichlet(rows[i], floor).sample(None, rng)
    ceiling = 1 - (rows.shape[1] - 1) * floor
    return np.asarray(np.clip(coarsen(theta), floor, ceiling).reshape(alpha.shape))
