r"""Markov chains whose every step is an exponential mechanism: Gibbs, Metropolis and annealing, charged step by step.

At every step some candidates are drawn without the data, beside the state the chain is in, and one of them is taken
with probability proportional to exp(η/(2Δ)·u(D, r)). With all outcomes as candidates this is a Gibbs update; with one
candidate it is Metropolis' algorithm with Barker's rule,

.. math:: \Pr[\text{move}] = \frac{1}{1 + e^{-\frac{\eta}{2\Delta}(u(D, r') - u(D, r))}},

whose privacy loss lies in a window of width η. Metropolis' own rule min(1, ratio) has none: a rejection may be
impossible under one data set and not under its neighbour. A lazy chain takes a proposal with half of it,

.. math:: \Pr[\text{move}] = \tfrac12 \min\big(1, e^{\frac{\eta}{2\Delta}(u(D, r') - u(D, r))}\big),

and is η-private: with a ≤ ½ the logarithm of 1 − a moves by a/(1 − a) ≤ 1 times as much as that of a. (Half is the most
of which that is so.) Its losses have opposite signs, so that no window narrower than 2η holds them, and it moves less
often than Barker's: both rules leave the same law, and Barker's is the better buy.

Windows that widen from step to step anneal. The weight of annealed importance sampling is a further look at the data,
and has a sensitivity of its own: `ChoiceChain.importance_weight`.

A step may work on a random, secret part of m of the n records: then its curve is that of the window after subsampling,
pure log(1 + (m/n)(e^η - 1)), and not 2ηm/n, the thesis' linear rule. Every state is released, and nothing waits for
convergence.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.mechanisms.ball_arithmetic import ball, precision
from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.exponential_choice import Outcomes, choose
from sottovoce.mechanisms.lazy_uniform import LazyUniform
from sottovoce.mechanisms.mechanism import Choices, Mechanism
from sottovoce.privacy.composition import compose
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, as_floats, ceil_float, whole
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.pure import BoundedRangeProfile, PureProfile
from sottovoce.privacy.subsampled import SubsampledProfile
from sottovoce.records.readings import FunctionRows, FunctionSum, ScoreRows

__all__ = ["ChoiceChain"]

_MOST_STEPS = 100_000
RULES = ("barker", "metropolis")


@dataclass(frozen=True, eq=False)
class ChoiceChain(Mechanism):
    """Release the path of a chain of exponential mechanisms, from a public start.

    Parameters
    ----------
    system, n
        The `Outcomes`, whose scores are `FunctionRows`; how many records there are.
    windows
        η of each step.
    part
        m: how many records a step sees, drawn anew and in secret; all n where None. A record weighs in a step's
        exponent what its window says, whatever m is.
    candidates
        How many outcomes are proposed at a step beside the one the chain is in; all the others where None.
    start
        The place of the outcome to start from.
    rule
        How a proposal is taken: ``"barker"``, or, with one candidate, ``"metropolis"`` (half of it).

    Examples
    --------
    Thirty Metropolis steps, each on 20 of 200 records:

    >>> from sottovoce.records.facts import Number
    >>> guesses = (0.1, 0.3, 0.5, 0.7, 0.9)
    >>> scores = FunctionRows(lambda x: [-abs(x - g) for g in guesses], (Number(0, 1),), -1, 0, 5)
    >>> chain = ChoiceChain(Outcomes(guesses, scores), 200, (1.0,) * 30, part=20, candidates=1)
    >>> whole = ChoiceChain(Outcomes(guesses, scores), 200, (1.0,) * 30, candidates=1)
    >>> round(whole.profile.epsilon(1e-6), 1), round(chain.profile.epsilon(1e-6), 2)
    (16.2, 1.63)
    """

    word: ClassVar[str] = "chain of choices"
    choices: ClassVar[Choices] = {}
    forecasts: ClassVar[bool] = False
    system: Outcomes
    windows: tuple[float, ...]
    part: int | None = None
    candidates: int | None = None
    start: int = 0
    rule: str = "barker"

    def __post_init__(self) -> None:
        if not isinstance(self.system, Outcomes) or not isinstance(self.system.reading, FunctionRows):
            raise InvalidValue("a chain of choices is among Outcomes whose scores are FunctionRows")
        super().__post_init__()
        windows = np.atleast_1d(as_floats("windows", self.windows, 0.0))
        if windows.ndim != 1 or not 1 <= windows.size <= _MOST_STEPS or not windows.max() <= 1e6:
            raise InvalidValue(f"windows must be 1 to {_MOST_STEPS} numbers up to 1e6, one a step")
        object.__setattr__(self, "windows", tuple(windows.tolist()))
        size = len(self.system.outcomes)
        whole("start", self.start, 0, size - 1)
        if self.part is not None:
            whole("part", self.part, 1, max(self.n, 1))
        if self.candidates is not None:
            whole("candidates", self.candidates, 1, max(size - 1, 1))

        if self.rule not in RULES:
            raise InvalidValue(f"rule must be one of {', '.join(RULES)}. Got {self.rule!r}")
        if self.rule == "metropolis" and self.candidates != 1:
            raise InvalidValue("Metropolis' rule is for one proposal at a time: give candidates=1, or take Barker's")

    @property
    def _seen_by_a_step(self) -> int:
        return self.known_n if self.part is None else min(self.part, self.known_n)

    @cached_property
    def profile(self) -> Profile:
        """What the whole path provably costs: one window a step, each after subsampling."""
        if not self.n:
            return BoundedRangeProfile(0.0)
        steps = Counter(self.windows)
        return compose([self._step(window) for window in steps], list(steps.values()))

    def _step(self, window: float) -> Profile:
        item = PureProfile(window) if self.rule == "metropolis" else BoundedRangeProfile(window)
        rate = ceil_float(Fraction(self._seen_by_a_step, self.n))
        return item if rate == 1 else SubsampledProfile(item, rate)

    @classmethod
    def example(cls) -> Self:
        """Return two annealed Metropolis steps, each on two of four records."""
        return cls(Outcomes((0, 1, 2), FunctionRows.example()), 4, (1.0, 2.0), part=2, candidates=1)

    @classmethod
    def calibrate(
        cls,
        system: Outcomes,
        n: int,
        target: Promise,
        *,
        steps: int = 100,
        part: int | None = None,
        candidates: int | None = None,
        start: int = 0,
        rule: str = "barker",
    ) -> Self:
        """Return a chain of equal windows, the widest that keep the promise."""
        count, remainder = whole("steps", steps, 1, _MOST_STEPS), (part, candidates, start, rule)

        def profile(window: float) -> Profile:
            return cls(system, n, (window,) * count, *remainder).profile

        return cls(system, n, (largest_keeping(profile, target, high=100.0, name="window"),) * count, *remainder)

    def see(self, records: object) -> Any:
        """Return the scores of the records, within their bounds."""
        return self.reading.check(super().see(records))

    def _value(self, seen: ScoreRows, rng: np.random.Generator, draws: int) -> Any:
        outcomes = self.system.outcomes
        paths = [[outcomes[k] for k in self._path(seen, rng)] for _ in range(draws)]
        return paths[0] if draws == 1 else paths

    def _path(self, seen: ScoreRows, rng: np.random.Generator) -> list[int]:
        """Return the places that the chain visits, one a step."""
        state, path, size = self.start, [], len(self.system.outcomes)
        part, total = self._seen_by_a_step, seen.steps.sum(axis=0)
        for window in self.windows:
            if part < self.n:  # bounded whole numbers are drawn by rejection: every part is as likely
                total = seen.steps[rng.permutation(self.n)[:part]].sum(axis=0)
            others = [k for k in range(size) if k != state]
            if self.candidates is not None:
                others = [others[k] for k in rng.permutation(size - 1)[: self.candidates]]
            if self.rule == "metropolis":
                state = others[0] if self._taken(state, others[0], total, window, rng) else state
            else:
                places = sorted([state, *others])
                state = places[self._pick(places, total, window, rng)]
            path.append(state)
        return path

    def _pick(self, places: list[int], total: Any, window: float, rng: np.random.Generator) -> int:
        slope = Fraction(window) / (2 * self.reading.width)  # type: ignore[attr-defined]
        base = None if self.system.base is None else [Fraction(self.system.base[k]) for k in places]
        return choose([slope * int(total[k]) for k in places], rng, base)

    def _taken(self, state: int, other: int, total: Any, window: float, rng: np.random.Generator) -> bool:
        """Say whether a proposal is taken, with exactly ½·min(1, ratio)."""
        slope = Fraction(window) / (2 * self.reading.width)  # type: ignore[attr-defined]
        gain, base = slope * (int(total[other]) - int(total[state])), self.system.base
        odds = Fraction(1) if base is None else Fraction(base[other]) / Fraction(base[state])
        if gain >= 0 and odds >= 1:
            gain, odds = Fraction(0), Fraction(1)

        def half(bits: int) -> Any:
            with precision(bits + 20):
                return (ball(gain).exp() * ball(odds)).min(ball(1)) / 2

        return not LazyUniform(rng).beyond(half)

    def importance_weight(self, path: Any) -> FunctionSum:
        """Return the reading whose sum is the logarithm of a released path's annealed importance weight (Neal 2001).

        Step t adds (η_t − η_{t−1})/(2Δ)·u(D, x_{t−1}). The path is public, so this is a sum over the records like any
        other: one record moves it by half of how far the windows rise and fall together, and noise on it is charged
        beside the path, by `NoisyStatistics(FunctionOf(chain.importance_weight(path)), n, "laplace", scale)`. Where the
        start was drawn by the outcomes' base weights, the mean of the exponential is Z/Z₀.
        """
        states = list(path)
        if len(states) != len(self.windows) or not set(states) <= set(self.system.outcomes):
            raise InvalidValue(
                f"path must be a release of this chain, one outcome for each of {len(self.windows)} steps"
            )
        places = [self.start, *(self.system.outcomes.index(state) for state in states[:-1])]
        rises, scores = np.diff([0.0, *self.windows]) / 2, self.reading
        low, width = scores.low, scores.high - scores.low  # type: ignore[attr-defined]

        def weight(record: object) -> float:
            shares = (scores.answered(record) - low) / width  # type: ignore[attr-defined]
            return float(rises @ shares[places])

        ends = float(rises[rises < 0].sum()), float(rises[rises > 0].sum())
        return FunctionSum(weight, scores.columns, *ends)  # type: ignore[attr-defined]

    def _outputs(self, seen: ScoreRows, rng: np.random.Generator, draws: int) -> Floats:
        """Return the places that chains visit, a row each."""
        return np.array([self._path(seen, rng) for _ in range(draws)], dtype=np.float64)

    def _parameters(self) -> dict[str, object]:
        return {
            "windows": list(self.windows),
            "part": self.part,
            "candidates": self.candidates,
            "start": self.start,
        } | ({} if self.rule == "barker" else {"rule": self.rule})

    def describe(self) -> str:
        """Return the chain in one line."""
        part, size = "all" if self.part is None else str(self.part), len(self.system.outcomes)
        return f"{self.word}: {len(self.windows)} steps among {size} outcomes, {part} of {self.n} records a step"
