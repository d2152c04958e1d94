"""Mechanisms of means with ``tails="smooth"``: how they are calibrated, and what is refused of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import ClassVar, Self

from sottovoce.inference.cells.question_mechanism import MOST, AdaptiveQuestion
from sottovoce.inference.cells.questions import Question
from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.integer_noise import NoiseKind
from sottovoce.mechanisms.mechanism import Choices
from sottovoce.privacy.concentrated import ZeroConcentratedProfile
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import Promise, PureDP
from sottovoce.privacy.relation import ADD_REMOVE, REPLACE_ONE, Relation


class SmoothTail(AdaptiveQuestion):
    """A search for the tail of a column, by looks with Gaussian noise."""

    choices: ClassVar[Choices] = {"gaussian": {"noise": "gaussian"}}
    noise: ClassVar[NoiseKind] = "gaussian"
    one_moment: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.system, Question) or self.system.tails != "smooth":
            raise InvalidValue('this is for a Question of means with tails="smooth"')

    @staticmethod
    @abstractmethod
    def looks_profile(scale: float, relation: Relation) -> Profile:
        """Return what all looks provably do together, whichever are taken."""

    @cached_property
    def profile(self) -> Profile:
        """What all looks provably do together, whichever are taken."""
        if self.n == 0:
            return ZeroConcentratedProfile(0.0).about(self.relation)
        return self.looks_profile(self.scale, self.relation)

    @classmethod
    def calibrate(
        cls,
        system: Question,
        n: int | None,
        target: Promise,
        noise: NoiseKind | None = None,
        price: Callable[[Profile], float] | None = None,
    ) -> Self:
        """Return the mechanism with the least noise that keeps the promise; it is Gaussian, whatever the price."""
        del price
        n = cls.checked_n(n)
        _check_gaussian(noise, target)
        relation = replace(REPLACE_ONE if n is not None else ADD_REMOVE, unit=target.relation.unit)

        def profile(inverse: float) -> Profile:
            return cls.looks_profile(1 / inverse, relation)

        return cls(system, n, 1 / largest_keeping(profile, target, high=100.0, low=1 / MOST, name="1/scale"))  # type: ignore[call-arg]


def _check_gaussian(noise: NoiseKind | None, target: Promise) -> None:
    """Refuse other noise than Gaussian, and a promise that no Gaussian noise keeps."""
    if noise not in (None, "gaussian"):
        raise InvalidValue('tails="smooth" is answered with Gaussian noise, which is not allowed here')
    if isinstance(target, PureDP):
        raise InvalidValue(
            f'tails="smooth" is answered with Gaussian noise, which keeps no pure promise such as {target}: spend from '
            "a budget with a delta, as approx:1,1e-6 has, or say closer bounds"
        )
