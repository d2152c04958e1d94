"""`python -m papers`: the figures of the papers, and ours."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from papers.gallery import update_gallery
from papers.registry import Experiment, all_experiments, find
from papers.runner import Failure, Record, Request, run_experiments
from sottovoce.faces.cli.console import AsJson, console, emit, escape, table
from sottovoce.privacy.errors import InvalidValue

__all__ = ["reproduce"]


def reproduce(
    names: Annotated[list[str] | None, typer.Argument(help="Experiments, `all`, or `list`.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small run that shows the same.")] = False,
    seed: Annotated[int, typer.Option(help="The seed of the experiment.")] = 0,
    output: Annotated[Path, typer.Option(help="Where to write figures and tables.")] = Path("papers-output"),
    jobs: Annotated[int, typer.Option(min=1, help="How many processes may work at once.")] = os.cpu_count() or 1,
    again: Annotated[bool, typer.Option("--again", help="Run even what was run before.")] = False,
    drawn_from: Annotated[
        Path | None, typer.Option("--table", help="Draw the figure again from a table written before; runs nothing.")
    ] = None,
    gallery: Annotated[
        Path | None, typer.Option(help="Also take the outcomes into this gallery and write its pages.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run experiments and write their figures (PNG, and SVG unless quick) and numbers (CSV).

    What is done is kept under OUTPUT/.cache: a run that was stopped goes on where it stood.
    """
    try:
        known = all_experiments()
    except ImportError as error:
        raise InvalidValue(f"experiments need more than the core ({error}): pip install -e '.[dev]'") from None
    asked = names or ["list"]
    if asked == ["list"]:
        _list(known, as_json=as_json)
        return
    chosen = list(known) if asked == ["all"] else [find(name).name for name in asked]
    if drawn_from and len(chosen) > 1:
        raise InvalidValue("--table belongs to one experiment: name it")
    request = Request(output, quick, seed, jobs, again, drawn_from)
    results = _with_progress(chosen, known, request, silent=as_json)
    if gallery:
        finished = [result for result in results.values() if isinstance(result, Record)]
        update_gallery(finished, output, gallery, known)
    if as_json:
        emit({key: _plain(result, output) for key, result in results.items()})
    else:
        for key, result in results.items():
            _show(known[key], result, output)
    if any(isinstance(result, Failure) for result in results.values()):
        raise typer.Exit(1)


def _list(known: dict[str, Experiment], *, as_json: bool) -> None:
    if as_json:
        emit([{"name": e.name, "title": e.title, "source": e.source} for e in known.values()])
    else:
        rows = [(e.name, e.title, e.source) for e in known.values()]
        console.print(table("Experiments", ("name", "what it shows", "source"), rows, left=3))


def _with_progress(
    chosen: list[str], known: dict[str, Experiment], request: Request, *, silent: bool
) -> dict[str, Record | Failure]:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=silent) as progress:
        tasks: dict[str, TaskID] = {}

        def report(key: str, fraction: float) -> None:
            if key not in tasks:
                tasks[key] = progress.add_task(known[key].title, total=1.0)
            progress.update(tasks[key], completed=fraction, visible=fraction < 1)

        return run_experiments(chosen, request, report)


def _plain(result: Record | Failure, output: Path) -> dict[str, Any]:
    if isinstance(result, Failure):
        return {"error": result.error}
    return {
        "files": [str(output / file) for file in result.files],
        "findings": [vars(f) for f in result.findings],
        "notes": result.notes,
        "seconds": result.seconds,
        "cached": result.cached,
    }


def _show(each: Experiment, result: Record | Failure, output: Path) -> None:
    if isinstance(result, Failure):
        console.print(f"[bold]{each.title}[/] [red]failed[/]\n  {escape(result.error)}\n")
        return
    when = "done before" if result.cached else f"{result.seconds:.0f} s"
    console.print(f"[bold]{each.title}[/] [dim]({each.source}; {when})[/]")
    for finding in result.findings:
        mark = "[green]seen[/]    " if finding.holds else "[red]not seen[/]"
        console.print(f"  {mark} {escape(finding.claim)}\n           [dim]{escape(finding.evidence)}[/]")
    if result.notes:
        console.print(f"  {escape(result.notes)}")
    console.print(f"  [dim]{', '.join(str(output / file) for file in result.files)}[/]\n")
