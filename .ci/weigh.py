"""Write what each package of this environment takes on disk to a page: ``python weigh.py PAGE``."""

from __future__ import annotations

import importlib.metadata
import re
import sys
from pathlib import Path

FOR = {
    "opendp": "the discrete Gaussian and Laplace noise of every noisy statistic",
    "scipy": "special functions, roots, optimisers",
    "numpy": "arrays",
    "python-flint": "ball arithmetic: exactly rounded samples",
    "sqlalchemy": "the ledger",
    "randomgen": "ChaCha20",
    "rich": "the command line's tables",
    "typer": "the command line",
}


def main() -> None:
    """Weigh every package, and write the heavy ones."""
    sizes: dict[str, float] = {}
    for one in importlib.metadata.distributions():
        files = [Path(str(file.locate())) for file in one.files or ()]
        sizes[one.metadata["Name"].lower()] = sum(file.stat().st_size for file in files if file.exists()) / 1e6
    heavy = sorted((name for name, size in sizes.items() if size >= 1), key=lambda name: -sizes[name])
    small = sum(size for size in sizes.values() if size < 1)
    rows = [f"| {name} | {sizes[name]:.0f} | {FOR.get(name, '')} |\n" for name in heavy]
    rows += [
        f"| {len(sizes) - len(heavy)} others | {small:.0f} | |\n",
        f"| **all** | **{sum(sizes.values()):.0f}** | |\n",
    ]
    page = Path(sys.argv[1])
    table = "| package | MB | for |\n| --- | --- | --- |\n" + "".join(rows)
    page.write_text(re.sub(r"(?:^\|.*\n)+", lambda _: table, page.read_text("utf-8"), count=1, flags=re.M), "utf-8")


if __name__ == "__main__":
    main()
