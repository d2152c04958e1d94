"""The register of audited cases: every mechanism, each on the pair of data sets that is worst for it.

The example of every registered mechanism is a case, a stranger's too, and so it is on records that no table should
hold; `sottovoce.audit.cases_conjugate` has those of the conjugate systems. More are registered by a decorator::

    @case("noisy counts, first chain", tight=True)
    def first_chain() -> Subject: ...
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from sottovoce.audit.check_reading import InMemory, typical_records
from sottovoce.audit.subject import Subject, subject_of
from sottovoce.mechanisms.mechanism import MECHANISMS
from sottovoce.privacy.errors import InvalidValue

__all__ = ["Case", "all_cases", "case", "find_case"]

Build = Callable[[], Subject]


@dataclass(frozen=True)
class Case:
    """A mechanism to audit.

    Attributes
    ----------
    name
        What it is called; also how it is asked for.
    build
        Returns the subject, built anew each time.
    tight
        Whether the claim is the supremum itself and the pair attains it, so that a good attack must come near.
    slow
        Whether draws take long; when all cases are audited, this one has a tenth of them.
    one_in
        One in how many of the draws it has then, where a tenth would still take too long.
    """

    name: str
    build: Build = field(repr=False)
    tight: bool = False
    slow: bool = False
    one_in: int | None = None

    def share(self, draws: int) -> int:
        """Return how many of `draws` this case has when all are audited.

        >>> Case("quick", Subject).share(50_000), Case("slow", Subject, slow=True, one_in=25).share(50_000)
        (50000, 2000)
        """
        return draws // (self.one_in or (10 if self.slow else 1))


_REGISTER: dict[str, Case] = {}


def case(name: str, *, tight: bool = False, slow: bool = False, one_in: int | None = None) -> Callable[[Build], Build]:
    """Register the decorated function as the case `name`."""

    def register(build: Build) -> Build:
        _REGISTER[name] = Case(name, build, tight, slow, one_in)
        return build

    return register


def all_cases() -> dict[str, Case]:
    """Return every case by name, in the order of their modules."""
    _load()
    try:
        return _of_mechanisms() | _REGISTER
    except ImportError as error:
        raise InvalidValue(
            f"auditing everything needs more ({error}): pip install 'sottovoce[data,regression]'"
        ) from None


def _load() -> None:
    importlib.import_module("sottovoce.audit.cases_conjugate")  # which imports this module


def _of_mechanisms() -> dict[str, Case]:
    return {item.name: item for word in MECHANISMS.kinds for item in _examples(word)}


ODD = {
    "the largest number and none": (sys.float_info.max, math.nan),
    "the smallest number and one far off": (5e-324, -1e155),
}
"""Pairs of cells that no table should hold, and any may."""


def _examples(word: str) -> Iterator[Case]:
    yield Case(f"{word}, example", partial(_example, word, None), slow=True)
    for odd in ODD:
        yield Case(f"{word}, {odd}", partial(_example, word, odd), slow=True)


def _example(word: str, odd: str | None) -> Subject:
    """Return the audit of an example, on its worst pair or with a first record all of whose cells are odd."""
    mechanism = MECHANISMS[word].example()
    if odd is None:
        return subject_of(mechanism, name=f"{word}, example")
    first, *_ = typical_records(mechanism.reading)
    item, other = (InMemory([(cell,) * len(first), *[first] * (mechanism.n - 1)]) for cell in ODD[odd])
    return subject_of(mechanism, (item, other), name=f"{word}, {odd}")


def find_case(name: str) -> Case:
    """Return the case called `name`, or say which there are."""
    _load()
    if name in _REGISTER:
        return _REGISTER[name]
    known = all_cases()
    if name not in known:
        raise InvalidValue(f"no audited case is called {name!r}; known: {'; '.join(known)}")
    return known[name]
