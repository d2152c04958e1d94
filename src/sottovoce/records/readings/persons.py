"""Whose a row is, and what several rows of one person come to: maps that no row, and no order of rows, can sway."""

from __future__ import annotations

import hashlib
import numbers
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.errors import InvalidData

__all__ = ["averages", "chosen", "commonest", "shortest", "split_person", "whose"]

Whole = NDArray[np.int64]
_NUMBERS: Any = (numbers.Real, np.number, np.bool_)
_FRACTIONS: Any = (float, np.floating)
_LARGEST = 2.0**62
_LONGEST = 1000


def whose(identifiers: object) -> tuple[Whole, list[str]]:
    """Return a number for whom each row belongs to, -1 for nobody, and the identifiers as texts by that number.

    Who is called the same is the same person, in whatever types that comes (1, 1.0, "1"); what is missing, a fraction,
    or cannot be told from anything else, is nobody, and so is a double beyond 2⁶² or a decimal of 1,000 digits.

    >>> whose(["a", None, 1, "a", 1.0, "1"])
    (array([ 0, -1,  1,  0,  1,  1]), ['a', '1'])
    """
    if isinstance(identifiers, np.ndarray) and identifiers.dtype.kind in "iuU" and identifiers.ndim == 1:
        result, places = np.unique(identifiers, return_inverse=True)
        return places.astype(np.int64), [str(item) for item in result.tolist()]
    known: dict[str, int] = {}
    rows = np.fromiter((_place(item, known) for item in _listed(identifiers)), dtype=np.int64)
    return rows, list(known)


def _listed(identifiers: Any) -> Any:
    try:
        return identifiers.tolist() if hasattr(identifiers, "tolist") else list(identifiers)
    except TypeError:
        raise InvalidData("the persons must form a column, one a row") from None


def _place(key: object, known: dict[str, int]) -> int:
    try:
        if key is None or key != key:  # noqa: PLR0124 - NaN
            return -1
        hash(key)
        if isinstance(key, _NUMBERS) and not isinstance(key, np.timedelta64):
            if int(key) != key or (isinstance(key, _FRACTIONS) and not -_LARGEST <= key <= _LARGEST):
                return -1
            key = int(key)
        text = shortest(key) if isinstance(key, Decimal) else str(key)
        return known.setdefault(text, len(known))
    except Exception:  # what cannot be compared or hashed is nobody
        return -1


def shortest(number: Decimal) -> str:
    """Return a decimal number without zeros at its end, as an engine tells it; of 1,000 digits there is none.

    >>> shortest(Decimal("1.00")), shortest(Decimal("0.50")), shortest(Decimal("1e3"))
    ('1', '0.5', '1000')
    """
    if not number:
        return "0"
    if number.is_finite() and abs(number.adjusted()) > _LONGEST:  # digits without end
        raise OverflowError
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def split_person(records: Any, columns: int) -> tuple[list[Any], Whole, list[str]]:
    """Return the other columns of a list of them, and whose each row is: the last column says."""
    if isinstance(records, dict) or not hasattr(records, "__len__") or len(records) != columns:
        raise InvalidData(f"this reading takes a list of {columns} columns, the person last")
    *others, last = list(records)
    rows, texts = whose(last)
    if any(len(column) != rows.size for column in others if hasattr(column, "__len__")):
        raise InvalidData("every column must have one value a record; these have different lengths")
    return others, rows, texts


def commonest(person: Whole, cell: Whole, sums: Sequence[Whole]) -> tuple[Whole, list[Whole]]:
    """Return, of every person there is, the cell that most of their rows are in, and the averages over those rows.

    Where two cells have as many, the first of them. Averages are rounded to whole numbers, halves to even.

    >>> commonest(np.array([5, 5, 5, 9]), np.array([1, 0, 1, 0]), [np.array([4, 9, 7, 2])])
    (array([1, 0]), [array([6, 2])])
    """
    if not person.size:
        return np.zeros(0, dtype=np.int64), [np.zeros(0, dtype=np.int64) for _ in sums]
    order = np.lexsort((cell, person))
    person, cell = person[order], cell[order]
    starts = np.flatnonzero(np.r_[True, (np.diff(person) != 0) | (np.diff(cell) != 0)])
    rows = np.diff(np.r_[starts, person.size])
    whose_, where = person[starts], cell[starts]
    best = np.lexsort((where, -rows, whose_))
    best = best[np.r_[True, np.diff(whose_[best]) != 0]]
    parts = [np.add.reduceat(part[order].astype(np.int64), starts) for part in sums]
    return where[best], [averages(part[best], rows[best]) for part in parts]


def averages(sums: Any, rows: Any) -> Whole:
    """Return sums over how many they are of, to the nearest whole number; 0 of none."""
    return np.asarray(np.rint(sums.astype(np.float64) / np.maximum(rows, 1)).astype(np.int64))


def chosen(person: Whole, cell: Whole, names: Sequence[str], rows: int, key: str) -> Any:
    """Return which rows are among the `rows` of their person whose hash comes first.

    The hash is that of the key, the person, what the row holds and which of its like it is (the first, the second, …),
    so rows that are alike may change places, and nothing else may.
    """
    order = np.lexsort((cell, person))
    place = np.arange(person.size)
    new = np.r_[True, (np.diff(person[order]) != 0) | (np.diff(cell[order]) != 0)] if person.size else place > 0
    copy = np.empty(person.size, dtype=np.int64)
    copy[order] = place - np.maximum.accumulate(np.where(new, place, 0)) + 1
    digests = np.array(
        [
            hashlib.md5(f"{key}|{names[p]}|{c}|{j}".encode(), usedforsecurity=False).hexdigest()
            for p, c, j in zip(person.tolist(), cell.tolist(), copy.tolist(), strict=True)
        ],
        dtype="U32",
    )
    order = np.lexsort((copy, cell, digests, person))
    new = np.r_[True, np.diff(person[order]) != 0] if person.size else place > 0
    rank = np.empty(person.size, dtype=np.int64)
    rank[order] = place - np.maximum.accumulate(np.where(new, place, 0))
    return rank < rows
