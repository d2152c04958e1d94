"""Run every benchmark, each beside a peer or a raw engine: `python -m benchmarks [--quick] [--write] [NAME ...]`."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import time
from pathlib import Path

from benchmarks.memory import Peak
from benchmarks.page import PAGE, Area, write
from benchmarks.timing import collected, console

NOT_AREAS = ("__main__", "fitting", "memory", "timing", "page")
NAMES = [
    module.name
    for module in pkgutil.iter_modules([str(Path(__file__).parent)])
    if module.name not in NOT_AREAS and not module.ispkg
]


def run(name: str, *, quick: bool) -> Area:
    """Run one area and return what it showed."""
    console.rule(f"[bold]{name}")
    module = importlib.import_module(f"benchmarks.{name}")
    start, peak = time.perf_counter(), Peak()
    with collected() as tables:
        module.main(quick=quick)
    seconds, memory = time.perf_counter() - start, str(peak)
    console.print(f"[dim]{seconds:.0f} s, {memory}[/dim]\n")
    return Area.of(module, tables, seconds=seconds, quick=quick, memory=memory)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], help=f"which: {', '.join(NAMES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="smaller sizes")
    parser.add_argument("--write", action="store_true", help=f"put the tables into {PAGE.parent.name}/{PAGE.name}")
    arguments = parser.parse_args()
    for name in arguments.names or NAMES:
        area = run(name, quick=arguments.quick)
        if arguments.write:
            write(area)
