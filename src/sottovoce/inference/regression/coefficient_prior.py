r"""The prior of a regression's coefficients given the law of its rows: θ = θ₀ + Bη, η standard normal.

A slope counts by what its column's spread does to the linear predictor, an intercept is that of a mean row. Effects of
the levels of a group (1 | g) are normal about zero with a deviation σ of their own, which is half-Cauchy (Gelman 2006):

.. math:: \sigma = s \tan(\pi \Phi(u) / 2), \qquad P(\sigma < a) = \tfrac{2}{\pi} \arctan(a / s).
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from sottovoce.inference.regression.formula import Formula
from sottovoce.inference.regression.joint_priors import JointPriors
from sottovoce.inference.regression.row_law import PseudoRows, RowLaw
from sottovoce.privacy.numbers import Floats

_WIDER = 2.0
"""The prior of an intercept, and of a flag, beside that of a slope: as in `Formula.prior_sd`."""
_KNOWN = 2.0**-20
"""The prior standard deviation, beside its value, of a coefficient that is known: as there."""


class CoefficientPrior:
    """θ as a function of the latents: those of the rows, η, and how far the effects of each group spread.

    Parameters
    ----------
    eta, spreads
        The places of η, and of what tells of each group's σ, among the latents, of which there are `size`.
    """

    def __init__(
        self, formula: Formula, law: RowLaw, priors: JointPriors, eta: slice, spreads: slice, size: int
    ) -> None:
        self._law, self._priors, self._size = law, priors, size
        self._eta, self._spreads, self._groups, self._scale = eta, spreads, formula.groups, formula.spread
        entries = formula.encoding.entries
        self._constant = next((i for i, entry in enumerate(entries) if not entry), None)
        self._slope_sd, self._level_sd = formula.slope_sd, _WIDER * (formula.prior or 0.0)
        self.mean, self.free = formula.prior_mean, np.arange(len(entries)) != formula.offset
        """The prior mean of θ, and which of its entries are not known beforehand."""
        self._numbers = formula.encoding.numbers & ~formula.encoding.ones & self.free
        self.grouped = np.zeros(len(entries), dtype=bool)
        """Which entries are levels of a group."""
        for first, last in self._groups:
            self.grouped[first:last] = True

    def group_spread(self, u: float) -> tuple[float, float]:
        """Return σ of a group, and the derivative of its logarithm by its latent."""
        angle = math.pi / 2 * float(special.ndtr(u))
        beside = math.pi / 2 * float(special.ndtr(-u))  # so that both ends are told to the last digit
        density = math.sqrt(math.pi / 8) * math.exp(-u * u / 2)
        return self._scale * math.sin(angle) / math.sin(beside), density / (math.sin(angle) * math.sin(beside))

    def theta(self, u: Floats, pseudo: PseudoRows) -> tuple[Floats, Floats]:
        """Return θ and B, which is the same for each output of several."""
        mean = pseudo.weights @ pseudo.rows
        spread = np.sqrt(pseudo.weights @ (pseudo.rows - mean) ** 2 + self._priors.narrowest**2)
        sd = np.where(self._numbers, self._slope_sd / spread, _WIDER * self._slope_sd)
        sd = np.where(self.free, sd, _KNOWN * np.abs(self.mean[: len(sd)]))
        for (first, last), at in zip(self._groups, u[self._spreads], strict=True):
            sd[first:last] = self.group_spread(float(at))[0]
        root = np.diag(sd)
        if self._constant is not None:
            root[self._constant] = -mean * np.where(self.grouped, 0.0, sd)
            root[self._constant, self._constant] = self._level_sd
        return self.mean + (u[self._eta].reshape(-1, len(sd)) @ root.T).ravel(), root

    def slopes(self, u: Floats, pseudo: PseudoRows, theta: Floats, root: Floats) -> Floats:
        """Return dθ/du."""
        law = self._law
        mean = pseudo.weights @ pseudo.rows
        off = pseudo.rows - mean
        square = pseudo.weights @ off**2 + self._priors.narrowest**2
        dmean, dlog = np.zeros((len(mean), law.size)), np.zeros((len(mean), law.size))
        places = np.arange(len(pseudo.drawn))
        for entries, slopes in pseudo.entered:
            weighed, at = pseudo.weights * slopes, pseudo.owned(entries)
            dmean[at, places] += pseudo.moved(weighed).sum(axis=1)
            dlog[at, places] += pseudo.moved(weighed * off.T[entries]).sum(axis=1) / square[at]
        if pseudo.tilts.shape[1]:
            tilts = pseudo.weights[:, None] * pseudo.tilts
            dmean[:, law.tilted] = pseudo.rows.T @ tilts
            dlog[:, law.tilted] = (off**2).T @ tilts / square[:, None] / 2
        dlog[~self._numbers] = 0.0
        result = []
        for k, part in enumerate((theta - self.mean).reshape(-1, len(mean))):
            derived = np.zeros((len(mean), self._size))
            derived[:, self._eta.start + k * len(mean) : self._eta.start + (k + 1) * len(mean)] = root
            moved = -part[:, None] * dlog
            if self._constant is not None:
                others = (np.arange(len(mean)) != self._constant) & ~self.grouped
                centred = dmean[others] * part[others, None] + mean[others, None] * moved[others]
                moved[self._constant] = -centred.sum(axis=0)
            derived[:, : law.size] = moved
            for group, (first, last) in enumerate(self._groups):
                at = self._spreads.start + group
                derived[first:last, at] = part[first:last] * self.group_spread(float(u[at]))[1]
            result.append(derived)
        return np.concatenate(result)
