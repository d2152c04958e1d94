"""`sottovoce facts`: a template of what is public about a table, and made-up records of the shape that it says."""

from __future__ import annotations

from collections.abc import Sized
from pathlib import Path
from typing import Annotated

import typer

from sottovoce.faces.cli.console import AsJson, console, emit, escape
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.shares import read_share
from sottovoce.records.facts import dummy_csv, facts_template, read_facts


def facts(
    data: Annotated[str, typer.Argument(help="A Parquet, CSV or Arrow file, a database address, or facts in TOML.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The TOML file to write; never over one.")
    ] = None,
    dummy: Annotated[
        int | None, typer.Option(help="Of facts in TOML: make up so many records of that shape, as CSV.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed makes up the same records.")] = 0,
    missing: Annotated[str, typer.Option(help="The share of made-up values to leave out, such as 10%.")] = "0%",
    as_json: AsJson = False,
) -> None:
    """Write a template of the public facts of a table, to be filled in. Reads the names and types of its columns only.

    Of a TOML file, check that it is filled in; or make up records of that shape, to try code on: nothing is read.
    """
    if dummy is not None:
        _dummy(data, dummy, seed, read_share("--missing", missing), output, as_json=as_json)
        return
    if data.endswith(".toml"):
        known = read_facts(data)
        sound = f"[green]sound[/]: {_columns(known)} in {escape(str(data))}"
        emit(known.to_dict()) if as_json else console.print(sound)
        return
    from sottovoce.records.tables import open_table  # noqa: PLC0415 - an extra

    with open_table(data) as table:
        schema, untyped = table.schema, table.untyped
    text = facts_template(schema, untyped)
    if output is not None:
        _write(output, text)
    if as_json:
        emit({"columns": schema, "template": text})
    elif output is None:
        print(text, end="")
    else:
        console.print(f"{_columns(schema)} in {output}; fill in every ?, then use --facts {output}", markup=False)


def _dummy(data: str, n: int, seed: int, missing: float, output: Path | None, *, as_json: bool) -> None:
    if not data.endswith(".toml"):
        raise InvalidValue("--dummy makes records up from facts alone; give the TOML file, not the data")
    known = read_facts(data)
    text = dummy_csv(known, n, seed, missing)
    if output is not None:
        _write(output, text)
    if as_json:
        emit({"n": n, "seed": seed, "csv": text if output is None else str(output)})
    elif output is None:
        print(text, end="")
    else:
        console.print(f"{n:,} made-up record{'' if n == 1 else 's'} of {_columns(known)} in {output}", markup=False)


def _columns(known: Sized) -> str:
    return f"{len(known):,} column{'' if len(known) == 1 else 's'}"


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InvalidValue(f"{path} is there already, and someone may need it; name another") from None
    except OSError as error:
        raise InvalidValue(f"cannot write {path}: {error.strerror}") from None
