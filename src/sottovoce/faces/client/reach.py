"""Reach: what someone who pays from a part can still spend, for a part pays no more than the whole has left."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from sottovoce.privacy.filter import PrivacyFilter
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.pure import PureProfile

if TYPE_CHECKING:
    from sottovoce.faces.client.response_bodies import BudgetBody, RemainingBody

LIMITED = "limited by the budget that everyone shares"
_HAIR = 1e-9
"""Shares that differ by less are the same."""
_HALVINGS = 100


def reach(remaining: RemainingBody) -> tuple[float, bool]:
    """Return the share of one's budget that can still be spent, and whether the whole is what limits it.

    Where part and whole are not counted alike, it is about so much: what an answer costs either goes by its noise, and
    one with Gaussian noise is taken, or a single one that is pure where a budget pays for no other; several small ones
    may then add up to more.

    Parameters
    ----------
    remaining
        What `GET …/remaining` says: of one's own budget, where there is one, and of the whole.
    """
    yours, full = remaining["yours"], remaining["whole"]
    yours_left = _left(full if yours is None else yours)
    if yours is None or not yours_left:
        return yours_left, False
    part, everyone = (PrivacyFilter.from_dict(item["filter"]) for item in (yours, full))
    most = _left(full) * everyone.limit
    shared = _largest(part, everyone, most) / part.limit
    return (shared, True) if shared < yours_left * (1 - _HAIR) else (yours_left, False)


def of_periods(remaining: RemainingBody, periods: Iterable[str] | None) -> RemainingBody:
    """Return what is left of the fullest of some periods, or of all; the same where the data have none."""

    def narrowed(status: BudgetBody) -> BudgetBody:
        if (each := status.get("periods")) is None:
            return status
        return {**status, "spent": max(each[name] for name in (each if periods is None else periods))}

    yours = remaining["yours"]
    return {"yours": None if yours is None else narrowed(yours), "whole": narrowed(remaining["whole"])}


def covers(remaining: RemainingBody, profile: Profile) -> bool:
    """Return whether both one's own budget, where there is one, and the whole still pay for an answer."""
    for item in (remaining["yours"], remaining["whole"]):
        if item is not None:
            purse = PrivacyFilter.from_dict(item["filter"])
            if not purse.cost(profile.shown_to(purse.budget.relation)) <= _left(item) * purse.limit * (1 + _HAIR):
                return False
    return True


def _left(status: BudgetBody) -> float:
    """Return the share of a budget that is not spent; a hair is nothing."""
    return max(0.0, round(1 - float(status["spent"]), 9))


def _largest(part: PrivacyFilter, whole: PrivacyFilter, most: float) -> float:
    """Return what the largest answer that costs the whole so much costs a part of it."""
    relation = part.budget.relation
    costs = [purse.cost(GaussianProfile(1.0).about(relation)) for purse in (part, whole)]
    if all(math.isfinite(cost) for cost in costs):  # both go by μ²
        return most / costs[1] * costs[0]
    low, high = 0.0, max(part.limit, whole.limit, 1.0) * 64
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        fits = whole.cost(PureProfile(middle).about(relation)) <= most
        low, high = (middle, high) if fits else (low, middle)
    return part.cost(PureProfile(low).about(relation))
