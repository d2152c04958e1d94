"""Delimited text without its quotes: a finite automaton over bytes, run over blocks of them side by side.

Whether a quote opens a cell, closes one or stands for itself depends on all that comes before it in its line. A state
after each byte would take a loop over bytes. Instead each block of bytes is read as a function of the state before it,
all blocks in step, and functions compose (Hillis & Steele 1986, Data parallel algorithms, CACM 29). So the same work is
done for a byte whatever the quotes: none of them sends a line another, slower way.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

SEPARATOR = b"\x1f"
"""What stands between two cells once the quotes are gone."""

_QUOTE, _END = ord('"'), ord("\n")

_STATES = _START, _PLAIN, _QUOTED, _CLOSING = range(4)
"""Where a cell begins, in one without quotes, within quotes, and after a quote within quotes, which may close them."""
_AFTER_OTHER = (_PLAIN, _PLAIN, _QUOTED, _PLAIN)
_AFTER = (
    (_QUOTED, _PLAIN, _CLOSING, _QUOTED),  # a quote
    (_START, _START, _QUOTED, _START),  # a separator
    (_START, _START, _START, _START),  # the end of a line: no quote carries over
)
_IS_QUOTE, _IS_SEPARATOR, _IS_END = (2 * kind for kind in range(3))
"""A byte that counts, coded; one more where other bytes lie between it and the one that counts before."""

_ROOM = 8
"""Codes that fit beside a function's number in one byte: 6 of bytes, or 4 states with and without others between."""


def _functions() -> list[tuple[int, ...]]:
    """Return every function from the state before a block to the state after it, the one of no bytes first."""
    steps = [_step(code) for code in range(6)]
    functions: list[tuple[int, ...]] = [tuple(_STATES)]
    for function in functions:  # grows while it is gone through
        functions.extend({_then(function, step): None for step in steps if _then(function, step) not in functions})
    return functions


def _step(code: int) -> tuple[int, ...]:
    kind, others = divmod(code, 2)
    return tuple(_AFTER[kind][_AFTER_OTHER[state] if others else state] for state in _STATES)


def _then(function: Iterable[int], step: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(step[state] for state in function)


_FUNCTIONS = _functions()
_NEXT = np.zeros(len(_FUNCTIONS) * _ROOM, np.uint8)
"""The function (by its number times `_ROOM`) of a block and one byte more, at the block's function plus the code."""
_BEFORE = np.zeros(len(_FUNCTIONS) * _ROOM, np.uint8)
"""The state just before a byte that counts, at the function of its block so far plus twice the block's first state, and
one more where other bytes lie between."""
for _number, _function in enumerate(_FUNCTIONS):
    for _code in range(6):
        _NEXT[_number * _ROOM + _code] = _FUNCTIONS.index(_then(_function, _step(_code))) * _ROOM
    for _state in _STATES:
        _BEFORE[_number * _ROOM + 2 * _state] = _function[_state]
        _BEFORE[_number * _ROOM + 2 * _state + 1] = _AFTER_OTHER[_function[_state]]


def separated(lines: bytes, separator: bytes) -> bytes:
    r"""Return lines without their quotes, with `SEPARATOR` between cells; each line ends in a line feed.

    >>> separated(b'1,"a,b"\n2,5" pipe\n3,"b ""c"" d"e\n', b",")
    b'1\x1fa,b\n2\x1f5" pipe\n3\x1fb "c" de\n'
    """
    if b'"' not in lines:
        return lines.replace(separator, SEPARATOR)
    text = np.frombuffer(lines, np.uint8)
    place = np.flatnonzero((text == _QUOTE) | (text == separator[0]) | (text == _END))
    byte = text[place]
    others = np.diff(place, prepend=-1) > 1
    kind = np.where(
        byte == _QUOTE, np.uint8(_IS_QUOTE), np.where(byte == _END, np.uint8(_IS_END), np.uint8(_IS_SEPARATOR))
    )
    state = _states_before(kind + others)
    quoted = state == _QUOTED
    built = text.copy()
    built[place[(kind == _IS_SEPARATOR) & ~quoted]] = SEPARATOR[0]
    kept = np.ones(len(text), dtype=bool)
    kept[place[(kind == _IS_QUOTE) & (quoted | (state == _START))]] = False  # one that opens, or that may close
    return built[kept].tobytes()


def _states_before(codes: Any) -> Any:
    """Return the state just before each byte that counts: blocks are as long as there are blocks."""
    count = len(codes)
    length = math.isqrt(count - 1) + 1
    blocks = -(-count // length)
    padded = np.zeros(blocks * length, np.uint8)
    padded[:count] = codes
    columns = np.ascontiguousarray(padded.reshape(blocks, length).T)
    so_far = np.empty((length, blocks), np.uint8)
    function = np.zeros(blocks, np.uint8)
    for row, column in zip(so_far, columns, strict=True):
        row[:] = function
        function = _NEXT[function + column]
    state, firsts = _START, np.empty(blocks, np.uint8)
    for block, number in enumerate((function // _ROOM).tolist()):
        firsts[block] = state
        state = _FUNCTIONS[number][state]
    return _BEFORE[so_far + 2 * firsts + (columns & 1)].T.ravel()[:count]
