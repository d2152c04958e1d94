"""Composition and filters against laws that are simply multiplied out."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from sottovoce.audit.checks.quadrature import hockey_stick, renyi
from sottovoce.audit.checks.result import check, verdict
from sottovoce.mechanisms import DirectPosterior
from sottovoce.mechanisms.conjugate import BetaBernoulli
from sottovoce.privacy.concentrated import ZeroConcentratedProfile
from sottovoce.privacy.discrete_gaussian import DiscreteGaussianProfile
from sottovoce.privacy.errors import BudgetExceeded, InvalidValue
from sottovoce.privacy.filter import GAUSSIAN, PrivacyFilter
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.laplace import DiscreteLaplaceProfile
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import ApproxDP, GaussianDP, Promise, PureDP, RenyiDP, ZeroConcentratedDP
from sottovoce.privacy.pure import BoundedRangeProfile, PureProfile
from sottovoce.service.ledger import charging

__all__ = ["composition", "costs", "every_order", "filters", "repeated_draws", "tiny_deltas"]

_EPSILONS = (0.0, 0.3, 1.0, 1.7)
_ORDERS = (1.5, 2.0, 5.0)


def _response(level: float) -> tuple[Floats, Floats]:
    """Return randomized response, the worst of all ε-private mechanisms: two outcomes under either neighbour."""
    yes = 1 / (1 + math.exp(-level))
    return np.log([yes, 1 - yes]), np.log([1 - yes, yes])


def _gaussian(mu: float) -> tuple[Floats, Floats]:
    points = np.linspace(-9.0, 9.0 + mu, 400)
    squares = -(points**2) / 2, -((points - mu) ** 2) / 2
    step = math.log((points[1] - points[0]) / math.sqrt(2 * math.pi))
    return squares[1] + step, squares[0] + step


def _noisy_count(scale: float) -> tuple[Floats, Floats]:
    k = np.arange(-30, 32)
    return tuple(x - math.log(np.exp(x).sum()) for x in (-np.abs(k) / scale, -np.abs(k - 1) / scale))  # type: ignore[return-value]


def _together(*laws: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Return the joint law of independent releases."""
    log_p, log_q = np.zeros(1), np.zeros(1)
    for p, q in laws:
        log_p, log_q = np.add.outer(log_p, p).ravel(), np.add.outer(log_q, q).ravel()
    return log_p, log_q


@check("composition covers the joint law")
def composition() -> tuple[bool, str]:
    """Releases multiplied out into one law must stay below the composed profile, in δ(ε) and in Rényi."""
    pure, count = PureProfile(0.6), DiscreteLaplaceProfile(2.0)
    together: list[tuple[str, Profile, tuple[Floats, Floats]]] = [
        ("two Gaussians", GaussianProfile(0.6) + GaussianProfile(0.8), _together(_gaussian(0.6), _gaussian(0.8))),
        ("three of one Gaussian", 3 * GaussianProfile(0.5), _gaussian(0.5 * math.sqrt(3))),
        ("five responses", 5 * pure, _together(*[_response(0.6)] * 5)),
        ("response and count", pure + count, _together(_response(0.6), _noisy_count(2.0))),
        ("Gaussian and count", GaussianProfile(0.7) + 2 * count, _together(_gaussian(0.7), *[_noisy_count(2.0)] * 2)),
    ]
    problems = []
    for name, claim, (log_p, log_q) in together:
        for epsilon, value, most in zip(
            _EPSILONS, hockey_stick(log_p, log_q, _EPSILONS), claim.delta(_EPSILONS), strict=True
        ):
            if value > most * (1 + 1e-3) + 1e-7:
                problems.append(f"{name}: δ({epsilon}) is {value:.6g} and {most:.6g} is claimed")
        for order in _ORDERS:
            value, most = renyi(log_p, log_q, order), claim.renyi(order)
            if value > most * (1 + 1e-6):
                problems.append(f"{name}: R({order}) is {value:.6g} and {most:.6g} is claimed")
        if problems:
            break
    sum_of_rho = (ZeroConcentratedProfile(0.1) + 2 * ZeroConcentratedProfile(0.2)).zcdp()
    if not math.isclose(sum_of_rho, 0.5):
        problems.append(f"ρ of 0.1 and twice 0.2 is {sum_of_rho}")
    return verdict(problems, f"{len(together)} compositions cover their joint laws")


@check("composed curves hold where δ is tiny")
def tiny_deltas() -> tuple[bool, str]:
    """A thousand responses of each of two levels, their law convolved from positive terms alone, down to 1e-15."""

    def responses(level: float, count: int) -> Floats:
        yes = 1 / (1 + math.exp(-level))
        return np.array([math.comb(count, k) * yes**k * (1 - yes) ** (count - k) for k in range(count + 1)])

    law, few = np.zeros(6001), responses(0.01, 1000)
    for k, mass in enumerate(responses(0.02, 1000)):
        law[4 * k : 4 * k + 2001 : 2] += mass * few
    losses = 0.01 * (np.arange(6001) - 3000)
    claim = 1000 * PureProfile(0.01) + 1000 * PureProfile(0.02)
    problems = []
    for delta in (1e-3, 1e-9, 1e-12, 1e-15):
        epsilon = float(claim.epsilon(delta))
        value = math.fsum(law * np.maximum(-np.expm1(epsilon - losses), 0.0))
        if not value <= delta * (1 + 1e-9):
            problems.append(f"ε = {epsilon:.6g} is claimed for δ = {delta:g}, and δ is {value:.6g}")
    return verdict(problems, "2,000 responses keep every claim from δ = 1e-3 to 1e-15")


@check("Rényi curves never fall, at any order")
def every_order() -> tuple[bool, str]:
    """A divergence is a number above zero that never falls with its order; orders that cannot be told apart are
    refused.
    """
    orders = np.array([1.0, 1 + 2**-52, 1 + 1e-15, 1 + 1e-9, 1.000001, 1.5, 2.0, 50.0, 1e6, 1e12, 1e15, 1e18])
    profiles: list[Profile] = [
        BoundedRangeProfile(9.19),
        BoundedRangeProfile(0.3),
        DiscreteGaussianProfile(0.4),
        PureProfile(800.0),
        PureProfile(0.1),
    ]
    problems = []
    for profile in profiles:
        values = np.asarray(profile.renyi(orders))
        if not np.all(values[1:] >= values[:-1] * (1 - 1e-9)) or not values[0] > 0:
            worst = int(np.argmin(np.nan_to_num(np.diff(values), nan=-np.inf)))
            problems.append(f"{profile.word}: R({orders[worst + 1]!r}) is {values[worst + 1]:.6g}")
    for order in (1 + 1e-15, 1e15):
        try:
            PrivacyFilter(RenyiDP(order, 1.0))
            problems.append(f"a budget at order {order!r} was opened")
        except InvalidValue:
            pass
    return verdict(problems, f"{len(profiles)} curves rise over {orders.size} orders, and two orders are refused")


@check("no cost gives budget back")
def costs() -> tuple[bool, str]:
    """A cost below zero, or none at all, must be refused by the filter and by the ledger's own sum."""
    budget: Any = SimpleNamespace(limit=1.0, dataset="x", filter=PrivacyFilter(PureDP(1.0)).to_dict())
    problems = []
    for cost in (-0.5, math.nan):
        for name, ask in (("filter", PrivacyFilter(PureDP(1.0)).fits), ("ledger", partial(_charge, budget))):
            try:
                ask(cost)
                problems.append(f"the {name} took a cost of {cost}")
            except InvalidValue:
                pass
            except BudgetExceeded:
                problems.append(f"the {name} weighed a cost of {cost}")
    return verdict(problems, "costs of -0.5 and NaN are refused by filter and ledger")


def _charge(budget: Any, cost: float) -> object:
    return charging.charged(budget, Fraction(0), cost)


@check("every draw is charged")
def repeated_draws() -> tuple[bool, str]:
    """The cost of k draws must cover k draws: here k = 3 of a posterior, by its Rényi curve, which adds."""
    mechanism = DirectPosterior(BetaBernoulli(6, 12), 10)
    released = mechanism.release([1] * 10, draws=3)
    problems = []
    for word, profile in (("quoted", mechanism.cost(3)), ("released", released.profile)):
        value, least = float(profile.renyi(2.0)), 3 * float(mechanism.profile.renyi(2.0))
        if value < least * (1 - 1e-12):
            problems.append(f"the {word} cost of three draws is {value:.6g} and one costs {least / 3:.6g}")
    return verdict(problems, "three draws cost three times one")


@check("filters stop before the budget is broken")
def filters() -> tuple[bool, str]:
    """Spend until refused; what was let through, composed exactly, must keep the budget and nearly use it."""
    cases: list[tuple[PrivacyFilter, Profile]] = [
        (PrivacyFilter(PureDP(1.0)), PureProfile(0.3)),
        (PrivacyFilter(GaussianDP(1.0)), GaussianProfile(0.3)),
        (PrivacyFilter(ZeroConcentratedDP(0.5)), ZeroConcentratedProfile(0.06)),
        (PrivacyFilter(RenyiDP(3.0, 1.0)), GaussianProfile(0.3)),
        (PrivacyFilter(ApproxDP(1.0, 1e-5)), GaussianProfile(0.08)),
        (PrivacyFilter(ApproxDP(1.0, 1e-5), GAUSSIAN), GaussianProfile(0.08)),
    ]
    problems, used = [], []
    for purse, profile in cases:
        budget = purse.budget
        count = next(k for k in itertools.count() if not _spend(purse, profile) or k > 100)
        used.append(count)
        total = GaussianProfile(profile.mu * math.sqrt(count)) if isinstance(profile, GaussianProfile) else None
        kept = total.satisfies(budget) if total and count else count * _number(profile) <= _number(budget)
        if not kept:
            problems.append(f"{count} releases of a {profile.word} profile went through a budget of {budget}")
        if not count:
            problems.append(f"a budget of {budget} let nothing through")
    return verdict(problems, f"{', '.join(map(str, used))} releases went through, and no more")


def _spend(purse: PrivacyFilter, profile: Profile) -> bool:
    if not purse.can_spend(profile):
        return False
    purse.spend(profile)
    return True


def _number(thing: Profile | Promise) -> float:
    """Return the ε or ρ that adds up."""
    match thing:
        case PureDP(number) | ZeroConcentratedDP(number):
            return number
        case PureProfile(level):
            return level
        case ZeroConcentratedProfile(rho):
            return rho
    return math.nan
