"""Which of several pairs of neighbouring data sets a mechanism tells apart most easily."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sottovoce.privacy.randomness import seeded_rng

_LOOK = 10_000
"""Draws by which pairs that may be worst are compared."""


def worst_of(mechanism: Any, pairs: Sequence[tuple[object, object]]) -> tuple[Any, Any]:
    """Return the pair with the largest δ at ε(0.01), estimated from seeded draws.

    Nothing rests on the answer: an audit with a lesser pair is only weaker.
    """
    if len(pairs) == 1:
        return pairs[0]
    epsilon = float(min(mechanism.profile.epsilon(0.01), 20.0))
    return max(pairs, key=lambda pair: _leak(mechanism, pair, epsilon))


def _leak(mechanism: Any, pair: tuple[object, object], epsilon: float) -> float:
    """Return an estimate of δ(ε) of this pair: the mean of (1 - e^(ε - loss))₊, both ways."""
    ratio = mechanism.log_ratio(pair)
    if ratio is None:
        return 0.0
    rng = seeded_rng(0)
    leaks = []
    for sign, seen in zip((1, -1), pair, strict=True):
        outputs = mechanism.outputs(seen, rng, _LOOK)
        leaks.append(float(np.mean(-np.expm1(np.minimum(epsilon - sign * ratio(outputs), 0.0)))))
    return max(leaks)
