"""Metric privacy: posteriors of two data sets, their densities written out, against what the distance allows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sottovoce.audit.checks.result import check, verdict
from sottovoce.theory.metric import distinguishability
from sottovoce.theory.metric.networks import network_privacy
from sottovoce.theory.metric.posterior_pairs import BinomialProportion, ExponentialRate, NormalPrecision

__all__ = ["adversaries", "distances", "networks"]


LogJoint = Callable[[Any, Any], Any]
_MEAN = 3.0


def _waiting(t: Any, x: Any) -> Any:
    return len(x) * np.log(t) - t * (1 + sum(x))


def _tossed(t: Any, x: Any) -> Any:
    return sum(x) * np.log(t) + (len(x) - sum(x)) * np.log(1 - t)


def _precise(t: Any, x: Any) -> Any:
    return len(x) / 2 * np.log(t) - t * (1 + sum((value - _MEAN) ** 2 for value in x) / 2)


@check("posteriors move no farther than their distance allows")
def distances() -> tuple[bool, str]:
    """The log-ratio of two posteriors under a bounded prior, on a grid, and their total variation."""
    cases: list[tuple[Any, float, tuple[float, float], LogJoint, list[Any], list[Any]]] = [
        (ExponentialRate(1.0), 2.0, (1e-6, 2.0), _waiting, [0.0, 1.0], [1.0, 1.0]),
        (BinomialProportion(1.0, 1.0), 0.1, (0.1, 0.9), _tossed, [0, 0, 1], [1, 1, 1]),
        (NormalPrecision(_MEAN, 1.0), 0.5, (1e-6, 2.0), _precise, [0.0, 1.0], [-1.0, 1.0]),
    ]
    problems, nearest = [], 0.0
    for family, limit, (low, high), log_joint, x, y in cases:
        privacy, grid = family.bounded(limit), np.linspace(low, high, 20_001)
        p, q = (log_joint(grid, data) - np.log(np.exp(log_joint(grid, data)).mean()) for data in (x, y))
        moved, claimed = float(np.abs(p - q).max()), privacy.log_ratio_bound(x, y)
        apart = float(np.abs(np.exp(p) - np.exp(q)).mean() / 2)
        nearest = max(nearest, moved / claimed)
        if moved > claimed:
            problems.append(f"{type(family).__name__}: a log-ratio of {moved:.4g} and {claimed:.4g} is allowed")
        if apart > float(privacy.profile(x, y).delta(0.0)):
            problems.append(f"{type(family).__name__}: total variation {apart:.4g}")
    return verdict(problems, f"three families, the nearest at {nearest:.2f} of its bound")


@check("a network's distance counts every factor that moves")
def networks() -> tuple[bool, str]:
    """Two bits, every pair of records and of tables at the least probability, written out."""
    least, problems, largest = 0.05, [], 0.0
    privacy = network_privacy(((), (0,)), least)
    ends = (least, 1 - least)
    for first, copy, other in itertools.product(ends, repeat=3):

        def log_chance(record: tuple[int, int], chances: tuple[float, ...] = (first, copy, other)) -> float:
            one = chances[0] if record[0] else 1 - chances[0]
            two = chances[1 + record[0]] if record[1] else 1 - chances[1 + record[0]]
            return math.log(one) + math.log(two)

        for x, y in itertools.permutations(itertools.product((0, 1), repeat=2), 2):
            moved, allowed = abs(log_chance(x) - log_chance(y)), privacy.lipschitz * privacy.distance([x], [y])
            largest = max(largest, moved / allowed)
            if moved > allowed * (1 + 1e-9):
                problems.append(f"{x} and {y}: log-likelihoods {moved:.4g} apart and {allowed:.4g} allowed")
    return verdict(problems, f"96 pairs, the largest at {largest:.3f} of what is allowed")


@check("no guess is promised to be worse than the best one")
def adversaries() -> tuple[bool, str]:
    """Two data sets with equal chances, one answer of randomized response: the best guess, against Le Cam's bound."""
    problems = []
    for tv in (0.0, 0.3, 0.9):
        # Naming the likelier of two data sets is wrong with chance (1 − TV)/2, and then off by the whole distance.
        best, claimed = 2.0 * (1 - tv) / 2, distinguishability.guess_error(2.0, tv)
        if claimed > best * (1 + 1e-12):
            problems.append(f"TV {tv}: an error of {best:.3g} is reached and {claimed:.3g} is promised")
    return verdict(problems, "three pairs, none promised more than the best guess reaches")
