"""`sottovoce facts`: a template of what is public about a table, from its names and types alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sottovoce.cli.console import AsJson, console, emit
from sottovoce.facts import facts_template, read_facts
from sottovoce.privacy.errors import InvalidValue

__all__ = ["facts"]


def facts(
    data: Annotated[str, typer.Argument(help="A Parquet, CSV or Arrow file, a database address, or facts in TOML.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The TOML file to write; never over one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a template of the public facts of a table, to be filled in. Reads the names and types of its columns only.

    Of a TOML file, check that it is filled in.
    """
    if data.endswith(".toml"):
        known = read_facts(data)
        emit(known.to_dict()) if as_json else console.print(f"[green]sound[/]: {len(known)} columns in {data}")
        return
    from sottovoce.tables import open_table  # noqa: PLC0415 - an extra

    with open_table(data) as table:
        schema = table.schema
    text = facts_template(schema)
    if output is not None:
        _write(output, text)
    if as_json:
        emit({"columns": schema, "template": text})
    elif output is None:
        print(text, end="")
    else:
        console.print(f"{len(schema)} columns in {output}; fill in every ?, then use --facts {output}")


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InvalidValue(f"{path} is there already, and a person may have filled it in; name another") from None
    except OSError as error:
        raise InvalidValue(f"cannot write {path}: {error.strerror}") from None
