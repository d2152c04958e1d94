r"""From noisy looks to a posterior that knows of their noise: post-processing, free of cost.

At a centre θ the noisy score is ŝ = H(θ* − θ) + R + e + ξ: the information times the way to the truth, what the mean
bends on that way, the records' own variation and the noise. Given what was released and a guess H of the information,

.. math:: \hat s \sim N\bigl(H\delta + R(\delta),\; \hat J + \sigma^2 I + \Omega(\delta)\bigr), \qquad
          \delta = \theta^* - \theta,

where Ĵ is the noisy variation of the score and Ω what the noise of the information adds: in the directions in which H
is diagonal, Ω_j = Σ_i min(τ²/2, 0.4·h_i·h_j/D)·δ_i², for no two directions share more than both have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sottovoce.privacy.numbers import Floats
from sottovoce.readings.families import PoissonFamily
from sottovoce.regression.glances import Glance
from sottovoce.regression.guesses import Guesses
from sottovoce.regression.imagined import Imagined
from sottovoce.regression.overdispersed import Extra

__all__ = ["Belief", "believe"]

_STEPS = 14
_FARTHEST = 1.0
"""How far the linear predictor may move in one step, on average over imagined rows."""
_BENT = 0.3
"""How far, as a part of it, what the mean bends may be from what it does on imagined rows."""
_SKEWED = 0.5
"""How far, as a part of it, the skewness of a number may be from what its public bounds say."""
_ROUND = 0.4
"""How much two directions share beside what they would in coordinates in which the information is round."""
_UNSURE = 0.5
"""How far the score's variation altogether may differ from what the model says, where noise hides it."""
_PLAIN = 0.25
"""How far, as a standard deviation, the score's variation may differ by direction from what the model says."""


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


def believe(
    glance: Glance,
    prior: Callable[[Floats], tuple[Floats, Floats]],
    meat: Glance | None = None,
    *,
    guesses: Guesses,
    noisy: bool = True,
    extra: Extra | None = None,
) -> Belief:
    """Return what a look says of θ, its unknown information and the spreads of the prior averaged over.

    Parameters
    ----------
    glance, meat
        The look, and the look that measured how much the score varies.
    prior
        From how far the entries of a row spread, by guess, to the log of each guess's weight and the prior standard
        deviations of θ in the coordinates of x.
    guesses
        What the information may be.
    noisy
        Whether the noise is counted; without it the covariances are what the records alone would leave.
    extra
        What is believed of how much more counts vary than a Poisson law's.
    """
    assert glance.score is not None
    look, T = glance.look, glance.shape
    count, D = len(guesses.information), look.dimension
    H = guesses.information
    values, vectors = np.linalg.eigh((H + H.transpose(0, 2, 1)) / 2)
    values = np.maximum(values, 1e-12 * values[:, -1:])
    imagined = Imagined.of(glance, guesses.mean)
    J = _varies(glance, imagined.variation(look, H), meat)
    logs, sds = prior(guesses.spread)
    roots = _roots(glance, guesses, sds)
    along: Floats = np.asarray(np.linalg.solve(T.T, roots), dtype=np.float64)
    level = values.mean(axis=1)[:, None, None]
    shared = np.minimum(glance.tau**2 / 2, _ROUND / D * np.minimum(values[:, :, None] * values[:, None], level**2))
    bent = imagined if look.model.curved else None
    other = Imagined.of(glance, guesses.mean, 1 + _SKEWED) if look.model.curved and imagined.skewed else None
    eye, centre = np.eye(D), look.predictors.ravel()
    whole, cut = np.broadcast_to(eye, H.shape), _cut(glance)
    theta = np.tile(centre, (count, 1))
    J = J + glance.sigma**2 * eye if noisy else J
    if noisy and extra is not None:
        J = J + _unsure(imagined, extra)
    V, turns = J, vectors.transpose(0, 2, 1)
    for step in range(_STEPS):
        seems, turn = (theta - centre, whole) if bent is None or step == 0 else bent.way(theta)
        G = H @ turn
        score = glance.score + _times(G, theta) - _times(H, seems)
        V = V + 1e-13 * np.trace(V, axis1=1, axis2=2)[:, None, None] * eye
        inside = np.linalg.solve(V, np.concatenate([G, score[:, :, None]], axis=2))
        leads = (G @ along).transpose(0, 2, 1)
        P = leads @ inside[:, :, :D] @ along + eye
        left = _inverse((P + P.transpose(0, 2, 1)) / 2)
        pull = _times(leads, inside[:, :, D])
        means = _times(along, _times(left, pull))
        varied = V
        if noisy:
            # What the noise of the information does, and how well imagined rows tell how the mean bends.
            ahead = seems + _times(turn, means - theta)
            turned = turns @ (turn @ along)
            second = _times(turns, ahead) ** 2 + ((turned @ left) * turned).sum(axis=2)
            V = J + (vectors * _times(shared, second)[:, None]) @ turns
            bends = _BENT * _times(H, ahead - (means - centre)) + cut * _times(H, means - centre)
            V = V + _squares(bends) + (bends**2).mean(axis=1)[:, None, None] * eye
            V = V if other is None else V + _squares(_times(H, other.way(theta)[0] - seems))
        move = (means - theta) / (1 if step < 3 else 2)
        if bent is not None:  # the mean bends: no step so long that a straight line has nothing to do with it
            move = move / np.maximum(1.0, bent.size(move) / _FARTHEST)[:, None]
        theta = theta + move
    evidence = logs - np.linalg.slogdet(P)[1] / 2 - np.linalg.slogdet(varied)[1] / 2
    evidence += (np.einsum("mi,mij,mj->m", pull, left, pull) - (score * inside[:, :, D]).sum(axis=1)) / 2
    evidence = np.nan_to_num(evidence, nan=-1e300, posinf=1e300, neginf=-1e300)
    weights = np.exp(evidence - evidence.max())
    return Belief(weights / weights.sum(), theta @ T, roots @ left @ roots.transpose(0, 2, 1))


def _unsure(imagined: Imagined, extra: Extra) -> Floats:
    """Return by how much the score may vary because nobody knows quite how much counts do."""
    assert isinstance(imagined.family, PoissonFamily)
    shift = extra.shift(imagined.family, imagined.rows @ imagined.centre[0])
    moves = np.einsum("mr,mr,mri->mi", imagined.records, shift, imagined.rows)
    return _squares(moves)


def _roots(glance: Glance, guesses: Guesses, sds: Floats) -> Floats:
    """Return for each guess a root B of the prior's covariance: θ = Bη in the coordinates of x, η of unit variance.

    The prior of an intercept is that of the linear predictor of a mean record: one at zero may be far from all.
    """
    roots = sds[:, :, None] * np.eye(sds.shape[1])
    if guesses.middle is None or glance.constant is None:
        return roots
    d = glance.look.encoding.size
    off = np.linalg.solve(glance.look.matrix, guesses.middle.T).T
    for first in range(0, sds.shape[1], d):
        at, block = first + glance.constant, slice(first, first + d)
        own = roots[:, at, at].copy()
        roots[:, at, block] = -off * sds[:, block]
        roots[:, at, at] = own
    return roots


def _inverse(precisions: Floats) -> Floats:
    """Return the inverses of matrices that are no less than the identity, also where rounding hides it."""
    try:
        found = np.asarray(np.linalg.inv(precisions), dtype=np.float64)
    except np.linalg.LinAlgError:
        found = np.zeros_like(precisions)
    if np.diagonal(found, axis1=1, axis2=2).min() > 0:
        return found
    values, vectors = np.linalg.eigh(precisions)
    return np.asarray((vectors / np.maximum(values, 1.0)[:, None]) @ vectors.transpose(0, 2, 1))


def _squares(rows: Floats) -> Floats:
    return np.asarray(rows[:, :, None] * rows[:, None])


def _times(matrices: Floats, rows: Floats) -> Floats:
    found: Floats = matrices @ rows[:, :, None]
    return found[:, :, 0]


def _cut(glance: Glance) -> float:
    """Return how little a linear regression's look is to be believed: 0, or up to 1 where its residuals fill its cap.

    So many of them are then cut that the score hardly grows with the way to the truth.
    """
    if not glance.look.cap or glance.look.model.curved or glance.meat is None:
        return 0.0
    return float(np.clip((np.sqrt(glance.dispersion) / glance.look.cap - 0.35) / 0.25, 0.0, 1.0))


def _varies(glance: Glance, modelled: Floats, meat: Glance | None) -> Floats:
    """Return the score's own variation: as the model has it, corrected by what was measured, as far as noise allows.

    One for each guess of the information.
    """
    family = glance.look.model
    model = 0.63 if family.word == "probit" else 1.0
    if meat is None or meat.meat is None:
        return modelled * model
    values, vectors = np.linalg.eigh(modelled)
    values, turns = np.maximum(values, 1e-12 * values[:, -1:]), vectors.transpose(0, 2, 1)
    root, eye = np.sqrt(values), np.eye(values.shape[1])
    scale = root[:, :, None] * root[:, None]
    ratio = (turns @ meat.meat @ vectors) / scale
    noise = meat.tau_meat**2 / scale**2 * (0.5 + 0.5 * eye)
    # One factor for all directions first, the more certain ones counting more; then each, shrunk towards it.
    ratios, noises = (np.diagonal(part, axis1=1, axis2=2) for part in (ratio, noise))
    factor = _factor(ratios, noises, None if family.word == "linear" else model)[:, None, None]
    far = (_PLAIN * factor) ** 2
    shrunk = factor * eye + far / (far + noise) * (ratio - factor * eye)
    found, axes = np.linalg.eigh(shrunk)
    shrunk = (axes * np.maximum(found[:, None], 0.05 * factor)) @ axes.transpose(0, 2, 1)
    return np.asarray(vectors @ (shrunk * scale) @ turns)


def _factor(ratios: Floats, noises: Floats, model: float | None) -> Floats:
    """Return the score's variation beside the model's; where noise hides it, what the model says if it says."""
    told, sd = 1 / noises, 1 / np.sqrt((1 / noises).sum(axis=1))
    middle = (ratios * told).sum(axis=1) / told.sum(axis=1)
    for _ in range(2):  # directions differ by a part of the factor itself
        weights = 1 / (noises + (_PLAIN * middle[:, None]) ** 2)
        seen = (weights * ratios).sum(axis=1) / weights.sum(axis=1)
        middle = np.maximum(seen, sd)
    if model is None:
        return np.asarray(middle)
    before = 1 / (_UNSURE * model) ** 2
    return np.asarray(np.maximum((before * model + seen / sd**2) / (before + 1 / sd**2), 0.05 * model))
