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

__all__ = ["Steps", "Sum", "ask", "log_ratio", "total_mu"]


@dataclass(frozen=True, eq=False)
class Sum:
    """A sum over the records, a flat array, that one replaced record moves by at most 1; and the μ it is asked at."""

    of: Callable[[Any], Floats]
    mu: float


Steps = Generator[Sum, Floats, Any]
"""What asks sums and returns a value."""


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
