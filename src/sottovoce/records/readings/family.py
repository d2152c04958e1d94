"""What a family of regressions is: the mean of the response given t, its slope, and how far one record can pull."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.records.facts.columns import Category, Column

FARTHEST = 30.0
"""|t| is cut to this: e^30 and e^-30 are numbers to every engine, and no probability beyond is told from 0 or 1."""


@dataclass(frozen=True)
class Family(ABC):
    """What a regression supposes of its response; `response` is what is public of that column."""

    word: ClassVar[str]
    wants: ClassVar[str]
    ratio: ClassVar[str | None] = None
    """What e^coefficient is called."""
    curved: ClassVar[bool] = True
    """Whether the mean bends, so that a look must be taken near the answer."""
    cutting: ClassVar[str] = ""
    """What a look cuts at a bound of its own, and what that may do; nothing where it cuts nothing."""
    unmeasured: ClassVar[str] = ""
    """The same where no look measures what is cut off."""
    missed: ClassVar[float] = 0.1
    """τ: how far a formula may miss the mean, as a part of how far responses vary about it. Numbers and counts lie
    nearer to their means than flags do, and formulas miss more of that."""
    boundless: ClassVar[bool] = False
    """Whether the mean of the response has no bound, so that draws of it are told by their median."""
    stretch: ClassVar[float] = 1.0
    """k: rows from c to k·c long pull as far as any row may, those beyond less and less."""
    response: Column

    def __post_init__(self) -> None:
        if not self.takes():
            raise InvalidValue(f"a {self.word} regression explains {self.wants}. Got a {self.response.word}")

    @abstractmethod
    def takes(self) -> bool:
        """Say whether the response is of the kind."""

    @classmethod
    def of(cls, response: Column, cap: float, extra: float, beyond: float) -> Self:
        """Return the family of a response; see `family_of`."""
        del cap, extra, beyond
        return cls(response)

    def from_zero(self) -> Self:
        """Return the family with its response measured from zero, for rows without a constant."""
        return self

    @property
    def outputs(self) -> int:
        """How many linear predictors there are."""
        return 1

    @property
    def upward(self) -> bool:
        """Whether no record pulls against its row: what it pulls with is never below zero."""
        return False

    @property
    def default(self) -> float | None:
        """What a missing response counts as, None where its record is left out."""
        missing = getattr(self.response, "missing", None)
        if missing is None:
            return None
        if isinstance(self.response, Category):
            return float(self.response.categories.index(missing))
        return float(missing)

    def outcome(self, values: Floats) -> Floats:
        """Return what the response counts as: NaN where missing; categories come as places, −1 where missing."""
        result = np.where(values < 0, np.nan, values) if isinstance(self.response, Category) else values
        default = self.default
        return result if default is None else np.where(np.isnan(result), default, result)

    def uncut(self, values: Floats) -> Floats:
        """Return what the response counts as before any cap of a look."""
        return self.outcome(values)

    @abstractmethod
    def mean(self, t: Floats) -> Floats:
        """Return the mean of the outcome at each linear predictor."""

    @abstractmethod
    def slope(self, t: Floats) -> Floats:
        """Return the derivative of the mean."""

    def mean_and_slope(self, t: Floats) -> tuple[Floats, Floats]:
        """Return both."""
        return self.mean(t), self.slope(t)

    @classmethod
    def moments(cls, families: Sequence[Self], counts: Sequence[int], t: Floats) -> tuple[Floats, Floats]:
        """Return both of several families, each with so many of the first places of t, one after the other."""
        parts = np.split(t, np.cumsum(counts)[:-1])
        result = [family.mean_and_slope(part) for family, part in zip(families, parts, strict=True)]
        return np.concatenate([mean for mean, _ in result]), np.concatenate([slope for _, slope in result])

    def residual(self, y: Floats, t: Floats) -> Floats:
        """Return what a record pulls with."""
        return np.asarray(y - self.mean(t))

    def steepness(self, y: Floats, t: Floats) -> Floats:
        """Return how much less a record pulls as t grows."""
        del y
        return self.slope(t)

    def varies(self, t: Floats, slope: Floats) -> Floats:
        """Return by how much what a record pulls with varies if the model holds: as its mean rises, unless told."""
        del t
        return slope

    def expected(self, t: Floats) -> Floats:
        """Return the mean of the response itself, for predictions."""
        return self.mean(t)

    @property
    @abstractmethod
    def steepest(self) -> float:
        """κ: the largest slope."""

    def reach(self, predictors: Floats, norm: float) -> float:
        """Return the largest |t| of a row of length `norm`, by the public centre."""
        return norm * float(np.linalg.norm(predictors, axis=1).max()) * (1 + 1e-12)

    @abstractmethod
    def bound(self, reach: Any) -> float:
        """B: the largest |y − μ(t)| over outcomes and |t| ≤ reach. s ↦ B(s·u)/s must fall."""

    def apart(self, near: Any, far: Any) -> float:
        """Return how far two contributions can lie apart, in units of c, 2B at most.

        They are x(y − μ(x·θ)), with |x·θ| ≤ near where ‖x‖ ≤ 1; longer rows pull no farther, with |x·θ| ≤ far.
        """
        del near
        return 2 * self.bound(far)

    def information_ranges(self, far: Any, edges: Floats) -> tuple[Floats, Floats] | None:
        """Return the least and the most information of one record where its score is between two edges long.

        Both are beside the most of all records, of which one of length k has predictors |t| ≤ far; None where that is
        not worked out, and a score of any length may go with any information.
        """
        del far, edges
        return None
