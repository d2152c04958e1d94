"""Groups on every engine: the same whole numbers as in memory."""

import numpy as np
import pyarrow as pa
import pytest

from sottovoce.readings import GroupMoments
from sottovoce.tables import Table

GROUPS = (("north", "south", "o'hara", ""), (False, True))
READINGS = [
    (GroupMoments(GROUPS, (-1, 1)), ["c", "flag"]),
    (GroupMoments(GROUPS[:1], (2,), measures=((-3.0, 7.3),), fillers=(None,), squared=True), ["c", "x"]),
    (GroupMoments((), (), measures=((1e-9, 2.5e9),), fillers=(3.0,), squared=True, counted=False), ["x"]),
    (GroupMoments(GROUPS[1:], (-1,), measures=((0.0, 9.0), (-1.0, 1.0)), fillers=(None, 0.5), squared=True),
     ["flag", "k", "f"]),
    (GroupMoments(GROUPS[:1], (-1,), edges=tuple(np.linspace(-1, 1, 33).tolist()), fillers=(None,)), ["c", "u"]),
    (GroupMoments((), (), edges=(-0.5, 0.5, 1.5, 9.5), fillers=(9.0,)), ["k"]),
    (GroupMoments((), (), measures=((-(2.0**60), 2.0**60),), fillers=(None,)), ["wide"]),
]  # fmt: skip


@pytest.mark.parametrize(("reading", "columns"), READINGS, ids=lambda value: str(value)[:24])
def test_groups_are_the_same_bits_everywhere(
    engine_table: Table, messy: pa.Table, reading: GroupMoments, columns: list[str]
) -> None:
    seen = engine_table.read(reading, columns)
    assert seen == reading.read([messy[name].to_pylist() for name in columns])
    assert reading.check(seen).n == messy.num_rows


def test_a_condition_takes_records_out_of_every_cell_and_leaves_n(engine_table: Table, messy: pa.Table) -> None:
    reading, columns = READINGS[1]
    seen = engine_table.read(reading, columns, where="k > 4")
    chosen = messy.filter(pa.compute.fill_null(pa.compute.greater(messy["k"], 4), False))
    inside = reading.read([chosen[name].to_pylist() for name in columns])
    assert seen.n == messy.num_rows
    assert np.array_equal(np.delete(seen.total, 4), np.delete(inside.total, 4))
    assert seen.total[:5].sum() == messy.num_rows


def test_nothing_but_none_is_read_where_no_record_fits(engine_table: Table, messy: pa.Table) -> None:
    reading, columns = READINGS[0]
    seen = engine_table.read(reading, columns, where="k > 1000000")
    assert seen.total[-1] == messy.num_rows
    assert not seen.total[:-1].any()
