"""Choices, chains, parts, slacks and families small enough to be counted out: no claim may be below what is counted."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import numpy as np
from scipy import special

from sottovoce.audit.checks.result import check, verdict
from sottovoce.mechanisms import ChoiceChain, ExponentialChoice, FunctionOf, NoisyStatistics, Outcomes, choice_chain
from sottovoce.mechanisms.conjugate import Gamma
from sottovoce.mechanisms.conjugate.exponential_family import ExponentialFamily
from sottovoce.privacy.approximate_sampling import SlackProfile
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.laplace import DiscreteLaplaceProfile
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.pure import PureProfile
from sottovoce.privacy.relation import ADD_REMOVE
from sottovoce.privacy.subsampled import SubsampledProfile
from sottovoce.records.facts.columns import Flag, Number
from sottovoce.records.readings import ClippedSum, FunctionRows, FunctionValue

__all__ = ["choices", "declared", "families", "parts", "slacks", "steps_of_chains"]

_EPSILONS = (0.0, 0.2, 0.6, 1.2)


def _above(what: str, profile: Profile, p: Floats, q: Floats) -> list[str]:
    """Say where two counted laws lie farther apart than a profile claims."""
    found = []
    for epsilon in _EPSILONS:
        truth, claimed = float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum()), float(profile.delta(epsilon))
        if truth > claimed * (1 + 1e-9) + 1e-15:
            found.append(f"{what}: δ({epsilon:g}) is {truth:.4g} and {claimed:.4g} is claimed")
    return found


def _neighbours(values: Sequence[Any], n: int) -> Any:
    for rest in itertools.combinations_with_replacement(values, n - 1):
        yield from (((*rest, a), (*rest, b)) for a, b in itertools.permutations(values, 2))


@check("finite choices keep their window")
def choices() -> tuple[bool, str]:
    """The law of a choice on every table of four counts and every neighbour of it."""
    mechanism, problems, pairs = ExponentialChoice.example(), [], 0
    for first, second in _neighbours(range(3), mechanism.n):
        p, q = (mechanism.probabilities(mechanism.see(list(records))) for records in (first, second))
        problems += _above("a choice", mechanism.profile, p, q)
        pairs += 1
    return verdict(problems, f"{pairs} neighbouring tables, none above its claim")


def _vote(record: bool) -> list[bool]:
    return [not record, record]


@check("a part of the records costs its curve")
def parts() -> tuple[bool, str]:
    """A noisy count of a part of five records, and a step of a chain on one of three: every part is counted over."""
    problems, k = [], np.arange(-60, 66)
    for m in (1, 2, 4):
        profile = SubsampledProfile(DiscreteLaplaceProfile(0.5, 1), m / 5)

        def law(records: Sequence[int], m: int = m) -> Floats:
            each = [np.exp(-np.abs(k - sum(part)) / 0.5) for part in itertools.combinations(records, m)]
            return np.asarray(np.mean([one / one.sum() for one in each], axis=0))

        for ones in range(5):
            p, q = law([1] * ones + [0] * (5 - ones)), law([1] * (ones + 1) + [0] * (4 - ones))
            problems += _above(f"{m} of 5 records", profile, p, q) + _above(f"{m} of 5 records", profile, q, p)
    chain = ChoiceChain(Outcomes(("no", "yes"), FunctionRows(_vote, (Flag(),), 0, 1, 2)), 3, (4.0,), part=1)

    def step(records: Sequence[bool]) -> Floats:
        weights = np.exp(2.0 * np.array([_vote(record) for record in records], dtype=np.float64))
        return np.asarray(np.mean(weights / weights.sum(axis=1, keepdims=True), axis=0))

    for first, second in _neighbours((False, True), 3):
        problems += _above("a step of a chain", chain.profile, step(first), step(second))
    problems += _coins()
    return verdict(problems, "30 pairs of counts, 6 of steps and 2 of coins, none above its claim")


def _coins() -> list[str]:
    """Ten noisy responses, each with a coin that decides whether the one record that is there takes part."""
    yes, rate, times = float(special.expit(2.0)), 0.05, 10
    profile = SubsampledProfile(PureProfile(2.0, relation=ADD_REMOVE), rate)
    shares = np.array([(1 - rate) * (1 - yes) + rate * yes, 1 - yes])
    hits = np.arange(times + 1.0)
    with_one, without = (special.binom(times, hits) * p**hits * (1 - p) ** (times - hits) for p in shares)
    problems = _above("one more", times * profile, with_one, without) + _above(
        "one less", times * profile, without, with_one
    )
    first, second = (np.array([p, 1 - p]) for p in shares)
    for order in (1.5, 8.0, 60.0):
        truth, claimed = math.log(np.sum(first**order * second ** (1 - order))) / (order - 1), profile.renyi(order)
        if truth > claimed * (1 + 1e-9):
            problems.append(f"the divergence of order {order:g} is {truth:.4g} and {claimed:.4g} is claimed")
    return problems


@check("a chain's steps weigh scores by their window")
def steps_of_chains() -> tuple[bool, str]:
    """What a chain hands to its exact sampler, for every table of three votes and every neighbour of it."""
    handed: list[Any] = []

    def spy(weights: Any, rng: Any, base: Any) -> int:
        handed.append(np.array([float(weight) for weight in weights]))
        return 0

    problems, largest = [], 0.0
    for low, high, window in ((0.0, 1.0, 0.5), (-3.0, 0.5, 2.0)):
        scores = FunctionRows(
            lambda yes, low=low, high=high: [low, high] if yes else [high, low], (Flag(),), low, high, 2
        )
        chain = ChoiceChain(Outcomes(("no", "yes"), scores), 3, (window,))
        with mock.patch.object(choice_chain, "choose", spy):
            for first, second in _neighbours((False, True), 3):
                for records in (first, second):
                    chain.release(list(records))
                p, q = (np.exp(weights) / np.exp(weights).sum() for weights in handed[-2:])
                largest = max(largest, float(np.ptp(np.log(p / q))) / window)
                problems += _above("a step of a chain", chain.profile, p, q)
    if largest > 1 + 1e-9:
        problems.append(f"one record moves the exponents {largest:.3g} times as far as the window says")
    return verdict(problems, f"12 pairs, the largest move {largest:.3f} of its window")


@check("a slack is charged to both laws")
def slacks() -> tuple[bool, str]:
    """Randomized response of which either side moves γ to a place of its own: once, and twice in a row."""
    problems, gamma = [], 0.01
    lie = special.expit(-1.0)
    p = np.array([1 - lie, lie - gamma, gamma, 0.0])
    q = np.array([lie - gamma, 1 - lie, 0.0, gamma])
    profile = SlackProfile(PureProfile(1.0), gamma)
    problems += _above("one release", profile, p, q)
    problems += _above("two releases", 2 * profile, np.outer(p, p).ravel(), np.outer(q, q).ravel())
    return verdict(problems, "the worst laws within γ of ε-private ones, none above its claim")


class _Rate(ExponentialFamily):
    """A Gamma rate of waiting times up to 2."""

    word = "counted rate"
    orders = (1.1, 1.5)

    @property
    def reading(self) -> ClippedSum:
        """The sum of the times."""
        return ClippedSum(0.0, 2.0)

    def normalizer(self, chi: Any, nu: Any) -> Any:
        """Return log of ∫ θ^(ν-1) e^(-χθ) dθ."""
        return nu.lgamma() - nu * chi.log()

    def domain(self, nu: Any) -> tuple[Any, Any]:
        """χ must be above zero."""
        return 0, None

    def distribution(self, chi: Any, nu: Any) -> Gamma:
        """Return Gamma(ν, χ)."""
        return Gamma(float(nu), float(chi))


@check("a proven search is never below brute force")
def families() -> tuple[bool, str]:
    """The largest divergence of a Gamma family over many tables, in doubles, against what the search proves."""
    problems, shape = [], 3.0
    for n, order in ((1, 1.5), (6, 1.2), (6, 1.9)):
        rest = 4.0 + np.linspace(0.0, 2.0 * (n - 1), 201)
        for p, q in ((rest, rest + 2.0), (rest + 2.0, rest)):
            mixed = order * p + (1 - order) * q
            # log Γ(ν) cancels: R = ν·[(λ log p − log mixed)/(λ−1) − log q].
            worst = (shape + n) * float(np.max((order * np.log(p) - np.log(mixed)) / (order - 1) - np.log(q)))
            bound = _Rate(chi=4.0, nu=shape).worst(n, order).bound
            if bound < worst * (1 - 1e-12):
                problems.append(f"n={n}, order {order}: {bound:.6g} is claimed, and some table has {worst:.6g}")
    return verdict(problems, "six searches, none below brute force")


def _jump(records: Sequence[float]) -> float:
    return float(np.median(records))


@check("declared sensitivities are tried")
def declared() -> tuple[bool, str]:
    """Functions that one record moves farther than is declared, and one that answers by chance."""
    wrong: dict[str, Callable[[Any], float]] = {"a median": _jump, "the first record": lambda records: records[0]}
    problems = []
    for name, function in wrong.items():
        reading = FunctionValue(function, (Number(0, 1),), 0, 1, sensitivity=0.2)
        try:
            NoisyStatistics(FunctionOf(reading), 9, "laplace", 1.0)
            problems.append(f"{name}, which one record moves by 1, passes with a declared sensitivity of 0.2")
        except InvalidValue:
            pass
    return verdict(problems, f"{len(wrong)} wrong declarations, each refused before any data")
