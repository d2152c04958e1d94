"""Adaptive spending: a filter that stays sound when the next question depends on the last answer."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from sottovoce.privacy.errors import BudgetExceeded, IncompatibleNotions, InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.numbers import Floats, as_floats, ceil_float, real, shown
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import (
    ApproxDP,
    GaussianDP,
    MaxAdvantage,
    MaxSuccess,
    Promise,
    PureDP,
    RenyiDP,
    ZeroConcentratedDP,
    check_order,
)
from sottovoce.privacy.pure import atoms_renyi
from sottovoce.privacy.relation import check_same

__all__ = ["GAUSSIAN", "Order", "PrivacyFilter", "checked_cost", "gaussian_allowance", "renyi_allowance"]

GAUSSIAN: Literal["gaussian"] = "gaussian"
"""In the place of an order: count μ², which only releases that are Gaussian private fit."""
Order = float | Literal["gaussian"]


def renyi_allowance(budget: Promise, order: float) -> float:
    """Return the Rényi divergence at `order` that still implies the budget; may be negative.

    For (ε, δ) the inverse of δ = exp((λ-1)(R-ε))·(1-1/λ)^(λ-1)/λ (Canonne, Kamath and Steinke 2020). A promise in
    words speaks of one event, a guess that comes true: by data processing its two probabilities lie no further apart
    than the divergence allows, so what is allowed is the divergence of the two coins that just break the promise.
    """
    match budget:
        case MaxSuccess(success, baseline):
            return float(_coins(np.array([baseline]), success - baseline, order)[0]) * (1 - 1e-9)
        case MaxAdvantage(advantage):
            chance = np.linspace(0.0, 1 - advantage, 4001)[1:-1]
            return float(np.min(_coins(chance, advantage, order))) * (1 - 1e-5)
        case ApproxDP():
            return _approx_allowance(budget, order)
    raise IncompatibleNotions(f"no budget that is counted at a Rényi order: {budget!r}")


def _coins(chance: Floats, more: float, order: float) -> Floats:
    """Return the larger of the two Rényi divergences between coins that show heads so often, and so much more often.

    From the difference of the coins, not from the two: it is what the divergence is made of where they are close.
    """
    orders = np.full(chance.shape, order)
    loss = np.stack([np.log1p(more / chance), np.log1p(-more / (1 - chance))], axis=-1)
    first = np.log(np.stack([chance + more, np.maximum(1 - chance - more, 5e-324)], axis=-1))
    second = np.log(np.stack([chance, 1 - chance], axis=-1))
    return np.maximum(atoms_renyi(orders, loss, first), atoms_renyi(orders, -loss, second))


def _approx_allowance(budget: ApproxDP, order: float) -> float:
    return budget.epsilon + (math.log(budget.delta) + math.log(order)) / (order - 1) - math.log1p(-1 / order)


def _read_order(order: Any) -> float:
    if isinstance(order, str):
        raise InvalidValue(f"an order is a number > 1, or 'gaussian' for an approx budget. Got {order!r}")
    return real("order", order, 1.0)


def _best_order(budget: Promise) -> float:
    """Return the order that leaves room for the most Gaussian noise: largest allowance over order."""
    from scipy import optimize  # noqa: PLC0415 - most commands need none of it

    result = optimize.minimize_scalar(
        lambda u: -renyi_allowance(budget, 1 + math.exp(u)) / (1 + math.exp(u)),
        bounds=(-6.0, 14.0),
        method="bounded",
    )
    return 1 + math.exp(float(result.x))


@functools.lru_cache
def gaussian_allowance(budget: ApproxDP) -> float:
    """Return the largest μ² that still implies the budget, on its private side; the conversion is exact.

    >>> round(gaussian_allowance(ApproxDP(1.0, 1e-6)), 4)
    0.056
    """
    from scipy import optimize  # noqa: PLC0415 - most commands need none of it

    def over(log_mu: float) -> float:
        with np.errstate(divide="ignore"):
            return float(GaussianProfile(math.exp(log_mu)).log_delta(budget.epsilon)) - math.log(budget.delta)

    if over(-300.0) > 0:
        return 0.0
    mu = math.exp(float(optimize.brentq(over, -300.0, 30.0, xtol=1e-13)))
    while GaussianProfile(mu).log_delta(budget.epsilon) > math.log(budget.delta):
        mu *= 1 - 1e-13
    return mu * mu * (1 - 2**-51)


def checked_cost(cost: float) -> float:
    """Return a cost that may be charged: a number >= 0, or infinity, which never fits."""
    number = math.inf if isinstance(cost, float) and cost == math.inf else real("cost", cost, -math.inf)
    if number < 0:
        raise InvalidValue(f"a cost below zero would give budget back; the profile is wrong. Got {number}")
    return number


def _root_down(value: float) -> float:
    root = math.sqrt(value)
    return math.nextafter(root, 0.0) if root * root > value else root


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
    >>> from sottovoce.privacy.pure import PureProfile
    >>> purse = PrivacyFilter(PureDP(1.0))
    >>> purse.spend(PureProfile(0.75))
    >>> purse.remaining(), purse.can_spend(PureProfile(0.5))
    (PureDP(epsilon=0.25), False)
    """

    budget: Promise
    order: Order | None = None
    costs: list[float] = field(default_factory=list, repr=False)
    _counted: int = field(default=0, init=False, repr=False, compare=False)
    _total: Fraction = field(default=Fraction(0), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.costs = as_floats("costs", self.costs, 0.0).ravel().tolist()
        match self.budget:
            case ApproxDP(epsilon, 0.0):
                self.budget = PureDP(epsilon, relation=self.budget.relation)
            case ApproxDP() if isinstance(self.order, str) and self.order == GAUSSIAN:
                if self.limit <= 0:
                    raise InvalidValue(f"nothing fits a budget of {self.budget}; use a larger epsilon or delta")
            case ApproxDP() | MaxAdvantage() | MaxSuccess():
                self.order = _best_order(self.budget) if self.order is None else _read_order(self.order)
                check_order(self.order)
                if self.order == 1 and isinstance(self.budget, ApproxDP):
                    raise InvalidValue("order must be > 1: a divergence at order 1 implies no (epsilon, delta)")
                if renyi_allowance(self.budget, self.order) <= 0:
                    raise InvalidValue(
                        f"nothing fits a budget of {self.budget} at order {self.order:g}; "
                        "use a larger order, epsilon or delta"
                    )
            case PureDP() | RenyiDP() | ZeroConcentratedDP() | GaussianDP():
                pass
            case _:
                raise IncompatibleNotions(
                    f"a budget is a promise such as ApproxDP(1.0, 1e-6). Got {shown(self.budget)}"
                )
        if self.order is not None and not isinstance(self.budget, ApproxDP | MaxAdvantage | MaxSuccess):
            raise InvalidValue(f"a budget of {self.budget} is counted at no order. Got order={shown(self.order)}")
        if not math.isfinite(self.limit):
            raise InvalidValue(f"a budget of {self.budget} is none: it would never be used up")

    @property
    def counted(self) -> str:
        """What is added up, in words."""
        match self.budget:
            case PureDP():
                return "pure ε"
            case ZeroConcentratedDP():
                return "ρ of zero-concentrated privacy"
            case GaussianDP():
                return "μ² of Gaussian privacy"
            case RenyiDP(order, _):
                return f"Rényi divergence at order {order:.4g}"
        return "μ² of Gaussian privacy" if self.order == GAUSSIAN else f"Rényi divergence at order {self.order:.4g}"

    @property
    def _squares(self) -> bool:
        return isinstance(self.budget, GaussianDP) or self.order == GAUSSIAN

    @property
    def _rate(self) -> float:
        """The Rényi order, where one is counted at."""
        if self.order is None or self.order == GAUSSIAN:
            raise IncompatibleNotions(f"a budget of {self.budget!r} is counted at no Rényi order")
        return float(self.order)

    @property
    def limit(self) -> float:
        """What the costs may add up to."""
        match self.budget:
            case ApproxDP() if self.order == GAUSSIAN:
                return gaussian_allowance(self.budget)
            case PureDP(epsilon) | RenyiDP(_, epsilon):
                return epsilon
            case ZeroConcentratedDP(rho):
                return rho
            case GaussianDP(mu):
                return mu * mu
            case ApproxDP() | MaxAdvantage() | MaxSuccess() if self.order is not None:
                return renyi_allowance(self.budget, self._rate)
        raise IncompatibleNotions(f"no budget of this kind: {self.budget!r}")

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
        return checked_cost(self._number(profile))

    def _number(self, profile: Profile) -> float:
        if self._squares:
            mu = profile.gdp()
            return mu * mu or min(mu, 5e-324)
        match self.budget:
            case PureDP():
                return profile.pure()
            case RenyiDP(order, _):
                return float(profile.renyi(order))
            case ZeroConcentratedDP():
                return profile.zcdp()
            case ApproxDP() | MaxAdvantage() | MaxSuccess() if self.order is not None:
                return float(profile.renyi(self._rate))
        raise IncompatibleNotions(f"no budget of this kind: {self.budget!r}")

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
        left = self._left()
        ordered = self.order is not None and self.order != GAUSSIAN
        at = f" at Rényi order {self.order:g}" if ordered else ""
        if math.isinf(cost):
            hint = "open the budget with a lower order" if ordered else "use another mechanism"
            return f"this release never fits a budget of {self.budget}: its cost{at} is infinite; {hint}"
        kept = f"{left:.6g} of {self.limit:.6g} is left of the budget {self.budget}"
        return f"the release costs {cost:.6g}{at} and {kept}"

    def remaining(self) -> Promise:
        """Return the promise that is left, in the notion the filter counts in, rounded down."""
        return self._promise(self._left())

    def remaining_after(self, spent: Fraction) -> Promise:
        """Return the promise that is left once so much of the limit was spent, rounded down."""
        return self._promise(max(-ceil_float(spent - Fraction(self.limit)), 0.0))

    def _promise(self, cost: float) -> Promise:
        """Return the promise that costs this much."""
        return self._plain_promise(cost).under(self.budget.relation)

    def _plain_promise(self, cost: float) -> Promise:
        if self._squares:
            return GaussianDP(_root_down(cost))
        match self.budget:
            case RenyiDP(order, _):
                return RenyiDP(order, cost)
            case ZeroConcentratedDP():
                return ZeroConcentratedDP(cost)
            case ApproxDP() | MaxAdvantage() | MaxSuccess() if self.order is not None:
                return RenyiDP(self._rate, cost)
        return PureDP(cost)

    def share(self, fraction: float) -> Promise:
        """Return the promise that costs this fraction of the budget as it was opened, in the notion it is counted in.

        A hair less, so that twenty shares of 0.05 fit, whatever rounding does.

        >>> round(PrivacyFilter(PureDP(2.0)).share(0.1).epsilon, 9)
        0.2
        """
        part = real("a share", fraction, 0.0)
        if not 0 < part <= 1:
            raise InvalidValue(f"a share of the budget lies above 0 and at most at 1. Got {part:g}")
        return self._promise(self.limit if part == 1 else part * self.limit * (1 - 2**-40))

    def to_dict(self) -> dict[str, Any]:
        """Return the budget and its order (not the costs) as a plain dictionary."""
        return {"budget": self.budget.to_dict(), "order": self.order}

    @staticmethod
    def from_dict(state: Mapping[str, Any], costs: Iterable[float] = ()) -> PrivacyFilter:
        """Read a filter back, with the costs already spent."""
        if not isinstance(state, Mapping) or not {"budget", "order"} <= set(state):
            raise InvalidValue(f"a filter is read from its budget and its order. Got {shown(state)}")
        return PrivacyFilter(Promise.from_dict(state["budget"]), state["order"], list(costs))
