"""What an engine that we do not know must prove before it is asked: that it reads odd public records as memory does."""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Any

import ibis

from sottovoce.privacy.errors import InvalidData
from sottovoce.records.readings import CategoryCounts, ClippedSum, Reading
from sottovoce.records.tables.engine import ENGINES, engine_of, fetch_row, number

if TYPE_CHECKING:
    from sottovoce.records.tables.table import Table

_WHOLE = (2**62, 2**62, 2**62, 1, -(2**40))
"""Their sum has more than 64 bits, and more digits than a double."""
_REAL = (0.1, 2.5, -0.0, math.nan, math.inf, -math.inf, None, 1e308, 5e-324)
_TEXT = ("north", "North", "north ", "", None, "ünï", "u\u0308ni\u0308", "😀", "o'hara")
"""Equal to some engines, whose texts have a collation: no list tells them apart there."""
_LISTED = ("south", "north", "ünï", "😀", "o'hara")


def check_engine(table: Table) -> None:
    """Raise `InvalidData` where an engine that we do not know reads public records otherwise than memory does.

    SQLite, for one, adds decimals as doubles and ends a query whose sum has more than 64 bits; MySQL has no NaN.
    """
    connection = table._connection
    if connection.name in ENGINES:
        return
    if not _adds(connection, table.name):
        raise InvalidData(
            f"{table.name} cannot be asked: its engine cannot add whole numbers exactly; write it as Parquet"
        )
    records = ibis.union(*(_record(*cells) for cells in zip(_REAL, _TEXT, strict=True)))
    trial = type(table)("public records", records, connection)
    cases: list[tuple[Reading, str, object]] = [
        (ClippedSum(-3, 4), "real", _REAL),
        (ClippedSum(0, 1, integer=True), "real", _REAL),
        (CategoryCounts(_LISTED), "text", _TEXT),
    ]
    for reading, column, cells in cases:
        with contextlib.suppress(InvalidData):
            if trial.read(reading, column) == reading.read(cells):
                continue
        odd = "numbers such as NaN" if column == "real" else "texts such as 'North' and 'north '"
        raise InvalidData(
            f"{table.name} cannot be asked: its engine does not read {odd} as others do; write it as Parquet"
        )


def _adds(connection: Any, name: str) -> bool:
    engine = engine_of(connection)
    rows = ibis.union(*(ibis.literal(each, "int64").name("whole").as_table() for each in _WHOLE))
    near = ibis.cases((rows.whole == 0, number(0.0)), else_=number(2.5))
    query = rows.aggregate(total=engine.total(rows.whole), even=engine.total(engine.integer(near)))
    with contextlib.suppress(InvalidData):
        return fetch_row(connection, query, name) == (sum(_WHOLE), 2 * len(_WHOLE))
    return False


def _record(real: float | None, text: str | None) -> Any:
    columns = {
        "real": ibis.null("float64") if real is None else number(real),
        "text": ibis.null("string") if text is None else ibis.literal(text),
    }
    return ibis.literal(1).name("one").as_table().select(**columns)
