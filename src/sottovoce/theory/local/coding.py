"""Labels to positions and back, for whole columns at once."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.errors import InvalidData
from sottovoce.records.readings.columns import as_codes, as_numbers, label_array

__all__ = ["codes_of", "label_array", "positions_of"]

Codes = NDArray[np.int64]


def codes_of(what: str, values: object, labels: tuple[Hashable, ...], *, released: bool = False) -> Codes:
    """Return the position of each value among `labels`; -1 where it is none of them.

    Records and their profiles are secret, so no value of theirs is refused, and none is ever quoted. What is
    `released` already must be among the labels.

    >>> codes_of("category", ["b", "a", "z"], ("a", "b"))
    array([ 1,  0, -1])
    """
    codes = as_codes(values, labels, -1, f"{what} column")
    if released and codes.size and codes.min() < 0:
        shown = ", ".join(map(str, labels[:8])) + (", …" if len(labels) > 8 else "")
        raise InvalidData(f"the {what} column holds something that is not among: {shown}")
    return codes


def positions_of(values: object, size: int, what: str) -> Codes:
    """Return positions from 0 to size - 1 as they are, and -1 for whatever is none.

    >>> positions_of([1, 7, None, -2, 0.5], 3, "category")
    array([ 1, -1, -1, -1, -1])
    """
    numbers = as_numbers(values, f"{what} positions")
    known = (numbers >= 0) & (numbers < size) & (numbers == np.floor(numbers))
    return np.where(known, numbers, -1.0).astype(np.int64)
