"""Columns that cannot say whose a row is."""

import math
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sottovoce as sv
from sottovoce.privacy.errors import InvalidData
from sottovoce.records.readings import ClippedSum
from sottovoce.records.readings.persons import whose
from sottovoce.records.tables import open_table


@pytest.mark.parametrize("moments", [[0, 1], [0, 10**13]])
def test_moments_that_may_end_a_query_are_refused_whatever_they_are(moments):
    persons = pa.table({"p": pa.array(moments, pa.timestamp("s"))})
    with open_table(persons) as table, pytest.raises(InvalidData, match="persons cannot be told apart"):
        table.count("p")


@pytest.mark.parametrize("unit", ["s", "ms"])
@pytest.mark.parametrize("last", [10**9, 9 * 10**17])
def test_rows_are_not_chosen_by_moments_that_could_end_the_query(unit: str, last: int, tmp_path: Path) -> None:
    """Refused by the type alone, before anything is spent: an ordinary moment and a far one are told the same."""
    when = pa.array([last, 10**9, 0, 1], pa.timestamp(unit))
    table = pa.table({"p": [1, 2, 3, 3], "ward": ["a", "b", "a", "b"], "when": when})
    facts = sv.Facts(p=sv.Person(rows=1), ward=sv.Category(["a", "b"]), when=sv.Day("1970-01-01", "2030-01-01"))
    with sv.Curator(table, tmp_path / "l", sv.PureDP(9), facts=facts, dataset="d") as curator:
        with pytest.raises(InvalidData, match="nor rows chosen"):
            curator.proportion("ward", where="when >= '1980-01-01'", spend=0.1)
        assert curator.left().startswith("100 %")


def test_a_number_is_one_person_with_however_many_zeros_it_was_written(postgres_server):
    psycopg = pytest.importorskip("psycopg")
    url = postgres_server.url(postgres_server.create_database(), scheme="postgresql")
    ids = ["1", "1.0", "1.00", "10", "100", "0", "0.00", "1.5", "1.50", "-1.10", "-1.1", "1e100", "1e-50", "NaN", None]
    with psycopg.connect(url, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE visits (p NUMERIC, kept JSONB, lasted INTERVAL)")
        cursor.executemany("INSERT INTO visits (p) VALUES (%s)", [(one,) for one in ids])
    with open_table(f"{url}?table=visits") as table:
        assert table.count("p") == len({Decimal(one) for one in ids if one is not None and one != "NaN"})
        for name in ("kept", "lasted"):
            with pytest.raises(InvalidData, match="written in several ways"):
                table.count(name)


def test_a_number_among_texts_is_one_person_whole_or_not_by_type():
    """Of a long file pandas makes a column of whole numbers, of doubles where some are missing, and of texts."""
    seven = [7, 7.0, "7", np.float32(7), np.int8(7), Decimal(7), Decimal("7.00")]
    ids = [*seven, 1e15, 10**15, 1e300, -0.0, 0, 2.5, "x", None, math.nan]
    frame = pd.DataFrame({"p": pd.Series(ids, dtype=object)})
    with open_table(frame) as table:
        assert table.count("p") == len(whose(ids)[1]) == 4  # 7, 10¹⁵, 0 and x: a fraction is nobody
    with open_table(frame) as table:
        assert table.read(ClippedSum(0, 9), "p").total.tolist() == [7 * 7 + 3 * 9 + 2.5]


def test_a_truth_value_among_numbers_is_the_person_that_the_number_is():
    ids, facts = [True, 1, 1.0, "1", np.bool_(True), False, 0, "True", None], sv.Facts(p=sv.Person())
    frame = pd.DataFrame({"p": pd.Series(ids, dtype=object), "q": pd.Series(ids[::-1], dtype=object), "v": 1.0})
    for known in (facts, None):  # whoever opened the table need not have said whose a row is
        with open_table(frame, facts=known) as table:
            assert table.count("p") == table.count("q") == len(whose(ids)[1]) == 3
            assert table.read(ClippedSum(0, 1), "v", persons=facts).n == 3
