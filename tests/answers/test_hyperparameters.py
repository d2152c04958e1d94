"""Every number that was chosen behind an answer is on the page that says what it is."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import sottovoce

ROOT = Path(sottovoce.__file__).parents[2]
CELLS, PAGE = Path(sottovoce.__file__).parent / "inference" / "cells", ROOT / "docs" / "theory" / "hyperparameters.md"
SEEDS = {"_SEED", "SEED"}


def chosen() -> Iterator[tuple[str, str]]:
    """Find the module constants that hold numbers: file and name."""
    for path in sorted(CELLS.glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and any(
                isinstance(part, ast.Constant) and isinstance(part.value, int | float) for part in ast.walk(node.value)
            ):
                parts = node.targets[0].elts if isinstance(node.targets[0], ast.Tuple) else node.targets
                yield from ((path.name, part.id) for part in parts if isinstance(part, ast.Name))


def test_the_page_names_every_constant_and_no_other() -> None:
    names = {name for _, name in chosen() if name.strip("_").isupper()} - SEEDS
    assert len(names) > 60
    page = set(re.findall(r"`(_?[A-Z][A-Z_]+)`", PAGE.read_text(encoding="utf-8")))
    assert not names - page, f"not on the page: {sorted(names - page)}"
    assert not page - names, f"no longer in the code: {sorted(page - names)}"
