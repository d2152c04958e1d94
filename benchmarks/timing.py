"""Tables of ratios to a peer in the same run: printed as they are made, and kept for whoever collects them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from benchmarks.peers.clock import best

__all__ = ["Shown", "best", "collected", "console", "show"]

console = Console(highlight=False, width=120)
_LEAST = 24
"""The first column names what is measured, and is not squeezed below this by the others."""
_collections: list[list[Shown]] = []


@dataclass(frozen=True)
class Shown:
    """One table of results, and what a reader must know to read it."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def as_rich(self) -> Table:
        """Return the table for a terminal."""
        table = Table(title=self.title, title_justify="left", title_style="bold", box=None, header_style="dim")
        for index, name in enumerate(self.columns):
            table.add_column(name, justify="left" if index == 0 else "right", min_width=0 if index else _LEAST)
        for row in self.rows:
            table.add_row(*row)
        return table


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> None:
    """Print a table, and hand it to whoever is collecting."""
    shown = Shown(title, tuple(columns), tuple(tuple(row) for row in rows), note)
    console.print(shown.as_rich())
    if note:
        console.print(f"[dim]{note}[/dim]")
    console.print()
    for collection in _collections:
        collection.append(shown)


@contextmanager
def collected() -> Iterator[list[Shown]]:
    """Collect the tables shown inside the block."""
    tables: list[Shown] = []
    _collections.append(tables)
    try:
        yield tables
    finally:
        _collections.remove(tables)
