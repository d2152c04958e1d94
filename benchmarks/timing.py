"""Timing and tables for the benchmarks: the best of several repeats, and ratios to a peer in the same run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table

console = Console(highlight=False, width=120)


def best(call: Callable[[], object], repeats: int = 7, seconds: float = 0.15) -> float:
    """Return the fastest mean time of one call, in seconds."""
    call()
    start = time.perf_counter()
    call()
    number = max(1, int(seconds / repeats / max(time.perf_counter() - start, 1e-9)))
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(number):
            call()
        times.append((time.perf_counter() - start) / number)
    return min(times)


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, header_style="dim")
    for index, name in enumerate(columns):
        table.add_column(name, justify="left" if index == 0 else "right")
    for row in rows:
        table.add_row(*row)
    console.print(table)
    console.print()
