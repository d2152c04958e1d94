"""What leaves a table unpaid: its names, types and n, whether a question fails, and how many budgets it has."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sottovoce.audit.checks.result import check, verdict
from sottovoce.curator import Curator
from sottovoce.mechanisms import DiffusedPosterior
from sottovoce.privacy.errors import SottovoceError
from sottovoce.privacy.promises import RenyiDP
from sottovoce.readings import CategoryCounts, ClippedSum
from sottovoce.systems import BetaBernoulli
from sottovoce.tables import open_table

__all__ = ["failing", "one_budget", "public_facts"]

_RECORDS = [b"%d,%d,ward %d" % (k, 20 + k % 60, k % 3) for k in range(999)]
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
