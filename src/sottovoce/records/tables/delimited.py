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
from sottovoce.records.tables.column_matching import distinct
from sottovoce.records.tables.quotes import SEPARATOR, separated

__all__ = ["cells", "header", "line_batches", "longest_line", "separator_of"]

LONGEST, A_NAME = 2**15, 64
"""The bytes of a line that are read, or so many for each name in the first line where that is more.

A longer line is cut: what a line may hold is what it may take longer than another.
"""
_HEADER = 2**20

_CHUNK = 2**18
"""Bytes that are read at once. One quote sends all of them through the automaton: a line changes what is done for as
many bytes at the most, and for those before and behind it that share a piece with it."""
_END = ord("\n")
_CLOSING = re.compile(rb'(?:[^"]|"")*+')
_LENT = bytes.maketrans(b"\x00" + SEPARATOR, b"\x1a\x1a")
"""The separator's own place, and NUL, which not every engine can hold: both read as the character SUBSTITUTE."""


def separator_of(path: str) -> bytes:
    """Return the byte between two cells, by the file's name: a tab for ``.tsv``, a comma otherwise."""
    return b"\t" if path.lower().removesuffix(".gz").endswith(".tsv") else b","


def header(path: str, opened: Callable[[str], Any] | None = None) -> list[str]:
    """Return the names in the first line of a file, which are public.

    An unnamed column is called by its place, ``column3``. A message here may speak of the first line and of no other.
    """
    with (opened or _opened)(path) as file:
        line = file.readline(_HEADER + 1)
    name = Path(path).name
    if not line.strip():
        raise InvalidData(f"{name} has no names in its first line")
    if len(line) > _HEADER:
        raise InvalidData(f"the first line of {name} is too long to hold the names of columns")
    line = line.removeprefix(b"\xef\xbb\xbf").removesuffix(b"\n").removesuffix(b"\r")
    if b"\x00" in line:
        raise InvalidData(f"{name} is not UTF-8 (it may be UTF-16); save it as UTF-8")
    if b"\r" in line:  # then the first line holds records, and no message may name its cells
        raise InvalidData(f"the lines of {name} end in carriage returns alone; save it with line feeds")
    line = line.translate(_LENT)
    try:
        result = [cell.decode("utf-8").strip() for cell in cells(line, separator_of(path))]
    except UnicodeDecodeError:
        raise InvalidData(f"the names in the first line of {name} are not UTF-8; save it as UTF-8") from None
    if len(result) == 1 and (marks := [mark for mark in ";\t|" if mark in result[0]]):
        raise InvalidData(
            f"the first line of {name} is one name with {marks[0]!r} in it: save the file with commas between its "
            "cells and points, not commas, in its numbers"
        )
    if all(_is_number(cell) for cell in result):
        raise InvalidData(f"the first line of {name} holds numbers; it must hold the names of the columns")
    names = [cell or f"column{place}" for place, cell in enumerate(result, 1)]
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


def longest_line(names: Sequence[str]) -> int:
    """Return how many bytes of a line are read, by the names in the first one, which are public."""
    return max(LONGEST, A_NAME * len(names))


def line_batches(
    paths: Sequence[str], longest: int, opened: Callable[[str], Any] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the records of files as batches of one column ``line``: cells without quotes between separators.

    Of a line, so many bytes are read as `longest` says.
    """
    for path in paths:
        separator = separator_of(path)
        with (opened or _opened)(path) as file:
            while (first := file.readline(_CHUNK)) and not first.endswith(b"\n"):
                continue
            for lines in _whole_lines(file.read, longest):
                yield pa.record_batch([_strings(separated(lines, separator))], ["line"])


def _whole_lines(read: Callable[[int], bytes], longest: int) -> Iterator[bytes]:
    """Yield pieces of a file that end where a line ends, with a line feed at the end of every line."""
    remainder = b""
    while chunk := read(_CHUNK):
        lines, feed, remainder = (remainder + chunk).rpartition(b"\n")
        if feed:
            yield _tidy(lines + feed, longest)
        remainder = remainder[: longest + 1]  # a carriage return may follow
    if remainder:
        yield _tidy(remainder + b"\n", longest)


def _tidy(lines: bytes, longest: int) -> bytes:
    """Return lines that end in a line feed alone, none too long, and hold neither NUL nor the separator."""
    lines = lines.replace(b"\r\n", b"\n").translate(_LENT)
    ends = np.flatnonzero(np.frombuffer(lines, np.uint8) == _END)
    starts = np.concatenate([[0], ends[:-1] + 1])
    pieces, copied = [], 0
    for line in np.flatnonzero(ends - starts > longest):  # few: each is longer than `longest`
        pieces.append(lines[copied : starts[line] + longest])
        copied = ends[line]
    return b"".join([*pieces, lines[copied:]])


def cells(line: bytes, separator: bytes) -> list[bytes]:
    """Return the cells of one line: the rule itself, one cell after the other.

    >>> cells(b'a,"b ""c"" d"e,f"g,"h,i', b",")
    [b'a', b'b "c" de', b'f"g', b'h,i']
    """
    result: list[bytes] = []
    position = 0
    while True:
        cell = b""
        if line.startswith(b'"', position):
            # Where the quotes close: none in a pair. One pass, for a line of nothing but quotes takes as long as any.
            close = _CLOSING.match(line, position + 1).end()  # type: ignore[union-attr]  # it fits every text
            cell = line[position + 1 : close].replace(b'""', b'"')
            if close == len(line):
                return [*result, cell]
            position = close + 1
        end = line.find(separator, position)
        if end < 0:
            return [*result, cell + line[position:]]
        result.append(cell + line[position:end])
        position = end + 1


def _strings(lines: bytes) -> pa.StringArray:
    """Return lines as texts: bytes that are no UTF-8 become U+FFFD, and a line feed among them stays one."""
    lines = lines.decode("utf-8", "replace").encode()
    ends = np.flatnonzero(np.frombuffer(lines, np.uint8) == _END)
    offsets = np.zeros(len(ends) + 1, dtype=np.int32)
    offsets[1:] = ends - np.arange(len(ends))
    return pa.StringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(lines.replace(b"\n", b"")))
