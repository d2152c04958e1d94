"""Mechanisms that look several times: a list of sums, each asked where the answers before it led.

Such a mechanism is written as a generator: it yields a `Sum`, is sent the sum with noise on it, and returns what it
made of all the answers. Who adds the sums up (arrays in memory, a query on an engine) is no concern of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sottovoce.mechanisms.grid import to_grid
from sottovoce.privacy.numbers import Floats

__all__ = ["Steps", "Sum", "ask", "exact_sum", "fine_steps", "log_ratio", "paired_steps", "total_mu"]


@dataclass(frozen=True, eq=False)
class Sum:
    """A sum over the records, a flat array, that one replaced record moves by at most 1; and the μ it is asked at."""

    of: Callable[[Any], Floats]
    mu: float


Steps = Generator[Sum, Floats, Any]
"""What asks sums and returns a value."""


def fine_steps(n: int) -> float:
    """Return how many steps there are in 1 such that a double holds the sum of n numbers within −1 and 1 exactly."""
    return 2.0 ** (52 - int(n).bit_length())


def exact_sum(parts: Floats) -> Floats:
    """Return Σ of numbers within −1 and 1, one row a record, each rounded to a grid on which the sum is exact.

    A rounded sum of many can move by more than the one record that was replaced: where it crosses a power of two the
    others are rounded otherwise than before.

    >>> exact_sum(np.array([[1.0], [0.1]])).round(9).tolist()
    [1.1]
    """
    steps = fine_steps(len(parts))
    return np.asarray(np.rint(parts * steps).sum(axis=0) / steps)


def paired_steps(n: int) -> float:
    """Return how many steps there are in 1 such that a double holds the sum of n products of two numbers exactly.

    Both lie within −1 and 1 and are rounded to whole steps: every partial sum is then a whole number below 2^53, in any
    order, so that a matrix product of all records is exact.

    >>> paired_steps(10**6) == 2.0**16
    True
    """
    return 2.0 ** ((52 - int(n).bit_length()) // 2)


def total_mu(mus: Any) -> float:
    """Return the μ of all sums together, each asked given the answers before it, rounded up."""
    return math.sqrt(math.fsum(float(mu) ** 2 for mu in mus)) * (1 + 1e-12)


def ask(steps: Steps, seen: Any, rng: np.random.Generator, heard: list[Floats] | None = None) -> Any:
    """Run the steps on records: Gaussian noise 1/μ on every number, rounded to a public grid.

    Every answer is appended to `heard`; together they are all that the records ever tell.
    """
    try:
        question = next(steps)
        while True:
            exact = question.of(seen)
            answer = to_grid(exact + rng.standard_normal(exact.shape) / question.mu, 1 / question.mu)
            if heard is not None:
                heard.append(answer)
            question = steps.send(answer)
    except StopIteration as end:
        return end.value


def log_ratio(steps: Steps, pair: tuple[Any, Any], answers: Floats) -> float:
    """Return log of the density of these answers, flat, under the first records over that under the second."""
    found, place = 0.0, 0
    try:
        question = next(steps)
        while True:
            first, second = (question.of(seen) for seen in pair)
            answer = answers[place : place + first.size]
            place += first.size
            found += question.mu**2 * float((first - second) @ (answer - (first + second) / 2))
            question = steps.send(answer)
    except StopIteration:
        return found
