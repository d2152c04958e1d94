"""The rules among which ours is chosen, leaving one set out: declared here, and nothing else is tuned on the sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from sottovoce.regression.rules import Rule

__all__ = ["FAMILY", "name_of", "pick"]

_PRIORS = ((0.3, True), (0.3, False), (1.0, False))


def name_of(rule: Rule) -> str:
    """Return a rule in a few words."""
    prior = f"prior {rule.prior:g}{' by √(15/d)' if rule.slack else ''}"
    return f"reach {rule.reach:g}, keep {rule.keep:g}, room {rule.room:g}, {prior}"


FAMILY: Mapping[str, Rule] = {
    name_of(rule): rule
    for reach, keep, room, (prior, slack) in product((8.0, 12.0), (0.3, 0.5), (0.9, 1.1), _PRIORS)
    for rule in [Rule(reach, keep, room, prior, slack)]
}
"""Twenty-four rules by name."""


def pick(scores: Mapping[str, Mapping[str, float]], names: Sequence[str]) -> str:
    """Return the rule with the least sum over these sets; `scores` are by rule and set.

    >>> pick({"a": {"x": 1.0, "y": 2.0}, "b": {"x": 2.0, "y": 0.5}}, ["x", "y"])
    'b'
    """
    return min(scores, key=lambda rule: float(np.mean([scores[rule][name] for name in names])))
