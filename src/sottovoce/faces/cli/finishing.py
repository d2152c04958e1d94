"""`sottovoce finish`: the answer of an entry that was paid for, whose records went away before any was read; free."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sottovoce.faces.cli import shared
from sottovoce.faces.cli.answer_output import deliver, of_regression, of_rows
from sottovoce.faces.cli.console import AsJson, emit, waiting
from sottovoce.faces.cli.output_files import check_places
from sottovoce.privacy.shares import read_share


def finish(
    data: shared.Data,
    entry: Annotated[int, typer.Argument(help="The number of its entry, as `ledger show` lists it.")],
    facts: shared.PublicFacts = None,
    ledger: shared.Beside = None,
    protect: shared.Protect = None,
    level: shared.Level = "95%",
    dataset: shared.DatasetName = None,
    plot: Annotated[Path | None, typer.Option(help="Also draw the answer into this file (PNG, SVG, PDF).")] = None,
    csv: shared.Csv = None,
    as_json: AsJson = False,
) -> None:
    """Make the answer of an entry that was paid for, and whose records went away before any was read: free."""
    from sottovoce.inference.cells.intervals import checked_level  # noqa: PLC0415 - needs the data extra
    from sottovoce.mechanisms import Release  # noqa: PLC0415

    certain = checked_level(read_share("--level", level))
    check_places(csv, plot=plot, kept=shared.places(data, facts, ledger))

    def no_budget(_: Any) -> Any:
        return lambda _: None

    with shared.curator_beside(data, facts, ledger, None, no_budget, protect, dataset=dataset) as curator:
        with waiting("finishing"):
            answer = curator.finish(entry, level=certain)
        remaining, whom = curator.left(), curator.whom
    if isinstance(answer, Release):
        emit(answer.to_dict())
        return
    beside = of_regression(answer, (), ()) if hasattr(answer, "contrast") else of_rows(answer, None)
    shown = {"dataset": curator.dataset, "left": remaining, "protects": whom}
    deliver(answer, beside, shown, f"It was paid for before. {remaining}.", (csv, plot), as_json=as_json)
