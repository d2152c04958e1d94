"""The structure of the package: no circle of files, every place a registry names is there, one name one class."""

from __future__ import annotations

import ast
import importlib
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import networkx as nx
import pytest

import sottovoce

ROOT = Path(sottovoce.__file__).parent
FILES = {
    ".".join(("sottovoce", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(ROOT.rglob("*.py"))
}
TREES = {module: ast.parse(path.read_text(encoding="utf-8")) for module, path in FILES.items()}


def for_annotations_alone(tree: ast.AST) -> set[int]:
    """The nodes below ``if TYPE_CHECKING:``, which are never run."""
    guarded = (n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n.test))
    return {id(node) for guard in guarded for line in guard.body for node in ast.walk(line)}


def imported(module: str) -> Iterator[str]:
    """The files that a file imports when it runs, inside functions too."""
    skipped = for_annotations_alone(TREES[module])
    for node in ast.walk(TREES[module]):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in FILES else node.module for name in inner)


def circles(graph: Mapping[str, set[str]]) -> list[set[str]]:
    edges = nx.DiGraph([(module, other) for module, others in graph.items() for other in others])
    return [part for part in nx.strongly_connected_components(edges) if len(part) > 1]


def test_no_file_imports_itself_by_way_of_others() -> None:
    files = {module for module, path in FILES.items() if path.name != "__init__.py"}
    graph = {module: {other for other in imported(module) if other in files and other != module} for module in files}
    assert sum(map(len, graph.values())) > 2000
    assert circles(graph) == []


def test_a_circle_would_be_seen() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [{"a", "b", "c"}]


PLACE = re.compile(r"^sottovoce(?:\.\w+)+:\w+$")


def places() -> set[str]:
    """Every ``module:Name`` that stands in a string, also one put together from ``_HERE``."""
    found = set()
    for module, tree in TREES.items():
        here = next(
            (
                line.value.value
                for line in tree.body  # type: ignore[attr-defined]
                if isinstance(line, ast.Assign)
                and getattr(line.targets[0], "id", "") == "_HERE"
                and isinstance(line.value, ast.Constant)
            ),
            None,
        )
        for node in ast.walk(tree):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and PLACE.match(text):
                found.add(text)
        if here:
            source = FILES[module].read_text(encoding="utf-8")
            found |= {here + inner for inner in re.findall(r"\{_HERE\}((?:\.\w+)*:\w+)", source)}
    return found


def test_every_place_that_a_registry_names_is_there() -> None:
    named = places()
    assert len(named) > 100
    for place in sorted(named):
        module, _, name = place.partition(":")
        assert hasattr(importlib.import_module(module), name), place


def test_one_name_is_one_class() -> None:
    homes = defaultdict(set)
    for module, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                homes[node.name].add(module)
    assert len(homes) > 500
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


LINES = 400
"""A file that can be read in one sitting."""
LONGER = {
    "inference/regression/formula.py",
}
"""Files that are longer still, to be split; nothing is added here."""


def test_no_file_is_longer_than_one_sitting() -> None:
    """Split a longer one by idea; where one of `LONGER` was split, take it off the list."""
    lines = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8").count("\n") for path in FILES.values()}
    assert len(lines) > 600
    assert {path for path, count in lines.items() if count > LINES} <= LONGER


UNTYPED = 3360
"""How often `Any` is written; the number only falls, and is lowered where it did."""


def test_any_is_written_no_oftener_than_before() -> None:
    """Name the type: `object` where nothing is asked of a value, a protocol, an array, a `TypedDict`."""
    words = sum(len(re.findall(r"\bAny\b", path.read_text(encoding="utf-8"))) for path in FILES.values())
    assert words <= UNTYPED


@pytest.mark.parametrize("before", ["regression.formula", "answers.pooling", "ledger", "models.fit"])
def test_paths_of_before_lead_to_the_same_modules(before: str) -> None:
    module = importlib.import_module(f"sottovoce.{before}")
    assert module is importlib.import_module(module.__name__)
    assert module.__name__ != f"sottovoce.{before}"
    assert module.__spec__ is not None
    assert module.__spec__.name == module.__name__


def test_the_picture_of_the_wings_is_up_to_date() -> None:
    """Run ``python docs/draw_wings.py`` where this fails."""
    from docs.draw_wings import PICTURE, layers, picture

    assert PICTURE.read_text(encoding="utf-8") == picture()
    rooms = {(wing, room) for wing, rows in layers().items() for row in rows for room in row}
    source = Path(__file__).parents[1] / "src" / "sottovoce"
    assert rooms == {(path.parts[-3], path.parts[-2]) for path in source.glob("*/*/__init__.py")}
