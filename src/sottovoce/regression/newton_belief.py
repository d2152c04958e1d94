"""What a filtered regression makes of full looks: Newton's steps, each as long as its noise allows."""

from __future__ import annotations

import math

import numpy as np

from sottovoce.privacy.numbers import Floats
from sottovoce.regression.filter_belief import symmetric
from sottovoce.regression.unit_rows import FULL_REACH, LONGEST

__all__ = ["NewtonBelief"]

_SURPRISE = 0.3
"""How much a step as long as the belief's own spread tells of the loss being no parabola."""
_OFF = 0.1
"""The square of the part of its length that a step may be off by."""


class NewtonBelief:
    """N(t, 1/P) of the coefficients that are best on these very records under the prior, as far as looks have told.

    All looks are at the same records, so that only their noise counts; where noise is small, a look moves t all the way
    to where its score vanishes. The loss is no parabola: a step is off by a part of its length, so that the variance
    grows by its square, along it; and after a step beyond what the belief held possible all that was known, of the
    information too, counts for less.

    Parameters
    ----------
    centre
        Where the looks before led.
    prior
        The precision of the prior N(0, 1/m) along each coordinate, and how sure the centre is.
    """

    def __init__(self, centre: Floats, prior: Floats) -> None:
        self.t, self.precision, self._step = centre, np.diag(prior), np.zeros(centre.size)
        self._prior = prior
        self._info, self._weight, self._square = np.zeros((centre.size, centre.size)), 0.0, 0.0

    def learn(self, answer: Floats, mu: float) -> None:
        """Take a noisy score and information in."""
        d, unit = self.t.size, FULL_REACH * LONGEST / 4
        kept = 1 / (1 + _SURPRISE * float(self._step @ self.precision @ self._step) / d)
        # The information is a mean over the looks, for centres mostly differ by less than the noise of one.
        self._info = kept * self._info + unit * symmetric(answer[d : 2 * d], answer[2 * d :])
        self._weight, self._square = kept * self._weight + 1, kept**2 * self._square + 1
        values, vectors = np.linalg.eigh(self._info / self._weight)
        edge = unit / mu * math.sqrt(2 * d * self._square) / self._weight
        info = (vectors * np.maximum(values, edge / 2)) @ vectors.T + np.diag(self._prior)
        known = kept * self.precision
        along = known @ self._step
        known = known - np.outer(along, along) * (_OFF / (1 + _OFF * float(self._step @ along)))
        self.precision = known + info @ info * (mu / 2) ** 2
        score = 2 * answer[:d] - self._prior * self.t
        self._step = np.linalg.solve(self.precision, info @ score) * (mu / 2) ** 2
        self.t = self.t + self._step
