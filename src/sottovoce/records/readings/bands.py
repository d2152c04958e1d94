"""Bands of a number: a column of numbers as places in a public list, as a column of categories has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Integers
from sottovoce.records.readings.columns import as_codes, as_numbers


@dataclass(frozen=True)
class Bands:
    """Bands between rising inner edges: every number is in one, at an edge in the one above it.

    Attributes
    ----------
    edges
        The inner edges, one fewer than there are bands.

    Examples
    --------
    >>> bands = Bands((18.0, 65.0))
    >>> len(bands), bands.places([17.9, 18, float("inf"), None, "70"], other=-1).tolist()
    (3, [0, 1, 2, -1, -1])
    """

    edges: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.edges or not np.all(np.isfinite(self.edges)) or not np.all(np.diff(self.edges) > 0):
            raise InvalidValue("inner edges are finite and rise")

    def __len__(self) -> int:
        return len(self.edges) + 1

    def places(self, values: object, other: int) -> Integers:
        """Return the band of each value; `other` where it is no number."""
        numbers = as_numbers(values)
        result = np.searchsorted(np.array(self.edges, dtype=np.float64), numbers, side="right")
        return np.where(np.isnan(numbers), other, result).astype(np.int64)

    @property
    def typical(self) -> tuple[float, ...]:
        """Numbers at the edges, and below and above all of them."""
        return (self.edges[0] - 1.0, *self.edges, self.edges[-1] + 1.0)

    def to_dict(self) -> dict[str, object]:
        """Return the bands as plain values; `kind_of` reads them back."""
        return {"edges": list(self.edges)}


def places_of(values: Any, kind: Any, other: int) -> Integers:
    """Return the place of each value among the categories, or the bands, of a group."""
    return kind.places(values, other) if isinstance(kind, Bands) else as_codes(values, kind, other)


def kind_of(state: Any) -> Any:
    """Return categories, or bands, from their plain form."""
    return Bands(tuple(state["edges"])) if isinstance(state, Mapping) else tuple(state)
