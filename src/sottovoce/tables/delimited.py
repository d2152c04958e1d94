"""Delimited text, line by line: a total map from bytes to cells.

Every physical line is one record: a line ends at a line feed, a carriage return before it is dropped, and no quote
carries over to the next line. What follows a cell's closing quote is part of the cell; a quote that never closes does
so at the end of its line; a quote within an unquoted cell is a quote. No line can make any of this fail.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterator, Sequence
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sottovoce.privacy.errors import InvalidData
from sottovoce.tables.agreeing import distinct

__all__ = ["LONGEST", "SEPARATOR", "cells", "header", "line_batches", "separated", "separator_of"]

LONGEST = 2**20
"""The bytes of a line that are read; a longer line is cut, so that none needs more memory than the others."""

SEPARATOR = b"\x1f"
"""What stands between two cells once the quotes are gone."""

_CHUNK = 2**22
_QUOTE, _END = ord('"'), ord("\n")
_CLOSING = re.compile(rb'(?:[^"]|"")*+')
_LENT = bytes.maketrans(b"\x00" + SEPARATOR, b"\x1a\x1a")
"""The separator's own place, and NUL, which not every engine can hold: both read as the character SUBSTITUTE."""


def separator_of(path: str) -> bytes:
    """Return the byte between two cells, by the file's name: a tab for ``.tsv``, a comma otherwise."""
    return b"\t" if path.lower().removesuffix(".gz").endswith(".tsv") else b","


def header(path: str) -> list[str]:
    """Return the names in the first line of a file, which are public.

    An unnamed column is called by its place, ``column3``. A message here may speak of the first line and of no other.
    """
    with _opened(path) as file:
        line = file.readline(LONGEST + 1)
    name = Path(path).name
    if not line.strip():
        raise InvalidData(f"{name} has no names in its first line")
    if len(line) > LONGEST:
        raise InvalidData(f"the first line of {name} is too long to hold the names of columns")
    line = line.removeprefix(b"\xef\xbb\xbf").removesuffix(b"\n").removesuffix(b"\r")
    if b"\x00" in line:
        raise InvalidData(f"{name} is not UTF-8 (it may be UTF-16); save it as UTF-8")
    if b"\r" in line:  # then the first line holds records, and no message may name its cells
        raise InvalidData(f"the lines of {name} end in carriage returns alone; save it with line feeds")
    line = line.translate(_LENT)
    try:
        found = [cell.decode("utf-8").strip() for cell in cells(line, separator_of(path))]
    except UnicodeDecodeError:
        raise InvalidData(f"the names in the first line of {name} are not UTF-8; save it as UTF-8") from None
    if len(found) == 1 and (marks := [mark for mark in ";\t|" if mark in found[0]]):
        raise InvalidData(
            f"the first line of {name} is one name with {marks[0]!r} in it: save the file with commas between its "
            "cells and points, not commas, in its numbers"
        )
    if all(_is_number(cell) for cell in found):
        raise InvalidData(f"the first line of {name} holds numbers; it must hold the names of the columns")
    names = [cell or f"column{place}" for place, cell in enumerate(found, 1)]
    distinct(names, f"the first line of {name}")
    return names


def _is_number(text: str) -> bool:
    try:
        float(text or "0")
    except ValueError:
        return False
    return True


def _opened(path: str) -> gzip.GzipFile | BufferedReader:
    return gzip.open(path, "rb") if path.lower().endswith(".gz") else Path(path).open("rb")


def line_batches(paths: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the records of files as batches of one column ``line``: cells without quotes between separators."""
    for path in paths:
        separator = separator_of(path)
        with _opened(path) as file:
            while (first := file.readline(_CHUNK)) and not first.endswith(b"\n"):
                continue
            for lines in _whole_lines(file.read):
                yield pa.record_batch([_strings(separated(lines, separator))], ["line"])


def _whole_lines(read: Callable[[int], bytes]) -> Iterator[bytes]:
    """Yield pieces of a file that end where a line ends, with a line feed at the end of every line."""
    rest = b""
    while chunk := read(_CHUNK):
        lines, found, rest = (rest + chunk).rpartition(b"\n")
        if found:
            yield _tidy(lines + found)
        rest = rest[: LONGEST + 1]
    if rest:
        yield _tidy(rest + b"\n")


def _tidy(lines: bytes) -> bytes:
    lines = lines.replace(b"\r\n", b"\n")
    if b"\x00" in lines or SEPARATOR in lines:
        lines = lines.translate(_LENT)
    ends = np.flatnonzero(np.frombuffer(lines, np.uint8) == _END)
    if np.diff(ends, prepend=-1).max() > LONGEST + 1:
        lines = b"".join(line[:LONGEST] + b"\n" for line in lines.split(b"\n")[:-1])
    return lines


def separated(lines: bytes, separator: bytes) -> bytes:
    r"""Return lines without their quotes, with `SEPARATOR` between cells.

    >>> separated(b'1,"a,b"\n2,5" pipe\n', b",")
    b'1\x1fa,b\n2\x1f5" pipe\n'
    """
    if b'"' not in lines:
        return lines.replace(separator, SEPARATOR)
    text = np.frombuffer(lines, np.uint8)
    special = np.zeros(256, dtype=bool)
    special[[separator[0], _QUOTE, _END]] = True
    place = np.flatnonzero(special[text])
    kind = text[place]
    quote, end = kind == _QUOTE, kind == _END
    before = np.cumsum(quote, dtype=np.int32) - quote
    line = np.cumsum(end, dtype=np.int32) - end
    inside = (
        before - np.concatenate([[0], before[end]])[line]
    ) & 1 == 1  # within quotes, counted from the line's start
    parts = (kind == separator[0]) & ~inside
    stops = np.zeros(len(text) + 2, dtype=bool)  # shifted by one: where a cell, or a quoted stretch, may start or end
    stops[0] = True
    stops[place[parts | end] + 1] = True
    beside = np.zeros_like(stops)
    beside[place[quote] + 1] = True
    opens, closes = quote & ~inside, quote & inside
    again = beside[place]  # the second of two quotes is one that was meant
    odd = (opens & ~(stops[place] | again)) | (closes & ~(stops[place + 2] | beside[place + 2])) | (end & inside)
    made = text.copy()
    made[place[parts]] = SEPARATOR[0]
    kept = np.ones(len(text), dtype=bool)
    kept[place[closes | (opens & ~again)]] = False
    plain = made[kept].tobytes()
    return _by_hand(plain, lines, np.unique(line[odd]), separator) if odd.any() else plain


def _by_hand(plain: bytes, lines: bytes, odd: Any, separator: bytes) -> bytes:
    """Return `plain` with the lines numbered in `odd` read one by one instead."""
    made, given = plain.split(b"\n"), lines.split(b"\n")
    for number in odd:
        made[number] = SEPARATOR.join(cells(given[number], separator))
    return b"\n".join(made)


def cells(line: bytes, separator: bytes) -> list[bytes]:
    """Return the cells of one line: the rule itself, for lines whose quotes do not stand where they should.

    >>> cells(b'a,"b ""c"" d"e,f"g,"h,i', b",")
    [b'a', b'b "c" de', b'f"g', b'h,i']
    """
    found: list[bytes] = []
    position = 0
    while True:
        cell = b""
        if line.startswith(b'"', position):
            # Where the quotes close: none in a pair. One pass, for a line of nothing but quotes takes as long as any.
            close = _CLOSING.match(line, position + 1).end()  # type: ignore[union-attr]  # it fits every text
            cell = line[position + 1 : close].replace(b'""', b'"')
            if close == len(line):
                return [*found, cell]
            position = close + 1
        end = line.find(separator, position)
        if end < 0:
            return [*found, cell + line[position:]]
        found.append(cell + line[position:end])
        position = end + 1


def _strings(lines: bytes) -> pa.StringArray:
    made = _array(lines)
    try:
        made.validate(full=True)
    except pa.ArrowInvalid:  # bytes that are no UTF-8 become U+FFFD; a line feed among them stays one
        made = _array(lines.decode("utf-8", "replace").encode())
    return made


def _array(lines: bytes) -> pa.StringArray:
    ends = np.flatnonzero(np.frombuffer(lines, np.uint8) == _END)
    offsets = np.zeros(len(ends) + 1, dtype=np.int32)
    offsets[1:] = ends - np.arange(len(ends))
    return pa.StringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(lines.replace(b"\n", b"")))
