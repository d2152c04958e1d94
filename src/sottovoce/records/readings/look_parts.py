"""How score, information and meat lie one after the other in the total of a look."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from typing import ClassVar

import numpy as np

from sottovoce.privacy.numbers import Floats, above_diagonal

PARTS = ("score", "information", "meat")


@dataclass(frozen=True)
class LookParts:
    """The parts of a look at so many unknowns: the score a vector, the others symmetric matrices.

    Of a matrix the diagonal and what is above it are two blocks, each row by row.

    >>> LookParts(("score", "meat"), 2).sizes
    {'score': 2, 'meat': 2, 'meat off': 1}
    """

    names: tuple[str, ...]
    dimension: int

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The entries of each block."""
        D, result = self.dimension, {}
        for part in self.names:
            result[part] = D
            if part != "score" and D > 1:
                result[f"{part} off"] = D * (D - 1) // 2
        return result

    @property
    def size(self) -> int:
        """The entries of all blocks."""
        return sum(self.sizes.values())

    def split(self, total: object) -> dict[str, Floats]:
        """Return each part of a total."""
        blocks = np.split(np.asarray(total), np.cumsum(list(self.sizes.values()))[:-1])
        pieces = dict(zip(self.sizes, blocks, strict=True))
        return {part: pieces[part] if part == "score" else self._matrix(part, pieces) for part in self.names}

    def _matrix(self, part: str, pieces: dict[str, Floats]) -> Floats:
        matrix = np.diag(pieces[part])
        if self.dimension > 1:
            rows, columns = above_diagonal(self.dimension)
            matrix[rows, columns] = matrix[columns, rows] = pieces[f"{part} off"]
        return matrix

    def join(self, **parts: Floats) -> Floats:
        """Return a total from its parts, as `split` gives them."""
        pieces = []
        for part in self.names:
            if part == "score":
                pieces.append(parts[part])
                continue
            pieces.append(np.diag(parts[part]))
            if self.dimension > 1:
                pieces.append(parts[part][above_diagonal(self.dimension)])
        return np.concatenate(pieces).astype(np.float64)


@dataclass(frozen=True)
class HazardParts:
    """The parts of a hazard look: a log hazard for each interval, then slopes; two intervals share no information.

    >>> HazardParts(3, 2).sizes
    {'score': 5, 'information': 5, 'information off': 7}
    """

    intervals: int
    slopes: int
    names: ClassVar[tuple[str, ...]] = ("score", "information")

    @property
    def dimension(self) -> int:
        """The unknowns."""
        return self.intervals + self.slopes

    @cached_property
    def places(self) -> tuple[tuple[int, int], ...]:
        """The entries of the information beside its diagonal that are not always zero, as they come."""
        crossed = product(range(self.intervals), range(self.intervals, self.dimension))
        return (*crossed, *combinations(range(self.intervals, self.dimension), 2))

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The entries of each block."""
        return {"score": self.dimension, "information": self.dimension, "information off": len(self.places)}

    @property
    def size(self) -> int:
        """The entries of all blocks."""
        return sum(self.sizes.values())

    def split(self, total: object) -> dict[str, Floats]:
        """Return each part of a total."""
        score, diagonal, off = np.split(np.asarray(total), np.cumsum(list(self.sizes.values()))[:-1])
        matrix = np.diag(diagonal)
        rows, columns = np.array(self.places).T
        matrix[rows, columns] = matrix[columns, rows] = off
        return {"score": score, "information": matrix}

    def join(self, **parts: Floats) -> Floats:
        """Return a total from its parts, as `split` gives them."""
        rows, columns = np.array(self.places).T
        information = parts["information"]
        return np.concatenate([parts["score"], np.diag(information), information[rows, columns]]).astype(np.float64)
