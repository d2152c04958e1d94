"""Draws of several named arrays as one posterior: what the models of this room have in common."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from sottovoce.mechanisms.intervals import reaching
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, whole
from sottovoce.privacy.randomness import secure_rng


class NamedDraws(ABC):
    """Draws of named arrays, draws first; as a posterior they are one long vector, whose entries `labels` names."""

    lone: Mapping[str, Floats] | None = None
    """Draws of some parts' shares as if each alone were asked for: their intervals reach at least as far."""

    @property
    @abstractmethod
    def named(self) -> Mapping[str, Floats]:
        """The draws of each part by its name."""

    def part(self, name: str) -> Floats:
        """Return the draws of one part."""
        parts = self.named
        if name not in parts:
            raise InvalidValue(f"nothing here is called {name!r}; there are {', '.join(parts)}")
        return parts[name]

    def along(self, name: str) -> tuple[Sequence[Hashable], ...]:
        """Return what is found along each axis of a part, the draws' apart: places, or what a model calls them."""
        return tuple(range(size) for size in self.part(name).shape[1:])

    @property
    def labels(self) -> list[str]:
        """The name of every entry: its part's, and its place in it."""
        return [
            f"{name}[{', '.join(map(str, place))}]"
            for name in self.named
            for place in itertools.product(*self.along(name))
        ]

    @property
    def _all(self) -> Floats:
        return np.concatenate([draws.reshape(len(draws), -1) for draws in self.named.values()], axis=1)

    @property
    def mean(self) -> Floats:
        """The mean of every entry."""
        return np.asarray(self._all.mean(axis=0))

    @property
    def sd(self) -> Floats:
        """The standard deviation of every entry."""
        return np.asarray(self._all.std(axis=0))

    def interval(self, level: float = 0.95, name: str | None = None) -> Floats:
        """Return equal-tailed intervals, (low, high) last: of every entry, or of the part `name` in its shape."""
        if name is None:
            return np.concatenate([self.interval(level, part).reshape(-1, 2) for part in self.named])
        ends = ends_of(self.part(name), level)
        return reaching(ends, ends_of(self.lone[name], level)) if self.lone and name in self.lone else ends

    def sample(self, draws: int = 1, rng: np.random.Generator | None = None) -> Floats:
        """Return some of the draws at random, (draws, entries); any number is free."""
        held = self._all
        rng = secure_rng() if rng is None else rng
        return np.asarray(held[rng.integers(len(held), size=whole("draws", draws, 1))])

    def summary(self, level: float = 0.95) -> str:
        """Return every entry with its mean and interval, a line each, with as many digits as the interval bears out."""
        width, lines = max(map(len, self.labels)), []
        for label, mean, (low, high) in zip(self.labels, self.mean, self.interval(level), strict=True):
            digits = int(np.clip(1 - np.floor(np.log10(high - low)), 0, 8)) if low < high else 4  # of a single draw
            lines.append(f"{label:<{width}}  {mean:.{digits}f}  ({low:.{digits}f} to {high:.{digits}f})")
        return "\n".join(lines)

    def __repr__(self) -> str:
        parts = self.named
        sizes = (f"{name} ({' × '.join(map(str, draws.shape[1:]))})" for name, draws in parts.items())
        return f"{type(self).__name__}({len(next(iter(parts.values())))} draws of {', '.join(sizes)})"

    @abstractmethod
    def to_dict(self) -> dict[str, object]:
        """Return the draws as plain values."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedDraws) and type(other) is type(self) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]


def tails(level: float) -> list[float]:
    """Return the two probabilities between which an equal-tailed interval holds `level`."""
    if not isinstance(level, int | float) or not 0 < level < 1:
        raise InvalidValue(f"level must lie between 0 and 1. Got {level!r}")
    return [(1 - level) / 2, (1 + level) / 2]


def ends_of(draws: Floats, level: float) -> Floats:
    """Return the equal-tailed interval of draws (draws first), (low, high) last.

    On average 1/(N + 1) of a law lies between two neighbours of N draws, and beyond the first and the last.

    >>> ends_of(np.arange(1.0, 40.0), 0.9).round(6).tolist()
    [2.0, 38.0]
    """
    return np.moveaxis(np.quantile(draws, tails(level), axis=0, method="weibull"), 0, -1)


def lone_state(lone: Mapping[str, Floats] | None) -> dict[str, object]:
    """Return lone draws as plain values, nothing where there are none; `lone_from` reads them back."""
    return {"lone": {name: draws.tolist() for name, draws in lone.items()}} if lone else {}


def lone_from(state: Mapping[str, Any]) -> dict[str, Floats] | None:
    """Read lone draws from a posterior's form; earlier ones have none."""
    return {name: np.asarray(draws, dtype=np.float64) for name, draws in state.get("lone", {}).items()} or None
