"""The mechanism that searches for quantiles: a few noisy histograms, paid for as one release before the first."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.inference.cells.cell_noise import KINDS
from sottovoce.inference.cells.quantile_posterior import QuantilePosterior, SearchRound
from sottovoce.inference.cells.quantile_search import first_edges, limited, merged, next_edges, round_shares, union_of
from sottovoce.inference.cells.question_mechanism import IMAGINED, MOST, AdaptiveQuestion
from sottovoce.inference.cells.questions import Question
from sottovoce.mechanisms.calibrate import largest_keeping, quietest
from sottovoce.mechanisms.integer_noise import IntegerNoise, NoiseKind, noise_log_ratio
from sottovoce.mechanisms.mechanism import Choices
from sottovoce.privacy.composition import compose
from sottovoce.privacy.concentrated import ZeroConcentratedProfile
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.lattice import lattice_mu
from sottovoce.privacy.numbers import Floats, as_floats, ceil_float
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.pure import PureProfile
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.privacy.relation import ADD_REMOVE, REPLACE_ONE, Relation
from sottovoce.records.facts import Category, Facts, Number
from sottovoce.records.readings import GroupMoments, HeldRecords
from sottovoce.records.readings.base import checked_size

__all__ = ["SearchedQuantiles"]

_SLACK = 1 + 1e-9
"""More than the rounding of the few operations that make up a sensitivity."""

Edges = Sequence[Floats]
Counted = Callable[[Edges, float], SearchRound]


@dataclass(frozen=True, eq=False)
class SearchedQuantiles(AdaptiveQuestion):
    r"""Count the records of every group between public edges, cut where quantiles lie, count again.

    Round k releases one histogram with noise of scale s/√wₖ (discrete Gaussian) or s/wₖ (discrete Laplace), Σwₖ = 1.
    Its edges are a function of the noisy counts of earlier rounds, and in it a record is in one cell, whatever the
    edges are: one record replaced moves two counts by one, one added or removed moves one. So a round is wₖ/s²-zCDP
    (2wₖ/s pure) given those before it, all of them are 1/s²-zCDP (2/s pure) by adaptive composition, and they are
    charged once, before the first.

    Parameters
    ----------
    system, n
        The question for quantiles, and how many records there are; None where that is a secret.
    noise
        ``"laplace"`` or ``"gaussian"``.
    scale
        s, beside one record.
    shares
        w, one a round; by what is public of the column unless given.

    Examples
    --------
    >>> from sottovoce.records.facts import Count
    >>> from sottovoce.privacy.promises import ApproxDP
    >>> question = Question("quantiles", ("days",), Facts(days=Count(3650)), at=(0.5,))
    >>> mechanism = SearchedQuantiles.calibrate(question, 5000, ApproxDP(0.5, 1e-6))
    >>> mechanism.noise, mechanism.profile.satisfies(ApproxDP(0.5, 1e-6)), len(mechanism.shares)
    ('laplace', True, 4)
    """

    word: ClassVar[str] = "quantile search"
    choices: ClassVar[Choices] = {
        "laplace": {"noise": "laplace"},
        "gaussian": {"noise": "gaussian"},
    }
    hides_n: ClassVar[bool] = True
    system: Question
    noise: NoiseKind
    scale: float
    shares: tuple[float, ...] = field(default=())

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.system, Question) or self.system.verb != "quantiles":
            raise InvalidValue("a search is for a Question of quantiles")
        if self.noise not in KINDS:
            raise InvalidValue(f"noise must be 'laplace' or 'gaussian'. Got {self.noise!r}")
        shares = self.shares or round_shares(self.noise, self.system.value_axis).tolist()
        shares = as_floats("shares", list(shares), 0.0)
        if not (shares.ndim == 1 and np.all(shares > 0) and abs(float(shares.sum()) - 1) < 1e-9):
            raise InvalidValue(f"shares must be positive and add up to one. Got {shares.tolist()}")
        object.__setattr__(self, "shares", tuple(shares.tolist()))

    @cached_property
    def reading(self) -> GroupMoments:
        """What the first round counts; what the others do depends on what it releases."""
        return self._reading(union_of(self._first))

    @property
    def _first(self) -> Edges:
        edges = first_edges(self.system.value_axis, len(self.system.at))
        return limited([edges] * self.system.groups.size)

    def _reading(self, edges: Floats) -> GroupMoments:
        return self.system.cut_at(edges.tolist()).for_size(self.n)

    @property
    def scales(self) -> list[float]:
        """The noise of each round."""
        weights = self.shares if self.noise == "laplace" else [math.sqrt(share) for share in self.shares]
        return [self.scale / weight for weight in weights]

    @cached_property
    def profile(self) -> Profile:
        """What all rounds provably do together."""
        if self.n == 0:  # no record, no neighbour
            return ZeroConcentratedProfile(0.0).about(self.relation)
        return _profile(self.noise, self.scales, self.relation)

    @classmethod
    def calibrate(
        cls,
        system: Question,
        n: int | None,
        target: Promise,
        noise: NoiseKind | None = None,
        price: Callable[[Profile], float] | None = None,
    ) -> Self:
        """Return the search with the least noise that keeps the promise.

        Parameters
        ----------
        system, n, target
            The question, the number of records (None where it is a secret), the promise.
        noise
            The kind of noise. Unless given, the one that gets most out of what it costs.
        price
            What a budget charges for a profile. Without it, the kind with less noise is taken; with it, the one with
            less noise at an equal price, for variance falls as a price grows.
        """
        n = checked_size(n)
        kinds = KINDS if noise is None else (noise,)
        return quietest(kinds, lambda kind: cls._calibrated(system, n, target, kind), price)

    @classmethod
    def _calibrated(cls, system: Question, n: int | None, target: Promise, kind: NoiseKind) -> Self:
        relation = replace(REPLACE_ONE if n is not None else ADD_REMOVE, unit=target.relation.unit)
        loud = cls(system, n, kind, 1.0)

        def profile(inverse: float) -> Profile:
            return _profile(kind, [scale / inverse for scale in loud.scales], relation)

        return cls(system, n, kind, 1 / largest_keeping(profile, target, high=100.0, low=1 / MOST, name="1/scale"))

    @property
    def variance(self) -> float:
        """The variance of the noise on what all rounds count: the inverse of their precisions, added up."""
        return 1 / sum(1 / max(IntegerNoise(self.noise, scale).variance, 1e-300) for scale in self.scales)

    @classmethod
    def example(cls) -> Self:
        """Return the median of a number in two wards, of five records, with Gaussian noise."""
        facts = Facts(stay=Number(0, 10), ward=Category(("A", "B")))
        return cls(Question("quantiles", ("stay",), facts, by=("ward",), at=(0.5,)), 5, "gaussian", 4.0)

    # The release.

    def _value(self, seen: Any, rng: np.random.Generator, draws: int) -> QuantilePosterior:
        del draws
        return self.search(lambda edges, scale: self._counted(seen, edges, scale, rng))

    def search(self, counted: Counted) -> QuantilePosterior:
        """Search: `counted` gives a round's noisy counts, and they alone decide where the next round cuts."""
        edges, axis, rounds = self._first, self.system.value_axis, []
        for k, scale in enumerate(self.scales):
            rounds.append(counted(edges, scale))
            known = QuantilePosterior(self.system, self.n, self.noise, tuple(rounds))
            if k + 1 < len(self.scales):
                edges = limited([next_edges(axis, group, self.system.at) for group in known.groups])
        return known

    def _counted(self, seen: object, edges: Edges, scale: float, rng: np.random.Generator) -> SearchRound:
        """Return a round with noise on every count."""
        noisy = IntegerNoise(self.noise, scale).add(self._counts(seen, edges), rng)
        return self._round(noisy, edges, scale)

    def _counts(self, seen: Any, edges: Edges) -> Any:
        """Return the counts of the cells of every group, in order, and of the records in no group."""
        every = union_of(edges)
        reading = self._reading(every)
        steps = reading.steps(reading.check(seen.look(reading)))
        table = steps[:-1].reshape(len(edges), -1)
        cells = [merged(row, every, cut) for row, cut in zip(table, edges, strict=True)]
        return np.concatenate([*cells, steps[-1:]])

    @staticmethod
    def _round(noisy: Any, edges: Edges, scale: float) -> SearchRound:
        *cells, outside = np.split(noisy, np.cumsum([cut.size - 1 for cut in edges]))
        return SearchRound(tuple(edges), tuple(cells), int(outside[0]), scale)

    # The attack.

    @cached_property
    def path(self) -> tuple[tuple[Edges, float], ...]:
        """The rounds, each with its noise, that an imagined table of typical records led to once."""
        records = list(zip(*(values * IMAGINED for values in self.reading.typical()), strict=False))
        count = IMAGINED if self.n is None else self.n
        seen = self.see(HeldRecords(tuple(self.reading.arranged([records[k % len(records)] for k in range(count)]))))
        rng, rounds = seeded_rng(0), []

        def counted(edges: Edges, scale: float) -> SearchRound:
            rounds.append((edges, scale))
            return self._counted(seen, edges, scale, rng)

        self.search(counted)
        return tuple(rounds)

    def _outputs(self, seen: Any, rng: np.random.Generator, draws: int) -> Floats:
        """Return the noisy counts of so many releases along one `path`, a row each.

        Where a round cuts is public; given that, how it came to cut there tells nothing of the records.
        """
        seen = self.see(seen)
        parts = [IntegerNoise(self.noise, s).rows(self._counts(seen, edges), rng, draws) for edges, s in self.path]
        return np.concatenate(parts, axis=1).astype(np.float64)

    @cached_property
    def _pair(self) -> tuple[HeldRecords, HeldRecords]:
        *groups, values = self.reading.typical()[: len(self.system.groups.names) + 1]
        first = (*(values_[0] for values_ in groups), values[0])
        other = (*(values_[0] for values_ in groups), values[1])
        return self._with_and_without(first, other)

    def worst_pair(self) -> tuple[Any, Any]:
        """Return two data sets whose first records are at either end of the column: in two cells of every round."""
        return self._pair

    def log_ratio(self, pair: tuple[object, object]) -> Callable[[Any], Floats]:
        """Return log of the probability of noisy counts along the path under the first of a pair over the second."""
        moved = [[self._counts(self.see(side), edges) for edges, _ in self.path] for side in pair]
        noises = [IntegerNoise(self.noise, scale) for _, scale in self.path]

        return noise_log_ratio(noises, moved[0], moved[1])

    def _parameters(self) -> dict[str, object]:
        return super()._parameters() | {"shares": list(self.shares)}

    @classmethod
    def _renewed(cls, state: dict[str, Any]) -> dict[str, object]:
        return state | {"shares": tuple(state["shares"])} if "shares" in state else state


def _profile(noise: NoiseKind, scales: Sequence[float], relation: Relation) -> Profile:
    """Return what rounds of counts do together, chosen adaptively: in each one record moves two counts, or one."""
    moved = 1 if relation.hides_n else 2
    if noise == "laplace":
        return PureProfile(
            ceil_float(sum((moved / Fraction(scale) for scale in scales), Fraction())), relation=relation
        )
    each = [lattice_mu([(moved / scale**2 * _SLACK, scale)], moved) for scale in scales]
    if all(map(math.isfinite, each)):
        return compose([GaussianProfile(mu, basis=Basis.BOUND, relation=relation) for mu in each])
    rho = ceil_float(sum((Fraction(moved) / (2 * Fraction(scale) ** 2) for scale in scales), Fraction()))
    return ZeroConcentratedProfile(rho, relation=relation)
