"""Several files of one table: read alike by DuckDB and by Arrow, or refused by their schemas before any record is."""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.records.readings import CategoryCounts, CellCounts, ClassMoments, ClippedSum, CrossCounts, GroupMoments
from sottovoce.records.tables import open_table

MANY = [f"y{i}" for i in range(300)]
"""More texts than there are places of 8 bits."""


def _listed(values, places, kind):
    return pa.DictionaryArray.from_arrays(pa.array(range(len(values)), places), pa.array(values, kind))


def _folder(path, *tables):
    for place, table in enumerate(tables):
        pq.write_table(table, path / f"{place}.parquet")
    return path


def _arrows(path, *tables):
    for place, table in enumerate(tables):
        feather.write_feather(table, str(path / f"{place}.arrow"), compression="uncompressed")
    return str(path / "*.arrow")


@pytest.mark.parametrize("written", [_folder, _arrows])
@pytest.mark.parametrize("listed", [True, False])
def test_a_later_file_may_have_more_texts_than_the_first_has_places(tmp_path, written, listed):
    later = _listed(MANY, pa.int16(), pa.string()) if listed else pa.array(MANY)
    first = pa.table({"t": _listed(["x0", "x1"], pa.int8(), pa.string()), "v": [0, 1]})
    with open_table(written(tmp_path, first, pa.table({"t": later, "v": list(range(300))}))) as table:
        for where in (None, "v >= 0"):
            seen = table.read(CategoryCounts(("x0", "y5", "z")), "t", where=where)
            assert (seen.n, seen.total.tolist()) == (302, [301, 1, 0])


def test_lists_of_categories_are_as_good_as_tuples(tmp_path):
    """They had been told that the file was damaged."""
    pq.write_table(pa.table({"t": ["a", "b", None] * 4, "v": [0, 1, 2] * 4}), tmp_path / "one.parquet")
    cases = [
        (CategoryCounts(["a", "b"]), "t"),
        (CategoryCounts(range(3)), "v"),
        (CrossCounts([["a", "b"], [0, 1]], [[0, 1], [0]], [-1, 0]), ["t", "v"]),
        (CellCounts([False, True], [["a", "b"], [0.5, 1.5]], [-1, 0]), ["t", "v"]),
        (GroupMoments([["a", "b"]], [-1]), ["t"]),
        (ClassMoments(["a", "b"], bounds=[], categories=[[0, 1]], others=[0, 0]), ["t", "v"]),
    ]
    with open_table(tmp_path / "one.parquet") as table:
        for reading, columns in cases:
            assert hash(reading) == hash(eval(repr(reading)))
            assert table.read(reading, columns) == table.read(eval(repr(reading)), columns)
    for wrong in ("ab", 5, None, [{"a": 1}]):
        with pytest.raises(InvalidValue, match="categories are a list of texts or numbers"):
            CategoryCounts(wrong)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_texts_of_every_form_are_counted(tmp_path, kind):
    records = pa.table({"t": pa.array(["a", None, "b", "?", "b"], kind), "v": [0, 1, 2, 3, None]})
    pq.write_table(records, tmp_path / "one.parquet", row_group_size=2)
    with open_table(tmp_path / "one.parquet") as table:
        assert table.read(CategoryCounts(("a", "b")), "t").total.tolist() == [3, 2]
        assert table.read(CategoryCounts(("a", "b")), "t", where="v < 3").total.tolist() == [4, 1]
        assert table.read(CategoryCounts(("a", "b")), "t", missing="b").total.tolist() == [1, 4]


@pytest.mark.parametrize("link", [os.symlink, os.link])
@pytest.mark.parametrize("written", [_folder, _arrows])
def test_a_file_of_several_names_is_read_once(tmp_path, written, link):
    """Each of its records would else move every sum twice as far as one record may."""
    path = written(tmp_path, pa.table({"v": [1, 2]}), pa.table({"v": [4]}))
    ending = ".parquet" if written is _folder else ".arrow"
    link(tmp_path / f"0{ending}", tmp_path / f"2{ending}")
    with open_table(path) as table:
        assert table.read(ClippedSum(0, 10), "v").total.tolist() == [7]
        assert (table.count(), len(table.origin.parts)) == (3, 2)


@pytest.mark.parametrize("name", ["v=1", "v=many", "p=7", "t=a"])
def test_what_a_folder_is_called_says_nothing_of_the_records_in_it(tmp_path, name):
    """Whether DuckDB reads them, which would take ``v=1`` for the number of all, or Arrow does."""
    (tmp_path / name).mkdir()
    records = pa.table({"t": ["a", "b", "b"], "v": [0, 2, None], "p": [1, 2, 3]})
    with open_table(_folder(tmp_path / name, records)) as table:
        assert table.schema == {"t": "string", "v": "int64", "p": "int64"}
        assert table.count("p") == 3
        for where in (None, "p > 0", "t = 'a' or t = 'b'"):
            assert table.read(CategoryCounts((0, 1, 2)), "v", where=where, missing=1).total.tolist() == [1, 1, 1]
            assert table.read(CategoryCounts(("a", "b")), "t", where=where).total.tolist() == [1, 2]


def test_a_column_that_a_file_lacks_is_missing_there_to_every_question(tmp_path):
    """Whether DuckDB reads the records or Arrow does."""
    whole, less = pa.table({"t": ["a", "b", "b"], "v": [0, 7, 99]}), pa.table({"t": ["a", "b"]})
    with open_table(_folder(tmp_path, whole, less)) as table:
        numbers = table.read(ClippedSum(0, 10), "v", missing=5)
        assert (numbers.n, numbers.total.tolist()) == (5, [0 + 7 + 10 + 5 + 5])
        assert table.read(ClippedSum(0, 1), where="v >= 0").total.tolist() == [3]
        assert table.read(ClippedSum(0, 1), where="v >= 0 and t = 'b'").total.tolist() == [2]
        cells = CellCounts((False, True), (("a", "b"), (5.0,)), (-1, 2))
        assert table.read(cells, ["t", "v"]).total.tolist() == [1, 0, 1, 0, 2, 1, 0]


KINDS = [
    pa.int8(),
    pa.int64(),
    pa.uint8(),
    pa.uint64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
]
LATER = [*KINDS, pa.int32(), pa.uint32()]  # a double holds whole numbers of 32 bits, and not of 64


def _extremes(kind):
    """Return four values of a type, its extremes among them."""
    if pa.types.is_string(kind):
        return ["3", "hello", "3", "hello"]
    if not pa.types.is_integer(kind):
        return [0.5, float("nan"), float("inf"), 1e300]
    size, signed = kind.bit_width, pa.types.is_signed_integer(kind)
    return 2 * ([-(2 ** (size - 1)), 2 ** (size - 1) - 1] if signed else [0, 2**size - 1])


@pytest.mark.parametrize("written", [_folder, _arrows])
@pytest.mark.parametrize("first", KINDS, ids=str)
def test_no_number_of_a_later_file_ends_a_question(tmp_path, first, written):
    """The extremes of a type either are read as they are, or the types alone are refused."""
    four = pa.array(["4"] if pa.types.is_string(first) else [4], first)
    columns = {f"of {kind}": pa.array(_extremes(kind), kind) for kind in LATER}
    taken = dict(columns)

    def opened():
        one, rest = {"t": ["a"]} | dict.fromkeys(taken, four), {"t": ["b"] * 4} | taken
        return open_table(written(tmp_path, pa.table(one), pa.table(rest)))

    try:
        table = opened()
    except InvalidData as refused:  # all at once, so that they are mended at once
        for name in [name for name in taken if f"column {name!r}" in str(refused)]:
            assert taken.pop(name).type != first
        table = opened()
    with table:
        assert table.count() == 5
        for name in taken:
            if pa.types.is_string(first):
                assert table.read(CategoryCounts(("4", "3")), name).n == 5
                continue
            floats = [4.0, *columns[name].cast(pa.float64(), safe=False).to_pylist()]
            want = sum(4 if x != x else min(max(x, 0), 10) for x in floats)  # noqa: PLR0124 - NaN is not itself
            assert table.read(ClippedSum(0, 10), name, missing=4).total.tolist() == [want]
            cells = CellCounts((False, True), (("a", "b"), (5.0,)), (-1, 2))
            counts = [0] * 7
            for row, x in enumerate(floats):
                counts[(row > 0) * 3 + (2 if x != x else int(x >= 5))] += 1  # noqa: PLR0124
            for where in (None, "t in ('a', 'b')"):
                assert table.read(cells, ["t", name], where=where).total.tolist() == counts


def test_capital_letters_are_not_a_matter_of_who_reads(tmp_path):
    with pytest.raises(InvalidData, match="capital"):
        open_table(_folder(tmp_path, pa.table({"t": ["a"], "v": [1]}), pa.table({"t": ["a"], "V": [1]})))
    with pytest.raises(InvalidData, match="twice"):  # DuckDB would read the first of the two
        open_table(_folder(tmp_path, pa.table({"t": ["a"], "v": [1]}), pa.table({"t": ["a"], "V": [7], "v": [1]})))
