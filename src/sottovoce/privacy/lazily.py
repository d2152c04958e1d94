"""Names of a room that are imported when first asked for: a command loads what it uses."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazily"]


def lazily(room: str, homes: Mapping[str, Iterable[str]]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a room, given which names live in which of its modules.

    >>> find = lazily("sottovoce.privacy", {"gaussian": ("GaussianProfile",)})
    >>> find("GaussianProfile").__module__
    'sottovoce.privacy.gaussian'
    """
    place = {name: module for module, names in homes.items() for name in names}

    def find(name: str) -> Any:
        if name not in place:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        found = getattr(import_module(f"{room}.{place[name]}"), name)
        setattr(sys.modules[room], name, found)
        return found

    return find
