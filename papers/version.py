"""The version of an experiment: a digest of its own code and of all of ours that it stands on."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

__all__ = ["code_version", "modules_behind"]

_ROOT = Path(__file__).resolve().parents[1]
_PLACES = {"sottovoce": _ROOT / "src", "papers": _ROOT}
"""Where our packages lie in a checkout."""
_IMPORT = re.compile(r"^[ \t]*(?:from ([\w.]+) import (\([^)]*\)|.*)|import (.*))$", re.MULTILINE)
"""A statement that imports, wherever it stands. To parse every file takes ten times as long."""
_COMMENT = re.compile(r"#.*")


def code_version(module: str) -> str:
    """Return a digest that changes when the module, or any module of ours it imports, changes.

    Imports inside functions count too, and so do the packages on the way.

    Examples
    --------
    >>> code_version("sottovoce.privacy.errors") == code_version("sottovoce.records.readings.base")
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
    for source, several, plain in _IMPORT.findall(path.read_text(encoding="utf-8")) if path else ():
        listed = [part.split()[0] for part in _COMMENT.sub("", several or plain).strip("()").split(",") if part.strip()]
        names |= {source, *(f"{source}.{name}" for name in listed)} if source else set(listed)
    inside = {name for name in names if name.split(".")[0] in _PLACES}
    # Importing a.b.c runs the package a.b too. The root only passes names on: it counts where it is asked for.
    parents = {".".join(name.split(".")[:k]) for name in inside | {module} for k in range(2, name.count(".") + 1)}
    return frozenset(name for name in inside | parents if _file(name))


def _file(module: str) -> Path | None:
    place = _PLACES.get(module.split(".", maxsplit=1)[0])
    if place is None:
        return None
    base = place / module.replace(".", "/")
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.exists()), None)
