"""The register of experiments: a name, what it shows, and a function that draws it.

A module of this package holds one figure or table and registers it::

    @experiment("coverage", "Intervals that tell the truth", source="ours")
    def run(setting: Setting) -> Outcome: ...

`setting` says how much to do (`quick` or not), the seed, where to write and whom to tell of progress. An experiment
that takes long cuts its work into parts (parts.py), so that a run which was stopped goes on where it stood. One whose
numbers come from a larger machine also says how to draw its figure again from its table: ``redraw=``.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sottovoce.privacy.errors import InvalidValue

__all__ = ["Experiment", "Finding", "Outcome", "Setting", "all_experiments", "experiment", "find"]


@dataclass(frozen=True)
class Setting:
    """How an experiment is to be run."""

    output: Path
    quick: bool = False
    seed: int = 0
    advance: Callable[[float], None] = lambda fraction: None
    """Called with the fraction done, from 0 to 1."""
    cache: Path | None = None
    """Where finished parts are kept: a folder for this experiment, this size, this seed and this code alone."""
    jobs: int = 1
    """How many processes may work on the parts of one experiment."""

    def save(self, drawing: Any, name: str) -> tuple[Path, ...]:
        """Write a figure and return its files: a quick run, which is a trial, draws it coarsely and as PNG alone."""
        from sottovoce.inference.figures import save  # one that waits for others draws nothing

        if self.quick:
            return save(drawing, self.output / name, ("png",), dpi=70)
        return save(drawing, self.output / name)


@dataclass(frozen=True)
class Finding:
    """One claim, whether it is seen here, and the numbers behind the answer."""

    claim: str
    holds: bool
    evidence: str


@dataclass(frozen=True)
class Outcome:
    """What an experiment wrote (PNG, of a full run SVG, CSV) and what it found."""

    files: tuple[Path, ...]
    findings: tuple[Finding, ...] = ()
    notes: str = ""


@dataclass(frozen=True)
class Experiment:
    """A registered experiment."""

    name: str
    title: str
    source: str
    """The figure or table it redraws, such as `Geumlek 2020, Figure 5.3`, or `ours`."""
    run: Callable[[Setting], Outcome] = field(repr=False)
    redraw: Callable[[Path, Setting], Outcome] | None = field(default=None, repr=False)
    """Draws the figure and finds the findings from a table written before."""

    @property
    def about(self) -> str:
        """What is done, and how: the words at the head of the experiment's module."""
        return inspect.cleandoc(sys.modules[self.run.__module__].__doc__ or "")


_REGISTER: dict[str, Experiment] = {}


def experiment(
    name: str, title: str, *, source: str, redraw: Callable[[Path, Setting], Outcome] | None = None
) -> Callable[[Callable[[Setting], Outcome]], Callable[[Setting], Outcome]]:
    """Register the decorated function as the experiment `name`."""

    def register(run: Callable[[Setting], Outcome]) -> Callable[[Setting], Outcome]:
        _REGISTER[name] = Experiment(name, title, source, run, redraw)
        return run

    return register


def all_experiments() -> dict[str, Experiment]:
    """Return every experiment of this package by name, in alphabetical order."""
    package = importlib.import_module("papers")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return dict(sorted(_REGISTER.items()))


def find(name: str) -> Experiment:
    """Return the experiment called `name`, or say which there are."""
    for path in sorted(Path(__file__).parent.glob("*.py")):  # so that one does not wait until all are imported
        source = path.read_text(encoding="utf-8")
        if "@experiment(" in source and f'"{name}"' in source:
            importlib.import_module(f"papers.{path.stem}")
    known = _REGISTER if name in _REGISTER else all_experiments()
    if name not in known:
        raise InvalidValue(f"no experiment is called {name!r}; known: {', '.join(known)}")
    return known[name]
