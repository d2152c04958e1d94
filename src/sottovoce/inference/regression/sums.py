"""Mechanisms that look several times: a list of sums, each asked where the answers before it led.

Such a mechanism is written as a generator: it yields a `Sum`, is sent the sum with noise on it, and returns what it
made of all the answers. Who adds the sums up (arrays in memory, a query on an engine) is no concern of it.

Sums are of whole numbers, exact in any order, and their noise is exactly rounded: what is let out is the public cell in
which a real normal number around the sum lies, so that the claim of Gaussian privacy is about the bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sottovoce.mechanisms.exact_normals import exact_normals
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats

LARGEST_MU = 19.0
"""More is no promise that anyone asks for: (ε, 1e-5) with ε = 260 is less."""
_FINEST = 16
"""Halvings of 1 that rows and residuals are rounded to: finer than that gains nothing."""


@dataclass(frozen=True, eq=False)
class Sum:
    """A flat sum of whole numbers over the records, in blocks, and the μ it is asked at.

    One replaced record moves the blocks by Δ₁, Δ₂, … with Σ(‖Δ‖/reach)² ≤ 1; noise reach/μ on each makes it μ-GDP.
    """

    of: Callable[[Any], Floats]
    blocks: tuple[tuple[int, float], ...]
    """Of each block how many numbers it has, and its reach in steps."""
    mu: float

    @property
    def reach(self) -> Floats:
        """The reach of every number."""
        sizes, reaches = zip(*self.blocks, strict=True)
        return np.repeat(reaches, sizes)

    def moved(self, seen: Any) -> Floats:
        """Return the sum beside its reach: what a replaced record moves by at most 1."""
        return self.of(seen) / self.reach


Steps = Generator[Sum, Floats, Any]
"""What asks sums and returns a value."""


def steps_in_one(n: int) -> float:
    """Return how many steps there are in 1 for rows and residuals of n records.

    Both lie within −1 and 1 and are rounded to whole steps: every partial sum of n products is then a whole number
    below 2^53, in any order, so that a matrix product of all records is exact. A sum that is rounded on its way can
    move by more than the one record that was replaced: where it crosses a power of two the others are rounded otherwise
    than before.

    >>> steps_in_one(1000) == steps_in_one(10**6) == 2.0**16, steps_in_one(10**9) == 2.0**11
    (True, True)
    """
    bits = min(_FINEST, (52 - int(n).bit_length()) // 2)
    if bits < 4:
        raise InvalidValue(f"sums of so many records do not fit whole numbers of 53 bits: n = {n}")
    return 2.0**bits


def total_mu(mus: Iterable[float]) -> float:
    """Return the μ of sums each asked given the answers before it, rounded up by more than a noise's double is off.

    >>> round(total_mu([0.3, 0.4]), 9)
    0.5
    """
    return math.hypot(*mus) * (1 + 1e-12)


def ask(
    steps: Steps, seen: Any, rng: np.random.Generator, heard: list[Floats] | None = None, draws: int | None = None
) -> Any:
    """Run the steps on records: every answer is the sum with its noise, beside its reach.

    Every answer is appended to `heard`; together they are all that the records ever tell. With `draws` so many releases
    are made at once, each with noise of its own: they are the first axis of every answer.
    """
    try:
        question = next(steps)
        while True:
            exact, parts, place = question.of(seen), [], 0
            if draws is not None:
                exact = np.broadcast_to(exact, (draws, exact.shape[-1]))
            for size, reach in question.blocks:
                parts.append(exact_normals(exact[..., place : place + size], reach / question.mu, rng) / reach)
                place += size
            answer = np.concatenate(parts, axis=-1)
            if heard is not None:
                heard.append(answer)
            question = steps.send(answer)
    except StopIteration as end:
        return end.value


def log_ratio(steps: Steps, pair: tuple[Any, Any], answers: Floats) -> Floats:
    """Return log of the weight of answers, a row a release, under the first records over that under the second."""
    result, place = np.zeros(answers.shape[:-1]), 0
    try:
        question = next(steps)
        while True:
            reach = question.reach
            first, second = (question.of(seen) / reach for seen in pair)
            answer = answers[..., place : place + first.shape[-1]]
            place += first.shape[-1]
            result = result + question.mu**2 * np.sum((first - second) * (answer - (first + second) / 2), axis=-1)
            question = steps.send(answer)
    except StopIteration:
        return result
