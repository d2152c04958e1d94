"""Checks that need no attack: what can be computed, integrated, counted or watched is not sampled."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from functools import cache
from importlib.util import find_spec

from sottovoce.audit.checks.result import CHECKS, CheckResult
from sottovoce.privacy.errors import InvalidValue

__all__ = ["CheckResult", "all_checks", "known_checks", "run_check"]

_IDEAS = (
    *("divergences", "samplers", "exactness", "noise", "calibration", "accounting"),
    *("spending", "ledgers", "secrecy", "local", "latent", "readings", "answers", "registered", "chains"),
    *("looks", "predictions", "tables", "rounding", "relations", "secrets_kept", "persons", "enumerated", "lines"),
)
_NEEDS = {
    "chains": ("jax", "sklearn"),
    "lines": ("jax",),
    "looks": ("jax", "formulaic"),
    "predictions": ("jax",),
    "rounding": ("jax",),
    "tables": ("ibis", "pyarrow"),
    "relations": ("jax", "formulaic"),
    "secrets_kept": ("ibis", "pyarrow"),
}


def known_checks() -> dict[str, Callable[[], CheckResult]]:
    """Return every check by name. Those of the regressions are left out where JAX is not installed, those of tables
    where Ibis is not.
    """
    # In the order of the ideas, whatever was imported first; what users registered comes last.
    place = {module: k for k, module in enumerate(_ideas())}
    return dict(sorted(CHECKS.items(), key=lambda item: place.get(item[1].__module__, len(place))))


@cache  # looking for packages takes longer than many a check
def _ideas() -> tuple[str, ...]:
    """Import the ideas whose packages are installed, and return their modules' names."""
    found = [idea for idea in _IDEAS if all(find_spec(package) for package in _NEEDS.get(idea, ()))]
    return tuple(importlib.import_module(f"{__name__}.{idea}").__name__ for idea in found)


def run_check(name: str) -> CheckResult:
    """Run one check by its name.

    >>> run_check("Rényi curves never fall, at any order").passed
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
    >>> [result.passed for result in all_checks(["every draw is charged", "a breach leaves what it says"])]
    [True, True]
    """
    chosen = list(known_checks()) if names is None else list(names)
    results = []
    for k, name in enumerate(chosen, start=1):
        results.append(run_check(name))
        if advance:
            advance(k / len(chosen))
    return tuple(results)
