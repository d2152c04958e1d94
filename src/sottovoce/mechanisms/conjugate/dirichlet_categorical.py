"""Proportions of several categories: categorical records, Dirichlet prior."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.mechanisms.conjugate.beta_bernoulli import unit_floor
from sottovoce.mechanisms.conjugate.conjugate import FAR, Conjugate, check_weights
from sottovoce.mechanisms.conjugate.distributions import Dirichlet
from sottovoce.mechanisms.conjugate.distributions.base import positive
from sottovoce.mechanisms.conjugate.distributions.truncated_dirichlet import TruncatedDirichlet
from sottovoce.mechanisms.conjugate.exact_posteriors import DirichletLaw, exact_total, tempered_power
from sottovoce.mechanisms.conjugate.prior_parameters import Setting
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import floor_float, log_up
from sottovoce.privacy.pairs import BetaPairs, GammaShapePairs, LikelihoodRatioProfile
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.pure import PureProfile
from sottovoce.privacy.relation import ADD_REMOVE
from sottovoce.records.facts import Category, Column
from sottovoce.records.readings import CategoryCounts, Statistics
from sottovoce.records.readings.base import checked_n


@dataclass(frozen=True, eq=False)
class DirichletCategorical(Conjugate):
    """Probabilities θ of d categories with prior Dirichlet(α).

    The posterior is Dirichlet(vα + w·counts). Replacing one record moves w from one category to another; only those two
    enter a divergence, so for d >= 3 the supremum sits at the two smallest α and is free of n. d = 2 is one proportion.

    Parameters
    ----------
    alpha
        The prior, one number > 0 a category; 1/d for each of d categories by default: one record's worth in all. One a
        category would weigh as much as d records, which pulls a common category down when the noise is large.
    categories
        What the records hold, in the order of `alpha`; 0, 1, …, d-1 by default.

    Examples
    --------
    >>> system = DirichletCategorical([1, 1, 2], categories=("no", "maybe", "yes"))
    >>> system.posterior(system.statistics(["yes", "no", "yes"])).alpha
    array([2., 1., 4.])
    >>> system.lambda_star(n=10)
    2.0
    >>> DirichletCategorical(categories=("a", "b", "c", "d")).alpha
    array([0.25, 0.25, 0.25, 0.25])
    """

    word: ClassVar[str] = "dirichlet-categorical"
    title: ClassVar[str] = "shares of categories (Dirichlet)"
    settings: ClassVar[Mapping[str, Setting]] = {"alpha": Setting("Prior α", several=True)}
    alpha: Any = None
    categories: tuple[Hashable, ...] | None = None

    def __post_init__(self) -> None:
        if self.alpha is None:
            if not self.categories:
                raise InvalidValue("name the categories, or give one alpha for each")
            object.__setattr__(self, "alpha", np.full(len(tuple(self.categories)), 1 / len(tuple(self.categories))))
        object.__setattr__(self, "alpha", positive("alpha", self.alpha))
        if np.ndim(self.alpha) != 1 or self.alpha.size < 2:
            raise InvalidValue(f"alpha must be a list of at least two numbers. Got {self.alpha!r}")
        if self.categories is not None:
            object.__setattr__(self, "categories", tuple(self.categories))
            if len(set(self.categories)) != len(self.categories) or len(self.categories) != self.alpha.size:
                raise InvalidValue(f"categories must be {self.alpha.size} different values, one for each alpha")

    @classmethod
    def usual(cls, column: Column | None) -> dict[str, Any] | None:
        """Return a prior that is worth one record, for a column of categories."""
        if not isinstance(column, Category):
            return None
        size = len(column.categories)
        return {"alpha": [1 / size] * size, "categories": column.categories}

    @property
    def coordinates(self) -> tuple[object, ...]:
        """The categories."""
        return self.reading.categories

    def new_record(self) -> Any:
        """Return what a new record is: one of the categories."""
        from sottovoce.mechanisms.conjugate.predictive import categorical  # noqa: PLC0415 - few ask for it

        return categorical(self.reading.categories)

    @cached_property
    def reading(self) -> CategoryCounts:
        """Counts of the categories."""
        return CategoryCounts(self.categories or tuple(range(self.alpha.size)))

    @cached_property
    def _least(self) -> tuple[int, int]:
        """The two categories with the smallest α, in order of their place."""
        first, second = sorted(np.argpartition(self.alpha, 1)[:2].tolist())
        return first, second

    def posterior(self, statistics: Statistics, data_weight: float = 1.0, prior_weight: float = 1.0) -> Dirichlet:
        """Return Dirichlet(vα + w·counts)."""
        w, v = check_weights(data_weight, prior_weight)
        return Dirichlet(v * self.alpha + w * self.check(statistics).total)

    def law(self, statistics: Statistics, data_weight: float = 1.0, prior_weight: float = 1.0) -> DirichletLaw:
        """Return Dirichlet(vα + w·counts) in fractions."""
        w, v = map(Fraction, check_weights(data_weight, prior_weight))
        counts = exact_total(self.check(statistics))
        return DirichletLaw(tuple(v * Fraction(a) + w * c for a, c in zip(self.alpha.tolist(), counts, strict=True)))

    def worst_pairs(
        self, n: int, data_weight: float = 1.0, prior_weight: float = 1.0
    ) -> tuple[tuple[Dirichlet, Dirichlet], ...]:
        """Return both orders of the pair: a record in one least category or the other, the rest in a
        third.
        """
        n = checked_n(n)
        if n == 0:
            return ()
        i, j = self._least
        homes = [k for k in range(min(self.alpha.size, 3)) if k not in (i, j)][:1] or [i, j]
        pairs = []
        for home in homes:
            remainder = np.zeros(self.alpha.size)
            remainder[home] = n - 1
            ends = []
            for touched in (i, j):
                counts = remainder.copy()
                counts[touched] += 1
                ends.append(self.posterior(Statistics(n, counts), data_weight, prior_weight))
            pairs += [(ends[0], ends[1]), (ends[1], ends[0])]
        return tuple(pairs)

    def _near_profile(self, n: int, step: float, data_weight: float, prior_weight: float) -> Profile:
        # Categories are one apart: what differs in kind is no nearer.
        return self._profile(n, data_weight, prior_weight) if step >= 1 else PureProfile(0.0)

    def _profile(self, n: int, data_weight: float, prior_weight: float) -> Profile:
        a, b = (floor_float(Fraction(prior_weight) * Fraction(float(self.alpha[k]))) for k in self._least)
        others = n - 1 if self.alpha.size == 2 else 0
        return LikelihoodRatioProfile((BetaPairs(a, b, data_weight, others),))

    def _open_profile(self, data_weight: float, prior_weight: float) -> Profile:
        least = floor_float(Fraction(prior_weight) * Fraction(float(self.alpha.min())))
        return LikelihoodRatioProfile((GammaShapePairs(least, data_weight),), relation=ADD_REMOVE)

    def worst_data(self, n: int | None) -> list[tuple[Statistics, Statistics]]:
        """Return the statistics behind `worst_pairs`: its posteriors less the prior.

        Where n is None, one record more in the least category, beside many in another.
        """
        if n is None:
            least = int(np.argmin(self.alpha))
            remainder, more = np.zeros((2, self.alpha.size))
            remainder[(least + 1) % self.alpha.size], more[least] = FAR, 1.0
            return [(Statistics(FAR + 1, remainder + more), Statistics(FAR, remainder))]
        pairs = self.worst_pairs(n)[::2]
        counts = [tuple(np.rint(end.alpha - self.alpha) for end in pair) for pair in pairs]
        return [(Statistics(n, first), Statistics(n, second)) for first, second in counts]

    def _with_prior(self, prior: Dirichlet) -> Self:
        return replace(self, alpha=prior.alpha)

    def check_truncation(self, truncation: object = None) -> float:
        """Return the least probability a₀ of every category, 0.02/d by default."""
        return unit_floor(truncation, self.alpha.size)

    def log_ratio_range(self, truncation: object) -> float:
        """Return the range of log θ_i - log θ_j where every θ_k >= a₀ = `truncation`."""
        size = self.alpha.size
        floor = Fraction(self.check_truncation(truncation))
        return 2 * log_up(1 - (size - 1) * floor, floor)

    def tempered(self, statistics: Statistics, temperature: float, truncation: object) -> TruncatedDirichlet:
        """Return the joint density to the power 1/T where every θ_k >= a₀."""
        plain = self.posterior(statistics)
        return TruncatedDirichlet((plain.alpha - 1) / temperature + 1, self.check_truncation(truncation))

    def tempered_law(self, statistics: Statistics, temperature: float, truncation: object) -> DirichletLaw:
        """Return the truncated Dirichlet in fractions."""
        powers = tuple(tempered_power(a, temperature) for a in self.law(statistics).alpha)
        return DirichletLaw(powers, Fraction(self.check_truncation(truncation)))
