"""Amplification by subsampling: what a purely private step costs when it meets a record only by chance."""

from __future__ import annotations

import math

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import real

__all__ = ["subsampled_epsilon"]


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
    whole, q = real("epsilon", epsilon), real("rate", rate)
    if q > 1:
        raise InvalidValue(f"rate must be at most 1. Got {q}")
    if q in (0.0, 1.0) or whole == 0:
        return whole if q else 0.0
    if whole < 700:
        value = math.log1p(q * math.expm1(whole)) * (1 + 1e-15) + 5e-324
    else:  # the exponential would overflow
        value = float(np.logaddexp(math.log1p(-q), whole + math.log(q))) + 4 * math.ulp(whole)
    return min(whole, value)
