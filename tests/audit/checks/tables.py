"""What leaves a table unpaid: its names, types and n, whether a question fails, and how many budgets it has."""

from __future__ import annotations

import os
import sys
import tempfile
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sottovoce.audit.checks.result import check, verdict
from sottovoce.mechanisms import DiffusedPosterior
from sottovoce.mechanisms.conjugate import BetaBernoulli
from sottovoce.privacy.errors import SottovoceError
from sottovoce.privacy.promises import RenyiDP
from sottovoce.records.readings import CategoryCounts, ClippedSum
from sottovoce.records.tables import delimited, open_table, text_files
from sottovoce.service.curator import Curator

__all__ = ["failing", "live_records", "one_budget", "one_effort", "out_of_reach", "public_facts"]

_RECORDS = [b"%d,%d,ward %d" % (k, 20 + k % 60, k % 3) for k in range(999)]
_CALLS, _MEMORY = 1_000, 8.0
"""More calls for a hostile line than for a plain one: a few for each of two pieces that it lies in. And more bytes held
at once, for each of its bytes: those of the automaton, for the eighth of the line that is read."""
_ODD = (
    *(b"q, r,44,1", b"", b"n/a", b",,,,,,", b'"', b'1,""4"4"",x', b"\x00\xff\xfe,\x00", b"1,44,ward 1\r"),
    *(b"id,age,ward", b"1e999,-1e999,inf", b"1;44;\x1f"),
)
_QUESTIONS: tuple[tuple[Any, str | None, str | None], ...] = (
    (ClippedSum(0, 100), "age", None),
    (ClippedSum(0, 1), None, "age > 40 and ward = 'ward 1'"),
)


def _answers(source: Any) -> tuple[Any, Any, list[Any]]:
    with open_table(source) as table:
        found = [table.read(reading, column, where=where) for reading, column, where in _QUESTIONS]
        return table.schema, {table.count(), *(one.n for one in found)}, [one.total for one in found]


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@check("no record changes what is public of a table")
def public_facts() -> tuple[bool, str]:
    """Names, types and n of a CSV file must not move, and a sum by one record at most, where any record is replaced."""
    problems = []
    with _folder() as folder:
        path = folder / "people.csv"
        path.write_bytes(b"\n".join([b"id,age,ward", *_RECORDS, b"1,44,ward 1", b""]))
        schema, n, totals = _answers(path)
        for odd in _ODD:
            path.write_bytes(b"\n".join([b"id,age,ward", *_RECORDS, odd, b""]))
            found = _answers(path)
            if found[:2] != (schema, n):
                problems.append(f"a record made the table {found[0]} with n of {found[1]}")
            moved = max(float(np.abs(a - b).max()) for a, b in zip(totals, found[2], strict=True))
            if moved > 100.0:
                problems.append(f"a record moved a sum by {moved:g}")
            if problems:
                break
    return verdict(problems, f"{len(_ODD)} odd records beside 999: the same names, types and n, sums within bounds")


@check("no record makes a question fail")
def failing() -> tuple[bool, str]:
    """Text that is no UTF-8, numbers beyond every type: a question is answered whatever a record holds."""
    texts = pa.array([b"ward 1", b"\xff\xfe", b"\x00", b""] * 5, pa.binary()).view(pa.string())
    ages = pa.array([0, 1, 2**64 - 1, None] * 5, pa.uint64())
    table = pa.table({"age": ages, "ward": texts, "x": [1e308, float("nan"), float("-inf"), 5e-324] * 5})
    asked: list[tuple[Any, str, str | None]] = [
        (ClippedSum(-1, 1), name, where) for name in ("age", "x") for where in (None, "ward = 'ward 1'", "age > -1")
    ]
    asked.append((CategoryCounts(("ward 1", "ward 2")), "ward", "not age < -5"))
    with _folder() as folder:
        pq.write_table(table, folder / "odd.parquet")
        for source in (folder / "odd.parquet", table):
            with open_table(source) as opened:
                for reading, column, where in asked:
                    opened.read(reading, column, where=where)
    return True, f"{2 * len(asked)} questions to records that no question expects: all answered"


_LINE = 2**18
"""The bytes of a hostile line: as many as a piece of a file that is read at once."""
_HOSTILE = tuple(
    (part * _LINE)[:_LINE] for part in (b'"a"b,', b'"', b'a"', b'""', b'","', b",", b"\xff", b'\x00"', b"\r")
)


def _effort(path: Path, hostile: bytes) -> tuple[int, int]:
    """Return how many functions are called to read a file, from Python or in it, and the most memory they hold.

    What is called goes through bytes in their order, once: a way of reading that is slow for some bytes either calls
    for each of them or holds more of them.
    """
    path.write_bytes(b"\n".join([b"id,age,ward", *_RECORDS, hostile, *_RECORDS, b""]))
    called = 0

    def note(*_: object) -> None:
        nonlocal called
        called += 1

    batches = delimited.line_batches([str(path)], text_files.longest_line(delimited.header(str(path))))
    tracemalloc.start()
    sys.setprofile(note)
    try:
        for batch in batches:
            del batch
        most = tracemalloc.get_traced_memory()[1]
    finally:
        sys.setprofile(None)
        tracemalloc.stop()
    return called, most


@check("no line of a CSV file takes more work than another")
def one_effort() -> tuple[bool, str]:
    """Calls and memory, not seconds: the same within a bound that the sizes of pieces give, whatever a line holds."""
    with _folder() as folder:
        path = folder / "people.csv"
        plain = _effort(path, b"1,44," + b"x" * (_LINE - 5))
        worst = tuple(map(max, zip(*(_effort(path, hostile) for hostile in _HOSTILE), strict=True)))
    calls, memory = worst[0] - plain[0], (worst[1] - plain[1]) / _LINE
    problems = [f"a line of odd bytes takes {calls} calls more than a plain one"] if calls > _CALLS else []
    problems += [f"a line of odd bytes takes {memory:.1f} bytes of memory a byte"] if memory > _MEMORY else []
    said = (
        f"{len(_HOSTILE)} hostile lines of {_LINE:,} bytes: {calls} calls and {memory:.1f} bytes a byte more than plain"
    )
    return verdict(problems, said)


@check("a folder holds the records that are live")
def live_records() -> tuple[bool, str]:
    """Tables whose log strikes files off are refused, hidden files hold nothing, and partitions say what they hold."""
    problems = []
    with _folder() as folder:
        for place, (mark, name) in enumerate((("_delta_log", ""), (".hoodie", ""), ("metadata", "v1.metadata.json"))):
            lake = folder / str(place)
            (lake / mark).mkdir(parents=True)
            if name:
                (lake / mark / name).write_text("{}")
            pq.write_table(pa.table({"x": [1, 2]}), lake / "0.parquet")
            try:
                open_table(lake).close()
                problems.append(f"a table with {mark} was read as a folder of files")
            except SottovoceError:
                pass
        plain = folder / "plain"
        for name in ("0.parquet", "_1.parquet", ".2.parquet", "_work/3.parquet"):
            (plain / "ward=N" / name).parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table({"x": [1, 2]}), plain / "ward=N" / name)
        with open_table(plain) as table:
            if (n := table.count()) != 2:
                problems.append(f"{n} records of 2 are counted")
            if "ward" not in table.schema:
                problems.append("the column of a partition is left out")
    return verdict(problems, "three kinds of lakes refused, three hidden files skipped, a partition read as a column")


@check("records out of reach cost nothing")
def out_of_reach() -> tuple[bool, str]:
    """A file that was deleted, and a table of a database that grew: refused, and no entry in the ledger."""
    problems, budget = [], RenyiDP(order=2, epsilon=100.0)
    mechanism = DiffusedPosterior(BetaBernoulli(6, 12), 20, 0.01)
    data = pa.table({"smoker": [k % 4 == 0 for k in range(20)]})
    with _folder() as folder:
        file = folder / "p.parquet"
        pq.write_table(data, file)
        database = ibis.duckdb.connect()
        database.raw_sql("CREATE TABLE people AS SELECT range % 4 = 0 AS smoker FROM range(20)")
        ways: tuple[tuple[str, Any, Callable[[], object]], ...] = (
            ("a deleted file", file, file.unlink),
            (
                "a table that grew",
                database.table("people"),
                lambda: database.raw_sql("INSERT INTO people SELECT * FROM people"),
            ),
        )
        for name, source, end in ways:
            with Curator(source, folder / "l.ledger", budget, dataset=name) as curator:
                end()
                try:
                    curator.release(mechanism, "smoker")
                    problems.append(f"{name} is answered")
                except SottovoceError:
                    if curator.history():
                        problems.append(f"{name} costs {curator.history()[0].state.value} budget")
        database.disconnect()
    return verdict(problems, f"{len(ways)} sources went away under an open curator: refused, nothing charged")


@check("data have one budget, whatever they are called")
def one_budget() -> tuple[bool, str]:
    """A file, a link to it, its folder and a pattern share a budget; another file of its name has its own."""
    problems, budget = [], RenyiDP(order=2, epsilon=100.0)
    mechanism = DiffusedPosterior(BetaBernoulli(6, 12), 20, 0.01)
    with _folder() as folder, warnings.catch_warnings(action="ignore"):
        for name, start in (("a", 0), ("b", 1)):
            (folder / name).mkdir()
            pq.write_table(pa.table({"smoker": [(k + start) % 4 == 0 for k in range(20)]}), folder / name / "p.parquet")
            os.utime(folder / name / "p.parquet", ns=(10**18, 10**18))
        (folder / "link.parquet").symlink_to(folder / "a" / "p.parquet")
        place, ways = folder / "ledger", ["a/p.parquet", "link.parquet", "a", "a/*.parquet", "a/../b/../a/p.parquet"]
        numbers = set()
        for way in ways:
            with Curator(str(folder / way), place, budget) as curator:
                numbers.add(curator.budget.id)
                first = curator.release(mechanism, "smoker", idempotency_key="k")
        if len(numbers) > 1:
            problems.append(f"one file under {len(ways)} names got {len(numbers)} budgets")
        with Curator(str(folder / "b" / "p.parquet"), place, budget) as curator:
            if curator.budget.id in numbers:
                problems.append("two files of one name share a budget")
        for way, name in (("a/p.parquet", "again"), ("b/p.parquet", str((folder / "a" / "p.parquet").resolve()))):
            try:
                with Curator(str(folder / way), place, budget, dataset=name) as curator:
                    if curator.budget.id not in numbers:
                        problems.append("a second name gave the same file a second budget")
                    elif curator.release(mechanism, "smoker", idempotency_key="k") == first:
                        problems.append("a key returned the answer of another file")
            except SottovoceError:
                continue
    return verdict(
        problems, f"{len(ways)} names of a file share its budget, and neither a name nor a key opens another's"
    )
