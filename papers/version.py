"""The version of an experiment: a digest of its own code and of all of ours that it stands on."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

__all__ = ["code_version", "modules_behind"]

_ROOT = Path(__file__).resolve().parents[1]
_PLACES = {"sottovoce": _ROOT / "src", "papers": _ROOT}
"""Where our packages lie in a checkout."""


def code_version(module: str) -> str:
    """Return a digest that changes when the module, or any module of ours it imports, changes.

    Imports inside functions count too, and so do the packages on the way.

    Examples
    --------
    >>> code_version("sottovoce.privacy.errors") == code_version("sottovoce.readings.base")
    False
    """
    digest = hashlib.sha256()
    for name in sorted(modules_behind(module)):
        digest.update(f"{name}\n".encode() + _file(name).read_bytes())  # type: ignore[union-attr]
    return digest.hexdigest()[:16]


def modules_behind(module: str) -> set[str]:
    """Return the module and every module of ours that it needs, directly or not."""
    seen: set[str] = set()
    waiting = {module}
    while waiting:
        name = waiting.pop()
        seen.add(name)
        waiting |= _imports(name) - seen
    return seen


@cache
def _imports(module: str) -> frozenset[str]:
    path = _file(module)
    names: set[str] = set()
    for node in _statements(ast.parse(path.read_bytes())) if path else ():
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    inside = {name for name in names if name.split(".")[0] in _PLACES}
    # Importing a.b.c runs the package a.b too. The root only passes names on: it counts where it is asked for.
    parents = {".".join(name.split(".")[:k]) for name in inside | {module} for k in range(2, name.count(".") + 1)}
    return frozenset(name for name in inside | parents if _file(name))


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what stands in a module, in its functions and branches too, but no expression: they import nothing."""
    for part in ("body", "orelse", "finalbody", "handlers", "cases"):
        for one in getattr(node, part, ()):
            yield one
            yield from _statements(one)


def _file(module: str) -> Path | None:
    place = _PLACES.get(module.split(".", maxsplit=1)[0])
    if place is None:
        return None
    base = place.joinpath(*module.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.exists()), None)
