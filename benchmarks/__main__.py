"""Run every benchmark, each beside a peer or a raw engine: `python -m benchmarks [--quick] [--write] [NAME ...]`."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.memory import Peak
from benchmarks.page import PAGE, Area, write
from benchmarks.timing import collected, console

NOT_AREAS = ("__main__", "fitting", "memory", "timing", "page")
_FLAGS = ("--quick", "--write", "-h", "--help")
NAMES = [
    module.name
    for module in pkgutil.iter_modules([str(Path(__file__).parent)])
    if module.name not in NOT_AREAS and not module.ispkg
]


def run(name: str, *, quick: bool, words: Sequence[str] = ()) -> Area:
    """Run one area, with the words of its own command line if there are any, and return what it showed."""
    console.rule(f"[bold]{name}")
    module = importlib.import_module(f"benchmarks.{name}")
    start, peak = time.perf_counter(), Peak()
    with collected() as tables:
        module.command(words) if words else module.main(quick=quick)
    seconds, memory = time.perf_counter() - start, str(peak)
    console.print(f"[dim]{seconds:.0f} s, {memory}[/dim]\n")
    return Area.of(module, tables, seconds=seconds, quick=quick, memory=memory)


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words for all areas, and those for the one that is named first, whose command line has its own.

    >>> split(["sharp", "--only", "means", "--write"])
    (['sharp', '--write'], ['--only', 'means'])
    >>> split(["ledger", "tables", "--quick"])
    (['ledger', 'tables', '--quick'], [])
    """
    first = next((k for k, word in enumerate(words) if word.startswith("-") and word not in _FLAGS), len(words))
    its = [word for word in words[first:] if word not in _FLAGS]
    return [*words[:first], *(word for word in words[first:] if word in _FLAGS)], its


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], help=f"which: {', '.join(NAMES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="smaller sizes")
    parser.add_argument("--write", action="store_true", help=f"put the tables into {PAGE.parent.name}/{PAGE.name}")
    known, words = split(sys.argv[1:])
    arguments = parser.parse_args(known)
    for name in arguments.names or NAMES:
        area = run(name, quick=arguments.quick, words=words)
        if arguments.write:
            write(area)
