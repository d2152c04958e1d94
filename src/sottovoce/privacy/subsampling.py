"""Amplification by subsampling: what a step costs when it meets a record only by chance."""

from __future__ import annotations

import math

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, real
from sottovoce.privacy.rounding import LEAST, UP, lifted, product_up


def mixed_divergence(before: Floats, order: Floats, share: float) -> Floats:
    r"""Return the Rényi divergence of which a `share` is left of e^((λ-1)R) - 1, rounded up.

    .. math:: \frac{\log\big(1 + q(e^{(\lambda-1)R} - 1)\big)}{\lambda - 1}, \qquad \text{at order 1 } qR
    """
    gap = order - 1
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        power = gap * before
        large = np.logaddexp(math.log1p(-share) if share < 1 else -math.inf, math.log(share) + power)
        value = np.where(power < 1, np.log1p(share * np.expm1(power)), large) / gap
        # Where that may be no double: e^x - 1 is at most x + x² up to one.
        little = product_up(before, share) * (1 + power)
        few = (power < 1e-9) | ((power < 1) & (share * power < 1e-290))
        value = lifted(np.where(few, little, value), 1 + 1e-12)
    return np.minimum(before, np.where(np.isnan(value), np.inf, value))


def subsampled_epsilon(epsilon: float, rate: float) -> float:
    r"""Return the pure ε of an ε-private step that works on a random part of the records.

    .. math:: \log\big(1 + q(e^\varepsilon - 1)\big)

    (Balle, Barthe and Gaboardi 2018). The part holds each record with probability q = `rate`. Neighbours replace one
    record where the part has a fixed size m drawn without replacement from n records, q = m/n, and the step is
    ε-private under the same relation; neighbours add or remove one record where each is kept independently. In both
    cases no smaller number holds for every step: randomized response by the record that was picked attains it.
    The draw of the part must stay secret. 2qε, the linear form, holds only for ε up to about 1.25.

    Parameters
    ----------
    epsilon
        What the step costs on the part it sees, ≥ 0.
    rate
        The probability q that a record is in the part, from 0 to 1.

    Examples
    --------
    >>> round(subsampled_epsilon(4.0, 0.1), 3)
    1.85
    """
    full, q = real("epsilon", epsilon), real("rate", rate)
    if q > 1:
        raise InvalidValue(f"rate must be at most 1. Got {q}")
    if q in (0.0, 1.0) or full == 0:
        return full if q else 0.0
    if full < 700:
        value = math.log1p(q * math.expm1(full)) * UP + LEAST
    else:  # the exponential would overflow
        value = float(np.logaddexp(math.log1p(-q), full + math.log(q))) + 4 * math.ulp(full)
    return min(full, value)
