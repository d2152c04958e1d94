"""Whether two data sets that a user gives can be neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np

from sottovoce.mechanisms import Mechanism
from sottovoce.privacy.errors import InvalidData


def check_pair(mechanism: Mechanism | None, pair: Any) -> tuple[Any, Any]:
    """Return a pair of data sets if they can be neighbours, else raise `InvalidData`."""
    try:
        first, second = pair
    except (TypeError, ValueError):
        raise InvalidData("pair must be two data sets, (data, neighbour)") from None
    if mechanism is not None:
        first, second = mechanism.see(first), mechanism.see(second)  # also says where n is wrong
        if not mechanism.reading.neighbours(first, second, mechanism.relation):
            raise InvalidData("neighbouring data sets differ in one record. These statistics lie farther apart")
        return first, second
    try:
        sizes = len(first), len(second)
    except TypeError:
        return first, second  # a data set of the user's own kind
    if sizes[0] != sizes[1]:
        raise InvalidData(
            "neighbouring data sets have the same number of records, one of them replaced. "
            f"Got {sizes[0]} and {sizes[1]}"
        )
    changed = _changed(first, second)
    if changed is not None and changed > 1:
        raise InvalidData(f"neighbouring data sets differ in one record. These differ in {changed}")
    return first, second


def _changed(first: Any, second: Any) -> int | None:
    """Return in how many places two columns of records differ; None where that cannot be told."""
    try:
        a, b = np.asarray(first), np.asarray(second)
        if a.ndim == 0 or a.shape != b.shape or object in (a.dtype, b.dtype):
            return None
        return int(np.count_nonzero((a != b).reshape(len(a), -1).any(axis=1)))
    except (TypeError, ValueError):
        return None
