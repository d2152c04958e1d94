"""What the command line prints: tables for people, JSON for programs, one line for an error."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, Any

import typer
from rich.console import Console, Group, JustifyMethod
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sottovoce.privacy.errors import (
    BudgetExceeded,
    LedgerCorrupt,
    LedgerUnavailable,
    PromiseUnreachable,
    SottovoceError,
    SourceUnavailable,
    UnprovenPrivacy,
)
from sottovoce.privacy.lazy_imports import needing

__all__ = ["EXIT_CODES", "AsJson", "console", "emit", "escape", "exit_code", "fail", "number", "table", "waiting"]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]

EXIT_CODES: tuple[tuple[type[Exception], int, str], ...] = (
    (BudgetExceeded, 3, "the budget does not cover the release"),
    (UnprovenPrivacy, 4, "the privacy claim is unproven and was not accepted"),
    (LedgerCorrupt, 6, "the ledger was altered or damaged"),
    (LedgerUnavailable, 5, "the ledger cannot be opened, locked or written"),
    (SourceUnavailable, 9, "the data cannot be reached"),
    (PromiseUnreachable, 7, "no setting of the mechanism keeps the promise"),
    (SottovoceError, 2, "a wrong argument, file or value"),
)
"""Exit codes, most special error first; 0 is success, 1 a fault of ours, 130 an interruption."""

console = Console(highlight=False)
_errors = Console(stderr=True, highlight=False)


def exit_code(error: Exception) -> int:
    """Return the documented exit code of an error."""
    return next((code for kind, code, _ in EXIT_CODES if isinstance(error, kind)), 1)


def fail(error: Exception, *, as_json: bool) -> int:
    """Print an error in one line on stderr and return its exit code."""
    if isinstance(error, ModuleNotFoundError):
        error = needing(error)
    code = exit_code(error)
    message = " ".join(str(error).split())
    if code == 1:
        message = f"internal error: {type(error).__name__}: {message} (set SOTTOVOCE_DEBUG=1 to see where)"
    if as_json:
        print(json.dumps({"error": type(error).__name__, "message": message, "exit": code}), file=sys.stderr)
    else:
        _errors.print(f"[bold red]error[/] {escape(message)}", soft_wrap=True)
    if code == 1 and os.environ.get("SOTTOVOCE_DEBUG"):
        raise error
    return code


def waiting(what: str) -> AbstractContextManager[Any]:
    """Say on a terminal what is under way, until it is done; a file or a pipe is told nothing."""
    return _errors.status(f"{what} …") if _errors.is_terminal else nullcontext()


def emit(value: Any) -> None:
    """Print a value as JSON."""
    print(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def number(value: float | None, digits: int = 4) -> str:
    """Return a number for a table: short, ∞ where infinite, a dash where there is none."""
    if value is None:
        return "–"
    if value == float("inf"):
        return "∞"
    return f"{value:.{digits}g}"


def table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    left: int = 1,
    whole: Sequence[str] = (),
) -> Group:
    """Return a table in the house style; the first `left` columns are text, the rest numbers.

    Words stand as they are, brackets too: they may be a user's. What is coloured is a `Text`. The title has the whole
    line, however narrow the table is; what stands above numbers gives way before names do, names before numbers, the
    first of several last; those columns that are `whole` never do.
    """
    built = Table(header_style="dim", box=None, pad_edge=False)
    cells = [[Text(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    needed = [max((row[index].cell_len for row in cells), default=0) for index in range(len(columns))]
    tight = sum(map(max, needed, map(len, columns))) + 2 * (len(columns) - 1) > console.width
    for index, name in enumerate(columns):
        kept, number = name in whole or index == 0 < left - 1, index >= left
        most = max(needed[index], *map(len, name.split())) if number and tight and name else None
        justify: JustifyMethod = "right" if number else "left"
        built.add_column(escape(name), justify=justify, overflow="fold", no_wrap=kept, max_width=most)
    for row in cells:
        built.add_row(*row)
    return Group(Text(title, style="bold"), built) if title else Group(built)
