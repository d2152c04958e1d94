r"""From noisy looks to a posterior that knows of their noise: post-processing, free of cost.

At a centre θ the noisy score is ŝ = H(θ* − θ) + R + e + ξ: the information times the way to the truth, what the mean
bends on that way, the records' own variation and the noise. Given what was released,

.. math:: \hat s \sim N\bigl(\hat H\delta + R(\delta),\; \hat J + \sigma^2 I
          + \tfrac{\tau^2}{2}(\lVert\delta\rVert^2 I + \delta\delta')\bigr), \qquad \delta = \theta^* - \theta,

where Ĥ and Ĵ are the noisy information and the noisy variation of the score, freed of what noise alone would show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sottovoce.privacy.numbers import Floats
from sottovoce.readings import Look
from sottovoce.readings.families import Family
from sottovoce.regression.formula import NARROWEST

__all__ = ["Belief", "Glance", "Imagined", "believe", "denoised", "round_shape"]

_ROWS = 512
_STEPS = 14
_FARTHEST = 1.0
"""How far the linear predictor may move in one step, on average over imagined rows."""
_ROUND = 0.4
"""What is left of the information's noise once it is freed of it: in coordinates in which it is round on average, its
directions differ by no more than this part of its square says."""
_CERTAIN, _LEVELS = 8.0, 9
"""Information this many times its noise, on average over directions, is taken as it was seen; less than that may be
at so many levels."""
_PLAIN = 0.25
"""How far, as a standard deviation, the score's variation may differ by direction from what the model says."""


@dataclass(frozen=True, eq=False)
class Glance:
    """What a look let out, in the coordinates z and in the units of the sums.

    Attributes
    ----------
    look
        Where it was taken.
    score, information, meat
        The noisy sums; None where they were not taken.
    sigma, tau, tau_meat
        The noise of the score, and of the diagonals of both matrices; √½ of it beside them.
    """

    look: Look
    score: Floats | None
    information: Floats | None
    meat: Floats | None
    sigma: float
    tau: float
    tau_meat: float

    @property
    def apart(self) -> Floats | None:
        """Where the intercept's row lies: its direction is known to weigh as much as all records."""
        constant = [i for i, entry in enumerate(self.look.encoding.entries) if not entry]
        if not constant:
            return None
        return np.asarray(np.kron(np.eye(self.look.model.outputs), self.look.matrix[:, constant[:1]]), dtype=np.float64)

    @property
    def known(self) -> Floats:
        """The information, freed of its noise as far as can be."""
        assert self.information is not None
        return denoised(self.information, self.tau, self.apart)

    @property
    def dispersion(self) -> float:
        """How much the score varies beside the information, or more: two deviations of its noise are added."""
        assert self.meat is not None
        whole = max(float(self.known.trace()), 1e-300)
        noise = self.tau_meat * np.sqrt(len(self.meat)) / whole
        return max(float(self.meat.trace()) / whole, 0.0) + 2 * float(noise)

    @property
    def shape(self) -> Floats:
        """T, once for each linear predictor."""
        return np.asarray(np.kron(np.eye(self.look.model.outputs), self.look.matrix), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Belief:
    """A mixture of normal laws: weights, means and covariances."""

    weights: Floats
    means: Floats
    covariances: Floats

    @property
    def mean(self) -> Floats:
        """The mean of θ."""
        return np.asarray(self.weights @ self.means)

    @property
    def covariance(self) -> Floats:
        """The covariance of θ."""
        off = self.means - self.mean
        return np.asarray(
            np.einsum("k,kij->ij", self.weights, self.covariances) + np.einsum("k,ki,kj->ij", self.weights, off, off)
        )

    def mapped(self, matrix: Floats, shift: Floats | float = 0.0) -> Belief:
        """Return the belief about Aθ + b."""
        return Belief(self.weights, self.means @ matrix.T + shift, matrix @ self.covariances @ matrix.T)


def denoised(matrix: Floats, tau: float, apart: Floats | None = None) -> Floats:
    """Return a symmetric matrix freed of the noise τ on its diagonal and τ/√2 beside it.

    The eigenvalues of such noise fill a semicircle that ends at e = τ√(2d). What lies within it around the mean of
    all eigenvalues says nothing and becomes that mean; one at a distance y beyond moves to (y + √(y² − e²))/2.
    Directions that are known to stand `apart` from the others (an intercept's), as columns, are not averaged with them.
    """
    if apart is not None and 0 < apart.shape[1] < len(matrix):
        return _denoised_apart(matrix, tau, apart)
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    edge = tau * np.sqrt(2 * len(values))
    middle = values.mean()
    for _ in range(3):
        inside = np.abs(values - middle) <= edge
        if not inside.any():
            break
        middle = values[inside].mean()
    middle = max(middle, tau / np.sqrt(len(values)))
    off = values - middle
    shrunk = np.sign(off) * (np.abs(off) + np.sqrt(np.maximum(off**2 - edge**2, 0.0))) / 2
    kept = np.where(np.abs(off) > edge, middle + shrunk, middle)
    return np.asarray((vectors * np.maximum(kept, 0.05 * middle)) @ vectors.T)


def _denoised_apart(matrix: Floats, tau: float, apart: Floats) -> Floats:
    whole, _ = np.linalg.qr(np.column_stack([apart, np.eye(len(apart))]))
    k = apart.shape[1]
    turned = whole.T @ matrix @ whole
    turned[:k, :k] = denoised(turned[:k, :k], tau)
    turned[k:, k:] = denoised(turned[k:, k:], tau)
    cross = turned[:k, k:]
    kept = max(0.0, 1 - cross.size * tau**2 / 2 / max(float((cross**2).sum()), 1e-300))
    turned[:k, k:] = kept * cross
    turned[k:, :k] = kept * cross.T
    values, vectors = np.linalg.eigh(turned)
    values = np.maximum(values, 0.02 * np.median(values))
    return np.asarray(whole @ (vectors * values) @ vectors.T @ whole.T)


def round_shape(glance: Glance) -> Floats:
    """Return the coordinates in which the information is round.

    Where noise hides how much there is of a direction, it is taken to be as much as noise would hide.
    """
    assert glance.information is not None
    K, d = glance.look.model.outputs, glance.look.encoding.size
    blocks = glance.known.reshape(K, d, K, d)
    mean, tau = sum(blocks[k, :, k, :] for k in range(K)) / K, glance.tau / np.sqrt(K)
    values, vectors = np.linalg.eigh(mean)
    values = np.maximum(values + tau, 1e-9 * values[-1])
    return np.asarray(((vectors / np.sqrt(values)) @ vectors.T) @ glance.look.matrix)


@dataclass(frozen=True, eq=False)
class Imagined:
    """Imagined rows with the moments that a look at zero showed: on them one sees how far the mean bends."""

    rows: Floats
    count: float
    blur: Floats
    """The noise on each entry's variance."""

    @property
    def spread(self) -> Floats:
        """The standard deviation of each entry, or less: one deviation of its own noise below what was seen."""
        return np.asarray(np.sqrt(np.maximum(self.rows.var(axis=0) - self.blur, 0.0)))

    @property
    def moment(self) -> Floats:
        """The sum of xx' over all records."""
        return np.asarray(self.rows.T @ self.rows * (self.count / len(self.rows)))

    @classmethod
    def from_first(cls, glance: Glance) -> Imagined:
        """Return rows that are normal around their mean, beside an intercept where there is one."""
        look, K = glance.look, glance.look.model.outputs
        d = look.encoding.size
        assert glance.information is not None
        blocks = glance.known.reshape(K, d, K, d)
        slope = np.asarray(look.model.slope(np.zeros((1, K) if K > 1 else 1)))
        steep = slope[0] if K == 1 else np.diagonal(slope[0]).mean()
        back = np.linalg.inv(look.matrix)
        moment = back @ (sum(blocks[k, :, k, :] for k in range(K)) / K / steep) @ back.T
        blur = (back**2).sum(axis=1) * glance.tau / np.sqrt(K) / steep
        noise = np.random.default_rng(7).standard_normal((_ROWS, d))
        noise = np.concatenate([noise, -noise])
        constant = [i for i, entry in enumerate(look.encoding.entries) if not entry]
        if not constant:
            count = max(float(moment.trace()), 1e-12)
            return cls(noise @ _root(moment / count), count, blur / count)
        at = constant[0]
        count = max(float(moment[at, at]), 1e-3 * moment.trace())
        middle = moment[at] / count
        spread = moment / count - np.outer(middle, middle)
        spread[at], spread[:, at] = 0.0, 0.0
        rows = middle + noise @ _root(spread)
        rows[:, at] = 1.0
        return cls(rows, count, blur / count)

    def way(self, family: Family, shape: Floats, centre: Floats, theta: Floats) -> tuple[Floats, Floats]:
        """Return H⁻¹(S(θ) − S(centre)) and its derivative, S(θ) the sum of zμ(z·θ) over the rows, H its slope at the
        centre: how far θ seems to be from the centre to one who takes the mean to be straight.
        """
        z = self.rows @ shape.T
        here, there = self._sums(family, z, centre), self._sums(family, z, theta)
        steep = here[1] + 1e-6 * here[1].trace() / len(centre) * np.eye(len(centre))
        return np.linalg.solve(steep, there[0] - here[0]), np.linalg.solve(steep, there[1])

    def _sums(self, family: Family, z: Floats, theta: Floats) -> tuple[Floats, Floats]:
        K = family.outputs
        t = z @ theta.reshape(K, -1).T
        if K == 1:
            mean, slope = family.mean(t[:, 0]), family.slope(t[:, 0])
            return z.T @ mean, (z * slope[:, None]).T @ z
        mean, slope = family.mean(t), family.slope(t)
        D = K * z.shape[1]
        return (mean.T @ z).ravel(), np.einsum("nkl,ni,nj->kilj", slope, z, z, optimize=True).reshape(D, D)


def _root(matrix: Floats) -> Floats:
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def _varies(glance: Glance, information: Floats, meat: Glance | None) -> Floats:
    """Return the score's own variation: as the model has it, corrected by what was measured, as far as noise allows."""
    family = glance.look.model
    if meat is None or meat.meat is None:
        return information * (0.63 if family.word == "probit" else 1.0)
    values, vectors = np.linalg.eigh(information)
    root = np.sqrt(np.maximum(values, 1e-12 * values[-1]))
    ratio = (vectors.T @ meat.meat @ vectors) / np.outer(root, root)
    noise = meat.tau_meat**2 / np.outer(values, values) * np.where(np.eye(len(values)) == 1, 1.0, 0.5)
    # One factor for all directions first, the more certain ones counting more; then each, shrunk towards it.
    weight = 1 / (np.diag(noise) + _PLAIN**2)
    factor = max(float(weight @ np.diag(ratio) / weight.sum()), 0.02)
    far = (_PLAIN * factor) ** 2
    shrunk = factor * np.eye(len(values)) + far / (far + noise) * (ratio - factor * np.eye(len(values)))
    found, axes = np.linalg.eigh(shrunk)
    shrunk = (axes * np.maximum(found, 0.05 * factor)) @ axes.T
    return np.asarray(vectors @ (shrunk * np.outer(root, root)) @ vectors.T)


def _levels(glance: Glance) -> list[tuple[float, Floats]]:
    """Return how much information there may be: the log of each level's weight, and the information itself.

    Its trace is known up to noise. Where that is not little beside the trace, to take the likeliest level for the true
    one would make what the score says look too sure: levels are then averaged over, evenly on a logarithmic scale and
    weighed by the trace. The least is that of columns that spread over as little as the prior allows for. A direction
    that stands apart is known better, and left as it is: by it one sees how much the records weigh together.
    """
    assert glance.information is not None
    H, apart, D = glance.known, glance.apart, len(glance.information)
    rest, weight = np.eye(D), 0.0
    if apart is not None and apart.shape[1] < D:
        across, _ = np.linalg.qr(apart)
        rest = rest - across @ across.T
        weight = float(np.sum(across * (H @ across)) / np.sum(apart**2))
    k = float(rest.trace())
    seen, noise = float(np.sum(rest * glance.information)) / k, glance.tau / np.sqrt(k)
    if seen > _CERTAIN * noise:
        return [(0.0, H)]
    narrow = NARROWEST**2 * weight * float(np.sum((rest @ glance.shape) ** 2)) / k
    level = float(np.sum(rest * H)) / k
    found = []
    for one in np.geomspace(min(max(narrow, noise / 30), noise), max(seen, 0.0) + 3 * noise, _LEVELS):
        stretch = np.eye(D) + (np.sqrt(one / level) - 1) * rest
        found.append((-(((one - seen) / noise) ** 2) / 2, stretch @ H @ stretch))
    return found


def believe(
    glance: Glance,
    priors: Sequence[tuple[float, Floats]],
    imagined: Imagined | None,
    meat: Glance | None = None,
    *,
    noisy: bool = True,
) -> Belief:
    """Return what the last look says of θ, the spreads of the prior averaged over.

    Parameters
    ----------
    glance, meat
        The last look, and the look that measured how much the score varies.
    priors
        Normal priors of θ with mean zero in the coordinates of x: the log of each one's weight, and its precisions.
    imagined
        Rows on which to see how the mean bends; None where it is straight.
    noisy
        Whether the noise is counted; without it the covariances are what the records alone would leave.
    """
    assert glance.score is not None and glance.information is not None
    levels = _levels(glance) if noisy and meat is not None else [(0.0, glance.known)]
    parts = [_at(H, glance, priors, imagined, meat, noisy) for _, H in levels]
    logs = np.concatenate([log + part[0] for (log, _), part in zip(levels, parts, strict=True)])
    weights = np.exp(logs - logs.max())
    means, covariances = (np.concatenate([part[i] for part in parts]) for i in (1, 2))
    return Belief(weights / weights.sum(), means, covariances).mapped(glance.shape.T)


def _at(
    H: Floats,
    glance: Glance,
    priors: Sequence[tuple[float, Floats]],
    imagined: Imagined | None,
    meat: Glance | None,
    noisy: bool,
) -> tuple[Floats, Floats, Floats]:
    """Return the log of the weight, the mean and the covariance that each prior leads to where H is the information."""
    assert glance.score is not None
    look, T = glance.look, glance.shape
    centre, D = look.predictors.ravel(), look.dimension
    J = _varies(glance, H, meat)
    logs = np.array([log for log, _ in priors])
    inner = np.array([(T * precisions) @ T.T for _, precisions in priors])
    logs = logs + np.array([np.log(precisions).sum() / 2 for _, precisions in priors])
    missed = min(glance.tau**2 / 2, _ROUND * float(H.trace() / D) ** 2 / D)
    theta, size = centre.copy(), 0.0
    for step in range(_STEPS):
        if imagined is None or step == 0:
            seems, turn = theta - centre, np.eye(D)
        else:
            seems, turn = imagined.way(look.model, look.matrix, centre, theta)
        G = H @ turn
        V = J + (glance.sigma**2 + missed * size) * np.eye(D) if noisy else J
        score = glance.score - H @ seems + G @ theta
        inside = np.linalg.solve(V, np.column_stack([G, score]))
        P = G.T @ inside[:, :D] + inner
        covariances = np.linalg.inv((P + P.transpose(0, 2, 1)) / 2)
        pull = G.T @ inside[:, D]
        means = covariances @ pull
        evidence = logs + (means @ pull - np.linalg.slogdet(P)[1]) / 2
        evidence = evidence - (score @ inside[:, D] + np.linalg.slogdet(V)[1]) / 2
        weights = np.exp(evidence - evidence.max())
        weights /= weights.sum()
        found = Belief(weights, means, covariances)
        gap = found.mean - centre
        size = float(gap @ gap + found.covariance.trace())
        move = (found.mean - theta) / (1 if step < 3 else 2)
        if imagined is not None:  # the mean bends: no step so long that a straight line has nothing to do with it
            far = float(np.sqrt(np.mean((imagined.rows @ (T.T @ move).reshape(look.model.outputs, -1).T) ** 2)))
            move = move / max(1.0, far / _FARTHEST)
        theta = theta + move
    return evidence, means + (theta - found.mean), covariances
