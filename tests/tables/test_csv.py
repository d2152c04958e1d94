"""CSV: each line after the first is one record, and no line changes what is public or makes anything fail."""

from __future__ import annotations

import csv
import gzip
import itertools
import random
from pathlib import Path

import pytest

from sottovoce.privacy.errors import InvalidData
from sottovoce.records.facts import Category, Facts, Person
from sottovoce.records.readings import BallSum, CategoryCounts, ClippedSum, CrossCounts, PersonCells
from sottovoce.records.tables import Table, delimited, open_table
from sottovoce.records.tables.delimited import cells
from sottovoce.records.tables.quotes import SEPARATOR, separated

SOUND = [b"%d,%d,ward %d" % (k, 20 + k % 60, k % 3) for k in range(999)]
ODD = {
    "one comma too many": b"q, r,44,1",
    "blank": b"",
    "short": b"7",
    "long": b"1,44,ward 1,x,y,z",
    "open quote": b'1,"44,ward 1',
    "stray quotes": b'1"",4"4,"ward" 1',
    "NUL": b"1\x00,44,\x00",
    "BOM": b"\xef\xbb\xbf1,44,ward 1",
    "CRLF": b"1,44,ward 1\r",
    "carriage returns": b"1\r,4\r4,ward 1\r\r",
    "latin-1": "1,44,Évora".encode("latin-1"),
    "separator": b"1\x1f44\x1fward 1",
    "a header": b"id,age,ward",
    "huge": b"9" * 3_000_000,
    "infinite": b"nan,inf,-inf",
}


def write(path: Path, lines: list[bytes], end: bytes = b"\n") -> Path:
    content = end.join([b"id,age,ward", *lines]) + end
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def public(path: Path) -> tuple[dict[str, str], int]:
    with open_table(path) as table:
        return table.schema, table.count()


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_an_odd_line_is_one_record_like_any_other(odd: bytes, tmp_path: Path) -> None:
    with open_table(among_others(tmp_path / "people.csv", odd)) as table:
        assert table.schema == dict.fromkeys(["id", "age", "ward"], "string")
        takes_no_other_along(table)


def test_an_odd_line_of_a_packed_file_is_one_record_too(tmp_path: Path) -> None:
    """Opened once, and read anew by every question."""
    with open_table(among_others(tmp_path / "people.csv.gz", b"")) as table:
        assert table.schema == dict.fromkeys(["id", "age", "ward"], "string")
        for odd in ODD.values():
            among_others(tmp_path / "people.csv.gz", odd)
            takes_no_other_along(table)


def among_others(path: Path, odd: bytes) -> Path:
    """Write an odd line first, last and between others."""
    return write(path, [odd, *SOUND[:500], odd, *SOUND[500:], odd])


def takes_no_other_along(table: Table) -> None:
    whole = table.read(ClippedSum(0, 100), "age")
    assert (table.count(), whole.n) == (1002, 1002)
    more = whole.total[0] - sum(20 + k % 60 for k in range(999))
    assert 0 <= more <= 300 and more % 3 == 0


def test_one_cell_of_ten_thousand_changes_no_type(tmp_path: Path) -> None:
    """The server publishes the types, so a type worked out from the cells would tell of a record."""
    for last in (b"44", b"n/a", b"", b"4.5"):
        path = tmp_path / "ages.csv"
        path.write_bytes(b"age\n" + b"44\n" * 9_999 + last + b"\n")
        assert public(path) == ({"age": "string"}, 10_000)


@pytest.mark.parametrize("content", [b"a,b\n1,2\n3,4", b"a,b\r\n1,2\r\n3,4\r\n", b"\xef\xbb\xbfa,b\n1,2\n3,4\n"])
def test_ends_of_lines_and_byte_order_marks(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(content)
    with open_table(tmp_path / "x.csv", types={"b": "int64"}) as table:
        assert (table.schema, table.count()) == ({"a": "string", "b": "int64"}, 2)
        assert table.read(ClippedSum(0, 9), "b").total.tolist() == [6.0]
        assert table.read(CategoryCounts((1, 3)), "a").total.tolist() == [1.0, 1.0]


def test_cells_are_those_of_pythons_own_reader() -> None:
    text = "".join(random.Random(1).choices('a,,""" \nb', k=80_000)) + "\n"
    lines = text.split("\n")[:-1]
    expected = [next(csv.reader([line]), []) or [""] for line in lines]
    made = separated(text.encode(), b",").decode().split("\n")[:-1]
    assert [line.split(SEPARATOR.decode()) for line in made] == expected
    assert [[c.decode() for c in cells(line.encode(), b",")] for line in lines] == expected


@pytest.mark.parametrize("alphabet", ['",', '"a', '",a', 'a,"" '])
def test_quotes_where_nobody_expects_them_are_read_as_pythons_own_reader_does(alphabet: str) -> None:
    rng = random.Random(7)
    for most in (1, 5, 300):
        lines = ["".join(rng.choices(alphabet, k=rng.randint(0, most))) for _ in range(400)]
        expected = [next(csv.reader([line]), []) or [""] for line in lines]
        made = separated("".join(f"{line}\n" for line in lines).encode(), b",").decode().split("\n")[:-1]
        assert [line.split(SEPARATOR.decode()) for line in made] == expected


def test_a_line_is_cut_at_what_the_names_allow(tmp_path: Path) -> None:
    """Of three names a line has 32 KiB, of two thousand it has more; whatever ends a line."""
    for names, most in ((3, 2**15), (2000, 128_000)):
        for end in (b"\n", b"\r\n"):
            head = b",".join(b"c%d" % name for name in range(names))
            (tmp_path / "x.csv").write_bytes(end.join([head, b"x" * most, b"y" * (most + 1), b"z", b""]))
            lines = delimited.line_batches([str(tmp_path / "x.csv")], delimited.longest_line(head.split(b",")))
            assert [line[:1] + str(len(line)) for batch in lines for line in batch["line"].to_pylist()] == [
                f"x{most}",
                f"y{most}",
                "z1",
            ]


@pytest.mark.parametrize("alphabet", [bytes(range(256)), b'1,"\r\x00\xff\xc3\xa9.e-'], ids=["all bytes", "odd ones"])
def test_random_bytes_are_records(alphabet: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """n is the number of lines; a question is answered; a replaced line moves a count by one at most."""
    rng = random.Random(len(alphabet))
    alphabet = alphabet.replace(b"\n", b"")
    where = "age > 1 or ward = 'x' or not id < 3"

    def some(most: int) -> bytes:
        return bytes(rng.choices(alphabet, k=rng.randint(0, most)))

    path = write(tmp_path / "x.csv", [some(60) for _ in range(50)])
    with open_table(path) as table:  # read anew from the file by every question
        assert table.schema == dict.fromkeys(["id", "age", "ward"], "string")
        for chunk, longest in itertools.product([2**18, 100, 7], [2**15, 20]):
            monkeypatch.setattr(delimited, "_CHUNK", chunk)
            monkeypatch.setattr(delimited, "LONGEST", longest)
            monkeypatch.setattr(delimited, "A_NAME", 1)
            lines = [some(60) for _ in range(50)]
            replaced, counts = rng.randrange(50), []
            for odd in (b"1,44,ward 1", some(30), some(30)):
                lines[replaced] = odd
                write(path, lines)
                assert table.count() == 50
                counts.append(table.read(ClippedSum(0, 1), where=where).total[0])
            assert max(counts) - min(counts) <= 1
            assert table.read(BallSum(2, 1.0), ["id", "age"]).n == 50
            assert table.read(CrossCounts((("1", "é"), (0, 1)), ((0, 1),), (0, -1)), ["ward", "id"]).n == 50


def test_where_a_chunk_ends_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = [line[:5000] for line in ODD.values()]
    path = write(tmp_path / "x.csv", [*odd, *SOUND], end=b"\r\n")
    found = []
    for size in (2**18, 1000, 64):
        monkeypatch.setattr(delimited, "_CHUNK", size)
        found.append(
            [line for batch in delimited.line_batches([str(path)], 2000) for line in batch["line"].to_pylist()]
        )
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == len(ODD) + len(SOUND)


def test_a_column_of_no_type_is_what_the_question_asks_for(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("age,flag,ward\n40,true,1\n 50 ,FALSE,2\nn/a,1,north\n,,\n")
    expected = {"age > 40": 1, "flag": 2, "not flag": 2, "ward = '1'": 1, "ward = 1": 1, "ward in (1, 2)": 2}
    expected |= {"age is null": 1, "age < ward": 0, "age != ward": 3, "flag = true": 2, "age >= 40.0": 2}
    with open_table(tmp_path / "x.csv") as table:
        for text, holds in expected.items():
            assert (text, table.read(ClippedSum(0, 1), where=text).total[0]) == (text, holds)
        assert table.read(CategoryCounts((0, 1)), "flag").total.tolist() == [2.0, 2.0]
        assert table.read(CategoryCounts(("north", "1")), "ward").total.tolist() == [3.0, 1.0]
        for text in ("ward < 'a'", "ward in (1, 'a')"):
            with pytest.raises(InvalidData):
                table.check(ClippedSum(0, 1), where=text)


def test_several_files_are_one_table_if_their_names_agree(tmp_path: Path) -> None:
    for part in "ab":
        write(tmp_path / f"{part}.tsv", []).write_bytes(b"x\ty\n1\t2,5\n")
    with open_table(f"{tmp_path}/*.tsv") as table:
        assert (table.count(), table.read(ClippedSum(0, 9), "x").total[0]) == (2, 2.0)
    (tmp_path / "b.tsv").write_bytes(b"x\tz\n1\t2,5\n")
    with pytest.raises(InvalidData, match="same names"):
        open_table(f"{tmp_path}/*.tsv")


@pytest.mark.parametrize("first", [b"", b"\n", b"1,44.5,-3\n", b"a,A\n", b"a" * 2_000_000])
def test_a_first_line_that_holds_no_names_is_refused(first: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(first)
    with pytest.raises(InvalidData) as caught:
        open_table(tmp_path / "x.csv")
    assert "44" not in str(caught.value)


def test_an_unnamed_column_goes_by_its_place(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b',"say ""hi"", you",age\n0,a,44\n')
    with open_table(tmp_path / "x.csv") as table:
        assert [*table.schema] == ["column1", 'say "hi", you', "age"]
        assert table.read(ClippedSum(0, 1), where="""`say "hi", you` = 'a'""").total[0] == 1


def test_the_same_file_is_read_by_several_questions_at_once(tmp_path: Path) -> None:
    """One query may scan the lines more than once: count tables do."""
    path = write(tmp_path / "x.csv", SOUND)
    reading = CrossCounts((("ward 0", "ward 1"), (20, 21)), ((0,), (1,)), (-1, 1))
    zeros, ones = ([k % 3 for k in range(999)].count(ward) for ward in (0, 1))
    with open_table(path) as table:
        for _ in range(2):
            found = table.read(reading, ["ward", "age"])
    assert (found.n, found.total[:2].tolist()) == (999, [zeros, ones])


@pytest.mark.parametrize("name", ["self", "line", "records", "kept", "c0", "$1", "{x}", "é", "[b]"])
def test_a_column_may_have_any_name(name: str, tmp_path: Path) -> None:
    """Ours too, and those of the functions that its name is handed to."""
    (tmp_path / "x.csv").write_text(f"{name},ward\n1,a\n2,b\n,a\nx,\n", encoding="utf-8")
    with open_table(tmp_path / "x.csv", types={name: "float64"}) as table:
        assert table.read(ClippedSum(0, 5), name).total.tolist() == [3]
        crossed = table.read(CrossCounts((("a", "b"), (1, 2)), ((0, 1),), (-1, -1)), ["ward", name])
        assert crossed.total.tolist() == [1, 0, 0, 1]
        assert table.read(ClippedSum(0, 1), where=f"`{name}` > 1").total.tolist() == [1]


YES = ("true", "TRUE", "yes", "Yes", " y ", "t", "1", "1.0", "1e0")
NO = ("false", "no", "No ", "N", "f", "0", "0.0", "-0")


def test_nobody_is_called_na(tmp_path: Path) -> None:
    """As R writes what is missing; as a category, NA is a word like any other."""
    path = tmp_path / "x.csv"
    path.write_text("who,ward\n1,NA\nNA,A\n,A\nNA,A\n2,A\nNAN,A\n")
    facts = Facts(who=Person(), ward=Category(["NA", "A"]))
    with open_table(path, facts=facts) as table:
        seen = table.read(PersonCells((False,), (("NA", "A"),), (-1,)), ["ward", "who"])
    assert seen.n == 3 and (seen.total / 2**20).tolist() == [1, 2, 0]


@pytest.mark.parametrize("missing", ["", "NA", "unknown", "2", "nan", "inf", "0.5"])
def test_flags_are_read_in_the_words_that_people_write(missing: str, tmp_path: Path) -> None:
    """A frame with missing values is written with flags of 1.0 and 0.0; those who type write yes and no."""
    path = tmp_path / "x.csv"
    path.write_text("\n".join(["smoker", *YES, *NO, *[missing] * 3]) + "\n")
    with open_table(path, types={"smoker": "boolean"}) as table:
        for word, known in (("smoker = true", YES), ("smoker = false", NO), ("smoker is null", (missing,) * 3)):
            assert table.read(ClippedSum(0, 1), where=word).total.tolist() == [len(known)]
