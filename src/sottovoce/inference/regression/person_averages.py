r"""How much the score of averages of persons' rows varies, beside that of as many single rows.

Where a record is the average of a person's m rows, its score varies by less: along the constant by
E[1/m + (1 − 1/m)ρ] of what a row's does, ρ the correlation of residuals within a person, and along a column less still
where it differs from row to row of a person (Moulton 1986; the design effect of Kish 1965). So with centred columns
x − m the score's covariance is taken to be G J G', J that of single rows, G x = m k₀ + k·(x − m), k = √κ, each κ
between 0 (many rows that have nothing in common) and 1 (one row, or rows that are alike): uniform before anything is
seen, and told by the look at how much scores vary.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from sottovoce.privacy.numbers import Floats

_LEAST = -8.0
"""A latent is cut here, so that k has an inverse."""


class PersonAverages:
    """G as a function of the latents.

    Parameters
    ----------
    places
        Those of the κ among the latents, one an entry of a row.
    constant
        The place of the intercept among the entries.
    """

    def __init__(self, places: slice, constant: int | None) -> None:
        self.places, self._constant = places, constant
        self.mean = np.zeros(places.stop - places.start)
        """That of the rows: known well enough to be held."""

    def _roots(self, u: Floats) -> tuple[Floats, Floats]:
        at = np.maximum(u[self.places], _LEAST)
        k = np.sqrt(special.ndtr(at))
        return k, np.exp(-at * at / 2) / math.sqrt(2 * math.pi) / (2 * k)

    def turn(self, u: Floats) -> Floats:
        """Return G."""
        return self._of(self._roots(u)[0])

    def _of(self, k: Floats) -> Floats:
        result = np.diag(k)
        if self._constant is not None:
            result[:, self._constant] += (k[self._constant] - k) * self.mean
            result[self._constant] = 0.0
            result[self._constant, self._constant] = k[self._constant]
        return result

    def slopes(self, u: Floats) -> list[Floats]:
        """Return the derivative of G by each of its latents: G is linear in k."""
        _, dk = self._roots(u)
        return [self._of(slope * (np.arange(len(dk)) == j)) for j, slope in enumerate(dk)]
