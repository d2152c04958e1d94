r"""The exponential mechanism over a finite set of outcomes, drawn exactly.

An outcome r is taken with probability proportional to

.. math:: \pi(r)\, \exp\Big(\frac{\eta}{2\Delta}\, u(D, r)\Big)

(McSherry and Talwar 2007; the thesis' §4.2). With loss -u and β = η/(2Δ) it is Minami's Gibbs map, 2β-Lipschitz
from losses to laws: one record moves every log-probability inside a window of width η, so the release is η-private and
η²/8-zero-concentrated.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.mechanisms.ball_arithmetic import Ball, ball, precision
from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.lazy_uniform import BitSource, LazyUniform
from sottovoce.mechanisms.mechanism import Choices, Mechanism
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.json_values import mapping, restoring
from sottovoce.privacy.numbers import Floats, as_floats, real
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.pure import BoundedRangeProfile
from sottovoce.records.facts.columns import Count
from sottovoce.records.readings import FunctionSum, Reading, Statistics
from sottovoce.records.readings.function_reading import FunctionReading

_FAR = 1e-9
"""Doubles decide beyond this distance: sums of at most a million exponentials are off by less than 1e-10."""

_LEAST = 2.0**-800
"""Of masses, none above one, that add up to more, what underflows is nothing."""

_NOTHING = -1000
"""The exponential of less is zero in doubles, and less may be no double itself."""


def choose(log_weights: list[Fraction], source: BitSource, base: list[Fraction] | None = None) -> int:
    """Return k with probability **exactly** proportional to base[k]·exp(log_weights[k]).

    A uniform number is drawn bit by bit until it lies in one cell of the cumulative sums for certain: by doubles where
    it is a billionth or more away from every edge in question (they are off by far less), by balls elsewhere.

    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> sum(choose([Fraction(0), Fraction(1)], seeded_rng(k)) for k in range(400)) / 400 > 0.65
    True
    """
    known: dict[int, list[Ball]] = {}

    def cumulative(bits: int) -> list[Ball]:
        if bits not in known:
            with precision(bits + 20 + len(log_weights).bit_length()):
                top, total, sums = max(log_weights), ball(0), []
                for k, weight in enumerate(log_weights):
                    total += ball(weight - top).exp() * (1 if base is None else ball(base[k]))
                    sums.append(total)
                known[bits] = [item / total for item in sums]
        return known[bits]

    # One by one: of a few outcomes, as there mostly are, arrays would take longer to make than to add up.
    scale = math.lcm(*(weight.denominator for weight in log_weights))
    places = [weight.numerator * (scale // weight.denominator) for weight in log_weights]
    gaps, least = [place - max(places) for place in places], _NOTHING * scale
    masses = [math.exp(gap / scale) if gap > least else 0.0 for gap in gaps]
    if base is not None:
        most = max(base)  # no factor above one, so that what underflows is small in the end too
        masses = [mass * float(weight / most) for mass, weight in zip(masses, base, strict=True)]
    total = sum(masses)
    # Where they underflow together, doubles decide nothing.
    total = total if total > _LEAST else math.nan
    rough = [mass / total for mass in itertools.accumulate(masses)]
    uniform, low, high = LazyUniform(source), 0, len(log_weights) - 1
    about = uniform.double[0]
    while low < high:
        middle = (low + high) // 2
        if abs(about - rough[middle]) > _FAR:
            beyond = about > rough[middle]
        else:
            beyond = uniform.beyond(lambda bits, at=middle: cumulative(bits)[at])
        low, high = (middle + 1, high) if beyond else (low, middle)
    return low


@dataclass(frozen=True)
class Outcomes:
    """A finite set of outcomes and what each scores on the records: a system of `ExponentialChoice`.

    Parameters
    ----------
    outcomes
        Different texts, or different numbers.
    reading
        Scores u(D, r), one an outcome, higher is better: a `FunctionSum` (a score a record, cut to its bounds, so that
        its sensitivity is enforced; minus a bounded loss makes the Gibbs map) or a `FunctionValue` with its declared
        sensitivity in the norm ``"max"``.
    base
        π, a public weight > 0 an outcome; equal unless given.
    """

    word: ClassVar[str] = "outcomes"
    parameter: ClassVar[str] = "outcome"
    mechanisms: ClassVar[tuple[str, ...]] = ("exponential choice",)
    outcomes: tuple[Any, ...]
    reading: Reading
    base: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        outcomes = tuple(v.item() if isinstance(v, np.generic) else v for v in self.outcomes)
        texts = all(isinstance(v, str) for v in outcomes)
        if not texts:
            outcomes = tuple(real("an outcome", v, -math.inf) for v in outcomes)
        if not outcomes or len(set(outcomes)) < len(outcomes):
            raise InvalidValue("outcomes must be different texts, or different numbers, at least one")
        object.__setattr__(self, "outcomes", outcomes)
        if not isinstance(self.reading, FunctionReading):
            raise InvalidValue(f"scores are read by a FunctionSum or a FunctionValue. Got {self.reading!r}")
        if self.reading.entries != len(outcomes) or getattr(self.reading, "norm", "max") != "max":
            raise InvalidValue(
                f"give a score for each of the {len(outcomes)} outcomes, its sensitivity in the norm 'max'"
            )
        if self.base is not None:
            base = as_floats("base", self.base, 0.0)
            if base.shape != (len(outcomes),) or not base.min() > 0:
                raise InvalidValue(f"base must be {len(outcomes)} weights > 0. Got {self.base!r}")
            object.__setattr__(self, "base", tuple(base.tolist()))

    def statistics(self, records: object) -> Statistics:
        """Return n and the scores."""
        return self.reading.read(records)

    def to_dict(self) -> dict[str, object]:
        """Return the system as plain values."""
        base = None if self.base is None else list(self.base)
        return {"system": self.word, "outcomes": list(self.outcomes), "reading": self.reading.to_dict(), "base": base}

    @staticmethod
    def from_dict(state: Mapping[str, object]) -> Outcomes:
        """Read a system from `to_dict`'s form."""
        known = mapping("outcomes", state)
        with restoring("outcomes"):
            return Outcomes(tuple(known["outcomes"]), Reading.from_dict(known["reading"]), known.get("base"))


@dataclass(frozen=True, eq=False)
class ExponentialChoice(Mechanism):
    """Release one of finitely many outcomes, more likely the higher it scores.

    Parameters
    ----------
    system, n
        The `Outcomes`, and how many records there are.
    window
        η: how far one record moves the log-probabilities apart.

    Examples
    --------
    The ward that most records name, at ε = 1:

    >>> from sottovoce.records.facts import Category
    >>> from sottovoce.privacy.promises import PureDP
    >>> wards = ("A", "B", "C")
    >>> votes = FunctionSum(lambda ward: [ward == w for w in wards], (Category(wards),), 0, 1, entries=3)
    >>> mech = ExponentialChoice.calibrate(Outcomes(wards, votes), n=40, target=PureDP(1.0))
    >>> round(mech.profile.pure(), 9), mech.release(["B"] * 39 + ["A"]).value
    (1.0, 'B')
    """

    word: ClassVar[str] = "exponential choice"
    choices: ClassVar[Choices] = {"exponential": {}}
    forecasts: ClassVar[bool] = False
    system: Outcomes
    window: float

    def __post_init__(self) -> None:
        if not isinstance(self.system, Outcomes):
            raise InvalidValue(f"an exponential choice is among Outcomes. Got a {type(self.system).__name__}")
        super().__post_init__()
        self.reading.movement(self.n)  # rows have no sum, and say so
        object.__setattr__(self, "window", real("window", self.window))
        if not self.window <= 1e6:
            raise InvalidValue(f"window must be at most 1e6. Got {self.window!r}")

    @cached_property
    def profile(self) -> Profile:
        """What one choice provably does: privacy loss in a window of width η."""
        return BoundedRangeProfile(self.window if self.n else 0.0)

    @classmethod
    def example(cls) -> Self:
        """Return a choice among three guesses of a count."""
        scores = FunctionSum(_nearness, (Count(2),), -1, 0, 3)
        return cls(Outcomes((0, 1, 2), scores), 4, 1.0)

    @classmethod
    def calibrate(cls, system: Outcomes, n: int, target: Promise) -> Self:
        """Return the choice with the widest window that keeps the promise."""
        return cls(system, n, largest_keeping(BoundedRangeProfile, target, high=1e3, name="window"))

    def log_weights(self, seen: Statistics) -> list[Fraction]:
        """Return the exponent of each outcome, exactly: one record moves it by at most half the window."""
        steps, width = self.reading.steps(seen), self.reading.movement(self.n).width
        slope = Fraction(self.window) / (2 * width)
        return [slope * int(k) for k in steps]

    def probabilities(self, seen: Statistics) -> Floats:
        """Return the probability of each outcome, in doubles."""
        weights = self.log_weights(seen)
        logs = np.array([float(weight - max(weights)) for weight in weights])
        logs = logs if self.system.base is None else logs + np.log(self.system.base)
        masses = np.exp(logs - logs.max())
        return np.asarray(masses / masses.sum())

    def _value(self, seen: Statistics, rng: np.random.Generator, draws: int) -> Any:
        picked = [self.system.outcomes[k] for k in self._picks(seen, rng, draws)]
        return picked[0] if draws == 1 else picked

    def _picks(self, seen: Statistics, rng: np.random.Generator, draws: int) -> list[int]:
        weights = self.log_weights(seen)
        base = None if self.system.base is None else [Fraction(weight) for weight in self.system.base]
        return [choose(weights, rng, base) for _ in range(draws)]

    def _outputs(self, seen: Statistics, rng: np.random.Generator, draws: int) -> Floats:
        """Return which outcomes were taken, by their places."""
        return np.array(self._picks(seen, rng, draws), dtype=np.float64)

    def log_ratio(self, pair: tuple[Statistics, Statistics]) -> Callable[[Any], Floats]:
        """Return log of the probability of an outcome under the first of a pair over that under the second."""
        with np.errstate(divide="ignore"):
            first, second = (np.log(self.probabilities(seen)) for seen in pair)
        gap = first - second
        return lambda outputs: np.asarray(gap[np.asarray(outputs, dtype=np.intp).ravel()])

    def worst_pair(self) -> tuple[Statistics, Statistics]:
        """Return scores of which one record lifts half and lowers the others, as far as it can."""
        low, high = (self.reading.steps(seen) for seen in self.reading.pairs(self.n)[0])
        first = np.arange(len(low)) < (len(low) + 1) // 2
        ends = (np.where(first, high, low), np.where(first, low, high))
        item, other = (Statistics(self.n, self.reading.from_steps(self.n, end)) for end in ends)
        return item, other


def _nearness(record: int) -> list[float]:
    """Return minus the distance of a count from each guess, at most one."""
    return [-min(abs(record - guess), 1) for guess in (0, 1, 2)]
