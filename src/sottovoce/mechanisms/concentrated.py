"""Concentrated posterior sampling: the prior counts more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.conjugate.beta_bernoulli import BetaBernoulli
from sottovoce.mechanisms.conjugate.system import System
from sottovoce.mechanisms.mechanism import Choices
from sottovoce.mechanisms.posterior_sample import PosteriorSample
from sottovoce.privacy.numbers import real
from sottovoce.privacy.promises import Promise


@dataclass(frozen=True, eq=False)
class ConcentratedPosterior(PosteriorSample):
    """Release a sample from the posterior with the prior counted 1/m >= 1 times (Geumlek et al. 2017, Alg.
    3).

    Examples
    --------
    >>> from sottovoce.privacy.promises import RenyiDP
    >>> from sottovoce.mechanisms.conjugate import BetaBernoulli
    >>> system = BetaBernoulli(alpha=6, beta=12)
    >>> mech = ConcentratedPosterior.calibrate(system, n=100, target=RenyiDP(order=2, epsilon=0.05))
    >>> round(1 / mech.prior_weight, 8)
    0.25361615
    """

    word: ClassVar[str] = "concentrated posterior"
    choices: ClassVar[Choices] = {"concentrated": {}}
    prior_weight: float

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "prior_weight", real("prior_weight", self.prior_weight, 1.0))

    @property
    def _weights(self) -> tuple[float, float]:
        return 1.0, float(self.prior_weight)

    @classmethod
    def example(cls) -> Self:
        """Return a posterior of five records, the prior counted 2.5 times."""
        return cls(BetaBernoulli(6, 12), 5, 2.5)

    @classmethod
    def calibrate(cls, system: System, n: int | None, target: Promise) -> Self:
        """Return the mechanism with the smallest prior weight that keeps the promise."""
        share = largest_keeping(lambda m: system.profile(n, 1.0, 1 / m), target, high=1.0, name="1/prior_weight")
        return cls(system, n, 1 / share)
