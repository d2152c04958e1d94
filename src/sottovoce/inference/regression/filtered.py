"""The filtered regression: one look at score and information, then small looks at the score, each with known noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.inference.regression.design import Design, check_design
from sottovoce.inference.regression.filter_settings import CLASSES, LINES, Rule
from sottovoce.inference.regression.filter_worst import worst_rows
from sottovoce.inference.regression.gaussian_posterior import GaussianPosterior
from sottovoce.inference.regression.kalman_filter import FilteredGaussian
from sottovoce.inference.regression.losses import Logistic, positive
from sottovoce.inference.regression.newton_filter import NewtonBelief
from sottovoce.inference.regression.posterior import RegressionMechanism
from sottovoce.inference.regression.residuals import Classes, Line, Probits, ScoreFamily, family_of, turned
from sottovoce.inference.regression.row_maps import flat_by
from sottovoce.inference.regression.softmax import SoftmaxPosterior, contrasts
from sottovoce.inference.regression.sums import LARGEST_MU, Steps, ask, log_ratio, steps_in_one, total_mu
from sottovoce.inference.regression.unit_rows import UnitRows, mean_row
from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.mechanism import Choices
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.numbers import Floats, whole
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.promises import Promise
from sottovoce.records.readings import Rows

_CROWDED = 0.3
"""What is expected of Σλ²/(Σλ)² of the information as long as noise hides it; half of it once the mean is shrunk."""
_SPREAD = 0.2
"""What of the belief's variance a prediction is averaged over. Most directions hold nothing of the answer and are as
wide as the prior: all of their width together would drown what the others say."""
_LEAST_MU = 1e-12
"""The least μ: what is computed from answers behind more noise would leave the doubles."""
_LEAST_LOOK = 1e-24
"""The least μ of one look, for the same reason: a share may be as small as it likes."""
_LOT = 1 << 18
"""Numbers of records that an attack holds at once: the more, the less of its time goes into single releases."""
_NO_INTERVALS = (
    "this spread is tuned for averaging predictions over, and too narrow for an interval; ask for a regression table "
    "instead"
)


@dataclass(frozen=True, eq=False)
class FilteredRegression(RegressionMechanism):
    r"""A Kalman filter over private looks at the records, for prediction.

    1. The mean row, with noise: the direction that all rows share is shrunk (a share `flatten` of μ²; none where noise
       would hide it). Rows longer than 1 after that are weighed, by what depends on the row alone: that leaves no bias.
    2. Score and information at 0 (a share `first` of the rest; the information comes for free, see `unit_rows`). It
       is denoised: below the edge of the noise's semicircle eigenvalues say nothing. This gives a belief N(t, 1/P).
    3. `looks` scores at the mean of the belief, of residuals that never exceed those at 0 (the rest of μ², equally).
       Each moves the belief by as much as its noise allows. Where the loss is less curved than it was at the look
       before, what was known counts for less. Where noise is small and there are two classes these looks are `full`
       instead: residuals as they are, and the information at that very place, for Newton's steps.

    Everything a record can move is a sum of whole numbers that it moves by no more than its reach (`unit_rows`), under
    exactly rounded normal noise, so that the whole is √(Σμᵢ²)-GDP by adaptive composition, to the bit. The release is
    the mean of the belief and a part of its variance, to average predictions over: it is tuned for them, and no
    interval is offered.

    Attributes
    ----------
    mu
        The cost of a release.
    prior_precision
        Of the prior N(0, 1/m) in the coordinates of the mapped rows.
    flatten, first
        The shares; `flatten` may be 0.
    looks, unbiased
        How many scores, and how many of them (the last ones) weigh residuals by the prediction instead of shortening
        them.
    shape_room
        Where > 0 the rows are shaped by the information before the scores: a row up to this multiple of their typical
        length is left alone.
    full
        Whether the scores are full looks.
    keep, room
        How long the mean row is after flattening, beside the rows' distance from it; and how much longer than a
        typical row the bound is.

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
    choices: ClassVar[Choices] = {"filtered": {}}
    many_classes: ClassVar[bool] = True
    mu: float
    prior_precision: float = 0.3
    flatten: float = 0.1
    first: float = 0.3
    looks: int = 8
    shape_room: float = 0.0
    unbiased: int = 0
    keep: float = 0.3
    room: float = 1.1
    full: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if family_of(self.design.loss) is None:
            raise InvalidValue(
                "filtered regressions are logistic, softmax, probit or linear; "
                f"for {self.design.loss.name} use 'refined', or a formula (curator.regress), which takes looks"
            )
        positive("mu", self.mu, high=LARGEST_MU)
        if self.mu < _LEAST_MU:
            raise InvalidValue(
                f"so much noise leaves nothing to see: μ must be at least {_LEAST_MU:g}. Got {self.mu:g}"
            )
        for name in ("prior_precision", "keep", "room"):
            positive(name, getattr(self, name))
        positive("first", self.first, high=1.0)
        for name in ("flatten", "first"):
            share = getattr(self, name)
            if not 0 <= share < 1:
                raise InvalidValue(f"{name} is a share, between 0 and 1. Got {share}")
        object.__setattr__(self, "looks", whole("looks", self.looks, 1))
        object.__setattr__(self, "unbiased", whole("unbiased", self.unbiased, 0))
        if not 0 <= self.shape_room <= 1e6:
            raise InvalidValue(f"shape_room must lie between 0, for none, and 1e6. Got {self.shape_room}")
        if self.full and not isinstance(self.design.loss, Logistic):
            raise InvalidValue(f"full looks are at two classes; set full=False for {self.design.loss.name}")
        if (least := min(mu for mu in self.mus if mu)) < _LEAST_LOOK:
            raise InvalidValue(
                f"a look with so small a share sees nothing: its μ must be at least {_LEAST_LOOK:g}. Got {least:g}; "
                "raise first, or flatten"
            )
        self._steps  # noqa: B018 - refuse now what no whole number holds

    @classmethod
    def calibrate(
        cls,
        design: Design,
        n: int,
        target: Promise,
        *,
        prior_scale: float | None = None,
        prior_precision: float | None = None,
        rule: Rule | None = None,
    ) -> Self:
        """Return the mechanism that keeps `target`; shares and looks come from n, d and the promise alone.

        The prior is given as its precision, or as a public guess R of ‖w‖, m = d/(R·data_norm)².
        """
        check_design(design)
        family = family_of(design.loss) or Line()
        rule = rule or (LINES if isinstance(family, Line) else CLASSES)
        if prior_scale is not None:
            if prior_precision is not None:
                raise InvalidValue("give the prior either as prior_precision or as prior_scale")
            positive("prior_scale", prior_scale)
            prior_precision = design.dimension / (prior_scale * design.data_norm) ** 2
        largest = min(largest_keeping(GaussianProfile, target, high=1e6, name="mu"), LARGEST_MU)
        whole("n", n, 1)
        settings = rule.shares(n, design.dimension, largest, family)
        if prior_precision is not None:
            settings["prior_precision"] = float(prior_precision)
        return cls(design, n, largest * (1 - 1e-11), **settings)

    @property
    def profile(self) -> GaussianProfile:
        """What all looks cost together."""
        flat, first, item = self.mus
        return GaussianProfile(total_mu([flat, first, *[item] * self.looks]), basis=Basis.BOUND)

    @property
    def mus(self) -> tuple[float, float, float]:
        """The μ of the mean row, of the first look and of each score."""
        remainder = 1 - self.flatten
        shares = (self.flatten, remainder * self.first, remainder * (1 - self.first) / self.looks)
        flat, first, item = (self.mu * math.sqrt(share) for share in shares)
        return flat, first, item

    @cached_property
    def family(self) -> ScoreFamily:
        """Residuals and curvature of the loss."""
        result = family_of(self.design.loss)
        assert result is not None
        return result

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
        result: GaussianPosterior | SoftmaxPosterior = ask(self.steps(), self._within(seen), rng)
        return result

    def _within(self, seen: Rows) -> Rows:
        """Return rows of norm at most 1 and labels within their range, whatever was handed in; classes as places."""
        labels = self.design.responses(seen.y)
        if self.design.loss.binary:
            labels = (labels > 0).astype(np.float64)
        return Rows(seen.n, self.design.clip(seen.X) / self.design.data_norm, labels)

    def _outputs(self, seen: Rows, rng: np.random.Generator, draws: int) -> Floats:
        """Return all the noisy sums of so many releases, flat: more than a release lets out."""
        rows, result = self._within(seen), []
        for first in range(0, draws, self._lot):
            heard: list[Floats] = []
            ask(self._looked(), rows, rng, heard, min(self._lot, draws - first))
            result.append(np.concatenate(heard, axis=1))
        return np.concatenate(result)

    @property
    def _lot(self) -> int:
        """How many releases an attack makes at once."""
        return max(1, _LOT // (int(self.n) * self.design.dimension * self.family.width))

    def worst_pair(self) -> tuple[Rows, Rows]:
        """Return two tables that are hard to keep apart: see `worst_rows`."""
        stretched = max(self.shape_room, 1.0)
        # Rows of one class have a room of 1 in full looks, once their mean has told that they are of one.
        full = 1.0 if self.flatten else stretched
        return worst_rows(self.design, self.n, room=max(self.room, 1.0) * stretched, full=full if self.full else 0.0)

    def log_ratio(self, pair: tuple[Rows, Rows]) -> Callable[[Any], Any]:
        """Return the log-ratio of the noisy sums, each Gaussian given those before it."""
        rows = (self._within(pair[0]), self._within(pair[1]))

        def of_answers(outputs: Any) -> Floats:
            lots = (outputs[first : first + self._lot] for first in range(0, len(outputs), self._lot))
            return np.concatenate([np.zeros(0), *(log_ratio(self._looked(), rows, np.asarray(lot)) for lot in lots)])

        return of_answers

    # The filter. What meets records is in `unit_rows`, what is made of the answers in `belief`.

    @cached_property
    def _steps(self) -> float:
        return steps_in_one(self.n)

    def steps(self) -> Steps:
        """Ask the sums and return the belief."""
        belief, matrix = yield from self._looked()
        return self._posterior(belief, matrix) if isinstance(belief, FilteredGaussian) else self._newton(belief, matrix)

    def _looked(self) -> Steps:
        """Ask the sums, of one release or of several, and return the belief and the matrix of its coordinates."""
        flat, first, item = self.mus
        d, n, family = self.design.dimension, self.n, self.family
        matrix, known_mean, crowded, length = np.eye(d), np.zeros(d), _CROWDED, 0.0
        if flat:
            answer = yield mean_row(d, self._steps, flat)
            mean, noise = 2 * answer[..., :-1] / n, 2 / (flat * n)
            matrix, size, known = flat_by(mean, 2 * answer[..., -1] / n, d * noise**2, 1.0, self.keep)
            matrix, crowded, length = matrix / (self.room * size)[..., None, None], _CROWDED / 2, 1 / self.room
            known_mean = (known[..., None, None] * mean[..., None, :] @ matrix)[..., 0, :]
        rows = UnitRows(matrix, self._steps)
        # The prior is round before the mean is shrunk: a level may be as large as it was.
        size = np.sum(matrix * matrix, axis=(-2, -1))[..., None, None]
        prior = self.prior_precision * matrix @ turned(matrix) * (d / size)
        belief = FilteredGaussian(family, n, prior, known_mean, crowded, length)
        answer = yield rows.first_look(family, belief.t, belief.bound, first)
        belief.first_look(answer, first)
        rows = UnitRows(rows.matrix @ belief.directions, self._steps)
        if self.shape_room:
            belief.scale = belief.shape(belief.room(self.shape_room) if self.full else self.shape_room)
            rows = UnitRows(rows.matrix * belief.scale[..., None, :], self._steps)
        if self.full:
            return (yield from self._full_looks(belief, rows, item))
        for k in range(self.looks):
            consistent = k >= self.looks - self.unbiased
            answer = yield rows.look(
                family, belief.centre(consistent=consistent), belief.bound, item, consistent=consistent
            )
            belief.learn(answer, item)
        return belief, rows.matrix / (belief.scale[..., None, :] * self.design.data_norm)

    def _full_looks(self, first: FilteredGaussian, rows: UnitRows, mu: float) -> Steps:
        """Ask the full looks from where the first one led; logits are √2 times the one contrast."""
        belief = NewtonBelief(math.sqrt(2) * first.t[..., 0] / first.scale, first.prior * first.scale**2 / 2)
        for _ in range(self.looks):
            answer = yield rows.full_look(belief.t, mu)
            belief.learn(answer, mu)
        return belief, rows.matrix / self.design.data_norm

    def _newton(self, belief: NewtonBelief, matrix: Floats) -> GaussianPosterior:
        covariance = _SPREAD * matrix @ np.linalg.inv(belief.precision) @ matrix.T
        return GaussianPosterior(matrix @ belief.t, (covariance + covariance.T) / 2, _NO_INTERVALS)

    def _posterior(self, belief: FilteredGaussian, matrix: Floats) -> GaussianPosterior | SoftmaxPosterior:
        """Return the belief in the coordinates of the design, w = matrix·t."""
        mean, covariance = matrix @ belief.t, _SPREAD * (matrix / belief.precision) @ matrix.T
        covariance = (covariance + covariance.T) / 2
        if isinstance(self.family, Line | Probits):
            return GaussianPosterior(mean[:, 0], covariance, _NO_INTERVALS)
        assert isinstance(self.family, Classes)
        if isinstance(self.design.loss, Logistic):  # the predictor is √2 times the one contrast
            return GaussianPosterior(math.sqrt(2) * mean[:, 0], 2 * covariance, _NO_INTERVALS)
        return SoftmaxPosterior(contrasts(self.family.classes) @ mean.T, covariance, _NO_INTERVALS)
