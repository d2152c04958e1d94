"""Try a declared sensitivity on generated neighbours: what is visibly wrong is refused, before any data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.readings.function_reading import FunctionReading

_WORK = 200_000
"""Records that all trials may show the function together."""
_SLACK = 1 + 1e-9


def spot_check(reading: FunctionReading, n: int, sensitivity: float, norm: str) -> None:
    """Raise `InvalidValue` where a generated data set of n records and a neighbour of it lie farther apart than said.

    Bases are all records alike at each end, two camps of every split, and random ones; the last record becomes each
    end and something random. A function that answers the same records in two ways is refused too. Nothing here comes
    from the data.
    """
    rng, failures, tried = seeded_rng(n), 0, 0
    for base in _bases(reading, n, rng):
        records = reading.tame(base)
        before = reading.answered(records)
        if not np.array_equal(before, reading.answered(records)):
            raise InvalidValue(f"{reading.name} answers the same records in two ways; give a function without chance")
        for other in _others(reading, base, rng):
            tried += 1
            failures += reading.evaluated(records) is None
            moved = _moved(reading.answered(reading.tame(other)) - before, norm)
            if moved > sensitivity * _SLACK:
                raise InvalidValue(
                    f"one record of a generated data set moves {reading.name} by {moved:.4g}, beyond the declared "
                    f"sensitivity of {sensitivity:.4g}; declare more, or cut the function down"
                )
    if tried and failures == tried:
        raise InvalidValue(
            f"{reading.name} fails on every generated data set, or returns something else than {reading.entries} "
            "number(s); it is called with a list of records"
        )


def _moved(by: Floats, norm: str) -> float:
    gap = np.abs(by)
    return float({"max": gap.max(initial=0.0), "l1": gap.sum(), "l2": np.sqrt((gap**2).sum())}[norm])


def _ends(reading: FunctionReading, rng: np.random.Generator) -> Iterator[list[float]]:
    """Yield cells for one record: low ends, high ends, mixtures, and something random."""
    spans = [_span(column) for column in reading.columns]
    yield [low for low, _ in spans]
    yield [high for _, high in spans]
    yield [(low + high) / 2 if isinstance(low, float) else low for low, high in spans]
    yield [float(rng.choice([low, high])) for low, high in spans]
    yield [float(_random(column, rng, 1)[0]) for column in reading.columns]


def _bases(reading: FunctionReading, n: int, rng: np.random.Generator) -> Iterator[list[Floats]]:
    ends = list(_ends(reading, rng))
    for end in ends[:2]:
        yield [np.full(n, cell) for cell in end]
    rounds = int(np.clip(_WORK // (12 * n), 2, 24))
    for k in range(rounds):
        if k % 2:
            yield [_random(column, rng, n) for column in reading.columns]
            continue
        # Two camps: a median, a mode or a range jumps where one record decides.
        split = n // 2 if k == 0 else int(rng.integers(0, n + 1))
        yield [np.where(np.arange(n) < split, low, high) for low, high in zip(*ends[:2], strict=True)]


def _others(reading: FunctionReading, base: list[Floats], rng: np.random.Generator) -> Iterator[list[Floats]]:
    """Yield the base with one record replaced: the last, or in two camps one of either."""
    n = len(base[0])
    for place in {n - 1, 0}:
        for cells in _ends(reading, rng):
            changed = [column.copy() for column in base]
            for column, cell in zip(changed, cells, strict=True):
                column[place] = cell
            yield changed


def _span(column: object) -> tuple[float, float]:
    if hasattr(column, "categories"):
        return 0.0, float(len(column.categories) - 1)
    return column.bounds if hasattr(column, "bounds") else (0.0, 1.0)


def _random(column: Any, rng: np.random.Generator, n: int) -> Floats:
    low, high = _span(column)
    if column.word == "number":
        return rng.uniform(low, high, n)
    return rng.integers(int(low), int(high), n, endpoint=True).astype(np.float64)
