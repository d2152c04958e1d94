r"""From noisy looks to a posterior that knows of their noise: post-processing, free of cost.

At a centre θ the noisy score is ŝ = H(θ* − θ) + R + e + ξ: the information times the way to the truth, what the mean
bends on that way, the records' own variation and the noise. Given what was released and a guess H of the information,

.. math:: \hat s \sim N\bigl(H\delta + R(\delta),\; \hat J + \sigma^2 I + \Omega(\delta)\bigr), \qquad
          \delta = \theta^* - \theta,

where Ĵ is the noisy variation of the score and Ω what the noise of the information adds: in the directions in which H
is diagonal, Ω_j = Σ_i min(τ²/2, 0.4·h_i·h_j/D)·δ_i², for no two directions share more than both have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sottovoce.inference.regression.eigenvalues import floored, lifted
from sottovoce.inference.regression.laplace_approximation import LaplaceMode, times
from sottovoce.inference.regression.moment_draws import MomentSamples
from sottovoce.inference.regression.noisy_score_information import NoisyScoreInformation
from sottovoce.inference.regression.overdispersion import Overdispersion
from sottovoce.inference.regression.pseudo_row_moments import PseudoRowMoments, axes
from sottovoce.inference.regression.sampler_settings import RELEASED, SamplerSettings
from sottovoce.privacy.numbers import Floats
from sottovoce.records.readings.families import PoissonFamily

_TOGETHER = 48
"""So many guesses at most are worked on together: of more the numbers would not stay near the processor."""
_UNSURE = 0.5
"""How far the score's variation altogether may differ from what the model says, where noise hides it."""
_PLAIN = 0.25
"""How far, as a standard deviation, the score's variation may differ by direction from what the model says."""


@dataclass(frozen=True, eq=False)
class LookPosterior:
    """A mixture of normal laws: weights, means and covariances; and the guesses and the imagined rows on which it was
    found, if any, and which part of its prior variance each coordinate has left.
    """

    weights: Floats
    means: Floats
    covariances: Floats
    guesses: MomentSamples | None = None
    imagined: PseudoRowMoments | None = None
    unlearned: Floats | None = None

    @cached_property
    def mean(self) -> Floats:
        """The mean of θ."""
        return np.asarray(self.weights @ self.means)

    @cached_property
    def covariance(self) -> Floats:
        """The covariance of θ."""
        off = self.means - self.mean
        return np.asarray(
            np.einsum("k,kij->ij", self.weights, self.covariances) + np.einsum("k,ki,kj->ij", self.weights, off, off)
        )

    def mapped(self, matrix: Floats, shift: Floats | float = 0.0) -> LookPosterior:
        """Return the belief about Aθ + b."""
        return LookPosterior(self.weights, self.means @ matrix.T + shift, matrix @ self.covariances @ matrix.T)


@dataclass(frozen=True, eq=False)
class AskedTerm:
    """What a look is asked: what it says of θ.

    Attributes
    ----------
    glance, meat
        The look, and the look that measured how much the score varies.
    prior
        From how far the entries of a row spread, by guess, to the log of each guess's weight and the prior standard
        deviations of θ in the coordinates of x.
    several, at_least, care
        Whether what the information may be is guessed where noise hides it, how often at least, and how carefully.
    at
        Where given, the noise is not counted: covariances are what the records alone would leave at this θ. Another
        one is not looked for, for without its noise the score would lead to where the noise points.
    whole
        Whether the look is at this very θ and cuts no row: nothing need be imagined then, for no mean bends on a way of
        no length.
    extra
        What is believed of how much more counts vary than a Poisson law's.
    last
        Whether it is the last look, which tells. Other looks only say where the next is taken.
    prior_mean
        The prior mean of θ in the coordinates of x; zero unless given.
    """

    glance: NoisyScoreInformation
    prior: Callable[[Floats], tuple[Floats, Floats]]
    meat: NoisyScoreInformation | None
    several: bool
    at_least: int = 1
    care: SamplerSettings = RELEASED
    at: Floats | None = None
    whole: bool = False
    extra: Overdispersion | None = None
    last: bool = False
    prior_mean: Floats | None = None

    @property
    def noisy(self) -> bool:
        """Whether the noise is counted."""
        return self.at is None

    @property
    def alike(self) -> tuple[bool, ...]:
        """What two must have in common to be answered together."""
        return self.measured, self.noisy, self.whole, self.extra is not None, self.several, self.last

    @property
    def measured(self) -> bool:
        """Whether it was measured how much the score varies."""
        return self.meat is not None and self.meat.meat is not None


def believe_all(asked: Sequence[AskedTerm]) -> list[LookPosterior]:
    """Return what each of several looks of one regression says of θ, those that are asked alike together."""
    result: dict[int, LookPosterior] = {}
    alike: dict[tuple[bool, ...], list[int]] = {}
    for place, item in enumerate(asked):
        alike.setdefault(item.alike, []).append(place)
    for places in alike.values():
        first = asked[places[0]]
        options: dict[str, Any] = {name: getattr(first, name) for name in ("several", "at_least", "care", "last")}
        shown = MomentSamples.of([asked[k].glance for k in places], **options)
        for subset in _batches([len(item.mean) for item in shown]):
            beliefs = _believed([asked[places[k]] for k in subset], [shown[k] for k in subset])
            result |= dict(zip([places[k] for k in subset], beliefs, strict=True))
    return [result[place] for place in range(len(asked))]


def _batches(counts: Sequence[int]) -> list[list[int]]:
    """Return the places of looks that have few guesses between them."""
    result: list[list[int]] = [[]]
    for place, count in enumerate(counts):
        if result[-1] and sum(counts[k] for k in result[-1]) + count > _TOGETHER:
            result.append([])
        result[-1].append(place)
    return result


def _believed(asked: Sequence[AskedTerm], guesses: Sequence[MomentSamples]) -> list[LookPosterior]:
    """Return what looks say of θ that are asked alike: their guesses lie one after the other."""
    glances, counts = [first.glance for first in asked], [len(first.mean) for first in guesses]
    H = np.concatenate([first.information for first in guesses])
    shown = [first.mean for first in guesses]
    bends = glances[0].look.model.curved and asked[0].noisy
    imagined, other = None, None
    if not asked[0].whole:
        imagined, *more = PseudoRowMoments.several(glances, shown, more=bends, last=asked[0].last)
        other = more[0] if more else None
    priors = [first.prior(subset.spread) for first, subset in zip(asked, guesses, strict=True)]
    T = _each((glance.shape for glance in glances), counts).transpose(0, 2, 1)
    roots = np.concatenate(
        [_roots(glance, subset, sds) for glance, subset, (_, sds) in zip(glances, guesses, priors, strict=True)]
    )
    at = centre = _each((glance.look.predictors.ravel() for glance in glances), counts)
    if given := [(first.glance.shape.T, first.at) for first in asked if first.at is not None]:
        at = _each((np.linalg.solve(shape, at) for shape, at in given), counts)
    directions = None if imagined is None else axes(H)
    way = LaplaceMode(
        imagined,
        other,
        H,
        _variation(asked, counts, imagined, H, directions),
        np.asarray(np.linalg.solve(T, roots), dtype=np.float64),
        _each((glance.score for glance in glances), counts),
        centre,
        _each((glance.tau for glance in glances), counts),
        _each(map(_cut, glances), counts),
        _each(map(_prior_mean, asked), counts),
        asked[0].care,
        directions,
    )
    theta, remaining, evidence = way.gone() if asked[0].noisy else way.stayed(at)
    evidence = evidence + np.concatenate([log for log, _ in priors])
    means, covariances, ends = times(T, theta), roots @ remaining @ roots.transpose(0, 2, 1), np.cumsum(counts)
    result = []
    parts = [None] * len(counts) if imagined is None else imagined.split()
    for end, first, subset, part in zip(ends, asked, guesses, parts, strict=True):
        block = slice(end - len(subset.mean), end)
        weights, unlearned = _weighed(evidence[block]), np.diagonal(remaining[block], axis1=1, axis2=2)
        mean, covariance = means[block], covariances[block]
        if first.last and first.noisy and first.glance.far is not None and part is not None:
            mean, covariance = first.glance.far.told(first.glance.look, part, mean, covariance)
        result.append(LookPosterior(weights, mean, covariance, subset, part, weights @ unlearned))
    return result


def _weighed(evidence: Floats) -> Floats:
    """Return how much each guess is believed, by the log of its evidence."""
    evidence = np.nan_to_num(evidence, nan=-1e300, posinf=1e300, neginf=-1e300)
    weights = np.exp(evidence - evidence.max())
    return np.asarray(weights / weights.sum())


def _each(parts: Iterable[Any], counts: Sequence[int]) -> Floats:
    """Return what is one for each look, once for each of its guesses."""
    return np.repeat(np.array(list(parts), dtype=np.float64), counts, axis=0)


def _variation(
    asked: Sequence[AskedTerm],
    counts: Sequence[int],
    imagined: PseudoRowMoments | None,
    information: Floats,
    directions: tuple[Floats, Floats] | None,
) -> Floats:
    """Return by how much scores vary, one for each guess: of themselves and, where it counts, by noise."""
    looks, noisy = [item.glance.look for item in asked], asked[0].noisy
    J = information if imagined is None or directions is None else imagined.variation(looks, directions)
    word = looks[0].model.word
    meats = [item.meat for item in asked if item.measured and item.meat is not None]
    if meats:
        J = _varies(
            J, word, *(_each(part, counts) for part in zip(*((m.meat, m.tau_meat) for m in meats), strict=True))
        )
    else:
        J = J * _modelled(word)
    if noisy and asked[0].last and asked[0].glance.missed is not None:
        J = J + _each((item.glance.missed for item in asked), counts)
    if noisy:
        J = lifted(J, _each((item.glance.sigma**2 for item in asked), counts))
    if noisy and imagined is not None and asked[0].extra is not None:
        J = J + np.concatenate([_unsure(part, item.extra) for part, item in zip(imagined.split(), asked, strict=True)])
    return J


def _unsure(imagined: PseudoRowMoments, extra: Overdispersion | None) -> Floats:
    """Return by how much the score may vary because nobody knows quite how much counts do."""
    (family,) = imagined.families
    assert isinstance(family, PoissonFamily) and extra is not None
    shifts = extra.shift(family, imagined.predictors[:, :, 0])
    moves = np.einsum("mr,kmr,mri->kmi", imagined.records, shifts, imagined.rows)
    return np.asarray(moves.transpose(1, 2, 0) @ moves.transpose(1, 0, 2))


def _roots(glance: NoisyScoreInformation, guesses: MomentSamples, sds: Floats) -> Floats:
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
        diagonal = roots[:, at, at].copy()
        roots[:, at, block] = -off * sds[:, block]
        roots[:, at, at] = diagonal
    return roots


def _prior_mean(asked: AskedTerm) -> Floats:
    """Return the prior mean in the coordinates of the look."""
    look = asked.glance.look
    if asked.prior_mean is None:
        return np.zeros(look.dimension)
    return np.asarray(np.linalg.solve(look.matrix.T, asked.prior_mean.reshape(look.model.outputs, -1).T).T.ravel())


def _cut(glance: NoisyScoreInformation) -> float:
    """Return how little a linear regression's look is to be believed: the part of its residuals that is cut.

    Where they fill its cap, the score hardly grows with the way to the truth. Even ones are meant, whose squares are
    1 − ⅔·(1 − part) of the cap's on average.
    """
    if not glance.look.cap or glance.look.model.curved or glance.meat is None:
        return 0.0
    filled = min(math.sqrt(glance.dispersion) / glance.look.cap, 1.0)
    return max((3 * filled**2 - 1) / 2, 0.0)


def _modelled(word: str) -> float:
    """Return what the score varies by where the model holds, beside its information."""
    return 0.63 if word == "probit" else 1.0


def _varies(modelled: Floats, word: str, meat: Floats, tau: Floats) -> Floats:
    """Return the score's own variation: as the model has it, corrected by what was measured, as far as noise allows.

    One for each guess of the information: so are what was measured and its noise.
    """
    values, vectors = np.linalg.eigh(modelled)
    values, turns = np.maximum(values, 1e-12 * values[:, -1:]), vectors.transpose(0, 2, 1)
    root, eye = np.sqrt(values), np.eye(values.shape[1])
    scale = root[:, :, None] * root[:, None]
    ratio = (turns @ meat @ vectors) / scale
    noise = tau[:, None, None] ** 2 / scale**2 * (0.5 + 0.5 * eye)
    # One factor for all directions first, the more certain ones counting more; then each, shrunk towards it.
    ratios, noises = (np.diagonal(part, axis1=1, axis2=2) for part in (ratio, noise))
    factor = _factor(ratios, noises, None if word == "linear" else _modelled(word))[:, None, None]
    far = (_PLAIN * factor) ** 2
    shrunk = factor * eye + far / (far + noise) * (ratio - factor * eye)
    shrunk = floored(shrunk, 0.05 * factor[:, 0, 0])
    return np.asarray(vectors @ (shrunk * scale) @ turns)


def _factor(ratios: Floats, noises: Floats, model: float | None) -> Floats:
    """Return the score's variation beside the model's; where noise hides it, what the model says if it says."""
    shown, sd = 1 / noises, 1 / np.sqrt((1 / noises).sum(axis=1))
    middle = (ratios * shown).sum(axis=1) / shown.sum(axis=1)
    for _ in range(2):  # directions differ by a part of the factor itself
        weights = 1 / (noises + (_PLAIN * middle[:, None]) ** 2)
        seen = (weights * ratios).sum(axis=1) / weights.sum(axis=1)
        middle = np.maximum(seen, sd)
    if model is None:
        return np.asarray(middle)
    before = 1 / (_UNSURE * model) ** 2
    return np.asarray(np.maximum((before * model + seen / sd**2) / (before + 1 / sd**2), 0.05 * model))
