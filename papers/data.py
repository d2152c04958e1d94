"""The data of the papers and of the benchmarks, as they lie in ``data/`` of a checkout, with bounds not read off them.

See ``data/README.md`` for their origins and licences.
"""

from __future__ import annotations

import gzip
import io
import os
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from sottovoce.privacy.errors import InvalidData
from sottovoce.privacy.numbers import Floats

__all__ = ["ADULT_BOUNDS", "PT_DISTRICTS", "adult", "adult_numbers", "data_path", "pt_fires"]

ADULT_COLUMNS = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education_num",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital_gain",
    "capital_loss",
    "hours_per_week",
    "native_country",
    "income",
]

ADULT_BOUNDS = MappingProxyType(
    {
        "age": (17, 90),
        "education_num": (1, 16),
        "capital_gain": (0, 20_000),
        "capital_loss": (0, 3_000),
        "hours_per_week": (1, 99),
    }
)
"""Adults over 16, ages cut at 90, 16 levels of schooling, a week of two digits; gains and losses cut by choice, in
dollars of 1994: few have any, and the width of a bound is paid for by all."""

PT_DISTRICTS = (
    *("Viana do Castelo", "Braga", "Porto", "Vila Real", "Bragança"),
    *("Aveiro", "Viseu", "Guarda", "Coimbra", "Castelo Branco", "Leiria"),
    *("Santarém", "Lisboa", "Portalegre", "Setúbal", "Évora", "Beja", "Faro"),
)
"""The eighteen districts of mainland Portugal, from north to south."""


def data_path(name: str) -> Path:
    """Return the path of a file: in ``SOTTOVOCE_DATA`` where that is set, in the checkout otherwise.

    Examples
    --------
    >>> data_path("abalone.data").name
    'abalone.data'
    """
    chosen = os.environ.get("SOTTOVOCE_DATA")
    path = (Path(chosen) if chosen else Path(__file__).resolve().parents[1] / "data") / name
    if not path.is_file():
        raise InvalidData(f"{name} is not in {path.parent}: the environment variable SOTTOVOCE_DATA names the folder")
    return path


def adult(part: Literal["train", "test"] = "train") -> pa.Table:
    """Return UCI Adult (Becker & Kohavi 1996): one person of the 1994 census a record, ``?`` as missing.

    Examples
    --------
    >>> table = adult()
    >>> table.num_rows, table["income"].value_counts().to_pylist()[0]
    (32561, {'values': '<=50K', 'counts': 24720})
    """
    raw = gzip.decompress(data_path("adult.data.gz" if part == "train" else "adult.test.gz").read_bytes())
    if part == "test":  # a comment for a first line, and a full stop behind every label
        raw = raw.partition(b"\n")[2].replace(b".\n", b"\n")
    return pyarrow.csv.read_csv(
        io.BytesIO(raw.replace(b", ", b",")),
        read_options=pyarrow.csv.ReadOptions(column_names=ADULT_COLUMNS),
        convert_options=pyarrow.csv.ConvertOptions(null_values=["?"], strings_can_be_null=True),
    )


def adult_numbers(part: Literal["train", "test"] = "train") -> tuple[Floats, Floats]:
    """Return five numbers a person, scaled to [0, 1] by public bounds, and whether the income is over 50K.

    Examples
    --------
    >>> X, y = adult_numbers()
    >>> X.shape, y.sum()
    ((32561, 5), np.float64(7841.0))
    """
    table = adult(part)
    columns = []
    for name, (low, high) in ADULT_BOUNDS.items():
        columns.append((np.clip(table[name].to_numpy(), low, high) - low) / (high - low))
    return np.column_stack(columns), pc.equal(table["income"], ">50K").to_numpy().astype(np.float64)


def pt_fires() -> pa.Table:
    """Return every forest and shrub fire recorded in mainland Portugal, 1994 to 2000 (ICNF).

    Examples
    --------
    >>> table = pt_fires()
    >>> table.num_rows, sorted(set(table["district"].to_pylist())) == sorted(PT_DISTRICTS)
    (200419, True)
    """
    return pyarrow.csv.read_csv(data_path("pt_forest_fires_1994_2000.csv.gz"))
