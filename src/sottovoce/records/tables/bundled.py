"""The public data that come with the package: every road collision with injury in Hong Kong, 2014 to 2019.

The origin and the licence are in ``data/README.md`` of a checkout, with those of the data of the papers.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv

COLLISIONS = Path(__file__).parents[2] / "data" / "hk_road_collisions_2014_2019.csv.gz"
"""The file: 95,821 records of 17 columns, a header line."""

HK_SEVERITIES = ("slight", "serious", "fatal")

HK_DISTRICTS = (
    *("CW", "WCH", "E", "S"),
    *("YTM", "SSP", "KC", "WTS", "KT"),
    *("KTS", "TW", "TM", "YL", "N", "TP", "SK", "ST", "I"),
)
"""The eighteen districts: Hong Kong Island, Kowloon, the New Territories."""


def hk_collisions() -> pa.Table:
    """Return every road collision with injury in Hong Kong, 2014 to 2019 (Transport Department).

    Examples
    --------
    >>> table = hk_collisions()
    >>> table.num_rows, sorted(set(table["severity"].to_pylist())) == sorted(HK_SEVERITIES)
    (95821, True)
    """
    return pyarrow.csv.read_csv(COLLISIONS)
