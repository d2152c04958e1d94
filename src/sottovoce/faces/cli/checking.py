"""`sottovoce check`: everything about the promises that can be computed, integrated, counted or watched."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from sottovoce.audit.checks import all_checks, known_checks
from sottovoce.faces.cli.auditing import VIOLATED
from sottovoce.faces.cli.console import AsJson, console, emit, table


def check(
    names: Annotated[list[str] | None, typer.Argument(help="Checks by name, or `list`; all by default.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check this very installation: densities, samplers, noise, spending, randomness; exit code 8 if one fails.

    A check that needs an extra which is not installed is not tried, and says which.
    """
    if names == ["list"]:
        if as_json:
            emit(list(known_checks()))
        else:
            console.print(table("Checks", ("name",), [(name,) for name in known_checks()]))
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=as_json) as bar:
        task = bar.add_task("checking", total=1.0)
        results = all_checks(names or None, advance=lambda fraction: bar.update(task, completed=fraction))
    if as_json:
        emit([result.to_dict() for result in results])
    else:
        words = {
            True: Text("passed", "green"),
            False: Text("failed", "bold red"),
            None: Text("not tried", "yellow"),
        }
        rows = [(r.name, words[r.passed], r.evidence) for r in results]
        console.print(table("What needs no attack", ("check", "", "evidence"), rows, left=3))
    if any(result.passed is False for result in results):
        raise typer.Exit(VIOLATED)
