"""Persons with many rows: whatever rows one has, in whatever order, they move an answer by one record's claim."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from sottovoce.audit.checks.result import check, verdict
from sottovoce.inference.cells.cell_noise import cell_noises, cell_profile
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Flag, Number
from sottovoce.records.facts.encodings import Encoding
from sottovoce.records.readings import PersonCells, PersonLook, PersonMoments, PersonRows, Statistics

__all__ = ["choices", "movements"]

_ROWS = 3
_SCALE = 3.0
_TIGHT = 0.9
"""Where a claim is exact, some pair of persons comes as near as this to it."""
_LINE = Encoding(("a",), (Number(-1, 1),), ((), ((0, -1),)))
_WARDS = (("A",), ("B",), ("C",), (None,))
_STAYS = (("A", 0.0), ("A", 2.0), ("B", 2.0), ("B", 0.0), (None, 1.0))
_LOOKED = ((-1.0, True), (1.0, True), (1.0, False), (-1.0, False), (0.2, True))


def _cases() -> Iterator[tuple[str, Any, Sequence[tuple[Any, ...]]]]:
    yield "shares", PersonCells((False,), (("A", "B", "C"),), (-1,)), _WARDS
    yield "rows", PersonRows((False,), (("A", "B", "C"),), (-1,), rows=_ROWS), _WARDS
    yield "means", PersonMoments((("A", "B"),), (-1,), measures=((0.0, 2.0),), fillers=(None,), squared=True), _STAYS
    shape = ((1.0, 0.0), (0.0, 1.0))
    yield "looks", PersonLook(_LINE, Flag(), "logistic", (0.4, -0.3), shape, 1.2, bits=10), _LOOKED


def _columns(rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _replaced(reading: Any, kinds: Sequence[tuple[Any, ...]]) -> list[Statistics]:
    """Return what is seen of three persons, of whom one has any rows, up to three more than count."""
    rest = [(*kinds[0], "other"), (*kinds[1], "other"), (*kinds[-1], "third")]
    found = []
    for number in range(1, _ROWS + 1):
        for own in itertools.combinations_with_replacement(kinds, number):
            found.append(reading.read(_columns([*[(*row, "me") for row in own], *rest])))
    many = [reading.read(_columns([*[(*kind, "me")] * 50, *rest])) for kind in kinds]
    return found + many


def _shares(reading: Any, gaps: Any) -> list[float]:
    """Return the farthest move as a share of each claim."""
    if isinstance(reading, PersonLook):
        found = []
        one = 2.0**reading.bits
        for scales in (
            {"score": one, "information": 9 * one**2, "meat": 9 * one**2},
            dict.fromkeys(reading.parts, one),
        ):
            root = {k: 1.0 if k in scales else math.sqrt(2) for k in reading.sizes}
            noise = [np.full(size, scales[k.removesuffix(" off")] / root[k]) for k, size in reading.sizes.items()]
            found.append(float(np.linalg.norm(gaps / np.concatenate(noise), axis=1).max()) / reading.joint(scales))
        return found
    noises = [np.repeat([n.scale for n in cell_noises(reading, kind, _SCALE)], reading.sizes) for kind in _KINDS]
    pure = np.abs(gaps / noises[0]).sum(axis=1).max() / cell_profile(reading, "laplace", _SCALE).pure()
    squares = ((gaps / noises[1]) ** 2).sum(axis=1).max()
    return [float(pure), math.sqrt(float(squares)) / cell_profile(reading, "gaussian", _SCALE).gdp()]


_KINDS: tuple[Any, ...] = ("laplace", "gaussian")


@check("a person moves an answer no farther than is claimed")
def movements() -> tuple[bool, str]:
    """All ways to give one person up to three rows, and fifty rows alike, against the claim for each noise."""
    problems, pairs, nearest = [], 0, {}
    for name, reading, kinds in _cases():
        seen = _replaced(reading, kinds)
        if {one.n for one in seen} != {3}:
            problems.append(f"{name}: three persons are counted as {seen[-1].n}")
            continue
        steps = np.array([reading.steps(one) for one in seen]).astype(np.float64)
        gaps = (steps[:, None] - steps[None]).reshape(-1, reading.size)
        pairs += len(gaps)
        shares = _shares(reading, gaps)
        nearest[name] = max(shares)
        if max(shares) > 1 + 1e-12:
            problems.append(f"{name}: a person moves {max(shares):.3g} of what is claimed")
        elif name in ("shares", "rows") and min(shares) < _TIGHT:
            problems.append(f"{name}: no person comes near the claim, {min(shares):.3g} of it at most")
    told = ", ".join(f"{name} {share:.3f}" for name, share in nearest.items())
    return verdict(problems, f"{pairs} pairs of persons, at most {told} of the claim")


@check("rows of a person are chosen by what they hold")
def choices() -> tuple[bool, str]:
    """Rows in another order, and a person's rows among those of others, give the same total."""
    problems, rng = [], seeded_rng(0)
    for name, reading, kinds in _cases():
        rows = [(*kinds[int(rng.integers(len(kinds)))], f"p{int(rng.integers(30))}") for _ in range(300)]
        first = reading.read(_columns(rows))
        for seed in range(3):
            order = seeded_rng(seed).permutation(len(rows))
            if reading.read(_columns([rows[i] for i in order])) != first:
                problems.append(f"{name}: another order of the rows gives another total")
                break
    return verdict(problems, "four readings, 300 rows in four orders")
