"""`sottovoce finish`: the answer of an entry that was paid for, whose records went away before any was read; free."""

from __future__ import annotations

from typing import Annotated

import typer

from sottovoce.faces.cli import shared
from sottovoce.faces.cli.answer_output import deliver, of_regression, of_rows
from sottovoce.faces.cli.console import emit, waiting
from sottovoce.faces.cli.option_groups import grouped


@grouped
def finish(
    source: shared.Source,
    entry: Annotated[int, typer.Argument(help="The number of its entry, as `ledger show` lists it.")],
    output: shared.Output,
) -> None:
    """Make the answer of an entry that was paid for, and whose records went away before any was read: free."""
    from sottovoce.mechanisms import Release  # noqa: PLC0415

    level = output.checked(*source.places)
    with source.curator(shared.unpaid) as curator:
        with waiting("finishing"):
            answer = curator.finish(entry, level=level)
        if isinstance(answer, Release):
            emit(answer.to_dict())
            return
        beside = of_regression(answer) if hasattr(answer, "contrast") else of_rows(answer, None)
        deliver(answer, beside, output, curator, "It was paid for before. ")
