"""Direct posterior sampling: the posterior as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.conjugate.beta_bernoulli import BetaBernoulli
from sottovoce.mechanisms.conjugate.system import System
from sottovoce.mechanisms.mechanism import Choices
from sottovoce.mechanisms.posterior_sample import PosteriorSample
from sottovoce.privacy.promises import Promise


@dataclass(frozen=True, eq=False)
class DirectPosterior(PosteriorSample):
    """Release a sample from the true posterior and say exactly how private that is (Geumlek et al. 2017,
    Alg. 1).

    Examples
    --------
    >>> from sottovoce.mechanisms.conjugate import BetaBernoulli
    >>> mech = DirectPosterior(BetaBernoulli(alpha=6, beta=12), n=100)
    >>> round(mech.profile.delta(1.0), 6)
    0.005117
    """

    word: ClassVar[str] = "direct posterior"
    choices: ClassVar[Choices] = {"direct": {}}

    @classmethod
    def example(cls) -> Self:
        """Return a posterior of five records."""
        return cls(BetaBernoulli(6, 12), 5)

    @classmethod
    def calibrate(cls, system: System, n: int | None, target: Promise) -> Self:
        """Return the mechanism if it keeps the promise as it is, else raise `PromiseUnreachable`."""
        mechanism = cls(system, n)
        largest_keeping(lambda _: mechanism.profile, target, low=1.0, high=1.0, name="data weight")
        return mechanism
