"""The rules among which ours is chosen, leaving one set out: declared here, and nothing else is tuned on the sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from sottovoce.inference.regression.filter_settings import Rule

__all__ = ["FAMILY", "name_of", "pick"]


def name_of(rule: Rule) -> str:
    """Return a rule in a few words."""
    named = {name: getattr(rule, name) for name in ("reach", "room", "prior", "stretch", "full")}
    return ", ".join(f"{name} {value:g}" for name, value in named.items())


FAMILY: Mapping[str, Rule] = {
    name_of(rule): rule
    for reach, room, prior in product((4.0, 6.0), (0.55, 0.7), (1.0, 3.0))
    for stretch, full in product((0.24, 0.3, 0.36), (15.0, 40.0))
    for rule in [Rule(reach=reach, room=room, prior=prior, stretch=stretch, full=full)]
}
"""Forty-eight rules by name."""


def pick(scores: Mapping[str, Mapping[str, float]], names: Sequence[str]) -> str:
    """Return the rule with the least sum over these sets; `scores` are by rule and set.

    >>> pick({"a": {"x": 1.0, "y": 2.0}, "b": {"x": 2.0, "y": 0.5}}, ["x", "y"])
    'b'
    """
    return min(scores, key=lambda rule: float(np.mean([scores[rule][name] for name in names])))
