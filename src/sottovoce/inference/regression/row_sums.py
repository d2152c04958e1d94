"""Derivatives of sums over pseudo-rows by the latents that move rows, weights, coefficients and responses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.inference.regression.expected_sums import SumKernel
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
        Those of the linear predictors at the centre of the look and at θ, of each output (numbers, R).
    """

    z: Floats
    matrix: Floats
    length: Floats
    centre: list[Floats]
    truth: list[Floats]


@dataclass(frozen=True, eq=False)
class SumDerivatives:
    """Derivatives of Σ r·v^p·k(t₀, t₁)·f(z) over pseudo-rows z = Tx, f the row itself or its products.

    Latents are those of the law of rows, then η, then what part of the records tells, then the law of responses.

    Attributes
    ----------
    pseudo
        The rows.
    upper
        Which products are taken: row and column indices of an upper triangle, row by row.
    theta
        dθ/du, (outputs, d, latents).
    missing, by_missing
        The place of what part of the records tells, and the derivative of its logarithm.
    """

    pseudo: PseudoRows
    upper: tuple[NDArray[np.intp], NDArray[np.intp]]
    theta: Floats
    missing: int
    by_missing: float

    def of_rows(self, weights: Floats, kernel: SumKernel, moving: Moving) -> Floats:
        """Return the derivatives of Σ weights·k·z, (d, latents), weights going as those of the look."""
        derived, pseudo = self._of(moving.z, weights, kernel, moving, 1), self.pseudo
        for entries, slopes in pseudo.entered:
            sums = pseudo.moved(weights * kernel.value * slopes).sum(axis=1)
            derived[:, : len(sums)] += moving.matrix[:, pseudo.owned(entries)] * sums
        return derived

    def of_products(self, products: Floats, weights: Floats, kernel: SumKernel, moving: Moving, power: int) -> Floats:
        """Return the derivatives of the upper triangle of Σ weights·k·zz', (pairs, latents), weights going as the
        `power` of the look's.
        """
        derived, pseudo = self._of(products, weights, kernel, moving, power), self.pseudo
        latents = len(pseudo.drawn)
        for entries, slopes in pseudo.entered:
            moved = _sums(moving.z, pseudo.moved(weights * kernel.value * slopes))
            turned, start = moving.matrix[:, pseudo.owned(entries)], 0
            for i in range(len(moved)):  # a row of the triangle at a time
                part = derived[start : start + len(moved) - i, :latents]
                part += turned[i] * moved[i:]
                part += turned[i:] * moved[i]
                start += len(part)
        return derived

    def _of(self, values: Floats, weights: Floats, kernel: SumKernel, moving: Moving, power: int) -> Floats:
        """Return the same with the rows held where they are not in the kernel or the weight."""
        pseudo = self.pseudo
        pulled = weights * kernel.value
        steps = (power * pulled) * moving.length
        for by_centre, by_truth, centre, truth in zip(
            kernel.by_centre.T, kernel.by_truth.T, moving.centre, moving.truth, strict=True
        ):
            steps = steps + (weights * by_centre) * centre + (weights * by_truth) * truth
        moved = [k for k, by_truth in enumerate(kernel.by_truth.T) if by_truth.any()]
        columns = [pseudo.moved(steps), pseudo.tilts.T * pulled, pulled[None]]
        columns += [(weights * by)[None] for by in kernel.by_law]
        columns += [pseudo.rows.T * (weights * kernel.by_truth[:, k]) for k in moved]
        places = np.cumsum([len(part) for part in columns])
        sums = _sums(values, np.concatenate(columns))
        derived = np.zeros((len(sums), self.theta.shape[2]))
        derived[:, : places[1]] = sums[:, : places[1]]
        derived[:, self.missing] = self.by_missing * sums[:, places[1]]
        laws = len(kernel.by_law)
        derived[:, self.missing + 1 : self.missing + 1 + laws] = sums[:, places[2] : places[2] + laws]
        for k, part in zip(moved, np.split(sums[:, places[2] + laws :], max(len(moved), 1), axis=1), strict=False):
            derived += part @ self.theta[k]
        return derived


def _sums(values: Floats, columns: Floats) -> Floats:
    """Return (values, columns) summed over rows, in single precision: derivatives say where to look for the mode, and
    how wide it is, not where it lies.
    """
    return (values.T.astype(np.float32) @ columns.T.astype(np.float32)).astype(np.float64)
