"""Columns that only capitals tell apart, which engines do not, or that have no name: nobody may ask about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from sottovoce.privacy.errors import InvalidData
from sottovoce.records.tables import open_table

from .conftest import SPARK


def test_two_such_columns_are_refused(tmp_path: Path) -> None:
    """DuckDB would call the second another name, or nothing at all."""
    twice = pa.table({"Age": [1, 2], "age": [3, 4]})
    pq.write_table(twice, tmp_path / "twice.parquet")
    pyarrow.feather.write_feather(twice, tmp_path / "twice.arrow")
    pyarrow.csv.write_csv(twice, tmp_path / "twice.csv")
    files = (tmp_path / "twice.parquet", tmp_path / "twice.arrow", tmp_path / "twice.csv")
    for source in (*files, twice, twice.to_pandas(), pa.table([[1], [2]], names=["a", "a"])):
        with pytest.raises(InvalidData, match="names a column twice"):
            open_table(source)


@pytest.mark.parametrize("engine", [SPARK])
def test_they_are_on_an_engine_too(engine: str, spark_session: Any) -> None:
    del engine
    frame = spark_session.range(3).selectExpr("id AS Age", "id AS age")
    with pytest.raises(InvalidData, match="names a column twice"):
        open_table(frame)
    with pytest.raises(InvalidData, match="no name for column 1"):
        open_table(spark_session.range(3).toDF(""))
    with pytest.raises(InvalidData, match="rename the column"):
        open_table(spark_session.range(3).toDF("${x}"))
