"""The low-bits attack: what the last bits of a double tell, however much noise was added (Mironov 2012).

A textbook release adds b·log u to a value, u uniform on multiples of 2⁻⁵³. Not every double can come out: log u has
gaps, and the sum is rounded more coarsely the larger it is. Which doubles can occur depends on the value, so that one
output may be possible with one data set and impossible with its neighbour.
"""

from __future__ import annotations

import numpy as np

from sottovoce.privacy.numbers import Floats, Mask

_GRID = 2.0**53
_NEAR = 8
"""How many uniforms either side of the likeliest are tried: rounding cannot lead further astray."""


def naive_laplace(value: float, scale: float, size: int, rng: np.random.Generator) -> Floats:
    """Return `size` textbook releases ``value ± scale·log(u)`` in double precision. Never publish one.

    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> naive_laplace(3.0, 1.0, 2, seeded_rng(1)).shape
    (2,)
    """
    uniform = 1 - rng.random(size)  # multiples of 2⁻⁵³ in (0, 1]
    sign = np.where(rng.random(size) < 0.5, -1.0, 1.0)
    return np.asarray(value + sign * (scale * np.log(uniform)))


def possible(outputs: object, value: float, scale: float) -> Mask:
    """Say of each output whether any uniform at all turns `value` into it under `naive_laplace`.

    Where it says no, the value was another: a proof, not a likelihood.

    Examples
    --------
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> outputs = naive_laplace(0.0, 1.0, 1000, seeded_rng(1))
    >>> bool(possible(outputs, 0.0, 1.0).all()), bool(possible(outputs, 1.0, 1.0).mean() < 0.5)
    (True, True)
    """
    y = np.asarray(outputs, dtype=np.float64)
    sign = np.where(y < value, 1.0, -1.0)  # log u is negative
    likeliest = np.rint(np.exp(-np.abs(y - value) / scale) * _GRID)
    result = np.zeros(y.shape, dtype=bool)
    for step in range(-_NEAR, _NEAR + 1):
        uniform = (likeliest + step) / _GRID
        allowed = (uniform > 0) & (uniform <= 1)
        result |= allowed & (value + sign * (scale * np.log(np.where(allowed, uniform, 1.0))) == y)
    return result


def lowest_bit(outputs: object) -> Floats:
    """Return the place of the last bit that is set: 0 for odd whole numbers, -1 for odd halves; 0 for zero.

    >>> lowest_bit([3.0, 0.5, 0.75, 6.0, 0.0]).tolist()
    [0.0, -1.0, -2.0, 1.0, 0.0]
    """
    fraction, exponent = np.frexp(np.asarray(outputs, dtype=np.float64))
    bits = np.abs(fraction * _GRID).astype(np.int64)
    last = np.log2(np.maximum(bits & -bits, 1).astype(np.float64))
    return np.where(bits == 0, 0.0, exponent - 53 + last)
