"""Check a reading of anyone's: that records of every kind are read, and that none moves the total beyond its word."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from sottovoce.audit.checks.result import CheckResult, attempt, verdict
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.readings import ReadableRecords, Reading, Sensitivity, Statistics

ODD: tuple[object, ...] = (
    *(None, math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 10**400, -(10**400)),
    *("text", "", b"\xff", 1j, [1, 2], {}, object()),
)
"""Cells that no column should hold, and any may."""
_MOST = 24
Record = tuple[Any, ...]


@dataclass(frozen=True)
class InMemory(ReadableRecords):
    """Records, each a tuple of cells, that any reading can look at."""

    records: Sequence[Record]

    def look(self, reading: Any) -> Any:
        """Return what a reading makes of them."""
        return reading.read(reading.arranged(self.records))


def check_reading(reading: Reading) -> tuple[CheckResult, ...]:
    """Hold a reading to what every reading must do, and return what each check says.

    It reads back from JSON; no cell, however odd, makes it fail or warn; the order of records does not matter; over all
    pairs of neighbours that its typical and odd records make, no total moves farther than `movement` and `blocks` say;
    and where a query is known, an engine reads the same.

    Examples
    --------
    >>> from sottovoce.records.readings import ClippedSum
    >>> all(result.passed for result in check_reading(ClippedSum(0.0, 10.0)))
    True
    """
    parts = {
        "it reads back from JSON": _read_back,
        "no record makes it fail": _total_map,
        "the order of records does not matter": _unordered,
        "no record moves it farther than it says": _moves,
        "its pairs and means are of records": _ends,
        "an engine reads the same": _engine,
    }
    return tuple(attempt(name, lambda part=part: part(reading)) for name, part in parts.items())  # type: ignore[misc]


def typical_records(reading: Reading) -> list[Record]:
    """Return records of typical cells: all of them, or where they are many, each value once and some at random."""
    columns = reading.typical()
    if math.prod(map(len, columns)) <= _MOST:
        return list(itertools.product(*columns))
    deep = max(map(len, columns))
    result = [tuple(column[k % len(column)] for column in columns) for k in range(deep)]
    rng = seeded_rng(0)
    result += [tuple(column[int(rng.integers(len(column)))] for column in columns) for _ in range(_MOST - deep)]
    return result


def with_odd_cells(record: Record) -> Iterator[Record]:
    """Yield a record with one cell odd, each in each way, and with all of them."""
    for odd in ODD:
        yield (odd,) * len(record)
        if len(record) > 1:
            yield from ((*record[:k], odd, *record[k + 1 :]) for k in range(len(record)))


def frame_of(records: Sequence[Record], names: Sequence[str]) -> Any:
    """Return records as an Arrow table."""
    import pyarrow as pa  # noqa: PLC0415 - an extra

    columns = zip(*records, strict=True)
    return pa.table({name: pa.array(list(column)) for name, column in zip(names, columns, strict=True)})


def _seen(reading: Reading, records: Sequence[Record]) -> Any:
    return _all_seen(reading, [records])[0]


def _all_seen(reading: Reading, tables: Iterable[Sequence[Record]]) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return [reading.read(reading.arranged(records)) for records in tables]


def _read_back(reading: Reading) -> tuple[bool, str]:
    again = Reading.from_dict(json.loads(json.dumps(reading.to_dict(), allow_nan=False)))
    problems = [] if again == reading else ["another reading comes back"]
    return verdict(problems, "the same reading")


def _total_map(reading: Reading) -> tuple[bool, str]:
    problems, tried = [], 0
    plain = typical_records(reading)[0]
    expected = type(_seen(reading, [plain] * 3))
    for odd in with_odd_cells(plain):
        tried += 1
        cells = "a cell that is " + ", ".join({type(cell).__name__ for cell in odd})
        try:
            seen = _seen(reading, [plain, odd, plain])
        except Exception as error:
            problems.append(f"{cells}: {type(error).__name__}")
            continue
        if type(seen) is not expected or seen.n != 3:
            problems.append(f"{cells}: what is seen is of another kind or another n")
        elif isinstance(seen, Statistics):
            reading.check_whole(reading.check(seen))
    return verdict(problems, f"{tried} odd records read")


def _unordered(reading: Reading) -> tuple[bool, str]:
    records = [*typical_records(reading), *with_odd_cells(typical_records(reading)[0])]
    seen = _seen(reading, records)
    if not isinstance(seen, Statistics):
        return True, "it keeps records one by one"
    problems = []
    for seed in range(4):
        order = seeded_rng(seed).permutation(len(records))
        if _seen(reading, [records[i] for i in order]) != seen:
            problems.append("another order of the records gives another total")
    return verdict(problems, f"{len(records)} records in five orders")


def _moves(reading: Reading) -> tuple[bool, str]:
    records = typical_records(reading)
    tried = [*records, *with_odd_cells(records[0])]
    problems, pairs, share = [], 0, 0.0
    others = [(1, records[0]), *itertools.product((2, 5), records[:: max(1, len(records) - 1)])]
    for n, remainder in others:
        seen = _all_seen(reading, ([record, *[remainder] * (n - 1)] for record in tried))
        pairs += len(seen) ** 2
        if isinstance(seen[0], Statistics):  # what is seen alike is compared once
            seen = list({(item.total.tobytes(), item.above, item.exact): item for item in seen}.values())
            subset: Any = itertools.combinations_with_replacement(seen, 2)
        else:
            subset = itertools.islice(itertools.combinations(seen, 2), 0, None, n)  # all where nothing hides it
        apart = sum(not reading.neighbours(a, b) for a, b in subset)
        if apart:
            problems.append(f"of n={n}, {apart} pairs of neighbours are taken for others")
        if isinstance(seen[0], Statistics) and (claims := list(_claims(reading, n))):
            steps = np.array([reading.steps(item) for item in seen])
            gaps = (steps[:, None] - steps[None]).reshape(-1, reading.size)
            for what, part, most in claims:
                over = _most(gaps[:, part], most)
                share = max(share, over)
                if over > 1:
                    problems.append(f"of n={n} a record moves {what} by {over:.4g} of what is claimed")
    return verdict(problems, f"{pairs} pairs of neighbours, at most {share:.4g} of the claim")


def _claims(reading: Reading, n: int) -> Iterator[tuple[str, slice, Sensitivity]]:
    with contextlib.suppress(InvalidValue):  # parts with grids of their own
        yield "the total", slice(None), reading.movement(n)
    with contextlib.suppress(InvalidValue):  # bounds with which nothing carries noise
        start = 0
        for block in reading.blocks(n):
            yield "a part", slice(start, start + block.size), block.movement
            start += block.size


def _most(gaps: Any, most: Sensitivity) -> float:
    """Return the largest move as a share of what is claimed."""
    shares = [float((gaps.astype(np.float64) ** 2).sum(axis=1).max()) / most.squares if most.squares else math.inf]
    if most.cells:
        shares += [float((gaps != 0).sum(axis=1).max()) / most.cells, float(np.abs(gaps).max()) / max(most.width, 1)]
    if most.total is not None:
        shares.append(float(np.abs(gaps).sum(axis=1).max()) / most.total)
    return max(shares) if gaps.any() else 0.0


def _ends(reading: Reading) -> tuple[bool, str]:
    problems = []
    for n in (1, 4):
        for first, second in reading.pairs(n):
            if not reading.neighbours(first, second) or {first.n, second.n} != {n}:
                problems.append(f"its pairs for n={n} are no neighbours")
            for item in (first, second):
                reading.check(item)
        seen = _seen(reading, typical_records(reading)[:n])
        if isinstance(seen, Statistics):
            if not np.allclose(reading.project(seen.n, seen.total), seen.total, rtol=1e-12):
                problems.append("a total of records does not stay where it is when projected")
            reading.check(reading.statistics(n, reading.project(n, np.full(reading.size, 1e18))))
            reading.check(reading.imagined(n, reading.middle()))
    return verdict(problems, "neighbours, and totals that records can have")


def _engine(reading: Reading) -> tuple[bool, str]:
    if not (find_spec("ibis") and find_spec("pyarrow")):
        return True, "no tables are installed"
    from sottovoce.records.tables import open_table  # noqa: PLC0415 - an extra
    from sottovoce.records.tables.query_plans import PLANS  # noqa: PLC0415

    if reading.word not in PLANS:
        return True, "no query is known for it"
    records = typical_records(reading)
    records += [(None,) * len(records[0])]
    shown = [(*record, place) for place, record in enumerate(records)] if reading.persons else records
    names = [f"column {k}" for k in range(len(shown[0]))]
    column = names if len(names) > 1 or reading.vector else names[0]
    with open_table(frame_of(shown, names)) as table:
        try:
            table.check(reading, column)
        except InvalidValue:
            return True, "no engine takes it, and it is refused unread"
        result = table.read(reading, column)
    same = result == _seen(reading, records) if isinstance(result, Statistics) else result.n == len(records)
    return verdict([] if same else ["a table gives another total than records in memory"], f"{len(records)} records")
