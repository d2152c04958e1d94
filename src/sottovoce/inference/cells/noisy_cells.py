"""Noisy cells: the counts and sums of every group, released once with discrete noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.inference.cells.cell_noise import KINDS, cell_noises, cell_profile
from sottovoce.inference.cells.cells_posterior import CellsPosterior, cells_posterior
from sottovoce.inference.cells.question_mechanism import MOST, QuestionMechanism
from sottovoce.inference.cells.questions import Question
from sottovoce.mechanisms.calibrate import largest_keeping, quietest
from sottovoce.mechanisms.integer_noise import IntegerNoise, NoiseKind, noise_log_ratio
from sottovoce.mechanisms.mechanism import Choices
from sottovoce.privacy.concentrated import ZeroConcentratedProfile
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.laplace import DiscreteLaplaceProfile
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.promises import ApproxDP, Promise
from sottovoce.privacy.relation import ADD_REMOVE, REPLACE_ONE, Relation
from sottovoce.records.facts import Category, Facts, Number
from sottovoce.records.readings import CellCounts, GroupMoments, Statistics
from sottovoce.records.readings.base import checked_size
from sottovoce.records.readings.group_moments import STEPS


@lru_cache(maxsize=1024)  # public values only, and the same whenever such cells are asked for
def _scale(
    reading: GroupMoments | CellCounts, n: int | None, target: Promise, kind: NoiseKind, relation: Relation
) -> float:
    """Return the least scale of a kind of noise that keeps a promise."""
    counted = n is not None and not reading.measures and kind == "laplace" and isinstance(target, ApproxDP)
    counted &= bool(reading.blocks(n)[0].movement.cells)

    def profile(inverse: float) -> Profile:
        if counted:  # two counts that move by one tell no more than one that moves by two; far quicker
            return DiscreteLaplaceProfile(1 / inverse, 2, basis=Basis.BOUND, relation=relation)
        return cell_profile(reading, kind, 1 / inverse, relation)

    return 1 / largest_keeping(profile, target, high=100.0, low=1 / MOST, name="1/scale")


@dataclass(frozen=True, eq=False)
class NoisyCells(QuestionMechanism):
    r"""Release what `GroupMoments` counts and adds, every number once, with discrete noise.

    The counts carry noise of scale s/a, the sums of t of scale s/b, the sums of t² of scale s/c, where a, b and c are
    public weights. One record replaced moves, in units of those scales and squared,

    .. math:: \frac{1}{s^2}\max\Bigl(2a^2 + m(b^2 + c^2),\; \max_{0 \le d \le 2} d^2\bigl(b^2 + c^2 (2-d)^2\bigr)\Bigr),

    the first where it changes its cell (m = 2 cells that hold sums, or 1), the second where it stays in it. With
    b = 1 and a² + c² = 1 both are 4: counting the groups and squaring costs nothing beside releasing the sums. Where n
    is a secret, one record is added or removed instead, and moves (a² + b² + c²)/s²: all records are then counted, and
    how many there are is as unknown to the answer as anything else behind the noise.

    Parameters
    ----------
    system, n
        The question, and how many records there are; None where that is a secret.
    noise
        ``"laplace"`` or ``"gaussian"``.
    scale
        s, beside one record.

    Examples
    --------
    >>> from sottovoce.records.facts import Category, Facts, Flag
    >>> from sottovoce.privacy.promises import PureDP
    >>> question = Question("proportion", ("smoker",), Facts(smoker=Flag(), ward=Category(["A", "B"])), by=("ward",))
    >>> mech = NoisyCells.calibrate(question, n=100, target=PureDP(0.5))
    >>> mech.noise, round(mech.scale, 6)
    ('laplace', 4.0)
    """

    word: ClassVar[str] = "noisy cells"
    choices: ClassVar[Choices] = {
        "laplace": {"noise": "laplace"},
        "gaussian": {"noise": "gaussian"},
    }
    hides_n: ClassVar[bool] = True
    noise: NoiseKind
    scale: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.system, Question):
            raise InvalidValue(f"noisy cells answer a Question. Got a {type(self.system).__name__}")
        if self.noise not in KINDS:
            raise InvalidValue(f"noise must be 'laplace' or 'gaussian'. Got {self.noise!r}")

    @cached_property
    def reading(self) -> GroupMoments | CellCounts:
        """What is seen of the records."""
        return self.system.reading.for_size(self.n)  # type: ignore[no-any-return]

    @cached_property
    def noises(self) -> tuple[IntegerNoise, ...]:
        """The noise on the counts and on each sum, in whole steps."""
        return cell_noises(self.reading, self.noise, self.scale)

    @cached_property
    def profile(self) -> Profile:
        """What one release provably does: exact where only counts are released, a proven bound elsewhere."""
        if self.n == 0:  # no record, no neighbour
            return ZeroConcentratedProfile(0.0).about(self.relation)
        return cell_profile(self.reading, self.noise, self.scale, self.relation)

    @classmethod
    def calibrate(
        cls,
        system: Question,
        n: int | None,
        target: Promise,
        noise: NoiseKind | None = None,
        price: Callable[[Profile], float] | None = None,
    ) -> Self:
        """Return the mechanism with the least noise that keeps the promise.

        Parameters
        ----------
        system, n, target
            The question, the number of records (None where it is a secret), the promise.
        noise
            The kind of noise. Unless given, the one that gets most out of what it costs.
        price
            What a budget charges for a profile. Without it, the kind with less noise is taken; with it, the one
            with less noise at an equal price, for variance falls as a price grows.
        """
        n = checked_size(n)
        kinds = KINDS if noise is None else (noise,)
        return quietest(kinds, lambda kind: cls._calibrated(system, n, target, kind), price)

    @classmethod
    def _calibrated(cls, system: Question, n: int | None, target: Promise, kind: NoiseKind) -> Self:
        if kind not in KINDS:
            raise InvalidValue(f"noise must be 'laplace' or 'gaussian'. Got {kind!r}")
        relation = replace(REPLACE_ONE if n is not None else ADD_REMOVE, unit=target.relation.unit)
        scale = _scale(system.reading.for_size(n), n, target, kind, relation)
        first = cls(system, n, kind, scale)
        # How the cells are cut does not change what they cost, so the noise may choose their number.
        return cls(system.with_bins(n, math.sqrt(first.variance)), n, kind, scale)

    @classmethod
    def example(cls) -> Self:
        """Return the means of a number in two wards, of five records, with Gaussian noise."""
        facts = Facts(stay=Number(0, 10), ward=Category(("A", "B")))
        return cls(Question("mean", ("stay",), facts, by=("ward",)), 5, "gaussian", 3.0)

    @property
    def variance(self) -> float:
        """The variance of the noise on what the answer rests on most: the sums of t, or else the counts."""
        place, unit = (-self.reading.moments, STEPS) if self.reading.measures else (0, self.reading.fine)
        return self.noises[place].variance / unit**2

    def _value(self, statistics: Statistics, rng: np.random.Generator, draws: int) -> CellsPosterior:
        del draws
        return cells_posterior(self.system, self.n, self.noise, self.scale, self._noisy(statistics, rng))

    def _noisy(self, statistics: Statistics, rng: np.random.Generator) -> Any:
        parts = self.reading.split(self.reading.steps(statistics))
        return np.concatenate([noise.add(part, rng) for noise, part in zip(self.noises, parts, strict=True)])

    def _outputs(self, seen: Statistics, rng: np.random.Generator, draws: int) -> Floats:
        """Return the noisy cells of `draws` releases."""
        parts = self.reading.split(self.reading.steps(seen))
        noisy = [noise.rows(part, rng, draws) for noise, part in zip(self.noises, parts, strict=True)]
        return np.concatenate(noisy, axis=1).astype(np.float64)

    def worst_pair(self) -> tuple[Any, Any]:
        """Return the neighbours that lie furthest apart beside the noise."""
        deviations = np.repeat([math.sqrt(noise.variance) for noise in self.noises], self.reading.sizes)
        power = 1 if self.noise == "laplace" else 2

        def gap(pair: tuple[Statistics, Statistics]) -> float:
            return float(np.sum(np.abs((pair[0].total - pair[1].total) / deviations) ** power))

        return max(self.reading.pairs(self.n), key=gap)

    def log_ratio(self, pair: tuple[Statistics, Statistics]) -> Callable[[Any], Floats]:
        """Return log of the probability of noisy cells under the first of a pair over that under the second."""
        first, second = (self.reading.split(seen.total) for seen in pair)
        return noise_log_ratio(self.noises, first, second)
