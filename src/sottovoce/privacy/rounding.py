"""Rounding up: a claim in doubles is never below what it claims in real numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import overload

import numpy as np

from sottovoce.privacy.numbers import Floats, ceil_float, sqrt_up, two_product

UP = 1 + 2.0**-49
"""More than a few operations, or one function of NumPy's, can take from a number."""
LEAST = 5e-324
"""The least double above zero: what is told of anything smaller."""


def lifted(values: object, by: float | Floats = UP) -> Floats:
    """Return numbers >= 0 with what a few operations may have taken from them; zero stays zero.

    >>> lifted([0.0, 1.0]).tolist() == [0.0, UP]
    True
    """
    values = np.asarray(values, dtype=np.float64)
    with np.errstate(over="ignore"):
        return np.asarray(np.where(values > 0, values * by + LEAST, values))


def log_lifted(log_delta: object) -> Floats:
    """Return log δ with what rounding may have taken from it, no larger than 0."""
    values = np.asarray(log_delta, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        return np.where(values == -np.inf, -np.inf, np.minimum(values + 1e-15 * (2.0 - values), 0.0))


def log_down(delta: object) -> Floats:
    """Return a logarithm of δ that is not above the real one: whoever has it has δ."""
    with np.errstate(divide="ignore"):
        values = np.log(np.asarray(delta, dtype=np.float64))
    return np.where(values == -np.inf, -np.inf, values - 2.0**-51 * np.abs(values))


def half_gap(epsilon: Floats, most: float) -> Floats:
    """Return (ε - most)/2, rounded away from zero, which it is only from `most` on."""
    gap = np.minimum(epsilon - most, 0.0)
    return np.where(gap / 2 * 2 > gap, gap / 2 - LEAST, gap / 2)  # of the least doubles some have no half


def epsilon_up(epsilon: Floats, most: float) -> Floats:
    """Return ε lifted by what a few operations on numbers up to `most` may have taken, inside [0, most]."""
    return np.clip(epsilon + 8 * math.ulp(most), 0.0, most)


@overload
def product_up(first: float, *others: float) -> float: ...
@overload
def product_up(first: Floats, *others: float) -> Floats: ...
def product_up(first: float | Floats, *others: float) -> float | Floats:
    """Return a product of numbers >= 0, rounded up; what is exact stays exact.

    >>> product_up(0.5, 3.0), Fraction(product_up(0.7, 0.7)) > Fraction(0.7) ** 2
    (1.5, True)
    """
    if not isinstance(first, np.ndarray):
        return _product_up(first, *others)
    result = first
    for factor in others:
        product, lost = two_product(result, factor)
        # Of next to nothing, and of what is hardly a double, it is not known what was lost.
        kept = (lost <= 0) & (product > 1e-250) & (product < 1e290) | (product == 0) & ((result == 0) | (factor == 0))
        result = np.where(kept, product, np.nextafter(product, np.inf))
    return result


@lru_cache  # a curve asks for its own level at every look
def _product_up(*factors: float) -> float:
    if not all(map(math.isfinite, factors)):
        return math.inf
    return ceil_float(math.prod(map(Fraction, factors), start=Fraction(1)))


def root_of_squares(terms: Iterable[tuple[int, float]]) -> float:
    """Return √Σ count·value², the exact root rounded up.

    >>> root_of_squares([(1, 3.0), (1, 4.0)]), root_of_squares([(4, 1e-300)])
    (5.0, 2e-300)
    """
    total = Fraction(0)
    for count, value in terms:
        if not math.isfinite(value):
            return value
        total += count * Fraction(value) ** 2
    return sqrt_up(total)
