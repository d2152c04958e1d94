"""What records are imagined to be, for a forecast: a guess of yours, or of anyone's, never read off the data."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import real
from sottovoce.privacy.shares import read_share
from sottovoce.records.facts.columns import Category, Column, Count, Day, Flag, Number
from sottovoce.records.facts.encodings import levels_of

__all__ = ["AssumedDistribution", "counted", "evenly", "imagined_of", "parse_imagined", "split_imagined"]

Floats = NDArray[np.float64]
_LARGE = 50.0
"""Counts of a mean up to this are found one by one."""
_SPREAD = 0.25
_MOST = {"share": 1.0, "spread": 0.5, "kept": 1.0, "smallest": 1.0}


@dataclass(frozen=True)
class AssumedDistribution:
    """How often flags are set, how large groups are and how far numbers spread, unless more is said of a column.

    Attributes
    ----------
    share
        How often a flag is set.
    spread
        The standard deviation of a number, as a part of the range between its bounds: a quarter unless it is given, and
        in a regression what a survey of real columns has.
    kept
        The part of the records that the question is about: those its condition holds for.
    smallest
        The part of those that the smallest group has; all groups are as large unless it is given.
    columns
        What is said of single columns: of a flag its share, of a number its spread, of counts their mean, of categories
        the part of each that is named, which leaves the rest to the others evenly.

    Examples
    --------
    >>> rare = AssumedDistribution(columns={"smoker": 0.2, "ward": {"C": 0.1}})
    >>> rare.shares("smoker", Flag()).tolist(), rare.shares("ward", Category(["A", "B", "C"])).tolist()
    ([0.8, 0.2], [0.45, 0.45, 0.1])
    """

    share: float = 0.5
    spread: float | None = None
    kept: float = 1.0
    smallest: float | None = None
    columns: Mapping[str, float | Mapping[Any, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, most in _MOST.items():
            value = getattr(self, name)
            if value is not None and not 0 <= real(name, value) <= most:
                raise InvalidValue(f"{name} must lie between 0 and {most:g}. Got {value!r}")

    @property
    def texts(self) -> list[str]:
        """What is said of single columns, in the words that `parse_imagined` reads."""
        result = []
        for name, said in self.columns.items():
            parts = said if isinstance(said, Mapping) else {None: said}
            result += [f"{name}{'' if level is None else f':{level}'}={part!r}" for level, part in parts.items()]
        return result

    def check(self, facts: Mapping[str, Column]) -> None:
        """Refuse what is said of a column that the facts do not name, or that it cannot be."""
        known = [name for name, column in facts.items() if isinstance(column, Category | Count | Day | Flag | Number)]
        for name in self.columns:
            if name not in known:
                raise InvalidValue(f"nothing can be imagined of {name!r} here; there are {', '.join(known)}")
            if levels_of(facts[name]) is None:
                self.spread_of(name, facts[name])
            else:
                self.shares(name, facts[name])

    def shares(self, name: str, column: Column) -> Floats:
        """Return how often each value of a flag or of a column of categories is imagined."""
        levels = levels_of(column) or ()
        given: Any = self.columns.get(name, {})
        if isinstance(column, Flag):
            said = self.columns.get(name, self.share)
            if isinstance(said, Mapping) or not 0 <= real(f"how often {name} is set", said) <= 1:
                raise InvalidValue(f"imagine how often {name!r} is set, from 0 to 1, such as {name}=20%. Got {said!r}")
            given = {True: said}
        unknown = [level for level in given if level not in levels] if isinstance(given, Mapping) else [given]
        if unknown:
            values = ", ".join(map(str, levels[:12])) + (", …" if len(levels) > 12 else "")
            raise InvalidValue(
                f"say how often a value of {name!r} is met, such as {name}:{levels[-1]}=5%; it has {values}. "
                f"Got {unknown[0]!r}"
            )
        parts = {level: real(f"the share of {name}", part) for level, part in given.items()}
        remaining, others = 1 - sum(parts.values()), len(levels) - len(parts)
        if min(parts.values(), default=0) < 0 or remaining < -1e-9 or (not others and remaining > 1e-9):
            raise InvalidValue(f"the shares of {name!r} must add up to one")
        return np.array([parts.get(level, max(remaining, 0.0) / max(others, 1)) for level in levels])

    def spread_of(self, name: str, column: Column) -> float:
        """Return the standard deviation of a number or of counts, as a part of the range."""
        said = self.columns.get(name, _SPREAD if self.spread is None else self.spread)
        most = column.high if isinstance(column, Count) and name in self.columns else _MOST["spread"]
        what = "a spread, as a part of its range" if most == _MOST["spread"] else "a mean"
        if isinstance(said, Mapping) or not 0 <= real(f"what {name} is imagined to be", said) <= most:
            raise InvalidValue(f"imagine of {name!r} {what}, from 0 to {most:g}. Got {said!r}")
        if isinstance(column, Count) and name in self.columns:
            return min(math.sqrt(said) / column.high, _MOST["spread"])
        return float(said)

    def values(self, name: str, column: Column, places: Floats | int) -> NDArray[Any]:
        """Return the values at these places, from 0 to 1, or at so many that lie evenly, of what a column may hold.

        Numbers lie about the middle of their bounds as a beta law does that spreads so far.
        """
        levels, at = levels_of(column), evenly(places) if isinstance(places, int) else places
        if levels is not None:
            which = np.searchsorted(np.cumsum(self.shares(name, column))[:-1], at, side="right")
            return np.asarray(which == 1) if isinstance(column, Flag) else np.array(levels)[which]
        if not isinstance(column, Number | Count):
            raise InvalidValue(f"nobody has said how to imagine {name!r}, a {column.word}")
        spread = self.spread_of(name, column)
        if isinstance(column, Count) and name in self.columns:
            return counted(at, real(name, self.columns[name]), column.high)
        shape = float((1 / np.clip(2 * spread, 1e-6, 1 - 1e-6) ** 2 - 1) / 2)
        part = _middles(shape, places) if isinstance(places, int) else special.betaincinv(shape, shape, places)
        if isinstance(column, Count):
            return np.asarray(np.rint(column.high * part))
        return np.asarray(column.low + (column.high - column.low) * part)

    def sizes(self, n: int, columns: Mapping[str, Column], met: Sequence[int] | None = None) -> Floats:
        """Return how many records each combination of the columns' values is imagined to have.

        Those that are `met`, by their places, have all that the condition keeps; all are met unless it is said which.
        Where it is said how small the smallest is, that is the first, and the others are as large as each other.
        """
        parts = np.ones(1)
        for name, column in columns.items():
            parts = np.outer(parts, self.shares(name, column)).ravel()
        result = np.zeros(len(parts))
        places = list(range(len(parts)) if met is None else met)
        result[places] = parts[places] / (1 if len(places) == len(parts) else max(parts[places].sum(), 1e-300))
        if self.smallest is not None and len(places) > 1:
            first = min(self.smallest, 1 / len(places))
            result[places] = [first, *[(1 - first) / (len(places) - 1)] * (len(places) - 1)]
        return n * self.kept * result


def evenly(count: int) -> Floats:
    """Return the middles of so many equal parts of what lies from 0 to 1."""
    return (np.arange(count) + 0.5) / count


@functools.lru_cache(maxsize=16)
def _middles(shape: float, count: int) -> Floats:
    """Return quantiles, at places that lie evenly, of a beta law about one half; several columns have the same."""
    low = special.betaincinv(shape, shape, evenly(count)[: (count + 1) // 2])
    return np.concatenate([low, 1 - low[: count // 2][::-1]])


def counted(places: Floats, mean: Any, high: int) -> Floats:
    """Return the counts at these places of Poisson laws of a mean, or of several, cut at the highest.

    >>> counted(np.array([0.1, 0.5, 0.9]), 1.0, 9).tolist()
    [0.0, 1.0, 2.0]
    """
    rate = np.maximum(mean, 1e-9)
    if np.max(rate, initial=0.0) > _LARGE:
        result = np.nan_to_num(special.pdtrik(places, rate))  # no number where there are none
        return np.asarray(np.clip(np.ceil(result), 0.0, high))
    result = np.zeros(np.broadcast_shapes(np.shape(places), np.shape(rate)))
    mass = np.exp(-rate)
    below = np.asarray(mass)
    for count in range(1, high + 1):
        more = places > below
        if not more.any():
            break
        result += more
        mass = mass * rate / count
        below = below + mass
    return result


def parse_imagined(texts: Iterable[str], facts: Mapping[str, Column], **others: Any) -> AssumedDistribution:
    """Return what is said of columns in words: ``smoker=20%``, ``age=0.1``, ``ward:C=5%``.

    >>> parse_imagined(["ward:C=5%"], {"ward": Category(["A", "B", "C"])}).columns
    {'ward': {'C': 0.05}}
    """
    result: dict[str, Any] = {}
    for text in texts:
        if not isinstance(text, str):
            raise InvalidValue(f"imagine columns in words like smoker=20%, age=0.1 or ward:C=5%. Got {text!r}")
        left, _, right = text.rpartition("=")
        try:
            number = read_share("a share", right)
        except InvalidValue:
            raise InvalidValue(f"imagine columns like smoker=20%, age=0.1 or ward:C=5%. Got {text!r}") from None
        name = max((item for item in facts if f"{left}:".startswith(f"{item}:")), key=len, default=left)
        word = left[len(name) + 1 :]
        if name in facts and isinstance(facts[name], Category):
            level = next((item for item in levels_of(facts[name]) or () if str(item) == word), word)
            said, key = result.setdefault(name, {}), level
        else:
            said, key = result, left
        if key in said:
            raise InvalidValue(f"{left!r} is imagined twice")
        said[key] = number
    built = AssumedDistribution(columns=result, **others)
    built.check(facts)
    return built


def imagined_of(said: AssumedDistribution | Iterable[str] | None, facts: Mapping[str, Column]) -> AssumedDistribution:
    """Return what records are imagined to be: as it is, by column, or from words, which may stand in one text.

    >>> imagined_of("smoker=20%, ward:C=5%", {"smoker": Flag(), "ward": Category(["A", "B", "C"])}).columns
    {'smoker': 0.2, 'ward': {'C': 0.05}}
    """
    if isinstance(said, Mapping):
        said = AssumedDistribution(columns=dict(said))
    if isinstance(said, AssumedDistribution):
        said.check(facts)
        return said
    if isinstance(said, str):
        said = split_imagined(said)
    if said is not None and not isinstance(said, Iterable):
        raise InvalidValue(f"imagine columns like ['smoker=20%', 'ward:C=5%']. Got {said!r}")
    return parse_imagined(() if said is None else said, facts)


def split_imagined(text: str) -> list[str]:
    """Return the parts of what is said of several columns in one text, with commas between them.

    >>> split_imagined("smoker=20%, ward:North, old=5%")
    ['smoker=20%', 'ward:North, old=5%']
    """
    result = [part.strip(" ,") for part in re.findall(r"[^=]*=[^,]*,?|[^=]+$", text)]
    return [part for part in result if part]
