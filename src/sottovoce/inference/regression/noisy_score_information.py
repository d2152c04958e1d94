"""What a noisy look let out, and what can be told of the information behind its noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from sottovoce.inference.regression.eigenvalues import above, beyond_semicircle, semicircle_edge
from sottovoce.privacy.numbers import Floats
from sottovoce.records.readings import Look

if TYPE_CHECKING:
    from sottovoce.inference.regression.censored_counts import FarCounts


@dataclass(frozen=True, eq=False)
class NoisyScoreInformation:
    """What a look let out, in the coordinates z and in the units of the sums.

    Attributes
    ----------
    look, n
        Where it was taken, and of how many records.
    score, information, meat
        The noisy sums; None where they were not taken.
    sigma, tau, tau_meat
        The noise of the score, and of the diagonals of both matrices; √½ of it beside them.
    missed
        By how much, as a covariance, the score may be moved by what the formula misses and by what is cut off; of the
        last look alone.
    misses
        How much the formula misses where that is most, as far as was learned: a part of how far responses vary about
        it.
    far
        What counts have beyond where this look cuts them, where that was looked at; of the last look alone.
    """

    look: Look
    n: int | None
    score: Floats | None
    information: Floats | None
    meat: Floats | None
    sigma: float
    tau: float
    tau_meat: float
    missed: Floats | None = None
    misses: float | None = None
    far: FarCounts | None = None

    @classmethod
    def of(
        cls, look: Look, n: int | None, noisy: Floats, scales: Mapping[str, float], missed: Floats | None = None
    ) -> NoisyScoreInformation:
        """Return noisy sums, and their noise in whole steps, in their own units."""
        pull, lean = look.factors
        unit = {"score": 1 / pull, "information": 1 / lean**2, "meat": 1 / pull**2}
        parts = {part: value * unit[part] for part, value in look.split(noisy).items()}
        sd = {part: scale * unit[part] for part, scale in scales.items()}
        sums = (parts.get("score"), parts.get("information"), parts.get("meat"))
        return cls(look, n, *sums, sd.get("score", 0.0), sd.get("information", 0.0), sd.get("meat", 0.0), missed)

    @cached_property
    def constant(self) -> int | None:
        """The place of the intercept among the entries of a row."""
        return next((i for i, entry in enumerate(self.look.encoding.entries) if not entry), None)

    @cached_property
    def apart(self) -> Floats | None:
        """Where the intercept's row lies: its direction is known to weigh as much as all records."""
        return None if self.constant is None else self.look.matrix[:, self.constant]

    @property
    def noise(self) -> float:
        """The noise of the information averaged over the linear predictors."""
        return float(self.tau / np.sqrt(self.look.model.outputs))

    def averaged(self, matrix: Floats) -> Floats:
        """Return the mean of the blocks of a matrix, one for each linear predictor."""
        K, d = self.look.model.outputs, self.look.encoding.size
        blocks = matrix.reshape(K, d, K, d)
        return np.asarray(sum(blocks[k, :, k, :] for k in range(K)) / K)

    @cached_property
    def known(self) -> Floats:
        """The information, freed of its noise as far as can be."""
        assert self.information is not None
        if not self.tau:
            return self._kept(self.information)
        know([self])
        return self.__dict__["known"]  # type: ignore[no-any-return]

    @cached_property
    def axes(self) -> tuple[Floats, Floats]:
        """The eigenvalues and eigenvectors of what is known, averaged over the linear predictors."""
        values, vectors = np.linalg.eigh(self.averaged(self.known))
        return values, vectors

    @cached_property
    def levelled(self) -> Floats:
        """The same, with what is known of groups: a record has one level of each."""
        return self._kept(_levelled(self)) if self.tau and self.look.encoding.empty.size else self.known

    def _kept(self, found: Floats) -> Floats:
        """Return an information that has nothing along combinations of entries that are zero in every row."""
        if not self.look.encoding.empty.size:
            return found
        across, _ = np.linalg.qr(np.linalg.solve(self.look.matrix.T, self.look.encoding.empty.T))
        kept = once_each(np.eye(len(across)) - across @ across.T, self.look.model.outputs)
        return np.asarray(kept @ found @ kept)

    @cached_property
    def dispersion(self) -> float:
        """How much the score varies beside the information, or more: two deviations of its noise are added."""
        assert self.meat is not None
        full = max(float(self.known.trace()), 1e-300)
        noise = self.tau_meat * np.sqrt(len(self.meat)) / full
        return max(float(self.meat.trace()) / full, 0.0) + 2 * float(noise)

    @property
    def back(self) -> Floats:
        """T⁻¹."""
        return self.look.back

    @cached_property
    def shape(self) -> Floats:
        """T, once for each linear predictor."""
        return once_each(self.look.matrix, self.look.model.outputs)


def know(glances: Sequence[NoisyScoreInformation]) -> None:
    """Find what is `known` of several looks of one regression, where it was not found before, at once."""
    subset = [glance for glance in glances if glance.tau and "known" not in glance.__dict__]
    if subset:
        seen = np.array([glance.averaged(np.asarray(glance.information)) for glance in subset])
        apart = None if subset[0].constant is None else np.array([glance.apart for glance in subset])
        shared = denoised(seen, np.array([glance.noise for glance in subset]), apart)
        for glance, result in zip(subset, shared, strict=True):
            glance.__dict__["known"] = glance._kept(_crossed(glance, result))


def _crossed(glance: NoisyScoreInformation, shared: Floats) -> Floats:
    """Return the information of several linear predictors, by what it is averaged over them, freed of its noise.

    That has less noise than the whole, whose semicircle would swallow what the average shows. So each block is taken to
    be a multiple of it, and of the rest what stands out of its own noise.
    """
    K, d = glance.look.model.outputs, len(shared)
    if K == 1:
        return shared
    information = np.asarray(glance.information)
    turned = np.einsum("kimj,ij->km", information.reshape(K, d, K, d), shared) / (shared * shared).sum()
    values, vectors = np.linalg.eigh((turned + turned.T) / 2)
    result = np.kron((vectors * np.maximum(values, 0.05)) @ vectors.T, shared)
    values, vectors = np.linalg.eigh(information - result)
    result = result + (vectors * beyond_semicircle(values, semicircle_edge(glance.tau, K * d))) @ vectors.T
    (kept,) = _more(result[None], np.array([glance.tau]))
    return np.asarray(kept)


def once_each(matrix: Any, outputs: int) -> Floats:
    """Return a matrix with this one on its diagonal, once for each linear predictor."""
    return np.asarray(matrix if outputs == 1 else np.kron(np.eye(outputs), matrix), dtype=np.float64)


def _levelled(glance: NoisyScoreInformation) -> Floats:
    """Return an information in which levels of one group never meet: no record has two of them.

    So each level's weight is a number of its own, seen with the noise of one, and what two levels share is none; and
    what there is of the columns beside them is seen as if they were alone. Freed of its noise as a whole, the matrix
    would have rare levels weigh as much as their mean, and those columns too.
    """
    assert glance.information is not None
    blocks = [np.array(full) for full in glance.look.encoding.wholes if len(full) > 1]
    if not blocks:  # a group of one level
        return glance.known
    T, constant = glance.look.matrix, glance.constant
    back = glance.back
    seen, built = (back @ part @ back.T for part in (glance._kept(glance.information), glance.known))
    lengths = back @ back.T
    noise = glance.tau**2 / 2 * (np.outer(lengths.diagonal(), lengths.diagonal()) + lengths**2)
    remainder = np.setdiff1d(np.arange(len(T)), np.concatenate([*blocks, [-1 if constant is None else constant]]))
    weights = [positive_mean(seen[block, block], np.sqrt(noise[block, block])) for block in blocks]
    # All levels together are a constant.
    beside = _beside(glance, np.vstack([back[blocks[0]].sum(axis=0), back[remainder]]))
    total, means = float(beside[0, 0]), np.zeros(len(T))
    for block, weighing in zip(blocks, weights, strict=True):
        means[block] = weighing * (total / weighing.sum())
    means[remainder] = beside[0, 1:]
    built[remainder[:, None], remainder] = beside[1:, 1:]
    for place, block in enumerate(blocks):
        built[block[:, None], block] = np.diag(means[block])
        for others in (*blocks[place + 1 :], remainder):
            at = (block[:, None], others)
            expected = np.outer(means[block], means[others]) / total
            built[at] = expected + _differ(seen[at] - expected, noise[at], means[block, None])
            built[others[:, None], block] = built[at].T
    if constant is not None:
        built[constant] = built[:, constant] = means
        built[constant, constant] = total
    (kept,) = _more((T @ built @ T.T)[None], np.array([glance.tau]))
    return np.asarray(kept)


def _beside(glance: NoisyScoreInformation, some: Floats) -> Floats:
    """Return the information of some functionals of a row, the first a constant, freed of their own noise alone."""
    root = np.linalg.cholesky(some @ some.T)
    across = np.linalg.solve(root, some)
    seen = across @ np.asarray(glance.information) @ across.T
    (result,) = denoised(seen[None], np.array([glance.tau]), np.eye(len(some))[:1])
    return np.asarray(root @ result @ root.T)


def _differ(seen: Floats, noise: Floats, weights: Floats) -> Floats:
    """Return by how much levels differ from the mean of a column, a column each: of rare ones noise tells nothing."""
    squares = weights**2 * np.maximum((seen**2 - noise).sum(axis=0) / (weights**2).sum(), 0.0)
    result = seen * squares / (squares + noise)
    return np.asarray(
        result - weights * result.sum(axis=0) / weights.sum()
    )  # all levels together have the column's mean


def positive_mean(seen: Floats, noise: Floats) -> Floats:
    """Return what weights are on average that were seen with so much noise, of which none is below zero."""
    far = np.maximum(seen / noise, -30.0)
    result: Floats = seen + noise * np.exp(-far * far / 2 - special.log_ndtr(far)) / np.sqrt(2 * np.pi)
    return np.asarray(np.maximum(result, np.maximum(1e-3 * noise, 1e-9 * np.abs(seen).max())))


def denoised(matrices: Floats, taus: Floats, apart: Floats | None = None) -> Floats:
    """Return symmetric matrices freed of the noise τ on their diagonals and τ/√2 beside them, one first index a matrix.

    The eigenvalues of such noise fill a semicircle that ends at e = τ√(2d). What lies within it around the mean of
    all eigenvalues says nothing and becomes that mean; one at a distance y beyond moves to (y + √(y² − e²))/2.
    A direction that is known to stand `apart` from the others (an intercept's) is not averaged with them.
    """
    if apart is not None and matrices.shape[1] > 1:
        return _denoised_apart(matrices, taus, apart)
    if matrices.shape[1] == 1:
        return _freed(matrices[:, 0], taus)[:, None]
    values, vectors = np.linalg.eigh((matrices + matrices.transpose(0, 2, 1)) / 2)
    return np.asarray((vectors * _freed(values, taus)[:, None]) @ vectors.transpose(0, 2, 1))


def _freed(values: Floats, taus: Floats) -> Floats:
    """Return the eigenvalues that such matrices have without their noise."""
    tau = taus[:, None]
    edge = semicircle_edge(tau, values.shape[1])
    middle = np.array([_inside(*item) for item in zip(values, edge[:, 0], strict=True)])[:, None]
    middle = np.maximum(middle, tau / np.sqrt(values.shape[1]))
    kept = middle + beyond_semicircle(values - middle, edge)
    return np.asarray(np.maximum(kept, np.minimum(0.05 * middle, tau)))


def _inside(values: Floats, edge: float) -> float:
    """Return the mean of the eigenvalues that lie within the edge around it."""
    middle = np.add.reduce(values) / len(values)
    for _ in range(3):
        subset = values[np.abs(values - middle) <= edge]
        if not len(subset):
            break
        middle = np.add.reduce(subset) / len(subset)
    return float(middle)


def _denoised_apart(matrices: Floats, taus: Floats, apart: Floats) -> Floats:
    ahead = apart / np.linalg.norm(apart, axis=1, keepdims=True)
    ahead[:, 0] += np.copysign(1.0, ahead[:, 0])
    # Mirrors that take it to the first axis.
    mirrors = np.eye(apart.shape[1]) - ahead[:, :, None] * ahead[:, None] * (2 / (ahead**2).sum(axis=1))[:, None, None]
    turned = mirrors @ matrices @ mirrors
    turned[:, :1, :1] = denoised(turned[:, :1, :1], taus)
    turned[:, 1:, 1:] = denoised(turned[:, 1:, 1:], taus)
    cross = turned[:, :1, 1:]
    noise = cross[0].size * taus**2 / 2
    kept = (1 - noise / np.maximum((cross**2).sum(axis=(1, 2)), np.maximum(noise, 1e-300)))[:, None, None]
    cross *= kept**2  # shrunk twice: with it so all that is said of intervals was measured
    turned[:, 1:, :1] = cross.transpose(0, 2, 1)
    return np.asarray(mirrors @ _more(turned, taus) @ mirrors)


def _more(matrices: Floats, taus: Floats) -> Floats:
    """Return an information that has more than next to none in each direction, beside the others or its noise."""
    if above(matrices, taus):  # it has more still
        return matrices
    values, vectors = np.linalg.eigh(matrices)
    middle = (values[:, (values.shape[1] - 1) // 2] + values[:, values.shape[1] // 2]) / 2
    values = np.maximum(values, np.minimum(0.02 * middle, taus)[:, None])
    return np.asarray((vectors * values[:, None]) @ vectors.transpose(0, 2, 1))


def round_shape(glance: NoisyScoreInformation) -> Floats:
    """Return the coordinates in which the information is round.

    Where noise hides how much there is of a direction, it is taken to be as much as noise would hide.
    """
    assert glance.information is not None
    tau, (values, vectors) = glance.noise, glance.axes
    # Across levels that add up to one no row has anything: to stretch that way would make imagined rows long.
    values = np.where(values > 1e-9 * values[-1], values + tau, values[-1])
    return np.asarray(((vectors / np.sqrt(values)) @ vectors.T) @ glance.look.matrix)
