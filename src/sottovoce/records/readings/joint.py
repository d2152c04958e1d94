"""Several readings of the same records at once: one total after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats, Integers
from sottovoce.records.readings.base import Block, Reading, Sensitivity, Statistics
from sottovoce.records.readings.category_counts import CategoryCounts
from sottovoce.records.readings.clipped_sum import ClippedSum


@dataclass(frozen=True)
class Joint(Reading):
    """S(x) = (S₁(x), S₂(x), …). Records are given as one item a part, each what that part reads.

    >>> both = Joint((CategoryCounts(("a", "b")), ClippedSum(0, 10, integer=True)))
    >>> both.read([["a", "b", "b"], [3, 99, None]]).total
    array([ 1.,  2., 13.])
    """

    word: ClassVar[str] = "joint"
    parts: tuple[Reading, ...]

    def __post_init__(self) -> None:
        if not self.parts or not all(isinstance(part, Reading) for part in self.parts):
            raise InvalidValue("a joint reading takes at least one reading")

    @property
    def size(self) -> int:
        """The coordinates of all parts."""
        return sum(part.size for part in self.parts)

    @property
    def whole(self) -> bool:
        """Whether all parts are whole."""
        return all(part.whole for part in self.parts)

    def split(self, total: object) -> list[Any]:
        """Return the coordinates of each part."""
        return np.split(np.asarray(total), np.cumsum([part.size for part in self.parts])[:-1])

    def read(self, records: Any, missing: Any = None, *, public: bool = False) -> Statistics:
        """Return n and all totals, of one item of records a part; `missing` likewise."""
        if not hasattr(records, "__len__") or len(records) != len(self.parts):
            raise InvalidData(f"this reading takes a list of {len(self.parts)} columns, in order")
        fillers = [None] * len(self.parts) if missing is None else list(missing)
        seen = [
            part.read(item, filler, public=public)
            for part, item, filler in zip(self.parts, records, fillers, strict=True)
        ]
        if len({first.n for first in seen}) != 1:
            raise InvalidData("every column must have one value a record; these have different lengths")
        return Statistics(seen[0].n, np.concatenate([first.total for first in seen]))

    def _each(self, statistics: Statistics) -> list[Statistics]:
        n, total = self._checked_total(statistics)
        return [Statistics(n, part) for part in self.split(total)]

    def check_sums(self, n: int) -> None:
        """Raise what a part raises."""
        for part in self.parts:
            part.check_sums(n)

    def check(self, statistics: Statistics) -> Statistics:
        """Return statistics that every part allows."""
        checked = [part.check(item) for part, item in zip(self.parts, self._each(statistics), strict=True)]
        return Statistics(statistics.n, np.concatenate([item.total for item in checked]))

    def check_whole(self, statistics: Statistics) -> Statistics:
        """Return the statistics if the parts of whole records are whole."""
        for part, item in zip(self.parts, self._each(statistics), strict=True):
            part.check_whole(item)
        return statistics

    def project(self, n: int, total: Floats) -> Floats:
        """Return each part projected by itself."""
        return np.concatenate([p.project(n, t) for p, t in zip(self.parts, self.split(total), strict=True)])

    def movement(self, n: int) -> Sensitivity:
        """Return the moves of all parts together, where they share a grid."""
        moves = [part.movement(n) for part in self.parts]
        if len({move.grid for move in moves}) != 1:
            raise InvalidValue("these parts have grids of their own; each carries its own noise")
        cells = sum(move.cells for move in moves) if all(move.cells for move in moves) else 0
        return Sensitivity(moves[0].grid, cells, max(m.width for m in moves), sum(m.squares for m in moves))

    def blocks(self, n: int) -> tuple[Block, ...]:
        """Return the blocks of all parts."""
        return tuple(block for part in self.parts for block in part.blocks(n))

    def steps(self, statistics: Statistics) -> Integers:
        """Return each part in steps of its own grid."""
        return np.concatenate([p.steps(item) for p, item in zip(self.parts, self._each(statistics), strict=True)])

    def from_steps(self, n: int, steps: Integers) -> Floats:
        """Return the totals of all parts."""
        return np.concatenate([p.from_steps(n, s) for p, s in zip(self.parts, self.split(steps), strict=True)])

    def middle(self) -> list[float]:
        """Return the middle of every part."""
        return np.concatenate([np.atleast_1d(part.middle()) for part in self.parts]).tolist()  # type: ignore[no-any-return]

    def _fits(self, mean: Floats) -> tuple[bool, str]:
        words = [part._fits(np.zeros(0))[1] for part in self.parts]
        fits = mean.shape == (self.size,)
        if fits:
            fits = all(part._fits(m)[0] for part, m in zip(self.parts, self.split(mean), strict=True))
        return fits, ", then ".join(words)

    def pairs(self, n: int) -> list[tuple[Statistics, Statistics]]:
        """Return the first pair of every part, moved together: one record may move them all."""
        result = [part.pairs(n)[0] for part in self.parts]
        first, second = (Statistics(n, np.concatenate([pair[i].total for pair in result])) for i in (0, 1))
        return [(first, second)]

    @classmethod
    def example(cls) -> Self:
        """Return a category, a number and a count of the same records."""
        return cls((CategoryCounts.example(), ClippedSum.example(), ClippedSum(0, 3, integer=True)))

    def typical(self) -> tuple[tuple[Any, ...], ...]:
        """Return the columns of every part."""
        return tuple(column for part in self.parts for column in part.typical())

    def arranged(self, records: Sequence[tuple[object, ...]]) -> Any:
        """Return one item a part, of that part's columns."""
        ends = np.cumsum([0, *(len(part.typical()) for part in self.parts)])
        return [
            part.arranged([record[start:end] for record in records])
            for part, start, end in zip(self.parts, ends[:-1], ends[1:], strict=True)
        ]

    def apart(self, gap: Floats) -> bool:
        """Say whether every part can have moved this far."""
        return all(part.apart(g) for part, g in zip(self.parts, self.split(gap), strict=True))

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Joint:
        return cls(tuple(Reading.from_dict(part) for part in state["parts"]))
