"""What once went wrong from outside: tables with a log, records out of reach, formulas without bound, late answers."""

from __future__ import annotations

import contextlib
import json
import tempfile
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq

from sottovoce.audit.checks.result import check, verdict
from sottovoce.privacy.errors import InvalidValue, SottovoceError
from sottovoce.privacy.promises import PureDP
from sottovoce.records.facts import Facts, Number
from sottovoce.records.facts.formula_parser import parse_formula
from sottovoce.records.tables import open_table
from sottovoce.service.curator import Curator
from sottovoce.service.curator import readable_records as records

__all__ = ["formulas", "lakes", "late", "out_of_reach"]


def _people(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"age": [float(20 + k) for k in range(40)]}), path)


@check("records that a table's log took away do not count")
def lakes() -> tuple[bool, str]:
    """A folder whose log removed its first file: opened as Parquet files, each of its records would count twice."""
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        lake = Path(folder) / "people"
        for part in range(2):
            _people(lake / f"part-{part}.parquet")
        (lake / "_delta_log").mkdir()
        done = [{"add": {"path": "part-0.parquet"}}, {"remove": {"path": "part-0.parquet"}}]
        (lake / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, done)))
        for asked in (lake, lake / "part-0.parquet"):
            try:
                with open_table(asked) as table:
                    problems.append(f"{asked.name} of a Delta Lake table is read: {table.count()} records for 40")
            except SottovoceError:
                continue
    return verdict(problems, "a table with a log is refused, as a folder and by its files")


@check("nothing is charged for records out of reach")
def out_of_reach() -> tuple[bool, str]:
    """The file of an open curator is deleted, and asked for: refused, with an empty ledger and a whole budget."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.parquet"
        _people(path)
        with Curator(path, Path(folder) / "l", PureDP(1.0), facts=Facts(age=Number(0, 100))) as curator:
            path.unlink()
            with contextlib.suppress(SottovoceError):
                curator.mean("age", spend=0.5)
            charged = [str(entry.state) for entry in curator.history()]
    return verdict([f"the ledger holds {charged}"] if charged else [], "a file that is gone costs nothing")


@check("a formula is measured before it is expanded")
def formulas() -> tuple[bool, str]:
    """Three columns to the tenth power are 59,049 products, of which seven terms are left: refused unexpanded."""
    facts = Facts(y=Number(0, 1), a=Number(0, 1), b=Number(0, 1), c=Number(0, 1))
    expanded = InvalidValue("expanded")
    with mock.patch("formulaic.Formula", side_effect=expanded) as expanding, contextlib.suppress(SottovoceError):
        parse_formula("y ~ (a + b + c)**10", facts)
    return verdict(["59,049 products were to be made"] if expanding.called else [], "59,049 products are refused")


@check("answers leave at few moments")
def late() -> tuple[bool, str]:
    """Work of up to a hundred ticks: how many moments tell how long it took, and whether any comes before its end."""
    step = 0.25
    spans = [step * k / 40 for k in range(4001)]
    moments = [records.next_tick(span, step) for span in spans]
    problems = [f"work of {span} s leaves at {at} s" for span, at in zip(spans, moments, strict=True) if at < span]
    if len(set(moments)) > 8:  # one tick, two, four … 128
        problems.append(f"{len(set(moments))} moments tell how long work of up to a hundred ticks took")
    return verdict(problems, f"{len(set(moments))} moments for work of up to a hundred ticks")
