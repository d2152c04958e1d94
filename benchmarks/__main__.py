"""Run every benchmark: `python -m benchmarks [--quick] [NAME ...]`."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
from pathlib import Path

from benchmarks.timing import console

NOT_RUN = ("__main__", "timing", "glm_peer")  # the peer needs an environment of its own
NAMES = [m.name for m in pkgutil.iter_modules([str(Path(__file__).parent)]) if m.name not in NOT_RUN]

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], help=f"which: {', '.join(NAMES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="smaller sizes")
    arguments = parser.parse_args()
    for name in arguments.names or NAMES:
        console.rule(f"[bold]{name}")
        importlib.import_module(f"benchmarks.{name}").main(quick=arguments.quick)
