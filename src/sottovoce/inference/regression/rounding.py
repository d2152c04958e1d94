r"""What floating point does to a chain: how far a step as computed may lie from the step as written.

A bound on ‖computed − written‖ for every data set, every state in the ball and every order of summation: chunks,
threads and devices may add the records as they like. `docs/theory/chains-in-floating-point.md` proves it, and that the
certificate holds with s replaced by s + 2η/h, as long as the last step adds an exactly rounded normal.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sottovoce.inference.regression.design import Design
from sottovoce.mechanisms.exact_normals import exact_normals
from sottovoce.privacy.numbers import Floats

FAR = 256.0
"""Where the design has no ball, chains are kept within this many standard deviations √(d/m) of their prior."""
_NORMAL = 2.0**-47
"""How far, relative to its length, a computed normal vector may lie from the ideal one it is coupled with."""


def ball_of(design: Design, convexity: float) -> float:
    """Return the radius of the ball in which chains are kept, public and finite."""
    return min(design.radius, FAR * math.sqrt(design.dimension / convexity))


def step_error(design: Design, n: int, data_weight: float, convexity: float, step: float, precision: str) -> float:
    """Return η: the most by which one computed step lies from the ideal one, in L2 norm.

    Examples
    --------
    >>> from sottovoce.inference.regression.losses import Logistic
    >>> design = Design(Logistic(), dimension=20, data_norm=1.0)
    >>> h = 1 / design.smoothness(10_000, 0.06, 0.2)
    >>> error = step_error(design, 10_000, 0.06, 0.2, h, "float64")
    >>> f"{2 * error / h / design.sensitivity(0.06):.0e}"  # beside s
    '2e-07'
    """
    u, d = float(np.finfo(precision).eps) / 2, design.dimension
    c, B = design.data_norm, design.constants.lipschitz
    R = ball_of(design, convexity)
    longest = R + step * (data_weight * n * B * c + 2 * convexity * R)
    gradient = gradient_error(design, n, R, u)
    return (step * data_weight * gradient + arithmetic_error(d, R, longest, u)) * (1 + 2.0**-30)


def gradient_error(design: Design, n: int, radius: float, u: float) -> float:
    """Return by how much a computed sum of n gradients may be off within a ball, added up in any order."""
    item = design.loss.gradient_error(design.dimension, design.data_norm, design.constants, radius, u)
    return n * item + _gamma(n + 2, u) * n * design.data_norm * design.constants.lipschitz


def arithmetic_error(dimension: int, radius: float, longest: float, u: float) -> float:
    """Return by how much moving, adding noise and projecting onto a ball may be off; no move reaches past `longest`."""
    noise = (4 * u + _NORMAL) * (2 * radius + longest)
    return 16 * u * longest + (dimension + 8) * u * radius + noise


def _gamma(k: float, u: float) -> float:
    """Return ku/(1 - ku): the relative error of a sum of k terms in any order (Higham 2002, ch. 3 and 4)."""
    return k * u / (1 - k * u) if k * u < 0.5 else math.inf


def rounded_normals(means: Floats, step: float, rng: Any) -> Floats:
    """Return N(mean, 2h) or a hair wider for every entry of `means`, exactly rounded to cells fine beside it."""
    return exact_normals(means, math.nextafter(math.sqrt(2 * step), math.inf), rng)
