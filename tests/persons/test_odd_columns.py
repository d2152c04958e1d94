"""Columns that cannot say whose a row is."""

import pyarrow as pa
import pytest

from sottovoce.privacy.errors import InvalidData
from sottovoce.tables import open_table


@pytest.mark.parametrize("moments", [[0, 1], [0, 10**13]])
def test_moments_that_may_end_a_query_are_refused_whatever_they_are(moments):
    persons = pa.table({"p": pa.array(moments, pa.timestamp("s"))})
    with open_table(persons) as table, pytest.raises(InvalidData, match="tell no persons apart"):
        table.count("p")
