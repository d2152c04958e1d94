"""What all looks at records have in common: the parts of their totals, and which totals records can give."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from itertools import islice, product
from typing import Any

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.relation import REPLACE_ONE, Relation
from sottovoce.records.facts.columns import Column
from sottovoce.records.readings.base import Block, Reading, Sensitivity, Statistics
from sottovoce.records.readings.in_memory_records import HeldRecords, held, one_more, typical_values
from sottovoce.records.readings.look_parts import HazardParts, LookParts


class LookRecords(Reading):
    """A look, by how long and how far apart the contributions of records are.

    Attributes
    ----------
    parts
        Which parts are taken.
    """

    parts: Any

    @property
    @abstractmethod
    def columns(self) -> list[Column]:
        """The columns to read, in order."""

    @property
    @abstractmethod
    def layout(self) -> LookParts | HazardParts:
        """Which entries of the total belong to which part."""

    @property
    @abstractmethod
    def lengths(self) -> dict[str, float]:
        """The longest contribution of one record to each part, in steps, rounding included."""

    @property
    @abstractmethod
    def moves(self) -> dict[str, float]:
        """How far one replaced record moves each part alone, in steps."""

    @abstractmethod
    def joint(self, scales: Mapping[str, float]) -> float:
        """Return how far one replaced record moves all parts together, each in units of its noise."""

    def added(self, scales: Mapping[str, float]) -> float:
        r"""Return how far one record added or removed moves all parts together, each in units of its noise.

        That is the length of its own contribution, no difference of two: with rounding, as long as `lengths` say.
        """
        return math.sqrt(sum((self.lengths[part] / scales[part]) ** 2 for part in self.parts)) * (1 + 1e-12)

    def blocks(self, n: int | None) -> tuple[Block, ...]:
        """Return each block as far as it can move alone."""
        moves = self.lengths if n is None else self.moves
        result = []
        for name, size in self.layout.sizes.items():
            part = name.removesuffix(" off")
            half = 2.0 if name.endswith(" off") else 1.0  # what lies above the diagonal is half of what lies beside it
            result.append(Block(size, Sensitivity(1.0, 0, 0, moves[part] ** 2 / half)))
        return tuple(result)

    def movement(self, n: int | None) -> Sensitivity:
        """Return how far everything moves together, in squares."""
        moves = self.lengths if n is None else self.moves
        return Sensitivity(1.0, 0, 0, sum(move**2 for move in moves.values()))

    def check_sums(self, n: int) -> None:
        """Raise unless a double holds every sum exactly."""
        if n * max(self.lengths.values()) > 2.0**53:
            raise InvalidValue(f"the sums of n={n} records do not fit into a double; use fewer bits")

    def beside(self, gap: Floats) -> bool:
        """Say whether one record more or less can have moved every part this far."""
        lengths = self.lengths
        return all(float(np.linalg.norm(part)) <= lengths[p] * (1 + 1e-9) for p, part in self.layout.split(gap).items())

    def apart(self, gap: Floats) -> bool:
        """Say whether one record can have moved every part this far."""
        moves = self.moves
        return all(
            float(np.linalg.norm(result)) <= moves[part] * (1 + 1e-9) for part, result in self.layout.split(gap).items()
        )

    @property
    def sizes(self) -> dict[str, int]:
        """The entries of each block."""
        return self.layout.sizes

    @property
    def size(self) -> int:
        """The entries of all parts."""
        return self.layout.size

    def split(self, total: object) -> dict[str, Floats]:
        """Return each part of a total: the score as a vector, the others as symmetric matrices."""
        return self.layout.split(total)

    def join(self, **parts: Floats) -> Floats:
        """Return a total from its parts, as `split` gives them."""
        return self.layout.join(**parts)

    # What records can give.

    def check(self, statistics: Statistics) -> Statistics:
        """Return a look that n records can give."""
        n, total = self._checked_total(statistics)
        for part, result in self.split(total).items():
            if float(np.linalg.norm(result)) > n * self.lengths[part] * (1 + 1e-9):
                raise self._off()
        return statistics

    def project(self, n: int, total: Floats) -> Floats:
        """Return each part shortened to what n records can give."""
        result = self.split(np.asarray(total, dtype=np.float64))
        for part, value in result.items():
            most, size = n * self.lengths[part], float(np.linalg.norm(value))
            result[part] = value if size <= most else value * (most / size)
        return self.join(**result)

    def statistics(self, n: int, total: Floats) -> Statistics:
        """Return the statistics nearest to a total, in whole steps towards zero."""
        return Statistics(n, np.trunc(total))

    def middle(self) -> list[float]:
        """Return the look at rows that are zero."""
        return [0.0] * self.size

    def _fits(self, mean: Floats) -> tuple[bool, str]:
        fits = mean.shape == (self.size,) and np.array_equal(self.project(1, mean), mean)
        return bool(fits), f"{self.size} sums of records within the bounds"

    def neighbours(self, first: object, second: object, relation: Relation = REPLACE_ONE) -> bool:
        """Say whether two data sets, or what is seen of them, can differ by one record replaced, or added."""
        first, second = held(first), held(second)
        if isinstance(first, HeldRecords) and isinstance(second, HeldRecords):
            if relation.hides_n:
                return one_more(first, second) or one_more(second, first)
            pairs = zip(zip(*first.columns, strict=True), zip(*second.columns, strict=True), strict=False)
            return first.n == second.n and sum(repr(a) != repr(b) for a, b in pairs) <= 1
        return super().neighbours(first, second, relation)

    def farthest(self, most: int = 128) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return the two typical records whose contributions lie farthest apart, in units of `lengths`."""
        records = list(islice(product(*self.typical()), most))
        full = [dict(self.split(self.read(self.arranged([record])).total)) for record in records]
        scaled = np.array(
            [
                np.concatenate([w[p].ravel() / self.lengths[p] * (2 if p == "score" else 1) for p in self.parts])
                for w in full
            ]
        )
        gaps = np.linalg.norm(scaled[:, None] - scaled[None], axis=2)
        i, j = np.unravel_index(int(np.argmax(gaps)), gaps.shape)
        return records[int(i)], records[int(j)]

    def pairs(self, n: int | None) -> list[tuple[Statistics, Statistics]]:
        """Return typical records as far apart as any, all others equal to the second.

        Where n is None, the two records that lie farthest apart, and each of them alone.
        """
        first, second = self.farthest()
        if n is None:
            both = self._of([first, second])
            return [(both, self._of([item])) for item in (first, second)]
        remainder = [second] * (n - 1)
        return [(self._of([first, *remainder]), self._of([second, *remainder]))]

    def _of(self, records: Sequence[tuple[object, ...]]) -> Statistics:
        return self.read([list(column) for column in zip(*records, strict=True)])

    def typical(self) -> tuple[tuple[Any, ...], ...]:
        """Return the ends, the middle and beyond of every column, and a missing value."""
        return tuple(typical_values(column) for column in self.columns)
