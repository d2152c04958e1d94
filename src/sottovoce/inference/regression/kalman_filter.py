"""What a filtered regression makes of its answers: a Gaussian belief, moved by each noisy score as its noise allows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sottovoce.inference.regression.eigenvalues import beyond_semicircle, semicircle_edge
from sottovoce.inference.regression.residuals import Line, ScoreFamily, turned
from sottovoce.privacy.numbers import Floats, above_diagonal

_SHORTENED = 0.2
"""The part of itself that a parameter may be off by after looks at shortened residuals."""
_ROUNDS = 40
"""How often ‖w‖² is found anew, each time the mean of what it was and what it then is."""
_RARE = 0.3
"""A row tells 4q(1−q) of what it tells of classes of equal parts, q the part of one; this much and less is little."""


def symmetric(diagonal: Floats, above: Floats) -> Floats:
    """Return a symmetric matrix as a look tells it: its diagonal, and √2 times what is above.

    >>> symmetric(np.array([1.0, 2.0]), math.sqrt(2) * np.array([5.0])).round(9).tolist()
    [[1.0, 5.0], [5.0, 2.0]]
    """
    size = diagonal.shape[-1]
    result = np.zeros((*diagonal.shape, size))
    result[(..., *above_diagonal(size))] = above / math.sqrt(2)
    return np.asarray(result + turned(result) + diagonal[..., None] * np.eye(size))


def denoised(matrix: Floats, noise: float, expected: tuple[float, float] | None = None) -> tuple[Floats, Floats]:
    """Return eigenvalues and eigenvectors of a symmetric matrix with noise, as they would be without.

    Noise of standard deviation τ on the diagonal and τ/√2 off it has eigenvalues within ±τ√(2d), a semicircle: what
    lies below its edge says nothing, and is given what the trace leaves; what lies above it at y was
    (y + √(y² − 2dτ²))/2. The trace has noise of its own, τ√d; what is `expected` of it, as mean and standard deviation,
    is weighed in.

    >>> denoised(np.diag([100.0, 1.0, 2.0]), 1.0)[0].round(2).tolist()
    [1.51, 1.51, 99.98]
    """
    d = matrix.shape[-1]
    values, vectors = np.linalg.eigh(matrix)
    spikes = np.maximum(beyond_semicircle(values, semicircle_edge(noise, d)), 0.0)
    above = spikes > 0
    trace = values.sum(axis=-1)
    if expected is not None:
        weights = expected[1] ** -2, 1 / (d * noise**2)
        trace = (weights[0] * expected[0] + weights[1] * trace) / sum(weights)
    remainder = np.maximum(trace - spikes.sum(axis=-1), 0.0) / np.maximum((~above).sum(axis=-1), 1)
    return np.where(above, spikes, np.maximum(remainder, 1e-9)[..., None]), vectors


def effective(matrix: Floats, values: Floats, noise: float, guess: float) -> Floats:
    """Return the eigenvalues by which to move: those that noise hides weighed by how much of a score they make.

    Below the edge all directions look alike, but a score lies mostly along the few that hold most of the rows: one gain
    for all of them is best for their eigenvalues weighed by themselves, Σλ²/Σλ, not for their mean. Σλ² is the
    square of the matrix less that of its noise; `guess` is what is expected of it where nothing shows.

    >>> rough = np.diag([80.0, 60.0, -50.0, 10.0])
    >>> denoised(rough, 30.0)[0].tolist(), effective(rough, denoised(rough, 30.0)[0], 30.0, 9000.0).round().tolist()
    ([25.0, 25.0, 25.0, 25.0], [56.0, 56.0, 56.0, 56.0])
    """
    d = matrix.shape[-1]
    edge = semicircle_edge(noise, d)
    hidden = values <= edge
    trace, count = np.sum(np.where(hidden, values, 0.0), axis=-1), hidden.sum(axis=-1)
    squares = np.sum(matrix * matrix, axis=(-2, -1)) - noise**2 * d * (d + 1) / 2
    weights = guess**-2, 1 / (noise**4 * d * (d + 1) + 4 * noise**2 * guess)
    squares = np.where(count == d, (weights[0] * guess + weights[1] * squares) / sum(weights), squares)
    remaining = squares - np.sum(np.where(hidden, 0.0, values) ** 2, axis=-1)
    item = np.maximum(remaining / np.maximum(trace, 1e-9), trace / np.maximum(count, 1))
    item = np.minimum(item, np.minimum(edge, np.maximum(trace, 1e-9)))
    return np.where(hidden, item[..., None], values)


def noisy_newton_step(
    info: Floats, score: Floats, fixed: Floats, grows: float, prior: Any, length: Any
) -> tuple[Floats, Floats]:
    r"""Return the gain along each eigenvector of a noisy information by which its score becomes w, and w's precision.

    Given w the score has the mean Hw and the variance `fixed` + `grows`·‖w‖², for the noise of H is multiplied by w:
    the gain is H/(H² + variance·m), m the precision of the prior, with ‖w‖² found by iteration from `length`.

    >>> gain, precision = noisy_newton_step(np.array([100.0]), np.array([50.0]), np.array([100.0]), 0.0, 0.01, 1.0)
    >>> (50 * gain).round(3).tolist(), precision.tolist()
    ([0.5], [100.01])
    """
    # What of the gain's denominator does not change with the length is added up once.
    square = info * info
    pulled, still, grown = info * score, square + fixed * prior, grows * prior
    length = np.asarray(length)[..., None]
    for _ in range(_ROUNDS):
        step = pulled / (still + grown * length)
        length = (length + np.einsum("...i,...i->...", step, step)[..., None]) / 2
    variance = fixed + grows * length
    return info / (square + variance * prior), square / variance + prior


def _each(number: Any) -> Floats:
    """Return a number of each release as one that all its directions share."""
    return np.asarray(number)[..., None]


class FilteredGaussian:
    """N(t, 1/P) of the parameters in the directions of the information, and what is known of rows and residuals.

    Or as many of them as there are releases: in all that answers are made of, releases come first.

    Parameters
    ----------
    family, n
        What the residuals are of, and how many records there are.
    prior
        The precision of the prior, a matrix.
    mean_row
        The mean of the rows, as far as it is known.
    crowded
        What is expected of Σλ²/(Σλ)² of the information as long as noise hides it.
    length
        How long a row is, if it is known: rows longer than 1 are weighed before they are looked at, in the score once
        and in the information twice.
    """

    def __init__(
        self, family: ScoreFamily, n: int, prior: Floats, mean_row: Floats, crowded: float, length: float = 0.0
    ) -> None:
        self.family, self.n, self._prior, self._length = family, n, prior, length
        self.mean_row, self.crowded = mean_row, crowded
        self.scale = np.ones(mean_row.shape[-1])
        self.bound: Any = family.bound
        self.spread: Any = 1.0
        if isinstance(family, Line):
            self.spread, self.sure = family.guess, family.guess**-2
        self.factor: Any = 1.0
        self._consistent = False
        self.told: Any = 1.0
        self.t = np.zeros((mean_row.shape[-1], family.width))

    def first_look(self, answer: Floats, mu: float) -> None:
        """Take the score in and the information apart."""
        d, family, n = self.mean_row.shape[-1], self.family, self.n
        size = d * family.width + bool(family.square)
        noise = math.sqrt(8) / mu
        gram = math.sqrt(8) * symmetric(answer[..., size : size + d], answer[..., size + d :])
        # No row is longer than 1, and typical ones are not much shorter.
        rows, self.directions = denoised(gram, noise, (0.7 * n, 0.15 * n))
        self.rows = np.minimum(rows, float(n))
        self.edge = semicircle_edge(noise, d)
        moved = effective(gram, self.rows, noise, self.crowded * (0.7 * n) ** 2)
        # Directions below the edge share what is left: one of them may hold all of it, up to the edge.
        remaining = np.sum(np.where(self.rows <= self.edge, self.rows, 0.0), axis=-1)
        steepest = np.maximum(self.rows, np.minimum(self.edge, remaining)[..., None])
        self.steepest = family.curvature * steepest * max(self._length, 1.0)
        self.mean_row = (self.mean_row[..., None, :] @ self.directions)[..., 0, :]
        self.info = family.curvature * moved
        self.prior = np.einsum("...ij,...ij->...j", self.directions, self._prior @ self.directions)
        score, spread = self._score(answer[..., :size], mu)
        score = turned(self.directions) @ score
        # Looked at from 0 all rows together pull by q − ½ along their mean.
        pull = np.sum(self.mean_row * score[..., 0], axis=-1)
        pull = pull / np.maximum(np.sum(self.mean_row * self.mean_row, axis=-1) * n, 1e-9)
        part = 0.5 + np.clip(pull / (math.sqrt(2) * np.minimum(self._weighed, 1.0)), -0.495, 0.495)
        self.told = 4 * part * (1 - part)
        length = family.width * np.sum(1 / self.prior, axis=-1)
        fixed, grows = _each(self.spread) * self.info + _each(spread) ** 2, (family.curvature * noise) ** 2 / 2
        size = np.sqrt(np.einsum("...ij,...ij->...i", score, score))
        gain, self.precision = noisy_newton_step(self.info, size, fixed, grows, self.prior, length)
        self.t = gain[..., None] * score

    def _score(self, answer: Floats, mu: float) -> tuple[Floats, Any]:
        """Return the score of a look and its noise, and note what the look says of the residuals' spread."""
        family, d, stretch = self.family, self.mean_row.shape[-1], 2 * self.bound
        if isinstance(family, Line):  # the variance is a noisy number too, and is learnt like one
            unit = stretch * self.bound / (family.square * self.n)
            sure = self.sure + (mu / unit) ** 2
            result = (self.sure * self.spread + (mu / unit) ** 2 * unit * answer[..., -1]) / sure
            self.sure, self.spread = sure, np.clip(result, 1e-4 * family.largest**2, family.largest**2)
            self.bound = family.held(self.spread)
        score = answer[..., : d * family.width].reshape(*answer.shape[:-1], d, -1)
        return score * _each(stretch)[..., None], stretch / mu

    @property
    def _weighed(self) -> Any:
        """How long a weighed row is, beside its true length; 1 where that is not known."""
        if not self._length:
            return 1.0
        return np.maximum(np.sqrt(np.sum(self.rows, axis=-1) / self.n) / self._length, 1e-9)

    def room(self, room: float) -> Any:
        """Return the room of full looks: where one class is rare rows tell less, and noise counts for more beside it.

        >>> from sottovoce.inference.regression.residuals import Classes
        >>> belief = FilteredGaussian(Classes(2), 100, np.eye(1), np.ones(1), 0.3)
        >>> belief.told = 0.075
        >>> [float(belief.room(room)) for room in (3.0, 1.2, 0.7)]
        [1.5, 1.0, 0.7]
        """
        return np.maximum(room * np.minimum(np.sqrt(self.told / _RARE), 1.0), min(room, 1.0))

    def shape(self, room: Any) -> Floats:
        """Return how much each direction is stretched: the more the less of the rows lies along it, if that is known.

        Directions below the edge of the noise are all treated alike. The information is that of weighed rows, which
        are shorter than the rows are: by as much a typical row is longer than it says.
        """
        stretch = 1 / np.sqrt(self.rows + self.edge)
        typical = np.sqrt(np.maximum(np.sum(self.rows * stretch**2, axis=-1) / self.n, 1e-300))
        typical = typical * np.maximum(1 / self._weighed, 1.0)
        # A score of rows that are weighed less falls the more steeply.
        self.steepest = self.steepest * max(self._length, 1.0) * _each(np.minimum(room, 1.0))
        return np.asarray(stretch / _each(room * typical))

    def centre(self, *, consistent: bool) -> Floats:
        """Return where to look next; where the loss is less curved than before, what is known counts for less.

        So it does, by as much as shortened residuals may mislead, from the first look on that leaves no bias.
        """
        if consistent and not self._consistent:
            self.precision = 1 / (1 / self.precision + np.mean((_SHORTENED * self.t) ** 2, axis=-1))
        self._consistent = consistent
        mean = (self.mean_row[..., None, :] @ self.t)[..., 0, :]
        along = self.rows / self.n
        variance = np.sum(along[..., None] * self.t**2, axis=(-2, -1)) - np.sum(mean * mean, axis=-1)
        variance = np.maximum(variance / self.family.width, 0.0) + np.sum(along / self.precision, axis=-1)
        factor = self.family.factor(mean, variance, consistent=consistent)
        less = np.minimum(1.0, factor / self.factor) ** 2
        self.precision = self.prior + _each(less) * (self.precision - self.prior)
        self.factor = factor
        return np.asarray(self.t / self.scale[..., None])

    def learn(self, answer: Floats, mu: float) -> None:
        """Take a noisy score in."""
        score, noise = self._score(answer, mu)
        # In shaped coordinates the score is s·(h·(θ − t)), its own variance s²·h.
        info = _each(self.factor) * self.info * self.scale
        variance = _each(noise) ** 2 + _each(self.spread) * info * self.scale
        most = 1 / (_each(self.factor) * self.steepest * self.scale)
        gain = np.minimum(info / (info**2 + variance * self.precision), most)
        self.t = self.t + gain[..., None] * score
        self.precision = self.precision + info**2 / variance
