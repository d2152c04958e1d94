"""The public grid of `readings`, within what every engine can multiply."""

from __future__ import annotations

from typing import Self

from sottovoce.privacy.errors import InvalidValue
from sottovoce.records.readings import grid

SMALLEST, LARGEST = 2.0**-64, 2.0**grid.PLACES


class EngineGrid(grid.Grid):
    """The multiples of 2⁻ᵏ, k ≥ 0."""

    @classmethod
    def covering(cls, bound: float) -> Self:
        """Return the finest grid on which every number within ±`bound` is at most 2⁵¹ steps from zero."""
        if bound != 0 and not SMALLEST <= bound <= LARGEST:
            raise InvalidValue(
                f"bounds must lie between {SMALLEST:.3g} and {LARGEST:.3g} in size. Got {bound}; "
                "measure the column in another unit"
            )
        return super().covering(bound)
