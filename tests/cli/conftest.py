"""Patients to ask about, with their facts beside them."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

FACTS = """
[sbp]
kind = "number"
low = 60
high = 250
[ward]
kind = "category"
categories = ["A", "B"]
[smoker]
kind = "flag"
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    path = tmp_path / "patients.parquet"
    columns = {"sbp": rng.normal(131, 18, 2000), "ward": rng.choice(["A", "B"], 2000), "smoker": rng.random(2000) < 0.3}
    pq.write_table(pa.table(columns), path)
    path.with_suffix(".facts.toml").write_text(FACTS, encoding="utf-8")
    return path
