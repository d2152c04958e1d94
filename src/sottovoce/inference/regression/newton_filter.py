"""What a filtered regression makes of full looks: Newton's steps, each as long as its noise allows."""

from __future__ import annotations

from typing import Any

import numpy as np

from sottovoce.inference.regression.eigenvalues import semicircle_edge
from sottovoce.inference.regression.kalman_filter import symmetric
from sottovoce.inference.regression.residuals import turned
from sottovoce.inference.regression.unit_rows import FULL_REACH, LONGEST
from sottovoce.privacy.numbers import Floats

_SURPRISE = 0.3
"""How much a step as long as the belief's own spread tells of the loss being no parabola."""
_OFF = 0.1
"""The square of the part of its length that a step may be off by."""


class NewtonBelief:
    """N(t, 1/P) of the coefficients that are best on these very records under the prior, as far as looks have told.

    All looks are at the same records, so that only their noise counts; where noise is small, a look moves t all the way
    to where its score vanishes. The loss is no parabola: a step is off by a part of its length, so that the variance
    grows by its square, along it; and after a step beyond what the belief held possible all that was known, of the
    information too, counts for less. Of several releases at once, these come first in every array.

    Parameters
    ----------
    centre
        Where the looks before led.
    prior
        The precision of the prior N(0, 1/m) along each coordinate, and how sure the centre is.
    """

    def __init__(self, centre: Floats, prior: Floats) -> None:
        self.t, self.precision, self._step = centre, _diagonal(prior), np.zeros(centre.shape[-1])
        self._prior = prior
        self._info: Any = 0.0
        self._weight: Any = np.zeros(())
        self._square: Any = np.zeros(())

    def learn(self, answer: Floats, mu: float) -> None:
        """Take a noisy score and information in."""
        d, unit = self.t.shape[-1], FULL_REACH * LONGEST / 4
        kept = 1 / (1 + _SURPRISE * np.einsum("...i,...ij,...j->...", self._step, self.precision, self._step) / d)
        all_of = kept[..., None, None]
        # The information is a mean over the looks, for centres mostly differ by less than the noise of one.
        self._info = all_of * self._info + unit * symmetric(answer[..., d : 2 * d], answer[..., 2 * d :])
        self._weight, self._square = kept * self._weight + 1, kept**2 * self._square + 1
        values, vectors = np.linalg.eigh(self._info / self._weight[..., None, None])
        edge = semicircle_edge(unit / mu * np.sqrt(self._square) / self._weight, d)
        info = (vectors * np.maximum(values, edge[..., None] / 2)[..., None, :]) @ turned(vectors)
        info = info + _diagonal(self._prior)
        known = all_of * self.precision
        along = (known @ self._step[..., None])[..., 0]
        off = _OFF / (1 + _OFF * np.sum(self._step * along, axis=-1))
        known = known - along[..., :, None] * along[..., None, :] * off[..., None, None]
        self.precision = known + info @ info * (mu / 2) ** 2
        score = 2 * answer[..., :d] - self._prior * self.t
        self._step = np.linalg.solve(self.precision, info @ score[..., None])[..., 0] * (mu / 2) ** 2
        self.t = self.t + self._step


def _diagonal(entries: Floats) -> Floats:
    """Return the diagonal matrix of each row of entries."""
    return np.asarray(entries[..., None] * np.eye(entries.shape[-1]))
