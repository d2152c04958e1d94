"""The model of all looks of a regression as an `ObservationModel`: which regressions it knows, and its posterior."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sottovoce.inference.regression.formula import Formula
from sottovoce.inference.regression.joint_likelihood import JointLikelihood
from sottovoce.inference.regression.joint_priors import JointPriors
from sottovoce.inference.regression.nested_laplace import JointPosterior, NestedLaplace
from sottovoce.inference.regression.ordinal_likelihood import OrdinalLikelihood
from sottovoce.inference.regression.released_look import ReleasedLook
from sottovoce.inference.regression.row_law import MOST_COMBINATIONS
from sottovoce.inference.regression.sampler_settings import RELEASED, SamplerSettings
from sottovoce.privacy.numbers import Floats
from sottovoce.records.facts.encodings import levels_of

__all__ = ["JointPosterior", "JointRegression"]

_FEWEST = 100
"""Of fewer records sums over them are not near to those over pseudo-rows."""
_MOST_ENTRIES, _MOST_OF_TWO = 24, 40
"""Of longer rows, over all classes, the time, which grows as the fourth power of their length, would be more than ten
seconds; responses of two values ask for fewer matrices."""
_MOST_GROUPED = 20
"""Groups of up to so many levels were measured."""
_SEEN = 0.7
"""Of a row's weight so much is left on average where rows longer than √d weigh less: normal ones, and most others."""


@dataclass(frozen=True)
class JointRegression:
    """The `ObservationModel` of the looks of a regression: what they show given the latents of `JointLikelihood`."""

    formula: Formula
    n: int | None
    priors: JointPriors = field(default_factory=JointPriors)
    care: SamplerSettings = RELEASED

    @staticmethod
    def knows(formula: Formula, n: int | None) -> bool:
        """Say whether the model has all that the question asks of it."""
        encoding = formula.encoding
        combinations = math.prod(len(levels_of(column) or (0,)) for column in formula.design.columns)
        # Its law of numbers has one middle: exposures of two values far apart led to a false mode. Without anything
        # that all rows have, it is hardly known where that is.
        plain = formula.exposure is None and bool(encoding.wholes) and (n is None or n >= _FEWEST)
        small = encoding.size <= _most_entries(formula) and combinations <= MOST_COMBINATIONS
        # How much counts vary cannot be told apart from what rows of one person share: the last look alone tells more.
        varied = formula.averaged and formula.family == "poisson"
        return plain and small and not varied and _knows_groups(formula)

    def log_likelihood(self, releases: Sequence[ReleasedLook], latent: Floats) -> float:
        """Return the log density of looks given the latents, the formula taken to be right."""
        model = self._model(releases)
        model.aim(latent)
        nothing = np.zeros((len(model.score), len(model.score)))
        return model.log_density(latent, nothing, 0.0) + float(latent @ latent) / 2

    def posterior(self, releases: Sequence[ReleasedLook]) -> JointPosterior:
        """Return the posterior of θ given every look."""
        return NestedLaplace(self._model(releases), self.care).posterior()

    def _model(self, releases: Sequence[ReleasedLook]) -> JointLikelihood:
        if self.n is None:
            guess = self._counted(releases)
            if not guess >= _FEWEST:
                raise ValueError("too few records, as far as the looks tell")
            return self._kind(self.formula, guess, releases, self.priors, secret=True)
        # Of a condition nobody knows how many records meet it.
        priors = self.priors if self.formula.where is None else replace(self.priors, missing_median=0.5)
        return self._kind(self.formula, self.n, releases, priors)

    @property
    def _kind(self) -> type[JointLikelihood]:
        return OrdinalLikelihood if self.formula.family == "ordinal" else JointLikelihood

    def _counted(self, releases: Sequence[ReleasedLook]) -> float:
        """Return how many records the first look at zero tells of: all of them add the same slope to its level."""
        look = next(release for release in releases if "information" in release.sums)
        full, K = look.look.back[look.look.encoding.wholes[0]].sum(axis=0), look.look.model.outputs
        blocks = look.sums["information"].reshape(K, len(full), K, len(full))
        level = float(np.mean([full @ blocks[k, :, k, :] @ full for k in range(K)]))
        steepest = look.look.model.steepest if K == 1 else K / (K + 1) ** 2  # all classes alike
        return level / (steepest * _SEEN)


def _knows_groups(formula: Formula) -> bool:
    """Say whether a formula has no groups, or such as were measured."""
    few = all(last - first <= _MOST_GROUPED for first, last in formula.groups)
    return not formula.groups or (few and formula.family == "logistic" and not formula.averaged)


def _most_entries(formula: Formula) -> int:
    """Return of how many entries rows may be."""
    most = _MOST_OF_TWO if formula.family in ("logistic", "probit") else _MOST_ENTRIES
    return most // formula.model.outputs
