"""Where memory does not suffice, a private folder does: how many rows there are decides nothing."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sottovoce.privacy.errors import InvalidData
from sottovoce.records.readings import PersonRows
from sottovoce.records.tables import open_table
from sottovoce.records.tables.sources import SETTINGS


def test_memory_decides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a limit that a question of persons exceeds, the answer comes all the same, by way of a private folder."""
    rng = np.random.default_rng(3)
    path = tmp_path / "rows.parquet"
    rows = pa.table({"person": rng.integers(0, 20_000, 400_000), "ward": rng.integers(0, 4, 400_000)})
    pq.write_table(rows, path)
    reading, columns = PersonRows((False,), ((0, 1, 2, 3),), (-1,), rows=3), ["ward", "person"]
    with open_table(path) as table:
        plenty = table.read(reading, columns)
    monkeypatch.setitem(SETTINGS, "memory_limit", "40MB")
    monkeypatch.setitem(SETTINGS, "threads", 1)
    with open_table(path) as table:
        (folder,) = table._connection.con.sql("SELECT current_setting('temp_directory')").fetchone()
        assert Path(folder).stat().st_mode & 0o077 == 0
        assert table.read(reading, columns) == plenty
    assert not Path(folder).exists()
    with open_table(path) as table:  # and without the folder it would not come
        table._connection.con.execute("SET temp_directory = ''")
        with pytest.raises(InvalidData):
            table.read(reading, columns)
