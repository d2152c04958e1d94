"""What the estimators of this room share: reading the promise and the source of randomness."""

from __future__ import annotations

from typing import Any

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import ApproxDP, Promise, PureDP
from sottovoce.privacy.randomness import secure_rng, seeded_rng

__all__ = ["promise_of", "random_source"]


def promise_of(target: Promise | None, epsilon: float | None, delta: float | None, *, private: bool) -> Promise | None:
    """Return the promise: ε alone is pure, with δ it is (ε, δ); none where the model is not `private`.

    >>> promise_of(None, 1.0, None, private=True)
    PureDP(epsilon=1.0)
    """
    given = target is not None or epsilon is not None or delta is not None
    if not private:
        if given:
            raise InvalidValue("mechanism 'none' keeps no promise; leave epsilon, delta and target out")
        return None
    if target is not None:
        if epsilon is not None or delta is not None:
            raise InvalidValue("give the promise once: either target, or epsilon and delta")
        return target
    if epsilon is None:
        raise InvalidValue(f"a promise is missing: give epsilon (and delta), or target. Got delta={delta}")
    return PureDP(epsilon) if delta is None else ApproxDP(epsilon, delta)


def random_source(random_state: Any) -> np.random.Generator:
    """Return secure randomness where None, else a seeded generator for experiments."""
    if random_state is None:
        return secure_rng()
    if isinstance(random_state, np.random.RandomState):
        return seeded_rng(int(random_state.randint(2**31)))
    return seeded_rng(random_state)
