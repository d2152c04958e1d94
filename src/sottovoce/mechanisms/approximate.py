"""A sampler of anybody's in the place of an exact one, honestly charged for how far off it may be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.mechanisms.exponential_choice import ExponentialChoice, choose
from sottovoce.mechanisms.mechanism import Mechanism
from sottovoce.privacy.approximate_sampling import SlackProfile
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, real
from sottovoce.privacy.profile import Basis, Profile

__all__ = ["ApproximateSample", "barker_distance"]

_STEPS = 12
"""Steps of the example's chain."""
Sampler = Callable[[Any, Any, np.random.Generator], Any]


@dataclass(frozen=True, eq=False)
class ApproximateSample(Mechanism):
    """Release what a sampler draws whose law is, on every data set, within total variation γ of an exact mechanism's.

    The distance must be **proven**, for every data set and for the computer's arithmetic: a diagnostic of convergence
    proves nothing. The release is then (ε, δ(ε) + (1 + e^ε)γ)-private (Geumlek 2020, Proposition 3), and neither
    purely private nor finite in any Rényi divergence, so that no ledger takes it; exact samplers and certified chains
    cost less, and compose.

    Parameters
    ----------
    system, n
        As of the exact mechanism.
    exact
        The mechanism whose law is approximated.
    distance
        γ.
    sampler
        Called as ``sampler(exact, seen, rng)``; returns one value. Of one read back only its name is known.

    Examples
    --------
    >>> near = ApproximateSample.example()
    >>> f"{near.distance:.3g} {near.profile.delta(near.exact.profile.pure()):.3g}"
    '0.00771 0.0284'
    """

    word: ClassVar[str] = "approximate sample"
    forecasts: ClassVar[bool] = False
    exact: Mechanism
    distance: float
    sampler: Sampler | str

    def __post_init__(self) -> None:
        if not isinstance(self.exact, Mechanism):
            raise InvalidValue(f"exact must be the mechanism that is approximated. Got a {type(self.exact).__name__}")
        if self.exact.system is not self.system or self.exact.n != self.n:
            raise InvalidValue("system and n must be those of the exact mechanism; use ApproximateSample.of")
        super().__post_init__()
        object.__setattr__(self, "distance", real("distance", self.distance))
        if not self.distance < 1:
            raise InvalidValue(f"a distance in total variation lies below 1. Got {self.distance:g}")
        if not (callable(self.sampler) or isinstance(self.sampler, str)):
            raise InvalidValue(f"sampler must be a function. Got {self.sampler!r}")

    @classmethod
    def of(cls, exact: Mechanism, distance: float, sampler: Sampler) -> Self:
        """Return an approximation of a mechanism."""
        return cls(exact.system, exact.n, exact, distance, sampler)

    @cached_property
    def profile(self) -> Profile:
        """That of the exact mechanism, with the slack."""
        inner = self.exact.profile
        return SlackProfile(inner, self.distance, basis=Basis.weakest([inner.basis, Basis.BOUND]))

    @classmethod
    def example(cls) -> Self:
        """Return a choice among three guesses by some steps of Barker's chain."""
        return cls.of(ExponentialChoice.example(), barker_distance(ExponentialChoice.example(), _STEPS), _barker)

    def _value(self, seen: Any, rng: np.random.Generator, draws: int) -> Any:
        if not callable(self.sampler):
            raise InvalidValue(f"only the name of {self.sampler!r} is known here; build it with the function")
        values = [self.sampler(self.exact, seen, rng) for _ in range(draws)]
        return values[0] if draws == 1 else values

    def _outputs(self, seen: Any, rng: np.random.Generator, draws: int) -> Floats:
        """Return what the sampler draws."""
        return np.atleast_1d(np.asarray(self._value(seen, rng, draws), dtype=np.float64))

    def worst_pair(self) -> tuple[Any, Any]:
        """Return the pair of the exact mechanism."""
        return self.exact.worst_pair()

    def _parameters(self) -> dict[str, object]:
        known = type(self.sampler).__name__
        name = self.sampler if isinstance(self.sampler, str) else getattr(self.sampler, "__name__", known)
        return {"exact": self.exact.to_dict(), "distance": self.distance, "sampler": name}

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        state.pop("system")
        exact = Mechanism.from_dict(state.pop("exact"))
        return cls(exact.system, state.pop("n"), exact, **state)

    def describe(self) -> str:
        """Return the mechanism in one line."""
        return f"{self.word} within {self.distance:.3g} of: {self.exact.describe()}"


def barker_distance(exact: ExponentialChoice, steps: int) -> float:
    r"""Return a proven total variation between `steps` of Barker's chain with uniform proposals and its stationary law.

    Another outcome y is proposed with probability 1/K and taken with probability π_y/(π_y + π_x) ≥ π_y; the chain stays
    with probability at least 1/K. So whatever the state, the next one has at least the stationary law's probability
    over K, and (Doeblin)

    .. math:: \mathrm{TV} \le \Big(1 - \frac{1}{K}\Big)^{t}

    for **every** data set. Rounded up.
    """
    size = len(exact.system.outcomes)
    return float((1 - 1 / size) ** steps * (1 + 1e-12 * steps))


def _barker(exact: Mechanism, seen: Any, rng: np.random.Generator) -> Any:
    """Run Barker's chain with uniform proposals, every step drawn exactly."""
    assert isinstance(exact, ExponentialChoice)
    weights, size, state = exact.log_weights(seen), len(exact.system.outcomes), 0
    base = None if exact.system.base is None else [Fraction(weight) for weight in exact.system.base]
    for _ in range(_STEPS):
        other = int(rng.integers(size))
        if other != state:
            two = (state, other)
            chosen = None if base is None else [base[k] for k in two]
            state = two[choose([weights[k] for k in two], rng, chosen)]
    return exact.system.outcomes[state]
