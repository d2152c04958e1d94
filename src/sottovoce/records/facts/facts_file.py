"""Facts in a TOML file beside the data, and the template that a person fills in."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.json_values import toml_file
from sottovoce.records.facts.facts import Facts

_FILL = "?"
"""What a template leaves to a person."""
_UNTYPED = "# A text file does not say what kind a column is, and records are not asked: say it, and what stands in ()."


def read_facts(path: str | os.PathLike[str]) -> Facts:
    """Read facts from a TOML file: one table a column, its ``kind`` first."""
    if not isinstance(path, str | os.PathLike):
        raise InvalidValue(f"facts are Facts(...) or the path of a TOML file. Got a {type(path).__name__}")
    place = Path(path)
    state = toml_file(place)
    for name, column in state.items():
        if isinstance(column, Mapping):
            if column and "kind" not in column and all(isinstance(item, Mapping) for item in column.values()):
                first = next(iter(column))
                raise InvalidValue(f"{place}: a column is a table of its own: write [{first}], not [{name}.{first}]")
            open_ = [key for key, value in column.items() if value in (_FILL, [_FILL])]
            if open_:
                raise InvalidValue(
                    f"{place}: {name} still needs {', '.join(open_)}; fill it in, or leave the column out"
                )
    return Facts.from_dict(state)


def facts_template(schema: Mapping[str, str], untyped: Collection[str] = ()) -> str:
    """Return a TOML file to fill in, from the names and types of the columns alone.

    Columns that are `untyped` hold text that is read as numbers where these are asked for, as those of a CSV file do.

    >>> print(facts_template({"age": "int64", "ward": "string", "sbp": "string"}, untyped=["sbp"]), end="")
    # What is public about this table. Fill in every "?", and leave out the columns that nobody may ask about.
    # Nothing here may be read off the data: write what you knew before you saw it.
    # Where a person may have several rows, the column that says whose a row is has kind = "person", and no more.
    # A text file does not say what kind a column is, and records are not asked: say it, and what stands in ().
    <BLANKLINE>
    [age] # int64; number (low, high), count (high), category (categories), person
    kind = "number"
    low = "?"
    high = "?"
    <BLANKLINE>
    [ward] # string; category (categories), day (first, last), flag, person
    kind = "category"
    categories = ["?"]
    <BLANKLINE>
    [sbp] # string; category (categories), day (first, last), flag, person, number (low, high), count (high)
    kind = "?"
    """
    lines = [
        '# What is public about this table. Fill in every "?", and leave out the columns that nobody may ask about.',
        "# Nothing here may be read off the data: write what you knew before you saw it.",
        '# Where a person may have several rows, the column that says whose a row is has kind = "person", and no more.',
    ]
    if untyped:
        lines.append(_UNTYPED)
    for name, kind in schema.items():
        shown = name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)
        lines += ["", *_column(shown, kind, untyped=name in untyped)]
    return "\n".join(lines) + "\n"


def _column(name: str, kind: str, *, untyped: bool) -> list[str]:
    if kind.startswith("bool"):
        return [f"[{name}] # {kind}", 'kind = "flag"']
    if kind.startswith(("date", "timestamp")):
        return [f"[{name}] # {kind}", 'kind = "day"', f'first = "{_FILL}"', f'last = "{_FILL}"']
    if kind.startswith(("int", "uint", "float", "decimal")):
        choices = "number (low, high), count (high), category (categories), person"
        return [f"[{name}] # {kind}; {choices}", 'kind = "number"', f'low = "{_FILL}"', f'high = "{_FILL}"']
    choices = "category (categories), day (first, last), flag, person"
    choices += ", number (low, high), count (high)" if untyped else ""
    if untyped:
        return [f"[{name}] # {kind}; {choices}", f'kind = "{_FILL}"']
    return [f"[{name}] # {kind}; {choices}", 'kind = "category"', f'categories = ["{_FILL}"]']
