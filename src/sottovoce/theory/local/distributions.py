"""Reading distributions and edges: every number an exact fraction, every mistake named."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats

_SUM_TOLERANCE = Fraction(1, 10**9)

Distribution = Mapping[Any, Any] | Sequence[Any] | Floats


def some(labels: Sequence[Hashable]) -> str:
    """Return the first few labels, for a message."""
    shown = ", ".join(map(str, labels[:8]))
    return shown + (f", … ({len(labels)} in all)" if len(labels) > 8 else "")


def categories_of(profiles: Mapping[Any, Distribution], categories: Iterable[Hashable] | None) -> tuple[Hashable, ...]:
    """Return the categories asked for, or those met in the profiles, in order."""
    if categories is not None:
        labels = tuple(categories)
    elif all(isinstance(row, Mapping) for row in profiles.values()):
        labels = tuple(dict.fromkeys(c for row in profiles.values() for c in row))
    else:
        labels = tuple(range(len(next(iter(profiles.values())))))
    if not labels:
        raise InvalidValue("a profile graph needs at least one category. Got none")
    if len(set(labels)) < len(labels):
        raise InvalidValue(f"categories must be distinct. Got {some(labels)}")
    return labels


def distribution_of(name: Hashable, row: Distribution, labels: tuple[Hashable, ...]) -> tuple[Fraction, ...]:
    """Return one profile's probabilities as fractions that sum to one exactly."""
    if isinstance(row, Mapping):
        unknown = [c for c in row if c not in labels]
        if unknown:
            raise InvalidValue(f"profile {name!r} has the category {unknown[0]!r}, which is not among: {some(labels)}")
        values = [row.get(c, 0) for c in labels]
    else:
        values = list(row)
        if len(values) != len(labels):
            raise InvalidValue(f"profile {name!r} needs {len(labels)} probabilities, one a category. Got {len(values)}")
    weights = [fraction_of(name, v) for v in values]
    total = sum(weights, Fraction(0))
    if abs(total - 1) > _SUM_TOLERANCE:
        raise InvalidValue(f"the probabilities of profile {name!r} must sum to 1. Got {float(total):.12g}")
    return tuple(w / total for w in weights)


def fraction_of(name: Hashable, value: Any) -> Fraction:
    """Return a probability as the exact fraction it is."""
    try:
        p = Fraction(value.item() if isinstance(value, np.generic) else value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidValue(f"profile {name!r} has a probability that is no finite number. Got {value!r}") from None
    if not 0 <= p <= 1 + _SUM_TOLERANCE:
        raise InvalidValue(f"the probabilities of profile {name!r} must be in [0, 1]. Got {value!r}")
    return p


def edges_of(edges: Iterable[Sequence[Hashable]], names: tuple[Hashable, ...]) -> tuple[tuple[Hashable, Hashable], ...]:
    """Return the edges, each once, or raise at the first that makes no sense."""
    known = set(names)
    seen: dict[frozenset[Hashable], tuple[Hashable, Hashable]] = {}
    for edge in edges:
        if isinstance(edge, str) or len(edge) != 2:
            raise InvalidValue(f"an edge is a pair of profile names. Got {edge!r}")
        first, second = edge
        for name in (first, second):
            if name not in known:
                raise InvalidValue(
                    f"the edge {first!r}–{second!r} names no known profile {name!r}; known: {some(names)}"
                )
        if first == second:
            raise InvalidValue(f"an edge joins two different profiles. Got {first!r} twice")
        seen.setdefault(frozenset((first, second)), (first, second))
    return tuple(seen.values())
