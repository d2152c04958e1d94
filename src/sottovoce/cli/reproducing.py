"""`sottovoce reproduce`: the figures of the papers, and ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from sottovoce.cli.console import AsJson, console, emit, table
from sottovoce.privacy.errors import InvalidValue

__all__ = ["reproduce"]


def reproduce(
    name: Annotated[str, typer.Argument(help="An experiment, `all`, or `list`.")] = "list",
    quick: Annotated[bool, typer.Option("--quick", help="A small run that shows the same.")] = False,
    seed: Annotated[int, typer.Option(help="The seed of the experiment.")] = 0,
    output: Annotated[Path, typer.Option(help="Where to write figures and tables.")] = Path("reproduce-output"),
    as_json: AsJson = False,
) -> None:
    """Run an experiment and write its figure (PNG, SVG) and its numbers (CSV)."""
    try:
        from sottovoce.experiments.registry import Setting, all_experiments, find  # noqa: PLC0415

        known = all_experiments()
    except ImportError as error:
        raise InvalidValue(f"experiments need more than the core ({error}): pip install 'sottovoce[dev]'") from None
    if name == "list":
        if as_json:
            emit([{"name": e.name, "title": e.title, "source": e.source} for e in known.values()])
        else:
            rows = [(e.name, e.title, e.source) for e in known.values()]
            console.print(table("Experiments", ("name", "what it shows", "source"), rows, left=3))
        return
    chosen = list(known.values()) if name == "all" else [find(name)]
    outcomes = {}
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=as_json) as progress:
        for each in chosen:
            task = progress.add_task(each.title, total=1.0)

            def advance(fraction: float, task: object = task) -> None:
                progress.update(task, completed=fraction)  # type: ignore[arg-type]

            outcomes[each.name] = each.run(Setting(output, quick, seed, advance))
            progress.remove_task(task)
    if as_json:
        emit(
            {
                key: {
                    "files": [str(f) for f in outcome.files],
                    "findings": [vars(f) for f in outcome.findings],
                    "notes": outcome.notes,
                }
                for key, outcome in outcomes.items()
            }
        )
        return
    for each in chosen:
        outcome = outcomes[each.name]
        console.print(f"[bold]{each.title}[/] [dim]({each.source})[/]")
        for finding in outcome.findings:
            mark = "[green]seen[/]    " if finding.holds else "[red]not seen[/]"
            console.print(f"  {mark} {finding.claim}\n           [dim]{finding.evidence}[/]")
        if outcome.notes:
            console.print(f"  {outcome.notes}")
        console.print(f"  [dim]{', '.join(str(f) for f in outcome.files)}[/]\n")
