"""One proportion: Bernoulli records, Beta prior."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from scipy import special

from sottovoce.mechanisms.conjugate.conjugate import FAR, Conjugate, check_weights
from sottovoce.mechanisms.conjugate.distributions import Beta
from sottovoce.mechanisms.conjugate.distributions.base import positive
from sottovoce.mechanisms.conjugate.distributions.truncated import Truncated
from sottovoce.mechanisms.conjugate.exact_posteriors import BetaLaw, exact_total, tempered_power
from sottovoce.mechanisms.conjugate.prior_parameters import Setting
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, ceil_float, floor_float, log_up, real
from sottovoce.privacy.pairs import BetaPairs, GammaShapePairs, LikelihoodRatioProfile
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.pure import PureProfile
from sottovoce.privacy.relation import ADD_REMOVE
from sottovoce.records.facts import Column, Flag
from sottovoce.records.readings import ClippedSum, Statistics


@dataclass(frozen=True, eq=False)
class BetaBernoulli(Conjugate):
    r"""A proportion θ with prior Beta(α, β); each record is 0 or 1.

    With data weight w and prior weight v the posterior is Beta(vα + ws, vβ + w(n - s)), s = Σx. Replacing one record
    moves w from one parameter to the other; R_λ is finite exactly for λ < 1 + v·min(α, β)/w (Geumlek et al. 2017, Cor.
    1).

    Parameters
    ----------
    alpha, beta
        The prior, both > 0.
    whole
        Whether records are 0 or 1 (others are clipped to [0, 1] and rounded down). False lets them be fractions, such
        as the answers of a statistical query.

    Examples
    --------
    >>> system = BetaBernoulli(alpha=6, beta=12)
    >>> system.posterior(system.statistics([0, 1, 1]))
    Beta(alpha=8.0, beta=13.0)
    >>> round(system.profile(n=100).renyi(2), 4)
    0.1913
    """

    word: ClassVar[str] = "beta-bernoulli"
    title: ClassVar[str] = "a share (beta–Bernoulli)"
    settings: ClassVar[Mapping[str, Setting]] = {"alpha": Setting("Prior α"), "beta": Setting("Prior β")}
    alpha: float
    beta: float
    whole: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", positive("alpha", self.alpha))
        object.__setattr__(self, "beta", positive("beta", self.beta))

    @classmethod
    def usual(cls, column: Column | None) -> dict[str, Any] | None:
        """Return a flat prior for a flag or a condition."""
        return {"alpha": 1.0, "beta": 1.0} if column is None or isinstance(column, Flag) else None

    def new_record(self) -> Any:
        """Return what a new record is: 0 or 1."""
        from sottovoce.mechanisms.conjugate.predictive import yes_or_no  # noqa: PLC0415 - few ask for it

        return yes_or_no()

    @property
    def reading(self) -> ClippedSum:
        """Records clipped to [0, 1]."""
        return ClippedSum(0.0, 1.0, integer=self.whole)

    def posteriors(self, n: int, totals: Any, data_weight: float = 1.0, prior_weight: float = 1.0) -> Beta:
        """Return the posteriors of an array of totals, side by side."""
        w, v = check_weights(data_weight, prior_weight)
        return Beta(v * self.alpha + w * totals, v * self.beta + w * (n - totals))

    def posterior(self, statistics: Statistics, data_weight: float = 1.0, prior_weight: float = 1.0) -> Beta:
        """Return Beta(vα + ws, vβ + w(n - s))."""
        statistics = self.check(statistics)
        total = float(np.clip(statistics.total[0], 0.0, statistics.n))
        return self.posteriors(statistics.n, total, data_weight, prior_weight)

    def law(self, statistics: Statistics, data_weight: float = 1.0, prior_weight: float = 1.0) -> BetaLaw:
        """Return Beta(vα + ws, vβ + w(n - s)) in fractions."""
        w, v = map(Fraction, check_weights(data_weight, prior_weight))
        (total,) = exact_total(self.check(statistics))
        return BetaLaw(v * Fraction(self.alpha) + w * total, v * Fraction(self.beta) + w * (statistics.n - total))

    def worst_pairs(self, n: int, data_weight: float = 1.0, prior_weight: float = 1.0) -> tuple[tuple[Beta, Beta], ...]:
        """Return the four pairs that can happen: the other records all 0 or all 1, the one record 0→1 or
        1→0.
        """
        totals = ((0.0, 1.0), (1.0, 0.0), (n - 1.0, float(n)), (float(n), n - 1.0)) if n else ()
        return tuple(
            (
                self.posteriors(n, s, data_weight, prior_weight),
                self.posteriors(n, t, data_weight, prior_weight),
            )
            for s, t in totals
        )

    def _near_profile(self, n: int, step: float, data_weight: float, prior_weight: float) -> Profile:
        """Return the profile of shares that differ by `step` in one record of n, each between 0 and 1.

        The pair is Beta(a+wΔ+t, b+r−t) against Beta(a+t, b+wΔ+r−t) with t anywhere in [0, r], r = w(n − Δ): all the
        rest, and what the differing record has in both. A longer step and less of a rest are worse: so they are
        rounded. Whole records differ by 1 or not at all.
        """
        if self.whole:
            return self._profile(n, data_weight, prior_weight) if step >= 1 else PureProfile(0.0)
        weight, move = Fraction(data_weight), Fraction(min(step, 1.0))
        a, b = (floor_float(Fraction(prior_weight) * Fraction(prior)) for prior in (self.alpha, self.beta))
        wide = ceil_float(weight * move)
        others = floor_float(weight * (n - move) / Fraction(wide))
        return LikelihoodRatioProfile((BetaPairs(a, b, wide, others, whole=False),))

    def _profile(self, n: int, data_weight: float, prior_weight: float) -> Profile:
        # Less prior is worse, whatever the other records are: rounded down, the claim covers the numbers used.
        a, b = (floor_float(Fraction(prior_weight) * Fraction(prior)) for prior in (self.alpha, self.beta))
        return LikelihoodRatioProfile((BetaPairs(a, b, data_weight, n - 1, self.whole),))

    def _open_profile(self, data_weight: float, prior_weight: float) -> Profile:
        if not self.whole:
            raise InvalidValue(
                "with n private nothing is proven of samples from fractions of records, which move both parameters at "
                "once; ask for their mean"
            )
        least = floor_float(Fraction(prior_weight) * Fraction(min(self.alpha, self.beta)))
        return LikelihoodRatioProfile((GammaShapePairs(least, data_weight),), relation=ADD_REMOVE)

    def worst_data(self, n: int | None) -> list[tuple[Statistics, Statistics]]:
        """Return what `reading` gives; where n is None, one record more of the rarer kind, beside many of the other."""
        if n is not None:
            return super().worst_data(n)
        with_it, without = (1.0, 0.0) if self.alpha <= self.beta else (float(FAR), float(FAR))
        return [(Statistics(FAR + 1, np.array([with_it])), Statistics(FAR, np.array([without])))]

    def _with_prior(self, prior: Beta) -> Self:
        return replace(self, alpha=prior.alpha, beta=prior.beta)

    def log_evidence(self, n: int, totals: Floats) -> Floats:
        """Return the logarithm of the beta-binomial probability of each total, up to a constant."""
        choose = -special.gammaln(totals + 1) - special.gammaln(n - totals + 1)
        return np.asarray(choose + special.betaln(self.alpha + totals, self.beta + n - totals))

    def check_truncation(self, truncation: object = None) -> float:
        """Return the least probability a₀ of either value, 0.01 by default."""
        return unit_floor(truncation, 2)

    def log_ratio_range(self, truncation: object) -> float:
        """Return the range of ±logit θ for θ in [a₀, 1 - a₀], with a₀ = `truncation`."""
        floor = self.check_truncation(truncation)
        return 2 * log_up(1 - Fraction(floor), Fraction(floor))

    def tempered(self, statistics: Statistics, temperature: float, truncation: object) -> Truncated:
        """Return the joint density to the power 1/T on [a₀, 1 - a₀]: a truncated Beta."""
        floor, plain = self.check_truncation(truncation), self.posterior(statistics)
        base = Beta((plain.alpha - 1) / temperature + 1, (plain.beta - 1) / temperature + 1)
        return Truncated(base, floor, 1 - floor)

    def tempered_law(self, statistics: Statistics, temperature: float, truncation: object) -> BetaLaw:
        """Return the truncated Beta in fractions."""
        floor, plain = Fraction(self.check_truncation(truncation)), self.law(statistics)
        alpha, beta = (tempered_power(parameter, temperature) for parameter in (plain.alpha, plain.beta))
        return BetaLaw(alpha, beta, floor, 1 - floor)


def unit_floor(value: object, categories: int) -> float:
    """Return the least probability a₀ of every category, 0.02/d by default, or raise `InvalidValue`."""
    if value is None:
        return 0.02 / categories
    return real("the truncation, one number a0 > 0,", value, above=0.0, below=1 / categories)
