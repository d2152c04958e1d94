"""Dummy records: made up from the facts alone, to try code on before a budget is spent."""

from __future__ import annotations

import csv
import datetime
import functools
import io
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import real, whole
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts.columns import Category, Column, Count, Day, Flag, Number, Person, Vector

_MOST = 10_000_000


def dummy_columns(
    facts: Mapping[str, Column], n: int = 100, seed: int = 0, missing: float = 0.0
) -> dict[str, list[object]]:
    """Return made-up values for every column of the facts, evenly spread over what the facts allow.

    Parameters
    ----------
    facts
        What is public of the columns.
    n, seed
        How many records; the same seed makes the same ones.
    missing
        What share of the values to leave out, of every column but the person's.

    Examples
    --------
    >>> made = dummy_columns({"smoker": Flag(), "ward": Category(["A", "B"])}, n=50, seed=1)
    >>> list(made), set(made["ward"]) == {"A", "B"}
    (['smoker', 'ward'], True)
    """
    n, share = whole("n", n, 0, _MOST), real("missing", missing)
    if share > 1:
        raise InvalidValue(f"missing is a share of the values, from 0 to 1. Got {share:g}")
    rng, built = seeded_rng(seed), {}
    for name, column in facts.items():
        for part, values in _values(column, name, n, rng).items():
            holes = rng.random(n) < share if not isinstance(column, Person) else np.zeros(n, dtype=bool)
            built[part] = [None if hole else value for value, hole in zip(values, holes, strict=True)]
    return built


def dummy_csv(facts: Mapping[str, Column], n: int = 100, seed: int = 0, missing: float = 0.0) -> str:
    """Return `dummy_columns` as the text of a CSV file; what is missing is empty."""
    built = dummy_columns(facts, n, seed, missing)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(built)
    writer.writerows([_written(value) for value in row] for row in zip(*built.values(), strict=True))
    return text.getvalue()


def _written(value: object) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


@functools.singledispatch
def _values(column: Any, name: str, n: int, rng: np.random.Generator) -> dict[str, list[Any]]:
    raise InvalidValue(f"nobody has said how to make up {name!r}, a {column.word}")


@_values.register
def _(column: Category, name: str, n: int, rng: np.random.Generator) -> dict[str, list[Any]]:
    return {name: [column.categories[place] for place in rng.integers(len(column.categories), size=n)]}


@_values.register
def _(column: Number, name: str, n: int, rng: np.random.Generator) -> dict[str, list[Any]]:
    digits = int(3 - math.floor(math.log10(column.high - column.low)))
    drawn = (round(value, digits) for value in rng.uniform(column.low, column.high, n).tolist())
    return {name: [min(max(value, column.low), column.high) for value in drawn]}


@_values.register
def _(column: Count, name: str, n: int, rng: np.random.Generator) -> dict[str, list[Any]]:
    return {name: rng.integers(column.high + 1, size=n).tolist()}


@_values.register
def _(column: Flag, name: str, n: int, rng: np.random.Generator) -> dict[str, list[Any]]:
    return {name: (rng.random(n) < 0.5).tolist()}


@_values.register
def _(column: Day, name: str, n: int, rng: np.random.Generator) -> dict[str, list[Any]]:
    span = (column.last - column.first).days + 1
    return {name: [column.first + datetime.timedelta(days=int(day)) for day in rng.integers(span, size=n)]}


@_values.register
def _(column: Person, name: str, n: int, rng: np.random.Generator) -> dict[str, list[Any]]:
    return {name: [f"person-{place + 1}" for place in range(n)]}


@_values.register
def _(column: Vector, name: str, n: int, rng: np.random.Generator) -> dict[str, list[Any]]:
    ways = rng.normal(size=(n, len(column.of)))
    lengths = column.radius * rng.random(n) ** (1 / len(column.of))
    places = ways / np.maximum(np.linalg.norm(ways, axis=1, keepdims=True), 1e-300) * lengths[:, None]
    return {part: places[:, place].tolist() for place, part in enumerate(column.of)}
