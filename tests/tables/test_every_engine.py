"""Every verb on every engine, of hostile records: equal to the bit, or refused in words before anything is spent.

The table of engines on the page is what such a run saw: `.ci/engines` writes it, and here it is compared.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import math
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ibis
import pyarrow as pa
import pytest
import sqlglot

import sottovoce as sv
from sottovoce.privacy.errors import SottovoceError
from sottovoce.records.tables import Table, open_table

from .engines_here import STARTED, start, why_not

PAGE = Path(__file__).parents[2] / "docs/guide/engines.md"
WRITE = "SOTTOVOCE_ENGINES"
"""Set to ``write``, a run asks every engine that is here everything, and writes what it saw to the page."""
SAME, REFUSED, COMPILED = "yes", "refused", "compiled"

_BIG = 2**63 - 1
_REAL = [0.0, -0.0, math.nan, None, math.inf, -math.inf, 1e308, -1e308, 5e-324, -5e-324, 2.2250738585072014e-308]
_REAL += [1e-200, 0.1, 0.5, 1.5, 2.5, 3.0, 10.0, math.nextafter(10, 11), -math.ulp(0.0), 1e16 + 1, 0.30000000000000004]
_REAL += [99.99999999999999, 100.0, 7.0, -3.0, 0.49999999999999994, 4503599627370497.5, 1 / 3, 2 / 3]
_WHOLE = [0, 1, -1, None, _BIG, -_BIG - 1, 2**53 + 1, -(2**53) - 1, 2**31, -(2**31) - 1, 5, 3, 9, 10, 100, 2, 4, 7, 8]
_TEXT = [
    "north",
    "south",
    "",
    None,
    "north ",
    "North",
    " north",
    "ünï",
    "u\u0308ni\u0308",
    "o'hara",
    'say "hi"',
    "a\\b",
]
_TEXT += ["a\nb", "\u202enorth", "😀", "NULL", "nan", "%", "_", "0", "x" * 5000, "norſh", "ﬁne", "\ufffd"]
_DAY = [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1970, 1, 1), dt.date(2024, 2, 29), None]
_DAY += [dt.date(1582, 10, 10), dt.date(2023, 12, 31), dt.date(2024, 1, 1)]
_N = 48


def _cells(values: list[Any], kind: pa.DataType, step: int = 1, first: int = 0) -> pa.Array:
    return pa.array([values[(step * i + first) % len(values)] for i in range(_N)], kind)


RECORDS = pa.table(
    {
        "x": _cells(_REAL, pa.float64()),
        "y": _cells(_REAL, pa.float64(), 7, 3),
        "k": _cells(_WHOLE, pa.int64(), 3, 1),
        "flag": _cells([True, False, None], pa.bool_()),
        "c": _cells(_TEXT, pa.string()),
        "ward": _cells(["north", "south", "ünï", None, "North"], pa.string()),
        "d": _cells(_DAY, pa.date32()),
        "who": pa.array([None if i == 3 else i // 2 for i in range(_N)], pa.int64()),
    }
)
_COLUMNS = {
    "x": sv.Number(0, 10),
    "y": sv.Number(-1, 100),
    "k": sv.Count(9),
    "flag": sv.Flag(),
    "c": sv.Category(["north", "south", "o'hara", "ünï", 'say "hi"', "a\\b", "😀"]),
    "ward": sv.Category(["north", "south", "ünï"]),
    "d": sv.Day("2023-01-01", "2024-12-31"),
}
FACTS, PERSONS = sv.Facts(**_COLUMNS), sv.Facts(who=sv.Person(), **_COLUMNS)
ROWS = sv.Facts(who=sv.Person(rows=2), **_COLUMNS)

Ask = Callable[[sv.Curator], Any]
QUESTIONS: dict[str, tuple[sv.Facts, Ask]] = {
    "proportion": (FACTS, lambda c: c.proportion("flag", by="ward", spend=0.05)),
    "mean": (FACTS, lambda c: c.mean("x", by="ward", where="k > 1 or c = 'north'", spend=0.05)),
    "mean, by days": (FACTS, lambda c: c.mean("y", where="d between '2023-12-31' and '2024-02-29'", spend=0.05)),
    "total": (FACTS, lambda c: c.total("y", spend=0.05)),
    "sd": (FACTS, lambda c: c.sd("x", by="flag", spend=0.05)),
    "rate": (FACTS, lambda c: c.rate("k", exposure="x", by="ward", spend=0.05)),
    "ratio": (FACTS, lambda c: c.ratio("y", "x", spend=0.05)),
    "counts": (FACTS, lambda c: c.counts(["c", "flag"], spend=0.05)),
    "quantiles": (FACTS, lambda c: c.quantiles("y", by="ward", spend=0.05)),
    "survival": (FACTS, lambda c: c.survival("x", event="flag", by="ward", spend=0.05)),
    "describe": (FACTS, lambda c: c.describe(["x", "k", "flag", "c"], by="ward", spend=0.2)),
    "regress, linear": (FACTS, lambda c: c.regress("y ~ x + ward", spend=0.2)),
    "regress, logistic": (FACTS, lambda c: c.regress("flag ~ x + k + ward", spend=0.2)),
    "regress, Poisson": (FACTS, lambda c: c.regress("k ~ x + ward", spend=0.2)),
    "regress, multinomial": (FACTS, lambda c: c.regress("ward ~ x", spend=0.2)),
    "regress, hazards": (FACTS, lambda c: c.regress("x ~ k + ward", event="flag", cuts=[3, 10], spend=0.2)),
    "regress, ordinal": (FACTS, lambda c: c.regress("ward ~ x + flag", family="ordinal", spend=0.2)),
    "mean, of persons": (PERSONS, lambda c: c.mean("x", by="ward", spend=0.1)),
    "regress, of persons": (PERSONS, lambda c: c.regress("y ~ x", spend=0.2)),
    "counts, of persons' rows": (ROWS, lambda c: c.counts(["ward", "flag"], spend=0.1)),
}
Asked = dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    """What each question asks of its table, one look after the other."""
    folder, result, plain = tmp_path_factory.mktemp("ledgers"), Asked(), Table.read

    def read(table: Table, *args: Any, **options: Any) -> Any:
        result[name].append((args, options))
        return plain(table, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Table, "read", read)
        for place, (name, (facts, ask)) in enumerate(QUESTIONS.items()):
            result[name] = []
            options = {"budget": sv.ApproxDP(1.0, 1e-6), "dataset": "hostile", "time_grid": 1e-3}
            with sv.Curator(RECORDS, ledger=folder / f"{place}.ledger", facts=facts, **options) as curator:
                ask(curator)
            assert result[name]
    return result


def outcome(table: Table | None, plain: Table, asked: list[Any]) -> str:
    """Return what becomes of questions: what is not refused beforehand must be answered, and equal to the bit."""
    refused = 0
    if table is None:  # when it was opened
        return REFUSED
    for args, options in asked:
        try:
            table.check(*args, **options)
        except SottovoceError as error:
            assert str(error).strip()
            refused += 1
            continue
        assert table.read(*args, **options) == plain.read(*args, **options)
    assert refused in (0, len(asked))
    return REFUSED if refused else SAME


@pytest.fixture(scope="module")
def page() -> Iterator[dict[tuple[str, str], str]]:
    """What the page says of each question and engine; rewritten at the end where that is asked for."""
    before = told(PAGE.read_text(encoding="utf-8"))
    cells = dict(before)
    yield cells
    if os.environ.get(WRITE) == "write":
        write(cells)


def told(text: str) -> dict[tuple[str, str], str]:
    lines = [line.strip().strip("|") for line in text.splitlines() if line.startswith("| ")]
    (_, *engines), _, *rows = ([cell.strip() for cell in line.split("|")] for line in lines)
    return {(engine, row[0]): cell for row in rows for engine, cell in zip(engines, row[1:], strict=True)}


def write(cells: dict[tuple[str, str], str]) -> None:
    engines = [*STARTED, *CLOUDS]
    rows = [["", *engines], ["---"] * (1 + len(engines))]
    rows += [[name, *(cells.get((engine, name), "not tried") for engine in engines)] for name in QUESTIONS]
    table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    text = re.sub(r"(?:^\|.*\n)+", table, PAGE.read_text(encoding="utf-8"), count=1, flags=re.MULTILINE)
    PAGE.write_text(text, encoding="utf-8")


def said(page: dict[tuple[str, str], str], engine: str, name: str, seen: str) -> None:
    if os.environ.get(WRITE) == "write":
        page[engine, name] = seen
    # "not tried" claims nothing: the run that writes has not met this engine yet.
    assert page.get((engine, name), "not tried") in (seen, "not tried"), (
        f"the page says otherwise of {engine} and {name}; run .ci/engines"
    )


@pytest.fixture(scope="module")
def at(request: pytest.FixtureRequest) -> Iterator[Callable[[str], tuple[Table | None, Table]]]:
    """An engine's table and the same records in memory, each engine started once; None where it was refused."""
    with contextlib.ExitStack() as opened:
        kept: dict[str, tuple[Table | None, Table]] = {}

        def get(engine: str) -> tuple[Table | None, Table]:
            if engine not in kept:
                source, held = opened.enter_context(start(engine, request, RECORDS))
                table = None
                with contextlib.suppress(SottovoceError):
                    table = opened.enter_context(open_table(source))
                kept[engine] = table, opened.enter_context(open_table(held))
            return kept[engine]

        yield get


ASKED = [
    param
    for name, param in STARTED.items()
    if os.environ.get(WRITE) == "write" or (name != "Spark Connect" and why_not(name) is None)
]
"""Which engines are asked: in a run that writes, one that is not here is skipped and says why."""
SLOW = ("mean", "regress, linear")
"""What Spark, which plans each query for seconds, is asked in a run that does not write."""


@pytest.mark.parametrize("engine", ASKED)
def test_every_verb_is_equal_to_the_bit_or_refused(
    engine: str, at: Callable[[str], Any], asked: Asked, page: dict[tuple[str, str], str]
) -> None:
    table, plain = at(engine)
    whole = os.environ.get(WRITE) == "write"
    for name, looks in asked.items():
        if engine.startswith("Spark") and not (whole or name in SLOW):
            continue
        facts = QUESTIONS[name][0]
        chosen = looks if whole and not engine.startswith("Spark") else looks[:1]
        seen = outcome(None if table is None else table.knowing(facts), plain.knowing(facts), chosen)
        said(page, engine, name, seen)


CLOUDS = {"Snowflake": "snowflake", "BigQuery": "bigquery", "Databricks": "databricks"}


@pytest.mark.parametrize("engine", CLOUDS)
def test_what_cannot_be_run_here_is_compiled(engine: str, asked: Asked, page: dict[tuple[str, str], str]) -> None:
    """Its own words are what SQLGlot reads as its dialect; that they mean the same, nobody has seen."""
    dialect = CLOUDS[engine]
    connection = Compiling(dialect)
    table = Table("records", ibis.table(ibis.Schema.from_pyarrow(RECORDS.schema), name="records"), connection)
    for name, looks in asked.items():
        facts = QUESTIONS[name][0]
        for args, options in looks[:1]:
            given = [options.get(word) for word in ("where", "missing", "persons")]
            column = args[1] if len(args) > 1 else options.get("column")
            query = table.knowing(facts)._plan(args[0], column, *given).query
            words = connection.compile(query) if isinstance(query, ibis.Expr) else query.sql(connection)
            assert isinstance(sqlglot.parse_one(words, read=dialect), sqlglot.exp.Query)
        said(page, engine, name, COMPILED)


class Compiling:
    """Of an engine that is not here, the words for an expression."""

    def __init__(self, dialect: str) -> None:
        self.name = self.dialect = dialect

    def compile(self, query: Any) -> str:
        return str(ibis.to_sql(query, dialect=self.dialect))
