"""How many Langevin steps a convergence bound demands before it promises anything."""

from __future__ import annotations

import math

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import real, whole


def demanded_steps(
    distance: float, dimension: int, convexity: float, smoothness: float, *, alpha: float | None = None
) -> int:
    r"""Return the steps after which a Langevin chain is provably within total variation γ = `distance` of its law.

    .. math:: T = \lceil S/h \rceil, \qquad S = \frac{4\log(1/\gamma) + d\log(M/m)}{2m}, \qquad
              h = \frac{\gamma^2(2\alpha-1)}{M^2 S d\,\alpha}

    (Dalalyan 2014, Corollary 1; Minami et al. 2016, Theorem 21) for an m-strongly convex and M-smooth potential. Their
    α = (1 + MdS/γ²)/2 unless given; Proposition 13 sets α = 1, which takes about twice the steps. The chain so run may
    be released as an `ApproximateSample`; the certificate of our chains needs no such number.

    Examples
    --------
    >>> f"{demanded_steps(1e-6, 9, 2.784, 698.8):.2e} {demanded_steps(1e-6, 9, 2.784, 698.8, alpha=1.0):.2e}"
    '7.81e+20 1.56e+21'
    """
    gamma, d = real("distance", distance, above=0.0), whole("dimension", dimension, 1)
    m, M = real("convexity", convexity, above=0.0), real("smoothness", smoothness, above=0.0)
    if not gamma < 0.5 or not m <= M:
        raise InvalidValue("distance lies below 1/2, and convexity is at most smoothness")
    horizon = (4 * math.log(1 / gamma) + d * math.log(M / m)) / (2 * m)
    a = (1 + M * d * horizon / gamma**2) / 2 if alpha is None else real("alpha", alpha, above=0.5)
    return math.ceil(horizon * horizon * M * M * d * a / (gamma**2 * (2 * a - 1)))
