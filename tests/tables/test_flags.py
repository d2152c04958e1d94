"""Flags that are written as text: the same truth values wherever they lie."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from sottovoce import Category, Facts, Flag
from sottovoce.privacy.errors import InvalidData
from sottovoce.records.readings import CategoryCounts, ClippedSum, CrossCounts
from sottovoce.records.tables import open_table

from .conftest import SPARK, copy_to_postgres, holding

YES, NO = ("true", "YES", "Yes ", " y", "t", "1", "1.0"), ("False", "no", "N", "f", "0", "0.0")
NONE = ("perhaps", "", "2", "0.5", "nan", "1e400", "ja", "yesterday", "é", None)
TEXTS = (*YES, *NO, *NONE)
TABLE = pa.table({"smoker": pa.array(TEXTS, pa.string()), "ward": ["a", "b"] * 11 + ["a"]})
FACTS = Facts(smoker=Flag(), ward=Category(["a", "b"]))
KEPT = {
    "smoker": len(YES),
    "not smoker": len(TEXTS) - len(YES),
    "smoker = true": len(YES),
    "smoker != 1": len(NO),
    "smoker in (false)": len(NO),
    "smoker is null": len(NONE),
}
WORDS = ["smoker = 'YES'", "smoker != 'no'", "smoker in ('t')", "smoker >= '2024-01-01'"]


def _parquet(request: pytest.FixtureRequest, folder: Path) -> Path:
    pq.write_table(TABLE, folder / "x.parquet")
    return folder / "x.parquet"


def _arrow(request: pytest.FixtureRequest, folder: Path) -> Path:
    pyarrow.feather.write_feather(TABLE, folder / "x.arrow")
    return folder / "x.arrow"


def _postgres(request: pytest.FixtureRequest, folder: Path) -> str:
    server = request.getfixturevalue("postgres_server")
    url = server.url(server.create_database(), scheme="postgresql")
    copy_to_postgres(TABLE, url, "flags")
    return f"{url}?table=flags"


SOURCES: dict[str, Callable[[pytest.FixtureRequest, Path], Any]] = {
    "parquet": _parquet,
    "arrow": _arrow,
    "postgres": _postgres,
    "spark": lambda request, folder: request.getfixturevalue("spark_session").read.parquet(
        str(_parquet(request, folder))
    ),
    "objects": lambda request, folder: TABLE.to_pandas().astype(object),
    "strings": lambda request, folder: TABLE.to_pandas().astype({"smoker": "string"}),
    "categories": lambda request, folder: TABLE.to_pandas().astype({"smoker": "category"}),
    "dictionary": lambda request, folder: TABLE.set_column(0, "smoker", TABLE["smoker"].dictionary_encode()),
}


@pytest.mark.parametrize("source", [SPARK if name == "spark" else name for name in SOURCES])
def test_text_that_the_facts_call_a_flag_is_one(source: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    words = [True] * len(YES) + [False] * len(NO) + [None] * len(NONE)
    with open_table(SOURCES[source](request, tmp_path), facts=FACTS) as table:
        crossed = CrossCounts(((False, True), ("a", "b")), ((0, 1),), (-1, -1))
        assert table.read(crossed, ["smoker", "ward"]) == crossed.read([words, TABLE["ward"].to_pylist()])
        assert table.read(CategoryCounts((False, True)), "smoker").total.tolist() == [len(TEXTS) - len(YES), len(YES)]
        assert table.read(ClippedSum(0, 1), "smoker", missing=1).total.tolist() == [len(TEXTS) - len(NO)]
        if source == "spark":
            assert holding(table, KEPT, FACTS) == KEPT
        else:
            assert {where: table.read(ClippedSum(0, 1), where=where).total[0] for where in KEPT} == KEPT
        for where in WORDS:  # what the facts call a flag is one, whatever it is stored as
            with pytest.raises(InvalidData, match="smoker"):
                table.check(ClippedSum(0, 1), where=where)


def test_text_of_no_such_facts_stays_text() -> None:
    with open_table(pd.DataFrame({"smoker": TEXTS}).astype("string"), facts=Facts(smoker=Category(["no"]))) as table:
        assert table.read(CategoryCounts(("perhaps", "no")), "smoker").total.tolist() == [len(TEXTS) - 1, 1]
