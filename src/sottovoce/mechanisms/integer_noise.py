"""Noise on the integers: secure from OpenDP, reproducible from an exact sampler of our own.

Noise made of floating-point numbers leaks through which numbers can occur (Mironov 2012), so every noisy statistic here
is a whole number of grid steps with discrete Laplace or discrete Gaussian noise.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, Integers, real
from sottovoce.privacy.randomness import is_secure

NoiseKind = Literal["laplace", "gaussian"]

_MANY = 4096
"""More seeded noise than this is drawn at once rather than one by one in whole-number arithmetic."""


@dataclass(frozen=True)
class IntegerNoise:
    """Discrete Laplace, Pr[k] ∝ e^(-|k|/scale), or discrete Gaussian, Pr[k] ∝ e^(-k²/(2 scale²)).

    >>> round(IntegerNoise("laplace", 2.0).variance, 3)
    7.835
    """

    kind: NoiseKind
    scale: float

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or self.kind not in ("laplace", "gaussian"):
            raise InvalidValue(f"noise must be 'laplace' or 'gaussian'. Got {self.kind!r}")
        object.__setattr__(self, "scale", real("scale", self.scale, above=0.0))

    def log_weight(self, k: object) -> Floats:
        """Return log Pr[k] up to a constant; k may lie between the integers."""
        x = np.asarray(k, dtype=np.float64) / self.scale
        return -np.abs(x) if self.kind == "laplace" else -x * x / 2

    @cached_property
    def variance(self) -> float:
        """The variance of the noise."""
        if self.kind == "laplace":
            return float(1 / (2 * np.sinh(min(0.5 / self.scale, 300.0)) ** 2))
        if self.scale > 10:  # the discrete Gaussian's variance is σ² up to e^(-2π²σ²)
            return self.scale**2
        k = np.arange(-400, 401)
        weights = np.exp(self.log_weight(k))
        return float(k * k @ weights / weights.sum())

    def nodes(self, count: int) -> tuple[Floats, Floats]:
        """Return Gauss points of the noise's law and their weights: averages over the noise, without drawing it.

        >>> points, weights = IntegerNoise("laplace", 2.0).nodes(9)
        >>> round(float(weights @ points**2), 3)
        7.835
        """
        step = max(1.0, self.scale / 50)
        reach = (40 if self.kind == "laplace" else 9) * self.scale + 2
        k = step * np.arange(-int(reach / step) - 1, int(reach / step) + 2)
        weights = np.exp(self.log_weight(k))
        weights /= weights.sum()
        if (spread := float(k * k @ weights)) > 0:  # of next to no noise nothing but none is left
            k = k * np.sqrt(self.variance / spread)  # as spread as the noise on every whole number
        count = min(count, int(np.sum(weights > 1e-12)))
        # Lanczos: the law's own orthogonal polynomials, whose zeros are the points.
        basis, off = [np.sqrt(weights)], []
        while len(basis) < count:
            fresh = k / self.scale * basis[-1]
            for _ in range(2):
                fresh = fresh - np.array(basis).T @ (np.array(basis) @ fresh)
            off.append(float(np.linalg.norm(fresh)))
            basis.append(fresh / off[-1])
        points, vectors = np.linalg.eigh(np.diag(off, 1) + np.diag(off, -1)) if off else (np.zeros(1), np.ones((1, 1)))
        return points * self.scale, vectors[0] ** 2

    def add(self, counts: Integers, rng: np.random.Generator) -> Integers:
        """Return the counts with noise: from OpenDP, unless `rng` was seeded for an experiment."""
        if is_secure(rng):
            return self._add_secure(counts)
        if counts.size > _MANY:
            return counts + _many(self, counts.size, rng)
        draw = _Exact(rng).laplace if self.kind == "laplace" else _Exact(rng).gaussian
        # Six digits: the last ones of a calibrated scale differ from machine to machine, and would change every draw.
        scale = Fraction(f"{self.scale:.6g}")
        return counts + np.array([draw(scale) for _ in range(counts.size)], dtype=np.int64)

    def rows(self, counts: Integers, rng: np.random.Generator, draws: int) -> Integers:
        """Return the counts with fresh noise `draws` times, a row each.

        >>> from sottovoce.privacy.randomness import seeded_rng
        >>> IntegerNoise("laplace", 2.0).rows(np.array([10, 20]), seeded_rng(1), 3).shape
        (3, 2)
        """
        # So much seeded noise for an attack that it is drawn at once, in less time than a little of it.
        lot = draws if draws == 1 or is_secure(rng) else max(draws, _MANY // max(counts.size, 1) + 1)
        return self.add(np.tile(counts, lot), rng).reshape(lot, counts.size)[:draws]

    def _add_secure(self, counts: Integers) -> Integers:
        return np.array(_measurement(threading.get_ident(), self)(counts.tolist()), dtype=np.int64)


def noise_log_ratio(
    noises: Sequence[IntegerNoise], first: Sequence[Any], second: Sequence[Any]
) -> Callable[[object], Floats]:
    """Return log of the probability of noisy numbers, each with its noise, about the first centres over the second.

    Each of the centres is a number or an array of them; what is noisy has all of them in a row, last axis.

    >>> noise_log_ratio([IntegerNoise("laplace", 2.0)], [1], [0])([[1.0], [0.0]]).tolist()
    [0.5, -0.5]
    """
    ends = np.cumsum([np.size(centre) for centre in first])[:-1]

    def weight(noisy: object, centres: Sequence[object]) -> Floats:
        parts = np.split(np.asarray(noisy), ends, axis=-1)
        each = zip(noises, parts, centres, strict=True)
        return np.asarray(sum(noise.log_weight(np.rint(x - c)).sum(axis=-1) for noise, x, c in each))

    return lambda noisy: np.asarray(weight(noisy, first) - weight(noisy, second))


@functools.lru_cache(maxsize=256)
def _measurement(thread: int, noise: IntegerNoise) -> Any:
    """Return OpenDP's measurement for a noise, made once for each thread: making it takes longer than the noise."""
    # A large library that only a release needs; its prelude would bring scikit-learn and Polars along (80 MB).
    from opendp import domains, measurements, metrics, mod  # noqa: PLC0415

    del thread
    mod.enable_features("contrib")
    vector = domains.vector_domain(domains.atom_domain(T="i64"))
    if noise.kind == "laplace":
        return measurements.make_laplace(vector, metrics.l1_distance(T="i64"), scale=noise.scale)
    return measurements.make_gaussian(vector, metrics.l2_distance(T="i64"), scale=noise.scale)


def _many(noise: IntegerNoise, size: int, rng: np.random.Generator) -> Integers:
    """Draw much seeded noise at once, in floating point: fit for experiments, and nothing seeded is ever published."""
    if noise.kind == "laplace":
        first, second = rng.geometric(-np.expm1(-1 / noise.scale), (2, size))
        return np.asarray(first - second, dtype=np.int64)
    envelope = IntegerNoise("laplace", float(np.floor(noise.scale)) + 1)
    out, waiting = np.empty(size, dtype=np.int64), np.arange(size)
    while waiting.size:
        draw = _many(envelope, waiting.size, rng)
        gap = np.abs(draw) - noise.scale**2 / envelope.scale
        taken = rng.random(waiting.size) < np.exp(-(gap**2) / (2 * noise.scale**2))
        out[waiting[taken]] = draw[taken]
        waiting = waiting[~taken]
    return out


class _Exact:
    """Exact samplers in whole-number arithmetic (Canonne, Kamath and Steinke 2020, Algorithms 1-3)."""

    def __init__(self, rng: np.random.Generator) -> None:
        # The words of `rng.bytes`, taken one by one: a call of it takes longer than all else that a draw needs.
        raw = rng.bit_generator.ctypes
        self._word: Callable[[], int] = functools.partial(raw.next_uint32, raw.state)

    def _below(self, top: int) -> int:
        """Return a uniform whole number in [0, top)."""
        bits = (top.bit_length() + 7) & ~7
        full = 1 << bits
        limit = full - full % top
        while True:
            draw = self._word()
            for shift in range(32, bits, 32):
                draw |= self._word() << shift
            draw &= full - 1
            if draw < limit:
                return draw % top

    def _exp(self, above: int, below: int) -> bool:
        """Return true with probability e^-γ, γ = above/below >= 0."""
        while above > below:
            if not self._exp(1, 1):
                return False
            above -= below
        shared = math.gcd(above, below)
        above, below, k = above // shared, below // shared, 1
        while self._below(below * k) < above:
            k += 1
        return k % 2 == 1

    def laplace(self, scale: Fraction) -> int:
        """Return k with probability proportional to e^(-|k|/scale)."""
        top, bottom = scale.numerator, scale.denominator
        while True:
            low = self._below(top)
            if not self._exp(low, top):
                continue
            high = 0
            while self._exp(1, 1):
                high += 1
            size, negative = (low + top * high) // bottom, self._below(2) == 1
            if size or not negative:
                return -size if negative else size

    def gaussian(self, scale: Fraction) -> int:
        """Return k with probability proportional to e^(-k²/(2 scale²))."""
        step, p, q = Fraction(int(scale) + 1), scale.numerator, scale.denominator
        unit = step.numerator * q * q
        while True:
            draw = self.laplace(step)
            # (|k| - scale²/step)²/(2 scale²)
            if self._exp((abs(draw) * unit - p * p) ** 2, 2 * (p * q * step.numerator) ** 2):
                return draw
