"""A public grid for noisy numbers: what their low bits could tell is rounded away."""

from __future__ import annotations

import math

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats

_FINE = 2.0**-16
"""The grid step beside the noise: it adds a part in 5·10¹⁰ to the noise's variance."""


def grid_step(noise: float) -> float:
    """Return the largest power of two that is at most 2⁻¹⁶ of the noise's standard deviation.

    >>> grid_step(1.0) == 2.0**-16, grid_step(3.0) == 2.0**-15
    (True, True)
    """
    if not 0 < noise < math.inf:
        raise InvalidValue(f"noise must be > 0 and finite. Got {noise!r}")
    return float(2.0 ** math.floor(math.log2(noise * _FINE)))


def to_grid(values: object, noise: float) -> Floats:
    """Round numbers that carry noise of a public standard deviation to a public grid, fine beside that noise.

    A double holds 53 bits, and the last ones of `value + noise` depend on how large each of the two was: they can
    tell one data set from another for sure, however much noise there is (Mironov 2012). Rounding is
    post-processing, so that the promise about real numbers stays; what it drops is what floats add to them.

    Examples
    --------
    >>> float(to_grid(1 / 3, noise=1.0)) * 2**16
    21845.0
    """
    step = grid_step(noise)
    # Powers of two divide and multiply exactly; adding zero turns -0.0 into 0.0.
    return np.asarray(np.rint(np.asarray(values, dtype=np.float64) / step) * step + 0.0)
