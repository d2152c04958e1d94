"""Run the notebooks of the documentation, and store what they print and draw: ``python docs/run_notebooks.py [NAME]``.

A notebook is a page in ``docs/notebooks``: Python blocks, each followed by an ``output`` block with what it printed
when it was last run here. A Jupyter notebook is written beside it. The tests of the pages run every block again.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "notebooks"
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:```output\n(.*?)^```\n)?", re.S | re.M)


def cells(page: str) -> list[tuple[str, str, str]]:
    r"""Return the cells of a page: ``markdown`` or ``code``, its text, and what the code printed.

    >>> cells("Two:\n\n```python\nprint(2)\n```\n```output\n2\n```\n")
    [('markdown', 'Two:', ''), ('code', 'print(2)', '2\n')]
    """
    parts, end = [], 0
    for block in BLOCK.finditer(page):
        parts += [("markdown", page[end : block.start()].strip(), ""), ("code", block[1].rstrip("\n"), block[2] or "")]
        end = block.end()
    return [cell for cell in (*parts, ("markdown", page[end:].strip(), "")) if cell[1]]


def jupyter(page: str) -> str:
    """Return a page as a Jupyter notebook (format 4.5), with the outputs that are stored in it."""
    listed: list[dict[str, Any]] = []
    for place, (kind, text, printed) in enumerate(cells(page)):
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{place}", "metadata": {}, "source": text}
        if kind == "code":
            outputs = [{"output_type": "stream", "name": "stdout", "text": printed}] if printed else []
            cell |= {"execution_count": None, "outputs": outputs}
        listed.append(cell)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    state = {"cells": listed, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(state, indent=1, ensure_ascii=False) + "\n"


def executed(page: str) -> str:
    """Return the page with what its code prints now; it runs in the current folder."""
    names: dict[str, Any] = {"__name__": "__main__"}

    def run(block: re.Match[str]) -> str:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block[1], "notebook", "exec"), names)
        said = "\n".join(line.rstrip() for line in printed.getvalue().splitlines())
        return f"```python\n{block[1]}```\n" + (f"```output\n{said}\n```\n" if said else "")

    return BLOCK.sub(run, page)


def main(wanted: list[str]) -> None:
    """Run the pages that are named, or all, and write them, their figures and their notebooks."""
    for path in sorted(FOLDER.glob("*.md")):
        if wanted and path.stem not in wanted:
            continue
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            page = executed(path.read_text(encoding="utf-8"))
            path.write_text(page, encoding="utf-8")
            path.with_suffix(".ipynb").write_text(jupyter(page), encoding="utf-8")
            for figure in Path().glob("*.png"):
                (FOLDER / "figures").mkdir(exist_ok=True)
                (FOLDER / "figures" / figure.name).write_bytes(figure.read_bytes())
        print(f"{path.stem}: run, {path.stat().st_size:,} characters")


if __name__ == "__main__":
    main(sys.argv[1:])
