"""Adaptive spending: a filter that stays sound when the next question depends on the last answer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from sottovoce.privacy.budget_units import GAUSSIAN, Counting, Order
from sottovoce.privacy.errors import BudgetExceeded, IncompatibleNotions, InvalidValue
from sottovoce.privacy.numbers import as_floats, ceil_float, real, shown
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.relation import check_same
from sottovoce.privacy.shares import percent_meant

__all__ = ["GAUSSIAN", "Order", "PrivacyFilter", "checked_cost"]


def checked_cost(cost: float) -> float:
    """Return a cost that may be charged: a number >= 0, or infinity, which never fits."""
    number = math.inf if isinstance(cost, float) and cost == math.inf else real("cost", cost, -math.inf)
    if number < 0:
        raise InvalidValue(f"a cost below zero would give budget back; the profile is wrong. Got {number}")
    return number


@dataclass
class PrivacyFilter:
    """A budget that adaptively chosen releases draw down, each by a cost that simply adds.

    ========================  ==================================  ==========================================
    budget                    cost of a release                   sound for adaptive choices by
    ========================  ==================================  ==========================================
    ``PureDP``                its pure ε                          Rogers, Roth, Ullman and Vadhan 2016
    ``ApproxDP``              its Rényi ε at one fixed order      Feldman and Zrnic 2021, Theorem 4.3
    ``ApproxDP``, gaussian    its μ²                              as for ``GaussianDP``
    ``MaxAdvantage``          its Rényi ε at one fixed order      the same, and data processing
    ``MaxSuccess``            its Rényi ε at one fixed order      the same, and data processing
    ``RenyiDP``               its Rényi ε at that order           Feldman and Zrnic 2021, Theorem 4.3
    ``ZeroConcentratedDP``    its ρ                               Whitehouse, Ramdas, Rogers and Wu 2023
    ``GaussianDP``            its μ²                              Smith and Thakurta 2022; Koskela et al. 2023
    ========================  ==================================  ==========================================

    Parameters
    ----------
    budget
        The promise that all releases together must keep.
    order
        For an ``ApproxDP`` budget: the Rényi order to account at, fixed for good. By default the one that leaves the
        most room for Gaussian noise; releases whose Rényi curve is infinite there need a lower one. Or
        ``"gaussian"``: count μ², which is turned into (ε, δ) without loss. It admits about an eighth more Gaussian
        answers, few others, and no posterior samples; which of two ways to count is fixed before the first release,
        for to take the better one afterwards is not proven.

    Examples
    --------
    >>> from sottovoce.privacy.promises import PureDP
    >>> from sottovoce.privacy.pure import PureProfile
    >>> purse = PrivacyFilter(PureDP(1.0))
    >>> purse.spend(PureProfile(0.75))
    >>> purse.remaining(), purse.can_spend(PureProfile(0.5))
    (PureDP(epsilon=0.25), False)
    """

    budget: Promise
    order: Order | None = None
    costs: list[float] = field(default_factory=list, repr=False)
    _counting: Counting = field(init=False, repr=False, compare=False)
    _counted: int = field(default=0, init=False, repr=False, compare=False)
    _total: Fraction = field(default=Fraction(0), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.costs = as_floats("costs", self.costs, 0.0).ravel().tolist()
        if not isinstance(self.budget, Promise):
            raise IncompatibleNotions(f"a budget is a promise such as ApproxDP(1.0, 1e-6). Got {shown(self.budget)}")
        self.budget = self.budget._simplest()
        self._counting = self.budget._counting(self.order)
        if self.order is not None and self._counting.order is None:
            raise InvalidValue(f"a budget of {self.budget} is counted at no order. Got order={shown(self.order)}")
        self.order = self._counting.order
        if not math.isfinite(self.limit):
            raise InvalidValue(f"a budget of {self.budget} is none: it would never be used up")

    @property
    def counted(self) -> str:
        """What is added up, in words."""
        return self._counting.words

    @property
    def limit(self) -> float:
        """What the costs may add up to."""
        return self._counting.limit

    @property
    def spent(self) -> float:
        """What has been spent: the exact sum, rounded up."""
        return ceil_float(self._exact())

    def _exact(self) -> Fraction:
        """Return the exact sum of the costs; each is added once."""
        self._total += sum(map(Fraction, self.costs[self._counted :]))
        self._counted = len(self.costs)
        return self._total

    def _left(self) -> float:
        """Return what is left, rounded down."""
        return max(-ceil_float(self._exact() - Fraction(self.limit)), 0.0)

    def cost(self, profile: Profile) -> float:
        """Return what a release with this profile costs; infinite where the profile gives no such privacy."""
        if not isinstance(profile, Profile):
            raise IncompatibleNotions(f"only profiles cost anything. Got {shown(profile)}")
        check_same(profile.relation, self.budget.relation, "a budget pays for claims about its own neighbours only")
        return checked_cost(self._counting.cost(profile))

    def can_spend(self, profile: Profile) -> bool:
        """Say whether a release with this profile still fits."""
        return self.fits(self.cost(profile))

    def fits(self, cost: float) -> bool:
        """Say whether this cost still fits, with no rounding in the caller's favour."""
        number = checked_cost(cost)
        return math.isfinite(number) and self._exact() + Fraction(number) <= Fraction(self.limit)

    def spend(self, profile: Profile) -> None:
        """Draw the budget down, or raise `BudgetExceeded` and leave it as it is."""
        cost = self.cost(profile)
        if not self.fits(cost):
            raise BudgetExceeded(self.refusal(cost))
        self.costs.append(cost)

    def refusal(self, cost: float) -> str:
        """Return the sentence that says why a cost does not fit."""
        cost = checked_cost(cost)
        remaining = self._left()
        ordered = self.order is not None and self.order != GAUSSIAN
        at = f" at Rényi order {self.order:g}" if ordered else ""
        if math.isinf(cost):
            hint = "open the budget with a lower order" if ordered else "use another mechanism"
            return f"this release never fits a budget of {self.budget}: its cost{at} is infinite; {hint}"
        subset = f"{remaining:.6g}" if not 0 < remaining < 1e-9 * self.limit else "next to nothing"
        kept = f"{subset} of {self.limit:.6g} is left of the budget {self.budget}"
        return f"the release costs {cost:.6g}{at} and {kept}"

    def remaining(self) -> Promise:
        """Return the promise that is left, in the notion the filter counts in, rounded down."""
        return self._promise(self._left())

    def remaining_after(self, spent: Fraction) -> Promise:
        """Return the promise that is left once so much of the limit was spent, rounded down."""
        return self._promise(max(-ceil_float(spent - Fraction(self.limit)), 0.0))

    def _promise(self, cost: float) -> Promise:
        """Return the promise that costs this much."""
        return self._counting.promise(cost).under(self.budget.relation)

    def share(self, fraction: float) -> Promise:
        """Return the promise that costs this fraction of the budget as it was opened, in the notion it is counted in.

        A hair less, so that twenty shares of 0.05 fit, whatever rounding does.

        >>> from sottovoce.privacy.promises import PureDP
        >>> round(PrivacyFilter(PureDP(2.0)).share(0.1).epsilon, 9)
        0.2
        """
        part = real("a share", fraction, -math.inf)
        if not 0 < part <= 1:
            raise InvalidValue(f"a share of the budget lies above 0 and at most 1. Got {part:g}{percent_meant(part)}")
        return self._promise(self.limit if part == 1 else part * self.limit * (1 - 2**-40))

    def to_dict(self) -> dict[str, object]:
        """Return the budget and its order (not the costs) as a plain dictionary."""
        return {"budget": self.budget.to_dict(), "order": self.order}

    @staticmethod
    def from_dict(state: Mapping[str, Any], costs: Iterable[float] = ()) -> PrivacyFilter:
        """Read a filter back, with the costs already spent."""
        if not isinstance(state, Mapping) or not {"budget", "order"} <= set(state):
            raise InvalidValue(f"a filter is read from its budget and its order. Got {shown(state)}")
        return PrivacyFilter(Promise.from_dict(state["budget"]), state["order"], list(costs))
