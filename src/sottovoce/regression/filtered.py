"""The filtered regression: one look at score and information, then small looks at the score, each with known noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.numbers import Floats, whole
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.promises import Promise
from sottovoce.readings import Rows
from sottovoce.regression.design import Design, check_design
from sottovoce.regression.gaussian_posterior import GaussianPosterior
from sottovoce.regression.losses import Logistic, Squared, positive
from sottovoce.regression.posterior import RegressionMechanism
from sottovoce.regression.residuals import Classes, Family, Line, family_of
from sottovoce.regression.row_maps import flat_by
from sottovoce.regression.softmax import SoftmaxPosterior, contrasts
from sottovoce.regression.sums import Steps, Sum, ask, exact_sum, fine_steps, log_ratio, paired_steps, total_mu

__all__ = ["FilteredRegression", "denoised", "public_shares", "usual_precision"]

_FIRST, _INFORMATION, _LOOKS = 0.3, 0.2, 8
_KEEP, _ROOM = 0.3, 1.1
_SPREAD = 0.05
"""What of the belief's variance a prediction is averaged over. Most directions hold nothing of the answer and are as
wide as the prior: all of their width together would drown what the others say."""
_SURE = 1 + 1e-9
"""Sensitivities are claimed larger by more than the arithmetic of a record's contribution can be off."""
_NO_INTERVALS = (
    "this spread is tuned for averaging predictions over, and too narrow for an interval; ask for a regression table "
    "instead"
)


def usual_precision(dimension: int) -> float:
    """Return the prior's precision for classes: .3, and less where there are more than 15 entries to share a predictor.

    >>> usual_precision(5), round(usual_precision(785), 3)
    (0.3, 0.041)
    """
    return 0.3 * min(1.0, math.sqrt(15 / dimension))


def public_shares(n: int, dimension: int, mu: float, family: Family) -> dict[str, Any]:
    """Return the shares, the room and the kind of looks by n, d and μ alone; tuned by hand on ten public sets.

    The mean row is worth the more of μ² the less is known of it: `flatten` is such that its noise, of norm 2√d/(nμ), is
    a fifth of the bound of a row, and between .05 and .4. Where r = nμ/d^{3/2} is 10 or more the information rises
    well above its noise, and the rows are shaped by it; from 20 on the later half of the looks leave no bias; from 60
    on there are twice as many, and three quarters of them leave none. A line's residuals vary less than those of
    classes, so that shaping pays at a seventh of that.

    >>> public_shares(30_000, 100, 0.3, Classes(2))["flatten"], public_shares(30_000, 10, 0.3, Line())["shape_room"]
    (0.05, 1.6)
    """
    line = isinstance(family, Line)
    known = n * mu / dimension**1.5 * (7 if line else 1)
    found = {"flatten": min(max(100 * dimension / (n * mu) ** 2, 0.05), 0.4), "looks": _LOOKS}
    if known >= 60 and not line:
        return found | {"looks": 2 * _LOOKS, "shape_room": 2.0, "unbiased": 3 * _LOOKS // 2}
    room = 0.0 if known < 10 else 1.2 if known < 25 else 1.6
    return found | {"shape_room": room, "unbiased": 0 if known < 20 else _LOOKS // 2}


@dataclass(frozen=True, eq=False)
class FilteredRegression(RegressionMechanism):
    r"""A Kalman filter over private looks at the records, for prediction.

    1. The mean row, with noise: the direction that all rows share is shrunk (a share `flatten` of μ²). Rows z longer
       than 1 after that are weighed by 1/‖z‖², which by itself leaves no bias, instead of being shortened.
    2. Score and information at 0 (a share `first` of the rest, of it `information` for the second). The information
       is denoised: below the edge of the noise's semicircle eigenvalues say nothing. This gives a belief N(t, 1/P).
    3. `looks` scores at the mean of the belief, of residuals that never exceed those at 0 (the rest of μ², equally).
       Each moves the belief by as much as its noise allows. Where the loss is less curved than it was at the look
       before, what was known counts for less.

    Everything a record can move is a sum that it moves by at most 1 (`sums`), so that the whole is √(Σμᵢ²)-GDP by
    adaptive composition. The release is the mean of the belief and a twentieth of its variance, to average predictions
    over: it is tuned for them, and no interval is offered.

    Attributes
    ----------
    mu
        The cost of a release.
    flatten, first, information
        The shares.
    looks, unbiased
        How many scores, and how many of them (the last ones) weigh residuals by the prediction instead of shortening
        them.
    shape_room
        Where > 0 the rows are shaped by the information before the scores: a row up to this multiple of their typical
        length is left alone.
    prior_precision
        Of the prior N(0, 1/m) in the coordinates of the mapped rows; `usual_precision` for classes, 3 for lines.

    Examples
    --------
    >>> from sottovoce.privacy.promises import ApproxDP
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> rng = seeded_rng(1)
    >>> X = rng.standard_normal((5000, 2)) / 3
    >>> y = np.where(X @ [3.0, -3.0] + rng.logistic(size=5000) > 0, 1.0, -1.0)
    >>> design = Design(Logistic(), dimension=2, data_norm=1.0)
    >>> mechanism = FilteredRegression.calibrate(design, 5000, ApproxDP(1.0, 1e-6))
    >>> found = mechanism.release((X, y), rng).value.mean
    >>> bool(np.mean((X @ found > 0) == (X @ [3.0, -3.0] > 0)) > 0.95), mechanism.profile.satisfies(ApproxDP(1.0, 1e-6))
    (True, True)
    """

    word: ClassVar[str] = "filtered regression"
    choices: ClassVar[Mapping[str, Mapping[str, Any]]] = {"filtered": {}}
    many_classes: ClassVar[bool] = True
    mu: float
    prior_precision: float = 0.3
    flatten: float = 0.1
    first: float = _FIRST
    information: float = _INFORMATION
    looks: int = _LOOKS
    shape_room: float = 0.0
    unbiased: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if family_of(self.design.loss) is None:
            raise InvalidValue(
                f"filtered regressions are logistic, softmax or linear; for {self.design.loss.name} use 'refined'"
            )
        positive("mu", self.mu, high=1e9)
        positive("prior_precision", self.prior_precision)
        for name in ("flatten", "first", "information"):
            share = getattr(self, name)
            positive(name, share, high=1.0)
            if not share < 1:
                raise InvalidValue(f"{name} is a share, between 0 and 1. Got {share}")
        object.__setattr__(self, "looks", whole("looks", self.looks, 1))
        object.__setattr__(self, "unbiased", whole("unbiased", self.unbiased, 0))
        if not 0 <= self.shape_room <= 1e6:
            raise InvalidValue(f"shape_room must lie between 0, for none, and 1e6. Got {self.shape_room}")

    @classmethod
    def calibrate(
        cls,
        design: Design,
        n: int,
        target: Promise,
        *,
        prior_scale: float | None = None,
        prior_precision: float | None = None,
    ) -> Self:
        """Return the mechanism that keeps `target`; shares and looks come from n, d and the promise alone.

        The prior is given as its precision, or as a public guess R of ‖w‖, m = d/(R·data_norm)².
        """
        check_design(design)
        if prior_scale is not None:
            positive("prior_scale", prior_scale)
        if prior_precision is None:
            prior_precision = 3.0 if isinstance(design.loss, Squared) else usual_precision(design.dimension)
            if prior_scale is not None:
                prior_precision = design.dimension / (prior_scale * design.data_norm) ** 2
        elif prior_scale is not None:
            raise InvalidValue("give the prior either as prior_precision or as prior_scale")
        mu = largest_keeping(GaussianProfile, target, high=1e6, name="mu") * (1 - 1e-11)
        whole("n", n, 1)
        family = family_of(design.loss) or Line()
        return cls(design, n, mu, float(prior_precision), **public_shares(n, design.dimension, mu, family))

    @property
    def profile(self) -> GaussianProfile:
        """What all looks cost together."""
        flat, first, one = self.mus
        return GaussianProfile(total_mu([flat, first, *[one] * self.looks]), basis=Basis.BOUND)

    @property
    def mus(self) -> tuple[float, float, float]:
        """The μ of the mean row, of the first look and of each score."""
        rest = 1 - self.flatten
        shares = (self.flatten, rest * self.first, rest * (1 - self.first) / self.looks)
        flat, first, one = (self.mu * math.sqrt(share) for share in shares)
        return flat, first, one

    @property
    def family(self) -> Family:
        """Residuals and curvature of the loss."""
        found = family_of(self.design.loss)
        assert found is not None
        return found

    @classmethod
    def example(cls) -> Self:
        """Return looks at a hundred records."""
        return cls(Design(Logistic(), dimension=2, data_norm=1.0), 100, 1.0, looks=2)

    def cost(self, draws: int = 1) -> Profile:
        """Return the profile: any number of samples of the released belief is free."""
        del draws
        return self.profile

    def _value(self, seen: Rows, rng: np.random.Generator, draws: int) -> GaussianPosterior | SoftmaxPosterior:
        del draws
        found: GaussianPosterior | SoftmaxPosterior = ask(self.steps(), self._within(seen), rng)
        return found

    def _within(self, seen: Rows) -> Rows:
        """Return rows of norm at most 1 and labels within their range, whatever was handed in; classes as places."""
        labels = self.design.responses(seen.y)
        if self.design.loss.binary:
            labels = (labels > 0).astype(np.float64)
        return Rows(seen.n, self.design.clip(seen.X) / self.design.data_norm, labels)

    def outputs(self, seen: Rows, rng: np.random.Generator, draws: int) -> Floats:
        """Return all the noisy sums of so many releases, flat: more than a release lets out."""
        rows, found = self._within(seen), []
        for _ in range(draws):
            heard: list[Floats] = []
            ask(self.steps(), rows, rng, heard)
            found.append(np.concatenate(heard))
        return np.array(found)

    def worst_pair(self) -> tuple[Rows, Rows]:
        """Return two tables in which the last row points the one way or the other, and the others across.

        The others are as long as leaves the last one just within the room that the looks give a row.
        """
        X = np.zeros((self.n, self.design.dimension))
        X[:, -1] = np.where(np.arange(self.n) % 2, -1.0, 1.0) * self.design.data_norm / _ROOM
        y = np.where(np.arange(self.n) // 2 % 2, *self.design.loss.labels)
        pair = []
        for side in (1.0, -1.0):
            X[-1] = 0.0
            X[-1, 0] = side * self.design.data_norm
            pair.append(Rows(self.n, self.design.clip(X), y))
        return pair[0], pair[1]

    def log_ratio(self, pair: tuple[Rows, Rows]) -> Callable[[Any], Any]:
        """Return the log-ratio of the noisy sums, each Gaussian given those before it."""
        rows = (self._within(pair[0]), self._within(pair[1]))
        return lambda outputs: np.array([log_ratio(self.steps(), rows, one) for one in np.asarray(outputs)])

    def _parameters(self) -> dict[str, Any]:
        return {
            "mu": float(self.mu),
            "prior_precision": float(self.prior_precision),
            "flatten": float(self.flatten),
            "first": float(self.first),
            "information": float(self.information),
            "looks": int(self.looks),
            "shape_room": float(self.shape_room),
            "unbiased": int(self.unbiased),
        }

    # The filter. All that meets records is in the functions handed to `Sum`.

    def steps(self) -> Steps:
        """Ask the sums and return the belief."""
        flat, first, one = self.mus
        d, n = self.design.dimension, self.n
        answer = yield Sum(_mean_row, flat)
        mean, noise = 2 * answer[:-1] / n, 2 / (flat * n)
        matrix, size, known = flat_by(mean, 2 * float(answer[-1]) / n, d * noise**2, 1.0, _KEEP)
        rows = _Mapped(matrix / (_ROOM * size))
        belief = _Belief(self, known * mean @ rows.matrix)
        share = self.information
        answer = yield Sum(lambda seen: _first_look(seen, rows, self.family, share), first)
        belief.first_look(answer, share, first)
        rows = _Mapped(rows.matrix @ belief.directions)
        if self.shape_room:
            belief.scale = belief.shape(self.shape_room)
            rows = _Mapped(rows.matrix * belief.scale)
        for k in range(self.looks):
            look = belief.next_look(rows, consistent=k >= self.looks - self.unbiased)
            answer = yield Sum(look, one)
            belief.learn(answer, one)
        return belief.posterior(rows.matrix / (belief.scale * self.design.data_norm))


def _mean_row(seen: Rows) -> Floats:
    """Return half the sum of the rows and half that of their squares: together they move by 1 (see `Flattening`)."""
    parts = np.column_stack([seen.X, np.einsum("ij,ij->i", seen.X, seen.X)])
    rounding = math.sqrt(parts.shape[1]) / fine_steps(seen.n) * 1.01
    return exact_sum(parts) / (2 * _SURE + rounding)


@dataclass(eq=False)
class _Mapped:
    """z = T′x and its weight v = min(1, 1/‖z‖²), so that no weighed row is longer than 1.

    Rows and residuals are rounded to whole steps before they meet, so that sums over records are exact, in any order:
    `slack` is by how much rounding may lengthen a row, a residual or both.
    """

    matrix: Floats
    _known: list[tuple[Rows, Floats]] = field(default_factory=list)

    def weights(self, z: Floats) -> Floats:
        """Return the weight of every row."""
        return np.asarray(1 / np.maximum(np.einsum("ij,ij->i", z, z), 1.0))

    def rows(self, seen: Rows) -> Floats:
        """Return vz, a row a record, in whole steps."""
        for rows, found in self._known:
            if rows is seen:
                return found
        z = seen.X @ self.matrix
        found = np.rint(z * (paired_steps(seen.n) * self.weights(z))[:, None])
        self._known = [*self._known[-1:], (seen, found)]  # two tables at most: those of a pair
        return found

    def gram(self, seen: Rows) -> Floats:
        """Return Σ vzz′."""
        z, steps = seen.X @ self.matrix, paired_steps(seen.n)
        held = np.rint(z * (steps * np.sqrt(self.weights(z)))[:, None])
        return np.asarray(held.T @ held / steps**2)

    def slack(self, n: int, width: int = 0) -> float:
        """Return how much longer a row, and with it a residual of so many numbers, may be for its rounding."""
        step = 1 / (2 * paired_steps(n))
        return (1 + math.sqrt(self.matrix.shape[1]) * step) * (1 + math.sqrt(width) * step) * _SURE


def _first_look(seen: Rows, rows: _Mapped, family: Family, share: float) -> Floats:
    """Return √h·Σvzz′/√2, as its upper triangle, and √(1−h) of the look at the residuals: together they move by 1."""
    gram = rows.gram(seen)
    at_zero = family.residuals(np.zeros((seen.n, family.width)), seen.y, family.bound, consistent=False)
    score = _look(seen, rows, at_zero, family, family.bound)
    upper = np.triu_indices(len(gram))
    # The norm of the triangle with √2 off its diagonal is that of the matrix.
    triangle = np.where(upper[0] == upper[1], 1.0, math.sqrt(2)) * gram[upper]
    # A matrix of a row is as long as the row's square.
    held = math.sqrt(share / 2) / rows.slack(seen.n) ** 2
    return np.concatenate([held * triangle, math.sqrt(1 - share) * score])


def _look(seen: Rows, rows: _Mapped, residuals: Floats, family: Family, bound: float) -> Floats:
    """Return Σvz·r′/b and, where the family asks for it, ωΣr²/b², by what they move together: √(4 + ω²)."""
    steps = paired_steps(seen.n)
    left = np.rint(residuals * (steps / bound))
    parts = [(rows.rows(seen).T @ left).ravel()]
    if family.square:
        parts.append(np.array([family.square * np.sum(left**2)]))
    slack = rows.slack(seen.n, left.shape[1])
    return np.concatenate(parts) / (steps**2 * math.sqrt(4 + family.square**2) * slack)


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


class _Belief:
    """N(t, 1/P) of the parameters in the directions of the information, and what is known of rows and residuals."""

    def __init__(self, mechanism: FilteredRegression, mean_row: Floats) -> None:
        self.of, self.family = mechanism, mechanism.family
        self.mean_row = mean_row
        self.prior = mechanism.prior_precision
        self.scale = np.ones(mechanism.design.dimension)
        self.bound, self.spread = self.family.bound, 1.0
        if isinstance(self.family, Line):
            self.spread, self.sure = self.family.guess, self.family.guess**-2
        self.factor = 1.0

    def first_look(self, answer: Floats, share: float, mu: float) -> None:
        """Take the information apart and the score in."""
        d, family, n = len(self.mean_row), self.family, self.of.n
        size = d * (d + 1) // 2
        gram, upper = np.zeros((d, d)), np.triu_indices(d)
        noise = math.sqrt(2 / share) / mu
        gram[upper] = answer[:size] / (np.where(upper[0] == upper[1], 1.0, math.sqrt(2)) * math.sqrt(share / 2))
        # Rows were brought to a typical length of 1/room, and the longer ones are weighed.
        self.rows, self.directions = denoised(gram + np.triu(gram, 1).T, noise, (0.7 * n, 0.15 * n))
        # No row is longer than 1 once it is weighed.
        self.rows = np.minimum(self.rows, float(n))
        self.edge = noise * math.sqrt(2 * d)
        # Directions below the edge share what is left: one of them may hold all of it, up to the edge.
        left = float(np.sum(self.rows[self.rows <= self.edge]))
        self.steepest = family.curvature * np.maximum(self.rows, min(self.edge, left))
        self.mean_row = self.mean_row @ self.directions
        self.info = family.curvature * self.rows
        score, spread = self._score(answer[size:] / math.sqrt(1 - share), math.sqrt(1 - share) * mu)
        score = self.directions.T @ score
        length = d * family.width / self.prior
        for _ in range(30):
            C = spread**2 + (family.curvature * noise) ** 2 * length / 2
            own = self.spread * self.info + C
            self.precision = self.info**2 / own + self.prior
            self.t = (self.info / own / self.precision)[:, None] * score
            length = (length + float(np.sum(self.t**2))) / 2

    def _score(self, answer: Floats, mu: float) -> tuple[Floats, float]:
        """Return the score of a look and its noise, and note what the look says of the residuals' spread."""
        family, d = self.family, len(self.info)
        stretch = math.sqrt(4 + family.square**2) * self.bound
        if isinstance(family, Line):  # the variance is a noisy number too, and is learnt like one
            unit = stretch * self.bound / (family.square * self.of.n)
            sure = self.sure + (mu / unit) ** 2
            found = (self.sure * self.spread + (mu / unit) ** 2 * unit * float(answer[-1])) / sure
            self.sure, self.spread = sure, min(max(found, 1e-4 * family.largest**2), family.largest**2)
            self.bound = family.held(self.spread)
        return answer[: d * family.width].reshape(d, -1) * stretch, stretch / mu

    def shape(self, room: float) -> Floats:
        """Return how much each direction is stretched: the more the less of the rows lies along it, if that is known.

        Directions below the edge of the noise are all treated alike.
        """
        stretch = 1 / np.sqrt(self.rows + self.edge)
        typical = math.sqrt(max(float(np.sum(self.rows * stretch**2)) / self.of.n, 1e-300))
        return np.asarray(stretch / (room * typical))

    def next_look(self, rows: _Mapped, *, consistent: bool) -> Callable[[Rows], Floats]:
        """Return the sum to ask at the mean of the belief."""
        family, t, bound = self.family, self.t, self.bound
        self._curve(consistent)
        centre = t / self.scale[:, None]

        def look(seen: Rows) -> Floats:
            left = family.residuals(seen.X @ (rows.matrix @ centre), seen.y, bound, consistent=consistent)
            return _look(seen, rows, left, family, bound)

        return look

    def _curve(self, consistent: bool) -> None:
        """Judge how curved the loss is here; where less than before, what is known counts for less."""
        mean, n = self.mean_row @ self.t, self.of.n
        along = self.rows / n
        variance = float(np.sum(along[:, None] * self.t**2) - mean @ mean) / self.family.width
        variance = max(variance, 0.0) + float(np.sum(along / self.precision))
        factor = self.family.factor(mean, variance, consistent=consistent)
        less = min(1.0, factor / self.factor) ** 2
        self.precision = self.prior + less * (self.precision - self.prior)
        self.factor = factor

    def learn(self, answer: Floats, mu: float) -> None:
        """Take a noisy score in."""
        score, noise = self._score(answer, mu)
        # In shaped coordinates the score is s·(h·(θ − t)), its own variance s²·h.
        info = self.factor * self.info * self.scale
        own = noise**2 + self.spread * info * self.scale
        gain = np.minimum(info / (info**2 + own * self.precision), 1 / (self.factor * self.steepest * self.scale))
        self.t = self.t + gain[:, None] * score
        self.precision = self.precision + info**2 / own

    def posterior(self, matrix: Floats) -> GaussianPosterior | SoftmaxPosterior:
        """Return the belief in the coordinates of the design, w = matrix·t."""
        mean, covariance = matrix @ self.t, _SPREAD * (matrix / self.precision) @ matrix.T
        covariance = (covariance + covariance.T) / 2
        if isinstance(self.family, Line):
            return GaussianPosterior(mean[:, 0], covariance, _NO_INTERVALS)
        assert isinstance(self.family, Classes)
        classes = self.family.classes
        if isinstance(self.of.design.loss, Logistic):  # the predictor is √2 times the one contrast
            return GaussianPosterior(math.sqrt(2) * mean[:, 0], 2 * covariance, _NO_INTERVALS)
        return SoftmaxPosterior(contrasts(classes) @ mean.T, covariance, _NO_INTERVALS)
