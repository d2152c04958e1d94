"""Post-processing: what is done to an output without the data keeps the promise."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.theory.local.local import LocalMechanism
from sottovoce.theory.local.mechanism import ProfileMechanism


def post_processed(mechanism: ProfileMechanism, rename: Mapping[Any, Hashable]) -> ProfileMechanism:
    """Return the mechanism that releases rename[y] where the other releases y, under the same promise.

    Outputs of one new name become one output, so coarser categories can be published (Geumlek 2020, Observation 7).
    Any other computation on released values keeps the promise too, and needs no mechanism of its own.

    Examples
    --------
    >>> from sottovoce.theory.local import ProfileGraph, SmoothCategorical
    >>> graph = ProfileGraph.chain({"a": [0.2, 0.3, 0.5], "b": [0.4, 0.3, 0.3]}, ("low", "middle", "high"))
    >>> coarse = {"low": "not high", "middle": "not high", "high": "high"}
    >>> post_processed(SmoothCategorical.calibrate(graph, 0.2), coarse).outputs
    ('not high', 'high')
    """
    missing = [y for y in mechanism.outputs if y not in rename]
    if missing:
        raise InvalidValue(f"no new name for the output {missing[0]!r}; name every output")
    new = tuple(dict.fromkeys(rename[y] for y in mechanism.outputs))
    steps = np.zeros((*mechanism.steps.shape[:2], len(new)), dtype=np.int64)
    for y, old in enumerate(mechanism.outputs):
        steps[:, :, new.index(rename[old])] += mechanism.steps[:, :, y]
    kind = LocalMechanism if mechanism.local else ProfileMechanism
    return kind(mechanism.graph, mechanism.epsilon, steps, new, mechanism.repair_weight)
