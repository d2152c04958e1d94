"""Mechanisms that look several times: a list of sums, each asked where the answers before it led.

Such a mechanism is written as a generator: it yields a `Sum`, is sent the sum with noise on it, and returns what it
made of all the answers. Who adds the sums up (arrays in memory, a query on an engine) is no concern of it.

Sums are of whole numbers and their noise is discrete, so that the claim is about the bits that are let out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.lattice import lattice_mu
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import is_secure

__all__ = [
    "LARGEST_MU",
    "Steps",
    "Sum",
    "ask",
    "log_ratio",
    "noisy",
    "steps_in_one",
    "total_mu",
]

LARGEST_MU = 19.0
"""Discrete noise is proven Gaussian private up to here; (ε, 1e-5) with ε = 260 asks for no more."""
_FINEST = 16
"""Halvings of 1 that rows and residuals are rounded to: finer than that gains nothing."""
_BITS = 60
"""Noise this many bits long still fits a whole number of 64."""


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
        return np.concatenate([np.full(size, reach) for size, reach in self.blocks])

    def moved(self, seen: Any) -> Floats:
        """Return the sum beside its reach: what a replaced record moves by at most 1."""
        return self.of(seen) / self.reach


Steps = Generator[Sum, Floats, Any]
"""What asks sums and returns a value."""


def steps_in_one(n: int, mu: float) -> float:
    """Return how many steps there are in 1 for rows and residuals, by n and the least μ that is asked at.

    Both lie within −1 and 1 and are rounded to whole steps: every partial sum of n products is then a whole number
    below 2^53, in any order, so that a matrix product of all records is exact; and noise fits 64 bits. A sum that is
    rounded on its way can move by more than the one record that was replaced: where it crosses a power of two the
    others are rounded otherwise than before.

    >>> steps_in_one(1000, 0.1) == steps_in_one(10**6, 1.0) == 2.0**16, steps_in_one(10**9, 1.0) == 2.0**11
    (True, True)
    """
    bits = min(_FINEST, (52 - int(n).bit_length()) // 2, (_BITS - 6 - math.ceil(-math.log2(min(mu, 1.0)))) // 2)
    if bits < 4:
        raise InvalidValue(f"so much noise on so many records does not fit whole numbers: n = {n}, μ = {mu:.3g} a look")
    return 2.0**bits


def total_mu(mus: Iterable[float], reach: float, numbers: int) -> float:
    """Return the μ of sums of so many numbers, each asked given the answers before it, with noise of `reach`/μ steps.

    The noise is discrete, which costs a part in 10⁹; rounded up.

    >>> round(total_mu([0.3, 0.4], 2.0**32, 100), 6)
    0.5
    """
    return lattice_mu([(mu**2, reach / mu) for mu in mus if mu], numbers) * (1 + 1e-12)


def noisy(total: Floats, scale: float, rng: np.random.Generator) -> Floats:
    """Return whole numbers with discrete Gaussian noise: exact, or of a seeded generator for experiments at once.

    >>> from sottovoce.privacy.randomness import secure_rng
    >>> float(noisy(np.zeros(3), 1e6, secure_rng())[0]).is_integer()
    True
    """
    if not is_secure(rng):
        return np.asarray(total + np.rint(scale * rng.standard_normal(np.shape(total))))
    return IntegerNoise("gaussian", scale).add(np.asarray(total, dtype=np.int64), rng).astype(np.float64)


def ask(steps: Steps, seen: Any, rng: np.random.Generator, heard: list[Floats] | None = None) -> Any:
    """Run the steps on records: every answer is the sum with its noise, beside its reach.

    Every answer is appended to `heard`; together they are all that the records ever tell.
    """
    try:
        question = next(steps)
        while True:
            exact, parts, place = question.of(seen), [], 0
            for size, reach in question.blocks:
                parts.append(noisy(exact[place : place + size], reach / question.mu, rng) / reach)
                place += size
            answer = np.concatenate(parts)
            if heard is not None:
                heard.append(answer)
            question = steps.send(answer)
    except StopIteration as end:
        return end.value


def log_ratio(steps: Steps, pair: tuple[Any, Any], answers: Floats) -> float:
    """Return log of the weight of these answers, flat, under the first records over that under the second."""
    found, place = 0.0, 0
    try:
        question = next(steps)
        while True:
            first, second = (question.moved(seen) for seen in pair)
            answer = answers[place : place + first.size]
            place += first.size
            found += question.mu**2 * float((first - second) @ (answer - (first + second) / 2))
            question = steps.send(answer)
    except StopIteration:
        return found
