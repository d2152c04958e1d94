"""What the looks of a regression released as a likelihood needs it, what they are expected to, and what rows pull with.

A kernel k(t₀, t₁) is what a row gives by its linear predictors at the centre of a look and at θ, one an output.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np

from sottovoce.inference.regression.released_look import ReleasedLook
from sottovoce.inference.regression.residual_law import Kernel, Kernels
from sottovoce.inference.regression.row_law import PseudoRows
from sottovoce.privacy.numbers import Floats

__all__ = ["ExpectedSums", "LookKernels", "ObservedLook", "SumKernel", "kernels_of", "multinomial_kernels"]


@dataclass(frozen=True, eq=False)
class SumKernel:
    """What each row pulls with, and its derivatives by its predictors, (rows, outputs), and by a law's latents."""

    value: Floats
    by_centre: Floats
    by_truth: Floats
    by_law: list[Floats]

    @classmethod
    def of(cls, kernel: Kernel) -> SumKernel:
        """Return that of one linear predictor."""
        value, by_centre, by_truth, by_law = kernel
        return cls(value, by_centre[:, None], by_truth[:, None], by_law)


LookKernels = tuple[list[SumKernel], list[SumKernel], list[SumKernel]]
"""Of each output the score; and of each pair of outputs the information, and the variation of the score."""


def kernels_of(kernels: Kernels) -> LookKernels:
    """Return those of one linear predictor."""
    score, information, variation = (SumKernel.of(kernel) for kernel in (kernels.mean, kernels.kept, kernels.square))
    return [score], [information], [variation]


def multinomial_kernels(at: Floats, truth: Floats) -> LookKernels:
    """Return those of several classes beside a first one, of whose probabilities at the centre and at θ."""
    K = at.shape[1]
    unit, none = np.eye(K), np.zeros_like(at)

    def rise(p: Floats, k: int) -> Floats:
        return np.asarray(p[:, k : k + 1] * (unit[k] - p))

    score = [SumKernel(truth[:, k] - at[:, k], -rise(at, k), rise(truth, k), []) for k in range(K)]
    information, variation = [], []
    for k, m in combinations_with_replacement(range(K), 2):
        same = float(k == m)
        slope = same * rise(at, k) - rise(at, k) * at[:, m : m + 1] - at[:, k : k + 1] * rise(at, m)
        information.append(SumKernel(at[:, k] * (same - at[:, m]), slope, none, []))
        off = truth[:, k] * (same - at[:, m]) - at[:, k] * (truth[:, m] - at[:, m])
        by_centre = (at - truth)[:, k : k + 1] * rise(at, m) + (at - truth)[:, m : m + 1] * rise(at, k)
        by_truth = (same - at[:, m : m + 1]) * rise(truth, k) - at[:, k : k + 1] * rise(truth, m)
        variation.append(SumKernel(off, by_centre, by_truth, []))
    return score, information, variation


class ObservedLook:
    """A look as a likelihood needs it: the score, and the upper triangles of blocks of information and variation.

    Blocks are those of pairs of outputs k ≤ m; beside the diagonal they are symmetric, too, and seen twice.
    """

    def __init__(self, released: ReleasedLook, has_information: bool, has_meat: bool) -> None:
        self.released, sums, K = released, released.sums, released.look.model.outputs
        d = released.look.encoding.size
        i, j = np.triu_indices(d)
        self.has_score, self.has_information, self.has_meat = "score" in sums, has_information, has_meat
        self.score: Floats = np.asarray(sums["score"]) if self.has_score else np.zeros(0)
        names = ["information"] * self.has_information + ["meat"] * has_meat
        seen, halves = [np.zeros(0)], []
        for k, m in combinations_with_replacement(range(K), 2):
            halves.append(np.where(i == j, 1.0, 0.5) * (1.0 if k == m else 0.5))
        for name in names:
            blocks = sums[name].reshape(K, d, K, d)
            for k, m in combinations_with_replacement(range(K), 2):
                block = blocks[k, :, m, :]
                seen.append(((block + block.T) / 2)[i, j])
        self.matrices = np.concatenate(seen)
        self.halves = np.array(halves)
        """By what the noise of a diagonal entry, as a variance, is multiplied in each entry of each block."""
        self.named = names


@dataclass(frozen=True, eq=False)
class ExpectedSums:
    """What is expected at one place of the latents; derivatives where they were asked for."""

    pseudo: PseudoRows
    theta: Floats
    root: Floats
    scores: Floats
    matrices: Floats
    score_slopes: Floats | None
    matrix_slopes: Floats | None
    theta_slopes: Floats | None
    z: list[Floats]
    v: list[Floats]
