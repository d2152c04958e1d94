"""`sottovoce explain`: what a promise or a ledger means, in plain words."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sottovoce.answers.explaining import explain as explained
from sottovoce.cli.console import AsJson, console, emit, escape
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import parse_promise

__all__ = ["explain"]


def explain(
    what: Annotated[str, typer.Argument(help="A promise such as approx:1,1e-6, or the path or address of a ledger.")],
    baseline: Annotated[float, typer.Option(help="How often a guess comes true without the release.")] = 0.01,
    plot: Annotated[Path | None, typer.Option(help="Write a picture of it to this PNG or SVG file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say what a promise means, in words that a patient understands. Reads no data and spends nothing."""
    if Path(what).exists() or "://" in what:
        from sottovoce.ledger import Ledger  # noqa: PLC0415 - opens a database

        with Ledger(what) as ledger:
            told = explained(ledger, baseline=baseline)
    else:
        told = explained(parse_promise(what), baseline=baseline)
    if plot is not None:
        try:
            told.plot().savefig(plot)
        except (OSError, ValueError) as error:
            raise InvalidValue(f"cannot write {plot}: {error}") from None
    if as_json:
        emit(told.to_dict())
        return
    console.print(f"[bold]{escape(told.title)}[/]\n")
    for sentence in told.sentences:
        console.print(escape(sentence) + "\n")
