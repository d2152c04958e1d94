r"""What floating point does to a chain: how far a step as computed may lie from the step as written.

A bound on ‖computed − written‖ for every data set, every state in the ball and every order of summation: chunks,
threads and devices may add the records as they like. `docs/theory/chains-in-floating-point.md` proves it, and that the
certificate holds with s replaced by s + 2η/h, as long as the last step adds an exactly rounded normal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from sottovoce.mechanisms.cells import EvenCells
from sottovoce.mechanisms.exact_sampling import draw
from sottovoce.privacy.numbers import Floats
from sottovoce.regression.design import Design
from sottovoce.systems.laws import NormalLaw

__all__ = ["CoupledNormals", "ball_of", "rounded_normals", "step_error"]

_FAR = 256.0
"""Where the design has no ball, chains are kept within this many standard deviations √(d/m) of their prior."""
_SLOPE = 32.0
"""Units in the last place by which the slope of a loss may be off: of exp, log and what is made of them."""
_NORMAL = 2.0**-47
"""How far, relative to its length, a computed normal vector may lie from the ideal one it is coupled with."""


def ball_of(design: Design, convexity: float) -> float:
    """Return the radius of the ball in which chains are kept, public and finite."""
    return min(design.radius, _FAR * math.sqrt(design.dimension / convexity))


def step_error(design: Design, n: int, data_weight: float, convexity: float, step: float, precision: str) -> float:
    """Return η: the most by which one computed step lies from the ideal one, in L2 norm.

    Examples
    --------
    >>> from sottovoce.regression.losses import Logistic
    >>> design = Design(Logistic(), dimension=20, data_norm=1.0)
    >>> h = 1 / design.smoothness(10_000, 0.06, 0.2)
    >>> error = step_error(design, 10_000, 0.06, 0.2, h, "float64")
    >>> f"{2 * error / h / design.sensitivity(0.06):.0e}"  # beside s
    '2e-07'
    """
    u, d = float(np.finfo(precision).eps) / 2, design.dimension
    c, B, curvature = design.data_norm, design.constants.lipschitz, design.constants.curvature
    R = ball_of(design, convexity)
    predictor = _gamma(d, u) * c * R
    slope = min(curvature * predictor + _SLOPE * u * B, 2 * B)
    gradient = n * c * slope + _gamma(n + 2, u) * n * c * B
    longest = R + step * (data_weight * n * B * c + 2 * convexity * R)
    arithmetic = 16 * u * longest + (d + 8) * u * R
    noise = (4 * u + _NORMAL) * (2 * R + longest)
    return (step * data_weight * gradient + arithmetic + noise) * (1 + 2.0**-30)


def _gamma(k: float, u: float) -> float:
    """Return ku/(1 - ku): the relative error of a sum of k terms in any order (Higham 2002, ch. 3 and 4)."""
    return k * u / (1 - k * u) if k * u < 0.5 else math.inf


class CoupledNormals:
    """Normal vectors in doubles, each within a relative 2⁻⁴⁷ of an ideal normal vector it is coupled with.

    By Box and Muller: radius √(2L), L = -log U, and angle 2πV. U and V keep 52 significant bits however small they, or
    1 - U, are: their exponents are counted in as many fair bits as it takes. So L has a relative error of a few 2⁻⁵²
    everywhere, in the middle and in the tails, and no radius is out of reach.

    >>> from sottovoce.privacy.randomness import secure_rng
    >>> CoupledNormals(secure_rng()).standard_normal((2, 3)).shape
    (2, 3)
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def standard_normal(self, shape: Any) -> Floats:
        """Return normals of this shape."""
        size = int(np.prod(shape))
        pairs = -(-size // 2)
        words = self._rng.integers(0, 1 << 62, pairs)
        mantissa = 1 + (words >> 10) * 2.0**-52  # [1, 2)
        exponent = self._exponents(pairs) + 2  # U, or 1 - U, is mantissa·2^-exponent, below one half
        low = self._rng.integers(0, 2, pairs).astype(bool)
        small = np.ldexp(mantissa, -np.minimum(exponent, 1000))
        tail = exponent * math.log(2) - np.log(mantissa)
        length = np.sqrt(2 * np.where(low, tail, -np.log1p(-small)))
        # The angle in an octant, with all its digits, and the octant.
        part = np.ldexp(1 + (self._rng.integers(0, 1 << 62, pairs) >> 10) * 2.0**-52, -1 - self._exponents(pairs))
        octant = self._rng.integers(0, 8, pairs)
        cos, sin = np.cos(part * (math.pi / 4)), np.sin(part * (math.pi / 4))
        x, y = np.where(octant & 1, sin, cos), np.where(octant & 1, cos, sin)
        x, y = np.where(octant & 2, -x, x), np.where(octant & 4, -y, y)
        return np.reshape(np.concatenate([length * x, length * y])[:size], shape)

    def _exponents(self, count: int) -> Any:
        """Return how many fair coins fell on tails before the first head, as often as it takes."""
        out, waiting = np.zeros(count, dtype=np.int64), np.arange(count)
        while waiting.size:
            word = self._rng.integers(0, 1 << 62, waiting.size)
            last = np.where(word > 0, np.frexp((word & -word).astype(np.float64))[1] - 1, 62)
            out[waiting] += last
            waiting = waiting[word == 0]
        return out


def rounded_normals(means: Floats, step: float, rng: Any) -> Floats:
    """Return N(mean, 2h) for every entry of `means`, exactly rounded to cells of 2⁻¹⁶ of its standard deviation."""
    cells = EvenCells.beside(math.sqrt(2 * step), bits=16)
    variance = 2 * Fraction(step)
    flat: Sequence[float] = np.ravel(means).tolist()
    return np.reshape([draw(NormalLaw(Fraction(mean), variance), rng, cells) for mean in flat], means.shape)
