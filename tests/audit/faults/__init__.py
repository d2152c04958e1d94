"""Planted faults: real patches of the real code, each with the checks that must catch it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from sottovoce.records.tables import table
from sottovoce.records.tables.query_plans import KeptPlans

__all__ = ["Fault", "all_faults", "fault", "planted"]

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Fault:
    """A fault, where it sits, and which checks catch it."""

    name: str
    where: str
    caught_by: tuple[str, ...]
    plant: Callable[[Patch], None] = field(repr=False)

    @property
    def place(self) -> tuple[str, int]:
        """The file and the line."""
        return self.plant.__code__.co_filename, self.plant.__code__.co_firstlineno


_FAULTS: dict[str, Fault] = {}


def fault(name: str, where: str, *caught_by: str) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    """Register the decorated function as the fault `name`; it plants the fault through a monkeypatch."""

    def register(plant: Callable[[Patch], None]) -> Callable[[Patch], None]:
        known = _FAULTS.get(name)
        # A room may be imported twice under two names (pytest looks for doctests), but no two faults share a name.
        assert known is None or known.place == Fault(name, where, caught_by, plant).place, name
        _FAULTS[name] = Fault(name, where, caught_by, plant)
        return plant

    return register


def all_faults() -> list[Fault]:
    """Return every fault, room by room in the order of the alphabet, as they stand in the file."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return sorted(_FAULTS.values(), key=lambda fault: fault.place)


@contextmanager
def planted(one: Fault) -> Iterator[None]:
    """Plant a fault for the length of a block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "_SHARED", KeptPlans(8))  # no query is kept from before the fault, and none of it after
        one.plant(patch)
        yield
