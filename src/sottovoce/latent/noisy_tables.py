"""Count tables that were released through noise: everything after them is post-processing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.latent.count_tables import CountTables
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.errors import InvalidData, InvalidValue

__all__ = ["NoisyTables"]

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class NoisyTables:
    """Noised tables with the law of their noise. Use them as often as you like: no further cost.

    Attributes
    ----------
    tables
        What was counted.
    n
        How many records there were.
    counts
        One array a table, whole numbers, some of them below zero.
    noises
        The noise on each table.
    """

    tables: CountTables
    n: int
    counts: tuple[Integers, ...]
    noises: tuple[IntegerNoise, ...]

    def __post_init__(self) -> None:
        counts = tuple(np.asarray(c, dtype=np.int64) for c in self.counts)
        object.__setattr__(self, "counts", counts)
        if tuple(c.shape for c in counts) != self.tables.shapes or len(self.noises) != len(counts):
            raise InvalidData("every table needs one array of its shape, and its noise")

    def table(self, name: str) -> Integers:
        """Return the table whose last field is `name`."""
        for crossed, counts in zip(self.tables.tables, self.counts, strict=True):
            if crossed[-1] == name:
                return counts
        raise InvalidValue(f"no table ends in {name!r}; they end in {', '.join(t[-1] for t in self.tables.tables)}")

    @property
    def clipped(self) -> tuple[Integers, ...]:
        """The counts with what fell below zero set to 0."""
        return tuple(np.maximum(c, 0) for c in self.counts)

    def summary(self) -> dict[str, str]:
        """Return each table in a few words."""
        named = zip(self.tables.tables, self.counts, self.noises, strict=True)
        return {" × ".join(t): f"{c.size} cells, {x.kind} noise of scale {x.scale:.4g}" for t, c, x in named}

    def to_dict(self) -> dict[str, Any]:
        """Return the tables as plain values; `from_dict` reads them back."""
        return {
            "value": "noisy tables",
            "tables": self.tables.to_dict(),
            "n": self.n,
            "counts": [c.ravel().tolist() for c in self.counts],
            "noises": [{"kind": noise.kind, "scale": noise.scale} for noise in self.noises],
        }

    @staticmethod
    def from_dict(state: Mapping[str, Any]) -> NoisyTables:
        """Read tables from `to_dict`'s form."""
        try:
            tables = CountTables.from_dict(state["tables"])
            counts = tuple(np.reshape(c, s) for c, s in zip(state["counts"], tables.shapes, strict=True))
            noises = tuple(IntegerNoise(noise["kind"], noise["scale"]) for noise in state["noises"])
            return NoisyTables(tables, int(state["n"]), counts, noises)
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidValue(f"cannot read noisy tables: {error}") from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NoisyTables) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]
