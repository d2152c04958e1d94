"""Derivatives of sums over pseudo-rows by the latents that move rows, weights, coefficients and responses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.inference.regression.residual_law import Kernel
from sottovoce.inference.regression.row_law import PseudoRows
from sottovoce.privacy.numbers import Floats

__all__ = ["Moving", "SumDerivatives"]


@dataclass(frozen=True, eq=False)
class Moving:
    """A look at pseudo-rows, and how the parts of its sums change with each number of a row.

    Attributes
    ----------
    z, matrix
        The rows in the coordinates of the look, (R, d), and what leads to those.
    length
        The derivative of the logarithm of the look's weight, (numbers, R).
    centre, truth
        Those of the linear predictors at the centre of the look and at θ, (numbers, R).
    """

    z: Floats
    matrix: Floats
    length: Floats
    centre: Floats
    truth: Floats


@dataclass(frozen=True, eq=False)
class SumDerivatives:
    """Derivatives of Σ r·v^p·k(t₀, t₁)·f(z) over pseudo-rows z = Tx, f the row itself or its products.

    Latents are those of the law of rows, then η, then what part of the records tells, then the law of responses.

    Attributes
    ----------
    pseudo
        The rows.
    upper
        Which products are taken: row and column indices.
    theta
        dθ/du, (d, latents).
    missing, by_missing
        The place of what part of the records tells, and the derivative of its logarithm.
    """

    pseudo: PseudoRows
    upper: tuple[NDArray[np.intp], NDArray[np.intp]]
    theta: Floats
    missing: int
    by_missing: float

    def of_rows(self, weights: Floats, kernel: Kernel, moving: Moving) -> Floats:
        """Return the derivatives of Σ weights·k·z, (d, latents), weights going as those of the look."""
        derived, pseudo = self._of(moving.z, weights, kernel, moving, 1), self.pseudo
        for entries, slopes in pseudo.entered:
            sums = pseudo.moved(weights * kernel[0] * slopes).sum(axis=1)
            derived[:, : len(sums)] += moving.matrix[:, pseudo.owned(entries)] * sums
        return derived

    def of_products(self, products: Floats, weights: Floats, kernel: Kernel, moving: Moving, power: int) -> Floats:
        """Return the derivatives of the upper triangle of Σ weights·k·zz', (pairs, latents), weights going as the
        `power` of the look's.
        """
        derived, pseudo, (i, j) = self._of(products, weights, kernel, moving, power), self.pseudo, self.upper
        for entries, slopes in pseudo.entered:
            moved = moving.z.T @ pseudo.moved(weights * kernel[0] * slopes).T
            turned = moving.matrix[:, pseudo.owned(entries)]
            derived[:, : len(pseudo.drawn)] += turned[i] * moved[j] + turned[j] * moved[i]
        return derived

    def _of(self, values: Floats, weights: Floats, kernel: Kernel, moving: Moving, power: int) -> Floats:
        """Return the same with the rows held where they are not in the kernel or the weight."""
        pseudo = self.pseudo
        value, by_centre, by_truth, by_law = kernel
        pulled, straight = weights * value, weights * by_truth
        steps = (power * pulled) * moving.length + (weights * by_centre) * moving.centre + straight * moving.truth
        columns = [pseudo.moved(steps), pseudo.tilts.T * pulled, pseudo.rows.T * straight, pulled[None]]
        columns += [(weights * by)[None] for by in by_law]
        places = np.cumsum([len(part) for part in columns])
        sums = values.T @ np.concatenate(columns).T
        derived = np.asarray(sums[:, places[1] : places[2]] @ self.theta)
        derived[:, : places[1]] += sums[:, : places[1]]
        derived[:, self.missing] += self.by_missing * sums[:, places[2]]
        derived[:, self.missing + 1 : self.missing + 1 + len(by_law)] += sums[:, places[3] :]
        return derived
