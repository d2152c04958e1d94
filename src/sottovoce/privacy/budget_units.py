"""Counting: what a budget adds up, and how much of it there may be."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.numbers import Floats, real
from sottovoce.privacy.pure import atoms_renyi
from sottovoce.privacy.rounding import log_down, product_up

if TYPE_CHECKING:
    from sottovoce.privacy.profile import Profile
    from sottovoce.privacy.promise import Promise

GAUSSIAN: Literal["gaussian"] = "gaussian"
"""In the place of an order: count μ², which only releases that are Gaussian private fit."""
Order = float | Literal["gaussian"]

_LEAST_ORDER, _MOST_ORDER = 1.000001, 1e12


@dataclass(frozen=True)
class Counting:
    """What is added up for a budget.

    Attributes
    ----------
    words
        What is added up, in words.
    limit
        What the costs may add up to.
    cost
        What a release with a profile costs; infinite where it gives no such privacy.
    promise
        The promise that costs so much.
    order
        The order that was chosen for the budget, where one may be.
    """

    words: str
    limit: float
    cost: Callable[[Profile], float]
    promise: Callable[[float], Promise]
    order: Order | None = None


class _Allowing(Protocol):
    """A promise that a Rényi divergence at any one order implies."""

    def allowance(self, order: float) -> float: ...


def check_order(order: float, error: type[InvalidValue] = InvalidValue) -> None:
    """Refuse an order at which differences of doubles say nothing: 1, the limit, and [1 + 1e-6, 1e12] are fine."""
    if order != 1 and not _LEAST_ORDER <= order <= _MOST_ORDER:
        raise error(
            f"order must be >= 1: the limit 1 itself (Kullback-Leibler), or from {_LEAST_ORDER} to {_MOST_ORDER:g}. "
            f"Got {order!r}"
        )


def divergences(order: float, limit: float, make: Callable[[float, float], Promise]) -> Counting:
    """Count Rényi divergences at one order; `make` makes the promise of an order and a divergence."""
    words = f"Rényi divergence at order {order:.4g}"
    return Counting(words, limit, lambda profile: float(profile.renyi(order)), functools.partial(make, order))


def squares_of_mu(
    limit: float, make: Callable[[float], Promise], order: Order | None = None, *, own: float = 0.0
) -> Counting:
    """Count μ², rounded up; `make` makes the promise of a μ, and the whole limit pays for the budget's own."""

    def cost(profile: Profile) -> float:
        mu = profile.gdp()
        square = product_up(mu, mu)
        return min(square, limit) if mu <= own and limit > 0 else square

    return Counting("μ² of Gaussian privacy", limit, cost, lambda cost: make(_root_down(cost)), order)


def at_best_order(budget: _Allowing, order: object, make: Callable[[float, float], Promise]) -> Counting:
    """Count Rényi divergences at an order that is fixed for good: the one given, or the best for Gaussian noise."""
    if isinstance(order, str):
        raise InvalidValue(f"an order is a number > 1, or 'gaussian' for an approx budget. Got {order!r}")
    chosen = _best_order(budget) if order is None else real("order", order, 1.0)
    check_order(chosen)
    counting = divergences(chosen, budget.allowance(chosen), make)
    if counting.limit <= 0:
        raise InvalidValue(
            f"nothing fits a budget of {budget} at order {chosen:g}; use a larger order, epsilon or delta"
        )
    return replace(counting, order=chosen)


def _best_order(budget: _Allowing) -> float:
    """Return the order that leaves room for the most Gaussian noise: largest allowance over order."""
    from scipy import optimize  # noqa: PLC0415 - most commands need none of it

    result = optimize.minimize_scalar(
        lambda u: -budget.allowance(1 + math.exp(u)) / (1 + math.exp(u)), bounds=(-6.0, 14.0), method="bounded"
    )
    return 1 + math.exp(float(result.x))


@functools.lru_cache
def gaussian_allowance(epsilon: float, delta: float) -> float:
    """Return the largest μ² that still implies (ε, δ), on its private side; the conversion is exact.

    >>> round(gaussian_allowance(1.0, 1e-6), 4)
    0.056
    """
    from scipy import optimize  # noqa: PLC0415 - most commands need none of it

    target = float(log_down(delta))

    def over(log_mu: float) -> float:
        with np.errstate(divide="ignore"):
            return float(GaussianProfile(math.exp(log_mu)).log_delta(epsilon)) - target

    if over(-300.0) > 0:
        raise InvalidValue(f"nothing fits a budget of approx:{epsilon:g},{delta:g}; use a larger epsilon or delta")
    mu = math.exp(float(optimize.brentq(over, -300.0, 30.0, xtol=1e-13)))
    while GaussianProfile(mu).log_delta(epsilon) > target:
        mu *= 1 - 1e-13
    return mu * mu * (1 - 2**-51)


def coins(chance: Floats, more: float | Floats, order: float | Floats) -> Floats:
    """Return the larger of the two Rényi divergences between coins that show heads so often, and so much more often.

    A promise in words speaks of one event, a guess that comes true: by data processing its two chances lie no further
    apart than the divergence allows. From the difference of the coins, not from the two: it is what the divergence is
    made of where they are close.
    """
    loss = np.stack([np.log1p(more / chance), np.log1p(-more / (1 - chance))], axis=-1)
    first = np.stack([chance + more, np.maximum(1 - chance - more, 5e-324)], axis=-1)
    second = np.broadcast_to(np.stack([chance, 1 - chance], axis=-1), first.shape)
    both = atoms_renyi(np.asarray(order), np.stack([loss, -loss]), np.log(np.stack([first, second])))
    return np.asarray(both.max(axis=0))


def _root_down(value: float) -> float:
    root = math.sqrt(value)
    while Fraction(root) ** 2 > value:
        root = math.nextafter(root, 0.0)
    return root
