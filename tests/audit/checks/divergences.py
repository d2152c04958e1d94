"""The stated density of every pair of small neighbouring data sets against the claimed profile."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from scipy import special

from sottovoce.audit.cases_conjugate import Small, small_cases, stated
from sottovoce.audit.checks.quadrature import Nodes, hockey_stick, nodes, renyi
from sottovoce.audit.checks.result import check, verdict
from sottovoce.mechanisms import DiffusedPosterior, TemperedPosterior
from sottovoce.mechanisms.conjugate import BetaBernoulli
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.pairs import BetaPairs, GammaShapePairs, LikelihoodRatioProfile, Pairs
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.privacy.shares import percent

__all__ = ["breach", "densities", "poles", "public_records", "slow_tails", "windows"]

_ORDERS = (1.05, 1.5, 2.0, 4.0)
_EPSILONS = (0.0, 0.1, 0.5, 1.0, 2.0)
_RECORDS = 3


@check("densities keep their profile")
def densities() -> tuple[bool, str]:
    """Integrate the Rényi and hockey-stick divergences of all neighbours; none may exceed what is claimed.

    Where the claim is the exact supremum it must be reached, too.
    """
    problems, pairs = [], 0
    for case in small_cases(_RECORDS):
        orders = _orders(case.mechanism.profile)
        found = _divergences(case, neighbours(case), orders)
        pairs += len(found)
        problems += _against(case.name, case.mechanism.profile, found.max(axis=0), orders)
        if problems:
            break
    return verdict(
        problems, f"{pairs} neighbouring pairs of {len(small_cases(_RECORDS))} mechanisms, none above its claim"
    )


def neighbours(case: Small, known: tuple[Any, ...] = ()) -> Iterator[tuple[Any, Any]]:
    """Yield what is seen of every ordered pair of neighbours over the values of the case, up to equal statistics.

    All of them hold the `known` records.
    """
    seen, yielded = cache(lambda records: case.mechanism.see([*known, *records])), set()
    for remainder in itertools.combinations_with_replacement(case.values, case.mechanism.n - len(known) - 1):
        for x, y in itertools.permutations(case.values, 2):
            pair = seen((*remainder, x)), seen((*remainder, y))
            key = pair[0].total.tobytes(), pair[1].total.tobytes()
            if key not in yielded:
                yielded.add(key)
                yield pair


def _orders(profile: Profile) -> list[float]:
    """Return orders well below the pole: nearer to it the integrand falls too slowly for any grid."""
    return [order for order in _ORDERS if order < 1 + 0.7 * (profile.pole - 1)]


def _divergences(case: Small, pairs: Iterable[tuple[Any, Any]], orders: list[float]) -> Floats:
    """Return the divergences of each pair, a row each. What one data set is in many pairs is worked out once."""
    seen: dict[bytes, Any] = {}

    @cache
    def law(key: bytes) -> Any:
        return stated(case.mechanism, seen[key])

    @cache
    def density(grid: Nodes, key: bytes) -> Floats:
        return grid.log_density(law(key))

    found = []
    for pair in pairs:
        first, second = (one.total.tobytes() for one in pair)
        seen |= {first: pair[0], second: pair[1]}
        grid = nodes(law(first), law(second))
        log_p, log_q = density(grid, first), density(grid, second)
        by_order = [renyi(log_p, log_q, order) for order in orders]
        found.append([*by_order, *hockey_stick(log_p, log_q, _EPSILONS)])
    return np.array(found)


def _against(name: str, profile: Profile, found: Floats, orders: list[float]) -> list[str]:
    """Return what is wrong with a claim, given the largest divergences found."""
    problems = []
    claims = [*profile.renyi(np.array(orders)), *profile.delta(_EPSILONS)]
    labels = [*(f"R({o})" for o in orders), *(f"δ({e})" for e in _EPSILONS)]
    # Trapezoids lose a little at the kink of a hockey stick, more of it in the plane, and nothing elsewhere.
    room = [1e-6] * len(orders) + [1.5e-2] * len(_EPSILONS)
    for label, claim, value, slack in zip(labels, claims, found.tolist(), room, strict=True):
        if value > claim * (1 + slack) + 1e-9:
            problems.append(f"{name}: {label} is {value:.6g} and {claim:.6g} is claimed")
        elif profile.basis is Basis.EXACT and claim > value * (1 + slack) + 1e-6:
            problems.append(f"{name}: {label} is claimed exactly as {claim:.6g} and never above {value:.6g}")
    return problems


@check("tempered losses stay in their window")
def windows() -> tuple[bool, str]:
    """The privacy loss of a tempered posterior, at its own draws, must lie in a window of the claimed width."""
    problems, widest = [], 0.0
    for case in small_cases(_RECORDS):
        if not isinstance(case.mechanism, TemperedPosterior):
            continue
        for x, y in neighbours(case):
            p, q = stated(case.mechanism, x), stated(case.mechanism, y)
            draws = p.sample(500, seeded_rng(1))
            loss = p.log_density(draws) - q.log_density(draws)
            width, claim = float(np.ptp(loss)), case.mechanism.profile.pure()
            widest = max(widest, width / claim)
            if not width <= claim * (1 + 1e-9):
                problems.append(f"{case.name}: a window of {width:.6g} and {claim:.6g} is claimed")
    return verdict(problems, f"the widest window takes {percent(widest, whole=True)} of its claim")


@check("public records act as prior")
def public_records() -> tuple[bool, str]:
    """Public records move the prior and nothing else: not the private n, and not their own protection."""
    public = [1, 0, 1, 1, 0]
    mechanism = DiffusedPosterior(BetaBernoulli(2, 3).with_public(public), _RECORDS, 0.5)
    case = Small("with public records", mechanism, (0, 1))
    orders = _orders(mechanism.profile)
    found = _divergences(case, neighbours(case), orders).max(axis=0)
    problems = _against(case.name, mechanism.profile, found, orders)
    posterior = stated(mechanism, [1, 1, 0])
    expected = (2 + 3 + 0.5 * 2, 3 + 2 + 0.5 * 1)
    if not np.allclose((posterior.alpha, posterior.beta), expected):
        problems.append(f"the posterior is Beta({posterior.alpha}, {posterior.beta}) and should be Beta{expected}")
    return verdict(problems, f"five public records leave a pole at {mechanism.profile.pole:.4g}")


@check("a breach leaves what it says")
def breach() -> tuple[bool, str]:
    """With some records known, the profile of the others must match all data sets that hold the known ones."""
    known = (1, 1)
    mechanism = DiffusedPosterior(BetaBernoulli(2, 3), _RECORDS + len(known), 0.5)
    seen = mechanism.with_known_records(known)
    orders = _orders(seen.profile)
    whole = Small("with known records", mechanism, (0, 1))
    found = _divergences(whole, neighbours(whole, known), orders).max(axis=0)
    return verdict(_against(whole.name, seen.profile, found, orders), f"{seen.n} records stay protected")


@check("slow tails are followed to their end")
def slow_tails() -> tuple[bool, str]:
    """Far out a density of a logit or a logarithm is an exponential, so that δ(ε) of a small shape is a closed form."""
    problems, count = [], 0
    for shape in (1e-6, 1e-4, 1e-2):
        for step in (1e-7, 1e-3, 0.3):
            for reach in (60.0, 2e3, 0.5 / shape):
                rise = math.lgamma(shape + step) - math.lgamma(shape)
                # The threshold of log θ is -reach; of the logit of Beta(shape + step, shape) it is +reach.
                fall = float(special.betaln(shape + step, shape))
                closed: list[tuple[Pairs, float, float]] = [
                    (GammaShapePairs(shape, step), rise + step * reach, -shape * reach - math.lgamma(shape + 1)),
                    (BetaPairs(shape, shape, step), step * reach, -shape * reach - fall - math.log(shape)),
                ]
                for pairs, epsilon, log_mass in closed:
                    if epsilon < 0:
                        continue
                    value = math.exp(log_mass) * step / (shape + step)
                    claim = float(LikelihoodRatioProfile((pairs,)).delta(epsilon))
                    count += 1
                    if not value * (1 - 1e-9) <= claim <= min(value * (1 + 1e-6), 1.0):
                        problems.append(f"{pairs}: δ({epsilon:.6g}) is {value:.6g} and {claim:.6g} is claimed")
    return verdict(problems, f"{count} tails of small shapes, none cut off")


@check("Rényi curves keep their digits at the pole")
def poles() -> tuple[bool, str]:
    """Next to the pole almost nothing is left of a shape: fractions say how much."""
    problems, count = [], 0
    for shape, step in ((0.3, 0.1), (0.7, 0.3), (1e-3, 0.7), (11.0, 0.9)):
        for near in (1e-3, 1e-9, 1e-12):
            order = 1 + shape / step * (1 - near)
            left = float(Fraction(shape) - (Fraction(order) - 1) * Fraction(step))
            rise = math.lgamma(shape + step) - math.lgamma(shape)
            value = (math.lgamma(left) - math.lgamma(shape)) / (order - 1) + rise
            claim = float(LikelihoodRatioProfile((GammaShapePairs(shape, step),)).renyi(order))
            count += 1
            if not value * (1 - 1e-11) <= claim <= value * (1 + 1e-9):
                problems.append(f"Gamma({shape}) by {step}: R({order!r}) is {value:.12g} and {claim:.12g} is claimed")
    return verdict(problems, f"{count} orders next to their pole")
