"""Persons on every engine: the same bits as in memory."""

import hashlib
import itertools
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sottovoce.privacy.errors import InvalidValue
from sottovoce.records.facts import Category, Count, Facts, Flag, Number, Person
from sottovoce.records.facts.encodings import Encoding
from sottovoce.records.readings import (
    CategoryCounts,
    ClippedSum,
    GroupMoments,
    PersonCells,
    PersonLook,
    PersonMoments,
    PersonRows,
    Statistics,
)
from sottovoce.records.readings.bands import Bands
from sottovoce.records.tables import open_table

WORDS = ("north", "south", "o'hara", "ünï")
ENCODING = Encoding(("x", "c"), (Number(-2, 6), Category(WORDS)), ((), ((0, -1),), ((1, 2),)))
READINGS = {
    "groups": (PersonMoments((WORDS,), (-1,), (), ((-2.0, 6.0), (0.0, 1.0)), (None, 0.5), True), ["c", "x", "u"]),
    "bands": (
        PersonMoments((Bands((0.0, 1.0, 3.0)), WORDS), (1, -1), (), ((0.0, 1.0),), (0.5,), True),
        ["x", "c", "u"],
    ),
    "one group": (PersonMoments((), (), (), ((-2.0, 6.0),), (1.0,), True, False), ["x"]),
    "bins": (PersonMoments((WORDS,), (2,), (-2.0, 0.0, 1.0, 2.0, 6.0), (), (None,)), ["c", "x"]),
    "shares": (PersonCells((True, False), ((0.0, 1.0), WORDS), (3, -1)), ["x", "c"]),
    "rows": (PersonRows((True, False), ((0.0, 1.0), WORDS), (-1, 4), 3, "key's"), ["x", "c"]),
    "look": (
        PersonLook(ENCODING, Flag(), "logistic", (0.1, 0.2, -0.3), ((1.0, 0, 0), (0, 1.0, 0.5), (0, 0, 2.0)), 1.5, 9),
        ["x", "c", "flag"],
    ),
    "several": (
        PersonLook(
            ENCODING, Category(WORDS), "multinomial", (0.1,) * 9, ((1.0, 0, 0), (0, 1.0, 0), (0, 0, 1.0)), 1.5, 8
        ),
        ["x", "c", "c"],
    ),
}


def same(table, messy, name, person):
    reading, columns = READINGS[name]
    columns = [*columns, person]
    found = table.read(reading, columns)
    expected = reading.read([messy[column].to_pylist() for column in columns])
    assert found.n == expected.n == table.count(person)
    if isinstance(reading, PersonLook):  # of an exponential, the last digit may differ from engine to engine
        return abs(found.total - expected.total).max() <= 4 * 2**reading.bits
    return found == expected


@pytest.mark.parametrize("name", ["groups", "bins", "shares", "rows", "look"])
def test_every_engine_reads_persons_as_memory_does(engine_table, messy, name):
    assert same(engine_table, messy, name, "education-num")


@pytest.mark.parametrize(
    ("name", "person"),
    [*((name, person) for name in READINGS for person in ("c", "x")), ("rows", "wide"), ("rows", "flag")],
)
def test_persons_may_be_named_by_texts_and_numbers(opened, messy, name, person):
    assert same(opened("duckdb"), messy, name, person)


def test_a_truth_value_tells_two_persons_apart_on_every_engine(engine_table):
    assert engine_table.count("flag") == 2


FACTS = Facts(c=Category(WORDS), x=Number(-2, 6), k=Count(9), flag=Flag(), **{"education-num": Person()})


def test_every_engine_chooses_the_same_row_of_a_person(engine_table, messy):
    """Against plain loops over all rows, that know nothing of the engine's windows."""
    found = engine_table.read(CategoryCounts(WORDS), "c", persons=FACTS)
    number, best = Counter(), {}
    for word, who in zip(messy["c"].to_pylist(), messy["education-num"].to_pylist(), strict=True):
        if who is None:
            continue
        code = WORDS.index(word) if word in WORDS else -1
        number[who, code] += 1
        digest = hashlib.md5(f"|{who}|{code}|{number[who, code]}".encode(), usedforsecurity=False).hexdigest()
        best[who] = min(best.get(who, ("z", 0)), (digest, code))
    codes = [max(code, 0) for _, code in best.values()]
    assert found == Statistics(len(codes), [codes.count(i) for i in range(len(WORDS))])


def test_every_engine_averages_a_number_of_a_person(engine_table, messy):
    reading = ClippedSum(-2.0, 6.0)
    found = engine_table.read(reading, "x", persons=FACTS)
    rows = {}
    for value, who in zip(messy["x"].to_pylist(), messy["education-num"].to_pylist(), strict=True):
        if who is not None:
            value = 0.0 if value is None or np.isnan(value) else min(max(value, -2.0), 6.0)
            rows.setdefault(who, []).append(value)
    assert found.n == len(rows)
    assert found.total[0] == pytest.approx(sum(sum(own) / len(own) for own in rows.values()), rel=1e-12)


def test_a_condition_is_about_rows_and_the_others_give_way(engine_table, messy):
    """A person counts with a row for which the condition holds, if there is one."""
    found = engine_table.read(CategoryCounts(WORDS), "c", where="c = 'ünï'", persons=FACTS, missing="north")
    persons = set(messy["education-num"].to_pylist()) - {None}
    holding = {
        who
        for word, who in zip(messy["c"].to_pylist(), messy["education-num"].to_pylist(), strict=True)
        if word == "ünï"
    }
    assert found.total[3] == len(holding & persons)


@pytest.mark.parametrize("rows", [None, 1])
@pytest.mark.parametrize("asked", [{"where": "x > 1"}, {}])
def test_a_person_moves_what_is_read_of_a_file_no_farther_however_many_rows_they_have(tmp_path, rows, asked):
    """By brute force over one person's rows, most of them left out: a file knows how many rows it has."""
    facts = Facts(c=Category(WORDS[:2]), x=Number(-2, 6), p=Person(rows=rows))
    readings = [(GroupMoments((WORDS[:2],), (-1,)), ["c"])]
    readings += [(GroupMoments((), (), (), ((-2.0, 6.0),), (None,)), ["x"])]
    own = [[("north", 2.0)], [(None, None)], [("south", 0.0), (None, None)] * 40, [("north", 0.0), ("south", 3.0)] * 70]
    seen = {place: [] for place in range(len(readings))}
    for number, mine in enumerate(own):
        columns = zip(*[*mine, ("south", 4.0), ("north", -1.0)], strict=True)
        path = tmp_path / f"{number}.parquet"
        whom = [7] * len(mine) + [8, 9]
        pq.write_table(pa.table({**dict(zip("cx", map(list, columns), strict=True)), "p": whom}), path)
        with open_table(path) as table:
            for place, (reading, names) in enumerate(readings):
                seen[place].append(table.read(reading, names, persons=facts, **asked))
    for (reading, _), found in zip(readings, seen.values(), strict=True):
        assert [one.n for one in found] == [3] * len(own)
        assert all(reading.apart(one.total - other.total) for one, other in itertools.combinations(found, 2))


def test_order_and_copies_of_names_do_not_matter(messy):
    """Rows stored in another order, and columns called as helpers are, give the same."""
    renamed = messy.rename_columns(["x", "u", "v", "p", "k", "_p", "copy", "flag", "c", "education-num"])
    expected = None
    for seed in range(2):
        rows = renamed.take(np.random.default_rng(seed).permutation(len(renamed)))
        with open_table(rows) as table:
            facts = Facts(c=Category(WORDS), x=Number(-2, 6), _p=Number(0, 9), **{"education-num": Person()})
            found = [table.read(CategoryCounts(WORDS), "c", persons=facts, where="_p > 2 and x < 3")]
            found += [
                table.read(*READINGS[name][:1], [*READINGS[name][1], "education-num"]) for name in ("rows", "shares")
            ]
        assert expected is None or found == expected
        expected = found


def test_what_the_facts_do_not_describe_is_not_read_of_persons(messy):
    with open_table(messy) as table:
        with pytest.raises(InvalidValue, match="do not name 'v'"):
            table.check(ClippedSum(0, 1, integer=True), "v", persons=FACTS)
        with pytest.raises(InvalidValue, match="says whose a row is"):
            table.check(ClippedSum(0, 20), "education-num", persons=FACTS)
        with pytest.raises(InvalidValue, match="one record a person"):
            facts = Facts(c=Category(WORDS), **{"education-num": Person(rows=3)})
            table.check(CategoryCounts(WORDS), "c", persons=facts)
