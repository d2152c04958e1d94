"""Checks that need no attack: what can be computed, integrated, counted or watched is not sampled."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from functools import cache

from sottovoce.audit.checks.result import CHECKS, CheckResult
from sottovoce.privacy.errors import InvalidValue

__all__ = ["CheckResult", "all_checks", "known_checks", "run_check"]

_IDEAS = ("samplers", "exactness", "noise", "spending", "ledgers", "secrecy", "registered")
"""What may differ from one installation to the next: numerical libraries, randomness, the disk, plug-ins."""


def known_checks() -> dict[str, Callable[[], CheckResult]]:
    """Return every check by name."""
    # In the order of the ideas, whatever was imported first; what users registered comes last.
    place = {module: k for k, module in enumerate(_ideas())}
    return dict(sorted(CHECKS.items(), key=lambda item: place.get(item[1].__module__, len(place))))


@cache
def _ideas() -> tuple[str, ...]:
    """Import the ideas, and return their modules' names."""
    return tuple(importlib.import_module(f"{__name__}.{idea}").__name__ for idea in _IDEAS)


def run_check(name: str) -> CheckResult:
    """Run one check by its name.

    >>> run_check("releases use secure randomness").passed
    True
    """
    known = known_checks()
    if name not in known:
        raise InvalidValue(f"no check is called {name!r}; known: {', '.join(known)}")
    return known[name]()


def all_checks(
    names: Iterable[str] | None = None, *, advance: Callable[[float], None] | None = None
) -> tuple[CheckResult, ...]:
    """Run every check, or those named, and return what each says.

    `advance` is called with the fraction done.

    Examples
    --------
    >>> [result.passed for result in all_checks(["no cost below zero is charged", "releases use secure randomness"])]
    [True, True]
    """
    chosen = list(known_checks()) if names is None else list(names)
    results = []
    for k, name in enumerate(chosen, start=1):
        results.append(run_check(name))
        if advance:
            advance(k / len(chosen))
    return tuple(results)
