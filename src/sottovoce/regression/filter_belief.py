"""What a filtered regression makes of its answers: a Gaussian belief, moved by each noisy score as its noise allows."""

from __future__ import annotations

import math

import numpy as np

from sottovoce.privacy.numbers import Floats, above_diagonal
from sottovoce.regression.residuals import Family, Line

__all__ = ["Belief", "denoised", "effective", "symmetric"]

_SHORTENED = 0.2
"""The part of itself that a parameter may be off by after looks at shortened residuals."""
_RARE = 0.3
"""A row tells 4q(1−q) of what it tells of classes of equal parts, q the part of one; this much and less is little."""


def symmetric(diagonal: Floats, above: Floats) -> Floats:
    """Return a symmetric matrix as a look tells it: its diagonal, and √2 times what is above.

    >>> symmetric(np.array([1.0, 2.0]), math.sqrt(2) * np.array([5.0])).round(9).tolist()
    [[1.0, 5.0], [5.0, 2.0]]
    """
    found = np.zeros((diagonal.size, diagonal.size))
    found[above_diagonal(diagonal.size)] = above / math.sqrt(2)
    return found + found.T + np.diag(diagonal)


def denoised(matrix: Floats, noise: float, expected: tuple[float, float] | None = None) -> tuple[Floats, Floats]:
    """Return eigenvalues and eigenvectors of a symmetric matrix with noise, as they would be without.

    Noise of standard deviation τ on the diagonal and τ/√2 off it has eigenvalues within ±τ√(2d), a semicircle: what
    lies below its edge says nothing, and is given what the trace leaves; what lies above it at y was
    (y + √(y² − 2dτ²))/2. The trace has noise of its own, τ√d; what is `expected` of it, as mean and standard deviation,
    is weighed in.

    >>> denoised(np.diag([100.0, 1.0, 2.0]), 1.0)[0].round(2).tolist()
    [1.51, 1.51, 99.98]
    """
    d = len(matrix)
    values, vectors = np.linalg.eigh(matrix)
    above = values > noise * math.sqrt(2 * d)
    spikes = np.where(above, (values + np.sqrt(np.maximum(values**2 - 2 * d * noise**2, 0.0))) / 2, 0.0)
    trace = float(values.sum())
    if expected is not None:
        weights = expected[1] ** -2, 1 / (d * noise**2)
        trace = (weights[0] * expected[0] + weights[1] * trace) / sum(weights)
    rest = max(trace - float(spikes.sum()), 0.0) / max(int((~above).sum()), 1)
    return np.where(above, spikes, max(rest, 1e-9)), vectors


def effective(matrix: Floats, values: Floats, noise: float, guess: float) -> Floats:
    """Return the eigenvalues by which to move: those that noise hides weighed by how much of a score they make.

    Below the edge all directions look alike, but a score lies mostly along the few that hold most of the rows: one gain
    for all of them is best for their eigenvalues weighed by themselves, Σλ²/Σλ, not for their mean. Σλ² is the
    square of the matrix less that of its noise; `guess` is what is expected of it where nothing shows.

    >>> rough = np.diag([80.0, 60.0, -50.0, 10.0])
    >>> denoised(rough, 30.0)[0].tolist(), effective(rough, denoised(rough, 30.0)[0], 30.0, 9000.0).round().tolist()
    ([25.0, 25.0, 25.0, 25.0], [56.0, 56.0, 56.0, 56.0])
    """
    d, edge = len(matrix), noise * math.sqrt(2 * len(matrix))
    hidden = values <= edge
    trace, count = float(values[hidden].sum()), int(hidden.sum())
    if not count:
        return values
    squares = float(np.sum(matrix * matrix)) - noise**2 * d * (d + 1) / 2
    if count == d:
        weights = guess**-2, 1 / (noise**4 * d * (d + 1) + 4 * noise**2 * guess)
        squares = (weights[0] * guess + weights[1] * squares) / sum(weights)
    left = squares - float(np.sum(values[~hidden] ** 2))
    one = min(max(left / max(trace, 1e-9), trace / count), edge, max(trace, 1e-9))
    return np.where(hidden, one, values)


class Belief:
    """N(t, 1/P) of the parameters in the directions of the information, and what is known of rows and residuals.

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
        self, family: Family, n: int, prior: Floats, mean_row: Floats, crowded: float, length: float = 0.0
    ) -> None:
        self.family, self.n, self._prior, self._length = family, n, prior, length
        self.mean_row, self.crowded = mean_row, crowded
        self.scale = np.ones(len(mean_row))
        self.bound, self.spread = family.bound, 1.0
        if isinstance(family, Line):
            self.spread, self.sure = family.guess, family.guess**-2
        self.factor, self._consistent = 1.0, False
        self.told = 1.0
        self.t = np.zeros((len(mean_row), family.width))

    def first_look(self, answer: Floats, mu: float) -> None:
        """Take the score in and the information apart."""
        d, family, n = len(self.mean_row), self.family, self.n
        size = d * family.width + bool(family.square)
        noise = math.sqrt(8) / mu
        gram = math.sqrt(8) * symmetric(answer[size : size + d], answer[size + d :])
        # No row is longer than 1, and typical ones are not much shorter.
        rows, self.directions = denoised(gram, noise, (0.7 * n, 0.15 * n))
        self.rows = np.minimum(rows, float(n))
        self.edge = noise * math.sqrt(2 * d)
        moved = effective(gram, self.rows, noise, self.crowded * (0.7 * n) ** 2)
        # Directions below the edge share what is left: one of them may hold all of it, up to the edge.
        left = float(np.sum(self.rows[self.rows <= self.edge]))
        self.steepest = family.curvature * np.maximum(self.rows, min(self.edge, left)) * max(self._length, 1.0)
        self.mean_row = self.mean_row @ self.directions
        self.info = family.curvature * moved
        self.prior = np.einsum("ij,ij->j", self.directions, self._prior @ self.directions)
        score, spread = self._score(answer[:size], mu)
        score = self.directions.T @ score
        # Looked at from 0 all rows together pull by q − ½ along their mean.
        pull = float(self.mean_row @ score[:, 0]) / max(float(self.mean_row @ self.mean_row) * n, 1e-9)
        part = 0.5 + min(max(pull / (math.sqrt(2) * min(self._weighed, 1.0)), -0.495), 0.495)
        self.told = 4 * part * (1 - part)
        pulled = self.info * np.sqrt(np.einsum("ij,ij->i", score, score))
        length, fixed = family.width * float(np.sum(1 / self.prior)), self.spread * self.info + spread**2
        # What of the gain's denominator does not change with the length is added up once.
        square, grows = self.info**2, (family.curvature * noise) ** 2 / 2
        still, grown = square + fixed * self.prior, grows * self.prior
        for _ in range(30):
            step = pulled / (still + grown * length)
            length = (length + float(step @ step)) / 2
        own = fixed + grows * length
        gain = self.info / (square + own * self.prior)
        self.precision = square / own + self.prior
        self.t = gain[:, None] * score

    def _score(self, answer: Floats, mu: float) -> tuple[Floats, float]:
        """Return the score of a look and its noise, and note what the look says of the residuals' spread."""
        family, d, stretch = self.family, len(self.mean_row), 2 * self.bound
        if isinstance(family, Line):  # the variance is a noisy number too, and is learnt like one
            unit = stretch * self.bound / (family.square * self.n)
            sure = self.sure + (mu / unit) ** 2
            found = (self.sure * self.spread + (mu / unit) ** 2 * unit * float(answer[-1])) / sure
            self.sure, self.spread = sure, min(max(found, 1e-4 * family.largest**2), family.largest**2)
            self.bound = family.held(self.spread)
        return answer[: d * family.width].reshape(d, -1) * stretch, stretch / mu

    @property
    def _weighed(self) -> float:
        """How long a weighed row is, beside its true length; 1 where that is not known."""
        if not self._length:
            return 1.0
        return max(math.sqrt(float(np.sum(self.rows)) / self.n) / self._length, 1e-9)

    def room(self, room: float) -> float:
        """Return the room of full looks: where one class is rare rows tell less, and noise counts for more beside it.

        >>> from sottovoce.regression.residuals import Classes
        >>> belief = Belief(Classes(2), 100, np.eye(1), np.ones(1), 0.3)
        >>> belief.told = 0.075
        >>> belief.room(3.0), belief.room(1.2), belief.room(0.7)
        (1.5, 1.0, 0.7)
        """
        return max(room * min(math.sqrt(self.told / _RARE), 1.0), min(room, 1.0))

    def shape(self, room: float) -> Floats:
        """Return how much each direction is stretched: the more the less of the rows lies along it, if that is known.

        Directions below the edge of the noise are all treated alike. The information is that of weighed rows, which
        are shorter than the rows are: by as much a typical row is longer than it says.
        """
        stretch = 1 / np.sqrt(self.rows + self.edge)
        typical = math.sqrt(max(float(np.sum(self.rows * stretch**2)) / self.n, 1e-300))
        typical *= max(1 / self._weighed, 1.0)
        # A score of rows that are weighed less falls the more steeply.
        self.steepest = self.steepest * max(self._length, 1.0) * min(room, 1.0)
        return np.asarray(stretch / (room * typical))

    def centre(self, *, consistent: bool) -> Floats:
        """Return where to look next; where the loss is less curved than before, what is known counts for less.

        So it does, by as much as shortened residuals may mislead, from the first look on that leaves no bias.
        """
        if consistent and not self._consistent:
            self.precision = 1 / (1 / self.precision + np.mean((_SHORTENED * self.t) ** 2, axis=1))
        self._consistent = consistent
        mean = self.mean_row @ self.t
        along = self.rows / self.n
        variance = float(np.sum(along[:, None] * self.t**2) - mean @ mean) / self.family.width
        variance = max(variance, 0.0) + float(np.sum(along / self.precision))
        factor = self.family.factor(mean, variance, consistent=consistent)
        less = min(1.0, factor / self.factor) ** 2
        self.precision = self.prior + less * (self.precision - self.prior)
        self.factor = factor
        return np.asarray(self.t / self.scale[:, None])

    def learn(self, answer: Floats, mu: float) -> None:
        """Take a noisy score in."""
        score, noise = self._score(answer, mu)
        # In shaped coordinates the score is s·(h·(θ − t)), its own variance s²·h.
        info = self.factor * self.info * self.scale
        own = noise**2 + self.spread * info * self.scale
        gain = np.minimum(info / (info**2 + own * self.precision), 1 / (self.factor * self.steepest * self.scale))
        self.t = self.t + gain[:, None] * score
        self.precision = self.precision + info**2 / own
