"""Names of a room that are imported when first asked for: a command loads what it uses."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazily"]


def lazily(room: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a room, given in which of its modules each name lives.

    >>> find = lazily("sottovoce.privacy", {"GaussianProfile": "gaussian"})
    >>> find("GaussianProfile").__module__
    'sottovoce.privacy.gaussian'
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        found = getattr(import_module(f"{room}.{homes[name]}"), name)
        setattr(sys.modules[room], name, found)
        return found

    return find
