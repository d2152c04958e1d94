"""Profile graphs and columns in files: JSON and CSV, text labels throughout."""

from __future__ import annotations

import csv
import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.theory.local.graph import ProfileGraph


def read_graph(profiles: Path, edges: str | None = None) -> ProfileGraph:
    """Read a profile graph, with text for every name and category.

    Parameters
    ----------
    profiles
        A JSON file in the form of `ProfileGraph.from_dict`, or a CSV file: names in the first column, then a column of
        probabilities for each category.
    edges
        ``complete``, ``chain``, or a CSV file with a header and two columns of names. A JSON file may have
        edges of its own.
    """
    state = _from_csv(profiles) if profiles.suffix.lower() == ".csv" else _from_json(profiles)
    if edges is not None:
        state["edges"] = edges if edges in ("complete", "chain") else _pairs(Path(edges))
    if "edges" not in state:
        raise InvalidValue(f"{profiles} has no edges; say which: complete, chain, or a CSV file of pairs")
    graph = ProfileGraph.from_dict(state)
    return ProfileGraph(
        {str(name): row for name, row in zip(graph.names, graph.exact, strict=True)},
        [(str(a), str(b)) for a, b in graph.edges],
        [str(category) for category in graph.categories],
    )


def _from_json(path: Path) -> dict[str, object]:
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InvalidData(f"{path} is not JSON: {error}") from None
    if not isinstance(state, dict):
        raise InvalidData(f"{path} must hold a JSON object with profiles and edges")
    return state


def _from_csv(path: Path) -> dict[str, object]:
    header, lines = _table(path)
    names = [line[0] for line in lines]
    if len(set(names)) < len(names):
        raise InvalidData(f"{path} names a profile twice")
    return {"categories": header[1:], "profiles": {line[0]: line[1:] for line in lines}}


def _pairs(path: Path) -> list[list[str]]:
    header, lines = _table(path)
    if len(header) != 2:
        raise InvalidData(f"{path} must have two columns of profile names. Got {len(header)}")
    return lines


def read_column(path: Path, *columns: str) -> list[list[str]]:
    """Return the named columns of a CSV file."""
    header, lines = _table(path)
    for column in columns:
        if column not in header:
            raise InvalidData(f"{path} has no column {column!r}; it has: {', '.join(header)}")
    return [[line[place] for line in lines] for place in map(header.index, columns)]


def _table(path: Path) -> tuple[list[str], list[list[str]]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.reader(file))
    except (csv.Error, UnicodeDecodeError) as error:
        raise InvalidData(f"{path} is not CSV: {error}") from None
    if not rows:
        raise InvalidData(f"{path} is empty; a header line is needed")
    header, lines = rows[0], [row for row in rows[1:] if row]
    ragged = next((row for row in lines if len(row) != len(header)), None)
    if ragged is not None:
        raise InvalidData(f"{path} has a line of {len(ragged)} fields under a header of {len(header)}")
    return header, lines


def write_column(path: Path, name: str, values: Iterable[object]) -> None:
    """Write one column as CSV; the file appears whole or not at all."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([[name], *([value] for value in values)])
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
