"""Diffused posterior sampling: the data counts less."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.conjugate.beta_bernoulli import BetaBernoulli
from sottovoce.mechanisms.conjugate.system import System
from sottovoce.mechanisms.mechanism import Choices
from sottovoce.mechanisms.posterior_sample import PosteriorSample
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import real
from sottovoce.privacy.promises import Promise


@dataclass(frozen=True, eq=False)
class DiffusedPosterior(PosteriorSample):
    """Release a sample from the posterior with the data counted r times, 0 < r <= 1 (Geumlek et al. 2017,
    Alg. 2).

    Examples
    --------
    >>> from sottovoce.privacy.promises import RenyiDP
    >>> from sottovoce.mechanisms.conjugate import BetaBernoulli
    >>> mech = DiffusedPosterior.calibrate(BetaBernoulli(6, 12), n=100, target=RenyiDP(order=15, epsilon=0.1))
    >>> round(mech.data_weight, 8)
    0.22787341
    """

    word: ClassVar[str] = "diffused posterior"
    choices: ClassVar[Choices] = {"diffused": {}}
    data_weight: float

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "data_weight", real("data_weight", self.data_weight))
        if not 0 < self.data_weight <= 1:
            raise InvalidValue(f"data_weight must be > 0 and <= 1. Got {self.data_weight!r}")

    @property
    def _weights(self) -> tuple[float, float]:
        return float(self.data_weight), 1.0

    @classmethod
    def example(cls) -> Self:
        """Return a posterior of five records, each counted 0.4 times."""
        return cls(BetaBernoulli(6, 12), 5, 0.4)

    @classmethod
    def calibrate(cls, system: System, n: int | None, target: Promise) -> Self:
        """Return the mechanism with the largest data weight that keeps the promise."""
        weight = largest_keeping(lambda w: system.profile(n, w, 1.0), target, high=1.0, name="data_weight")
        return cls(system, n, weight)
