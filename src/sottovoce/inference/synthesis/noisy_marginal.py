"""A noisy marginal: counts of some cells of a few columns, as they were released, with the variance of their noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sottovoce.privacy.errors import InvalidData
from sottovoce.privacy.json_values import mapping, restoring
from sottovoce.privacy.numbers import Floats, Integers


@dataclass(frozen=True, eq=False)
class NoisyMarginal:
    """Noisy counts over a partition of the cells of a clique.

    Attributes
    ----------
    clique
        The columns whose cells are counted.
    place
        For each cell of the clique, the last column fastest, which of the counts it adds to; -1 for none.
    counts, variance
        The noisy counts, and the variance of the noise on each.
    source
        Where they come from, in a few words.

    Examples
    --------
    >>> two = NoisyMarginal(("ward",), np.array([0, 1, 1]), np.array([40.0, 61.0]), np.array([4.0, 4.0]), "entry 3")
    >>> two.whole
    False
    """

    clique: tuple[str, ...]
    place: Integers
    counts: Floats
    variance: Floats
    source: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "place", np.asarray(self.place, dtype=np.int64).ravel())
        for name in ("counts", "variance"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.float64).ravel())
        if self.counts.shape != self.variance.shape or not self.counts.size:
            raise InvalidData("every noisy count has a variance")
        if self.place.size == 0 or not -1 <= self.place.min() <= self.place.max() < self.counts.size:
            raise InvalidData("every cell of a clique adds to one of the counts, or to none")
        if not (np.all(np.isfinite(self.counts)) and np.all(self.variance >= 0)):
            raise InvalidData("noisy counts are finite, and no variance is below zero")

    @property
    def whole(self) -> bool:
        """Whether every cell of the clique is counted by itself."""
        return self.place.size == self.counts.size and bool(
            np.array_equal(np.sort(self.place), np.arange(self.place.size))
        )

    def of_parts(self, name: str, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
        """Return the noisy counts of each part of a column of the clique, and their variances: infinite where untold.

        >>> item = NoisyMarginal.of_table(("ill", "ward"), [[5.0, 7.0], [1.0, 0.0]], 4.0)
        >>> [each.tolist() for each in item.of_parts("ill", (2, 2))]
        [[12.0, 1.0], [8.0, 8.0]]
        """
        place, part = self.place.reshape(shape), self.clique.index(name)
        place = np.moveaxis(place, part, 0).reshape(shape[part], -1)
        sums = [np.setdiff1d(cells, np.append(np.delete(place, k, axis=0), -1)) for k, cells in enumerate(place)]
        counts = np.array([self.counts[cells].sum() for cells in sums])
        return counts, np.array([self.variance[cells].sum() if cells.size else np.inf for cells in sums])

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as plain values; `from_dict` reads them back."""
        state: dict[str, Any] = {name: getattr(self, name).tolist() for name in ("place", "counts", "variance")}
        return {"clique": list(self.clique), "source": self.source} | state

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Read counts from `to_dict`'s form."""
        state = mapping("a noisy marginal", state)
        with restoring("a noisy marginal"):
            place, counts, variance = (np.array(state[name]) for name in ("place", "counts", "variance"))
            return cls(tuple(map(str, state["clique"])), place, counts, variance, str(state["source"]))

    @classmethod
    def of_table(cls, clique: tuple[str, ...], counts: Any, variance: float, source: str = "") -> NoisyMarginal:
        """Return the noisy table of all cells of a clique."""
        flat = np.asarray(counts, dtype=np.float64).ravel()
        return cls(clique, np.arange(flat.size), flat, np.full(flat.size, float(variance)), source)
